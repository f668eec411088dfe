//! Answers made up from the statement itself: its columns are those that it selects, their values follow from their names.

use serde_json::{Value, json};

use super::{NOON, REGIONS, SPAN, TRACE};
use crate::urlstate::rfc3339;

/// Buckets of an answer over time.
const BUCKETS: usize = 12;

pub(super) fn answer(sql: &str) -> (Vec<String>, Vec<Vec<Value>>) {
    let columns = columns(sql);
    let over_time = columns.iter().any(|column| column == "bucket");
    let count = if over_time { BUCKETS * 3 } else { 7 };
    // Objectives are called otherwise than nodes.
    let meant = |column: &'_ str| if column == "name" && sql.contains("FROM slos") { "slo" } else { "" };
    let rows = (0..count).map(|index| {
        let of = |column: &String| match meant(column) {
            "" => value(column, index, over_time),
            other => value(other, index, over_time),
        };
        columns.iter().map(of).collect()
    });
    (columns.clone(), rows.collect())
}

/// The names of what the outermost SELECT lists; `*` is what `system` and sub-selects of the pages hold.
fn columns(sql: &str) -> Vec<String> {
    let list = sql.strip_prefix("SELECT ").unwrap_or(sql);
    let (mut depth, mut start, mut items) = (0_i32, 0, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            '\n' if depth == 0 && list[at..].starts_with("\nFROM") => {
                items.push(&list[start..at]);
                break;
            }
            _ => {}
        }
    }
    let name = |item: &str| item.rsplit(" AS ").next().unwrap_or(item).trim().trim_matches('"').to_owned();
    let named = items.into_iter().map(name).flat_map(|name| match name.as_str() {
        "*" => STAR.map(str::to_owned).to_vec(),
        _ => vec![name],
    });
    named.collect()
}

const STAR: [&str; 16] = [
    "table",
    "collector",
    "time",
    "region",
    "zone",
    "host_type",
    "service",
    "service_version",
    "model",
    "accelerator",
    "chips",
    "lag_s",
    "rows",
    "bytes",
    "newest_time",
    "through",
];

fn value(column: &str, index: usize, over_time: bool) -> Value {
    let place = index % 3;
    let at = NOON - 900_000_000 + (index / 3) as i64 * 60_000_000;
    match column {
        "bucket" => json!(rfc3339(at)),
        "time" | "last" | "since" | "starts_at" | "newest_time" | "through" => {
            json!(rfc3339(NOON - index as i64 * 61_000_000))
        }
        "ends_at" => json!(null),
        "region" | "place" => json!(REGIONS[place]),
        // Some hosts are not told, and no name is to break out of its place.
        "host_id" if index == 6 => json!("<b>node</b>"),
        "host_id" | "name" => json!(format!("node-{}", (b'a' + place as u8) as char)),
        "slo" => json!(["ttft-eu", "availability", "frozen"][place]),
        "whose" => json!(["this", "peers"][index % 2]),
        "part" => json!(["requests", "padding", "idle", "unattributed", "shared"][index % 5]),
        "indicator" => json!(["ttft_s", "availability", "e2e_s"][place]),
        "threshold" => [json!(1.0), json!(null), json!(30.0)][place].clone(),
        "objective" => json!(0.99),
        "enforcement" | "allocation_key" | "allocation_value" | "period" | "grid_method" => {
            json!(format!("{column} of {place}"))
        }
        "window" => json!("30d"),
        "measured_at" => json!("server"),
        "status" => json!(["firing", "ok", "error"][place]),
        "severity" => json!("ERROR"),
        "severity_number" => json!(17),
        "trace_id" => json!(TRACE),
        "span_id" => json!(SPAN),
        "level" => json!(index as i64 - 12),
        "total" => json!(i32::from(index == 0)),
        "no_host" => json!(i32::from(index > 3)),
        "no_model" => json!(i32::from(index != 5)),
        "external_url" => json!("https://alerts.example/"),
        "generator_url" => json!("javascript:alert(1)"),
        "body" => json!("<script>alert('x')</script> out of memory"),
        "confidence" => json!("assumed"),
        "basis" => json!("list, assumed on-demand"),
        column if column.ends_with("_usd") && !over_time => json!(format!("{}.250000000000", index + 1)),
        column if TEXTS.contains(&column) => json!(format!("{column} of {place}")),
        // A gap in every series.
        _ if over_time && index / 3 == 4 => json!(null),
        _ => json!(0.25 + index as f64 / 8.0),
    }
}

const TEXTS: [&str; 33] = [
    "model",
    "models",
    "tenant",
    "host_type",
    "hardware",
    "engine",
    "versions",
    "boundary",
    "method",
    "option",
    "price_as_of",
    "price_source",
    "unpriced",
    "service",
    "service_version",
    "collector",
    "table",
    "zone",
    "accelerator",
    "reason",
    "unit",
    "lost",
    "tells",
    "ttft_definition",
    "what",
    "as_of",
    "source",
    "note",
    "device",
    "summary",
    "fingerprint",
    "event_name",
    "queue",
];

#[test]
fn columns_are_those_that_a_statement_selects() {
    let sql = "SELECT a, sum(CASE WHEN x THEN 1, 2 END) AS b,\n  max(\"c\") AS \"count\"\nFROM (SELECT z FROM y)";
    assert_eq!(columns(sql), ["a", "b", "count"]);
}
