//! Settings of a node. Plain data; `tokenwatt.toml` holds them under `[node]`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use service::config::range;
use service::secret::Secret;
use service::uplink::Credentials;

use crate::engine::EngineKind;
use crate::{engine, schedule};

/// Settings of a node.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where the OpenAI API listens; port 0 takes any free port.
    pub http_addr: SocketAddr,
    /// Where the KServe API listens over gRPC; `None` takes the port after that of `http_addr`, or any free one where that is 0.
    pub grpc_addr: Option<SocketAddr>,
    /// OTLP/gRPC endpoint of the collector.
    pub otlp_endpoint: String,
    /// How it proves itself to that collector, and the collector to it.
    pub otlp: Credentials,
    /// Calls that may wait for a slot; the next one gets 429.
    pub queue_max: u32,
    /// Shared with the gateways of the fleet; only a caller that shows it may name a tenant.
    pub fleet_secret: Option<Secret>,
    /// Who and where this node is.
    pub identity: Identity,
    /// What computes the tokens.
    pub engine: engine::Config,
    /// How steps are put together.
    pub schedule: schedule::Config,
    /// What is recorded, and how much of it is kept while the collector is away.
    pub record: RecordConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            http_addr: SocketAddr::from(([127, 0, 0, 1], 8100)),
            grpc_addr: None,
            otlp_endpoint: "http://127.0.0.1:4317".to_owned(),
            otlp: Credentials::default(),
            queue_max: 128,
            fleet_secret: None,
            identity: Identity::default(),
            engine: engine::Config::default(),
            schedule: schedule::Config::default(),
            record: RecordConfig::default(),
        }
    }
}

impl Config {
    /// Where the KServe API listens.
    pub fn grpc_addr(&self) -> SocketAddr {
        let mut addr = self.http_addr;
        if addr.port() != 0 {
            addr.set_port(addr.port().wrapping_add(1));
        }
        self.grpc_addr.unwrap_or(addr)
    }

    /// Adds one line for every rule broken.
    pub fn validate(&self, faults: &mut Vec<String>) {
        if !self.otlp_endpoint.starts_with("http://") && !self.otlp_endpoint.starts_with("https://") {
            faults.push("node.otlp_endpoint must start with http:// or https://".to_owned());
        }
        range::within("node.queue_max", self.queue_max, 0..=QUEUE_MAX, faults);
        self.engine.validate(faults);
        if self.engine.kind == EngineKind::Proxy {
            self.engine.proxy.validate_apart([self.http_addr, self.grpc_addr()], faults);
        }
        self.validate_schedule(faults);
        self.record.validate(faults);
    }

    /// What the engine cannot follow must not look as if it did.
    fn validate_schedule(&self, faults: &mut Vec<String>) {
        let (kind, schedule) = (self.engine.kind, &self.schedule);
        if kind == EngineKind::Neuron && schedule.policy.is_some_and(|policy| policy != schedule::Policy::NeuronSlots) {
            faults.push("node.schedule.policy must be neuron_slots where node.engine.kind is neuron".to_owned());
        }
        if matches!(kind, EngineKind::Cpu | EngineKind::Neuron) && schedule.prefix_cache == Some(true) {
            let name = kind.name();
            faults.push(format!(
                "node.schedule.prefix_cache is true, and the engine `{name}` cannot begin with blocks of another prompt; leave it out"
            ));
        }
        schedule.validate(faults);
    }
}

/// Each waiting call holds its prompt.
const QUEUE_MAX: u32 = 1_000_000;
/// About a kilobyte each.
const RECORDS_MAX: usize = 10_000_000;
/// Longest time that can be set.
const TIME_MAX: Duration = Duration::from_secs(86_400);

/// Who and where a node is: the resource attributes of all its telemetry. What is not set is not sent.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Identity {
    /// `service.name`.
    pub service: String,
    /// `service.instance.id`: one engine replica; `None` makes a random one at each start.
    pub instance: Option<String>,
    /// `host.id`, such as the EC2 instance id.
    pub host_id: Option<String>,
    /// `host.type`, such as `inf2.48xlarge`; prices are looked up by it.
    pub host_type: Option<String>,
    /// `cloud.provider`, such as `aws`.
    pub provider: Option<String>,
    /// `cloud.region`.
    pub region: Option<String>,
    /// `cloud.availability_zone`.
    pub zone: Option<String>,
    /// `cloud.account.id`.
    pub account: Option<String>,
    /// `k8s.cluster.name`.
    pub cluster: Option<String>,
    /// `k8s.namespace.name`.
    pub namespace: Option<String>,
    /// `deployment.environment.name`.
    pub environment: Option<String>,
    /// `tokenwatt.pool`.
    pub pool: Option<String>,
    /// `tokenwatt.capacity_type`: on_demand, spot, savings_plan, reserved, capacity_block or unknown.
    pub capacity_type: Option<String>,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            service: "inference-node".to_owned(),
            instance: None,
            host_id: None,
            host_type: None,
            provider: None,
            region: None,
            zone: None,
            account: None,
            cluster: None,
            namespace: None,
            environment: None,
            pool: None,
            capacity_type: None,
        }
    }
}

