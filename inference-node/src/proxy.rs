//! In front of another engine: its answers pass through unchanged, and leave the spans, tokens and metrics that it lacks.
//!
//! ```text
//! client -> ask (for usage, where the engine knows it) -> place in the queue -> upstream
//!                                                 answer -> read along -> strip what nobody asked for -> client
//!                                                                 |
//!                                                                 +-> record
//! ```
//!
//! A proxy sees chunks. How many tokens a chunk has is known, from firm to weak, from usage that comes with every chunk, from
//! token ids or log probabilities in it, from the engine's contract (TGI sends single tokens), from the total at the end,
//! which is shared out by the length of text, or not at all: then a chunk counts as one, and the call says so.

mod ask;
mod call;
mod circle;
mod dialect;
mod grpc;
mod json;
mod load;
mod read;
mod relay;
mod send;
mod turn;

pub(crate) use call::{Asked, End, Mark, Relayed};
pub use dialect::Upstream;
pub(crate) use load::Sampling;
pub(crate) use turn::Turns;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use reqwest::redirect::Policy;
use serde::{Deserialize, Serialize};
use service::config::range::{span, within};
use service::error::{Error, Result};
use service::metrics::{Counter, Registry};
use service::secret::Secret;
use service::shutdown::CancellationToken;
use tonic::transport::Channel;

use crate::admit;
use crate::engine::EngineDescription;
use crate::record::Recorder;
use crate::schedule;
use crate::step::NodeClock;

/// Settings of the `proxy` engine.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address of the engine, such as `http://127.0.0.1:8000`.
    pub upstream: String,
    /// Address of its gRPC port, such as Triton's `http://127.0.0.1:8001`; gRPC that comes to the node's port goes there.
    pub upstream_grpc: Option<String>,
    /// What it is: `vllm`, `sglang`, `tgi`, `triton`, `llama_cpp`, `text_generation_webui`, `tokenwatt` or `openai`.
    pub engine: Upstream,
    /// Model that it serves, where neither calls nor answers name it.
    pub model: Option<String>,
    /// Calls that the engine gets at once; others wait here. 0 sets no bound. Most loaders of Text Generation WebUI take 1.
    pub concurrency: u32,
    /// Where the calls count as measured. `gateway` is right behind an engine that sends call spans of its own, which are nearer;
    /// `server` for one that sends none and runs beside the proxy.
    pub measured_at: MeasuredAt,
    /// Longest time to connect.
    #[serde(with = "service::config::duration")]
    pub connect_timeout: Duration,
    /// Longest silence of the engine, before and within an answer.
    #[serde(with = "service::config::duration")]
    pub idle_timeout: Duration,
}

/// Where a proxied call counts as measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredAt {
    /// On the way to the engine.
    #[default]
    Gateway,
    /// At the engine.
    Server,
}

impl MeasuredAt {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Server => "server",
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            upstream: "http://127.0.0.1:8000".to_owned(),
            upstream_grpc: None,
            engine: Upstream::default(),
            model: None,
            concurrency: 0,
            measured_at: MeasuredAt::default(),
            connect_timeout: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(300),
        }
    }
}

/// More calls at once than any engine takes.
const CONCURRENCY_MAX: u32 = 65_536;

impl Config {
    /// Adds one line for every rule broken.
    pub fn validate(&self, faults: &mut Vec<String>) {
        if !self.upstream.starts_with("http://") && !self.upstream.starts_with("https://") {
            faults.push(format!("node.engine.proxy.upstream `{}` must start with http:// or https://", self.upstream));
        }
        if let Some(url) = &self.upstream_grpc
            && let Err(error) = grpc::channel(url, self)
        {
            faults.push(format!("node.engine.proxy.upstream_grpc `{url}` cannot be used: {error}"));
        }
        within("node.engine.proxy.concurrency", self.concurrency, 0..=CONCURRENCY_MAX, faults);
        for (name, value) in [("connect_timeout", self.connect_timeout), ("idle_timeout", self.idle_timeout)] {
            let name = format!("node.engine.proxy.{name}");
            span(&name, value, Duration::from_millis(1)..=Duration::from_secs(86_400), faults);
        }
    }

