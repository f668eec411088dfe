//! What the committer of a table says of itself.

use service::metrics::{Counter, Registry};
use telemetry::table::Table;

/// Counters of one table. They appear once they are above zero, since most processes write to few tables.
pub(super) struct Counters {
    table: &'static Table,
    registry: Registry,
}

impl Counters {
    pub(super) fn new(table: &'static Table, registry: &Registry) -> Counters {
        Counters { table, registry: registry.clone() }
    }

    /// A version was written for so many entries.
    pub(super) fn committed(&self, entries: usize) {
        self.of("tokenwatt_lake_commits_total", "Versions written.").inc();
        self.of("tokenwatt_lake_entries_total", "Entries answered by a written version.").add(entries as u64);
    }

    /// Another process wrote the version first.
    pub(super) fn lost_race(&self) {
        self.of("tokenwatt_lake_lost_races_total", "Versions that another process wrote first.").inc();
    }

    /// The store did not answer, or refused.
    pub(super) fn failed(&self) {
        self.of("tokenwatt_lake_commit_failures_total", "Commits that ended with an error.").inc();
    }

    /// The log has so many entries that no checkpoint folds.
    pub(super) fn unfolded(&self, entries: i64) {
        let help = "Log entries that no checkpoint folds, looked at every 1,000 versions.";
        let labels = [("table", self.table.name.to_owned())];
        self.registry.gauge("tokenwatt_lake_unfolded_entries", help, &labels).set(entries as f64);
    }

    fn of(&self, name: &str, help: &str) -> Counter {
        self.registry.counter(name, help, &[("table", self.table.name.to_owned())])
    }
}
