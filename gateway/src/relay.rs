//! Relays a node's answer to the client as it comes, and ends the call's record when the last byte is through or the client is
//! gone.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};

use crate::Gateway;
use crate::accept::count;
use crate::fault::Fault;
use crate::forward::{Answer, answer_headers};
use crate::nodes::Outstanding;
use crate::observe::Observer;
use crate::record::Record;

/// Ends a call's record exactly once: with the outcome it was told, or as given up by the client.
pub(crate) struct Ending {
    gateway: Arc<Gateway>,
    record: Option<Record>,
    arrived: Duration,
    observer: Observer,
    /// The status is one of success.
    succeeds: bool,
    /// Bytes of the answer still to come, where the node said how many there are.
    left: Option<u64>,
}

/// An answer on its way. Dropping it, at the end or before, takes the call off the node's count and ends its record.
struct Relay {
    upstream: BoxStream<'static, reqwest::Result<Bytes>>,
    idle_timeout: Duration,
    /// Whether the answer is a stream of events, in which an error can still be said.
    events: bool,
    ending: Option<Ending>,
    _outstanding: Outstanding,
}

/// The response to the client: the node's status and headers, its body as it comes.
pub(crate) fn respond(gateway: &Arc<Gateway>, answer: Answer, ending: Option<Ending>) -> Response {
    let Answer { response, outstanding } = answer;
    let status = response.status();
    let headers = answer_headers(response.headers());
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let events = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
    let mut ending = ending;
    match &mut ending {
        Some(ending) => ending.answered(status, observer(&headers, events), response.content_length()),
        None => count(gateway, status.as_u16(), "relayed"),
    }
    let relay = Relay {
        upstream: response.bytes_stream().boxed(),
        idle_timeout: gateway.config.idle_timeout,
        events,
        ending,
        _outstanding: outstanding,
    };
    let mut response = Response::new(Body::from_stream(relay.stream()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// How an answer is read along. One that is compressed passes unread: no content seen in it would not mean that there is none.
fn observer(headers: &HeaderMap, events: bool) -> Observer {
    let coding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
    match coding {
        Some(coding) if !coding.eq_ignore_ascii_case(b"identity") => Observer::blind(),
        _ if events => Observer::events(),
        _ => Observer::whole(),
    }
}

impl Relay {
    fn stream(self) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
        stream::unfold(Some(self), |relay| async move {
            let mut relay = relay?;
            match tokio::time::timeout(relay.idle_timeout, relay.upstream.next()).await {
                Ok(Some(Ok(bytes))) => {
                    if let Some(ending) = &mut relay.ending {
                        ending.saw(&bytes);
                    }
                    Some((Ok(bytes), Some(relay)))
                }
                Ok(None) if relay.is_cut() => relay.broken(Fault::Unreachable),
                Ok(None) => {
                    relay.end(Outcome::Complete);
                    None
                }
                Ok(Some(Err(_))) => relay.broken(Fault::Unreachable),
                Err(_) => relay.broken(Fault::Timeout),
            }
        })
    }

    /// Whether a stream has come to its end without anything of it having said so.
    fn is_cut(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| self.events && ending.succeeds && !ending.observer.may_end())
    }

    /// The node failed within the answer. The client is told in the stream, which then ends without `[DONE]`; where that is
    /// not possible its connection is cut, so that half an answer is never taken for a whole one.
    fn broken(mut self, fault: Fault) -> Option<(Result<Bytes, std::io::Error>, Option<Self>)> {
        self.end(Outcome::Broken(fault));
        if self.events {
            Some((Ok(Bytes::from(fault.frame())), None))
        } else {
            Some((Err(std::io::Error::other(fault.code())), None))
        }
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(ending) = self.ending.take() {
            ending.end(outcome);
        }
    }
}

/// Whose fault it is that the node answered with this status; `None` where it is nobody's.
fn refusal(status: u16) -> Option<&'static str> {
    match status {
        429 => Some("rate_limited"),
        400..500 => Some("client_error"),
        // One that sends the call elsewhere has not answered it either.
        300..400 | 500.. => Some("node_error"),
        _ => None,
    }
}

/// How an answer ended.
#[derive(Clone, Copy)]
enum Outcome {
    Complete,
    Broken(Fault),
    ClientGone,
}

impl Ending {
    pub(crate) fn new(gateway: Arc<Gateway>, record: Record, arrived: Duration) -> Self {
        Self { gateway, record: Some(record), arrived, observer: Observer::default(), succeeds: false, left: None }
    }

    /// The record, to note what is learnt on the way.
    pub(crate) fn record_mut(&mut self) -> &mut Record {
        // The record leaves only with `self`, in `finish`; the spare one is never sent.
        self.record.get_or_insert_with(Record::default)
    }

    /// The gateway could not get an answer.
    pub(crate) fn refuse(mut self, fault: Fault) {
        let record = self.record_mut();
        record.status = fault.status().as_u16();
        record.error = Some(fault.code());
        self.finish();
    }

    fn answered(&mut self, status: StatusCode, observer: Observer, length: Option<u64>) {
        self.left = length;
        self.succeeds = status.is_success();
        self.observer = observer;
        self.record_mut().status = status.as_u16();
    }

    fn saw(&mut self, bytes: &Bytes) {
        let since_arrival = self.gateway.clock.monotonic().saturating_sub(self.arrived);
        self.observer.see(bytes, since_arrival);
        self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
    }

    /// Whether all of the answer has been relayed. The server does not ask for the end of a body whose last byte it has.
    fn complete(&self) -> bool {
        self.left == Some(0) || self.observer.done()
    }

    fn end(mut self, outcome: Outcome) {
        self.conclude(outcome);
        self.finish();
    }

    fn conclude(&mut self, outcome: Outcome) {
        let failed = self.observer.failed();
        let seen = std::mem::take(&mut self.observer).finish();
        let record = self.record_mut();
        record.seen = seen;
        record.error = match outcome {
            Outcome::Broken(fault) => Some(fault.code()),
            Outcome::ClientGone => Some("client_disconnected"),
            Outcome::Complete => refusal(record.status).or(failed.then_some("node_error")),
        };
    }

    fn finish(&mut self) {
        let Some(mut record) = self.record.take() else { return };
        record.e2e = self.gateway.clock.monotonic().saturating_sub(self.arrived);
        count(&self.gateway, record.status, record.error.unwrap_or("relayed"));
        self.gateway.recorder.send(record);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.record.is_some() {
            self.conclude(if self.complete() { Outcome::Complete } else { Outcome::ClientGone });
            self.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A compressed stream has tokens that nobody counts: their number is unknown, not 0.
    #[test]
    fn what_cannot_be_read_is_unknown() {
        let seen = |coding: Option<&'static str>| {
            let coding = coding.map(|coding| (header::CONTENT_ENCODING, HeaderValue::from_static(coding)));
            let mut observer = observer(&coding.into_iter().collect(), true);
            observer.see(b"data: {\"choices\":[{\"text\":\"x\"}]}\n", Duration::ZERO);
            observer.finish().content_frames
        };
        assert_eq!((seen(None), seen(Some("identity")), seen(Some("gzip"))), (Some(1), Some(1), None));
    }
}
