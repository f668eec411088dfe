//! Random OTLP requests: every kind of item and value, texts that JSON must escape, absent and empty parts.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, EntityRef, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint, exemplar, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use rand::Rng;
use rand::rngs::StdRng;

/// Around this time all items of the samples lie, microseconds since 1970-01-01 UTC.
pub(crate) const NOW_US: i64 = 1_790_000_000_000_000;

fn time(rng: &mut StdRng) -> u64 {
    NOW_US as u64 * 1_000 - rng.random_range(0..1_000_000_000_000)
}

fn several<T>(rng: &mut StdRng, most: usize, mut one: impl FnMut(&mut StdRng) -> T) -> Vec<T> {
    (0..rng.random_range(0..=most)).map(|_| one(rng)).collect()
}

fn maybe<T>(rng: &mut StdRng, one: impl FnOnce(&mut StdRng) -> T) -> Option<T> {
    rng.random::<bool>().then(|| one(rng))
}

pub(crate) fn text(rng: &mut StdRng) -> String {
    const LETTERS: [char; 8] = ['a', 'b', '"', '\\', '\n', 'é', '漢', '\u{1}'];
    (0..rng.random_range(0..6)).map(|_| LETTERS[rng.random_range(0..LETTERS.len())]).collect()
}

pub(crate) fn value(rng: &mut StdRng, depth: u32) -> AnyValue {
    let value = match rng.random_range(0..if depth > 2 { 5 } else { 8 }) {
        0 => Some(Any::StringValue(text(rng))),
        1 => Some(Any::IntValue(rng.random())),
        2 => Some(Any::DoubleValue(double(rng))),
        3 => Some(Any::BoolValue(rng.random())),
        4 => Some(Any::BytesValue((0..rng.random_range(0..5)).map(|_| rng.random()).collect())),
        5 => {
            let values = (0..rng.random_range(0..3)).map(|_| value_below(rng, depth)).collect();
            Some(Any::ArrayValue(ArrayValue { values }))
        }
        6 => Some(Any::KvlistValue(KeyValueList { values: attributes(rng, depth + 1) })),
        _ => None,
    };
    AnyValue { value }
}

/// Any double: random bits are rarely round, sometimes tiny or huge, and now and then no number.
fn double(rng: &mut StdRng) -> f64 {
    let number = f64::from_bits(rng.random());
    if number.is_nan() { f64::NAN } else { number }
}

fn value_below(rng: &mut StdRng, depth: u32) -> AnyValue {
    value(rng, depth + 1)
}

pub(crate) fn attributes(rng: &mut StdRng, depth: u32) -> Vec<KeyValue> {
    let count = rng.random_range(0..4);
    (0..count)
        .map(|at| KeyValue {
            key: format!("k{at}.{}", text(rng)),
            value: Some(value(rng, depth)),
            ..KeyValue::default()
        })
        .collect()
}

fn id(rng: &mut StdRng, length: usize) -> Vec<u8> {
    (0..length).map(|_| rng.random_range(1..=255)).collect()
}

pub(crate) fn span(rng: &mut StdRng) -> Span {
    Span {
        trace_id: id(rng, 16),
        span_id: id(rng, 8),
        parent_span_id: if rng.random() { id(rng, 8) } else { Vec::new() },
        trace_state: text(rng),
        flags: rng.random(),
        name: text(rng),
        kind: rng.random_range(0..6),
        start_time_unix_nano: time(rng),
        end_time_unix_nano: rng.random(),
        attributes: attributes(rng, 0),
        dropped_attributes_count: rng.random(),
        dropped_events_count: rng.random_range(0..3),
        dropped_links_count: rng.random_range(0..3),
        events: (0..rng.random_range(0..3))
            .map(|_| Event {
                time_unix_nano: rng.random(),
                name: text(rng),
                attributes: attributes(rng, 0),
                dropped_attributes_count: rng.random_range(0..2),
            })
            .collect(),
        links: (0..rng.random_range(0..3))
            .map(|_| Link {
                trace_id: id(rng, 16),
                span_id: id(rng, 8),
                trace_state: text(rng),
                attributes: attributes(rng, 0),
                dropped_attributes_count: rng.random_range(0..2),
                flags: rng.random(),
            })
            .collect(),
        status: rng.random::<bool>().then(|| Status { message: text(rng), code: rng.random_range(0..3) }),
    }
}

fn resource(rng: &mut StdRng) -> Option<Resource> {
    let dropped_attributes_count = rng.random_range(0..2);
    let attributes = attributes(rng, 0);
    let entity_refs = (0..rng.random_range(0..3)).map(|_| entity(rng)).collect();
    Some(Resource { attributes, dropped_attributes_count, entity_refs })
}

