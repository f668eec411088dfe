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
    hosts: BTreeMap<Key, Interval>,
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

#[derive(Debug)]
struct Interval {
    first_seen_us: i64,
    last_seen_us: i64,
    capacity_type: Option<String>,
    account: Option<String>,
    chips: Option<i64>,
}

impl Nodes {
    /// Whether no host was seen.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Notes that a host sent something.
    pub fn see(&mut self, resource: &Resource<'_>, received_us: i64) {
        let dimensions = resource.dimensions();
        if dimensions.get(HOST_ID).is_none_or(Option::is_none) || self.hosts.len() >= HOSTS_MAX {
            return;
        }
        let shared = |place| if place == NAMESPACE { None } else { dimensions.get(place).copied().flatten() };
        let key: Key = std::array::from_fn(|place| shared(place).map(str::to_owned));
        let interval = self.hosts.entry(key).or_insert_with(|| Interval {
            first_seen_us: received_us,
            last_seen_us: received_us,
            capacity_type: None,
            account: None,
            chips: None,
        });
        interval.first_seen_us = interval.first_seen_us.min(received_us);
        interval.last_seen_us = interval.last_seen_us.max(received_us);
        if let Some(capacity) = resource.capacity_type() {
            interval.capacity_type = Some(capacity.to_owned());
        }
        if let Some(account) = resource.account() {
            interval.account = Some(account.to_owned());
        }
        interval.chips = resource.chips().or(interval.chips);
    }

    /// Writes an interval per host and forgets the hosts.
    pub fn write(&mut self, columns: &Columns, buffer: &mut Buffer) {
        for (key, interval) in std::mem::take(&mut self.hosts) {
            let Some(rows) = buffer.rows(interval.first_seen_us) else { continue };
            rows.time(columns.time, interval.first_seen_us);
            for (value, column) in key.iter().zip(DIMENSIONS) {
                rows.text_opt(column, value.as_deref());
            }
            rows.text(columns.capacity_type, interval.capacity_type.as_deref().unwrap_or("unknown"));
            rows.text_opt(columns.account, interval.account.as_deref());
            rows.int_opt(columns.chips, interval.chips);
            rows.time(columns.first_seen, interval.first_seen_us);
            rows.time(columns.last_seen, interval.last_seen_us);
            rows.text(columns.source, "telemetry");
            rows.end();
        }
    }
}
