//! Settings of a gateway.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use service::config::range;
use service::secret::Secret;
use service::uplink::Credentials;

/// Settings of a gateway.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where clients connect. Default 127.0.0.1:8200.
    pub http_addr: SocketAddr,
    /// The nodes behind this gateway.
    pub nodes: Vec<Node>,
    /// Share of the calls that each region gets, as weights; a region that is not named weighs 1, a weight of 0 drains it. Empty:
    /// all nodes are one pool. Can be changed while running by `PUT /admin/regions`.
    pub regions: BTreeMap<String, f64>,
    /// How a node is chosen. Default `least_outstanding`.
    pub policy: Policy,
    /// API keys and whom they belong to. Empty: every caller is let in and has no tenant.
    pub keys: Vec<Key>,
    /// Proves to nodes, and to this gateway's admin pages, that the caller belongs to the fleet.
    pub fleet_secret: Option<Secret>,
    /// Where records are sent, OTLP/gRPC. Default http://127.0.0.1:4317.
    pub otlp_endpoint: String,
    /// How it proves itself to that collector, and the collector to it.
    pub otlp: Credentials,
    /// What records say about this gateway.
    pub identity: Identity,
    /// Time between two looks at a node. Default 1s.
    #[serde(with = "service::config::duration")]
    pub probe_every: Duration,
    /// How long a node may take to answer a look. Default 1s.
    #[serde(with = "service::config::duration")]
    pub probe_timeout: Duration,
    /// How long connecting to a node may take. Default 1s.
    #[serde(with = "service::config::duration")]
    pub connect_timeout: Duration,
    /// How long a node may take until its answer begins. Answers that are not streamed begin when they are complete. Default 5m.
    #[serde(with = "service::config::duration")]
    pub answer_timeout: Duration,
    /// How long a node may be silent within an answer. Default 1m.
    #[serde(with = "service::config::duration")]
    pub idle_timeout: Duration,
    /// Further nodes tried when one cannot be reached or answers 502, 503 or 504. Default 2.
    pub retries: u32,
    /// Largest request taken. Default 16MiB.
    #[serde(with = "service::config::bytes")]
    pub request_bytes_max: u64,
    /// Most records that wait for the collector; later ones are lost and counted. Default 4096.
    pub records_max: usize,
}

/// A node behind the gateway.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Base address, such as `http://10.0.0.7:8100`.
    pub url: String,
    /// Where it runs.
    pub region: String,
    /// Its capacity relative to the others of its region, above 0. Default 1.
    #[serde(default = "one")]
    pub weight: f64,
}

/// An API key.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// What the client sends as bearer token.
    pub key: Secret,
    /// Whom its calls are served for.
    pub tenant: String,
}

/// How a node is chosen among those that can take the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The fewest outstanding calls per weight; ties are drawn.
    #[default]
    LeastOutstanding,
    /// One after the other.
    RoundRobin,
    /// Drawn by weight.
    Random,
    /// The better of two drawn by weight.
    TwoChoices,
}

/// Resource attributes of this gateway's records. What is not known is left out.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Identity {
    /// Name of the service. Default `gateway`.
    pub service: String,
    /// This gateway among its like; drawn at start if not given.
    pub instance: Option<String>,
    /// Region of calls that reached no node; other calls carry their node's.
    pub region: Option<String>,
    /// Availability zone.
    pub zone: Option<String>,
    /// Deployment environment.
    pub environment: Option<String>,
    /// Kubernetes cluster.
    pub cluster: Option<String>,
    /// Kubernetes namespace.
    pub namespace: Option<String>,
}

fn one() -> f64 {
    1.0
}

impl Default for Config {
    fn default() -> Self {
        Self {
            http_addr: SocketAddr::from(([127, 0, 0, 1], 8200)),
            nodes: Vec::new(),
            regions: BTreeMap::new(),
            policy: Policy::default(),
            keys: Vec::new(),
            fleet_secret: None,
            otlp_endpoint: "http://127.0.0.1:4317".to_owned(),
            otlp: Credentials::default(),
            identity: Identity::default(),
            probe_every: Duration::from_secs(1),
            probe_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(1),
            answer_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(60),
            retries: 2,
            request_bytes_max: 16 << 20,
            records_max: 4096,
        }
    }
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            service: "gateway".to_owned(),
            instance: None,
            region: None,
            zone: None,
            environment: None,
            cluster: None,
            namespace: None,
        }
    }
}

impl Config {
    /// Adds one line for every rule broken.
    pub fn validate(&self, faults: &mut Vec<String>) {
        for (index, node) in self.nodes.iter().enumerate() {
            if !node.url.starts_with("http://") && !node.url.starts_with("https://") {
                faults.push(format!("gateway.nodes[{index}].url `{}` must start with http:// or https://", node.url));
            }
            if !(node.weight.is_finite() && node.weight > 0.0) {
                faults.push(format!("gateway.nodes[{index}].weight {} must be above 0", node.weight));
            }
            if node.region.is_empty() {
                faults.push(format!("gateway.nodes[{index}].region is empty"));
            }
        }
        region_weights(&self.regions, faults);
        for (index, key) in self.keys.iter().enumerate() {
            if key.key.is_empty() || key.tenant.is_empty() {
                faults.push(format!("gateway.keys[{index}] needs a key and a tenant"));
            }
            if self.keys[..index].iter().any(|earlier| earlier.key == key.key) {
                faults.push(format!("gateway.keys[{index}] repeats the key of another tenant or entry"));
            }
        }
        if !self.http_addr.ip().is_loopback() && self.keys.is_empty() {
            faults
                .push(format!("gateway.http_addr {} is open to the network but gateway.keys is empty", self.http_addr));
        }
        self.ranges(faults);
    }

    fn ranges(&self, faults: &mut Vec<String>) {
        for (key, value) in [
            ("probe_every", self.probe_every),
            ("probe_timeout", self.probe_timeout),
            ("connect_timeout", self.connect_timeout),
            ("answer_timeout", self.answer_timeout),
            ("idle_timeout", self.idle_timeout),
        ] {
            range::span(&format!("gateway.{key}"), value, TIME_MIN..=TIME_MAX, faults);
        }
        range::within("gateway.retries", self.retries, 0..=RETRIES_MAX, faults);
        range::size("gateway.request_bytes_max", self.request_bytes_max, 1..=REQUEST_BYTES_MAX, faults);
        range::within("gateway.records_max", self.records_max, 1..=RECORDS_MAX, faults);
    }
}

/// Shortest and longest time that can be set.
const TIME_MIN: Duration = Duration::from_millis(1);
const TIME_MAX: Duration = Duration::from_secs(86_400);
/// Each retry goes to another node.
const RETRIES_MAX: u32 = 1_000;
/// A request is held in memory: 1 GiB.
const REQUEST_BYTES_MAX: u64 = 1 << 30;
/// About a kilobyte each.
const RECORDS_MAX: usize = 10_000_000;

/// Checks weights of regions, from the settings or from an admin call.
pub(crate) fn region_weights(regions: &BTreeMap<String, f64>, faults: &mut Vec<String>) {
    for (region, weight) in regions {
        if !(weight.is_finite() && *weight >= 0.0) {
            faults.push(format!("weight {weight} of region {region} must be 0 or more"));
        }
    }
    if !regions.is_empty() && regions.values().all(|weight| *weight == 0.0) {
        faults.push("at least one region must weigh more than 0".to_owned());
    }
}
