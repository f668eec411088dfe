//! Triton's KServe gRPC: `ModelInfer` and `ModelStreamInfer` pass through as they are, and each request on a stream is a call of
//! its own, told from the others by its id.
//!
//! Only the few fields that a record needs are read from the wire (`grpc_service.proto` of KServe's protocol, version 2).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use rand::Rng;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tower::ServiceExt;

use super::Front;
use super::ask::Named;
use super::call::Follow;
use super::read::Output;
use super::relay::{TRACEPARENT, forwarded};
use crate::admit::parent;

/// Largest message that is read along, and most calls open on one stream.
const MESSAGE_MAX: usize = 1 << 20;
const CALLS_MAX: usize = 4_096;
/// Longest id of a call that is followed.
const ID_BYTES_MAX: usize = 256;

/// A channel to the engine's gRPC port; connected when it is first used.
pub(super) fn channel(url: &str, front: &super::Config) -> Result<Channel, tonic::transport::Error> {
    Ok(Endpoint::from_shared(url.to_owned())?.connect_timeout(front.connect_timeout).connect_lazy())
}

/// Whether the request is gRPC's.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/grpc"))
}

/// Passes one call of gRPC through, reading both ways along.
pub(super) async fn relay(front: Arc<Front>, channel: Channel, request: Request) -> Response {
    let is_stream = match request.uri().path().rsplit('/').next() {
        Some("ModelStreamInfer") => Some(true),
        Some("ModelInfer") => Some(false),
        _ => None,
    };
    let (mut parts, body) = request.into_parts();
    let trace = stay_in_trace(&mut parts.headers);
    let calls = is_stream.map(|streams| Arc::new(Mutex::new(Calls::new(&front, &parts.headers, streams, trace))));
    parts.headers = forwarded(&parts.headers, &[header::TE]);
    let sent = tonic::body::Body::new(match &calls {
        None => body,
        Some(calls) => {
            let (calls, mut frames) = (Arc::clone(calls), Frames::default());
            Body::new(body.map_frame(move |frame| {
                if let Some(data) = frame.data_ref() {
                    frames.read(data, |message| calls.lock().asked(message));
                }
                frame
            }))
        }
    });
    let answer = match channel.oneshot(http::Request::from_parts(parts, sent)).await {
        Ok(answer) => answer,
        Err(error) => {
            front.failed.inc();
            tracing::warn!(error = service::error::chain(&error), "the engine could not be reached");
            if let Some(calls) = calls {
                calls.lock().end(Some("upstream_unreachable"));
            }
            return Status::unavailable("the engine cannot be reached").into_http::<Body>().into_response();
        }
    };
    let (parts, body) = answer.into_parts();
    // An answer that is nothing but its end has its status among the headers.
    let ended = status(&parts.headers);
    let Some(calls) = calls else { return Response::from_parts(parts, Body::new(body)) };
    if let Some(code) = ended {
        calls.lock().end(refusal(code));
    }
    let mut frames = Frames::default();
    let broken = Arc::clone(&calls);
    let read = body.map_frame(move |frame| {
        if let Some(data) = frame.data_ref() {
            frames.read(data, |message| calls.lock().answered(message));
        } else if let Some(trailers) = frame.trailers_ref() {
            calls.lock().end(refusal(status(trailers).unwrap_or(UNKNOWN)));
        }
        frame
    });
    // An engine that breaks off sends no status.
    let read = read.map_err(move |error| {
        broken.lock().end(Some("upstream_unreachable"));
        error
    });
    Response::from_parts(parts, Body::new(read))
}

/// Where the caller names no trace, one is begun and passed on, so that what the engine says of the calls is told from other calls.
/// The trace, if it begins here.
fn stay_in_trace(headers: &mut HeaderMap) -> Option<u128> {
    if parent(headers).is_some() {
        return None;
    }
    let mut rng = rand::rng();
    let (trace, span) = (rng.random_range(1..=u128::MAX), rng.random_range(1..=u64::MAX));
    headers.insert(TRACEPARENT, HeaderValue::from_str(&format!("00-{trace:032x}-{span:016x}-01")).ok()?);
    Some(trace)
}

/// gRPC's code for what nobody knows.
const UNKNOWN: i32 = 2;

fn status(headers: &HeaderMap) -> Option<i32> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}

