//! Generated bodies: what our walker says equals what prost says.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Metric, ResourceMetrics, ScopeMetrics, exemplar,
    exponential_histogram_data_point::Buckets, metric::Data,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::check::{self, Checked, Fault};
use super::view::{Attribute, Span as View, Value};
use super::wire::{Fields, Malformed, Raw};
use super::{inflate, json, print, schema};
use crate::normalize::redact::Redaction;
use crate::signal::Signal;

fn text(rng: &mut StdRng) -> String {
    const LETTERS: [char; 8] = ['a', 'b', '"', '\\', '\n', 'é', '漢', '\u{1}'];
    (0..rng.random_range(0..6)).map(|_| LETTERS[rng.random_range(0..LETTERS.len())]).collect()
}

fn value(rng: &mut StdRng, depth: u32) -> AnyValue {
    let value = match rng.random_range(0..if depth > 2 { 5 } else { 8 }) {
        0 => Some(Any::StringValue(text(rng))),
        1 => Some(Any::IntValue(rng.random())),
        2 => Some(Any::DoubleValue(f64::from(rng.random::<f32>()) * 1e9)),
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

fn value_below(rng: &mut StdRng, depth: u32) -> AnyValue {
    value(rng, depth + 1)
}

fn attributes(rng: &mut StdRng, depth: u32) -> Vec<KeyValue> {
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

fn span(rng: &mut StdRng) -> Span {
    Span {
        trace_id: id(rng, 16),
        span_id: id(rng, 8),
        parent_span_id: if rng.random() { id(rng, 8) } else { Vec::new() },
        trace_state: text(rng),
        flags: rng.random(),
        name: text(rng),
        kind: rng.random_range(0..6),
        start_time_unix_nano: rng.random(),
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

fn traces(rng: &mut StdRng) -> ExportTraceServiceRequest {
    let scope = |rng: &mut StdRng| ScopeSpans {
        scope: rng.random::<bool>().then(|| InstrumentationScope {
            name: text(rng),
            version: text(rng),
            attributes: attributes(rng, 0),
            dropped_attributes_count: rng.random_range(0..3),
        }),
        spans: (0..rng.random_range(0..4)).map(|_| span(rng)).collect(),
        schema_url: text(rng),
    };
    let group = |rng: &mut StdRng| ResourceSpans {
        resource: rng.random::<bool>().then(|| Resource { attributes: attributes(rng, 0), ..Resource::default() }),
        scope_spans: (0..rng.random_range(0..3)).map(|_| scope(rng)).collect(),
        schema_url: text(rng),
    };
    ExportTraceServiceRequest { resource_spans: (0..rng.random_range(0..3)).map(|_| group(rng)).collect() }
}

fn spans(request: &ExportTraceServiceRequest) -> impl Iterator<Item = &Span> {
    request.resource_spans.iter().flat_map(|group| &group.scope_spans).flat_map(|scope| &scope.spans)
}

/// The bytes of every span in a body, as our walker finds them.
fn span_bytes(body: &[u8]) -> Vec<&[u8]> {
    let nested = |bytes, wanted| {
        Fields::new(bytes).filter_map(move |field| match field.unwrap() {
            (number, Raw::Bytes(bytes)) if number == wanted => Some(bytes),
            _ => None,
        })
    };
    nested(body, 1).flat_map(|group| nested(group, 2)).flat_map(|scope| nested(scope, 2)).collect()
}

fn accept(signal: Signal, body: &[u8]) -> Result<Checked, Malformed> {
    check::check(signal, body, |_| false)
}

/// Whatever prost writes, we read the same.
#[test]
fn walker_and_prost_agree() {
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..300 {
        let request = traces(&mut rng);
        let body = request.encode_to_vec();
        let found = span_bytes(&body);
        assert_eq!(accept(Signal::Traces, &body).unwrap().accepted as usize, found.len());
        assert_eq!(found.len(), spans(&request).count());
        for (bytes, span) in found.into_iter().zip(spans(&request)) {
            let mut read = Vec::new();
            let view = View::read(bytes, &mut read).unwrap();
            assert_eq!((view.trace_id, view.span_id), (span.trace_id.as_slice(), span.span_id.as_slice()));
            assert_eq!((view.name, view.trace_state), (span.name.as_str(), span.trace_state.as_str()));
            assert_eq!((view.start, view.end), (span.start_time_unix_nano, span.end_time_unix_nano));
            assert_eq!((view.flags, view.kind), (span.flags, span.kind as u64));
            assert_eq!(view.dropped[0], span.dropped_attributes_count);
            assert_eq!(view.has_status, span.status.is_some());
            assert_eq!(read.len(), span.attributes.len());
            read.iter().zip(&span.attributes).for_each(|(ours, theirs)| same(ours, theirs));
        }
    }
}

fn same(ours: &Attribute<'_>, theirs: &KeyValue) {
    assert_eq!(ours.key, theirs.key);
    match (ours.value, theirs.value.as_ref().and_then(|value| value.value.as_ref())) {
        (Value::Text(ours), Some(Any::StringValue(theirs))) => assert_eq!(ours, theirs),
        (Value::Int(ours), Some(Any::IntValue(theirs))) => assert_eq!(ours, *theirs),
        (Value::Double(ours), Some(Any::DoubleValue(theirs))) => assert_eq!(ours, *theirs),
        (Value::Bool(ours), Some(Any::BoolValue(theirs))) => assert_eq!(ours, *theirs),
        (Value::Compound(ours), Some(_)) => assert_eq!(AnyValue::decode(ours).unwrap(), theirs.value.clone().unwrap()),
        (Value::Empty, None) => {}
        (ours, theirs) => panic!("{ours:?} is not {theirs:?}"),
    }
}

/// A body printed as OTLP JSON and read back is the body: neither the printer nor the JSON reader loses anything.
#[test]
fn json_round_trip_loses_nothing() {
    let mut rng = StdRng::seed_from_u64(2);
    let keep_all = Redaction::new(true, Vec::new());
    for _ in 0..300 {
        let request = traces(&mut rng);
        let mut printed = String::new();
        print::message(&schema::TRACES, &request.encode_to_vec(), &keep_all, &mut printed).unwrap();
        let encoded = json::encode(&schema::TRACES, printed.as_bytes()).unwrap();
        assert_eq!(ExportTraceServiceRequest::decode(encoded.as_slice()).unwrap(), request, "{printed}");
    }
}

/// Exponential buckets, exemplars and signed fields survive the same round trip.
#[test]
fn json_round_trip_of_metrics() {
    let point = ExponentialHistogramDataPoint {
        time_unix_nano: 5,
        count: 3,
        sum: Some(0.0),
        scale: -3,
        positive: Some(Buckets { offset: -7, bucket_counts: vec![1, 0, u64::MAX] }),
        exemplars: vec![Exemplar {
            time_unix_nano: 1,
            span_id: vec![1; 8],
            trace_id: vec![2; 16],
            value: Some(exemplar::Value::AsInt(-5)),
            ..Exemplar::default()
        }],
        min: Some(-1.5),
        ..ExponentialHistogramDataPoint::default()
    };
    let data = ExponentialHistogram { data_points: vec![point], aggregation_temporality: 1 };
    let metric = Metric { name: "m".into(), data: Some(Data::ExponentialHistogram(data)), ..Metric::default() };
    let scope = ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() };
    let group = ResourceMetrics { scope_metrics: vec![scope], ..ResourceMetrics::default() };
    let request = ExportMetricsServiceRequest { resource_metrics: vec![group] };
    let body = request.encode_to_vec();
    assert_eq!(accept(Signal::Metrics, &body).unwrap().accepted, 1);
    let mut printed = String::new();
    print::message(&schema::METRICS, &body, &Redaction::new(true, Vec::new()), &mut printed).unwrap();
    let encoded = json::encode(&schema::METRICS, printed.as_bytes()).unwrap();
    assert_eq!(ExportMetricsServiceRequest::decode(encoded.as_slice()).unwrap(), request, "{printed}");
}

/// What real senders do to JSON is understood: ids in base64 or upper case, numbers as numbers, unknown and null fields.
#[test]
fn lenient_json_is_read() {
    let json = br#"{"unknown": [1, {"a": null}], "resourceSpans": [{"resource": null, "scopeSpans": [{"spans": [
        {"traceId": "0AF7651916CD43DD8448EB211C80319C", "spanId": "t6/dTXRtQSA=", "name": "x", "kind": 3,
         "startTimeUnixNano": 1790000000000000000, "endTimeUnixNano": "1790000000000000001",
         "attributes": [{"key": "i", "value": {"intValue": 5}}, {"key": "d", "value": {"doubleValue": "NaN"}}]},
        {"traceId": "zz", "spanId": "00f067aa0ba902b7", "name": "bad"}]}]}]}"#;
    let body = json::encode(&schema::TRACES, json).unwrap();
    let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
    let first = spans(&request).next().unwrap();
    assert_eq!((first.trace_id.len(), first.span_id.len(), first.kind), (16, 8, 3));
    assert_eq!(first.start_time_unix_nano + 1, first.end_time_unix_nano);
    let checked = accept(Signal::Traces, &body).unwrap();
    assert_eq!((checked.accepted, checked.rejected, checked.fault), (1, 1, Some(Fault::TraceId)));
    assert!(json::encode(&schema::TRACES, b"{\"resourceSpans\": 5}").is_err());
    assert!(json::encode(&schema::TRACES, b"{").is_err());
}

