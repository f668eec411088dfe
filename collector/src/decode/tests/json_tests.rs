//! What real senders do to JSON is understood; what cannot be costs its own item and no other.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data, number_data_point};

use super::*;

fn read<M: Message + Default>(message: &'static schema::Message, json: &str) -> M {
    M::decode(encode(message, json.as_bytes()).unwrap_or_else(|error| panic!("{error:?}: {json}")).as_slice()).unwrap()
}

fn in_traces(spans: &str) -> String {
    format!("{{\"resourceSpans\": [{{\"scopeSpans\": [{{\"spans\": [{spans}]}}]}}]}}")
}

fn one_span(fields: &str) -> Span {
    let request: ExportTraceServiceRequest = read(&schema::TRACES, &in_traces(&format!("{{{fields}}}")));
    spans(&request).next().unwrap().clone()
}

fn metric(fields: &str) -> Metric {
    let json = format!("{{\"resourceMetrics\": [{{\"scopeMetrics\": [{{\"metrics\": [{{{fields}}}]}}]}}]}}");
    let request: ExportMetricsServiceRequest = read(&schema::METRICS, &json);
    request.resource_metrics[0].scope_metrics[0].metrics[0].clone()
}

/// Ids in hex of either case, in base64 with and without padding, and as arrays of numbers.
#[test]
fn ids_in_every_spelling() {
    let trace = hex::decode("0af7651916cd43dd8448eb211c80319c").unwrap();
    let span = hex::decode("b7ad6b7169203331").unwrap();
    let numbers = |id: &[u8]| format!("{id:?}");
    for (spelled_trace, spelled_span) in [
        ("\"0af7651916cd43dd8448eb211c80319c\"".to_owned(), "\"b7ad6b7169203331\"".to_owned()),
        ("\"0AF7651916CD43DD8448EB211C80319C\"".to_owned(), "\"B7AD6B7169203331\"".to_owned()),
        ("\"CvdlGRbNQ92ESOshHIAxnA==\"".to_owned(), "\"t61rcWkgMzE=\"".to_owned()),
        ("\"CvdlGRbNQ92ESOshHIAxnA\"".to_owned(), "\"t61rcWkgMzE\"".to_owned()),
        (numbers(&trace), numbers(&span)),
    ] {
        let link = format!("{{\"traceId\": {spelled_trace}, \"spanId\": {spelled_span}}}");
        let read = one_span(&format!("\"traceId\": {spelled_trace}, \"spanId\": {spelled_span}, \"links\": [{link}]"));
        assert_eq!((&read.trace_id, &read.span_id), (&trace, &span), "{spelled_trace}");
        assert_eq!((&read.links[0].trace_id, &read.links[0].span_id), (&trace, &span), "{spelled_trace}");
    }
}

/// Whole numbers as numbers or text, enumerations as numbers or names, doubles that JSON has no number for, nulls.
#[test]
fn values_in_every_spelling() {
    for fields in [
        "\"kind\": 3, \"startTimeUnixNano\": \"1790000000000000001\", \"status\": {\"code\": 2}",
        "\"kind\": \"SPAN_KIND_CLIENT\", \"startTimeUnixNano\": 1790000000000000001, \"status\": {\"code\": \"STATUS_CODE_ERROR\"}",
        "\"kind\": \"3\", \"start_time_unix_nano\": 1790000000000000001, \"status\": {\"code\": 2.0}, \"links\": null",
    ] {
        let read = one_span(fields);
        assert_eq!((read.kind, read.start_time_unix_nano), (3, 1_790_000_000_000_000_001), "{fields}");
        assert_eq!(read.status.unwrap().code, 2, "{fields}");
    }
    let sum =
        metric("\"sum\": {\"aggregationTemporality\": \"AGGREGATION_TEMPORALITY_CUMULATIVE\", \"isMonotonic\": true}");
    assert!(matches!(sum.data, Some(Data::Sum(sum)) if sum.aggregation_temporality == 2 && sum.is_monotonic));
    let log =
        "{\"resourceLogs\": [{\"scopeLogs\": [{\"logRecords\": [{\"severityNumber\": \"SEVERITY_NUMBER_WARN\"}]}]}]}";
    let logs: ExportLogsServiceRequest = read(&schema::LOGS, log);
    assert_eq!(logs.resource_logs[0].scope_logs[0].log_records[0].severity_number, 13);
    let double = |text: &str| {
        let point = format!("\"gauge\": {{\"dataPoints\": [{{\"asDouble\": {text}}}]}}");
        match metric(&point).data {
            Some(Data::Gauge(gauge)) => match gauge.data_points[0].value {
                Some(number_data_point::Value::AsDouble(number)) => number,
                _ => panic!("{text} is no double"),
            },
            _ => panic!("no gauge"),
        }
    };
    assert!(double("\"NaN\"").is_nan());
    assert_eq!((double("\"Infinity\""), double("\"-Infinity\"")), (f64::INFINITY, f64::NEG_INFINITY));
    assert_eq!((double("7"), double("\"1.5\""), double("0.1")), (7.0, 1.5, 0.1));
}

