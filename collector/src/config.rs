//! Settings of the collector. Plain data; `tokenwatt.toml` holds them under `[collector]`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use service::config::range;
use service::secret::Secret;

use crate::neuron::NeuronMonitor;
use crate::normalize::redact::Patterns;
use crate::scrape::Scrape;
use crate::tail::Tail;

/// Settings of the collector.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where OTLP/gRPC listens. Default 127.0.0.1:4317; port 0 takes any free port.
    pub grpc_addr: SocketAddr,
    /// Where OTLP/HTTP listens, with /healthz, /readyz and /metrics. Default 127.0.0.1:4318.
    pub http_addr: SocketAddr,
    /// Local directory that holds the journal. Set by the process, from `state`.
    #[serde(skip)]
    pub state: PathBuf,
    /// Attributes by which costs are split: rows of calls and samples take them from their resource where they have none of their
    /// own. Set by the process, from `cost.allocation_keys`.
    #[serde(skip)]
    pub allocation_keys: Vec<String>,
    /// Largest body, before and after inflation. Default 64MiB, as OTLP recommends; a smaller one refuses large batches.
    #[serde(with = "service::config::bytes")]
    pub body_max: u64,
    /// Memory for bodies that are being read, stored or turned into rows; beyond it senders are asked to wait. As much again
    /// bounds what they send before it is read, and with it their connections: one for every 160 KiB; and as much again the rows
    /// on their way to files. Default 256MiB.
    #[serde(with = "service::config::bytes")]
    pub memory: u64,
    /// Age at which a connection is ended without loss, so that a load balancer can give its sender to another collector; a tenth
    /// more or less by chance. Default 10m.
    #[serde(with = "service::config::duration")]
    pub connection_age: Duration,
    /// Disk that the journal may take while the lake does not answer; beyond it senders are asked to wait. Default 16GiB:
    /// hours of a busy fleet's compressed telemetry.
    #[serde(with = "service::config::bytes")]
    pub journal_bytes: u64,
    /// Disk that the journal leaves free for others; with less than that senders are asked to wait. Default 256MiB.
    #[serde(with = "service::config::bytes")]
    pub disk_free: u64,
    /// Age at which requests, tokens and devices become a file. Default 1s; 2s or more in a fleet makes fewer commits.
    #[serde(with = "service::config::duration")]
    pub flush_after: Duration,
    /// Age at which all other tables become a file. Default 10s.
    #[serde(with = "service::config::duration")]
    pub bulk_flush_after: Duration,
    /// Memory of one table's rows at which they become a file. Default 32MiB.
    #[serde(with = "service::config::bytes")]
    pub flush_bytes: u64,
    /// How often the collector's own counters become a row of `collectors`. Default 10s.
    #[serde(with = "service::config::duration")]
    pub sample_every: Duration,
    /// Store prompts, completions and tool arguments. Default false: they are dropped before any table.
    pub keep_content: bool,
    /// Further attributes that are never stored; a key covers what lies under it.
    pub redact: Vec<String>,
    /// Attributes that are stored although their key is listed or looks like a credential's; a key covers what lies under it.
    /// Credentials in their values are blotted out all the same.
    pub keep: Vec<String>,
    /// Further regular expressions; what they match in any text is blotted out.
    pub redact_patterns: Vec<String>,
    /// Distinct values an hour of one dimension (host, instance, service, tenant, model …) beyond which it counts as run away:
    /// further hosts are left out of `nodes`, and the sender is named in the log. Rows are stored all the same. Default 10,000.
    pub distinct_max: usize,
    /// Model of a service whose spans do not name one: service name to model.
    pub models: BTreeMap<String, String>,
    /// Commit together with the other collectors of the lake, through the one that holds the lease. By default so if the lake
    /// lies in a bucket; in a directory every process commits for itself.
    pub share_commits: Option<bool>,
    /// Shortest time between two versions of a table by the collector that commits for all. Default 1s.
    #[serde(with = "service::config::duration")]
    pub commit_every: Duration,
    /// URL at which other collectors reach this one's OTLP/gRPC port, such as http://10.0.3.7:4317, or https:// with a name that
    /// its certificate carries. By default where it listens;
    /// a collector that listens everywhere and does not say never commits for others.
    pub advertise: Option<String>,
    /// What collectors of one lake show each other; at least 16 characters. Never printed. Needed to commit together where
    /// writers have to identify themselves.
    pub commit_token: Option<Secret>,
    /// PEM file with the authorities that vouch for the other collectors' `https` ports; those of the system by default.
    pub commit_ca: Option<PathBuf>,
    /// Prometheus endpoints that are scraped. None unless set.
    pub scrape: Vec<Scrape>,
    /// Files that are followed. None unless set.
    pub tail: Vec<Tail>,
    /// Neuron devices of this host. Off unless set.
    pub neuron_monitor: NeuronMonitor,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            grpc_addr: SocketAddr::from(([127, 0, 0, 1], 4317)),
            http_addr: SocketAddr::from(([127, 0, 0, 1], 4318)),
            state: PathBuf::from("./tokenwatt-data"),
            allocation_keys: Vec::new(),
            body_max: 64 << 20,
            memory: 256 << 20,
            connection_age: Duration::from_secs(600),
            journal_bytes: 16 << 30,
            disk_free: 256 << 20,
            flush_after: Duration::from_secs(1),
            bulk_flush_after: Duration::from_secs(10),
            flush_bytes: 32 << 20,
            sample_every: Duration::from_secs(10),
            keep_content: false,
            redact: Vec::new(),
            keep: Vec::new(),
            redact_patterns: Vec::new(),
            distinct_max: 10_000,
            models: BTreeMap::new(),
            share_commits: None,
            commit_every: Duration::from_secs(1),
            advertise: None,
            commit_token: None,
            commit_ca: None,
            scrape: Vec::new(),
            tail: Vec::new(),
            neuron_monitor: NeuronMonitor::default(),
        }
    }
}

