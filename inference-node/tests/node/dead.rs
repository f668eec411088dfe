//! A node whose collector does not answer: what it keeps is bounded, and everything else is counted.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::world::{PATIENCE, World};

/// Spans that the node may keep here.
const SPANS_MAX: usize = 2_000;
/// How old a batch becomes at most.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
/// Spans that a batch has at most: it is closed at 20, and a step and its calls may come on top.
const BATCH_MOST: f64 = 20.0 + 32.0 + 32.0;
/// Tokens of a call.
const TOKENS: u64 = 50;

/// Seconds of load; ten minutes are `TOKENWATT_DEAD_COLLECTOR_S=600`.
fn load_s() -> u64 {
    std::env::var("TOKENWATT_DEAD_COLLECTOR_S").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// A number of the node's own metrics.
async fn metric(world: &World, name: &str) -> f64 {
    let page = world.client.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
    let line = page.lines().find(|line| line.starts_with(name)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Resident memory of this process in MiB.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

/// The load goes on until the node keeps all it may and drops the rest, and for as long as the environment says. Every span was
/// kept or counted as dropped: at the end the count is exactly what the calls made. However long the collector was away, the node ends
/// as soon as the youngest batch is too old, and not one batch after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_kept_without_bound() {
    let world = World::start(|config| {
        // Nobody listens on the discard port.
        config.otlp_endpoint = "http://127.0.0.1:9".to_owned();
        config.engine.sim.slots = 32;
        config.record.spans_max = SPANS_MAX;
        config.record.queue_records = 256;
        config.record.batch_spans = 20;
        // Many batches wait.
        config.record.flush_after = Duration::from_millis(10);
        config.record.step_sampling = 0.0;
        // So that what is kept is given up soon at the end.
        config.record.give_up_after = GIVE_UP_AFTER;
    })
    .await;
    let (begun, load) = (Instant::now(), Duration::from_secs(load_s()));
    let (mut calls, mut held, mut resident) = (0, 0.0_f64, None);
    // At the end so many batches wait that the node would not end in time if each were tried until it is given up.
    let enough = BATCH_MOST * PATIENCE.as_secs_f64() / GIVE_UP_AFTER.as_secs_f64();
    while begun.elapsed() < load || held <= enough || metric(&world, LOST).await == 0.0 {
        let answers = (0..32).map(|_| async {
            let answer: Value = world.chat(&World::chat_body(TOKENS as u32, false)).await.json().await.unwrap();
            assert_eq!(answer["usage"]["completion_tokens"], TOKENS);
        });
        calls += futures::future::join_all(answers).await.len() as u64;
        held = metric(&world, "tokenwatt_node_spans_held").await;
        assert!(held <= SPANS_MAX as f64, "{held}");
        if begun.elapsed() > load / 5 {
            resident.get_or_insert_with(resident_mib);
        }
    }
    // Over seconds other tests of this process outweigh it.
    if load >= Duration::from_secs(60) {
        let grown = resident_mib() - resident.unwrap_or_else(resident_mib);
        assert!(grown < 64.0, "{grown} MiB more than at a fifth of the load");
    }
    let lost = world.deps.metrics.counter(LOST, "", &[]);
    let received = world.end().await;
    assert_eq!(received.spans().len(), 0);
    assert_eq!(lost.get(), calls * (TOKENS + 1), "{calls} calls");
}

const LOST: &str = "tokenwatt_node_spans_lost_total";
