//! The collector's own counters as rows of `collectors`. They travel through the journal like any body.

use serde::{Deserialize, Serialize};

use super::{Body, Normalizer};
use crate::batch::rows::columns;
use crate::batch::tables::Tables;

columns! {
    /// Columns of `collectors`.
    pub(super) Columns of telemetry::table::COLLECTORS: time collector version started_at accepted_spans accepted_points
        accepted_logs rejected_items refused_requests invalid_requests quarantined_rows duplicate_requests
        committed_rows journal_bytes oldest_unflushed_s rss_bytes cpu_s throttled_requests dropped_frames flush_retries
        runaway_values disk_free_bytes
}

/// One sample of the counters. One that an earlier version journalled lacks the later fields; they are then 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// When it was taken, microseconds since 1970-01-01 UTC.
    pub time_us: i64,
    /// Journal id of the collector.
    pub collector: String,
    /// Version of the collector.
    pub version: String,
    /// When the process started, microseconds since 1970-01-01 UTC.
    pub started_us: i64,
    /// Spans acknowledged.
    pub accepted_spans: u64,
    /// Data points acknowledged.
    pub accepted_points: u64,
    /// Log records acknowledged.
    pub accepted_logs: u64,
    /// Items rejected by partial success.
    pub rejected_items: u64,
    /// Requests refused for overload, quota or a full disk.
    pub refused_requests: u64,
    /// Requests that were malformed.
    pub invalid_requests: u64,
    /// Rows with an unacceptable event time.
    pub quarantined_rows: u64,
    /// Bodies acknowledged before and not stored again.
    pub duplicate_requests: u64,
    /// Rows visible to readers.
    pub committed_rows: u64,
    /// Journal on disk, bytes.
    pub journal_bytes: u64,
    /// Age of the oldest acknowledged and not yet committed body.
    pub oldest_unflushed_s: Option<f64>,
    /// Requests refused because their sender had used up its quota.
    pub throttled_requests: u64,
    /// Frames that could not be turned into rows.
    pub dropped_frames: u64,
    /// Uploads and commits that failed and were tried again.
    pub flush_retries: u64,
    /// Values met beyond the bound of their dimension.
    pub runaway_values: u64,
    /// Free space on the disk of the journal, bytes.
    pub disk_free_bytes: Option<u64>,
    /// Resident memory, bytes.
    pub rss_bytes: Option<u64>,
    /// CPU time since the start, seconds.
    pub cpu_s: Option<f64>,
}

impl Normalizer {
    /// Appends a sample to `collectors`. A body that is none (of an older version, say) is left out.
    pub(super) fn own(&self, body: Body<'_>, tables: &mut Tables) {
        let Ok(sample) = serde_json::from_slice::<Sample>(body.bytes) else { return };
        let columns = &self.columns.collectors;
        let Some(rows) = tables.collectors.rows(sample.time_us) else { return };
        rows.time(columns.time, sample.time_us);
        rows.text(columns.collector, &sample.collector);
        rows.text(columns.version, &sample.version);
        rows.time(columns.started_at, sample.started_us);
        for (column, count) in [
            (columns.accepted_spans, sample.accepted_spans),
            (columns.accepted_points, sample.accepted_points),
            (columns.accepted_logs, sample.accepted_logs),
            (columns.rejected_items, sample.rejected_items),
            (columns.refused_requests, sample.refused_requests),
            (columns.invalid_requests, sample.invalid_requests),
            (columns.quarantined_rows, sample.quarantined_rows),
            (columns.duplicate_requests, sample.duplicate_requests),
            (columns.committed_rows, sample.committed_rows),
            (columns.journal_bytes, sample.journal_bytes),
            (columns.throttled_requests, sample.throttled_requests),
            (columns.dropped_frames, sample.dropped_frames),
            (columns.flush_retries, sample.flush_retries),
            (columns.runaway_values, sample.runaway_values),
        ] {
            rows.int(column, i64::try_from(count).unwrap_or(i64::MAX));
        }
        rows.double_opt(columns.oldest_unflushed_s, sample.oldest_unflushed_s);
        rows.int_opt(columns.rss_bytes, sample.rss_bytes.and_then(|bytes| i64::try_from(bytes).ok()));
        rows.double_opt(columns.cpu_s, sample.cpu_s);
        rows.int_opt(columns.disk_free_bytes, sample.disk_free_bytes.and_then(|bytes| i64::try_from(bytes).ok()));
        rows.end();
    }
}
