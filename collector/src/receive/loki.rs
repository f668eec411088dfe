//! Loki's push API: streams of log lines, as Promtail, Alloy and Fluent Bit send them, become OTLP log records.
//!
//! ```text
//! body ─► read (bounded) ─► inflate (snappy, gzip; bounded) ─► walk ─► OTLP logs ─► intake
//! ```
//!
//! Labels of a stream become attributes of its resource, structured metadata becomes attributes of the record; a level
//! becomes the severity, a trace id the trace id. No time of arrival goes into the records, so that a push that comes
//! again is known by its bytes.

mod json;
mod labels;
mod protobuf;

#[cfg(test)]
mod tests;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use service::error::{Error, Result};

use super::Encoding;
use super::admit::Permit;
use super::answer::Failure;
use super::intake::{Intake, Raw};
use super::read::{self, Length};
use crate::decode::inflate::{Compression, InflateError, inflate};
use crate::encode::log::{Record, id};
use crate::encode::{attribute, group, log};
use crate::labels::canonical;
use crate::signal::Signal;

/// Scope of records that came this way.
const SCOPE: &str = "tokenwatt.loki";
/// Names under which senders give a line's level.
const LEVELS: [&str; 4] = ["level", "detected_level", "severity", "severity_text"];

/// Most labels of a stream and most structured metadata of a line; Loki itself allows 15 and 128 unless told otherwise.
const PAIRS_MAX: usize = 128;

/// How a push is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// `logproto.PushRequest` in a snappy block.
    Protobuf,
    /// JSON, perhaps in gzip.
    Json(Compression),
}

/// The push path; a trailing slash is forgiven.
pub(super) fn router(intake: &Intake) -> Router {
    let push = |State(intake): State<Intake>, request: Request| push(intake, request);
    Router::new()
        .route("/loki/api/v1/push", post(push))
        .route("/loki/api/v1/push/", post(push))
        .with_state(intake.clone())
}

async fn push(intake: Intake, request: Request) -> Response {
    let (parts, mut body) = request.into_parts();
    let read = match encoding(&parts.headers) {
        Ok(push) => {
            let declared = text(&parts.headers, header::CONTENT_LENGTH).parse();
            let length = declared.map_or(Length::Unknown, Length::Declared);
            intake.read(&parts, &mut body, length).await.map(|read| (push, read))
        }
        Err(error) => Err(error),
    };
    let (push, (bytes, permit, writer)) = match read {
        Ok(read) => read,
        Err(error) => {
            intake.refused(&error);
            // A sender in the middle of its body would be cut off and not read the answer.
            read::drain(&mut body).await;
            return fail(&error);
        }
    };
    let raw = match walk(push, bytes, permit, intake.body_bytes_max()).await {
        Ok(raw) => Raw { writer, ..raw },
        Err(error) => {
            intake.refused(&error);
            return fail(&error);
        }
    };
    match intake.take(raw).await {
        // Loki, too, answers so when it took the rest of a push.
        Ok(accepted) if accepted.rejected > 0 => (StatusCode::BAD_REQUEST, accepted.message).into_response(),
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => fail(&error),
    }
}

/// Turns a push into OTLP; off the threads that serve connections, since it may have megabytes.
async fn walk(push: Push, bytes: Bytes, mut permit: Permit, limit: usize) -> Result<Raw> {
    let walk = move || {
        let bytes = Bytes::from(translate(push, &bytes, limit, |more| permit.grow(more))?);
        let (encoding, compression) = (Encoding::Protobuf, Compression::Identity);
        Ok(Raw { signal: Signal::Logs, encoding, compression, bytes, permit, writer: None })
    };
    let walked = tokio::task::spawn_blocking(walk).await;
    walked.map_err(|error| Error::internal("read the push").with_source(error))?
}

/// Turns a push into the bytes of an OTLP logs request of at most `limit` bytes; `room` is asked before memory is taken.
///
/// # Errors
/// `TooLarge`, `Overloaded` if `room` says no, `Invalid`.
pub fn translate(push: Push, bytes: &Bytes, limit: usize, mut room: impl FnMut(usize) -> bool) -> Result<Vec<u8>> {
    let mut out = Out { bytes: Vec::new(), limit, paid: 0, room: &mut room };
    match push {
        Push::Protobuf => {
            let length =
                snap::raw::decompress_len(bytes).map_err(|error| broken("the body is no snappy block", error))?;
            if length > limit {
                return Err(read::too_large(limit));
            }
            if !(out.room)(length) {
                return Err(read::no_room());
            }
            let inflated = snap::raw::Decoder::new()
                .decompress_vec(bytes)
                .map_err(|error| broken("the body is no snappy block", error))?;
            protobuf::walk(&inflated, &mut out)?;
        }
        Push::Json(compression) => {
            let inflated = inflate(compression, bytes, limit, &mut *out.room).map_err(|error| match error {
                InflateError::TooLarge(limit) => read::too_large(limit),
                InflateError::NoRoom => read::no_room(),
                InflateError::Invalid(..) => broken("the body cannot be inflated", error),
            })?;
            json::walk(&inflated, &mut out)?;
        }
    }
    Ok(out.bytes)
}

