//! The open buffers: one per table, split by date, each knowing which journal frames its rows came from.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::array::RecordBatch;
use service::error::{Error, Result};
use telemetry::table::{self, Table};

use super::nodes::Nodes;
use super::rows::Rows;
use crate::receive::admit::Permit;

/// Tables that the collector fills.
pub const FILLED: [&Table; 11] = [
    &table::REQUESTS,
    &table::TOKENS,
    &table::DEVICES,
    &table::NODES,
    &table::SPANS,
    &table::LOGS,
    &table::METRICS,
    &table::HISTOGRAMS,
    &table::QUARANTINE,
    &table::COLLECTORS,
    &table::ALERTS,
];

/// All open buffers.
pub struct Tables {
    /// Inference calls.
    pub requests: Buffer,
    /// Tokens.
    pub tokens: Buffer,
    /// Samples of devices and engines.
    pub devices: Buffer,
    /// Nodes seen, written as intervals when the buffer closes.
    pub nodes: Buffer,
    /// Spans.
    pub spans: Buffer,
    /// Log records.
    pub logs: Buffer,
    /// Gauges and sums.
    pub metrics: Buffer,
    /// Histograms and summaries.
    pub histograms: Buffer,
    /// Rows with an unacceptable event time.
    pub quarantine: Buffer,
    /// Own counters.
    pub collectors: Buffer,
    /// Notifications of Alertmanager.
    pub alerts: Buffer,
    /// Hosts seen since `nodes` last closed.
    pub seen: Nodes,
}

impl Tables {
    /// Empty buffers; `through` is how far each table is committed.
    pub fn new(mut through: impl FnMut(&'static Table) -> u64) -> Self {
        let mut open = |table: &'static Table| Buffer::new(table, through(table));
        Self {
            requests: open(&table::REQUESTS),
            tokens: open(&table::TOKENS),
            devices: open(&table::DEVICES),
            nodes: open(&table::NODES),
            spans: open(&table::SPANS),
            logs: open(&table::LOGS),
            metrics: open(&table::METRICS),
            histograms: open(&table::HISTOGRAMS),
            quarantine: open(&table::QUARANTINE),
            collectors: open(&table::COLLECTORS),
            alerts: open(&table::ALERTS),
            seen: Nodes::default(),
        }
    }

    /// The buffers in the order of [`FILLED`].
    pub fn buffers(&self) -> [&Buffer; 11] {
        [
            &self.requests,
            &self.tokens,
            &self.devices,
            &self.nodes,
            &self.spans,
            &self.logs,
            &self.metrics,
            &self.histograms,
            &self.quarantine,
            &self.collectors,
            &self.alerts,
        ]
    }

    /// The buffers in the order of [`FILLED`].
    pub fn buffers_mut(&mut self) -> [&mut Buffer; 11] {
        [
            &mut self.requests,
            &mut self.tokens,
            &mut self.devices,
            &mut self.nodes,
            &mut self.spans,
            &mut self.logs,
            &mut self.metrics,
            &mut self.histograms,
            &mut self.quarantine,
            &mut self.collectors,
            &mut self.alerts,
        ]
    }

    /// The first and the last event time of what was received since the last call, microseconds; `None` if nothing has one.
    pub fn take_times(&mut self) -> Option<(i64, i64)> {
        let Self { spans, tokens, logs, metrics, histograms, .. } = self;
        let taken =
            [spans, tokens, logs, metrics, histograms].map(|buffer| std::mem::replace(&mut buffer.times, Times::NONE));
        let Times { first_us, last_us } = taken.into_iter().fold(Times::NONE, Times::with);
        (first_us <= last_us).then_some((first_us, last_us))
    }

    /// From here on rows belong to that journal frame.
    pub fn enter(&mut self, frame: u64, received_us: i64) {
        for buffer in self.buffers_mut() {
            buffer.enter(frame, received_us);
        }
    }

    /// Notes when the rows of the frame just read were put into the buffers.
    pub fn leave(&mut self, now: Duration) {
        let Self { nodes, seen, .. } = self;
        if !seen.is_empty() && nodes.is_empty() {
            nodes.touch();
        }
        for buffer in self.buffers_mut() {
            if !buffer.is_empty() && buffer.opened.is_none() {
                buffer.opened = Some(now);
            }
        }
    }
}

/// The open rows of one table.
pub struct Buffer {
    table: &'static Table,
    by_day: BTreeMap<i64, Rows>,
    /// Frames up to here are committed or handed to the flush.
    from: u64,
    /// Frames up to here were committed before this process started: their rows are in the table.
    committed: u64,
    frame: u64,
    received_us: i64,
    first: Option<Origin>,
    opened: Option<Duration>,
    /// Rows of a date when the buffer last closed, about as many as the next will have.
    last_rows: usize,
    /// The event times that were asked for since they were last taken, of rows that are in the table already, too.
    times: Times,
}

/// The first and the last of several event times, microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug)]
struct Times {
    first_us: i64,
    last_us: i64,
}

impl Times {
    const NONE: Times = Times { first_us: i64::MAX, last_us: i64::MIN };