/// Whose fault a status is; `None` for success.
fn refusal(code: i32) -> Option<&'static str> {
    match code {
        0 => None,
        1 => Some("cancelled"),
        3 | 5 | 6 | 7 | 9 | 11 | 16 => Some("client_error"),
        8 => Some("rate_limited"),
        4 => Some("timeout"),
        _ => Some("engine_error"),
    }
}

/// The calls of one stream.
struct Calls {
    front: Arc<Front>,
    headers: HeaderMap,
    streams: bool,
    /// The trace of its calls, where it began here.
    trace: Option<u128>,
    /// Whether this engine marks the last answer of a call.
    marks: bool,
    /// By id, the oldest first; ids may repeat, and may be empty.
    open: HashMap<String, VecDeque<Follow>>,
    count: usize,
}

impl Calls {
    fn new(front: &Arc<Front>, headers: &HeaderMap, streams: bool, trace: Option<u128>) -> Self {
        let (front, headers) = (Arc::clone(front), headers.clone());
        Self { front, headers, streams, trace, marks: false, open: HashMap::new(), count: 0 }
    }

    /// A request went to the engine.
    fn asked(&mut self, message: &[u8]) {
        let (mut model, mut id) = (None, String::new());
        let read = fields(message, |number, field| match (number, field) {
            (1, Field::Bytes(bytes)) => model = std::str::from_utf8(bytes).ok(),
            (3, Field::Bytes(bytes)) => id = String::from_utf8_lossy(bytes).into_owned(),
            _ => {}
        });
        if read.is_none() || self.count >= CALLS_MAX || id.len() > ID_BYTES_MAX {
            return;
        }
        let named = Named { model, id: Some(&id), streams: self.streams, trace: self.trace };
        let follow = self.front.follow(&self.headers, &named);
        self.open.entry(id).or_default().push_back(follow);
        self.count += 1;
    }

    /// An answer came from the engine.
    fn answered(&mut self, message: &[u8]) {
        let (mut error, mut inner) = (None, None);
        if self.streams {
            fields(message, |number, field| match (number, field) {
                (1, Field::Bytes(bytes)) if !bytes.is_empty() => {
                    error = Some(String::from_utf8_lossy(bytes).into_owned())
                }
                (2, Field::Bytes(bytes)) => inner = Some(bytes),
                _ => {}
            });
        } else {
            inner = Some(message);
        }
        let answer = inner.and_then(Answer::read).unwrap_or_default();
        self.marks |= answer.is_marked;
        let Some(same) = self.open.get_mut(answer.id) else { return };
        let others_wait = same.len() > 1;
        let Some(follow) = same.front_mut() else { return };
        follow.output(&answer.output);
        let error = error.filter(|error| !error.is_empty());
        // Where nothing is marked and others of that id wait, each answer is a whole one, as models give that are not decoupled.
        let is_whole = !self.streams || !self.marks && others_wait;
        if answer.is_last || error.is_some() || is_whole {
            let kind = error.as_ref().map(|_| "engine_error");
            follow.finish(kind, error);
            same.pop_front();
            self.count -= 1;
            if same.is_empty() {
                self.open.remove(answer.id);
            }
        }
    }

    /// The stream is over; what is still open ended with it.
    fn end(&mut self, kind: Option<&'static str>) {
        for mut follow in self.open.drain().flat_map(|(_, same)| same) {
            match kind {
                None => follow.finish_at_last_chunk(),
                Some(kind) => follow.finish(Some(kind), Some(kind.replace('_', " "))),
            }
        }
        self.count = 0;
    }
}

/// What an answer holds for the record.
#[derive(Default)]
struct Answer<'a> {
    id: &'a str,
    is_last: bool,
    /// Whether it says if it is the last.
    is_marked: bool,
    output: Output<'a>,
}