/// What Go prints of its own structures: snake case, and members of a oneof in an object of their own.
#[test]
fn the_spelling_of_go_structures() {
    let json = r#"{"resource_spans": [{"resource": {"attributes": [{"key": "service.name",
        "value": {"Value": {"StringValue": "go"}}}]}, "scope_spans": [{"scope": {"name": "s", "dropped_attributes_count": 2},
        "spans": [{"trace_id": "CvdlGRbNQ92ESOshHIAxnA==", "name": "x", "trace_state": "a=b", "end_time_unix_nano": 5,
        "attributes": [{"key": "n", "value": {"Value": {"IntValue": 7}}}, {"key": "a", "value": {"Value": {"ArrayValue":
        {"values": [{"Value": {"BoolValue": true}}]}}}}]}]}]}]}"#;
    let request: ExportTraceServiceRequest = read(&schema::TRACES, json);
    let group = &request.resource_spans[0];
    let value = |attribute: &KeyValue| attribute.value.clone().unwrap().value.unwrap();
    assert_eq!(value(&group.resource.as_ref().unwrap().attributes[0]), Any::StringValue("go".into()));
    assert_eq!(group.scope_spans[0].scope.as_ref().unwrap().dropped_attributes_count, 2);
    let span = &group.scope_spans[0].spans[0];
    assert_eq!((span.trace_state.as_str(), span.end_time_unix_nano, span.trace_id.len()), ("a=b", 5, 16));
    assert_eq!(value(&span.attributes[0]), Any::IntValue(7));
    assert!(matches!(value(&span.attributes[1]), Any::ArrayValue(array) if array.values.len() == 1));
    let gauge = metric("\"name\": \"g\", \"Data\": {\"Gauge\": {\"data_points\": [{\"Value\": {\"AsDouble\": 1.5}}]}}");
    let Some(Data::Gauge(gauge)) = gauge.data else { panic!("no gauge") };
    assert_eq!(gauge.data_points[0].value, Some(number_data_point::Value::AsDouble(1.5)));
    let histogram =
        metric("\"histogram\": {\"dataPoints\": [{\"Sum_\": {\"Sum\": 2.5}, \"bucket_counts\": [\"1\", 2]}]}");
    let Some(Data::Histogram(histogram)) = histogram.data else { panic!("no histogram") };
    assert_eq!((histogram.data_points[0].sum, &histogram.data_points[0].bucket_counts), (Some(2.5), &vec![1, 2]));
}

/// Unknown fields are passed over, whatever they hold; a null is an absence.
#[test]
fn unknown_and_null_fields_are_passed_over() {
    let json = r#"{"unknown": [1, {"a": null}], "resourceSpans": [{"resource": null, "scopeSpans": [{"spans": [
        {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": null, "new": {"deep": [[]]}},
        null]}]}]}"#;
    let body = encode(&schema::TRACES, json.as_bytes()).unwrap();
    let checked = accept(Signal::Traces, &body).unwrap();
    assert_eq!((checked.accepted, checked.rejected), (1, 0));
}

const GOOD: &str =
    "{\"traceId\": \"0af7651916cd43dd8448eb211c80319c\", \"spanId\": \"b7ad6b7169203331\", \"name\": \"x\"}";

