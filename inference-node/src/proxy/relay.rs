//! Sends a call to the engine and relays its answer as it comes.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use http_body_util::LengthLimitError;
use service::hop::{TRACEPARENT, end_to_end};
use telemetry::names;

use super::ask::{Kept, Strip, Taken, stripped};
use super::call::Follow;
use super::dialect::Form;
use super::turn::Turn;
use super::{Front, grpc};
use crate::serve::{BODY_MAX, Fault};

/// Longest line of a stream, and longest whole answer, that is read along.
const READ_MAX: usize = 1 << 20;

/// Every call. Its answer says how much there is to do, unless one nearer to the engine has said it.
pub(super) async fn relay(State(front): State<Arc<Front>>, request: Request) -> Response {
    let mut response = answered(Arc::clone(&front), request).await;
    if let Ok(load) = HeaderValue::try_from(front.load()) {
        response.headers_mut().entry(names::HEADER_LOAD).or_insert(load);
    }
    response
}

async fn answered(front: Arc<Front>, request: Request) -> Response {
    let arrival_ns = front.clock.now_ns();
    if front.closing.is_cancelled() {
        return Fault::closing().into_response();
    }
    if front.sign.is_on(request.headers()) {
        let fault = Fault::circle();
        tracing::warn!("{}", fault.message());
        return if grpc::is_grpc(request.headers()) { grpc::refused(&fault) } else { fault.into_response() };
    }
    if let Some(channel) = front.grpc.clone().filter(|_| grpc::is_grpc(request.headers())) {
        return grpc::relay(front, channel, request).await;
    }
    let (parts, body) = request.into_parts();
    let body = match axum::body::to_bytes(body, BODY_MAX).await {
        Ok(body) => body,
        Err(error) => return unread(&error).into_response(),
    };
    let form = if parts.method == Method::POST { Form::of(front.config.engine, parts.uri.path()) } else { None };
    let mut headers = forwarded(&parts.headers, &[]);
    front.sign.put(&mut headers);
    let Some((form, _)) = form else {
        return match front.send(&parts, headers, body).await {
            Ok(answer) => plain(answer),
            Err(unanswered) => unanswered.fault().into_response(),
        };
    };
    let Taken { parts, body, strip, mut follow, trace } = match front.take_in(parts, form, body, arrival_ns).await {
        Ok(taken) => taken,
        Err(fault) => return fault.into_response(),
    };
    if !strip.is_empty() {
        // Nothing could be taken out of a compressed answer.
        headers.remove(header::ACCEPT_ENCODING);
    }
    // The trace goes on, with this call's span as the parent.
    if let Some(value) = trace.header() {
        headers.insert(TRACEPARENT, value);
    }
    let Some(turn) = front.turns.take().await else {
        follow.turned_away();
        return Fault::overloaded().into_response();
    };
    if turn.queued {
        follow.dispatched();
    }
    match front.send(&parts, headers, body).await {
        Ok(answer) => followed(&front, answer, follow, strip, turn),
        Err(unanswered) => {
            front.failed.inc();
            follow.finish(Some(unanswered.kind()), Some(unanswered.message().to_owned()));
            unanswered.fault().into_response()
        }
    }
}

fn unread(error: &axum::Error) -> Fault {
    let is_too_large = error.source().is_some_and(|cause| cause.is::<LengthLimitError>());
    if is_too_large { Fault::too_large() } else { Fault::unread(error) }
}