impl<'a> Answer<'a> {
    /// Reads a `ModelInferResponse`.
    fn read(message: &'a [u8]) -> Option<Self> {
        let mut answer = Self::default();
        let (mut names, mut contents, mut raw) = (Vec::new(), Vec::new(), Vec::new());
        fields(message, |number, field| match (number, field) {
            (1, Field::Bytes(bytes)) => answer.output.model = std::str::from_utf8(bytes).ok(),
            (3, Field::Bytes(bytes)) => answer.id = std::str::from_utf8(bytes).unwrap_or_default(),
            (4, Field::Bytes(bytes)) => {
                let mark = last(bytes);
                answer.is_marked |= mark.is_some();
                answer.is_last |= mark == Some(true);
            }
            (5, Field::Bytes(bytes)) => {
                let (name, inside) = tensor(bytes);
                names.push(name);
                contents.push(inside);
            }
            (6, Field::Bytes(bytes)) => raw.push(bytes),
            _ => {}
        })?;
        for (at, name) in names.into_iter().enumerate() {
            let bytes = raw.get(at).copied();
            match name {
                b"text_output" => answer.output.text_bytes = Some(bytes.map_or_else(|| contents[at], text_bytes)),
                b"num_output_tokens" => answer.output.tokens = bytes.and_then(number),
                b"num_input_tokens" => answer.output.input_tokens = bytes.and_then(number),
                _ => {}
            }
        }
        Some(answer)
    }
}

/// Triton's mark of the last answer, `triton_final_response`, if the parameter is that.
fn last(entry: &[u8]) -> Option<bool> {
    let (mut name, mut value) = (&b""[..], false);
    fields(entry, |number, field| match (number, field) {
        (1, Field::Bytes(bytes)) => name = bytes,
        (2, Field::Bytes(bytes)) => {
            fields(bytes, |number, field| value |= matches!((number, field), (1, Field::Number(1))));
        }
        _ => {}
    });
    (name == b"triton_final_response").then_some(value)
}

/// Name of an output tensor, and the length of the texts that lie in it.
fn tensor(message: &[u8]) -> (&[u8], usize) {
    let (mut name, mut length) = (&b""[..], 0);
    fields(message, |number, field| match (number, field) {
        (1, Field::Bytes(bytes)) => name = bytes,
        (5, Field::Bytes(bytes)) => {
            fields(bytes, |number, field| {
                if let (8, Field::Bytes(text)) = (number, field) {
                    length += text.len();
                }
            });
        }
        _ => {}
    });
    (name, length)
}

/// Length of raw texts: each has four bytes with its length before it.
fn text_bytes(raw: &[u8]) -> usize {
    let (mut rest, mut sum) = (raw, 0_usize);
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some(after) = after.get(length..) else { return sum };
        sum += length;
        rest = after;
    }
    sum
}

/// A raw unsigned number of 4 or 8 bytes.
fn number(raw: &[u8]) -> Option<u64> {
    match raw.len() {
        4 => Some(u32::from_le_bytes(raw.try_into().ok()?).into()),
        8 => Some(u64::from_le_bytes(raw.try_into().ok()?)),
        _ => None,
    }
}

/// One field of a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Goes through the fields of a message. `None` if it is none.
fn fields<'a>(message: &'a [u8], mut each: impl FnMut(u64, Field<'a>)) -> Option<()> {
    let mut rest = message;
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut rest)?),
            1 => take(&mut rest, 8).map(|_| Field::Other)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Field::Bytes(take(&mut rest, length)?)
            }
            5 => take(&mut rest, 4).map(|_| Field::Other)?,
            _ => return None,
        };
        each(tag >> 3, field);
    }
    Some(())
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

/// Messages of one direction: a flag, four bytes of length, the message; however they are cut on the way.
#[derive(Default)]
struct Frames {
    pending: Vec<u8>,
    /// Bytes of a message that is too long to be read.
    skip: usize,
}

impl Frames {
    fn read(&mut self, data: &[u8], mut each: impl FnMut(&[u8])) {
        let skipped = self.skip.min(data.len());
        self.skip -= skipped;
        self.pending.extend_from_slice(&data[skipped..]);
        let mut at = 0;
        while let Some((head, rest)) = self.pending[at..].split_first_chunk::<5>() {
            let [flag, length @ ..] = *head;
            let length = u32::from_be_bytes(length) as usize;
            if length > MESSAGE_MAX {
                self.skip = length.saturating_sub(rest.len());
                at = (at + 5 + length).min(self.pending.len());
                continue;
            }
            let Some(message) = rest.get(..length) else { break };
            // A compressed message passes unread.
            if flag == 0 {
                each(message);
            }
            at += 5 + length;
        }
        self.pending.drain(..at);
    }
}

#[cfg(test)]
mod tests;