    fn with(self, other: Times) -> Times {
        Times { first_us: self.first_us.min(other.first_us), last_us: self.last_us.max(other.last_us) }
    }
}

/// The oldest frame with rows in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its number in the journal.
    pub frame: u64,
    /// When its body was received, microseconds since 1970-01-01 UTC.
    pub received_us: i64,
}

/// Rows of one table, closed: those of the journal frames in `(from, to]`.
pub struct Closed {
    /// Where they belong.
    pub table: &'static Table,
    /// The frame before the first.
    pub from: u64,
    /// The last frame.
    pub to: u64,
    /// The oldest frame with rows.
    pub origin: Origin,
    /// A batch per date, `YYYY-MM-DD`.
    pub batches: Vec<(String, RecordBatch)>,
    /// Rows in all batches.
    pub rows: usize,
    /// Roughly the memory that they take.
    pub bytes: usize,
    /// That much of the memory for rows, until they are files.
    pub held: Option<Permit>,
}

/// Rows for which room is made before they come, at most: a body of millions of rows says nothing of the next.
const ROOM_MAX: usize = 1 << 18;

/// Microseconds in a day.
const DAY_US: i64 = 86_400_000_000;

impl Buffer {
    fn new(table: &'static Table, committed: u64) -> Self {
        Self {
            table,
            by_day: BTreeMap::new(),
            from: committed,
            committed,
            frame: 0,
            received_us: 0,
            first: None,
            opened: None,
            last_rows: 0,
            times: Times::NONE,
        }
    }

    /// The table.
    pub fn table(&self) -> &'static Table {
        self.table
    }

    /// Whether there is nothing to close.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The oldest frame with open rows.
    pub fn origin(&self) -> Option<Origin> {
        self.first
    }

    /// When the buffer got its first row, by the monotonic clock.
    pub fn opened(&self) -> Option<Duration> {
        self.opened
    }

    /// Roughly the memory that its rows take.
    pub fn bytes(&self) -> usize {
        self.by_day.values().map(Rows::bytes).sum()
    }

    fn enter(&mut self, frame: u64, received_us: i64) {
        self.frame = frame;
        self.received_us = received_us;
    }

    /// Whether rows of the current frame are in the table already.
    pub fn has_frame(&self) -> bool {
        self.frame <= self.committed
    }

    /// The rows of the date of `time_us`; `None` if rows of the current frame are in the table already.
    #[inline]
    pub fn rows(&mut self, time_us: i64) -> Option<&mut Rows> {
        self.times = self.times.with(Times { first_us: time_us, last_us: time_us });
        if self.has_frame() {
            return None;
        }
        self.touch();
        let day = time_us.div_euclid(DAY_US);
        // Of other days there are few rows: those that come late.
        let today = day == self.received_us.div_euclid(DAY_US);
        let (table, rows) = (self.table, if today { self.last_rows } else { 0 });
        Some(self.by_day.entry(day).or_insert_with(|| Rows::with_room(table, rows)))
    }

    /// Counts the current frame as one with rows.
    #[inline]
    fn touch(&mut self) {
        if self.first.is_none() && !self.has_frame() {
            self.first = Some(Origin { frame: self.frame, received_us: self.received_us });
        }
    }

    /// Closes the buffer after frame `to`; `None` if it holds no rows, and then it also stays where it was.
    ///
    /// # Errors
    /// `Internal` if the rows do not fit their own schema.
    pub fn close(&mut self, to: u64) -> Result<Option<Closed>> {
        let Some(origin) = self.first.take() else { return Ok(None) };
        self.opened = None;
        let mut batches = Vec::with_capacity(self.by_day.len());
        let (mut count, bytes) = (0, self.bytes());
        for (day, rows) in std::mem::take(&mut self.by_day) {
            count += rows.count();
            batches.push((date(day)?, rows.finish()?));
        }
        self.last_rows = (count / batches.len().max(1)).min(ROOM_MAX);
        let from = std::mem::replace(&mut self.from, to);
        Ok(Some(Closed { table: self.table, from, to, origin, batches, rows: count, bytes, held: None }))
    }
}

/// `YYYY-MM-DD` of a day counted from 1970-01-01.
fn date(day: i64) -> Result<String> {
    let seconds = day.checked_mul(86_400).ok_or_else(|| Error::internal("a day out of range"))?;
    let stamp = jiff::Timestamp::from_second(seconds)
        .map_err(|error| Error::internal("a day out of range").with_source(error))?;
    Ok(stamp.strftime("%Y-%m-%d").to_string())
}
