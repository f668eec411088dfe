//! All settings of the binary: each service's own, and the few they share.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use lake::Lake;
use serde::{Deserialize, Serialize};
use service::Deps;
use service::config::{Loaded, Places, Settings};
use service::principal::{self, Principal, Role};
use service::secret::Secret;

use crate::cli::{Common, OtlpPorts, SqlPorts};
use crate::failure::Failure;

/// Port of PostgreSQL's protocol, one beside PostgreSQL's own, which may well be in use.
const POSTGRES_PORT: u16 = 5433;

/// All settings; the layout of `tokenwatt.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Where the tables lie: a directory, or `s3://bucket/prefix`. Default ./tokenwatt-data.
    pub(crate) data: String,
    /// Local directory for journal, spill and caches. Default ./tokenwatt-data.
    pub(crate) state: PathBuf,
    /// What is logged to standard error. Default `info`.
    pub(crate) log: String,
    /// Allow listening beyond this machine although nobody has to prove who they are. Default false.
    pub(crate) open: bool,
    /// Offer this process for maintenance of the lake: merging small files, retention, deleting what nobody needs. By default
    /// `up` and `demo` do, and the `collector` role does not. Of all that do, the holder of a lease works.
    pub(crate) maintain: Option<bool>,
    /// Several lakes that queries read as one, in place of `data`; where this process writes, `data` is one of them. Empty: `data`.
    pub(crate) lake: Vec<query::LakeAt>,
    /// How maintenance is done.
    pub(crate) maintenance: lake::maintain::Settings,
    /// Objectives: shares of calls that must be good, each with a window. Table `slos` dates them when they change.
    pub(crate) slo: Vec<query::Slo>,
    /// Budgets: what a tenant, region, model or another allocation key may cost in a period. Table `budgets` dates them when they change.
    pub(crate) budget: Vec<query::Budget>,
    /// How costs are split.
    pub(crate) cost: telemetry::allocation::Settings,
    /// Who may call, and how they prove it. Empty: whoever reaches the ports.
    pub(crate) principal: Vec<Principal>,
    /// TLS of every port of the process.
    pub(crate) tls: service::tls::Config,
    /// What the peers of every port may hold, and for how long.
    pub(crate) listen: service::listen::Limits,
    /// The collector.
    pub(crate) collector: collector::Config,
    /// The query service.
    pub(crate) query: query::Config,
    /// The dashboard and the HTTP API.
    pub(crate) ui: Ui,
    /// The inference node.
    pub(crate) node: inference_node::Config,
    /// The gateway.
    pub(crate) gateway: gateway::Config,
}

/// Settings of the dashboard and of the port it shares with the HTTP API.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Ui {
    /// Where dashboard and HTTP API listen. Default 127.0.0.1:8080.
    pub(crate) http_addr: SocketAddr,
    /// Names by which browsers reach this port where nobody has to prove who they are, beside addresses, `localhost` and names without
    /// a dot, as `tokens.example.com`: under any other it answers nothing. Default none.
    pub(crate) names: Vec<String>,
    /// Directory of the web bundle; by default it is looked for beside the binary. Pages work without one.
    pub(crate) bundle: Option<PathBuf>,
    /// Query service that the `ui` role asks. Default http://127.0.0.1:8080.
    pub(crate) server: String,
    /// Token that the `ui` role and `tokenwatt sql --server` show to a query service elsewhere.
    pub(crate) token: Option<Secret>,
    /// How long a browser stays signed in, where principals are named: 1m to 30d. Default 12h.
    #[serde(with = "service::config::duration")]
    pub(crate) session: Duration,
    /// The longest that a link which shows others one page may last, up to 365d; 0s: no links are made. Default 30d.
    #[serde(with = "service::config::duration")]
    pub(crate) share: Duration,
}

/// Bounds of `ui.session`.
const SESSION: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(30 * 86_400);
/// Bound of `ui.share`.
const SHARE_MAX: Duration = Duration::from_secs(365 * 86_400);

impl Ui {
    fn validate(&self, faults: &mut Vec<String>) {
        if !SESSION.contains(&self.session) {
            faults.push("`ui.session` must lie between 1m and 30d".to_owned());
        }
        for name in self.names.iter().filter(|name| !service::host::is_name(name)) {
            faults.push(format!(
                "`ui.names` has `{name}`; give names alone, without scheme, port and path: \"tokens.example.com\""
            ));
        }
        if self.share > SHARE_MAX {
            faults.push("`ui.share` must not be longer than 365d; 0s makes no links".to_owned());
        }
    }
}

