//! Who asked what, and what came of it: every query of every front once, refused ones too.
//!
//! The newest are in memory, as `system.audit`; all are lines of the log, target `query::audit`. What the service asks itself for
//! its series, minute by minute, is in neither.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use service::{Deps, clock::SharedClock, metrics::Counter};
use telemetry::contract::ApiError;

use crate::reader::Reader;

/// Queries kept in memory.
const ENTRIES_MAX: usize = 10_000;
/// Characters of a statement that are kept; its hash is of all of it.
const SQL_CHARS_MAX: usize = 1_000;
/// Of a query that was answered to its end, or to its last row allowed.
const ANSWERED: &str = "answered";
/// Of a query whose caller went away.
const ABANDONED: &str = "abandoned";

/// The record of all queries.
pub(crate) struct Audit {
    entries: Mutex<VecDeque<Arc<Entry>>>,
    clock: SharedClock,
    answered: Counter,
    failed: Counter,
}

/// One query that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// When it came, microseconds since 1970-01-01 UTC.
    pub(crate) time_us: i64,
    pub(crate) reader: Arc<Reader>,
    /// FNV-1a of the whole statement, 16 hex digits.
    pub(crate) sql_hash: String,
    /// The statement's beginning.
    pub(crate) sql: String,
    /// `answered`, `abandoned`, or the kind of its error.
    pub(crate) outcome: String,
    /// What its error said.
    pub(crate) message: Option<String>,
    pub(crate) rows: u64,
    /// Bytes of the rows in memory.
    pub(crate) bytes: u64,
    pub(crate) elapsed: Duration,
}

impl Audit {
    pub(crate) fn new(deps: &Deps) -> Arc<Audit> {
        let outcome = |outcome: &str| {
            let labels = [("outcome", outcome.to_owned())];
            deps.metrics.counter("tokenwatt_query_requests_total", "Queries by outcome.", &labels)
        };
        let (answered, failed) = (outcome("answered"), outcome("failed"));
        Arc::new(Audit { entries: Mutex::default(), clock: Arc::clone(&deps.clock), answered, failed })
    }

    /// Begins the record of a query; it is entered when the query ends, or when nobody waits for it any more.
    pub(crate) fn begin(self: &Arc<Self>, sql: &str, reader: &Arc<Reader>) -> Record {
        let entry = Entry {
            time_us: self.clock.now_us(),
            reader: Arc::clone(reader),
            sql_hash: format!("{:016x}", fnv1a(sql.as_bytes())),
            sql: sql.chars().take(SQL_CHARS_MAX).collect(),
            outcome: ABANDONED.to_owned(),
            message: None,
            rows: 0,
            bytes: 0,
            elapsed: Duration::ZERO,
        };
        Record { audit: Arc::clone(self), entry, started: self.clock.monotonic() }
    }

    /// The queries that `reader` may see, oldest first.
    pub(crate) fn list(&self, reader: &Reader) -> Vec<Arc<Entry>> {
        self.entries.lock().iter().filter(|entry| reader.may_watch(&entry.reader)).cloned().collect()
    }

    fn enter(&self, entry: Entry) {
        let counter = if entry.outcome == ANSWERED { &self.answered } else { &self.failed };
        counter.inc();
        if entry.reader.is_internal() {
            return;
        }
        log(&entry);
        let mut entries = self.entries.lock();
        if entries.len() == ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back(Arc::new(entry));
    }
}

/// The record of a query that runs.
pub(crate) struct Record {
    audit: Arc<Audit>,
    entry: Entry,
    started: Duration,
}

impl Record {
    /// Counts rows that the caller got.
    pub(crate) fn count(&mut self, batch: &RecordBatch) {
        self.entry.rows += batch.num_rows() as u64;
        self.entry.bytes += batch.get_array_memory_size() as u64;
    }

    /// Notes that the query was answered.
    pub(crate) fn answered(&mut self) {
        self.entry.outcome = ANSWERED.to_owned();
    }

    /// Notes why it was not, and hands that on.
    pub(crate) fn failed(&mut self, error: ApiError) -> ApiError {
        self.entry.outcome.clone_from(&error.kind);
        self.entry.message = Some(error.message.clone());
        error
    }

    /// Time since the query came.
    pub(crate) fn elapsed(&self) -> Duration {
        self.audit.clock.monotonic().saturating_sub(self.started)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.entry.elapsed = self.elapsed();
        self.audit.enter(self.entry.clone());
    }
}

/// A dashboard of this process asks every few seconds; what others ask is worth a line of its own.
fn log(entry: &Entry) {
    let (reader, front, outcome) = (entry.reader.name(), entry.reader.front(), entry.outcome.as_str());
    let (ms, message) = (entry.elapsed.as_secs_f64() * 1e3, entry.message.as_deref().unwrap_or_default());
    let Entry { sql_hash, sql, rows, bytes, .. } = entry;
    if entry.reader.is_process() {
        tracing::debug!(reader, front, outcome, message, rows, bytes, ms, sql_hash, sql, "query");
    } else {
        tracing::info!(reader, front, outcome, message, rows, bytes, ms, sql_hash, sql, "query");
    }
}

/// The 64-bit hash of Fowler, Noll and Vo: the same text has the same one in every process.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::fnv1a;

    /// Values of the published test suite.
    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
