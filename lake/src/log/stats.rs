//! Row count and bounds of a file as the JSON text that Delta keeps beside each file.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value as Json, json};
use telemetry::table::{Kind, Table};

use crate::snapshot::{ColumnStats, File, Value};

/// The JSON text of a file's statistics.
pub(crate) fn encode(file: &File) -> String {
    let (mut min, mut max, mut nulls) = (Map::new(), Map::new(), Map::new());
    for (name, stats) in &file.stats {
        if let Some(bound) = stats.min.as_ref().and_then(to_json) {
            min.insert(name.clone(), bound);
        }
        if let Some(bound) = stats.max.as_ref().and_then(to_json) {
            max.insert(name.clone(), bound);
        }
        if let Some(count) = stats.nulls {
            nulls.insert(name.clone(), count.into());
        }
    }
    let mut all = json!({ "minValues": min, "maxValues": max, "nullCount": nulls });
    if let Some(rows) = file.rows {
        all["numRecords"] = rows.into();
    }
    all.to_string()
}

/// Row count and bounds from JSON text. What cannot be read is unknown, never an error: statistics only save work.
pub(crate) fn decode(table: &Table, text: &str) -> (Option<u64>, BTreeMap<String, ColumnStats>) {
    let Ok(all) = serde_json::from_str::<Json>(text) else { return (None, BTreeMap::new()) };
    let mut columns: BTreeMap<String, ColumnStats> = BTreeMap::new();
    for (name, bound) in entries(&all["minValues"]) {
        let value = table.column(name).and_then(|column| from_json(column.kind, bound, Round::Down));
        columns.entry(name.clone()).or_default().min = value;
    }
    for (name, bound) in entries(&all["maxValues"]) {
        let value = table.column(name).and_then(|column| from_json(column.kind, bound, Round::Up));
        columns.entry(name.clone()).or_default().max = value;
    }
    for (name, count) in entries(&all["nullCount"]) {
        columns.entry(name.clone()).or_default().nulls = count.as_u64();
    }
    (all["numRecords"].as_u64(), columns)
}

fn entries(object: &Json) -> impl Iterator<Item = (&String, &Json)> {
    object.as_object().into_iter().flatten()
}

fn to_json(value: &Value) -> Option<Json> {
    match value {
        Value::Time(us) => Some(format!("{:.6}", Timestamp::from_microsecond(*us).ok()?).into()),
        Value::Int(int) => Some((*int).into()),
        Value::Double(double) => serde_json::Number::from_f64(*double).map(Json::Number),
        Value::Bool(flag) => Some((*flag).into()),
        Value::Text(text) => Some(text.clone().into()),
    }
}

/// Which way a bound must err.
#[derive(Clone, Copy, PartialEq)]
enum Round {
    Down,
    Up,
}

fn from_json(kind: Kind, bound: &Json, round: Round) -> Option<Value> {
    match kind {
        Kind::Time => time(bound.as_str()?, round).map(Value::Time),
        Kind::Int => bound.as_i64().map(Value::Int),
        Kind::Double => bound.as_f64().map(Value::Double),
        Kind::Bool => bound.as_bool().map(Value::Bool),
        Kind::Text => Some(Value::Text(bound.as_str()?.to_owned())),
        Kind::Money | Kind::Map | Kind::IntList | Kind::DoubleList => None,
    }
}

/// Other writers cut times to the millisecond, so an upper bound of theirs may lie up to 999 µs too low.
fn time(text: &str, round: Round) -> Option<i64> {
    let us = text.parse::<Timestamp>().ok()?.as_microsecond();
    let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    Some(if round == Round::Up && digits <= 3 { us + 999 } else { us })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{decode, encode};
    use crate::snapshot::{ColumnStats, File, Value};
    use telemetry::table::REQUESTS;

    fn bounds(min: Value, max: Value) -> ColumnStats {
        ColumnStats { min: Some(min), max: Some(max), nulls: Some(2) }
    }

    #[test]
    fn statistics_survive_the_log() {
        let stats = BTreeMap::from([
            ("time".to_owned(), bounds(Value::Time(1_796_000_000_000_001), Value::Time(1_796_000_000_999_999))),
            ("model".to_owned(), bounds(Value::Text("a".to_owned()), Value::Text("z".to_owned()))),
            ("ttft_s".to_owned(), bounds(Value::Double(0.1), Value::Double(2.5))),
            ("chips".to_owned(), bounds(Value::Int(-1), Value::Int(12))),
            ("pool".to_owned(), ColumnStats { min: None, max: None, nulls: Some(7) }),
        ]);
        let file = File {
            path: String::new(),
            size: 1,
            rows: Some(7),
            date: String::new(),
            modified_ms: 0,
            stats: stats.clone(),
            tags: BTreeMap::new(),
        };
        assert_eq!(decode(&REQUESTS, &encode(&file)), (Some(7), stats));
    }

    #[test]
    fn a_bound_cut_to_milliseconds_is_widened() {
        let text = r#"{"numRecords":1,"minValues":{"time":"2026-11-29T00:00:00.001Z"},"maxValues":{"time":"2026-11-29T00:00:00.001Z"}}"#;
        let (_, stats) = decode(&REQUESTS, text);
        let (min, max) = (stats["time"].min.clone(), stats["time"].max.clone());
        assert_eq!((min, max), (Some(Value::Time(1_795_910_400_001_000)), Some(Value::Time(1_795_910_400_001_999))));
    }

    #[test]
    fn nonsense_is_unknown() {
        assert_eq!(decode(&REQUESTS, "not json"), (None, BTreeMap::new()));
        let (rows, stats) =
            decode(&REQUESTS, r#"{"numRecords":"many","minValues":{"time":5,"chips":"x"},"maxValues":3}"#);
        assert_eq!(rows, None);
        assert!(stats.values().all(|column| column.min.is_none()));
    }
}
