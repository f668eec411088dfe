//! The application's own telemetry, sent as OTLP/gRPC: the spans `answer` around a call and `retrieval` for its search, and a log
//! record of how it ended.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span, Status, span::SpanKind, status::StatusCode,
};
use service::channel::{self, Receiver, Sender};
use service::shutdown::{CancellationToken, Stage};
use service::{Deps, Error, Result};
use telemetry::names;
use tonic::transport::{Channel, Endpoint};

use super::fleet::PRODUCTION;

/// Spans and records that wait to be sent; a demo makes about 30 a second.
const SPANS_MAX: usize = 4_096;
/// Most of them in one export.
const BATCH_MAX: usize = 256;
/// An answer that takes longer is worth a warning in the application's log.
const SLOW: Duration = Duration::from_secs(5);
/// Longest that one waits for others.
const BATCH_AFTER: Duration = Duration::from_millis(500);
/// Wait before an export is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// How often an export is tried again while the process drains.
const RETRIES_AT_END: u32 = 10;

/// Ids of one call's trace.
pub(crate) struct Trace {
    pub(crate) trace_id: [u8; 16],
    pub(crate) answer_id: [u8; 8],
    pub(crate) retrieval_id: [u8; 8],
}

impl Trace {
    /// The W3C header that makes the gateway's span a child of `answer`.
    pub(crate) fn traceparent(&self) -> String {
        format!("00-{}-{}-01", hex(&self.trace_id), hex(&self.answer_id))
    }
}

/// Puts an application's spans and records into the queue of its exporter.
#[derive(Clone)]
pub(crate) struct Tracer {
    queue: Sender<Item>,
}

enum Item {
    Span(Box<Span>),
    Record(Box<LogRecord>),
}

impl Tracer {
    /// The exporter of the applications in `region` runs in the background and drains with the recorders.
    pub(crate) fn start(region: &str, endpoint: &str, deps: &Deps) -> Result<Self> {
        let endpoint = Endpoint::from_shared(endpoint.to_owned())
            .map_err(|error| Error::invalid(format!("`{endpoint}` is no OTLP endpoint")).with_source(error))?;
        let (queue, spans) = channel::bounded("demo.spans", SPANS_MAX);
        let exporter = Exporter {
            traces: TraceServiceClient::new(endpoint.connect_lazy()),
            logs: LogsServiceClient::new(endpoint.connect_lazy()),
            resource: resource(region),
            items: spans,
            draining: deps.shutdown.token(Stage::Recorders),
        };
        let hold = deps.shutdown.hold(Stage::Recorders, format!("demo.spans {region}"));
        deps.tasks.spawn(format!("demo.spans {region}"), async move {
            exporter.run().await;
            drop(hold);
        });
        Ok(Self { queue })
    }

    /// The search before a call.
    pub(crate) fn retrieval(&self, trace: &Trace, tenant: &str, passages: usize, start_ns: i64, end_ns: i64) {
        let mut span = span(trace, "retrieval", SpanKind::Client, start_ns, end_ns);
        span.span_id = trace.retrieval_id.to_vec();
        span.parent_span_id = trace.answer_id.to_vec();
        span.attributes = vec![
            text(names::TENANT, tenant),
            text("db.system.name", "opensearch"),
            text("db.collection.name", "products"),
            int("db.response.returned_rows", passages),
        ];
        self.put(Item::Span(Box::new(span)));
    }

    /// The whole call, from the question to the end of its answer.
    pub(crate) fn answer(&self, trace: &Trace, tenant: &str, start_ns: i64, end_ns: i64, good: bool) {
        let mut span = span(trace, "answer", SpanKind::Internal, start_ns, end_ns);
        span.span_id = trace.answer_id.to_vec();
        span.attributes = vec![text(names::TENANT, tenant)];
        let code = if good { StatusCode::Unset } else { StatusCode::Error };
        span.status = Some(Status { message: String::new(), code: code as i32 });
        self.put(Item::Span(Box::new(span)));
        self.put(Item::Record(Box::new(record(trace, tenant, start_ns, end_ns, good))));
    }

    fn put(&self, item: Item) {
        if self.queue.try_send(item).is_err() {
            tracing::warn!("the collector is behind; a span or record of the demo's applications was left out");
        }
    }
}

/// What the application logs of a call.
fn record(trace: &Trace, tenant: &str, start_ns: i64, end_ns: i64, good: bool) -> LogRecord {
    let took = Duration::from_nanos(u64::try_from(end_ns.saturating_sub(start_ns)).unwrap_or_default());
    let seconds = took.as_secs_f64();
    let (severity, word, body) = match good {
        false => (SeverityNumber::Error, "ERROR", format!("no answer for {tenant} after {seconds:.2} s")),
        true if took > SLOW => (SeverityNumber::Warn, "WARN", format!("slow answer for {tenant}: {seconds:.2} s")),
        true => (SeverityNumber::Info, "INFO", format!("answered {tenant} in {seconds:.2} s")),
    };
    LogRecord {
        time_unix_nano: u64::try_from(end_ns).unwrap_or_default(),
        severity_number: severity as i32,
        severity_text: word.to_owned(),
        body: Some(AnyValue { value: Some(any_value::Value::StringValue(body)) }),
        attributes: vec![text(names::TENANT, tenant)],
        trace_id: trace.trace_id.to_vec(),
        span_id: trace.answer_id.to_vec(),
        ..LogRecord::default()
    }
}