/// Headers of the other side that go on, without those of its hop and our own.
pub(super) fn forwarded(headers: &HeaderMap, kept: &[HeaderName]) -> HeaderMap {
    let passed = end_to_end(headers, kept).filter(|(name, _)| name.as_str() != names::HEADER_FLEET_SECRET);
    passed.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// An answer that makes no tokens.
fn plain(answer: reqwest::Response) -> Response {
    let (status, headers) = (answer.status(), forwarded(answer.headers(), &[header::CONTENT_LENGTH]));
    let mut response = Response::new(Body::from_stream(answer.bytes_stream()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// An answer that is read along.
fn followed(
    front: &Arc<Front>,
    answer: reqwest::Response,
    mut follow: Follow,
    strip: Vec<Strip>,
    turn: Turn,
) -> Response {
    let status = answer.status();
    let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
    let coded = answer.headers().get(header::CONTENT_ENCODING);
    let is_readable = coded.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if answer.headers().contains_key(names::HEADER_LOAD) {
        follow.leave_tokens();
    }
    let number = |name: &str| answer.headers().get(name)?.to_str().ok()?.parse().ok();
    follow.headers(number("x-prompt-tokens"), number("x-generated-tokens"));
    let mut headers = forwarded(answer.headers(), &[header::CONTENT_LENGTH]);
    let strips = is_stream && is_readable && status.is_success() && !strip.is_empty();
    if strips {
        headers.remove(header::CONTENT_LENGTH);
    }
    let error = refusal(status.as_u16());
    if let Some(kind) = error {
        follow.refused(kind);
    }
    let mut relay = Relay {
        left: answer.content_length(),
        upstream: Box::pin(answer.bytes_stream()),
        pending: Vec::new(),
        mode: match (is_readable, is_stream) {
            (false, _) => Mode::Blind,
            (true, true) => Mode::Stream,
            (true, false) => Mode::Whole,
        },
        is_stream,
        skips_blank: false,
        strip: if strips { strip } else { Vec::new() },
        follow: Some(follow),
        idle_timeout: front.config.idle_timeout,
        error,
        front: Arc::clone(front),
        _turn: turn,
    };
    // Nobody asks for the end of a body that has nothing in it.
    if relay.left == Some(0) || BODILESS.contains(&status) {
        relay.end();
    }
    let mut response = Response::new(Body::from_stream(relay.stream()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Statuses of answers that have no body.
const BODILESS: [StatusCode; 3] = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];

/// Whose fault it is that the engine answered with this status; `None` where it is nobody's. One that sends the call elsewhere has
/// not answered it either.
fn refusal(status: u16) -> Option<&'static str> {
    match status {
        429 => Some("rate_limited"),
        400..500 => Some("client_error"),
        300..400 | 500.. => Some("engine_error"),
        _ => None,
    }
}

/// How an answer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Stream,
    Whole,
    /// Compressed, or too long: what it holds stays unknown.
    Blind,
}

/// An answer on its way; dropping it ends the engine's work on it.
struct Relay {
    upstream: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    /// Bytes still to come, where the engine said how many there are.
    left: Option<u64>,
    /// The part of a line, or of a whole answer, that has come so far.
    pending: Vec<u8>,
    mode: Mode,
    is_stream: bool,
    /// The line at hand ended a frame that was taken out.
    skips_blank: bool,
    strip: Vec<Strip>,
    follow: Option<Follow>,
    idle_timeout: Duration,
    error: Option<&'static str>,
    front: Arc<Front>,
    _turn: Turn,
}

/// What a line of a stream brings.
pub(super) fn data(line: &[u8]) -> Option<&[u8]> {
    let data = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii);
    data.filter(|data| !data.is_empty())
}

impl Relay {
    fn stream(self) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
        stream::unfold(Some(self), |relay| async move {
            let mut relay = relay?;
            loop {
                match tokio::time::timeout(relay.idle_timeout, relay.upstream.next()).await {
                    Ok(Some(Ok(bytes))) => {
                        let out = relay.see(bytes);
                        if !out.is_empty() {
                            return Some((Ok(out), Some(relay)));
                        }
                    }
                    Ok(None) => {
                        let rest = relay.end();
                        return (!rest.is_empty()).then_some((Ok(rest), None));
                    }
                    Ok(Some(Err(_))) => return relay.broken("upstream_unreachable", BROKEN_OFF),
                    Err(_) => return relay.broken("timeout", "the engine fell silent within its answer"),
                }
            }
        })
    }

    /// Reads the next bytes; gives what goes to the client of them.
    fn see(&mut self, bytes: Bytes) -> Bytes {
        self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
        let out = match self.mode {
            Mode::Blind => bytes,
            Mode::Whole => {
                self.keep(&bytes);
                bytes
            }
            Mode::Stream => self.lines(bytes),
        };
        if self.left == Some(0) {
            self.end();
        }
        out
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.pending.len() + bytes.len() > READ_MAX {
            self.mode = Mode::Blind;
            self.pending = Vec::new();
        } else {
            self.pending.extend_from_slice(bytes);
        }
    }

    /// Reads whole lines. Where something is taken out, only whole lines leave.
    fn lines(&mut self, bytes: Bytes) -> Bytes {
        let mut out = Vec::new();
        let mut rest = &bytes[..];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end + 1);
            if self.pending.is_empty() {
                self.line(line, &mut out);
            } else {
                let mut whole = std::mem::take(&mut self.pending);
                whole.extend_from_slice(line);
                self.line(&whole, &mut out);
            }
            rest = after;
        }
        if self.pending.len() + rest.len() > READ_MAX {
            // Not read from here on, but relayed all the same.
            out.extend(std::mem::take(&mut self.pending));
            out.extend_from_slice(rest);
            self.mode = Mode::Blind;
        } else {
            self.pending.extend_from_slice(rest);
        }
        if self.strip.is_empty() { bytes } else { out.into() }
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let data = data(line);
        if let (Some(data), Some(follow)) = (data, &mut self.follow) {
            follow.frame(data);
        }
        if self.strip.is_empty() || std::mem::take(&mut self.skips_blank) && line.trim_ascii().is_empty() {
            return;
        }
        match data.and_then(|data| stripped(data, &self.strip)) {
            Some(Kept::Some(data)) => {
                out.extend_from_slice(b"data: ");
                out.extend(data);
                out.push(b'\n');
            }
            Some(Kept::Nothing) => self.skips_blank = true,
            None => out.extend_from_slice(line),
        }
    }

    /// The answer has come to its end; gives what is left for the client: the last line of a stream where it has no break, or the
    /// error of one that ends before its answer does.
    fn end(&mut self) -> Bytes {
        let pending = std::mem::take(&mut self.pending);
        let Some(mut follow) = self.follow.take() else { return Bytes::new() };
        let mut rest = Bytes::new();
        match self.mode {
            Mode::Blind => {}
            Mode::Whole => follow.whole(&pending),
            Mode::Stream => {
                let is_whole = follow.last(&pending);
                if !is_whole && self.error.is_none() {
                    self.front.failed.inc();
                    follow.finish(Some("upstream_unreachable"), Some(BROKEN_OFF.to_owned()));
                    return error_event(BROKEN_OFF);
                }
                if !self.strip.is_empty() {
                    rest = pending.into();
                }
            }
        }
        follow.finish(self.error, self.error.map(|kind| kind.replace('_', " ")));
        rest
    }

    /// The engine failed within the answer. The client is told in the stream, which then ends without its last mark; where that
    /// is not possible its connection is cut, so that half an answer is never taken for a whole one.
    fn broken(
        mut self,
        kind: &'static str,
        message: &'static str,
    ) -> Option<(Result<Bytes, std::io::Error>, Option<Self>)> {
        self.front.failed.inc();
        if let Some(mut follow) = self.follow.take() {
            follow.finish(Some(kind), Some(message.to_owned()));
        }
        if self.is_stream {
            Some((Ok(error_event(message)), None))
        } else {
            Some((Err(std::io::Error::other(kind)), None))
        }
    }
}

/// What became of an answer whose end did not come.
const BROKEN_OFF: &str = "the engine broke off its answer";

/// An error in a stream. Half a line may have left already; it is an event of its own.
fn error_event(message: &str) -> Bytes {
    let body = serde_json::to_string(&Fault::upstream(message).into_body()).unwrap_or_default();
    Bytes::from(format!("\n\ndata: {body}\n\n"))
}

#[cfg(test)]
mod tests;
