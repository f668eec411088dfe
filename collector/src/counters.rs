//! The collector's own counters: for `/metrics` and, every ten seconds, as a row of `collectors`.

use service::error::Kind;
use service::metrics::{Counter, Gauge, Registry};

use crate::decode::check::Checked;
use crate::signal::Signal;

/// Counters of one collector. Clones share them.
#[derive(Clone)]
pub struct Counters {
    accepted: [Counter; 3],
    /// Items rejected by partial success.
    pub rejected_items: Counter,
    /// Requests refused for overload, quota or a full disk.
    pub refused_requests: Counter,
    /// Requests that were malformed, too large or not allowed.
    pub invalid_requests: Counter,
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
    /// Journal on disk, bytes.
    pub journal_bytes: Gauge,
    /// Age of the oldest acknowledged and not yet committed body, seconds.
    pub oldest_unflushed_s: Gauge,
    /// Memory taken by bodies, bytes.
    pub body_bytes: Gauge,
}

impl Counters {
    /// Registers the counters.
    pub fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str| registry.counter(&format!("tokenwatt_collector_{name}"), help, &[]);
        let gauge = |name: &str, help: &str| registry.gauge(&format!("tokenwatt_collector_{name}"), help, &[]);
        let accepted = Signal::OTLP.map(|signal| {
            let labels = [("signal", signal.name().to_owned())];
            registry.counter("tokenwatt_collector_accepted_items_total", "Items acknowledged.", &labels)
        });
        Self {
            accepted,
            rejected_items: counter("rejected_items_total", "Items rejected by partial success."),
            refused_requests: counter("refused_requests_total", "Requests refused for overload, quota or a full disk."),
            invalid_requests: counter("invalid_requests_total", "Requests malformed, too large or not allowed."),
            quarantined_rows: counter("quarantined_rows_total", "Rows with an unacceptable event time."),
            duplicate_requests: counter("duplicate_requests_total", "Bodies acknowledged before and not stored again."),
            committed_rows: counter("committed_rows_total", "Rows committed to the lake."),
            committed_files: counter("committed_files_total", "Files committed to the lake."),
            flush_retries: counter("flush_retries_total", "Uploads and commits that failed and were tried again."),
            dropped_frames: counter("dropped_frames_total", "Journal frames that could not be turned into rows."),
            journal_bytes: gauge("journal_bytes", "Journal on disk."),
            oldest_unflushed_s: gauge(
                "oldest_unflushed_seconds",
                "Age of the oldest body acknowledged but not committed.",
            ),
            body_bytes: gauge("body_bytes", "Memory taken by bodies on their way into rows."),
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
        self.rejected_items.add(checked.rejected);
        self.quarantined_rows.add(checked.quarantined);
    }

    /// Counts a request that was answered with an error.
    pub fn refused(&self, kind: Kind) {
        match kind {
            Kind::Invalid | Kind::TooLarge | Kind::Unauthenticated | Kind::Denied | Kind::NotFound => {
                self.invalid_requests.inc();
            }
            _ => self.refused_requests.inc(),
        }
    }

    /// Items of a signal acknowledged so far.
    pub fn accepted(&self, signal: Signal) -> u64 {
        self.accepted.get(place(signal)).map(Counter::get).unwrap_or_default()
    }
}

fn place(signal: Signal) -> usize {
    Signal::OTLP.iter().position(|known| *known == signal).unwrap_or(usize::MAX)
}