struct Exporter {
    traces: TraceServiceClient<Channel>,
    logs: LogsServiceClient<Channel>,
    resource: Resource,
    items: Receiver<Item>,
    draining: CancellationToken,
}

impl Exporter {
    /// Sends until all tracers are gone, or until the queue is empty in the drain.
    async fn run(mut self) {
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                // Cancel safe: nothing is taken out unless this arm wins.
                count = self.items.recv_many(&mut batch, BATCH_MAX) => if count == 0 { return },
                () = self.draining.cancelled() => {
                    self.items.close();
                    while let Ok(item) = self.items.try_recv() {
                        batch.push(item);
                    }
                    self.send(batch).await;
                    return;
                }
            }
            if batch.len() < BATCH_MAX {
                tokio::select! {
                    () = tokio::time::sleep(BATCH_AFTER) => {}
                    () = self.draining.cancelled() => {}
                }
                while batch.len() < BATCH_MAX
                    && let Ok(item) = self.items.try_recv()
                {
                    batch.push(item);
                }
            }
            self.send(batch).await;
        }
    }

    /// Sends a batch, again and again until it is taken; in the drain only for a while.
    async fn send(&mut self, items: Vec<Item>) {
        let (mut spans, mut records) = (Vec::new(), Vec::new());
        for item in items {
            match item {
                Item::Span(span) => spans.push(*span),
                Item::Record(record) => records.push(*record),
            }
        }
        if !spans.is_empty() {
            let request = self.traces_of(spans);
            let client = self.traces.clone();
            until_taken(&self.draining, || {
                let (mut client, request) = (client.clone(), request.clone());
                async move { client.export(request).await.map(drop) }
            })
            .await;
        }
        if !records.is_empty() {
            let request = self.logs_of(records);
            let client = self.logs.clone();
            until_taken(&self.draining, || {
                let (mut client, request) = (client.clone(), request.clone());
                async move { client.export(request).await.map(drop) }
            })
            .await;
        }
    }

    fn traces_of(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans, schema_url: String::new() }];
        let resource = Some(self.resource.clone());
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans { resource, scope_spans, schema_url: String::new() }],
        }
    }

    fn logs_of(&self, log_records: Vec<LogRecord>) -> ExportLogsServiceRequest {
        let scope_logs = vec![ScopeLogs { scope: Some(scope()), log_records, schema_url: String::new() }];
        let resource = Some(self.resource.clone());
        ExportLogsServiceRequest {
            resource_logs: vec![ResourceLogs { resource, scope_logs, schema_url: String::new() }],
        }
    }
}

/// Exports again and again until it is taken.
async fn until_taken<F>(draining: &CancellationToken, export: impl Fn() -> F)
where
    F: Future<Output = std::result::Result<(), tonic::Status>>,
{
    let mut retries = 0;
    while let Err(status) = export().await {
        let again = matches!(status.code(), tonic::Code::Unavailable | tonic::Code::ResourceExhausted);
        retries += u32::from(draining.is_cancelled());
        if !again || retries > RETRIES_AT_END {
            tracing::warn!(status = status.message(), "telemetry of the demo's applications was not taken");
            return;
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope { name: "tokenwatt.demo".to_owned(), ..InstrumentationScope::default() }
}

fn resource(region: &str) -> Resource {
    let attributes = vec![
        text(names::SERVICE_NAME, "shopping-assistant"),
        text(names::SERVICE_INSTANCE_ID, &format!("shopping-assistant-{region}")),
        text(names::CLOUD_REGION, region),
        text(names::ENVIRONMENT, PRODUCTION),
    ];
    Resource { attributes, ..Resource::default() }
}

fn span(trace: &Trace, name: &str, kind: SpanKind, start_ns: i64, end_ns: i64) -> Span {
    Span {
        trace_id: trace.trace_id.to_vec(),
        name: name.to_owned(),
        kind: kind as i32,
        start_time_unix_nano: u64::try_from(start_ns).unwrap_or_default(),
        end_time_unix_nano: u64::try_from(end_ns).unwrap_or_default(),
        ..Span::default()
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, any_value::Value::StringValue(value.to_owned()))
}

fn int(key: &str, value: usize) -> KeyValue {
    attribute(key, any_value::Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn attribute(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record says how the call ended, and leads to its trace.
    #[test]
    fn records() {
        let trace = Trace { trace_id: [0xab; 16], answer_id: [1; 8], retrieval_id: [2; 8] };
        let of = |seconds: i64, good| record(&trace, "acme", 0, seconds * 1_000_000_000, good);
        let severities = [of(1, true), of(6, true), of(1, false)].map(|record| record.severity_text);
        assert_eq!(severities, ["INFO", "WARN", "ERROR"]);
        assert_eq!((of(1, true).trace_id, of(1, true).span_id), (vec![0xab; 16], vec![1; 8]));
    }

    /// The header is what W3C Trace Context says: version, trace, parent, sampled.
    #[test]
    fn traceparent() {
        let trace = Trace { trace_id: [0xab; 16], answer_id: [1; 8], retrieval_id: [2; 8] };
        assert_eq!(trace.traceparent(), format!("00-{}-{}-01", "ab".repeat(16), "01".repeat(8)));
    }
}
