//! Bodies that protobuf allows and few senders make.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::ArrayValue;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::*;
use crate::decode::canonical::canonical;
use crate::decode::schema::Kind;
use crate::decode::wire::{put_bytes, put_raw, put_tag, put_varint};

/// Rewrites a message so that protobuf reads the same: its fields in random order where their order says nothing, nested
/// messages sent in two parts, unknown fields between, members of a oneof sent that a later one replaces.
fn scramble(message: &'static schema::Message, bytes: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let mut fields = Vec::new();
    for field in Fields::new(bytes) {
        let (number, value) = field.unwrap();
        let known = message.field(number).unwrap();
        let mut written = Vec::new();
        match (known.kind, value) {
            (Kind::Message(nested), Raw::Bytes(bytes)) => {
                let inner = scramble(nested, bytes, rng);
                match !known.repeated && rng.random() {
                    true => split(&inner, rng).iter().for_each(|part| put_bytes(number, part, &mut written)),
                    false => put_bytes(number, &inner, &mut written),
                }
            }
            (_, value) => put_raw(number, value, &mut written),
        }
        fields.push((number, written));
    }
    let mut out = Vec::new();
    if message.has_choice() && rng.random() {
        let replaced = message.fields.iter().find(|field| field.exclusive && matches!(field.kind, Kind::Double));
        if let Some(field) = replaced.filter(|field| fields.iter().any(|(number, _)| *number != field.number)) {
            put_tag(field.number, 1, &mut out);
            out.extend_from_slice(&[7; 8]);
        }
    }
    while !fields.is_empty() {
        if rng.random_range(0..4) == 0 {
            put_tag(1_000, 0, &mut out);
            put_varint(rng.random(), &mut out);
        }
        // Of one field the order is kept, since repeated ones have an order.
        let number = fields[rng.random_range(0..fields.len())].0;
        let place = fields.iter().position(|(known, _)| *known == number).unwrap();
        out.extend_from_slice(&fields.remove(place).1);
    }
    out
}

/// The fields of a message in two runs, which together are the message.
fn split(bytes: &[u8], rng: &mut StdRng) -> [Vec<u8>; 2] {
    let mut parts = [Vec::new(), Vec::new()];
    let fields: Vec<_> = Fields::new(bytes).map(Result::unwrap).collect();
    let cut = rng.random_range(0..=fields.len());
    for (place, (number, value)) in fields.into_iter().enumerate() {
        put_raw(number, value, &mut parts[usize::from(place >= cut)]);
    }
    parts
}

fn assert_same<M: Message + Default>(
    signal: Signal,
    message: &'static schema::Message,
    bytes: &[u8],
    rng: &mut StdRng,
) {
    let scrambled = scramble(message, bytes, rng);
    let meant = M::decode(scrambled.as_slice()).unwrap().encode_to_vec();
    let mended = canonical(message, &scrambled).unwrap();
    assert_eq!(M::decode(mended.as_slice()).unwrap().encode_to_vec(), meant);
    assert!(!accept(signal, &mended).unwrap().odd);
    assert_eq!(canonical(message, &mended).unwrap(), mended, "doing it twice changes nothing");
    // What we do not call odd is read right as it is: the printer, which reads what our rows are made of, prints the same.
    if !accept(signal, &scrambled).unwrap().odd {
        let printed = |bytes: &[u8]| {
            let mut out = String::new();
            print::message(message, bytes, &Redaction::new(Rules { keep_content: true, ..Rules::default() }), &mut out)
                .unwrap();
            out
        };
        assert_eq!(printed(&scrambled), printed(&mended));
    }
}

/// Whatever order, parts and replaced values protobuf allows, we read what prost reads.
#[test]
fn parts_sent_apart_are_joined_as_prost_joins_them() {
    let mut rng = StdRng::seed_from_u64(5);
    for _ in 0..200 {
        let body = traces(&mut rng).encode_to_vec();
        assert_same::<ExportTraceServiceRequest>(Signal::Traces, &schema::TRACES, &body, &mut rng);
        let body = samples::metrics(&mut rng).encode_to_vec();
        assert_same::<ExportMetricsServiceRequest>(Signal::Metrics, &schema::METRICS, &body, &mut rng);
        let body = samples::logs(&mut rng).encode_to_vec();
        assert_same::<ExportLogsServiceRequest>(Signal::Logs, &schema::LOGS, &body, &mut rng);
    }
}

/// A gauge in two parts has the points of both; a resource in two parts the attributes of both.
#[test]
fn two_parts_are_seen_as_odd() {
    let mut rng = StdRng::seed_from_u64(6);
    let resource = Resource { attributes: vec![KeyValue::default()], ..Resource::default() };
    let mut group = Vec::new();
    put_bytes(1, &resource.encode_to_vec(), &mut group);
    put_bytes(2, &ScopeSpans { spans: vec![span(&mut rng)], ..ScopeSpans::default() }.encode_to_vec(), &mut group);
    put_bytes(1, &resource.encode_to_vec(), &mut group);
    let mut body = Vec::new();
    put_bytes(1, &group, &mut body);
    assert!(accept(Signal::Traces, &body).unwrap().odd);
    let mended = canonical(&schema::TRACES, &body).unwrap();
    let read = ExportTraceServiceRequest::decode(mended.as_slice()).unwrap();
    assert_eq!(read.resource_spans[0].resource.as_ref().unwrap().attributes.len(), 2);
}

