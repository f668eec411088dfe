//! Senders that know what was acknowledged: they send again, the same bytes, whatever got no answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use parking_lot::Mutex;
use prost::Message;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use service::clock::Clock;
use tokio::sync::watch;
use tower::ServiceExt;

use super::clock::SimClock;
use super::life::Life;

/// Where bodies go in while a process lives.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) router: Router,
    pub(super) life: Arc<Life>,
}

/// One thing that was sent, and that ends as one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Token(u128),
    Span(u128),
    Log(u128),
}

/// What became of an item.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub(super) acknowledged: bool,
    /// When it happened, nanoseconds since 1970-01-01 UTC.
    pub(super) time_ns: u64,
}

/// What was sent.
pub(super) type Ledger = Arc<Mutex<BTreeMap<Item, Sent>>>;

/// Span ids of the two spans of a trace.
pub(super) const TOKEN_SPAN: u64 = 1;
pub(super) const OTHER_SPAN: u64 = 2;

/// How long tables keep their rows where there is maintenance.
pub(super) const KEPT: Duration = Duration::from_secs(86_400);
/// How long a sender waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends bodies one by one.
pub(super) struct Sender {
    pub(super) clock: SimClock,
    pub(super) door: watch::Receiver<Option<Door>>,
    pub(super) ledger: Ledger,
    /// Keys are counted from here.
    pub(super) first: u128,
    pub(super) bodies: u32,
    /// Pause between two bodies, at most.
    pub(super) pause: Duration,
    /// Share of bodies that are given up after one refusal, and of those sent again although they were acknowledged.
    pub(super) fickle: f64,
    /// Whether it also sends what happened a while ago.
    pub(super) late: bool,
    pub(super) seed: u64,
}

impl Sender {
    pub(super) async fn run(self) {
        let mut rng = StdRng::seed_from_u64(self.seed);
        for key in (self.first..).take(self.bodies as usize) {
            let time_ns = self.clock.true_ns() - self.age(&mut rng);
            let (path, bytes, items) = body(key, time_ns, rng.random_bool(0.3));
            let note = |acknowledged| items.iter().map(move |item| (*item, Sent { acknowledged, time_ns }));
            self.ledger.lock().extend(note(false));
            let fickle = rng.random_bool(self.fickle);
            loop {
                let answer = self.offer(path, &bytes).await;
                tracing::info!(key, now = ?self.clock.monotonic(), ?answer, "offered");
                if answer == Some(StatusCode::OK) {
                    self.ledger.lock().extend(note(true));
                    // Its answer may have been lost on the way: then the sender tries again.
                    if fickle && rng.random_bool(0.5) {
                        self.offer(path, &bytes).await;
                    }
                    break;
                }
                if fickle && rng.random_bool(0.2) {
                    break;
                }
                self.clock.sleep(Duration::from_millis(rng.random_range(50..2_000))).await;
            }
            self.clock.sleep(self.pause.mul_f64(rng.random())).await;
        }
    }

    /// How long ago a body's items happened, in nanoseconds: mostly just now, at times long enough ago to be merged at once, or
    /// so long that they are due to be dropped.
    fn age(&self, rng: &mut StdRng) -> u64 {
        let seconds = match rng.random_range(0..8) {
            _ if !self.late => 0,
            0 => KEPT.as_secs() - rng.random_range(0..90),
            1..5 => 1_200 + rng.random_range(0..600),
            _ => 0,
        };
        seconds * 1_000_000_000
    }

    /// Sends a body; `None` if there is no answer.
    async fn offer(&self, path: &str, bytes: &[u8]) -> Option<StatusCode> {
        let door = self.door.borrow().clone()?;
        let request = Request::post(path).header("content-type", "application/x-protobuf");
        let request = request.header("content-length", bytes.len());
        let request = request.body(Body::from(bytes.to_vec())).unwrap();
        tokio::select! {
            biased;
            () = door.life.ended() => None,
            () = self.clock.sleep(PATIENCE) => None,
            answer = door.router.oneshot(request) => door.life.lives().then(|| answer.unwrap().status()),
        }
    }
}

fn body(key: u128, now_ns: u64, log: bool) -> (&'static str, Vec<u8>, Vec<Item>) {
    let trace_id = key.to_be_bytes().to_vec();
    if log {
        let record = LogRecord { time_unix_nano: now_ns, trace_id, ..LogRecord::default() };
        let scope_logs = vec![ScopeLogs { log_records: vec![record], ..ScopeLogs::default() }];
        let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
        return ("/v1/logs", ExportLogsServiceRequest { resource_logs }.encode_to_vec(), vec![Item::Log(key)]);
    }
    let span = |name: &str, id: u64| Span {
        trace_id: trace_id.clone(),
        span_id: id.to_be_bytes().to_vec(),
        parent_span_id: 3_u64.to_be_bytes().to_vec(),
        name: name.to_owned(),
        start_time_unix_nano: now_ns - 1_000,
        end_time_unix_nano: now_ns,
        ..Span::default()
    };
    let spans = vec![span("token", TOKEN_SPAN), span("work", OTHER_SPAN)];
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    let bytes = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
    ("/v1/traces", bytes, vec![Item::Token(key), Item::Span(key)])
}
