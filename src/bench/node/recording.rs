//! What recording costs a node: the same load with tokens recorded and without, in turns.
//!
//! ```text
//! clients (closed loop, whole answers) ─► node ─► spans ─► a receiver that counts them
//! ```
//!
//! One node serves all turns, and is never idle between them. The simulated engine is paced at so many tokens a second, so that its
//! step rate falls if recording holds up the step thread. The CPU engine is as fast as it can be. Clients and receiver have threads of
//! their own.

use std::time::{Duration, Instant};

use inference_node::engine;
use serde_json::{Value, json};
use service::Deps;
use service::error::{Error, Result};

use super::clients::{self, Clients, Target};
use super::paired::{Change, is_with};
use super::receiver::{self, Receiver};
use super::round;
use super::threads::Threads;

/// Longest time that a node may take to end.
const ENDING: Duration = Duration::from_secs(60);
/// Change of a figure that must not be passed, percent.
const ALLOWED_PERCENT: f64 = 1.0;
/// Share of the pace that counts as reached.
const REACHED: f64 = 0.99;

/// One engine under load.
pub(super) struct Load<'a> {
    pub(super) engine: &'a engine::Config,
    /// Calls at once.
    pub(super) clients: u32,
    /// Sequences that a step holds.
    pub(super) slots: u32,
    /// Tokens of an answer.
    pub(super) answer_tokens: u32,
    /// What the engine makes at its pace, tokens a second; `None` for one that is as fast as it can be.
    pub(super) pace: Option<f64>,
    pub(super) length: Duration,
    /// Turns with, and as many without.
    pub(super) turns: u32,
}

/// One turn.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    tokens_per_s: f64,
    steps_per_s: f64,
    /// CPU time of the step thread.
    step_ns_per_token: f64,
    /// CPU time of the recorder's thread.
    record_us_per_token: f64,
    /// CPU time of the clients, of the receiver, and of all other threads, percent of one core.
    clients_percent: f64,
    receiver_percent: f64,
    node_percent: f64,
}

/// Measures an engine with and without recording, in turns, and compares pairs of them.
///
/// # Errors
/// If the node cannot be built or a call fails.
pub(super) async fn measure(load: &Load<'_>) -> Result<Value> {
    let (receiver, endpoint) = Receiver::start().await?;
    let deps = Deps::system();
    let mut config =
        inference_node::Config { otlp_endpoint: endpoint, engine: load.engine.clone(), ..Default::default() };
    config.http_addr.set_port(0);
    config.queue_max = config.queue_max.max(load.clients);
    config.record.token_sampling = clients::SAMPLING;
    let node = inference_node::build(config, deps.clone()).await?;
    let target = Target {
        url: format!("http://{}/v1/completions", node.http_addr()),
        model: node.engine().model.clone(),
        count: load.clients,
        tokens: load.answer_tokens,
    };
    let running = tokio::spawn(node.run());
    let clients = Clients::start(target)?;
    let mut turns = Vec::new();
    for turn in 0..2 * load.turns {
        clients.turn(is_with(turn)).await?;
        turns.push(window(&deps, load.length).await);
    }
    let recorded = clients.finish().await?;
    deps.shutdown.walk(ENDING).await;
    running.await.map_err(|error| Error::internal("the node broke").with_source(error))??;
    Ok(figures(load, &turns, recorded, receiver.finish()))
}

