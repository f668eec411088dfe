//! Answers shaped as the query service gives them, so that pages can be read without a fleet.

mod made;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use telemetry::contract::{AnswerColumn, Answering, ApiError, Freshness, QueryApi, SqlAnswer, SqlRequest};

/// 2026-11-29T12:00:00Z.
pub(super) const NOON: i64 = 1_795_953_600_000_000;
pub(super) const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub(super) const SPAN: &str = "00f067aa0ba902b7";

/// What the tables hold.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fleet {
    /// Three regions under load, one host type without a price.
    Busy,
    /// Nothing has ever arrived.
    New,
    /// The query service refuses everything.
    Down,
    /// Only the cost views fail.
    CostDown,
    /// One of several lakes does not answer.
    Partial,
}

impl QueryApi for Fleet {
    fn sql(&self, request: SqlRequest) -> Answering<'_> {
        let outcome = self.answer(&request.sql);
        Box::pin(async move { outcome })
    }
}

impl Fleet {
    fn answer(self, sql: &str) -> Result<SqlAnswer, ApiError> {
        let down = Fleet::Down == self || Fleet::CostDown == self && sql.contains("FROM cost_per");
        if down {
            return Err(ApiError {
                kind: "unavailable".into(),
                message: "lake is <away>".into(),
                hint: Some("wait a moment".into()),
            });
        }
        if let Some((before, _)) = sql.split_once("REFUSE") {
            let lines: Vec<&str> = before.split('\n').collect();
            let column = lines.last().map_or(1, |line| line.chars().count() + 1);
            let message = format!(
                "sql parser error: Expected: an expression, found: REFUSE at Line: {}, Column: {column}",
                lines.len()
            );
            return Err(ApiError { kind: "invalid".into(), message, hint: None });
        }
        if self == Fleet::New {
            return Ok(SqlAnswer::default());
        }
        let (columns, rows) = busy(sql);
        let column = |name: &String| AnswerColumn {
            name: name.clone(),
            kind: kind_of(name).into(),
            unit: unit_of(name),
            comment: None,
        };
        Ok(SqlAnswer {
            columns: columns.iter().map(column).collect(),
            rows,
            freshness: Some(Freshness { newest_time_us: NOON - 1_400_000, lag_s: 1.4 }),
            version: BTreeMap::from([("requests".to_owned(), 412)]),
            served_by: "raw rows, local".into(),
            notice: (self == Fleet::Partial).then(|| "lake dublin did not answer: eu-west-1 is missing".to_owned()),
            truncated: self == Fleet::Partial,
            elapsed_ms: 12.5,
        })
    }
}

fn kind_of(name: &str) -> &'static str {
    match name {
        "bucket" => "Timestamp",
        "time" | "region" | "model" | "tenant" | "trace_id" | "span_id" | "status" | "host_type" => "Utf8",
        _ => "Float64",
    }
}

fn unit_of(name: &str) -> Option<String> {
    name.ends_with("_s").then(|| "s".to_owned())
}

const REGIONS: [&str; 3] = ["eu-west-1", "us-east-1", "us-west-2"];

fn busy(sql: &str) -> (Vec<String>, Vec<Vec<Value>>) {
    let (columns, rows) = match known(sql) {
        Some(known) => known,
        None => return made::answer(sql),
    };
    (columns.into_iter().map(str::to_owned).collect(), rows)
}