impl Default for Ui {
    fn default() -> Self {
        let server = "http://127.0.0.1:8080".to_owned();
        Self {
            http_addr: SocketAddr::from(([127, 0, 0, 1], 8080)),
            names: Vec::new(),
            bundle: None,
            server,
            token: None,
            session: Duration::from_secs(12 * 3_600),
            share: Duration::from_secs(30 * 86_400),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: "./tokenwatt-data".to_owned(),
            state: PathBuf::from("./tokenwatt-data"),
            log: "info".to_owned(),
            open: false,
            maintain: None,
            lake: Vec::new(),
            maintenance: lake::maintain::Settings::default(),
            slo: Vec::new(),
            budget: Vec::new(),
            cost: telemetry::allocation::Settings::default(),
            principal: Vec::new(),
            tls: service::tls::Config::default(),
            listen: service::listen::Limits::default(),
            collector: collector::Config::default(),
            query: query::Config::default(),
            ui: Ui::default(),
            node: inference_node::Config::default(),
            gateway: gateway::Config::default(),
        }
    }
}

impl Settings for Config {
    fn validate(&self, faults: &mut Vec<String>) {
        if self.data.trim().is_empty() {
            faults.push("`data` is empty; give a directory or s3://bucket/prefix".to_owned());
        }
        if self.data.contains("://") && !self.data.starts_with("s3://") && !self.data.starts_with("file://") {
            faults.push(format!("`data` is `{}`; give a directory or s3://bucket/prefix", self.data));
        }
        if self.state.to_string_lossy().contains("://") {
            faults.push("`state` must be a local directory".to_owned());
        }
        principal::validate(&self.principal, faults);
        self.tls.validate(faults);
        self.listen.validate(faults);
        self.certificates(faults);
        self.reachable("collector.grpc_addr", self.collector.grpc_addr.ip(), Some(Role::Writer), faults);
        self.reachable("collector.http_addr", self.collector.http_addr.ip(), Some(Role::Writer), faults);
        self.reachable("ui.http_addr", self.ui.http_addr.ip(), Some(Role::Reader), faults);
        self.reachable("query.flight_addr", self.query.flight_addr.ip(), Some(Role::Reader), faults);
        self.reachable("query.postgres_addr", self.postgres_addr().ip(), Some(Role::Reader), faults);
        self.reachable("node.http_addr", self.node.http_addr.ip(), None, faults);
        if let Some(addr) = self.node.grpc_addr {
            self.reachable("node.grpc_addr", addr.ip(), None, faults);
        }
        query::validate_lakes(&self.lake, faults);
        self.maintenance.validate(faults);
        query::validate_slos(&self.slo, faults);
        self.cost.validate(faults);
        query::validate_budgets(&self.budget, &self.cost.allocation_keys, faults);
        self.collector.validate(faults);
        self.query.validate(faults);
        self.ui.validate(faults);
        self.node.validate(faults);
        self.gateway.validate(faults);
    }
}

impl Config {
    /// The collector's settings with the directory of its journal.
    pub(crate) fn collector(&self) -> collector::Config {
        let allocation_keys = self.cost.allocation_keys.clone();
        collector::Config { state: self.state.clone(), allocation_keys, ..self.collector.clone() }
    }

    /// What queries read in a process that has the lake at `data` open.
    pub(crate) fn lakes(&self, own: &Lake) -> query::Lakes {
        match self.lake.as_slice() {
            [] => query::Lakes::from(own.clone()),
            several => query::Lakes::several(several, Some((&self.data, own))),
        }
    }

    /// What queries read in a process that writes nothing.
    ///
    /// # Errors
    /// As [`Lake::open_read_only`] of the only lake; several are opened as they are asked.
    pub(crate) async fn lakes_to_read(&self, deps: &Deps) -> service::Result<query::Lakes> {
        match self.lake.as_slice() {
            [] => Ok(query::Lakes::from(Lake::open_read_only(&self.data, deps).await?)),
            several => Ok(query::Lakes::several(several, None)),
        }
    }

