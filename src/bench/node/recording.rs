//! What recording costs a node: the same load with tokens recorded and without, in turns.
//!
//! ```text
//! clients (closed loop, whole answers) ─► node ─► spans ─► a receiver that counts them
//! ```
//!
//! The simulated engine is paced at so many tokens a second, so that its step rate falls if recording holds up the step thread. The CPU
//! engine is as fast as it can be. CPU time is the kernel's count for each thread (`schedstat`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use inference_node::engine::{self, EngineKind};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use serde_json::{Value, json};
use service::Deps;
use service::error::{Error, Result};
use service::shutdown::CancellationToken;
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

/// Time before the measurement, in which slots fill and connections are made.
const WARM_UP: Duration = Duration::from_secs(2);
/// Longest time that a node may take to end.
const ENDING: Duration = Duration::from_secs(60);
/// Tokens of an answer. With its prompt it stays in the context bucket of 256, so that steps are alike.
const ANSWER_TOKENS: u32 = 200;

/// One engine under load.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) engine: engine::Config,
    /// Calls at once.
    pub(super) clients: u32,
    pub(super) length: Duration,
    /// Turns with and without.
    pub(super) turns: u32,
}

/// Counts token spans.
#[derive(Clone, Default)]
struct Receiver {
    tokens: Arc<AtomicU64>,
}

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let body = request.into_inner();
        let scopes = body.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        let tokens = scopes.flat_map(|scope| &scope.spans).filter(|span| span.name == telemetry::names::SPAN_TOKEN);
        self.tokens.fetch_add(tokens.count() as u64, Ordering::Relaxed);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Receiver {
    async fn export(
        &self,
        _: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

/// One turn.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    tokens_per_s: f64,
    steps_per_s: f64,
    step_ns_per_token: f64,
    record_us_per_token: f64,
    /// Tokens that were recorded and not received.
    lost: u64,
}

/// Measures an engine with and without recording, in turns, and compares the medians.
///
/// # Errors
/// If the node cannot be built or a call fails.
pub(super) async fn measure(load: &Load) -> Result<Value> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..load.turns {
        without.push(turn(load, 0.0).await?);
        with.push(turn(load, 1.0).await?);
    }
    let on = |of: fn(&Turn) -> f64| median(&with, of);
    let off = |of: fn(&Turn) -> f64| median(&without, of);
    let change = |of: fn(&Turn) -> f64| round(100.0 * (on(of) / off(of) - 1.0));
    let step_ns = (on(|turn| turn.step_ns_per_token), off(|turn| turn.step_ns_per_token));
    Ok(json!({
        "tokens_per_s": round(on(|turn| turn.tokens_per_s)),
        "tokens_per_s_unrecorded": round(off(|turn| turn.tokens_per_s)),
        "tokens_per_s_change_percent": change(|turn| turn.tokens_per_s),
        "step_rate_change_percent": change(|turn| turn.steps_per_s),
        "step_thread_ns_per_token": round(step_ns.0),
        "ns_per_token": round(step_ns.0 - step_ns.1),
        "export_us_per_token": round(on(|turn| turn.record_us_per_token)),
        "spans_lost": with.iter().map(|turn| turn.lost).sum::<u64>(),
        "clients": load.clients,
        "turns": load.turns,
        "seconds": load.length.as_secs(),
    }))
}