/// No cut, no flipped byte makes the walker do anything but answer; and a cut in the outermost message is an error.
#[test]
fn mutilated_bodies_are_answered() {
    let mut rng = StdRng::seed_from_u64(3);
    for _ in 0..200 {
        let body = traces(&mut rng).encode_to_vec();
        for _ in 0..20 {
            let mut bad = body.clone();
            if !bad.is_empty() {
                let place = rng.random_range(0..bad.len());
                bad[place] = rng.random();
                bad.truncate(rng.random_range(0..=bad.len()));
            }
            if accept(Signal::Traces, &bad).is_ok() {
                let mut printed = String::new();
                let _ = print::message(&schema::TRACES, &bad, &Redaction::default(), &mut printed);
            }
        }
    }
    let body = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { schema_url: "x".repeat(300), ..ResourceSpans::default() }],
    }
    .encode_to_vec();
    assert_eq!(accept(Signal::Traces, &body[..body.len() - 1]), Err(Malformed::Truncated));
}

/// Text that is not UTF-8 costs the span that holds it and no other.
#[test]
fn invalid_text_rejects_one_span() {
    let mut rng = StdRng::seed_from_u64(4);
    let good = Span { name: "good".into(), ..span(&mut rng) };
    let marked = Span { name: "MARKED".into(), ..span(&mut rng) };
    let scope = ScopeSpans { spans: vec![good, marked], ..ScopeSpans::default() };
    let group = ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() };
    let mut body = ExportTraceServiceRequest { resource_spans: vec![group] }.encode_to_vec();
    let place = body.windows(6).position(|window| window == b"MARKED").unwrap();
    body[place] = 0xff;
    let checked = accept(Signal::Traces, &body).unwrap();
    assert_eq!((checked.accepted, checked.rejected, checked.fault), (1, 1, Some(Fault::Utf8)));
}

