//! Senders that know what was acknowledged: they send again, the same bytes, whatever got no answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use parking_lot::Mutex;
use prost::Message;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use service::clock::Clock;
use telemetry::names;
use telemetry::table::{DEVICES, HISTOGRAMS, LOGS, METRICS, REQUESTS, SPANS, TOKENS, Table};
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

/// One thing that was sent: it ends as one row of a table, which names its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item {
    pub(super) table: &'static str,
    pub(super) key: u128,
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

/// Names of what is sent beside tokens and records.
const WORK: &str = "work";
const CALL: &str = "llm_request";
const SIZES: &str = "sizes";

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
            let Offer { path, bytes, items } = body(key, time_ns, rng.random_range(0..4));
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

struct Offer {
    path: &'static str,
    bytes: Vec<u8>,
    items: Vec<Item>,
}

fn body(key: u128, time_ns: u64, kind: u8) -> Offer {
    match kind {
        0 => records(key, time_ns),
        1 => points(key, time_ns),
        2 => spans(key, time_ns, &[CALL]),
        _ => spans(key, time_ns, &[names::SPAN_TOKEN, WORK]),
    }
}

/// What becomes of something of that name, wherever a table keeps it.
pub(super) fn items(signal: &str, name: &str, key: u128) -> Vec<Item> {
    let tables: &[&Table] = match (signal, name) {
        ("logs", _) => &[&LOGS],
        ("metrics", SIZES) => &[&HISTOGRAMS],
        ("metrics", _) => &[&METRICS, &DEVICES],
        (_, names::SPAN_TOKEN) => &[&TOKENS],
        (_, CALL) => &[&SPANS, &REQUESTS],
        _ => &[&SPANS],
    };
    tables.iter().map(|table| Item { table: table.name, key }).collect()
}

fn records(key: u128, time_unix_nano: u64) -> Offer {
    let record = LogRecord { time_unix_nano, trace_id: key.to_be_bytes().to_vec(), ..LogRecord::default() };
    let scope_logs = vec![ScopeLogs { log_records: vec![record], ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    let bytes = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
    Offer { path: "/v1/logs", bytes, items: items("logs", "", key) }
}

fn spans(key: u128, time_ns: u64, named: &[&str]) -> Offer {
    let span = |(id, name): (u64, &&str)| Span {
        trace_id: key.to_be_bytes().to_vec(),
        span_id: id.to_be_bytes().to_vec(),
        parent_span_id: u64::MAX.to_be_bytes().to_vec(),
        name: (*name).to_owned(),
        start_time_unix_nano: time_ns - 1_000,
        end_time_unix_nano: time_ns,
        attributes: if *name == CALL { vec![text("gen_ai.operation.name", "chat")] } else { Vec::new() },
        ..Span::default()
    };
    let spans = (1..).zip(named).map(span).collect();
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    let bytes = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
    Offer { path: "/v1/traces", bytes, items: named.iter().flat_map(|name| items("traces", name, key)).collect() }
}

/// Watts of a host's only device and a histogram; the host is named by the key, since points have no id.
fn points(key: u128, time_unix_nano: u64) -> Offer {
    let watts = NumberDataPoint {
        time_unix_nano,
        attributes: vec![text(names::HW_ID, "0"), text("hw.type", "gpu")],
        value: Some(Number::AsDouble(75.0)),
        ..NumberDataPoint::default()
    };
    let sizes = HistogramDataPoint {
        time_unix_nano,
        count: 1,
        sum: Some(2.0),
        bucket_counts: vec![0, 1],
        explicit_bounds: vec![1.0],
        ..HistogramDataPoint::default()
    };
    let sizes = Histogram { data_points: vec![sizes], aggregation_temporality: AggregationTemporality::Delta.into() };
    let metric = |name: &str, unit: &str, data| Metric {
        name: name.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    };
    let metrics = vec![
        metric(names::HW_POWER, "W", Data::Gauge(Gauge { data_points: vec![watts] })),
        metric(SIZES, "By", Data::Histogram(sizes)),
    ];
    let scope_metrics = vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }];
    let resource = Some(Resource { attributes: vec![text("host.id", &format!("{key:032x}"))], ..Resource::default() });
    let resource_metrics = vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }];
    let bytes = ExportMetricsServiceRequest { resource_metrics }.encode_to_vec();
    let items = [names::HW_POWER, SIZES].iter().flat_map(|name| items("metrics", name, key)).collect();
    Offer { path: "/v1/metrics", bytes, items }
}

fn text(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}