/// What came of the turns; `recorded` token spans were made and `received` came.
fn figures(load: &Load<'_>, turns: &[Turn], recorded: u64, received: u64) -> Value {
    let pairs: Vec<(Turn, Turn)> = (0..)
        .zip(turns.chunks_exact(2))
        .map(|(pair, turns)| if is_with(2 * pair) { (turns[1], turns[0]) } else { (turns[0], turns[1]) })
        .collect();
    let off = |of: fn(&Turn) -> f64| median(pairs.iter().map(|(without, _)| of(without)));
    let on = |of: fn(&Turn) -> f64| median(pairs.iter().map(|(_, with)| of(with)));
    let step_ns = (on(|turn| turn.step_ns_per_token), off(|turn| turn.step_ns_per_token));
    let mut figures = json!({
        "tokens_per_s": round(on(|turn| turn.tokens_per_s)),
        "tokens_per_s_unrecorded": round(off(|turn| turn.tokens_per_s)),
        "steps_per_s": round(on(|turn| turn.steps_per_s)),
        "slots_filled_percent": round(on(|turn| turn.tokens_per_s / turn.steps_per_s) / f64::from(load.slots) * 100.0),
        "step_thread_ns_per_token": round(step_ns.0),
        "ns_per_token": round(step_ns.0 - step_ns.1),
        "export_us_per_token": round(on(|turn| turn.record_us_per_token)),
        "spans_lost": recorded.saturating_sub(received),
        "spans_recorded": recorded,
        "clients_cpu_percent": round(on(|turn| turn.clients_percent)),
        "receiver_cpu_percent": round(on(|turn| turn.receiver_percent)),
        "node_cpu_percent": round(on(|turn| turn.node_percent)),
        "clients": load.clients,
        "slots": load.slots,
        "pairs": pairs.len(),
        "seconds": load.length.as_secs_f64(),
    });
    for (name, of) in [
        ("tokens_per_s", (|turn| turn.tokens_per_s) as fn(&Turn) -> f64),
        ("step_rate", |turn| turn.steps_per_s),
        ("step_thread_ns", |turn| turn.step_ns_per_token),
    ] {
        let pairs: Vec<(f64, f64)> = pairs.iter().map(|(without, with)| (of(without), of(with))).collect();
        let Some(change) = Change::of(&pairs) else { continue };
        let (percent, interval) = change.json();
        figures[format!("{name}_change_percent")] = percent;
        figures[format!("{name}_change_interval")] = interval;
        if name != "step_thread_ns" {
            figures[format!("{name}_within_1_percent")] = json!(change.within(ALLOWED_PERCENT));
        }
    }
    if let Some(pace) = load.pace {
        figures["pace_tokens_per_s"] = json!(round(pace));
        figures["short_of_pace"] = json!(short(load, pace, on(|turn| turn.steps_per_s), on(|turn| turn.tokens_per_s)));
    }
    figures
}

/// Why the pace was not reached; `None` where it was.
fn short(load: &Load<'_>, pace: f64, steps_per_s: f64, tokens_per_s: f64) -> Option<&'static str> {
    if tokens_per_s >= REACHED * pace {
        None
    } else if steps_per_s < REACHED * pace / f64::from(load.slots) {
        Some("steps came late: the step thread did not get the processor in time")
    } else {
        Some("slots stood empty: clients or the node's HTTP were too slow with the next calls")
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What a node made within a while, and what CPU time threads took meanwhile.
async fn window(deps: &Deps, length: Duration) -> Turn {
    let read = || {
        let count = |name| total(deps, name);
        (Instant::now(), count("vllm:generation_tokens_total"), count("tokenwatt_node_steps_total"), Threads::read())
    };
    let before = read();
    tokio::time::sleep(length).await;
    let after = read();
    let (seconds, tokens) = ((after.0 - before.0).as_secs_f64(), after.1 - before.1);
    let cpu_ns = |name| after.3.since(&before.3, name);
    let percent = |ns: f64| ns / seconds / 1e7;
    Turn {
        tokens_per_s: tokens / seconds,
        steps_per_s: (after.2 - before.2) / seconds,
        step_ns_per_token: cpu_ns("node.step") / tokens,
        record_us_per_token: cpu_ns("node.record") / tokens / 1e3,
        clients_percent: percent(cpu_ns(clients::THREAD)),
        receiver_percent: percent(cpu_ns(receiver::THREAD)),
        node_percent: percent(after.3.others_since(&before.3, &[clients::THREAD, receiver::THREAD])),
    }
}

/// Sum of a counter of the node over its labels.
fn total(deps: &Deps, name: &str) -> f64 {
    let page = deps.metrics.render();
    let lines = page.lines().filter(|line| line.starts_with(name));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}
