//! Triton's KServe gRPC: `ModelInfer` and `ModelStreamInfer` pass through as they are, and each request on a stream is a call of
//! its own, told from the others by its id.
//!
//! ```text
//! requests -> held -> a turn for each -> engine
//!                                          | answers -> read along -> client
//! ```
//!
//! A single call is refused where too many wait already. On a stream a request waits however many do: the next ones stay with the
//! client meanwhile, so that no more than one of a stream is held here.

mod calls;
mod frame;
mod message;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use rand::Rng;
use service::hop::{TRACEPARENT, TraceContext};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tower::ServiceExt;

use self::calls::{Calls, patiently};
use self::frame::{Frames, Held, Part, readable};
use super::Front;
use super::relay::forwarded;
use super::send::of_http;
use super::turn::Turns;
use crate::serve::Fault;

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
    let streams = match request.uri().path().rsplit('/').next() {
        Some("ModelStreamInfer") => true,
        Some("ModelInfer") => false,
        _ => return pass(&front, channel, request).await,
    };
    let patience = front.config.idle_timeout;
    let (mut parts, body) = request.into_parts();
    let trace = stay_in_trace(&mut parts.headers);
    let calls = Arc::new(Mutex::new(Calls::new(&front, &parts.headers, streams, trace)));
    parts.headers = forwarded(&parts.headers, &[header::TE]);
    front.sign.put(&mut parts.headers);
    let mut requests = Requests {
        body,
        held: Held::default(),
        calls: Arc::clone(&calls),
        turns: front.turns.clone(),
        streams,
        is_refused: false,
    };
    // The engine hears of a single call when its turn has come, since it may answer before it has read anything. A stream is
    // opened at once: its client may wait for that before it asks.
    let first = if streams { None } else { requests.next().await };
    if requests.is_refused {
        return Status::resource_exhausted("the node is full; try again in a second").into_http::<Body>();
    }
    let sent = tonic::body::Body::new(Body::from_stream(stream::iter(first).chain(requests.stream())));
    let answer = patiently(&calls, patience, channel.oneshot(http::Request::from_parts(parts, sent))).await;
    let (kind, status) = match answer {
        Some(Ok(answer)) => return answered(calls, patience, answer),
        Some(Err(error)) => ("upstream_unreachable", unanswered(&error)),
        None => ("timeout", Status::deadline_exceeded("the engine did not answer in time")),
    };
    front.failed.inc();
    calls.lock().end(Some(kind));
    status.into_http::<Body>().into_response()
}

/// A call that the engine never hears of.
pub(super) fn refused(fault: &Fault) -> Response {
    Status::failed_precondition(fault.message()).into_http::<Body>()
}

/// A call that makes no tokens.
async fn pass(front: &Front, channel: Channel, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    parts.headers = forwarded(&parts.headers, &[header::TE]);
    front.sign.put(&mut parts.headers);
    let request = http::Request::from_parts(parts, tonic::body::Body::new(body));
    let status = match tokio::time::timeout(front.config.idle_timeout, channel.oneshot(request)).await {
        Ok(Ok(answer)) => return answer.map(Body::new),
        Ok(Err(error)) => unanswered(&error),
        Err(_) => Status::deadline_exceeded("the engine did not answer in time"),
    };
    front.failed.inc();
    status.into_http::<Body>().into_response()
}

/// What is said where no answer came.
fn unanswered(error: &tonic::transport::Error) -> Status {
    let message = match of_http(error) {
        None => "the engine cannot be reached",
        Some(_) => "the engine closed the connection before it answered, or its port speaks no gRPC",
    };
    tracing::warn!(error = service::error::chain(error), "{message}");
    Status::unavailable(message)
}

/// Requests on their way to the engine.
struct Requests {
    body: Body,
    held: Held,
    calls: Arc<Mutex<Calls>>,
    turns: Turns,
    streams: bool,
    /// Too many wait: nothing more goes to the engine.
    is_refused: bool,
}

impl Requests {
    fn stream(self) -> impl Stream<Item = Result<Bytes, axum::Error>> {
        stream::unfold(self, |mut requests| async move { Some((requests.next().await?, requests)) })
    }

