//! Frames in, closed buffers out: the one place where rows are gathered, in the order of the journal.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use service::error::Result;
use telemetry::table::{self, Table};

use super::tables::{Closed, Tables};
use crate::counters::Counters;
use crate::decode::wire::Malformed;
use crate::normalize::{Body, Normalizer};
use crate::progress::Progress;
use crate::receive::admit::Permit;
use crate::signal::Signal;

/// A durable body on its way into rows.
#[derive(Debug)]
pub struct Frame {
    /// Its number in the journal.
    pub number: u64,
    /// What it carries.
    pub signal: Signal,
    /// When it was received, microseconds since 1970-01-01 UTC.
    pub received_us: i64,
    /// Whether some of its items were rejected.
    pub faulty: bool,
    /// Its bytes, inflated, in the protobuf encoding.
    pub body: Bytes,
    /// The memory it takes while it waits; free once its rows are in the buffers.
    pub permit: Option<Permit>,
    /// Of a large one that was read back: how many processes ended while they turned it into rows. That one is about to do so is
    /// then noted first.
    pub tries: Option<u32>,
}

/// When buffers close.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Age at which requests, tokens and devices close.
    pub live_after: Duration,
    /// Age at which all other tables close.
    pub bulk_after: Duration,
    /// Memory at which any table closes.
    pub bytes: usize,
}

/// Turns frames into rows and closes buffers.
pub struct Gather {
    normalizer: Normalizer,
    tables: Tables,
    limits: Limits,
    progress: Arc<Progress>,
    /// Which of its passes this is.
    pass: u64,
    counters: Counters,
    /// Frames that give no rows.
    aside: BTreeSet<u64>,
    last: u64,
}

impl Gather {
    /// Nothing gathered yet; `tables` know how far each is committed, and the frames `aside` give no rows.
    pub fn new(
        normalizer: Normalizer,
        tables: Tables,
        limits: Limits,
        progress: Arc<Progress>,
        counters: Counters,
        aside: BTreeSet<u64>,
    ) -> Self {
        let pass = progress.pass();
        Self { normalizer, tables, limits, progress, pass, counters, aside, last: 0 }
    }

    /// Whether all that it took is committed.
    pub fn is_committed(&self) -> bool {
        self.progress.through() >= self.last
    }

    /// Appends the rows of a frame.
    ///
    /// # Errors
    /// If its body is not sound, a fault of ours since it was checked before it was journalled. What is gathered is then of no
    /// use: some rows of the frame are in it.
    pub fn take(&mut self, frame: Frame, now: Duration) -> std::result::Result<(), Malformed> {
        self.last = frame.number;
        self.tables.enter(frame.number, frame.received_us);
        if !self.aside.contains(&frame.number) {
            let body =
                Body { signal: frame.signal, received_us: frame.received_us, faulty: frame.faulty, bytes: &frame.body };
            self.normalizer.body(body, &mut self.tables)?;
        }
        for runaway in self.normalizer.take_runaways() {
            self.counters.ran_away(&runaway);
        }
        self.tables.leave(now);
        let open = self.tables.buffers().into_iter().filter_map(|buffer| Some((buffer.table().name, buffer.origin()?)));
        self.progress.gathered(self.pass, frame.number, frame.received_us, open);
        Ok(())
    }

    /// Closes the buffers that are due, or all.
    ///
    /// # Errors
    /// `Internal` if rows do not fit their own schema.
    pub fn close(&mut self, now: Duration, all: bool) -> Result<Vec<Closed>> {
        let limits = self.limits;
        let mut closed = Vec::new();
        for place in 0..self.tables.buffers().len() {
            let due = self.tables.buffers().get(place).is_some_and(|buffer| {
                let age = buffer.opened().map(|opened| now.saturating_sub(opened)).unwrap_or_default();
                !buffer.is_empty() && (all || age >= limits.age(buffer.table()) || buffer.bytes() >= limits.bytes)
            });
            if !due {
                continue;
            }
            if self.tables.buffers().get(place).is_some_and(|buffer| *buffer.table() == table::NODES) {
                self.normalizer.write_nodes(&mut self.tables);
            }
            let last = self.last;
            if let Some(buffer) = self.tables.buffers_mut().into_iter().nth(place) {
                closed.extend(buffer.close(last)?);
            }
        }
        for closed in &closed {
            self.progress.closed(self.pass, closed.table.name, closed.origin);
        }
        Ok(closed)
    }
}

impl Limits {
    fn age(&self, table: &Table) -> Duration {
        if [&table::REQUESTS, &table::TOKENS, &table::DEVICES].contains(&table) {
            self.live_after
        } else {
            self.bulk_after
        }
    }
}
