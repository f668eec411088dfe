//! Hosts seen in telemetry, gathered into intervals.

use std::collections::BTreeMap;

use super::rows::columns;
use super::tables::Buffer;
use crate::normalize::resource::{DIMENSIONS, Resource};

columns! {
    /// Columns of `nodes` beyond the dimensions.
    pub Columns of telemetry::table::NODES: time capacity_type account chips first_seen last_seen source
}

/// Hosts seen since the buffer last closed.
#[derive(Debug, Default)]
pub struct Nodes {
    hosts: BTreeMap<Key, Host>,
}

/// What tells one node from another: its dimensions but namespace, service, version and instance, in which several
/// processes on it may differ.
type Key = [Option<String>; HOST_DIMENSIONS];

/// Dimensions of a host: all up to the host type.
const HOST_DIMENSIONS: usize = 8;
/// Where `namespace` stands among the dimensions.
const NAMESPACE: usize = 4;
/// Where `host_id` stands among the dimensions.
const HOST_ID: usize = 6;
/// Hosts remembered at once; more than any one collector serves.
const HOSTS_MAX: usize = 100_000;

/// A host that is silent for longer was not there meanwhile, as far as its telemetry says. Microseconds.
const GAP_US: i64 = 120_000_000;
/// Intervals of a host at once: those of what comes late are few.
const INTERVALS_MAX: usize = 64;

#[derive(Debug, Default)]
struct Host {
    /// First and last event time of each, microseconds since 1970-01-01 UTC; further apart than [`GAP_US`].
    intervals: Vec<(i64, i64)>,
    capacity_type: Option<String>,
    account: Option<String>,
    chips: Option<i64>,
}

impl Host {
    /// Notes an interval, as one with those that it touches. Beyond the bound it is noted with another one all the same.
    fn note(&mut self, (mut first_us, mut last_us): (i64, i64)) {
        let (from, to) = (first_us.saturating_sub(GAP_US), last_us.saturating_add(GAP_US));
        let is_full = self.intervals.len() >= INTERVALS_MAX;
        self.intervals.retain(|(first, last)| {
            let joins = *first <= to && from <= *last || is_full;
            if joins {
                (first_us, last_us) = (first_us.min(*first), last_us.max(*last));
            }
            !joins
        });
        self.intervals.push((first_us, last_us));
    }
}

impl Nodes {
    /// Whether no host was seen.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Notes that something happened on a host, first and last at these times, microseconds since 1970-01-01 UTC. What lies between
    /// them is taken for an interval unless that is longer than a host may be silent.
    pub fn see(&mut self, resource: &Resource<'_>, (first_us, last_us): (i64, i64)) {
        let dimensions = resource.dimensions();
        if dimensions.get(HOST_ID).is_none_or(Option::is_none) {
            return;
        }
        let shared = |place| if place == NAMESPACE { None } else { dimensions.get(place).copied().flatten() };
        let key: Key = std::array::from_fn(|place| shared(place).map(str::to_owned));
        if self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(&key) {
            return;
        }
        let host = self.hosts.entry(key).or_default();
        if last_us - first_us > GAP_US {
            host.note((first_us, first_us));
            host.note((last_us, last_us));
        } else {
            host.note((first_us, last_us));
        }
        if let Some(capacity) = resource.capacity_type() {
            host.capacity_type = Some(capacity.to_owned());
        }
        if let Some(account) = resource.account() {
            host.account = Some(account.to_owned());
        }
        host.chips = resource.chips().or(host.chips);
    }

    /// Writes the intervals of each host and forgets the hosts.
    pub fn write(&mut self, columns: &Columns, buffer: &mut Buffer) {
        for (key, host) in std::mem::take(&mut self.hosts) {
            for (first_us, last_us) in &host.intervals {
                let Some(rows) = buffer.rows(*first_us) else { continue };
                rows.time(columns.time, *first_us);
                for (value, column) in key.iter().zip(DIMENSIONS) {
                    rows.text_opt(column, value.as_deref());
                }
                rows.text(columns.capacity_type, host.capacity_type.as_deref().unwrap_or("unknown"));
                rows.text_opt(columns.account, host.account.as_deref());
                rows.int_opt(columns.chips, host.chips);
                rows.time(columns.first_seen, *first_us);
                rows.time(columns.last_seen, *last_us);
                rows.text(columns.source, "telemetry");
                rows.end();
            }
        }
    }
}
