//! Tables on object storage: plain Parquet files under a Delta log that any engine can read.
//!
//! ```text
//! write:  batches ─► encode ─► store (PUT if absent) ─► commit ─► log ─► snapshot
//! read:   log ─► snapshot (files + statistics of one version)
//! ```
//!
//! Invariants:
//! 1. The Delta log is the only truth. A file that no commit names does not exist for readers.
//! 2. Nothing is overwritten: data files and log entries are written if absent, or not at all.
//! 3. A journal's frames are counted once: an entry is applied only at the point its journal has reached in that table.
//! 4. Two processes may commit at once; the loser reads what the winner wrote and decides again. Leases only spare work.
//! 5. The tables stay at Delta reader version 1 and writer version 2.
//! 6. Compaction changes where rows lie, not which rows there are, but for equal rows that a retry left twice.
//! 7. A file is deleted only after the log has said for a whole grace period that it is not needed, or if it can no longer be
//!    committed.
//! 8. Only this crate knows paths and the table format.

pub mod layout;
pub mod minutes;

mod background;
mod encode;
mod store;

pub mod log;

mod changes;
mod commit;
mod compact;
mod head;
mod identity;
mod lease;
mod snapshot;

mod lake;
pub mod sets;
pub mod reference;

pub mod maintain;
mod retain;
mod vacuum;

#[cfg(test)]
mod sample;

pub use changes::Arrival;
pub use commit::{Entry, Outcome, wire};
pub use compact::HELD;
pub use encode::LOOKED_UP;
pub use lake::Lake;
pub use lease::{Keeper, Standing};
pub use snapshot::{ColumnStats, File, FileAdd, Snapshot, Value};
