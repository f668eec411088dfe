//! OTLP as the tests send it: calls with their tokens, logs and metrics, every row with a key of its own.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, span::SpanKind};
use telemetry::names;

/// Tokens of each call that [`calls`] makes.
pub(crate) const CALL_TOKENS: u64 = 20;

pub(crate) fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

pub(crate) fn text(value: &str) -> Value {
    Value::StringValue(value.into())
}

/// The resource of a simulated engine.
pub(crate) fn resource(service: &str) -> Resource {
    let attributes = [
        (names::SERVICE_NAME, service),
        (names::SERVICE_INSTANCE_ID, "replica-0"),
        (names::CLOUD_REGION, "us-east-1"),
        (names::HOST_ID, "i-0test"),
        (names::HOST_TYPE, "inf2.48xlarge"),
    ];
    Resource {
        attributes: attributes.iter().map(|(key, value)| attribute(key, text(value))).collect(),
        ..Resource::default()
    }
}

/// A trace id that only number `n` of `run` has.
pub(crate) fn trace_id(run: u64, n: u64) -> Vec<u8> {
    [run.to_be_bytes(), (n + 1).to_be_bytes()].concat()
}

fn span_id(n: u64, place: u64) -> Vec<u8> {
    (n * 1_000 + place + 1).to_be_bytes().to_vec()
}

/// Calls `from..to` of a run: each one request span, its tokens, and one other span of the same trace.
pub(crate) fn calls(run: u64, from: u64, to: u64, now_ns: u64) -> ExportTraceServiceRequest {
    let spans = (from..to).flat_map(|n| call(run, n, now_ns)).collect();
    spans_of("load", spans)
}

/// Any spans, of one service.
pub(crate) fn spans_of(service: &str, spans: Vec<Span>) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource(service)),
            scope_spans: vec![ScopeSpans { spans, ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }],
    }
}

fn call(run: u64, n: u64, now_ns: u64) -> Vec<Span> {
    let begun = now_ns - 2_000_000_000;
    let gap = 50_000_000;
    let other = Span {
        trace_id: trace_id(run, n),
        span_id: span_id(n, 999),
        name: names::SPAN_RETRIEVAL.into(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: begun - 1_000_000,
        end_time_unix_nano: begun,
        ..Span::default()
    };
    let request = Span {
        trace_id: trace_id(run, n),
        span_id: span_id(n, 0),
        name: names::SPAN_REQUEST.into(),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: begun,
        end_time_unix_nano: begun + CALL_TOKENS * gap,
        attributes: vec![
            attribute(names::REQUEST_MODEL, text("llama-3.1-8b")),
            attribute(names::INPUT_TOKENS, Value::IntValue(64)),
            attribute(names::OUTPUT_TOKENS, Value::IntValue(CALL_TOKENS as i64)),
            attribute(names::LATENCY_TTFT, Value::DoubleValue(0.05)),
        ],
        ..Span::default()
    };
    let tokens = (0..CALL_TOKENS).map(|index| Span {
        trace_id: trace_id(run, n),
        span_id: span_id(n, index + 1),
        parent_span_id: span_id(n, 0),
        name: names::SPAN_TOKEN.into(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: begun + index * gap,
        end_time_unix_nano: begun + (index + 1) * gap,
        attributes: vec![
            attribute(names::REQUEST_MODEL, text("llama-3.1-8b")),
            attribute(names::TOKEN_INDEX, Value::IntValue(index as i64)),
        ],
        ..Span::default()
    });
    [other, request].into_iter().chain(tokens).collect()
}

/// Log records `from..to`; the number is the record's key.
pub(crate) fn logs(run: u64, from: u64, to: u64, now_ns: u64) -> ExportLogsServiceRequest {
    let log_records = (from..to)
        .map(|n| LogRecord {
            time_unix_nano: now_ns,
            severity_number: 9,
            body: Some(AnyValue { value: Some(text("step")) }),
            attributes: vec![attribute("key", text(&format!("{run}-{n}")))],
            ..LogRecord::default()
        })
        .collect();
    ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs {
            resource: Some(resource("load")),
            scope_logs: vec![ScopeLogs { log_records, ..ScopeLogs::default() }],
            ..ResourceLogs::default()
        }],
    }
}

/// Points `from..to` of a gauge; the number is the point's key.
pub(crate) fn metrics(run: u64, from: u64, to: u64, now_ns: u64) -> ExportMetricsServiceRequest {
    let data_points = (from..to)
        .map(|n| NumberDataPoint {
            time_unix_nano: now_ns,
            value: Some(number_data_point::Value::AsInt(n as i64)),
            attributes: vec![attribute("key", text(&format!("{run}-{n}")))],
            ..NumberDataPoint::default()
        })
        .collect();
    let data = Some(metric::Data::Gauge(Gauge { data_points }));
    let metrics = vec![Metric { name: "load.number".into(), unit: "1".into(), data, ..Metric::default() }];
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource("load")),
            scope_metrics: vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        }],
    }
}
