//! Ten minutes of a small fleet in several files: five hosts in three regions, two models, tenants, one host without a price, calls seen
//! at up to three places, tokens, engine counters, energy, histograms of both kinds.

use lake::{Entry, Lake, Outcome};
use serde_json::{Value, json};
use service::Deps;
use telemetry::table::{DEVICES, HISTOGRAMS, NODES, REQUESTS, TOKENS, Table};

use crate::tests::world::{NOON, batch};

const SECOND: i64 = 1_000_000;
const MINUTES: i64 = 10;
/// The stretch that questions ask for.
pub(super) const SINCE: &str = "2026-11-29T12:00:00Z";
pub(super) const UNTIL: &str = "2026-11-29T12:10:00Z";
/// Files of each table of events.
const FILES: usize = 7;

/// id, region, type, chips, model, environment, seconds of prefill
const HOSTS: [(&str, &str, &str, i64, &str, &str, f64); 5] = [
    ("i-use1-a", "us-east-1", "inf2.48xlarge", 12, "llama-3.1-8b", "production", 0.12),
    ("i-use1-b", "us-east-1", "inf2.48xlarge", 12, "llama-3.1-8b", "production", 0.14),
    ("i-use1-c", "us-east-1", "trn1.32xlarge", 16, "qwen-2.5-7b", "staging", 0.2),
    ("i-euw1-a", "eu-west-1", "inf2.48xlarge", 12, "llama-3.1-8b", "production", 0.6),
    ("i-apne1-a", "ap-northeast-1", "custom-npu.8x", 8, "qwen-2.5-7b", "production", 0.18),
];
const TENANTS: [Option<&str>; 5] = [Some("acme"), Some("acme"), Some("globex"), Some("initech"), None];

pub(super) struct Fleet {
    pub(super) lake: Lake,
    /// Rows of table `requests`.
    pub(super) requests: usize,
    _directory: tempfile::TempDir,
}

impl Fleet {
    pub(super) async fn new() -> Fleet {
        let directory = tempfile::tempdir().expect("a directory");
        let lake = Lake::open(directory.path().to_str().expect("a path"), &Deps::system()).await.expect("a lake");
        lake::reference::publish(&lake).await.expect("prices");
        let (requests, tokens) = calls();
        let count = requests.len();
        for (table, rows) in
            [(&REQUESTS, requests), (&TOKENS, tokens), (&DEVICES, devices()), (&HISTOGRAMS, histograms())]
        {
            // Dealt, so that a trace and a counter lie in several files.
            for file in 0..FILES {
                let own: Vec<Value> = rows.iter().skip(file).step_by(FILES).cloned().collect();
                write(&lake, table, &own).await;
            }
        }
        write(&lake, &NODES, &nodes()).await;
        Fleet { lake, requests: count, _directory: directory }
    }
}

async fn write(lake: &Lake, table: &'static Table, rows: &[Value]) {
    // The reader of the tests makes a batch of no more rows than that.
    for rows in rows.chunks(1_000) {
        let from = lake.through(table, "test").await.expect("a frame").unwrap_or(0);
        let name = format!("test-{from}-{}.parquet", from + 1);
        let file = lake.write(table, "2026-11-29", &name, &[batch(table, rows)]).await.expect("written");
        let entry = Entry { journal: "test".to_owned(), table: table.name, from, to: from + 1, adds: vec![file] };
        assert!(matches!(lake.commit(entry).await.expect("committed"), Outcome::Committed { .. }));
    }
}

/// Numbers that look random and are the same each time.
fn draw(seed: i64, bound: i64) -> i64 {
    let mut z = (seed as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) % bound as u64) as i64
}

/// What every row from a host says, as far as the table has it.
fn of_host(table: &Table, host: usize) -> Value {
    let (id, region, kind, chips, model, environment, _) = HOSTS[host];
    let said = [
        ("host_id", json!(id)),
        ("region", json!(region)),
        ("host_type", json!(kind)),
        ("chips", json!(chips)),
        ("model", json!(model)),
        ("environment", json!(environment)),
        ("instance", json!(format!("{id}/0"))),
        ("service", json!("vllm")),
        ("cluster", json!(format!("c-{region}"))),
        ("pool", json!("chat")),
    ];
    let known = said.into_iter().filter(|(name, _)| table.column(name).is_some());
    Value::Object(known.map(|(name, value)| (name.to_owned(), value)).collect())
}

fn with(mut row: Value, more: Value) -> Value {
    if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more) {
        row.extend(more);
    }
    row
}