/// Ids sent as hex text in protobuf are ids.
#[test]
fn hex_text_in_id_fields_is_read() {
    let mut rng = StdRng::seed_from_u64(7);
    let sent = Span { attributes: Vec::new(), events: Vec::new(), links: Vec::new(), ..span(&mut rng) };
    let text = |id: &[u8]| hex::encode_upper(id).into_bytes();
    let spelled = Span {
        trace_id: text(&sent.trace_id),
        span_id: text(&sent.span_id),
        parent_span_id: vec![b'0'; 16],
        ..sent.clone()
    };
    let body = |span| {
        let scope_spans = vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }];
        let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    };
    let checked = accept(Signal::Traces, &body(spelled.clone())).unwrap();
    assert!(checked.odd);
    let mended = canonical(&schema::TRACES, &body(spelled)).unwrap();
    assert_eq!(accept(Signal::Traces, &mended).unwrap().accepted, 1);
    let read = ExportTraceServiceRequest::decode(mended.as_slice()).unwrap();
    let read = spans(&read).next().unwrap();
    assert_eq!((&read.trace_id, &read.span_id, &read.parent_span_id), (&sent.trace_id, &sent.span_id, &vec![0; 8]));
}

/// A log record whose ids are longer than ids can be is rejected by name; one without, or with short ones, is kept.
#[test]
fn log_records_with_long_ids_are_rejected() {
    let record = |trace: usize, span: usize| LogRecord {
        trace_id: vec![7; trace],
        span_id: vec![7; span],
        time_unix_nano: 1,
        ..LogRecord::default()
    };
    for (trace, span, fault) in [
        (0, 0, None),
        (16, 8, None),
        (4, 3, None),
        (17, 8, Some(Fault::TraceId)),
        (16, 1_000, Some(Fault::SpanId)),
        (1_000, 0, Some(Fault::TraceId)),
    ] {
        let log_records = vec![record(trace, span), record(16, 8)];
        let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
        let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
        let checked = accept(Signal::Logs, &ExportLogsServiceRequest { resource_logs }.encode_to_vec()).unwrap();
        assert_eq!((checked.rejected, checked.fault), (u64::from(fault.is_some()), fault), "{trace} {span}");
    }
}

/// Values nested without end cost their span, in protobuf and in JSON.
#[test]
fn endless_nesting_costs_its_item() {
    let mut rng = StdRng::seed_from_u64(8);
    let mut deep = AnyValue { value: Some(Any::IntValue(1)) };
    for _ in 0..60 {
        deep = AnyValue { value: Some(Any::ArrayValue(ArrayValue { values: vec![deep] })) };
    }
    let attribute = KeyValue { key: "deep".into(), value: Some(deep), ..KeyValue::default() };
    let spans = vec![span(&mut rng), Span { attributes: vec![attribute], ..span(&mut rng) }];
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
    let checked = accept(Signal::Traces, &body).unwrap();
    assert_eq!((checked.accepted, checked.rejected, checked.fault), (1, 1, Some(Fault::Depth)));
    let json = format!(
        "{{\"resourceSpans\": [{{\"scopeSpans\": [{{\"spans\": [{{\"attributes\": [{{\"key\": \"a\", \"value\": {}{}}}]}}]}}]}}]}}",
        "{\"arrayValue\": {\"values\": [".repeat(500),
        "]}}".repeat(500)
    );
    let checked = accept(Signal::Traces, &encode(&schema::TRACES, json.as_bytes()).unwrap()).unwrap();
    assert_eq!((checked.accepted, checked.rejected), (0, 1));
}

/// Behind the fault for which an item is rejected there may be bytes that are no message at all; the item stays as it is, and what
/// becomes of the others does not change.
#[test]
fn a_rejected_item_is_not_looked_at_further() {
    let mut rng = StdRng::seed_from_u64(9);
    let mut bad = Vec::new();
    put_bytes(15, &[&[0x12, 1], &[0xff][..]].concat(), &mut bad);
    put_bytes(9, &[0xff, 0xff], &mut bad);
    put_raw(5, Raw::Fixed64(1), &mut bad);
    let mut scope = Vec::new();
    put_bytes(2, &bad, &mut scope);
    put_bytes(2, &span(&mut rng).encode_to_vec(), &mut scope);
    let (mut group, mut body) = (Vec::new(), Vec::new());
    put_bytes(2, &scope, &mut group);
    put_bytes(1, &group, &mut body);
    let checked = accept(Signal::Traces, &body).unwrap();
    assert_eq!((checked.accepted, checked.rejected, checked.fault), (1, 1, Some(Fault::Utf8)));
    let mended = canonical(&schema::TRACES, &body).unwrap();
    assert_eq!(accept(Signal::Traces, &mended).unwrap(), checked);
    assert!(mended.windows(bad.len()).any(|window| window == bad));
}
