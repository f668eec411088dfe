//! What retention and vacuum say of themselves.

use service::metrics::Registry;
use telemetry::table::Table;

use crate::vacuum::Swept;

/// Counters of all tables. Those of a table appear once they are above zero.
pub(super) struct Counters {
    registry: Registry,
}

impl Counters {
    pub(super) fn new(registry: &Registry) -> Counters {
        Counters { registry: registry.clone() }
    }

    /// So many files left the table because of their age.
    pub(super) fn dropped(&self, table: &Table, files: usize) {
        self.add(table, "tokenwatt_lake_expired_files_total", "Files dropped by retention.", files as u64);
    }

    /// What a vacuum found and did.
    pub(super) fn swept(&self, table: &Table, swept: &Swept) {
        self.add(table, "tokenwatt_lake_deleted_files_total", "Files deleted from the store.", swept.deleted);
        self.add(table, "tokenwatt_lake_deleted_bytes_total", "Bytes deleted from the store.", swept.deleted_bytes);
        let help = "Log entries and checkpoints deleted from the store.";
        self.add(table, "tokenwatt_lake_deleted_log_entries_total", help, swept.log_entries);
        let states = [("live", swept.live_bytes), ("replaced", swept.replaced_bytes), ("orphan", swept.orphan_bytes)];
        for (state, bytes) in states.into_iter().filter(|(_, bytes)| *bytes > 0 || swept.live_bytes > 0) {
            let labels = [("table", table.name.to_owned()), ("state", state.to_owned())];
            let help = "Bytes in the store: of the newest version, kept for readers of older ones, or never committed.";
            self.registry.gauge("tokenwatt_lake_stored_bytes", help, &labels).set(bytes as f64);
        }
    }

    fn add(&self, table: &Table, name: &str, help: &str, count: u64) {
        if count > 0 {
            self.registry.counter(name, help, &[("table", table.name.to_owned())]).add(count);
        }
    }
}
