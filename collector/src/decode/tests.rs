//! Generated bodies: what our walker says equals what prost says.

mod json_tests;
mod odd;
mod turns;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::check::{self, Checked, Fault};
use super::samples::{self, span, traces};
use super::view::{Attribute, Span as View, Value};
use super::wire::{Fields, Malformed, Raw, short_pair, short_text};
use super::{inflate, json, print, schema};
use crate::normalize::redact::{Redaction, Rules};
use crate::signal::Signal;

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

fn fields(bytes: &[u8]) -> Result<Vec<(u32, Raw<'_>)>, Malformed> {
    Fields::new(bytes).collect()
}

/// What is read at a glance is what the walk along the fields finds, and nothing beside it, whichever bytes are broken.
#[test]
fn short_messages_are_read_at_a_glance() {
    let mut random = StdRng::seed_from_u64(5);
    let (mut pairs, mut texts) = (0, 0);
    for round in 0..50_000 {
        let value = Some(AnyValue { value: Some(Any::StringValue("x".repeat(random.random_range(0..140)))) });
        let pair = KeyValue { key: "k".repeat(random.random_range(0..140)), value, ..KeyValue::default() };
        let mut bytes = pair.encode_to_vec();
        for _ in 0..round % 3 {
            let at = random.random_range(0..bytes.len().min(6));
            bytes[at] = random.random();
        }
        if let Some((key, value)) = short_pair(&bytes) {
            pairs += 1;
            assert_eq!(fields(&bytes), Ok(vec![(1, Raw::Bytes(key)), (2, Raw::Bytes(value))]));
            if let Some(text) = short_text(value) {
                texts += 1;
                assert_eq!(fields(value), Ok(vec![(1, Raw::Bytes(text))]));
            }
        }
    }
    assert!(pairs > 10_000 && texts > 5_000, "{pairs} pairs, {texts} texts");
}

fn encode(message: &'static schema::Message, json: &[u8]) -> Result<Vec<u8>, json::JsonError> {
    json::encode(message, json, 1 << 20, |_| true)
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
    for _ in 0..200 {
        assert_round_trip(&schema::TRACES, &traces(&mut rng));
        assert_round_trip(&schema::METRICS, &samples::metrics(&mut rng));
        assert_round_trip(&schema::LOGS, &samples::logs(&mut rng));
    }
}

/// Compared as prost encodes it, since a double may be NaN.
fn assert_round_trip<M: Message + Default>(message: &'static schema::Message, request: &M) {
    let mut printed = String::new();
    let keep_all = Redaction::new(Rules { keep_content: true, ..Rules::default() });
    print::message(message, &request.encode_to_vec(), &keep_all, &mut printed).unwrap();
    let encoded = encode(message, printed.as_bytes()).unwrap();
    assert_eq!(M::decode(encoded.as_slice()).unwrap().encode_to_vec(), request.encode_to_vec(), "{printed}");
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

/// A fault in what items share is seen also where there are none, since it would stop the reading of the rest.
#[test]
fn a_fault_without_items_is_seen() {
    use super::wire::put_bytes;
    let within = |numbers: &[u32], bytes: &[u8]| {
        numbers.iter().rev().fold(bytes.to_vec(), |inner, number| {
            let mut outer = Vec::new();
            put_bytes(*number, &inner, &mut outer);
            outer
        })
    };
    for (signal, path) in [
        (Signal::Traces, vec![1, 3]),
        (Signal::Traces, vec![1, 1, 1, 1]),
        (Signal::Logs, vec![1, 2, 1, 1]),
        (Signal::Metrics, vec![1, 2, 2, 1]),
    ] {
        let checked = accept(signal, &within(&path, &[0xff])).unwrap();
        assert_eq!((checked.accepted, checked.rejected, checked.is_faulty()), (0, 0, true), "{path:?}");
        assert!(!accept(signal, &within(&path, b"x")).unwrap().is_faulty(), "{path:?}");
    }
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
