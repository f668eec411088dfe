//! A node and the public clients that people use: what they are told, what the tables say, and what becomes of calls that they
//! break off.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::world::{PATIENCE, Server, World, client, finish, tokenwatt};

const MODEL: &str = "Llama-3-8B";

/// `tokenwatt node` with a simulated engine of 16 slots.
fn node(world: &World, otlp: &str) -> Server {
    let config = world.write(
        "node.toml",
        &format!(
            r#"
            [node]
            http_addr = "127.0.0.1:0"
            otlp_endpoint = "{otlp}"
            queue_max = 256
            [node.identity]
            service = "sim-node"
            region = "us-east-1"
            [node.engine]
            kind = "sim"
            [node.engine.sim]
            slots = 16
            "#
        ),
    );
    Server::start(tokenwatt(&["node", "--config"]).arg(config))
}

async fn calls(script: &'static str, address: &str) -> Vec<Value> {
    let address = address.to_owned();
    let run = move || client(script, &[&address, MODEL], &[]);
    let printed = tokio::task::spawn_blocking(run).await.expect("the client");
    printed.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// For every call: the client's usage, the sum of its token spans and the row of the call are the same; a call that was broken
/// off has as many tokens as its row says. And no slot is held by anybody.
async fn agree(up: &Server, node: &Server, calls: &[Value]) {
    let idle = async {
        loop {
            let page = node.client().get(format!("{}/metrics", node.address("node"))).send().await.expect("metrics");
            let page = page.text().await.expect("metrics");
            let gauge = |name: &str| page.lines().any(|line| line.starts_with(name) && line.ends_with(" 0"));
            if gauge("vllm:num_requests_running{") && gauge("vllm:num_requests_waiting{") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, idle).await.expect("all slots are free again");
    let traces: Vec<&str> = calls.iter().map(|call| call["trace_id"].as_str().expect("trace id")).collect();
    let listed = format!("'{}'", traces.join("', '"));
    let rows = format!("SELECT count(*) FROM requests WHERE trace_id IN ({listed})");
    up.until_at_least(&rows, calls.iter().map(|call| call["calls"].as_i64().unwrap_or(1)).sum()).await;
    let sums = format!(
        "SELECT trace_id, sum(input_tokens) AS input, sum(output_tokens) AS output, max(coalesce(error_type, '')) AS error \
         FROM requests WHERE trace_id IN ({listed}) GROUP BY trace_id"
    );
    let requests: BTreeMap<String, (i64, i64, String)> = up
        .sql(&sums)
        .await
        .rows
        .iter()
        .map(|row| {
            let text = |at: usize| row[at].as_str().unwrap_or_default().to_owned();
            (text(0), (crate::world::number(&row[1]), crate::world::number(&row[2]), text(3)))
        })
        .collect();
    let total: i64 = requests.values().map(|(_, output, _)| output).sum();
    let tokens = format!("SELECT coalesce(sum(count), 0) FROM tokens WHERE trace_id IN ({listed})");
    up.until_at_least(&tokens, total).await;
    let by_trace = format!("SELECT trace_id, sum(count) FROM tokens WHERE trace_id IN ({listed}) GROUP BY trace_id");
    let tokens: BTreeMap<String, i64> = up
        .sql(&by_trace)
        .await
        .rows
        .iter()
        .map(|row| (row[0].as_str().unwrap_or_default().to_owned(), crate::world::number(&row[1])))
        .collect();
    for call in calls {
        let trace = call["trace_id"].as_str().expect("trace id");
        let (input, output, error) = &requests[trace];
        assert_eq!(tokens.get(trace), Some(output), "tokens of {call}");
        match call["completion_tokens"].as_i64() {
            Some(completion) => {
                assert_eq!((*output, *input), (completion, call["prompt_tokens"].as_i64().expect("usage")), "{call}");
                assert_eq!(error, "", "{call}");
            }
            None => {
                assert!((1..3_000).contains(output), "{call} was broken off after {output} tokens");
                assert_eq!(error, "cancelled", "{call}");
            }
        }
    }
}

/// The `openai` package: sync, async, streamed, 64 at a time, broken off in the middle of an answer and before it.
#[tokio::test(flavor = "multi_thread")]
async fn openai_calls_agree_with_tokens_and_tables() {
    let world = World::new();
    let up = world.up();
    let node = node(&world, up.otlp_grpc());
    let calls = calls("node_openai.py", node.address("node")).await;
    assert_eq!(calls.len(), 3 + 1 + 1 + 64);
    assert_eq!(calls.iter().filter(|call| call["kind"] == "broken off").count(), 2);
    agree(&up, &node, &calls).await;
}

/// Triton's gRPC client: one answer, streams side by side, one broken off.
#[tokio::test(flavor = "multi_thread")]
async fn triton_calls_agree_with_tokens_and_tables() {
    let world = World::new();
    let up = world.up();
    let node = node(&world, up.otlp_grpc());
    let address = node.address("kserve").trim_start_matches("http://").to_owned();
    let calls = calls("node_triton.py", &address).await;
    assert_eq!(calls.len(), 3);
    agree(&up, &node, &calls).await;
}

/// `llmeter` measures the node as it would measure any other, and counts the tokens that the tables count.
#[tokio::test(flavor = "multi_thread")]
async fn llmeter_counts_what_the_tables_count() {
    let world = World::new();
    let up = world.up();
    let node = node(&world, up.otlp_grpc());
    let seen = calls("node_llmeter.py", node.address("node")).await.remove(0);
    assert_eq!((&seen["requests"], &seen["failed"]), (&Value::from(12), &Value::from(0)), "{seen}");
    let calls = "SELECT count(*), sum(output_tokens) FROM requests";
    up.until_at_least(calls, 12).await;
    let output = seen["output_tokens"].as_i64().expect("tokens");
    assert_eq!(up.numbers(calls).await, [12, output]);
    up.until_at_least("SELECT coalesce(sum(count), 0) FROM tokens", output).await;
    assert_eq!(up.numbers("SELECT sum(count) FROM tokens").await, [output]);
    // What the client measures holds what the node measured, and the way between them.
    let ttft = up.row("SELECT min(ttft_s), max(e2e_s) FROM requests").await;
    assert!(seen["ttft_max_s"].as_f64() >= ttft[0].as_f64(), "{seen} {ttft:?}");
}

/// What the node's benchmark says of recording is of spans that all came, and one pair of turns is too few to say how sure it is.
#[test]
fn the_benchmark_loses_nothing_and_has_all_its_figures() {
    let mut command = tokenwatt(&["bench", "node", "--json", "--turns", "1", "--seconds", "1"]);
    let said = finish(command.args(["--pace", "2000", "--slots", "32"]).env_remove("TOKENWATT_MODEL"));
    let (printed, noted) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{noted}");
    let figures: Value = serde_json::from_str(printed.trim()).expect("one line of JSON");
    for positive in ["tokens_per_s", "tokens_per_s_unrecorded", "steps_per_s", "spans_recorded", "export_us_per_token"]
    {
        assert!(figures[positive].as_f64().is_some_and(|value| value > 0.0), "{positive}: {figures}");
    }
    assert_eq!((&figures["spans_lost"], &figures["pairs"], &figures["clients"]), (&0.into(), &1.into(), &40.into()));
    assert_eq!(figures["pace_tokens_per_s"], 2000.0, "{figures}");
    for unsaid in ["step_rate_change_interval", "step_rate_within_1_percent", "tokens_per_s_within_1_percent"] {
        assert_eq!(figures.get(unsaid), Some(&Value::Null), "{figures}");
    }
    assert!(figures["proxy"]["added_ms_p50_of_20_chunks"].is_f64(), "{figures}");
}