/// Calls and their tokens.
fn calls() -> (Vec<Value>, Vec<Value>) {
    let (mut requests, mut tokens) = (Vec::new(), Vec::new());
    for call in 0..240 {
        let host = draw(call * 7, 5) as usize;
        let arrival = NOON + 5 * SECOND + draw(call * 7 + 1, (60 * MINUTES - 40) * SECOND);
        let prefill_us = (HOSTS[host].6 * 1e6) as i64 + draw(call * 7 + 2, 200_000);
        let failed = draw(call * 7 + 3, 20) == 0;
        let count = if failed { 0 } else { 3 + draw(call * 7 + 4, 12) };
        let tenant = TENANTS[draw(call * 7 + 5, 5) as usize];
        let (mut at, trace) = (prefill_us, format!("{call:032x}"));
        let mut decode_us = 0;
        for index in 0..count {
            let stall = ["decode", "decode", "decode", "prefill", "preempted"][draw(call * 131 + index, 5) as usize];
            at += 20_000 + draw(call * 977 + index, 40_000);
            let device_us = 2_000 + draw(call * 577 + index, 7_000);
            decode_us += device_us;
            tokens.push(with(of_host(&TOKENS, host), json!({
                "time": arrival + at, "trace_id": trace, "request_span_id": format!("s{call}"), "choice": 0, "index": index,
                "count": 1, "batch_size": 1 + draw(call + index, 8), "device_us": device_us, "stall": stall, "tenant": tenant,
            })));
        }
        let places = ["server", "gateway", "client"];
        for (distance, place) in places.into_iter().enumerate().take(1 + draw(call * 7 + 6, 3) as usize) {
            let early = distance as i64 * 3_000;
            let e2e_us = at + 500 + 2 * early;
            let is_server = distance == 0;
            requests.push(with(of_host(&REQUESTS, host), json!({
                "time": arrival - early, "trace_id": trace, "span_id": if is_server { format!("s{call}") } else { format!("{place}{call}") },
                "measured_at": place, "tenant": tenant, "input_tokens": 8 + draw(call, 900),
                "cached_input_tokens": if is_server { Some(draw(call, 8)) } else { None },
                "output_tokens": if failed { None } else { Some(count) },
                "ttft_s": if failed { None } else { Some((prefill_us + early) as f64 / 1e6) },
                "tpot_s": if failed { None } else { Some(0.03 + draw(call, 100) as f64 / 1e4) },
                "e2e_s": e2e_us as f64 / 1e6, "queue_s": if is_server { Some(draw(call, 50) as f64 / 1e3) } else { None },
                "status": if failed { "error" } else { "ok" }, "error_type": if failed { Some("timeout") } else { None },
                "finish_reason": if failed { None } else { Some(["stop", "length"][draw(call, 2) as usize]) },
                "device_us_prefill": if is_server { Some(prefill_us / 3) } else { None },
                "device_us_decode": if is_server { Some(decode_us) } else { None },
            })));
        }
    }
    (requests, tokens)
}

/// Engine counters and meters every ten seconds.
fn devices() -> Vec<Value> {
    let mut rows = Vec::new();
    for host in 0..HOSTS.len() {
        for step in -3..=(MINUTES * 6) {
            let time = NOON + step * 10 * SECOND;
            let seed = host as i64 * 1_000 + step + 10;
            rows.push(with(of_host(&DEVICES, host), json!({
                "time": time, "kind": "engine", "busy_us": (step + 3) * 3_000_000, "padding_us": (step + 3) * 700_000,
                "running": draw(seed, 12), "waiting": draw(seed, 4), "kv_usage": draw(seed, 100) as f64 / 100.0,
            })));
            rows.push(with(of_host(&DEVICES, host), json!({
                "time": time, "kind": "host", "device": "0", "boundary": "node", "energy_method": "energy_counter", "confidence": "measured",
                "energy_j": (step + 3) as f64 * 4_000.0 + host as f64, "energy_start_time": NOON - 31 * SECOND, "model": null,
            })));
        }
    }
    rows
}

fn nodes() -> Vec<Value> {
    let node = |host: usize| {
        with(
            of_host(&NODES, host),
            json!({
                "time": NOON - 60 * SECOND, "first_seen": NOON - 60 * SECOND, "last_seen": NOON + 15 * 60 * SECOND,
                "capacity_type": if host == 3 { None } else { Some("on_demand") }, "source": "telemetry", "account": "1234",
            }),
        )
    };
    (0..HOSTS.len()).map(node).collect()
}

fn histograms() -> Vec<Value> {
    let mut rows = Vec::new();
    for host in 0..HOSTS.len() {
        for minute in 0..4 {
            let seed = host as i64 * 10 + minute;
            let counts: Vec<i64> = (0..7).map(|bucket| draw(seed * 7 + bucket, 30)).collect();
            let base = with(
                of_host(&HISTOGRAMS, host),
                json!({
                    "time": NOON + minute * 60 * SECOND, "time_unix_nano": (NOON + minute * 60 * SECOND) * 1_000, "temporality": "delta",
                    "count": counts.iter().sum::<i64>(), "sum": 12.5, "min": 0.01, "max": 3.0,
                }),
            );
            rows.push(with(base.clone(), json!({
                "name": "server.ttft.classic", "kind": "histogram", "bounds": [0.05, 0.1, 0.25, 0.5, 1.0, 2.5], "counts": counts,
            })));
            rows.push(with(base, json!({
                "name": "server.ttft.exponential", "kind": "exponential_histogram", "scale": 3, "zero_count": 1, "zero_threshold": 0.0,
                "positive_offset": -20, "positive_counts": counts, "negative_offset": 0, "negative_counts": [],
            })));
        }
    }
    rows
}