fn entity(rng: &mut StdRng) -> EntityRef {
    let keys = |rng: &mut StdRng| (0..rng.random_range(0..3)).map(|_| text(rng)).collect();
    EntityRef { schema_url: text(rng), r#type: text(rng), id_keys: keys(rng), description_keys: keys(rng) }
}

fn scope(rng: &mut StdRng) -> Option<InstrumentationScope> {
    Some(InstrumentationScope {
        name: text(rng),
        version: text(rng),
        attributes: attributes(rng, 0),
        dropped_attributes_count: rng.random_range(0..3),
    })
}

pub(crate) fn traces(rng: &mut StdRng) -> ExportTraceServiceRequest {
    let of_scope =
        |rng: &mut StdRng| ScopeSpans { scope: scope(rng), spans: several(rng, 3, span), schema_url: text(rng) };
    let group = |rng: &mut StdRng| ResourceSpans {
        resource: resource(rng),
        scope_spans: several(rng, 2, of_scope),
        schema_url: text(rng),
    };
    ExportTraceServiceRequest { resource_spans: several(rng, 2, group) }
}

fn log_record(rng: &mut StdRng) -> LogRecord {
    LogRecord {
        time_unix_nano: time(rng),
        observed_time_unix_nano: maybe(rng, time).unwrap_or_default(),
        severity_number: rng.random_range(0..25),
        severity_text: text(rng),
        body: maybe(rng, |rng| value(rng, 0)),
        attributes: attributes(rng, 0),
        dropped_attributes_count: rng.random_range(0..3),
        flags: rng.random(),
        trace_id: maybe(rng, |rng| id(rng, 16)).unwrap_or_default(),
        span_id: maybe(rng, |rng| id(rng, 8)).unwrap_or_default(),
        event_name: text(rng),
    }
}

pub(crate) fn logs(rng: &mut StdRng) -> ExportLogsServiceRequest {
    let of_scope = |rng: &mut StdRng| ScopeLogs {
        scope: scope(rng),
        log_records: several(rng, 3, log_record),
        schema_url: text(rng),
    };
    let group = |rng: &mut StdRng| ResourceLogs {
        resource: resource(rng),
        scope_logs: several(rng, 2, of_scope),
        schema_url: text(rng),
    };
    ExportLogsServiceRequest { resource_logs: several(rng, 2, group) }
}

fn exemplar(rng: &mut StdRng) -> Exemplar {
    Exemplar {
        filtered_attributes: attributes(rng, 0),
        time_unix_nano: rng.random(),
        span_id: id(rng, 8),
        trace_id: id(rng, 16),
        value: maybe(rng, |rng| match rng.random() {
            true => exemplar::Value::AsInt(rng.random()),
            false => exemplar::Value::AsDouble(double(rng)),
        }),
    }
}

fn number(rng: &mut StdRng) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(rng, 0),
        start_time_unix_nano: maybe(rng, time).unwrap_or_default(),
        time_unix_nano: time(rng),
        exemplars: several(rng, 2, exemplar),
        flags: rng.random_range(0..3),
        value: maybe(rng, |rng| match rng.random() {
            true => number_data_point::Value::AsInt(rng.random()),
            false => number_data_point::Value::AsDouble(double(rng)),
        }),
    }
}

fn histogram(rng: &mut StdRng) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes: attributes(rng, 0),
        start_time_unix_nano: maybe(rng, time).unwrap_or_default(),
        time_unix_nano: time(rng),
        count: rng.random(),
        sum: maybe(rng, double),
        bucket_counts: several(rng, 4, |rng| rng.random()),
        explicit_bounds: several(rng, 3, double),
        exemplars: several(rng, 2, exemplar),
        flags: rng.random_range(0..3),
        min: maybe(rng, double),
        max: maybe(rng, double),
    }
}

fn exponential(rng: &mut StdRng) -> ExponentialHistogramDataPoint {
    let buckets =
        |rng: &mut StdRng| Buckets { offset: rng.random(), bucket_counts: several(rng, 4, |rng| rng.random()) };
    ExponentialHistogramDataPoint {
        attributes: attributes(rng, 0),
        start_time_unix_nano: maybe(rng, time).unwrap_or_default(),
        time_unix_nano: time(rng),
        count: rng.random(),
        sum: maybe(rng, double),
        scale: rng.random_range(-11..21),
        zero_count: rng.random(),
        positive: maybe(rng, buckets),
        negative: maybe(rng, buckets),
        flags: rng.random_range(0..3),
        exemplars: several(rng, 2, exemplar),
        min: maybe(rng, double),
        max: maybe(rng, double),
        zero_threshold: double(rng).abs(),
    }
}

fn summary(rng: &mut StdRng) -> SummaryDataPoint {
    SummaryDataPoint {
        attributes: attributes(rng, 0),
        start_time_unix_nano: maybe(rng, time).unwrap_or_default(),
        time_unix_nano: time(rng),
        count: rng.random(),
        sum: double(rng),
        quantile_values: several(rng, 3, |rng| ValueAtQuantile { quantile: rng.random(), value: double(rng) }),
        flags: rng.random_range(0..3),
    }
}

fn metric(rng: &mut StdRng) -> Metric {
    let aggregation_temporality = rng.random_range(0..3);
    let data = match rng.random_range(0..5) {
        0 => Data::Gauge(Gauge { data_points: several(rng, 3, number) }),
        1 => {
            Data::Sum(Sum { data_points: several(rng, 3, number), aggregation_temporality, is_monotonic: rng.random() })
        }
        2 => Data::Histogram(Histogram { data_points: several(rng, 3, histogram), aggregation_temporality }),
        3 => Data::ExponentialHistogram(ExponentialHistogram {
            data_points: several(rng, 3, exponential),
            aggregation_temporality,
        }),
        _ => Data::Summary(Summary { data_points: several(rng, 3, summary) }),
    };
    Metric { name: text(rng), description: text(rng), unit: text(rng), metadata: attributes(rng, 0), data: Some(data) }
}

pub(crate) fn metrics(rng: &mut StdRng) -> ExportMetricsServiceRequest {
    let of_scope =
        |rng: &mut StdRng| ScopeMetrics { scope: scope(rng), metrics: several(rng, 3, metric), schema_url: text(rng) };
    let group = |rng: &mut StdRng| ResourceMetrics {
        resource: resource(rng),
        scope_metrics: several(rng, 2, of_scope),
        schema_url: text(rng),
    };
    ExportMetricsServiceRequest { resource_metrics: several(rng, 2, group) }
}