/// Answers of the pages whose numbers are looked at one by one.
fn known(sql: &str) -> Option<(Vec<&'static str>, Vec<Vec<Value>>)> {
    let is = |part: &str| sql.contains(part);
    if sql.starts_with("SELECT region, grouping(region) AS total") {
        return Some(by_region(sql));
    }
    let found = if is("AS ttft_p50_server") {
        course()
    } else if is("AS newest") {
        let row = |region: &str, host: &str, minutes: i64| {
            let at = |minutes: i64| json!(crate::urlstate::rfc3339(NOON - minutes * 60_000_000));
            vec![json!(region), json!(host), json!("inf2.48xlarge"), at(minutes), at(1)]
        };
        let rows =
            vec![row("eu-west-1", "node-a", 1), row("eu-west-1", "node-gone", 9), row("sa-east-1", "node-far", 7)];
        (vec!["region", "host_id", "host_type", "last", "newest"], rows)
    } else if is("AS energy_j") {
        (
            vec!["energy_j", "boundary", "method", "confidence"],
            vec![vec![json!(61.4), json!("node"), json!("load_curve"), json!("assumed")]],
        )
    } else if is("AS in_host_id") {
        differences()
    } else if is("FROM spans") {
        spans()
    } else if is("FROM tokens\n") {
        tokens()
    } else if is("FROM node_cost") && is("SELECT region, host_type, count(") {
        let row = |region: &str, host_type: &str, price: Value, basis: &str| {
            vec![json!(region), json!(host_type), json!(3), price, json!(basis), json!("2026-08-01")]
        };
        let rows = vec![
            row("eu-west-1", "inf2.48xlarge", json!("12.981270000000"), "list, assumed on-demand"),
            row("us-west-2", "custom-npu.8x", json!(null), "no price"),
        ];
        (vec!["region", "host_type", "hosts", "usd_per_hour", "basis", "price_as_of"], rows)
    } else if is("FROM request_minute_cost") {
        let row = vec![
            json!("0.000412"),
            json!(1_240_000),
            json!(96),
            json!("list, assumed on-demand"),
            json!("device time"),
            json!("inf2.48xlarge"),
        ];
        (vec!["cost_usd", "device_us", "output_tokens", "basis", "method", "host_type"], vec![row])
    } else if is("GROUP BY region, model, tenant") {
        let row = |region: &str| {
            vec![json!(region), json!("llama-3-70b"), json!("acme"), json!("vllm"), json!("inf2.48xlarge"), json!(900)]
        };
        (vec!["region", "model", "tenant", "engine", "hardware", "requests"], REGIONS.map(row).to_vec())
    } else if is("SELECT *\nFROM requests") || is("queue_s, ttft_s, itl_max_s, e2e_s\nFROM calls") || sql == "SELECT 1"
    {
        requests()
    } else {
        return None;
    };
    Some(found)
}

/// One node of two has most of the bad calls; of two tenants each has its half.
fn differences() -> (Vec<&'static str>, Vec<Vec<Value>>) {
    let dimensions = ["host_id", "region", "model", "tenant", "host_type", "service_version", "engine"];
    let inside =
        ["in_host_id", "in_region", "in_model", "in_tenant", "in_host_type", "in_service_version", "in_engine"];
    let row = |dimension: &str, value: &str, calls: i64, bad: i64| {
        let names = dimensions.iter().map(|name| if *name == dimension { json!(value) } else { json!(null) });
        let marks = dimensions.iter().map(|name| json!(i32::from(*name != dimension)));
        names.chain(marks).chain([json!(calls), json!(bad)]).collect()
    };
    let rows = vec![
        row("host_id", "node-a", 100, 80),
        row("host_id", "node-b", 900, 20),
        row("tenant", "acme", 500, 50),
        row("tenant", "globex", 500, 50),
    ];
    ([dimensions.as_slice(), inside.as_slice(), &["calls", "bad"]].concat(), rows)
}

/// A row for the fleet and one per region.
fn by_region(sql: &str) -> (Vec<&'static str>, Vec<Vec<Value>>) {
    let is = |part: &str| sql.contains(part);
    if is("FROM utilization") {
        totals(vec!["utilization", "requests", "padding"], |index| {
            vec![json!(0.41 + index as f64 / 10.0), json!(0.29), json!(0.12)]
        })
    } else if is("FROM perf_per_watt") {
        totals(vec!["tokens_per_joule", "watts", "boundary"], |index| {
            vec![json!(0.9 + index as f64 / 10.0), json!("assumed"), json!("node")]
        })
    } else if is("FROM cost_per_region") {
        totals(vec!["usd_per_hour", "basis", "unpriced"], |index| {
            let unpriced = if matches!(index, 0 | 3) { json!("custom-npu.8x in us-west-2") } else { json!(null) };
            vec![json!(38.94 - index as f64), json!("list, assumed on-demand"), unpriced]
        })
    } else if is("FROM cost_per_million_tokens") {
        totals(vec!["usd_per_million"], |index| vec![if index == 3 { json!(null) } else { json!("4.25") }])
    } else {
        let columns = [TTFT.as_slice(), &["output_tokens_per_s", "requests_per_s", "error_ratio"]].concat();
        totals(columns, |index| {
            let mut row = first_tokens(json!(0.61 + index as f64 * 0.2));
            row.extend([json!(2_841.0), json!(11.2), json!(0.004)]);
            row
        })
    }
}

/// A row for the fleet, then one per region.
fn totals(columns: Vec<&'static str>, values: impl Fn(usize) -> Vec<Value>) -> (Vec<&'static str>, Vec<Vec<Value>>) {
    let row = |index: usize| {
        let region = index.checked_sub(1).and_then(|place| REGIONS.get(place)).map_or(json!(null), |name| json!(name));
        let mut row = vec![region, json!(i32::from(index == 0))];
        row.extend(values(index));
        row
    };
    let mut all = vec!["region", "total"];
    all.extend(columns);
    (all, (0..4).map(row).collect())
}

