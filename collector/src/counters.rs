//! The collector's own counters: for `/metrics` and, every ten seconds, as a row of `collectors`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use service::error::Kind;
use service::metrics::{Counter, Gauge, Histogram, Registry};

use crate::batch::tables::FILLED;
use crate::decode::check::{Checked, Fault};
use crate::normalize::Runaway;
use crate::signal::Signal;

/// Counters of one collector. Clones share them.
#[derive(Clone)]
pub struct Counters {
    accepted: [Counter; 4],
    rejected: Vec<(&'static str, Counter)>,
    refused: Vec<(&'static str, Counter)>,
    invalid: Vec<(&'static str, Counter)>,
    /// Bytes of bodies as they arrived.
    pub received_bytes: Counter,
    /// From a body that was read to its acknowledgement.
    pub ack_seconds: Histogram,
    lanes: BTreeMap<&'static str, Lane>,
    runaways: Runaways,
    /// Rows with an unacceptable event time.
    pub quarantined_rows: Counter,
    /// Bodies acknowledged before and not stored again.
    pub duplicate_requests: Counter,
    /// Rows visible to readers.
    pub committed_rows: Counter,
    /// Files committed.
    pub committed_files: Counter,
    /// Commits or uploads that failed and were tried again.
    pub flush_retries: Counter,
    /// Frames that could not be turned into rows.
    pub dropped_frames: Counter,
    /// Journal frames that were acknowledged and cannot be read any more.
    pub damaged_frames: Counter,
    /// Journal on disk, bytes.
    pub journal_bytes: Gauge,
    /// Bytes that the journal may take.
    pub journal_bytes_max: Gauge,
    /// Frames in the journal that are not in the buffers yet.
    pub journal_behind: Gauge,
    /// Age of the oldest acknowledged and not yet committed body, seconds.
    pub oldest_unflushed_s: Gauge,
    /// Memory taken by bodies, bytes.
    pub body_bytes: Gauge,
    /// Free space on the disk of the journal, bytes.
    pub disk_free_bytes: Gauge,
}

/// What is measured of one table's way into the lake.
#[derive(Clone)]
pub struct Lane {
    /// From closed rows to files in the store, with all tries.
    pub write_seconds: Histogram,
    /// From files to their commit, with all tries.
    pub commit_seconds: Histogram,
    /// Age of the oldest row received and not committed, seconds; 0 when there is none.
    pub lag_seconds: Gauge,
}

/// Values beyond the bound of a dimension. Series are made as they are met: keys are ours, and a family's size is bounded.
#[derive(Clone)]
struct Runaways {
    registry: Registry,
    total: Arc<AtomicU64>,
}

impl Counters {
    /// Registers the counters.
    pub fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str| registry.counter(&format!("tokenwatt_collector_{name}"), help, &[]);
        let gauge = |name: &str, help: &str| registry.gauge(&format!("tokenwatt_collector_{name}"), help, &[]);
        let accepted = Signal::SENT.map(|signal| {
            let labels = [("signal", signal.name().to_owned())];
            registry.counter("tokenwatt_collector_accepted_items_total", "Items acknowledged.", &labels)
        });
        Self {
            accepted,
            rejected: by_reason(registry, REJECTED, Fault::ALL.map(Fault::name).into_iter().chain([TENANT])),
            refused: by_reason(registry, REFUSED, REFUSALS.into_iter()),
            invalid: by_reason(registry, INVALID, INVALIDITIES.into_iter()),
            received_bytes: counter("received_bytes_total", "Bytes of bodies as they arrived."),
            ack_seconds: registry.histogram(
                "tokenwatt_collector_ack_seconds",
                "From a body that was read to its acknowledgement.",
                &[],
            ),
            lanes: FILLED.iter().map(|table| (table.name, Lane::new(registry, table.name))).collect(),
            runaways: Runaways { registry: registry.clone(), total: Arc::default() },
            quarantined_rows: counter("quarantined_rows_total", "Rows with an unacceptable event time."),
            duplicate_requests: counter("duplicate_requests_total", "Bodies acknowledged before and not stored again."),
            committed_rows: counter("committed_rows_total", "Rows committed to the lake."),
            committed_files: counter("committed_files_total", "Files committed to the lake."),
            flush_retries: counter("flush_retries_total", "Uploads and commits that failed and were tried again."),
            dropped_frames: counter("dropped_frames_total", "Journal frames that could not be turned into rows."),
            damaged_frames: counter(
                "damaged_frames_total",
                "Journal frames that the disk did not keep as they were written.",
            ),
            journal_bytes: gauge("journal_bytes", "Journal on disk."),
            journal_bytes_max: gauge("journal_max_bytes", "Journal on disk at which senders are asked to wait."),
            journal_behind: gauge("journal_behind_frames", "Bodies on disk that wait to be turned into rows."),
            oldest_unflushed_s: gauge(
                "oldest_unflushed_seconds",
                "Age of the oldest body acknowledged but not committed.",
            ),
            body_bytes: gauge("body_bytes", "Memory taken by bodies on their way into rows."),
            disk_free_bytes: gauge("disk_free_bytes", "Free space on the disk of the journal."),
        }
    }

    /// Counts a body that was acknowledged; `checked` is absent if it had been stored before.
    pub fn taken(&self, signal: Signal, checked: &Option<Checked>) {
        let Some(checked) = checked else {
            self.duplicate_requests.inc();
            return;
        };
        if let Some(accepted) = self.accepted.get(place(signal)) {
            accepted.add(checked.accepted);
        }
        for (fault, count) in Fault::ALL.into_iter().zip(checked.faults) {
            add(&self.rejected, fault.name(), count);
        }
        add(&self.rejected, TENANT, checked.foreign);
        self.quarantined_rows.add(checked.quarantined);
    }

    /// Counts a request that was answered with an error.
    pub fn refused(&self, kind: Kind) {
        let name = kind.name();
        if INVALIDITIES.contains(&name) {
            add(&self.invalid, name, 1);
        } else {
            let name = if REFUSALS.contains(&name) { name } else { Kind::Internal.name() };
            add(&self.refused, name, 1);
        }
    }

    /// Items rejected by partial success so far, for whatever reason.
    pub fn rejected_items(&self) -> u64 {
        sum(&self.rejected)
    }

    /// Requests refused so far that may succeed later.
    pub fn refused_requests(&self) -> u64 {
        sum(&self.refused)
    }

    /// Requests refused so far that never will succeed as they are.
    pub fn invalid_requests(&self) -> u64 {
        sum(&self.invalid)
    }

    /// Requests refused so far because their sender had used up its quota.
    pub fn throttled_requests(&self) -> u64 {
        self.refused.iter().filter(|(reason, _)| *reason == THROTTLED).map(|(_, counter)| counter.get()).sum()
    }

    /// What is measured of a table's way into the lake; nothing for a table that the collector does not fill.
    pub fn lane(&self, table: &str) -> Option<&Lane> {
        self.lanes.get(table)
    }

    /// Counts what ran away, and tells it once an hour.
    pub fn ran_away(&self, runaway: &Runaway) {
        let Runaway { key, service, values, first } = runaway;
        if *first {
            tracing::warn!(
                key,
                service,
                "a dimension has too many different values in this hour; further ones are counted in \
                 tokenwatt_collector_runaway_values_total; see docs/decisions/cardinality.md"
            );
        }
        let labels = [("key", (*key).to_owned()), ("service", service.clone())];
        let help = "Values of a dimension met beyond its bound, by dimension and sender.";
        self.runaways.registry.counter("tokenwatt_collector_runaway_values_total", help, &labels).add(*values);
        self.runaways.total.fetch_add(*values, Ordering::Relaxed);
    }

    /// Values met so far beyond the bound of their dimension.
    pub fn runaway_values(&self) -> u64 {
        self.runaways.total.load(Ordering::Relaxed)
    }

    /// Items of a signal acknowledged so far.
    pub fn accepted(&self, signal: Signal) -> u64 {
        self.accepted.get(place(signal)).map(Counter::get).unwrap_or_default()
    }
}

impl Lane {
    fn new(registry: &Registry, table: &str) -> Self {
        let labels = [("table", table.to_owned())];
        let histogram = |name: &str, help: &str| registry.histogram(name, help, &labels);
        Self {
            write_seconds: histogram(
                "tokenwatt_collector_write_seconds",
                "From closed rows to files in the store, by table.",
            ),
            commit_seconds: histogram("tokenwatt_collector_commit_seconds", "From files to their commit, by table."),
            lag_seconds: registry.gauge(
                "tokenwatt_collector_table_lag_seconds",
                "Age of the oldest row received and not committed, by table.",
                &labels,
            ),
        }
    }
}

/// A family by reason: its name and what it counts.
type Family = (&'static str, &'static str);

const REJECTED: Family = ("rejected_items", "Items rejected by partial success, by reason.");
const REFUSED: Family = ("refused_requests", "Requests refused that may succeed later, by reason.");
const INVALID: Family = ("invalid_requests", "Requests that cannot succeed as they are, by reason.");
/// Reason of items whose tenant their sender may not write for.
const TENANT: &str = "tenant";
/// Reason of requests beyond a quota.
const THROTTLED: &str = "throttled";
/// Kinds of errors after which a sender tries again.
const REFUSALS: [&str; 4] = ["overloaded", "unavailable", THROTTLED, "internal"];
/// Kinds of errors after which it does not.
const INVALIDITIES: [&str; 5] = ["invalid", "too_large", "unauthenticated", "denied", "not_found"];

fn by_reason(
    registry: &Registry,
    (name, help): Family,
    reasons: impl Iterator<Item = &'static str>,
) -> Vec<(&'static str, Counter)> {
    let name = format!("tokenwatt_collector_{name}_total");
    reasons.map(|reason| (reason, registry.counter(&name, help, &[("reason", reason.to_owned())]))).collect()
}

fn add(counters: &[(&'static str, Counter)], reason: &str, count: u64) {
    if let Some((_, counter)) = counters.iter().find(|(known, _)| *known == reason) {
        counter.add(count);
    }
}

fn sum(counters: &[(&'static str, Counter)]) -> u64 {
    counters.iter().map(|(_, counter)| counter.get()).sum()
}

fn place(signal: Signal) -> usize {
    Signal::SENT.iter().position(|known| *known == signal).unwrap_or(usize::MAX)
}
