//! Settings of the query service.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use service::config::range::within;

use crate::cache::Room;

/// Settings of the query service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where Flight SQL listens. Default 127.0.0.1:8815.
    pub flight_addr: SocketAddr,
    /// Rows after which an answer is cut and marked `truncated`, unless the request asks for fewer. Default 100,000.
    pub max_rows: usize,
    /// Bytes an answer may hold before it is encoded; a larger one is refused. Default 256 MiB.
    pub answer_bytes_max: usize,
    /// Milliseconds after which a query is cancelled, unless the request asks for fewer. Default 60,000.
    pub timeout_ms: u64,
    /// Bytes that all running queries may hold in sorts, joins and aggregates together. Default 1 GiB.
    pub memory_bytes: usize,
    /// Bytes that one query may hold of them. Default 512 MiB.
    pub memory_bytes_per_query: usize,
    /// Bytes that an expression may make for one column of one batch (8,192 rows); a larger result is refused. Default 128 MiB.
    pub column_bytes_max: usize,
    /// Bytes of files that one query may read, as the tables' logs have them: all of each file that dates and bounds do not leave
    /// out, whatever columns are asked. A query that may read more is refused before it reads any. Default 1 TiB.
    pub scan_bytes_max: u64,
    /// Files that one query may read, counted likewise. Default 100,000.
    pub scan_files_max: usize,
    /// Bytes of file footers kept in memory, so that a file is opened without reading its end again. Default 256 MiB.
    pub footer_cache_bytes: usize,
    /// Bytes of data files kept in memory, where the lake is on an object store; 0 keeps none. Default 256 MiB.
    pub cache_bytes: usize,
    /// Bytes of data files kept on disk below `state`, where the lake is on an object store; below 128 MiB none are. Default 0.
    pub cache_disk_bytes: usize,
    /// Directory of what is kept on disk; set from `state`.
    #[serde(skip)]
    pub cache_directory: Option<PathBuf>,
    /// Bytes that sorts and aggregates may spill to the temporary directory. Default 20 GiB.
    pub spill_bytes_max: u64,
    /// Parts of one query that run side by side. Default 2.
    pub partitions: usize,
    /// Queries that run side by side; more wait. One that was cancelled counts until its last operator has stopped. Default 8.
    pub concurrency: usize,
    /// Queries that wait for a place; more are refused at once. Default 64.
    pub waiting: usize,
    /// Where PostgreSQL's protocol is spoken. Default 127.0.0.1:5433, or a free port where `ui.http_addr` has port 0.
    pub postgres_addr: Option<SocketAddr>,
    /// Clients of PostgreSQL that are connected at once; more are refused at their login. Default 100.
    pub connections_max: usize,
    /// Seconds between one computation of the fleet series on `/metrics` and the end of the minute it covers. Default 10.
    pub settle_seconds: u64,
    /// Of several lakes: whether a query fails where one that it needs cannot be reached. Else it answers with what the others
    /// hold, and says so. Default false.
    pub lakes_required: bool,
    /// Milliseconds that one of several lakes has for naming a table's version before it is taken to be down. Default 5,000.
    pub lake_wait_ms: u64,
    /// Whether rows of one call (its gateway's and its server's, say) may lie in several lakes. Then every count of calls reads raw
    /// rows of all lakes, since windows are built in each by itself. Default false.
    pub calls_span_lakes: bool,
    /// Other machines that take parts of queries, and whether this one does.
    pub workers: crate::distribute::Settings,
    /// Series that one family of the fleet's on `/metrics` may have, a histogram counted once; what is beyond is added up as
    /// `__other__`, and gauges of it are left out. Default 1,000.
    pub metrics_series_max: usize,
    /// What roll-ups take from other sections.
    #[serde(skip)]
    pub rollup: crate::rollup::Settings,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            flight_addr: SocketAddr::from(([127, 0, 0, 1], 8815)),
            max_rows: 100_000,
            answer_bytes_max: 256 << 20,
            timeout_ms: 60_000,
            memory_bytes: 1 << 30,
            memory_bytes_per_query: 512 << 20,
            column_bytes_max: 128 << 20,
            scan_bytes_max: 1 << 40,
            scan_files_max: 100_000,
            footer_cache_bytes: 256 << 20,
            cache_bytes: 256 << 20,
            cache_disk_bytes: 0,
            cache_directory: None,
            spill_bytes_max: 20 << 30,
            partitions: 2,
            concurrency: 8,
            waiting: 64,
            postgres_addr: None,
            connections_max: 100,
            settle_seconds: 10,
            lakes_required: false,
            lake_wait_ms: 5_000,
            calls_span_lakes: false,
            workers: crate::distribute::Settings::default(),
            metrics_series_max: 1_000,
            rollup: crate::rollup::Settings::default(),
        }
    }
}

