//! Parts of a query on other machines.
//!
//! ```text
//! coordinator: plan ─► spread (cut into stages, files dealt to workers) ─► send, with a token ─► rows of the last stage
//! worker:      token, version ─► codec (functions by name, row filters as part of the plan) ─► within this process's memory, until
//!              nobody waits any more ─► rows
//! ```
//!
//! Invariants:
//! 1. Without workers nothing here runs: a query is planned and executed as if this module were not there.
//! 2. A worker takes plans of its own version and data format alone; one that differs is left out, and said so.
//! 3. What fails on workers before the first row is answered by this process alone. After it, an answer is whole or an error.
//! 4. A file is read by the same worker for as long as the workers are the same, so that what it keeps of files stays useful.

mod assign;
mod codec;
mod depth;
mod connect;
mod find;
mod part;
mod serve;
mod sorted;
mod spread;

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use service::{config::range::within, secret::Secret, uplink::Credentials};
use telemetry::table::TABLES;

pub(crate) use find::Cluster;
pub use serve::Worker;
pub(crate) use spread::{Spread, unless_stopped};

/// Where parts of queries run beside this process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Take parts of queries that other processes answer. Default false.
    pub serve: bool,
    /// Where those parts come in, gRPC. Default 127.0.0.1:8816.
    pub addr: SocketAddr,
    /// Workers, each as `http://host:port` or `https://host:port`. With none, and no other way to find one, this process answers
    /// alone.
    pub list: Vec<String>,
    /// A DNS name and a port, `host:port`: every address of the name is a worker. Looked up again every 5 seconds.
    pub dns: Option<String>,
    /// A Kubernetes service, `namespace/service:port`: every ready endpoint is a worker. Read from the API server every 5 seconds.
    pub kubernetes: Option<String>,
    /// Whether workers found by `dns` or `kubernetes` are spoken to under TLS. Default false.
    pub tls: bool,
    /// The secret that workers and those who use them share.
    pub token: Option<Secret>,
    /// PEM file with the authorities that vouch for `https` workers; those of the system by default.
    pub ca: Option<std::path::PathBuf>,
    /// PEM file with the client certificate that is shown to `https` workers.
    pub cert: Option<std::path::PathBuf>,
    /// PEM file with its private key.
    pub key: Option<std::path::PathBuf>,
    /// Bytes of files that one part of a query reads before another machine is worth it. Default 16 MiB.
    pub part_bytes: usize,
}

/// Port of workers, one beside Flight SQL's.
const PORT: u16 = 8816;
/// Most bytes of one part: 1 TiB.
const PART_BYTES_MAX: usize = 1 << 40;
/// Of what plans are made. A change of what travels between processes of one release makes it another.
const PLANS: u32 = 1;

/// Offset basis and prime of FNV-1a, 32 bits.
const FNV_BASIS: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

impl Default for Settings {
    fn default() -> Self {
        Settings {
            serve: false,
            addr: SocketAddr::from(([127, 0, 0, 1], PORT)),
            list: Vec::new(),
            dns: None,
            kubernetes: None,
            tls: false,
            token: None,
            ca: None,
            cert: None,
            key: None,
            part_bytes: 16 << 20,
        }
    }
}

impl Settings {
    /// Adds a line for every value that cannot be served.
    pub(crate) fn validate(&self, faults: &mut Vec<String>) {
        within("query.workers.part_bytes", self.part_bytes, 1..=PART_BYTES_MAX, faults);
        for worker in &self.list {
            let is_address = worker.parse::<http::Uri>().is_ok_and(|uri| {
                matches!(uri.scheme_str(), Some("http" | "https")) && uri.port_u16().is_some() && uri.host().is_some()
            });
            if !is_address {
                faults
                    .push(format!("`query.workers.list` holds `{worker}`; give http://host:port or https://host:port"));
            }
        }
        if self.dns.as_deref().is_some_and(|name| find::host_and_port(name).is_none()) {
            faults.push("`query.workers.dns` is host:port".to_owned());
        }
        if self.kubernetes.as_deref().is_some_and(|name| find::service_and_port(name).is_none()) {
            faults.push("`query.workers.kubernetes` is namespace/service:port".to_owned());
        }
        let has_token = self.token.as_ref().is_some_and(|token| !token.is_empty());
        if (self.serve || self.is_used()) && !has_token {
            faults.push(
                "`query.workers.token` is not set; workers and those who use them share one, of at least 32 random characters"
                    .to_owned(),
            );
        }
    }

    /// Whether there is a way to find a worker.
    pub(crate) fn is_used(&self) -> bool {
        !self.list.is_empty() || self.dns.is_some() || self.kubernetes.is_some()
    }

    fn credentials(&self) -> Credentials {
        Credentials { token: self.token.clone(), ca: self.ca.clone(), cert: self.cert.clone(), key: self.key.clone() }
    }
}

/// The release, what travels between its processes, and the columns of its tables: all must be the same at both ends.
pub(crate) fn version() -> String {
    let mut columns = FNV_BASIS;
    for table in TABLES {
        columns = digest(columns, table.name.as_bytes());
        for column in table.columns() {
            columns = digest(columns, column.name.as_bytes());
            columns = digest(columns, format!("{:?}", column.kind).as_bytes());
        }
    }
    format!("{}/{PLANS}/{columns:08x}", env!("CARGO_PKG_VERSION"))
}

/// FNV-1a of 32 bits, each text ended by a zero: it is only compared with itself.
fn digest(from: u32, bytes: &[u8]) -> u32 {
    bytes.iter().chain([&0]).fold(from, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use service::secret::Secret;

    use super::{Settings, version};

    #[test]
    fn settings_that_lead_nowhere_are_named() {
        let faults = |settings: Settings| {
            let mut faults = Vec::new();
            settings.validate(&mut faults);
            faults.join("\n")
        };
        let token = Some(Secret::new("s"));
        assert_eq!(faults(Settings::default()), "");
        let list = vec!["http://10.0.0.1:8816".to_owned(), "https://worker:443".to_owned()];
        assert_eq!(faults(Settings { list: list.clone(), token: token.clone(), ..Settings::default() }), "");
        assert!(faults(Settings { list, ..Settings::default() }).contains("query.workers.token"));
        assert!(faults(Settings { serve: true, ..Settings::default() }).contains("query.workers.token"));
        for wrong in ["10.0.0.1:8816", "http://host", "grpc://host:1"] {
            let list = vec![wrong.to_owned()];
            assert!(faults(Settings { list, token: token.clone(), ..Settings::default() }).contains(wrong), "{wrong}");
        }
        let dns = Some("workers".to_owned());
        assert!(faults(Settings { dns, token: token.clone(), ..Settings::default() }).contains("host:port"));
        let kubernetes = Some("workers:8816".to_owned());
        assert!(faults(Settings { kubernetes, token, ..Settings::default() }).contains("namespace/service:port"));
    }

    #[test]
    fn a_version_is_that_of_release_plans_and_columns() {
        let parts: Vec<String> = version().split('/').map(str::to_owned).collect();
        assert_eq!((parts.len(), parts[0].as_str()), (3, env!("CARGO_PKG_VERSION")));
        assert_eq!(version(), version());
    }
}