/// A body that inflates past the limit is refused at the limit, whatever it would have become.
#[test]
fn a_bomb_is_refused_at_the_limit() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..64 {
        gzip.write_all(&[0; 1 << 20]).unwrap();
    }
    let gzip = bytes::Bytes::from(gzip.finish().unwrap());
    let zstd = bytes::Bytes::from(zstd::encode_all(&[0_u8; 32 << 20][..], 1).unwrap());
    for (compression, body) in [(inflate::Compression::Gzip, gzip), (inflate::Compression::Zstd, zstd)] {
        let mut taken = 0;
        let refused = inflate::inflate(compression, &body, 1 << 20, |bytes| {
            taken += bytes;
            true
        });
        assert!(matches!(refused, Err(inflate::InflateError::TooLarge(_))));
        assert!(taken <= (1 << 20) + 1);
        let whole = inflate::inflate(compression, &body, 64 << 20, |_| true).unwrap();
        assert!(whole.iter().all(|byte| *byte == 0));
        assert!(matches!(
            inflate::inflate(compression, &body, 64 << 20, |_| false),
            Err(inflate::InflateError::NoRoom)
        ));
    }
    let large = bytes::Bytes::from(zstd::encode_all(&[7_u8; 20 << 20][..], 1).unwrap());
    let whole = inflate::inflate(inflate::Compression::Zstd, &large, 20 << 20, |_| true).unwrap();
    assert_eq!((whole.len(), whole.iter().all(|byte| *byte == 7)), (20 << 20, true));
    let junk = bytes::Bytes::from_static(b"no gzip at all");
    let refused = inflate::inflate(inflate::Compression::Gzip, &junk, 1 << 20, |_| true);
    assert!(matches!(refused, Err(inflate::InflateError::Invalid("gzip", _))));
}