fn course() -> (Vec<&'static str>, Vec<Vec<Value>>) {
    let mut rows = Vec::new();
    for bucket in 0..90_i64 {
        let at = crate::urlstate::rfc3339(NOON - 900_000_000 + bucket * 10_000_000);
        for (place, region) in REGIONS.iter().enumerate() {
            let wave = (bucket as f64 / 9.0 + place as f64).sin();
            let spike = if bucket == 60 && place == 0 { 0.9 } else { 0.0 };
            let slow = if bucket == 30 { json!(null) } else { json!(0.55 + wave * 0.15 + spike) };
            let mut row = vec![json!(at), json!(region)];
            row.extend(first_tokens(slow));
            row.extend([json!(2_800.0 + wave * 700.0), json!(11.0)]);
            rows.push(row);
        }
    }
    ([&["bucket", "region"], TTFT.as_slice(), &["output_tokens_per_s", "requests_per_s"]].concat(), rows)
}

/// TTFT of two places: the engine's, and of forty calls the gateway's alone, which was slow.
const TTFT: [&str; 9] = [
    "ttft_p50_server",
    "ttft_p99_server",
    "ttft_calls_server",
    "ttft_p50_gateway",
    "ttft_p99_gateway",
    "ttft_calls_gateway",
    "ttft_p50_client",
    "ttft_p99_client",
    "ttft_calls_client",
];

fn first_tokens(slow: Value) -> Vec<Value> {
    let (none, nobody) = (json!(null), json!(0));
    vec![json!(0.182), slow, json!(900), json!(77.0), json!(88.0), json!(40), none.clone(), none, nobody]
}

fn requests() -> (Vec<&'static str>, Vec<Vec<Value>>) {
    let columns = vec![
        "time",
        "trace_id",
        "span_id",
        "region",
        "model",
        "tenant",
        "host_type",
        "status",
        "finish_reason",
        "input_tokens",
        "output_tokens",
        "queue_s",
        "prefill_s",
        "decode_s",
        "ttft_s",
        "itl_max_s",
        "e2e_s",
        "device_us_prefill",
        "device_us_decode",
        "attributes",
    ];
    let row = |index: i64| {
        let failed = index % 13 == 5;
        let time = crate::urlstate::rfc3339(NOON - index * 2_345_678);
        vec![
            json!(time),
            json!(TRACE),
            json!(SPAN),
            json!(REGIONS[index as usize % 3]),
            json!("llama-3-70b"),
            json!("acme"),
            json!("inf2.48xlarge"),
            json!(if failed { "error" } else { "ok" }),
            json!("stop"),
            json!(512),
            json!(96),
            json!(0.031),
            json!(0.151),
            json!(2.31),
            if failed { json!(null) } else { json!(0.182) },
            json!(0.41),
            json!(2.492),
            json!(180_000),
            json!(1_060_000),
            json!({"gen_ai.request.temperature": "0.7"}),
        ]
    };
    (columns, (0..51).map(row).collect())
}

fn spans() -> (Vec<&'static str>, Vec<Vec<Value>>) {
    let start = NOON * 1_000;
    let span = |name: &str, service: &str, id: &str, parent: &str, from_ms: i64, to_ms: i64| {
        vec![
            json!(name),
            json!(service),
            json!(id),
            json!(parent),
            json!(start + from_ms * 1_000_000),
            json!(start + to_ms * 1_000_000),
            json!("ok"),
        ]
    };
    let rows = vec![
        span("rag.answer", "app", "a1", "", 0, 2_700),
        span("retrieval", "app", "a2", "a1", 4, 160),
        span("POST /v1/chat/completions", "gateway", "a3", "a1", 165, 2_690),
        span("llm_request", "inference-node", SPAN, "a3", 190, 2_682),
    ];
    (vec!["name", "service", "span_id", "parent_span_id", "time_unix_nano", "end_unix_nano", "status"], rows)
}

fn tokens() -> (Vec<&'static str>, Vec<Vec<Value>>) {
    let mut at = NOON + 182_000;
    let mut rows = Vec::new();
    for index in 0..96_i64 {
        let stall = match index {
            40..=43 => json!("prefill"),
            70 => json!("preempted"),
            _ => json!("decode"),
        };
        at += match index {
            0 => 0,
            40..=43 => 96_000,
            70 => 410_000,
            _ => 18_000 + (index * 37 % 11) * 600,
        };
        rows.push(vec![
            json!(crate::urlstate::rfc3339(at)),
            json!(0),
            json!(index),
            json!(1),
            json!(12 + index / 20),
            json!(11_000),
            stall,
        ]);
    }
    (vec!["time", "choice", "index", "count", "batch_size", "device_us", "stall"], rows)
}
