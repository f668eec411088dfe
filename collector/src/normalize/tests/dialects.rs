//! What each emitter sends and the calls it becomes: one file in `fixtures/` per fact, with what it follows.
//!
//! A fixture's `requests` are the whole rows: a column that is not named, or named as null, is NULL. Left out are the ids and
//! times, which are the test's, and `attributes_typed`, which repeats `attributes`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{START_NS, read, rows};
use crate::batch::tables::Tables;
use crate::decode::{json, schema};
use crate::normalize::dialect::DIALECTS;
use crate::signal::Signal;

type Row = BTreeMap<String, String>;

fn fixtures() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/normalize/tests/fixtures");
    let mut fixtures: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap())
        })
        .collect();
    fixtures.sort_by(|one, other| one.0.cmp(&other.0));
    fixtures
}

/// A value as OTLP/JSON has it: a number with a point is a double.
fn any_value(value: &Value) -> Value {
    match value {
        Value::Bool(flag) => json!({"boolValue": flag}),
        Value::Number(number) if number.is_i64() => json!({"intValue": number.to_string()}),
        Value::Number(number) => json!({"doubleValue": number}),
        Value::Array(values) => json!({"arrayValue": {"values": values.iter().map(any_value).collect::<Vec<_>>()}}),
        other => json!({"stringValue": other.as_str().unwrap()}),
    }
}

fn attributes(of: &Value) -> Vec<Value> {
    let map = of.get("attributes").unwrap_or(of).as_object();
    map.into_iter().flatten().map(|(key, value)| json!({"key": key, "value": any_value(value)})).collect()
}

fn nanos(seconds: &Value, otherwise: f64) -> String {
    let after = seconds.as_f64().unwrap_or(otherwise) * 1e9;
    START_NS.wrapping_add_signed(after.round() as i64).to_string()
}

fn span(of: &Value) -> Value {
    let kind = ["", "INTERNAL", "SERVER", "CLIENT"].iter().position(|kind| of["kind"] == *kind).unwrap();
    let start = of["start_s"].as_f64().unwrap_or_default();
    let event = |event: &Value| {
        let attributes = event.get("attributes").map(attributes).unwrap_or_default();
        json!({"name": event["name"], "timeUnixNano": nanos(&event["at_s"], 0.0), "attributes": attributes})
    };
    let mut span = json!({
        "traceId": "01".repeat(16),
        "spanId": of["id"].as_str().unwrap_or("02").repeat(8),
        "parentSpanId": of["parent"].as_str().unwrap_or_default().repeat(8),
        "name": of["name"],
        "kind": kind,
        "startTimeUnixNano": nanos(&of["start_s"], 0.0),
        "endTimeUnixNano": nanos(&json!(start + of["seconds"].as_f64().unwrap_or(2.0)), 0.0),
        "attributes": attributes(&of["attributes"]),
        "events": of["events"].as_array().into_iter().flatten().map(event).collect::<Vec<_>>(),
    });
    if of["status"] == "ERROR" {
        span["status"] = json!({"code": 2});
    }
    span
}