/// Smallest pool in which a sort can make progress.
const MEMORY_BYTES_MIN: usize = 16 << 20;
/// More memory than any one machine gives a query service: 16 TiB.
const MEMORY_BYTES_MAX: usize = 16 << 40;
/// Most rows of one answer; more belong into an export.
const ROWS_MAX: usize = 1_000_000_000;
/// Longest time of one query: a day.
const TIMEOUT_MS_MAX: u64 = 86_400_000;
/// Most bytes of data files on disk: 1 PiB.
const DISK_BYTES_MAX: usize = 1 << 50;
/// Most bytes spilled: 1 PiB.
const SPILL_BYTES_MAX: u64 = 1 << 50;
/// Most bytes read: 1 EiB.
const SCAN_BYTES_MAX: u64 = 1 << 60;
/// More files than a log can name and be read.
const SCAN_FILES_MAX: usize = 100_000_000;
/// Each part of a query runs on a thread.
const PARTITIONS_MAX: usize = 1_024;
/// More series of one family than a monitoring system should be asked to keep.
const SERIES_MAX: usize = 1_000_000;
/// Each query holds memory and an open answer.
const CONCURRENCY_MAX: usize = 65_536;

impl Config {
    /// Adds a line for every value that cannot be served.
    pub fn validate(&self, faults: &mut Vec<String>) {
        within("query.max_rows", self.max_rows, 1..=ROWS_MAX, faults);
        within("query.answer_bytes_max", self.answer_bytes_max, 1..=MEMORY_BYTES_MAX, faults);
        within("query.timeout_ms", self.timeout_ms, 1..=TIMEOUT_MS_MAX, faults);
        within("query.memory_bytes", self.memory_bytes, MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX, faults);
        within("query.scan_bytes_max", self.scan_bytes_max, 1..=SCAN_BYTES_MAX, faults);
        within("query.scan_files_max", self.scan_files_max, 1..=SCAN_FILES_MAX, faults);
        within("query.footer_cache_bytes", self.footer_cache_bytes, 0..=MEMORY_BYTES_MAX, faults);
        within("query.cache_bytes", self.cache_bytes, 0..=MEMORY_BYTES_MAX, faults);
        within("query.cache_disk_bytes", self.cache_disk_bytes, 0..=DISK_BYTES_MAX, faults);
        within("query.spill_bytes_max", self.spill_bytes_max, 0..=SPILL_BYTES_MAX, faults);
        within("query.partitions", self.partitions, 1..=PARTITIONS_MAX, faults);
        within("query.concurrency", self.concurrency, 1..=CONCURRENCY_MAX, faults);
        within("query.settle_seconds", self.settle_seconds, 0..=59, faults);
        within("query.metrics_series_max", self.metrics_series_max, 1..=SERIES_MAX, faults);
        within(
            "query.memory_bytes_per_query",
            self.memory_bytes_per_query,
            MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX,
            faults,
        );
        within("query.column_bytes_max", self.column_bytes_max, 1..=MEMORY_BYTES_MAX, faults);
        within("query.connections_max", self.connections_max, 1..=CONCURRENCY_MAX, faults);
        self.workers.validate(faults);
        within("query.lake_wait_ms", self.lake_wait_ms, 1..=TIMEOUT_MS_MAX, faults);
        within("query.waiting", self.waiting, 0..=CONCURRENCY_MAX, faults);
    }

    /// What data files may take that are kept near.
    pub(crate) fn room(&self) -> Room {
        let directory = self.cache_directory.clone().filter(|_| self.cache_disk_bytes > 0);
        Room { memory_bytes: self.cache_bytes, disk: directory.map(|directory| (self.cache_disk_bytes, directory)) }
    }

    /// The longest a query may take.
    pub(crate) fn timeout(&self, asked_ms: Option<u64>) -> Duration {
        Duration::from_millis(asked_ms.map_or(self.timeout_ms, |asked| asked.min(self.timeout_ms)))
    }

    /// The most rows an answer may hold.
    pub(crate) fn rows(&self, asked: Option<usize>) -> usize {
        asked.map_or(self.max_rows, |asked| asked.min(self.max_rows))
    }
}