    /// Adds one line for every address of the engine that is one of the node's `own`.
    pub(crate) fn validate_apart(&self, own: [SocketAddr; 2], faults: &mut Vec<String>) {
        circle::refuse_own("node.engine.proxy.upstream", &self.upstream, own, faults);
        if let Some(url) = &self.upstream_grpc {
            circle::refuse_own("node.engine.proxy.upstream_grpc", url, own, faults);
        }
    }

    /// Whether the proxy tells how many calls the engine has: where it stands for the engine, or nobody else tells it. Engines with
    /// metrics of their own, and nodes of ours, tell it themselves.
    fn tells_calls(&self) -> bool {
        let is_silent = matches!(self.engine, Upstream::TextGenerationWebui | Upstream::Openai);
        is_silent || self.measured_at == MeasuredAt::Server
    }

    /// The engine behind the proxy, as far as the settings know it.
    pub(crate) fn describe(&self) -> EngineDescription {
        EngineDescription {
            engine: self.engine.name().to_owned(),
            model: self.model.clone().unwrap_or_default(),
            quantization: None,
            tensor_parallel: None,
            accelerator: None,
            chips: None,
            slots: self.concurrency,
            max_len: 0,
            prompt_max: 0,
            policy: schedule::Policy::TokenBudget,
            prefix_cache: false,
            calibration_error: None,
            likelihoods: false,
            simulated: None,
        }
    }
}

/// What a proxy shares between its calls.
pub(crate) struct Front {
    config: Config,
    /// Address of the engine without a slash at its end.
    base: String,
    client: reqwest::Client,
    grpc: Option<Channel>,
    recorder: Arc<Recorder>,
    clock: Arc<NodeClock>,
    fleet_secret: Option<Secret>,
    token_sampling: f64,
    turns: Turns,
    /// Whose turn it is to have a long body read.
    long: Turns,
    sign: circle::Sign,
    closing: CancellationToken,
    failed: Counter,
}

/// What a [`Front`] is made of.
pub(crate) struct Parts {
    pub(crate) recorder: Recorder,
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) fleet_secret: Option<Secret>,
    pub(crate) token_sampling: f64,
    /// Whose turn it is at the engine.
    pub(crate) turns: Turns,
    /// Calls that may wait.
    pub(crate) queue_max: u32,
    /// Cancelled once no new call is taken.
    pub(crate) closing: CancellationToken,
}

/// The routes of a proxy: everything goes to the engine, and calls that make tokens are followed.
///
/// # Errors
/// `Internal` if there can be no client, `Invalid` if the address of gRPC cannot be used.
pub(crate) fn router(config: &Config, parts: Parts, metrics: &Registry) -> Result<Router> {
    let front = Arc::new(front(config, parts, metrics)?);
    let mut router = Router::new();
    if config.engine != Upstream::Tokenwatt {
        router = router.route("/load", get(load::stream));
    }
    Ok(router.fallback(relay::relay).with_state(front))
}

fn front(config: &Config, parts: Parts, metrics: &Registry) -> Result<Front> {
    let client = reqwest::Client::builder()
        .connect_timeout(config.connect_timeout)
        .no_proxy()
        .tcp_nodelay(true)
        .redirect(Policy::none())
        .build()
        .map_err(|error| Error::internal("set up the client for the engine").with_source(error))?;
    let channel = config.upstream_grpc.as_ref().map(|url| grpc::channel(url, config)).transpose();
    let channel =
        channel.map_err(|error| Error::invalid("node.engine.proxy.upstream_grpc cannot be used").with_source(error))?;
    let help = "Calls that the engine did not answer, or did not answer to the end.";
    Ok(Front {
        base: config.upstream.trim_end_matches('/').to_owned(),
        config: config.clone(),
        client,
        grpc: channel,
        recorder: Arc::new(parts.recorder),
        clock: parts.clock,
        fleet_secret: parts.fleet_secret,
        token_sampling: parts.token_sampling,
        turns: parts.turns,
        long: Turns::new(admit::long_at_once(), parts.queue_max),
        sign: circle::Sign::new(),
        closing: parts.closing,
        failed: metrics.counter("tokenwatt_proxy_failed_total", help, &[("engine", config.engine.name().to_owned())]),
    })
}