    /// Where PostgreSQL's protocol is spoken: where it was set, or on a free port where the dashboard has one.
    pub(crate) fn postgres_addr(&self) -> SocketAddr {
        let port = if self.ui.http_addr.port() == 0 { 0 } else { POSTGRES_PORT };
        self.query.postgres_addr.unwrap_or(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// The query service's settings with the directory of the data files that it keeps near, and what its roll-ups take from other
    /// sections.
    pub(crate) fn query(&self) -> query::Config {
        let retention_days = self.maintenance.retention_days.clone();
        let (slo, budget, cost) = (self.slo.clone(), self.budget.clone(), self.cost.clone());
        let rollup = query::RollupSettings { retention_days, slo, budget, cost };
        query::Config { rollup, cache_directory: Some(self.state.join("query-cache")), ..self.query.clone() }
    }

    /// Whoever reaches an open port may do everything there, so that must be somebody's decision. `role` is what callers of
    /// the port must prove, if anything can be proven there.
    fn reachable(&self, key: &str, ip: IpAddr, role: Option<Role>, faults: &mut Vec<String>) {
        let named = role.is_some_and(|role| self.principal.iter().any(|principal| principal.role == role));
        if ip.is_loopback() || self.open || named {
            return;
        }
        let way_out = match role {
            Some(role) => format!("name a {0} ([[principal]], role = \"{0}\")", role.name()),
            None => "let a gateway with keys stand before it".to_owned(),
        };
        faults.push(format!(
            "`{key}` listens on {ip}, beyond this machine, and nobody has to prove who they are; listen on 127.0.0.1, \
             {way_out}, or set `open = true` if the network in front of it is trusted"
        ));
    }

    /// Certificates of clients and the authority that vouches for them are of no use without each other.
    fn certificates(&self, faults: &mut Vec<String>) {
        let mut named = self.principal.iter().filter(|principal| principal.certificate.is_some());
        match (named.next(), &self.tls.client_ca) {
            (Some(principal), None) => {
                faults.push(format!("principal `{}` has a certificate, which needs `tls.client_ca`", principal.name));
            }
            (None, Some(_)) => {
                faults.push("`tls.client_ca` is set, but no principal has a `certificate`".to_owned());
            }
            _ => {}
        }
    }
}

/// Reads the settings for a command; `flags` are those of the command, as `(key, value)`.
///
/// # Errors
/// All faults of all places in one.
pub(crate) fn load(common: &Common, flags: Vec<(&str, String)>) -> Result<Loaded<Config>, Failure> {
    let loaded = read(common, flags)?;
    service::observe::init(&loaded.config.log)?;
    Ok(loaded)
}

/// Reads the settings for a command whose answer is all that matters: it logs only errors unless somebody asked for more.
///
/// # Errors
/// All faults of all places in one.
pub(crate) fn load_quietly(common: &Common) -> Result<Loaded<Config>, Failure> {
    let loaded = read(common, Vec::new())?;
    let asked = loaded.values.iter().any(|value| value.key == "log" && value.source != service::config::DEFAULT);
    service::observe::init(if asked { &loaded.config.log } else { "error" })?;
    Ok(loaded)
}

fn read(common: &Common, flags: Vec<(&str, String)>) -> Result<Loaded<Config>, Failure> {
    let mut places = Places::of_process(common.config.clone());
    let shared = [
        ("data", common.data.clone()),
        ("state", common.state.as_ref().map(|path| path.display().to_string())),
        ("log", common.log.clone()),
    ];
    let shared = shared.into_iter().filter_map(|(key, value)| Some((key, value?)));
    places.flags = shared.chain(flags).map(|(key, value)| (key.to_owned(), value)).collect();
    Ok(service::config::load::<Config>(&places)?)
}

/// Flags of the OTLP ports as settings.
pub(crate) fn otlp_flags(ports: &OtlpPorts) -> Vec<(&'static str, String)> {
    let pairs = [("collector.grpc_addr", ports.otlp_grpc), ("collector.http_addr", ports.otlp_http)];
    pairs.into_iter().filter_map(|(key, addr)| Some((key, addr?.to_string()))).collect()
}

/// Flags of the ports where SQL is answered as settings.
pub(crate) fn sql_flags(ports: &SqlPorts) -> Vec<(&'static str, String)> {
    let pairs =
        [("ui.http_addr", ports.http), ("query.flight_addr", ports.flight), ("query.postgres_addr", ports.postgres)];
    pairs.into_iter().filter_map(|(key, addr)| Some((key, addr?.to_string()))).collect()
}

#[cfg(test)]
mod tests;