fn broken(message: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::invalid(message).with_source(error)
}

/// The request as it grows, within its limit and its share of memory.
struct Out<'r> {
    bytes: Vec<u8>,
    limit: usize,
    paid: usize,
    room: &'r mut dyn FnMut(usize) -> bool,
}

/// Memory is asked for in steps of this size.
const STEP: usize = 64 * 1024;

/// One stream as it grows: who sends, and its records so far.
struct Stream<'a> {
    /// Encoded attributes of the resource.
    resource: Vec<u8>,
    level: Option<&'a str>,
    items: Vec<u8>,
}

impl<'a> Stream<'a> {
    fn new(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut stream = Self { resource: Vec::new(), level: None, items: Vec::new() };
        let mut written: Vec<&str> = Vec::new();
        for (label, value) in pairs {
            if LEVELS.contains(&label) {
                stream.level = Some(value);
            }
            let name = canonical(label);
            // Two labels may mean the same attribute; the second keeps its own name.
            let name = if written.contains(&name) { label } else { name };
            attribute(1, name, value, &mut stream.resource);
            written.push(name);
        }
        stream
    }

    /// Appends a line with its structured metadata.
    fn line<'l>(
        &mut self,
        time_ns: u64,
        line: &str,
        metadata: impl IntoIterator<Item = (&'l str, &'l str)>,
        out: &mut Out<'_>,
    ) -> Result<()> {
        let mut record = Record { time_ns, severity: self.level.unwrap_or_default(), body: line, ..Record::default() };
        for (name, value) in metadata {
            match (name, id(value)) {
                ("trace_id" | "traceId" | "traceID", Some(id)) if id.len() == 16 => record.trace_id = id,
                ("span_id" | "spanId" | "spanID", Some(id)) if id.len() == 8 => record.span_id = id,
                _ if LEVELS.contains(&name) && record.severity.is_empty() => record.severity = value,
                _ => record.attributes.push((name, value)),
            }
        }
        log::record(&record, &mut self.items);
        out.pay(self.items.len())
    }

    fn end(self, out: &mut Out<'_>) -> Result<()> {
        if !self.items.is_empty() {
            group(&self.resource, SCOPE, &self.items, &mut out.bytes);
        }
        out.pay(0)
    }
}

impl Out<'_> {
    /// Pays for what is written and what is about to be.
    fn pay(&mut self, pending: usize) -> Result<()> {
        let bytes = self.bytes.len() + pending;
        if bytes > self.limit {
            return Err(read::too_large(self.limit));
        }
        // Items lie in their stream and, at its end, in the request.
        if 2 * bytes > self.paid {
            let more = (2 * bytes - self.paid).max(STEP);
            if !(self.room)(more) {
                return Err(read::no_room());
            }
            self.paid += more;
        }
        Ok(())
    }
}

fn encoding(headers: &HeaderMap) -> Result<Push> {
    let media = text(headers, header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let coding = text(headers, header::CONTENT_ENCODING).trim();
    match (media.as_str(), coding) {
        // Loki's clients leave snappy unsaid: the protobuf encoding is always in it.
        ("" | "application/x-protobuf" | "application/protobuf", "" | "snappy") => Ok(Push::Protobuf),
        ("application/json", coding) => Compression::from_header(coding)
            .map(Push::Json)
            .ok_or_else(|| Error::invalid("content-encoding of JSON must be identity, gzip or zstd")),
        (_, "" | "snappy") => {
            Err(Error::invalid("content-type must be application/x-protobuf (with snappy) or application/json"))
        }
        _ => Err(Error::invalid("content-encoding of application/x-protobuf must be snappy")),
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// What Loki's clients expect: text, and for what may succeed later 429 or 503 with `Retry-After`.
fn fail(error: &Error) -> Response {
    let failure = Failure::of(error, rand::random());
    let status = StatusCode::from_u16(failure.http).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let mut response = (status, failure.message).into_response();
    if let Some(delay) = failure.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(delay.as_secs()));
    }
    response
}
