use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, metric::Data,
};
use opentelemetry_proto::tonic::trace::v1::span::Event;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use service::principal::Role;

use super::*;

fn principal(tenants: &[&str]) -> Principal {
    Principal {
        name: "acme's nodes".to_owned(),
        role: Role::Writer,
        token_sha256: None,
        scram: None,
        expires: None,
        certificate: Some("node.acme".to_owned()),
        tenants: tenants.iter().map(|tenant| (*tenant).to_owned()).collect(),
        regions: vec!["*".to_owned()],
        infrastructure: None,
        items_per_s: None,
        bytes_per_s: None,
        burst_s: 10,
    }
}

fn pair(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(Value::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

/// A tenant's attribute, or none for an empty name.
fn of(tenant: &str) -> Vec<KeyValue> {
    if tenant.is_empty() { Vec::new() } else { vec![pair("n", "1"), pair(names::TENANT, tenant)] }
}

fn span(name: &str, attributes: Vec<KeyValue>) -> Span {
    Span { name: name.to_owned(), attributes, trace_id: vec![1; 16], span_id: vec![1; 8], ..Span::default() }
}

fn spans(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let scope_spans = vec![ScopeSpans { spans, schema_url: "scope".to_owned(), ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, schema_url: "s".to_owned(), ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }
}

/// Names of the spans that are left, and how many were taken out.
fn left(sent: Vec<Span>, tenants: &[&str]) -> (Vec<String>, u64) {
    let body = spans(sent).encode_to_vec();
    let (kept, out) = foreign(Signal::Traces, &body, &principal(tenants)).unwrap().unwrap_or((body.into(), 0));
    let read = ExportTraceServiceRequest::decode(kept).unwrap();
    assert_eq!(read.resource_spans[0].schema_url, "s");
    assert_eq!(read.resource_spans[0].scope_spans[0].schema_url, "scope");
    let spans = read.resource_spans.into_iter().flat_map(|group| group.scope_spans).flat_map(|scope| scope.spans);
    (spans.map(|span| span.name).collect(), out)
}

/// Spans of other tenants and of none are taken out one by one, and everything else stays as it was sent.
#[test]
fn spans_of_other_tenants_are_taken_out() {
    let sent = || {
        vec![
            span("own", of("acme")),
            span("other", of("zeta")),
            span("nobody's", of("")),
            span("litellm_request", vec![pair("litellm.team.id", "acme")]),
            span("token", of("acme")),
        ]
    };
    assert_eq!(left(sent(), &["acme"]), (vec!["own".to_owned(), "litellm_request".to_owned(), "token".to_owned()], 2));
    assert_eq!(left(sent(), &["*"]).1, 0);
    assert_eq!(left(sent(), &["acme", "zeta"]).1, 1);
    let kept = spans(vec![span("own", of("acme"))]).encode_to_vec();
    assert_eq!(foreign(Signal::Traces, &kept, &principal(&["acme"])).unwrap(), None);
}

/// An item that names two tenants, by two aliases or twice, does not slip through with the one that its rows will not have.
#[test]
fn an_item_cannot_name_two_tenants() {
    let twice = |first: &str, second: &str| [of(first), of(second)].concat();
    let mut aliased = of("acme");
    aliased.push(pair("litellm.team.id", "zeta"));
    let event = |tenant| Event { name: "token".to_owned(), attributes: of(tenant), ..Event::default() };
    let with_event = |tenant| Span { events: vec![event(tenant)], ..span("event", of("acme")) };
    for foreign in [
        span("token", twice("acme", "zeta")),
        span("token", twice("zeta", "acme")),
        span("x", twice("zeta", "acme")),
        span("litellm_request", aliased),
        with_event("zeta"),
        with_event(""),
    ] {
        assert_eq!(left(vec![foreign], &["acme"]), (Vec::new(), 1));
    }
    assert_eq!(left(vec![with_event("acme")], &["acme"]).1, 0);
}

/// Points of metrics of every kind, and log records, are bound alike.
#[test]
fn points_and_log_records_are_bound_alike() {
    let number = |tenant| NumberDataPoint { attributes: of(tenant), ..NumberDataPoint::default() };
    let histogram = |tenant| HistogramDataPoint {
        attributes: of(tenant),
        explicit_bounds: vec![1.0, 2.0],
        bucket_counts: vec![1, 2, 3],
        ..HistogramDataPoint::default()
    };
    let exponential =
        |tenant| ExponentialHistogramDataPoint { attributes: of(tenant), ..ExponentialHistogramDataPoint::default() };
    let data = [
        Data::Gauge(Gauge { data_points: vec![number("acme"), number("zeta")] }),
        Data::Histogram(Histogram {
            data_points: vec![histogram("zeta"), histogram("acme")],
            aggregation_temporality: 2,
        }),
        Data::ExponentialHistogram(ExponentialHistogram {
            data_points: vec![exponential(""), exponential("acme")],
            aggregation_temporality: 2,
        }),
    ];
    let metrics: Vec<_> =
        data.into_iter().map(|data| Metric { name: "m".to_owned(), data: Some(data), ..Metric::default() }).collect();
    let scope_metrics = vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }];
    let resource_metrics = vec![ResourceMetrics { scope_metrics, ..ResourceMetrics::default() }];
    let body = ExportMetricsServiceRequest { resource_metrics }.encode_to_vec();
    let (kept, out) = foreign(Signal::Metrics, &body, &principal(&["acme"])).unwrap().unwrap();
    assert_eq!(out, 3);
    let read = ExportMetricsServiceRequest::decode(kept).unwrap();
    let text = format!("{read:?}");
    assert!(text.matches("\"acme\"").count() == 3 && !text.contains("zeta"), "{text}");
    assert!(
        text.contains("explicit_bounds: [1.0, 2.0]") && text.contains("aggregation_temporality: Cumulative"),
        "{text}"
    );

    let record =
        |tenant| LogRecord { attributes: of(tenant), severity_text: tenant.to_owned(), ..LogRecord::default() };
    let log_records = vec![record("zeta"), record("acme"), record("")];
    let resource_logs = vec![ResourceLogs {
        scope_logs: vec![ScopeLogs { log_records, ..ScopeLogs::default() }],
        ..ResourceLogs::default()
    }];
    let body = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
    let (kept, out) = foreign(Signal::Logs, &body, &principal(&["acme"])).unwrap().unwrap();
    let read = ExportLogsServiceRequest::decode(kept).unwrap();
    assert_eq!((out, read.resource_logs[0].scope_logs[0].log_records.len()), (2, 1));
}
