//! What is documented runs, and what exists is documented.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use service::{Deps, clock::Clock};
use telemetry::table::{BILLING, BUDGETS, COLLECTORS, DEVICES, HISTOGRAMS, INVENTORY, NODES, PRICES, REQUESTS, TOKENS};

use super::world::{NOON, World};
use crate::{Config, RollupSettings, functions, system, views::VIEWS};

const MINUTE: i64 = 60_000_000;

/// Ten minutes after noon, for ever.
struct TenPastNoon;

impl Clock for TenPastNoon {
    fn now_ns(&self) -> i64 {
        (NOON + 10 * MINUTE) * 1_000
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

fn host(at_us: i64, more: Value) -> Value {
    let mut row = json!({
        "time": at_us, "region": "eu-west-1", "model": "m", "host_id": "i-1", "host_type": "inf2.48xlarge", "instance": "i-1/0",
    });
    let (Some(fields), Value::Object(more)) = (row.as_object_mut(), more) else { panic!("objects") };
    fields.extend(more);
    row
}

fn call(minute: i64) -> Value {
    host(
        NOON + minute * MINUTE,
        json!({
            "measured_at": "server", "trace_id": format!("t{minute}"), "span_id": "1", "tenant": "acme", "status": "ok",
            "input_tokens": 9, "output_tokens": 3, "queue_s": 0.01, "prefill_s": 0.2, "ttft_s": 0.21, "tpot_s": 0.03, "e2e_s": 0.27,
        }),
    )
}

fn token(minute: i64, index: i64) -> Value {
    let at = NOON + minute * MINUTE + index * 30_000;
    let trace = format!("t{minute}");
    let token = json!({"trace_id": trace, "request_span_id": "1", "choice": 0, "index": index, "count": 1, "device_us": 20_000,
        "stall": "decode", "tenant": "acme"});
    host(at, token)
}

fn engine(minute: i64) -> Value {
    let counters = json!({"kind": "engine", "chips": 12, "busy_us": minute * 60_000, "padding_us": minute * 1_000});
    host(NOON + minute * MINUTE, counters)
}

fn accelerator(minute: i64) -> Value {
    let sample = json!({"kind": "accelerator", "device": "0", "utilization": 0.5, "energy_j": minute as f64 * 600.0,
        "energy_start_time": NOON - MINUTE, "boundary": "chip", "energy_method": "energy_counter", "confidence": "measured"});
    host(NOON + minute * MINUTE, sample)
}

/// What a bill says of the host.
fn charge() -> Value {
    let charge = json!({"charge_from": NOON, "charge_to": NOON + 60 * MINUTE, "charge_kind": "host_time", "option": "on_demand", "quantity": 0.15,
        "currency": "USD", "list_cost": "1.947", "effective_cost": "1.8", "billed_cost": "1.8", "provider": "AWS", "account": "1",
        "period": "2026-11", "bill": "AWS/1/2026-11", "service_name": "AmazonEC2", "charge_category": "usage"});
    let mut charge = host(NOON, charge);
    let fields = charge.as_object_mut().expect("an object");
    fields.retain(|name, _| !["model", "instance"].contains(&name.as_str()));
    charge
}

/// A little of everything, all of it within the last hour.
async fn lake() -> World {
    let allocation_keys = vec!["team".to_owned()];
    let cost = telemetry::allocation::Settings { allocation_keys, ..Default::default() };
    let config = Config { rollup: RollupSettings { cost, ..RollupSettings::default() }, ..Config::default() };
    let world = World::of(config, Deps::new(Arc::new(TenPastNoon))).await;
    let minutes = || 1..6;
    world.write(&REQUESTS, &minutes().map(call).collect::<Vec<_>>()).await;
    let tokens: Vec<_> = minutes().flat_map(|minute| (0..3).map(move |index| token(minute, index))).collect();
    world.write(&TOKENS, &tokens).await;
    // for whom it was nobody says
    let mut nobodys = token(2, 0);
    nobodys["trace_id"] = json!("u");
    nobodys.as_object_mut().expect("an object").remove("tenant");
    world.write(&TOKENS, &[nobodys]).await;
    let unpriced = host(
        NOON + MINUTE,
        json!({"kind": "host", "host_id": "i-2", "host_type": "custom-npu.8x", "instance": "i-2/0"}),
    );
    let samples = (0..8).flat_map(|minute| [engine(minute), accelerator(minute)]);
    world.write(&DEVICES, &samples.chain([unpriced]).collect::<Vec<_>>()).await;
    let node = json!({"first_seen": NOON, "last_seen": NOON + 9 * MINUTE, "chips": 12, "capacity_type": "on_demand"});
    let mut node = host(NOON, node);
    node.as_object_mut().expect("an object").remove("model");
    world.write(&NODES, &[node]).await;
    let price = json!({"time": NOON - MINUTE, "effective_from": NOON - MINUTE, "host_type": "inf2.48xlarge", "region": "eu-west-1",
        "option": "on_demand", "usd_per_hour": "12.98127", "currency": "USD", "confidence": "published", "source": "test"});
    world.write(&PRICES, &[price]).await;
    world.write(&BILLING, &[charge()]).await;
    let silent = json!({"time": NOON - 180 * MINUTE, "effective_from": NOON - 180 * MINUTE, "host_id": "i-9", "host_type": "inf2.48xlarge",
        "region": "eu-west-1", "option": "on_demand", "source": "asset list", "list": "default"});
    world.write(&INVENTORY, &[silent]).await;
    let budget = json!({"time": NOON, "effective_from": NOON, "name": "acme", "allocation_key": "tenant", "allocation_value": "acme",
        "amount": "25000", "currency": "USD", "period": "month", "enforcement": "soft", "source": "tokenwatt.toml"});
    world.write(&BUDGETS, &[budget]).await;
    let classic = json!({"time": NOON, "name": "ttft", "unit": "s", "kind": "histogram", "temporality": "delta", "count": 3,
        "bounds": [0.1, 1.0], "counts": [1, 2, 0]});
    let exponential = json!({"time": NOON, "name": "ttft.exp", "unit": "s", "kind": "exponential_histogram", "temporality": "delta",
        "count": 4, "scale": 3, "zero_count": 0, "positive_offset": -9, "positive_counts": [1, 0, 3]});
    world.write(&HISTOGRAMS, &[classic, exponential]).await;
    let sample = |second: i64| {
        json!({"time": NOON + second * 1_000_000, "collector": "c1", "started_at": NOON, "accepted_spans": second, "cpu_s": 1.0,
            "rejected_items": second})
    };
    world.write(&COLLECTORS, &[sample(10), sample(20)]).await;
    world
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sql.md");
    fs::read_to_string(path).expect("docs/sql.md")
}

fn examples(page: &str) -> Vec<&str> {
    let blocks = page.split("```sql\n").skip(1);
    blocks.map(|block| block.split("```").next().expect("an end").trim()).collect()
}

/// Each example answers with rows, but one that stops what runs too long, and those over roll-ups, which this lake has none of.
#[tokio::test]
async fn every_example_of_the_page_runs() {
    let world = lake().await;
    let page = page();
    for example in examples(&page) {
        let answer = world.ask(example).await;
        let is_rolled_up = example.contains("_1m") || example.contains("_1h");
        // There is no objective in that lake.
        let may_be_empty = is_rolled_up || example.contains("tokenwatt_cancel") || example.contains("slo_burn");
        assert!(may_be_empty || !answer.rows.is_empty(), "no rows from {example}");
        if example.contains("exph_quantile") && !is_rolled_up {
            let known = answer.rows.iter().any(|row| row.iter().any(Value::is_f64));
            assert!(known, "nothing but NULL from {example}");
        }
    }
}

#[tokio::test]
async fn every_view_and_function_has_an_example() {
    let page = page();
    let examples = examples(&page).join("\n");
    let words: BTreeSet<&str> =
        examples.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).collect();
    let of_system = system::views::VIEWS.iter().map(|view| view.name).chain(system::NAMES);
    let of_system = of_system.map(|name| format!("system.{name}"));
    let views = VIEWS.iter().map(|view| view.name.to_owned()).chain(of_system);
    let missing: Vec<_> = views.filter(|name| !words.contains(name.as_str())).collect();
    assert_eq!(missing, Vec::<String>::new(), "views without an example in docs/sql.md");
    let scalar = functions::scalar();
    let names = |function: &datafusion::logical_expr::ScalarUDF| {
        std::iter::once(function.name())
            .chain(function.aliases().iter().map(String::as_str))
            .map(str::to_owned)
            .collect()
    };
    let scalar = scalar.iter().map(|function| names(function));
    let (aggregate, window) = (functions::aggregate(), functions::window());
    let others = aggregate.iter().map(|function| function.name()).chain(window.iter().map(|function| function.name()));
    let others = others.map(|name| vec![name.to_owned()]);
    for names in scalar.chain(others).collect::<Vec<Vec<String>>>() {
        let is_shown = |name: &String| examples.contains(&format!("{name}(")) && page.contains(&format!("| `{name}("));
        assert!(names.iter().any(is_shown), "{names:?} has no example in docs/sql.md, or is not in its table");
    }
}

/// Every view and every column of it says what it is, and every number its unit, wherever a client looks.
#[tokio::test]
async fn views_and_columns_have_comments_and_units() {
    let world = World::new().await;
    let tables = world
        .rows("SELECT table_name, comment FROM information_schema.tables WHERE table_schema IN ('public', 'system')")
        .await;
    assert!(tables.len() > VIEWS.len());
    let silent: Vec<_> = tables.iter().filter(|row| row[1].is_null()).collect();
    assert_eq!(silent, Vec::<&Vec<Value>>::new(), "tables without a comment");
    let mut faults = Vec::new();
    for view in VIEWS {
        let sql = format!(
            "SELECT column_name, data_type, comment, unit FROM information_schema.columns \
             WHERE table_schema = 'public' AND table_name = '{}' \
             ORDER BY ordinal_position",
            view.name
        );
        let columns = world.rows(&sql).await;
        let answer = world.ask(&format!("SELECT * FROM {} LIMIT 1", view.name)).await;
        assert_eq!(columns.len(), answer.columns.len(), "{}", view.name);
        for (listed, column) in columns.iter().zip(answer.columns) {
            let name = format!("{}.{}", view.name, column.name);
            assert_eq!(listed[0], json!(column.name), "{name}");
            assert_eq!(listed[2], json!(column.comment), "{name}");
            if column.comment.is_none() {
                faults.push(format!("{name} has no comment"));
            }
            assert_eq!(listed[3], json!(column.unit), "{name}");
            let is_number = ["BIGINT", "DOUBLE"].contains(&column.kind.as_str()) || column.kind.starts_with("DECIMAL");
            if is_number && column.unit.is_none() {
                faults.push(format!("{name} is a {} without a unit", column.kind));
            }
        }
    }
    let of_system = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'system' AND (comment IS NULL \
                     OR (unit IS NULL AND (data_type = 'Float64' OR column_name IN ('rows', 'bytes', 'files', 'count'))))";
    assert_eq!(
        world.rows(of_system).await,
        Vec::<Vec<Value>>::new(),
        "columns of `system` that do not say what they are"
    );
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(world.rows("SHOW TABLES").await[0][2], json!("calls"));
    assert!(world.rows("SHOW COLUMNS FROM ttft").await.len() > 10);
}