fn normalized(fixture: &Value) -> Tables {
    let mut resource = Map::from_iter([("service.name".to_owned(), json!("emitter"))]);
    resource
        .extend(fixture["resource"].as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
    let resource = json!({"attributes": attributes(&Value::Object(resource))});
    let (signal, message, body) = match fixture["log"].as_str() {
        Some(line) => {
            let record = json!({"timeUnixNano": START_NS.to_string(), "body": {"stringValue": line}});
            let logs = json!([{"resource": resource, "scopeLogs": [{"logRecords": [record]}]}]);
            (Signal::Logs, &schema::LOGS, json!({"resourceLogs": logs}))
        }
        None => {
            let spans: Vec<Value> = fixture["spans"].as_array().unwrap().iter().map(span).collect();
            let traces = json!([{"resource": resource, "scopeSpans": [{"spans": spans}]}]);
            (Signal::Traces, &schema::TRACES, json!({"resourceSpans": traces}))
        }
    };
    rows(signal, &json::encode(message, body.to_string().as_bytes(), 1 << 20, |_| true).unwrap())
}

/// The row that a fixture expects: what is not NULL, as text.
fn expected(row: &Value) -> Row {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut columns = Row::new();
    for (column, value) in row.as_object().unwrap() {
        match value {
            Value::Object(map) => {
                columns.extend(map.iter().map(|(key, value)| (format!("{column}.{key}"), text(value))))
            }
            Value::Null => {}
            value => _ = columns.insert(column.clone(), text(value)),
        }
    }
    columns
}

/// Seconds that were computed differ from the decimals that say them by less than a nanosecond.
fn to_the_nanosecond(row: &mut Row) {
    for (_, seconds) in row.iter_mut().filter(|(column, _)| column.ends_with("_s") && !column.contains('.')) {
        *seconds = format!("{:.9}", seconds.parse::<f64>().unwrap());
    }
}

/// Every fixture becomes the rows that it says, and everything it sends is kept as sent too.
#[test]
fn fixtures_become_their_rows() {
    for (name, fixture) in fixtures() {
        let mut tables = normalized(&fixture);
        let mut calls = read(&mut tables.requests);
        let mut wanted: Vec<Row> = fixture["requests"].as_array().unwrap().iter().map(expected).collect();
        for call in &mut calls {
            for column in ["time", "service", "trace_id", "span_id", "parent_span_id", "attributes_typed"] {
                call.remove(column);
            }
        }
        calls.iter_mut().chain(&mut wanted).for_each(to_the_nanosecond);
        assert_eq!(calls, wanted, "{name} follows: {}", fixture["follows"]);
        let sent = fixture["spans"].as_array().map_or(1, Vec::len);
        assert_eq!(read(&mut tables.spans).len() + read(&mut tables.logs).len(), sent, "{name} is kept as sent");
    }
}

/// Every dialect has a fixture, and what the documentation says it fills is what its fixture fills.
#[test]
fn dialects_fill_what_is_documented() {
    let known: BTreeSet<&str> = DIALECTS.iter().flat_map(|dialect| dialect.fills()).collect();
    let fixtures = fixtures();
    for dialect in DIALECTS {
        let of = |(_, fixture): &&(String, Value)| fixture["dialect"] == dialect.name;
        let (_, fixture) = fixtures.iter().find(of).unwrap_or_else(|| panic!("{} has no fixture", dialect.name));
        let row = expected(&fixture["requests"][0]);
        let filled: BTreeSet<&str> = row.keys().map(String::as_str).filter(|column| known.contains(column)).collect();
        assert_eq!(filled, dialect.fills().collect(), "{}", dialect.name);
    }
}

/// A call that a log tells of begins when it took its time before it was written, and is the same call if it is sent again.
#[test]
fn a_logged_call_has_a_time_and_an_identity() {
    let fixtures = fixtures();
    let (_, fixture) = fixtures.iter().find(|(name, _)| name == "text_generation_webui_wrong").unwrap();
    let calls = || read(&mut normalized(fixture).requests);
    let first = calls();
    assert_eq!(first[0]["time"], "2026-09-21T14:13:05.800Z");
    assert_eq!((first[0]["trace_id"].len(), first[0]["span_id"].len()), (32, 16));
    assert_ne!(first[0]["span_id"], first[1]["span_id"], "two calls of one record are two");
    assert_eq!(first, calls(), "a record sent again is the same calls");
}

/// No attribute means two fields to one dialect, and nobody's own alias is one that all share in another sense.
#[test]
fn aliases_mean_one_thing() {
    for dialect in DIALECTS {
        let keys: BTreeSet<&str> = dialect.aliases.iter().map(|alias| alias.key).collect();
        assert_eq!(keys.len(), dialect.aliases.len(), "{}", dialect.name);
    }
}

/// One call that a framework, a gateway and an engine report: three rows, each says where it was measured, and the engine's is
/// the one that counts.
#[test]
fn three_reporters_of_one_call() {
    let reporters = [
        json!({"name": "ChatOpenAI", "kind": "INTERNAL", "id": "02", "seconds": 2.0,
            "attributes": {"openinference.span.kind": "LLM", "llm.model_name": "m", "llm.token_count.prompt": 9, "llm.token_count.completion": 5}}),
        json!({"name": "litellm_request", "kind": "INTERNAL", "id": "03", "parent": "02", "start_s": 0.1, "seconds": 1.8,
            "attributes": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 5}}),
        json!({"name": "llm_request", "kind": "SERVER", "id": "04", "parent": "03", "start_s": 0.2, "seconds": 1.6,
            "attributes": {"gen_ai.latency.e2e": 1.6, "gen_ai.usage.prompt_tokens": 9, "gen_ai.usage.completion_tokens": 5}}),
    ];
    let calls = read(&mut normalized(&json!({"spans": reporters})).requests);
    let seen: Vec<_> =
        calls.iter().map(|call| (call["measured_at"].as_str(), call["output_tokens"].as_str())).collect();
    assert_eq!(seen, [("client", "5"), ("gateway", "5"), ("server", "5")]);
    assert!(calls.iter().all(|call| call["trace_id"] == calls[0]["trace_id"]), "one trace");
}
