//! What compaction says of itself.

use std::time::Duration;

use service::metrics::{Counter, Registry};
use telemetry::table::Table;

use super::merge::Removed;
use super::plan::Job;

/// Counters of all tables. Those of a table appear once they are above zero.
pub(super) struct Counters {
    registry: Registry,
}

impl Counters {
    pub(super) fn new(registry: &Registry) -> Counters {
        Counters { registry: registry.clone() }
    }

    /// So many files make up the table now.
    pub(super) fn files(&self, table: &Table, files: usize) {
        if files > 0 {
            let labels = [("table", table.name.to_owned())];
            self.registry.gauge("tokenwatt_lake_files", "Files of the newest version.", &labels).set(files as f64);
        }
    }

    /// A merge was committed.
    pub(super) fn merged(&self, table: &Table, job: &Job, took: Duration) {
        self.of(table, "tokenwatt_lake_compactions_total", "Merges committed.").inc();
        let files = "Files that merges replaced.";
        self.of(table, "tokenwatt_lake_compacted_files_total", files).add(job.files.len() as u64);
        self.of(table, "tokenwatt_lake_compacted_rows_total", "Rows in committed merges.").add(job.rows());
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let help = "Time from the first byte read to the commit, in milliseconds.";
        self.of(table, "tokenwatt_lake_compaction_milliseconds_total", help).add(ms);
    }

    /// A merge found rows that were there twice.
    pub(super) fn twins(&self, table: &Table, removed: &Removed) {
        if removed.rows > 0 {
            let help = "Rows removed because an equal row of the same span was there.";
            self.of(table, "tokenwatt_lake_duplicate_rows_total", help).add(removed.rows);
        }
        if removed.at_odds > 0 {
            let help = "Rows kept although another row names the same span and says something else of it.";
            self.of(table, "tokenwatt_lake_contradicting_rows_total", help).add(removed.at_odds);
        }
    }

    /// A merge found that others had replaced its files.
    pub(super) fn abandoned(&self, table: &Table) {
        self.of(table, "tokenwatt_lake_compactions_abandoned_total", "Merges whose files others replaced.").inc();
    }

    /// A merge ended with an error.
    pub(super) fn failed(&self, table: &Table) {
        self.of(table, "tokenwatt_lake_compaction_failures_total", "Merges that ended with an error.").inc();
    }

    fn of(&self, table: &Table, name: &str, help: &str) -> Counter {
        self.registry.counter(name, help, &[("table", table.name.to_owned())])
    }
}