/// A value out of place costs its span and no other, wherever in the span it is.
#[test]
fn a_value_out_of_place_costs_its_item() {
    for bad in [
        "\"name\": 5",
        "\"kind\": \"SOMETHING\"",
        "\"startTimeUnixNano\": \"soon\"",
        "\"flags\": -1",
        "\"droppedEventsCount\": 1e99",
        "\"attributes\": {\"a\": 1}",
        "\"attributes\": [{\"key\": \"k\", \"value\": \"text\"}]",
        "\"attributes\": [{\"key\": \"k\", \"value\": {\"bytesValue\": \"***\"}}]",
        "\"links\": [{\"traceId\": [999]}]",
        "\"events\": [{\"timeUnixNano\": {}}]",
        "\"status\": 2",
    ] {
        let bad = format!("{{\"traceId\": \"{}\", \"spanId\": \"{}\", {bad}}}", "1a".repeat(16), "1b".repeat(8));
        let body = encode(&schema::TRACES, in_traces(&format!("{GOOD}, {bad}, {GOOD}")).as_bytes()).unwrap();
        let checked = accept(Signal::Traces, &body).unwrap();
        assert_eq!((checked.accepted, checked.rejected), (2, 1), "{bad}");
        assert_eq!(checked.fault, Some(Fault::Unreadable), "{bad}");
    }
    let body = encode(&schema::TRACES, in_traces(&format!("7, {GOOD}")).as_bytes()).unwrap();
    assert_eq!(
        (accept(Signal::Traces, &body).unwrap().rejected, accept(Signal::Traces, &body).unwrap().accepted),
        (1, 1)
    );
}

/// What all items share and cannot be read costs these items; a body that is no list of groups, or no JSON, is refused.
#[test]
fn a_shared_value_out_of_place_costs_all_that_share_it() {
    let counts = |signal, message, json: &str| {
        let checked = accept(signal, &encode(message, json.as_bytes()).unwrap()).unwrap();
        (checked.accepted, checked.rejected)
    };
    let group =
        |resource: &str| format!("{{\"resource\": {resource}, \"scopeSpans\": [{{\"spans\": [{GOOD}, {GOOD}]}}]}}");
    let json = format!("{{\"resourceSpans\": [{}, {}]}}", group("{\"attributes\": 5}"), group("{}"));
    assert_eq!(counts(Signal::Traces, &schema::TRACES, &json), (2, 2));
    let metrics = |metric: &str| {
        format!(
            "{{\"resourceMetrics\": [{{\"scopeMetrics\": [{{\"metrics\": [{metric}, {{\"name\": \"m\", \"gauge\": \
                 {{\"dataPoints\": [{{\"asInt\": 1}}]}}}}]}}]}}]}}"
        )
    };
    let points = "{\"asInt\": 1}, {\"asInt\": \"two\"}, {\"asInt\": 3}";
    let point = format!("{{\"name\": \"m\", \"gauge\": {{\"dataPoints\": [{points}]}}}}");
    assert_eq!(counts(Signal::Metrics, &schema::METRICS, &metrics(&point)), (3, 1));
    let name = format!("{{\"name\": {{}}, \"gauge\": {{\"dataPoints\": [{points}]}}}}");
    assert_eq!(counts(Signal::Metrics, &schema::METRICS, &metrics(&name)), (1, 3));
    let sum = format!("{{\"name\": \"m\", \"sum\": {{\"dataPoints\": [{points}], \"isMonotonic\": 7.5}}}}");
    assert_eq!(counts(Signal::Metrics, &schema::METRICS, &metrics(&sum)), (1, 3));
    for refused in
        ["{\"resourceSpans\": 5}", "{", "[]", "", "{} {}", "{\"resourceSpans\": [{\"scopeSpans\": {\"a\": 1}, }]}"]
    {
        assert!(encode(&schema::TRACES, refused.as_bytes()).is_err(), "{refused}");
    }
}

/// Numbers of two characters that take nine bytes are counted before they are written.
#[test]
fn what_grows_by_encoding_is_bounded() {
    let counts = vec!["0"; 10_000].join(",");
    let json = format!(
        "{{\"resourceMetrics\": [{{\"scopeMetrics\": [{{\"metrics\": [{{\"histogram\": {{\"dataPoints\": \
         [{{\"bucketCounts\": [{counts}]}}]}}}}]}}]}}]}}"
    );
    let mut asked = 0;
    let room = |bytes| {
        asked += bytes;
        true
    };
    assert!(json::encode(&schema::METRICS, json.as_bytes(), 1 << 20, room).is_ok());
    assert!(asked > 50_000, "{asked}");
    let refused = json::encode(&schema::METRICS, json.as_bytes(), 1 << 20, |_| false);
    assert!(matches!(refused, Err(json::JsonError::NoRoom)));
    let refused = json::encode(&schema::METRICS, json.as_bytes(), 30_000, |_| true);
    assert!(matches!(refused, Err(json::JsonError::TooLarge(30_000))));
}