    /// What goes to the engine next: a request once it has its turn. `None` at the end, or where it is refused.
    async fn next(&mut self) -> Option<Result<Bytes, axum::Error>> {
        loop {
            match self.held.next() {
                Some(Part::Message(framed)) => {
                    self.turn(readable(&framed)).await?;
                    return Some(Ok(framed));
                }
                Some(Part::Long) => {
                    self.turn(None).await?;
                    continue;
                }
                Some(Part::Piece(piece)) => {
                    self.calls.lock().moved();
                    return Some(Ok(piece));
                }
                None => {}
            }
            match self.body.frame().await {
                // A request of gRPC has no trailers.
                Some(Ok(frame)) => self.held.push(&frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.calls.lock().asked_all();
                    let rest = self.held.rest();
                    return (!rest.is_empty()).then_some(Ok(rest));
                }
            }
        }
    }

    /// Waits until the engine may have this call; `None` where it is refused.
    async fn turn(&mut self, message: Option<&[u8]>) -> Option<()> {
        let waiting = message.and_then(|message| self.calls.lock().asked(message));
        let turn = if self.streams { self.turns.wait().await } else { self.turns.take().await };
        let Some(turn) = turn else {
            if let Some(waiting) = waiting {
                waiting.refuse();
            }
            self.is_refused = true;
            return None;
        };
        self.calls.lock().begin(waiting, turn);
        Some(())
    }
}

/// The engine's answers as they come.
fn answered(calls: Arc<Mutex<Calls>>, patience: Duration, answer: http::Response<tonic::body::Body>) -> Response {
    let (parts, body) = answer.into_parts();
    // An answer that is nothing but its end has its status among the headers.
    if let Some(code) = status(&parts.headers) {
        calls.lock().end(refusal(code));
    }
    let trailers = Arc::new(Mutex::new(None));
    let answers = Answers { body, calls, patience, frames: Frames::default(), trailers: Arc::clone(&trailers) };
    let body = Body::from_stream(answers.stream()).with_trailers(async move { trailers.lock().take().map(Ok) });
    Response::from_parts(parts, Body::new(body))
}

struct Answers {
    body: tonic::body::Body,
    calls: Arc<Mutex<Calls>>,
    patience: Duration,
    frames: Frames,
    /// The end, once it has come.
    trailers: Arc<Mutex<Option<HeaderMap>>>,
}

impl Answers {
    fn stream(self) -> impl Stream<Item = Result<Bytes, Status>> {
        stream::unfold(Some(self), |answers| async move {
            let mut answers = answers?;
            match answers.next().await? {
                Ok(data) => Some((Ok(data), Some(answers))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// What goes to the client next; `None` at the end, whose trailers are there then.
    async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        let (kind, trailers) = match patiently(&self.calls, self.patience, self.body.frame()).await {
            Some(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => {
                    self.calls.lock().moved();
                    self.frames.read(&data, |message| self.calls.lock().answered(message));
                    self.calls.lock().is_within = self.frames.is_within();
                    return Some(Ok(data));
                }
                Err(end) => {
                    let trailers = end.into_trailers().ok();
                    (refusal(trailers.as_ref().and_then(status).unwrap_or(UNKNOWN)), trailers)
                }
            },
            // An engine that breaks off sends no status.
            Some(Some(Err(error))) => {
                self.calls.lock().end(Some("upstream_unreachable"));
                return Some(Err(error));
            }
            Some(None) => (refusal(UNKNOWN), None),
            None => (Some("timeout"), Some(silent())),
        };
        self.calls.lock().end(kind);
        *self.trailers.lock() = trailers;
        None
    }
}

/// The end of an answer within which the engine fell silent.
fn silent() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(Code::DeadlineExceeded as i32));
    trailers.insert("grpc-message", HeaderValue::from_static("the engine fell silent within its answer"));
    trailers
}

/// Where the caller names no trace, one is begun and passed on, so that what the engine says of the calls is told from other calls.
/// The trace, if it begins here.
fn stay_in_trace(headers: &mut HeaderMap) -> Option<u128> {
    if TraceContext::of(headers).is_some() {
        return None;
    }
    let mut rng = rand::rng();
    let (trace_id, span_id) = (rng.random_range(1..=u128::MAX), rng.random_range(1..=u64::MAX));
    headers.insert(TRACEPARENT, TraceContext { trace_id, span_id, flags: 1 }.header()?);
    Some(trace_id)
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

#[cfg(test)]
mod tests;