fn median(turns: &[Turn], of: fn(&Turn) -> f64) -> f64 {
    let mut values: Vec<f64> = turns.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// A node, its receiver and its clients, for a while.
async fn turn(load: &Load, token_sampling: f64) -> Result<Turn> {
    let receiver = Receiver::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let endpoint = format!("http://{}", listener.local_addr().map_err(failed)?);
    let server = tonic::transport::Server::builder()
        .add_service(TraceServiceServer::new(receiver.clone()))
        .add_service(MetricsServiceServer::new(receiver.clone()))
        .serve_with_incoming(tonic::transport::server::TcpIncoming::from(listener));
    let server = tokio::spawn(server);
    let deps = Deps::system();
    let mut config =
        inference_node::Config { otlp_endpoint: endpoint, engine: load.engine.clone(), ..Default::default() };
    config.http_addr.set_port(0);
    config.record.token_sampling = token_sampling;
    let node = inference_node::build(config, deps.clone()).await?;
    let (url, about) = (format!("http://{}/v1/completions", node.http_addr()), node.engine().clone());
    let running = tokio::spawn(node.run());
    let stop = CancellationToken::new();
    let client = reqwest::Client::new();
    let model = &about.model;
    let clients = join_all((0..load.clients).map(|seed| ask(&client, &url, model, seed, &stop)));
    let measured = async {
        tokio::time::sleep(WARM_UP).await;
        let measured = window(&deps, load.length).await;
        stop.cancel();
        measured
    };
    let (asked, mut measured) = tokio::join!(clients, measured);
    asked.into_iter().collect::<Result<Vec<()>>>()?;
    deps.shutdown.walk(ENDING).await;
    running.await.map_err(|error| Error::internal("the node broke").with_source(error))??;
    server.abort();
    if token_sampling > 0.0 {
        let made = total(&deps, "vllm:generation_tokens_total");
        measured.lost = (made as u64).saturating_sub(receiver.tokens.load(Ordering::Relaxed));
    }
    Ok(measured)
}

fn failed(error: std::io::Error) -> Error {
    Error::internal("set up the receiver").with_source(error)
}

/// One client: the next call as soon as the last one is answered.
async fn ask(client: &reqwest::Client, url: &str, model: &str, seed: u32, stop: &CancellationToken) -> Result<()> {
    let body = json!({
        "model": model, "prompt": "Tell me about harbors.", "max_tokens": ANSWER_TOKENS, "ignore_eos": true, "seed": seed,
    });
    while !stop.is_cancelled() {
        let answer = client.post(url).json(&body).send().await.and_then(reqwest::Response::error_for_status);
        let answer = answer.map_err(|error| Error::internal("a call failed").with_source(error))?;
        answer.bytes().await.map_err(|error| Error::internal("a call broke off").with_source(error))?;
    }
    Ok(())
}

/// What a node made within a while, and what CPU time its threads took for it.
async fn window(deps: &Deps, length: Duration) -> Turn {
    let read = || {
        let count = |name| total(deps, name);
        (Instant::now(), count("vllm:generation_tokens_total"), count("tokenwatt_node_steps_total"), Threads::read())
    };
    let before = read();
    tokio::time::sleep(length).await;
    let after = read();
    let (seconds, tokens) = ((after.0 - before.0).as_secs_f64(), after.1 - before.1);
    let cpu_ns = |name| after.3.since(&before.3, name) as f64;
    Turn {
        tokens_per_s: tokens / seconds,
        steps_per_s: (after.2 - before.2) / seconds,
        step_ns_per_token: cpu_ns("node.step") / tokens,
        record_us_per_token: cpu_ns("node.record") / tokens / 1e3,
        lost: 0,
    }
}

/// Sum of a counter of the node over its labels.
fn total(deps: &Deps, name: &str) -> f64 {
    let page = deps.metrics.render();
    let lines = page.lines().filter(|line| line.starts_with(name));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// CPU time of this process's threads, nanoseconds by thread id, with their names.
struct Threads(BTreeMap<u32, (String, u64)>);

impl Threads {
    fn read() -> Self {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
        let one = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, Self::of(&entry.path())?))
        };
        Self(tasks.filter_map(one).collect())
    }

    fn of(task: &Path) -> Option<(String, u64)> {
        let name = std::fs::read_to_string(task.join("comm")).ok()?.trim().to_owned();
        let ran = std::fs::read_to_string(task.join("schedstat")).ok()?;
        Some((name, ran.split_whitespace().next()?.parse().ok()?))
    }

    /// What threads of that name took since then.
    fn since(&self, before: &Self, name: &str) -> u64 {
        let own = self.0.iter().filter(|(_, (called, _))| called == name);
        own.map(|(id, (_, ran))| ran - before.0.get(id).map_or(0, |(_, ran)| *ran)).sum()
    }
}

/// The simulated engine; 180 slots make it about 20,000 tokens a second. Prompts take next to no time, so that steps are decode
/// steps.
pub(super) fn paced(slots: u32) -> engine::Config {
    let sim = engine::sim::Config {
        like: "trn1.32xlarge".to_owned(),
        slots,
        max_len: 1_024,
        prefill_slowdown: 0.01,
        ..engine::sim::Config::default()
    };
    engine::Config { kind: EngineKind::Sim, sim, ..engine::Config::default() }
}
