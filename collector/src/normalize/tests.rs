//! What emitters send, and what it becomes: each test is a span or a metric and the columns expected.

mod round_trip;

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;

use super::{Body, Normalizer, Settings};
use crate::batch::tables::{Buffer, Tables};
use crate::signal::Signal;

mod allocation;
mod hosts;
mod devices;
mod dialects;
mod tokens;

const NOW_US: i64 = 1_790_000_000_000_000;
const START_NS: u64 = 1_789_999_990_000_000_000;

/// Rows of all tables after one body.
fn rows(signal: Signal, body: &[u8]) -> Tables {
    rows_of_all(signal, [body])
}

/// Rows of all tables after these bodies.
fn rows_of_all(signal: Signal, bodies: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Tables {
    let models = BTreeMap::from([("mapped".to_owned(), "configured-model".to_owned())]);
    let mut normalizer = Normalizer::new(Settings { models, ..Settings::default() }).unwrap();
    let mut tables = Tables::new(|_| 0);
    for (frame, body) in (1..).zip(bodies) {
        tables.enter(frame, NOW_US);
        normalizer
            .body(Body { signal, received_us: NOW_US, faulty: false, bytes: body.as_ref() }, &mut tables)
            .unwrap();
    }
    tables
}

/// Columns as text, NULL left out.
fn read(buffer: &mut Buffer) -> Vec<BTreeMap<String, String>> {
    let Some(closed) = buffer.close(1).unwrap() else { return Vec::new() };
    closed.batches.iter().flat_map(|(_, batch)| read_batch(batch)).collect()
}

fn read_batch(batch: &RecordBatch) -> Vec<BTreeMap<String, String>> {
    let mut rows = vec![BTreeMap::new(); batch.num_rows()];
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        let nulls = array.logical_nulls();
        let text = arrow::compute::cast(array, &DataType::Utf8).ok().filter(|_| array.as_map_opt().is_none());
        for (row, read) in rows.iter_mut().enumerate() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            if let Some(map) = array.as_map_opt() {
                let entries = map.value(row);
                let (keys, values) = (entries.column(0).as_string::<i32>(), entries.column(1).as_string::<i32>());
                for at in 0..entries.len() {
                    read.insert(format!("{}.{}", field.name(), keys.value(at)), values.value(at).to_owned());
                }
            } else if let Some(text) = &text {
                read.insert(field.name().clone(), text.as_string::<i32>().value(row).to_owned());
            }
        }
    }
    rows
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn int(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

fn double(key: &str, value: f64) -> KeyValue {
    attribute(key, Value::DoubleValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn span(name: &str, kind: i32, attributes: Vec<KeyValue>) -> Span {
    Span {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        name: name.to_owned(),
        kind,
        start_time_unix_nano: START_NS,
        end_time_unix_nano: START_NS + 2_000_000_000,
        attributes,
        ..Span::default()
    }
}

fn traces(service: &str, span: Span) -> Tables {
    let resource = Some(Resource { attributes: vec![text("service.name", service)], ..Resource::default() });
    let scope = ScopeSpans { spans: vec![span], ..ScopeSpans::default() };
    let group = ResourceSpans { resource, scope_spans: vec![scope], ..ResourceSpans::default() };
    rows(Signal::Traces, &ExportTraceServiceRequest { resource_spans: vec![group] }.encode_to_vec())
}

/// The call that a span is read as must have these columns.
fn check(span: Span, expected: &[(&str, &str)]) {
    let name = span.name.clone();
    let mut tables = traces("emitter", span);
    let calls = read(&mut tables.requests);
    assert_eq!(calls.len(), 1, "{name} is a call");
    for (column, value) in expected {
        assert_eq!(calls[0].get(*column).map(String::as_str), Some(*value), "{name}: {column} in {:?}", calls[0]);
    }
    assert_eq!(read(&mut tables.spans).len(), 1, "{name} is kept as a span too");
}

const SERVER: i32 = 2;
const CLIENT: i32 = 3;
const INTERNAL: i32 = 1;

/// vLLM V0 names its model, V1 does not: then the configuration does, and the row says that the model is assumed.
#[test]
fn vllm_spans() {
    let v0 = vec![int("gen_ai.usage.num_sequences", 1), text("gen_ai.response.model", "m")];
    check(span("llm_request", SERVER, v0), &[("engine", "vllm"), ("model", "m"), ("measured_at", "server")]);
    let v1 = || span("llm_request", SERVER, vec![double("gen_ai.latency.e2e", 1.0)]);
    let calls = read(&mut traces("mapped", v1()).requests);
    assert_eq!((calls[0]["model"].as_str(), calls[0]["quality"].as_str()), ("configured-model", "assumed_model"));
    let calls = read(&mut traces("nobody", v1()).requests);
    assert_eq!(calls[0].get("model"), None, "unknown stays unknown");
}

/// Agents, tools, start-up work and retrieval are no calls.
#[test]
fn what_is_no_call() {
    let operation = |name| vec![text("gen_ai.operation.name", name), text("gen_ai.request.model", "m")];
    for span in [
        span("invoke_agent a", CLIENT, operation("invoke_agent")),
        span("execute_tool t", INTERNAL, operation("execute_tool")),
        span("Load model", INTERNAL, vec![text("code.function", "load_model")]),
        span("retrieval", INTERNAL, vec![]),
    ] {
        let mut tables = traces("emitter", span);
        assert_eq!(read(&mut tables.requests).len(), 0);
        assert_eq!(read(&mut tables.spans).len(), 1);
    }
}

/// Where only an event marks the first token, TTFT runs to it and says so; errors and aborts have their own status.
#[test]
fn events_and_outcomes() {
    let call = |more: Vec<KeyValue>| {
        let attributes = [vec![text("gen_ai.operation.name", "chat")], more].concat();
        span("chat m", CLIENT, attributes)
    };
    let event = Event { time_unix_nano: START_NS + 300_000_000, name: "first_token".into(), ..Event::default() };
    let first = Span { events: vec![event], ..call(Vec::new()) };
    check(first, &[("ttft_s", "0.3"), ("ttft_definition", "first_token")]);
    let failed = Status { message: "boom".into(), code: 2 };
    check(Span { status: Some(failed), ..call(Vec::new()) }, &[("status", "error")]);
    check(call(vec![text("error.type", "timeout")]), &[("status", "error"), ("error_type", "timeout")]);
    check(call(vec![text("gen_ai.response.finish_reason", "abort")]), &[("status", "cancelled")]);
}

/// A token event of a request span is a token like a token span.
#[test]
fn tokens_as_events() {
    let event = |index, at| Event {
        time_unix_nano: START_NS + at,
        name: "token".into(),
        attributes: vec![int("tokenwatt.token.index", index), int("tokenwatt.token.count", 2)],
        ..Event::default()
    };
    let call = Span { events: vec![event(0, 5_000), event(1, 7_999)], ..span("llm_request", SERVER, vec![]) };
    let mut tables = traces("emitter", call);
    let tokens = read(&mut tables.tokens);
    assert_eq!(tokens.len(), 2);
    assert_eq!((tokens[1]["index"].as_str(), tokens[1]["count"].as_str()), ("1", "2"));
    assert_eq!(tokens[1]["request_span_id"], "02".repeat(8));
    assert!(tokens[1]["time"].ends_with("10.000007Z"), "{}", tokens[1]["time"]);
}

/// Points of several metrics at one instant are one sample; each also stays a metric as it was sent.
#[test]
fn samples_are_merged() {
    let point = |value, attributes| NumberDataPoint {
        start_time_unix_nano: START_NS - 1_000_000_000,
        time_unix_nano: START_NS,
        value: Some(value),
        attributes,
        ..NumberDataPoint::default()
    };
    let device = || vec![text("hw.id", "0"), text("hw.type", "gpu"), text("hw.model", "inferentia2")];
    let gauge = |name: &str, unit: &str, point| Metric {
        name: name.into(),
        unit: unit.into(),
        data: Some(Data::Gauge(Gauge { data_points: vec![point] })),
        ..Metric::default()
    };
    let sum = |name: &str, point| Metric {
        name: name.into(),
        data: Some(Data::Sum(Sum { data_points: vec![point], aggregation_temporality: 2, is_monotonic: true })),
        ..Metric::default()
    };
    let power = [device(), vec![text("tokenwatt.boundary", "chip"), text("odd", "kept")]].concat();
    let engine = || vec![text("model_name", "m")];
    let summary = SummaryDataPoint { time_unix_nano: START_NS, count: 2, ..SummaryDataPoint::default() };
    let metrics = vec![
        gauge("hw.power", "W", point(Number::AsDouble(75.5), power)),
        sum("hw.energy", point(Number::AsInt(1_000), device())),
        gauge("hw.gpu.utilization", "%", point(Number::AsDouble(50.0), device())),
        gauge("hw.temperature", "Cel", point(Number::AsDouble(f64::NAN), device())),
        gauge("vllm:num_requests_running", "", point(Number::AsInt(3), engine())),
        sum("tokenwatt.engine.busy_us", point(Number::AsInt(123), engine())),
        gauge("other", "1", point(Number::AsInt(-4), vec![])),
        Metric {
            name: "old".into(),
            data: Some(Data::Summary(Summary { data_points: vec![summary] })),
            ..Metric::default()
        },
    ];
    let scope = ScopeMetrics { metrics, ..ScopeMetrics::default() };
    let group = ResourceMetrics { scope_metrics: vec![scope], ..ResourceMetrics::default() };
    let mut tables =
        rows(Signal::Metrics, &ExportMetricsServiceRequest { resource_metrics: vec![group] }.encode_to_vec());
    let samples = read(&mut tables.devices);
    assert_eq!(samples.len(), 2);
    let (device, engine) = (&samples[0], &samples[1]);
    for (column, value) in [
        ("kind", "accelerator"),
        ("device", "0"),
        ("accelerator", "inferentia2"),
        ("power_w", "75.5"),
        ("energy_j", "1000.0"),
        ("utilization", "0.5"),
        ("boundary", "chip"),
        ("attributes.odd", "kept"),
    ] {
        assert_eq!(device.get(column).map(String::as_str), Some(value), "{column} in {device:?}");
    }
    assert!(device.contains_key("energy_start_time") && !device.contains_key("temperature_c"));
    for (column, value) in [("kind", "engine"), ("model", "m"), ("running", "3"), ("busy_us", "123")] {
        assert_eq!(engine.get(column).map(String::as_str), Some(value), "{column} in {engine:?}");
    }
    let kept = read(&mut tables.metrics);
    assert_eq!(kept.len(), 7);
    assert_eq!((kept[1]["temporality"].as_str(), kept[1]["monotonic"].as_str()), ("cumulative", "true"));
    assert_eq!((kept[6]["value"].as_str(), kept[6]["value_int"].as_str()), ("-4.0", "-4"));
    let histograms = read(&mut tables.histograms);
    assert_eq!((histograms[0]["kind"].as_str(), histograms[0]["count"].as_str()), ("summary", "2"));
}

/// Names that are none are cut and flagged, numbers that can not be true are left out and flagged; the span has them as sent.
#[test]
fn absurd_values_are_bounded_and_flagged() {
    let long = "é".repeat(500_000);
    let sent = span(
        "llm_request",
        SERVER,
        vec![
            text("gen_ai.request.model", &long),
            text("gen_ai.response.finish_reasons", &long),
            int("tokenwatt.device_us.decode", i64::MAX),
            int("gen_ai.usage.output_tokens", i64::MAX),
        ],
    );
    let mut tables = traces(&long, sent);
    let calls = read(&mut tables.requests);
    assert_eq!(calls[0]["model"], "é".repeat(512));
    assert_eq!((calls[0]["service"].len(), calls[0]["finish_reason"].len()), (1_024, 1_024));
    assert_eq!((calls[0].get("device_us_decode"), calls[0].get("output_tokens")), (None, None));
    assert_eq!(calls[0]["quality"], "invalid,e2e_from_span,cut");
    let spans = read(&mut tables.spans);
    assert_eq!(spans[0]["attributes.gen_ai.request.model"], long);
    assert_eq!(spans[0]["attributes.tokenwatt.device_us.decode"], i64::MAX.to_string());

    let token = span(
        "token",
        INTERNAL,
        vec![
            int("tokenwatt.token.index", -1),
            int("tokenwatt.token.count", i64::MAX),
            int("tokenwatt.token.choice", i64::MIN),
            int("tokenwatt.token.device_us", i64::MAX),
            int("tokenwatt.token.batch", 8),
            text("tokenwatt.tenant", &long),
        ],
    );
    let tokens = read(&mut traces("emitter", token).tokens);
    let kept = |key: &str| tokens[0].get(key).map(String::as_str);
    assert_eq!((kept("count"), kept("choice"), kept("batch_size")), (Some("1"), Some("0"), Some("8")));
    assert_eq!((kept("index"), kept("device_us"), tokens[0]["tenant"].len()), (None, None, 1_024));
    assert_eq!(kept("attributes.tokenwatt.token.count"), Some("9223372036854775807"));
    assert_eq!(
        (kept("attributes.tokenwatt.token.index"), kept("attributes.tokenwatt.token.batch")),
        (Some("-1"), None)
    );
}