/// Largest body that any settings allow, inflated or not; what the journal holds is never larger.
pub(crate) const BODY_MAX: u64 = 256 << 20;
/// Shortest token.
const TOKEN_MIN: usize = 16;
/// More memory than any one machine gives a collector: 1 TiB.
const MEMORY_MAX: u64 = 1 << 40;
/// A column of a file holds at most 2 GiB of text.
const FLUSH_BYTES_MAX: u64 = 1 << 30;
/// Eight bytes for each value of each dimension.
const DISTINCT_MAX: usize = 1_000_000;
/// Shortest and longest life of a connection.
const AGE_MIN: Duration = Duration::from_secs(1);
const AGE_MAX: Duration = Duration::from_secs(86_400);
/// Shortest and longest time that can be set.
const TIME_MIN: Duration = Duration::from_millis(10);
const TIME_MAX: Duration = Duration::from_secs(3_600);

impl Config {
    /// Whether entries go through the collector that holds the lease; `in_bucket` says where the lake lies, `open` whether
    /// nobody has to prove who they are.
    pub(crate) fn shares_commits(&self, in_bucket: bool, open: bool) -> bool {
        self.share_commits.unwrap_or(in_bucket) && self.takes_commits(open)
    }

    /// Whether other collectors may hand in entries. Without a token anybody who reaches the port could say which files a
    /// table is made of.
    pub(crate) fn takes_commits(&self, open: bool) -> bool {
        open || self.commit_token.is_some()
    }

    /// Where others reach the port that is bound to `bound` and speaks `scheme`, if that can be known.
    pub(crate) fn advertised(&self, scheme: &str, bound: SocketAddr) -> Option<String> {
        let listening = || (!bound.ip().is_unspecified()).then(|| format!("{scheme}://{bound}"));
        self.advertise.clone().or_else(listening)
    }

    /// Adds one line for every rule broken.
    pub fn validate(&self, faults: &mut Vec<String>) {
        range::size("collector.body_max", self.body_max, 1 << 10..=BODY_MAX, faults);
        range::size("collector.memory", self.memory, 1 << 11..=MEMORY_MAX, faults);
        range::size("collector.flush_bytes", self.flush_bytes, 1 << 20..=FLUSH_BYTES_MAX, faults);
        if self.memory < 2 * self.body_max {
            faults.push("`collector.memory` must be at least twice `collector.body_max`".to_owned());
        }
        if self.journal_bytes < 2 * self.body_max {
            faults.push("`collector.journal_bytes` must be at least twice `collector.body_max`".to_owned());
        }
        for (key, value) in [
            ("flush_after", self.flush_after),
            ("bulk_flush_after", self.bulk_flush_after),
            ("sample_every", self.sample_every),
            ("commit_every", self.commit_every),
        ] {
            range::span(&format!("collector.{key}"), value, TIME_MIN..=TIME_MAX, faults);
        }
        range::span("collector.connection_age", self.connection_age, AGE_MIN..=AGE_MAX, faults);
        range::within("collector.distinct_max", self.distinct_max, 1..=DISTINCT_MAX, faults);
        if self.commit_token.as_ref().is_some_and(|token| token.expose().len() < TOKEN_MIN) {
            faults.push(format!("`collector.commit_token` is shorter than {TOKEN_MIN} characters"));
        }
        let is_url = |url: &String| url.starts_with("http://") || url.starts_with("https://");
        if self.advertise.as_ref().is_some_and(|url| !is_url(url)) {
            faults.push("`collector.advertise` must be a URL such as http://10.0.3.7:4317".to_owned());
        }
        if let Err(error) = Patterns::new(&self.redact_patterns) {
            faults.push(format!("`collector.redact_patterns`: {error}"));
        }
        self.scrape.iter().for_each(|group| group.validate(faults));
        self.tail.iter().for_each(|group| group.validate(faults));
        self.neuron_monitor.validate(faults);
    }
}