/// Settings of the recorder.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordConfig {
    /// Share of calls whose tokens are recorded, 0 to 1; whole calls, never single tokens.
    pub token_sampling: f64,
    /// Share of steps that are recorded as spans of their own, 0 to 1; their counts are always sent.
    pub step_sampling: f64,
    /// Whether calls whose tokens are recorded have their phases as spans, too: queue, prefill, decode.
    pub phase_spans: bool,
    /// Records that may wait between the step thread and the recorder; a step makes one.
    pub queue_records: usize,
    /// Spans kept while the collector does not answer (about 1 kB each); later ones are dropped and counted.
    pub spans_max: usize,
    /// Spans of one export request.
    pub batch_spans: usize,
    /// Longest time that a span waits for its batch to fill.
    #[serde(with = "service::config::duration")]
    pub flush_after: Duration,
    /// A batch that was not accepted this long after it was made is dropped and counted.
    #[serde(with = "service::config::duration")]
    pub give_up_after: Duration,
    /// Where the kernel counts the energy of the processors, for nodes that send it with their samples. Empty: they send none.
    pub rapl: PathBuf,
    /// Whether the samples hold the energy of this host's processors. By default those of a `cpu` node do; say `true` for a proxy whose
    /// engine computes on them, such as llama.cpp on the same host.
    pub processors: Option<bool>,
}

impl Default for RecordConfig {
    fn default() -> Self {
        Self {
            token_sampling: 1.0,
            step_sampling: 0.0,
            phase_spans: false,
            queue_records: 8_192,
            spans_max: 100_000,
            batch_spans: 2_000,
            flush_after: Duration::from_millis(250),
            // The collector knows a batch that it has already stored for 15 minutes.
            give_up_after: Duration::from_secs(10 * 60),
            rapl: PathBuf::from(service::rapl::ROOT),
            processors: None,
        }
    }
}

impl RecordConfig {
    fn validate(&self, faults: &mut Vec<String>) {
        if !(0.0..=1.0).contains(&self.token_sampling) {
            faults.push("node.record.token_sampling must be from 0 to 1".to_owned());
        }
        range::within("node.record.step_sampling", self.step_sampling, 0.0..=1.0, faults);
        for (name, value) in
            [("queue_records", self.queue_records), ("spans_max", self.spans_max), ("batch_spans", self.batch_spans)]
        {
            range::within(&format!("node.record.{name}"), value, 1..=RECORDS_MAX, faults);
        }
        for (name, value) in [("flush_after", self.flush_after), ("give_up_after", self.give_up_after)] {
            range::span(&format!("node.record.{name}"), value, Duration::from_millis(1)..=TIME_MAX, faults);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults keep their own rules.
    #[test]
    fn defaults_are_valid() {
        let mut faults = Vec::new();
        Config::default().validate(&mut faults);
        assert_eq!(faults, Vec::<String>::new());
    }

    /// An engine that needs a model says which setting names it, and what an engine cannot do is no setting for it; the other engines'
    /// settings do not matter.
    #[test]
    fn engines_say_what_they_need() {
        let faults = |kind, prefix_cache, model: &str| {
            let mut config = Config::default();
            config.engine.kind = kind;
            config.schedule.prefix_cache = prefix_cache;
            config.engine.cpu.model_path = model.into();
            config.engine.neuron.model_dir = model.into();
            let mut faults = Vec::new();
            config.validate(&mut faults);
            faults.join("\n")
        };
        assert_eq!(faults(EngineKind::Sim, Some(true), ""), "");
        assert_eq!(faults(EngineKind::Cpu, None, "model.gguf"), "");
        assert_eq!(faults(EngineKind::Neuron, Some(false), "model"), "");
        for (kind, setting) in [(EngineKind::Cpu, "cpu.model_path"), (EngineKind::Neuron, "neuron.model_dir")] {
            let said = faults(kind, None, "");
            assert!(said.contains(&format!("node.engine.{setting} is not set")), "{said}");
            let said = faults(kind, Some(true), "model");
            assert!(said.contains("node.schedule.prefix_cache is true") && !said.contains('\n'), "{said}");
        }
    }

    /// All faults are found at once.
    #[test]
    fn faults_are_listed_together() {
        let mut config = Config { otlp_endpoint: "127.0.0.1:4317".to_owned(), ..Config::default() };
        config.record.token_sampling = f64::NAN;
        config.engine.sim.prefill_slowdown = 0.0;
        let mut faults = Vec::new();
        config.validate(&mut faults);
        assert_eq!(faults.len(), 3, "{faults:?}");
    }
}
