//! Principals in the settings.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::scram::Verifier;
use super::token::parse_hash;
use crate::config::{bytes, instant};

/// Every tenant, and rows without one.
const ALL: &str = "*";
/// Longest name; it is a label of metrics.
const NAME_MAX: usize = 64;

/// Somebody who may call Tokenwatt: `[[principal]]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Principal {
    /// Name in messages and metrics.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// SHA-256 of its token, 64 hex digits, as `tokenwatt token` prints it.
    #[serde(default)]
    pub token_sha256: Option<String>,
    /// What a PostgreSQL client's proof of the token is checked against, `SCRAM-SHA-256$…`, as `tokenwatt token` prints it.
    #[serde(default)]
    pub scram: Option<String>,
    /// From when on its token is not taken any more, `2027-03-01` or `2027-03-01T09:00:00Z`. Default: never. Certificates expire by
    /// themselves.
    #[serde(default, with = "instant::option", skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// DNS name or URI among the subject alternative names of its client certificate; needs `tls.client_ca`.
    #[serde(default)]
    pub certificate: Option<String>,
    /// Tenants whose rows it may write or read; `["*"]` is all of them and rows without a tenant.
    pub tenants: Vec<String>,
    /// Regions whose rows a reader sees; `["*"]`, the default, is all of them and rows without a region.
    #[serde(default = "everywhere")]
    pub regions: Vec<String>,
    /// Whether a reader sees what belongs to no tenant: devices, nodes, prices, `system`. Default: if it sees every tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<bool>,
    /// Items (spans, data points, log records) a second that a writer may send on average. Default: no limit.
    #[serde(default)]
    pub items_per_s: Option<u64>,
    /// Bytes a second, as they arrive, that a writer may send on average, such as `8MiB`. Default: no limit.
    #[serde(default, with = "bytes::option", skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// Seconds' worth of its rates that a writer may send at once after a pause. Default 10.
    #[serde(default = "burst")]
    pub burst_s: u32,
}

/// What a principal may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Send telemetry.
    Writer,
    /// Ask questions and see the dashboard.
    Reader,
}

impl Role {
    /// Its name in the settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Writer => "writer",
            Role::Reader => "reader",
        }
    }

    pub(super) fn verb(self) -> &'static str {
        match self {
            Role::Writer => "write",
            Role::Reader => "read",
        }
    }
}

fn burst() -> u32 {
    10
}

fn everywhere() -> Vec<String> {
    vec![ALL.to_owned()]
}

impl Principal {
    /// Whether it may write or read rows of every tenant, and those without one.
    #[must_use]
    pub fn every_tenant(&self) -> bool {
        self.tenants.iter().any(|tenant| tenant == ALL)
    }

    /// Whether it may write or read rows of that tenant.
    #[must_use]
    pub fn allows(&self, tenant: Option<&str>) -> bool {
        self.every_tenant() || tenant.is_some_and(|tenant| self.tenants.iter().any(|own| own == tenant))
    }

    /// Whether it may read rows of every region, and those without one.
    #[must_use]
    pub fn every_region(&self) -> bool {
        self.regions.iter().any(|region| region == ALL)
    }

    /// Whether it may read tables that belong to no tenant.
    #[must_use]
    pub fn sees_infrastructure(&self) -> bool {
        self.infrastructure.unwrap_or_else(|| self.every_tenant())
    }

    /// Whether it may read all there is.
    #[must_use]
    pub fn sees_everything(&self) -> bool {
        self.every_tenant() && self.every_region() && self.sees_infrastructure()
    }

    /// When its token expired, if it has by `now_us`, microseconds since 1970-01-01 UTC.
    #[must_use]
    pub fn expired(&self, now_us: i64) -> Option<Timestamp> {
        self.expires.filter(|expires| expires.as_microsecond() <= now_us)
    }

    fn validate(&self, faults: &mut Vec<String>) {
        let name = &self.name;
        if name.is_empty() || name.len() > NAME_MAX {
            faults.push(format!("the name of principal `{name}` must have 1 to {NAME_MAX} bytes"));
        }
        if self.token_sha256.is_none() && self.certificate.is_none() {
            faults
                .push(format!("principal `{name}` needs `token_sha256` or `certificate`; `tokenwatt token` makes one"));
        }
        if self.token_sha256.as_deref().is_some_and(|hash| parse_hash(hash).is_none()) {
            faults.push(format!(
                "`token_sha256` of principal `{name}` is no SHA-256 in hex; give the hash that `tokenwatt token` printed, \
                 not the token"
            ));
        }
        if self.scram.as_deref().is_some_and(|verifier| Verifier::parse(verifier).is_none()) {
            faults.push(format!(
                "`scram` of principal `{name}` is no verifier; give the line that `tokenwatt token` printed, `SCRAM-SHA-256$…`"
            ));
        }
        if self.expires.is_some() && self.token_sha256.is_none() {
            faults.push(format!("`expires` of principal `{name}` is that of a token, and it has no `token_sha256`"));
        }
        if self.certificate.as_deref() == Some("") {
            faults.push(format!("`certificate` of principal `{name}` is empty"));
        }
        if self.tenants.is_empty() || self.tenants.iter().any(String::is_empty) {
            faults.push(format!("principal `{name}` needs `tenants`: a list of them, or [\"*\"]"));
        }
        if self.regions.is_empty() || self.regions.iter().any(String::is_empty) {
            faults.push(format!("principal `{name}` needs `regions`: a list of them, or [\"*\"]"));
        }
        let names_regions = !self.regions.is_empty() && !self.every_region();
        if self.role == Role::Writer && (names_regions || self.infrastructure.is_some()) {
            faults.push(format!(
                "`regions` and `infrastructure` of principal `{name}` bind readers; a writer has neither"
            ));
        }
        for (key, value) in [("items_per_s", self.items_per_s), ("bytes_per_s", self.bytes_per_s)] {
            if value.is_some_and(|rate| !(1..=RATE_MAX).contains(&rate)) {
                faults.push(format!("`{key}` of principal `{name}` must lie between 1 and {RATE_MAX}"));
            }
        }
        if !(1..=3_600).contains(&self.burst_s) {
            faults.push(format!("`burst_s` of principal `{name}` must lie between 1 and 3600"));
        }
    }
}

/// Highest rate that can be set: far above what any machine takes, and exact in an f64.
const RATE_MAX: u64 = 1_000_000_000_000;

/// Adds one line for every rule that the principals break, alone or together.
pub fn validate(principals: &[Principal], faults: &mut Vec<String>) {
    for (index, principal) in principals.iter().enumerate() {
        principal.validate(faults);
        let earlier = principals.get(..index).unwrap_or_default();
        let hash = |of: &Principal| of.token_sha256.as_ref().map(|hash| hash.to_ascii_lowercase());
        if earlier.iter().any(|other| other.name == principal.name) {
            faults.push(format!("two principals are called `{}`", principal.name));
        }
        if earlier.iter().any(|other| hash(other).is_some() && hash(other) == hash(principal)) {
            faults.push(format!("principal `{}` has the token of another", principal.name));
        }
        if earlier.iter().any(|other| other.certificate.is_some() && other.certificate == principal.certificate) {
            faults.push(format!("principal `{}` has the certificate of another", principal.name));
        }
    }
}
