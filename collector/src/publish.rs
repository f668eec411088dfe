//! Files and commits: one table's closed buffers, in order, each retried until it is in the table.
//!
//! ```text
//! closed ─► files written, their rows forgotten ─► waiting files, all in one entry ─► cut the journal
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use lake::{Entry, FileAdd, Lake, Outcome, minutes};
use parking_lot::Mutex;
use service::channel::{Receiver, Sender, bounded};
use service::clock::SharedClock;
use service::error::{Error, Kind, Result, chain};
use service::health::Component;
use service::task::blocking;
use telemetry::table::Table;

use crate::batch::tables::{Closed, Origin};
use crate::commit::Commits;
use crate::counters::Counters;
use crate::journal::Journal;
use crate::land::Halt;
use crate::progress::Progress;

/// Pause before the first retry, doubled at each further one.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Failures in a row after which the collector says that it is not well.
const PATIENCE: u32 = 5;

/// What every lane shares.
#[derive(Clone)]
pub(crate) struct Shore {
    /// Where rows go.
    pub(crate) lake: Lake,
    /// How their files become part of a table.
    pub(crate) commits: Arc<Commits>,
    /// The journal, cut as rows are committed.
    pub(crate) journal: Arc<Mutex<Journal>>,
    /// Its id.
    pub(crate) journal_id: String,
    /// What is committed.
    pub(crate) progress: Arc<Progress>,
    /// Own counters.
    pub(crate) counters: Counters,
    /// Source of time.
    pub(crate) clock: SharedClock,
    /// Health of the way to the lake.
    pub(crate) health: Component,
}

/// Files that may wait for their commit. They hold no rows any more, so a lake whose versions come a second apart, or late,
/// does not slow their writing.
const FILES_MAX: usize = 64;

/// Files of one entry, give or take a buffer's: an entry goes to another process in one message.
const ADDS_MAX: usize = 64;

/// A closed buffer whose files are written.
struct Written {
    entry: Entry,
    origins: Vec<Origin>,
    rows: usize,
}

/// Publishes a table's closed buffers until no more can come: files are written one after the other, and those that are there
/// when a commit begins become rows by the same one.
///
/// # Errors
/// `Moved` if the journal's mark is elsewhere; everything else that waiting may mend is tried again.
pub(crate) async fn run(table: &'static Table, closed: Receiver<Closed>, shore: Shore) -> Result<(), Halt> {
    let (files, written) = bounded::<Written>(table.name, FILES_MAX);
    tokio::try_join!(write_all(closed, files, &shore), commit_all(written, &shore)).map(|_| ())
}

async fn write_all(mut closed: Receiver<Closed>, files: Sender<Written>, shore: &Shore) -> Result<(), Halt> {
    while let Some(closed) = closed.recv().await {
        let began = shore.clock.monotonic();
        let adds = write(&closed, shore).await?;
        if let Some(lane) = shore.counters.lane(closed.table.name) {
            lane.write_seconds.observe(shore.clock.monotonic().saturating_sub(began));
        }
        let (from, to, journal) = (closed.from, closed.to, shore.journal_id.clone());
        let entry = Entry { journal, table: closed.table.name, from, to, adds };
        let written = Written { entry, origins: vec![closed.origin], rows: closed.rows };
        // The rows are in files; their memory is free while these wait.
        drop(closed);
        files.send(written).await?;
    }
    Ok(())
}

async fn commit_all(mut written: Receiver<Written>, shore: &Shore) -> Result<(), Halt> {
    while let Some(mut next) = written.recv().await {
        while next.entry.adds.len() < ADDS_MAX
            && let Ok(more) = written.try_recv()
        {
            next.join(more);
        }
        let files = next.entry.adds.len() as u64;
        commit(next.entry.clone(), shore).await?;
        shore.counters.committed_rows.add(next.rows as u64);
        shore.counters.committed_files.add(files);
        for origin in next.origins {
            shore.progress.committed(next.entry.table, origin);
        }
        cut(shore).await?;
    }
    Ok(())
}

impl Written {
    /// Takes in what comes right after it.
    fn join(&mut self, next: Written) {
        self.entry.to = next.entry.to;
        self.entry.adds.extend(next.entry.adds);
        self.origins.extend(next.origins);
        self.rows += next.rows;
    }
}

async fn commit(entry: Entry, shore: &Shore) -> Result<(), Halt> {
    let began = shore.clock.monotonic();
    let outcome = retry(shore, || shore.commits.commit(entry.clone())).await?;
    if let Some(lane) = shore.counters.lane(entry.table) {
        lane.commit_seconds.observe(shore.clock.monotonic().saturating_sub(began));
    }
    match outcome {
        Outcome::Committed { .. } => Ok(()),
        // An earlier try whose answer was lost did it.
        Outcome::Through(through) if through == entry.to => Ok(()),
        // A commit of an earlier process, or of another one with the same frames, came through late.
        Outcome::Through(through) => Err(Halt::Moved(Error::conflict(format!(
            "table {} holds this journal's rows through frame {through}, not {}",
            entry.table, entry.from
        )))),
    }
}

async fn write(closed: &Closed, shore: &Shore) -> Result<Vec<FileAdd>> {
    let mut adds = Vec::with_capacity(closed.batches.len());
    for (date, batch) in &closed.batches {
        let random: u32 = rand::random();
        let name = format!("{}-{}-{}-{random:08x}.parquet", shore.journal_id, closed.from, closed.to);
        let batches = std::slice::from_ref(batch);
        let mut add = retry(shore, || shore.lake.write(closed.table, date, &name, batches)).await?;
        if let Some(late) = late_minutes(batch, shore.clock.now_us()) {
            add.tags.insert(minutes::TAG.to_owned(), late);
        }
        adds.push(add);
    }
    Ok(adds)
}

/// Rows older than this are late: the windows they belong to may have been built already. Microseconds.
const LATE_US: i64 = 120_000_000;
/// Microseconds in a minute.
const MINUTE_US: i64 = 60_000_000;

/// The minutes since 1970-01-01 UTC to which a batch's late rows belong, as `28333332,28333340-28333345`; `None` if no row
/// is late.
fn late_minutes(batch: &RecordBatch, now_us: i64) -> Option<String> {
    let times = batch.column_by_name("time")?.as_primitive_opt::<TimestampMicrosecondType>()?;
    let late = times.values().iter().filter(|time| **time < now_us - LATE_US);
    let minutes: BTreeSet<i64> = late.map(|time| time.div_euclid(MINUTE_US)).collect();
    minutes::list(minutes)
}

/// Does it again until it succeeds; only what no waiting can mend ends it.
pub(crate) async fn retry<T, F: Future<Output = Result<T>>>(
    shore: &Shore,
    mut attempt: impl FnMut() -> F,
) -> Result<T> {
    let mut pause = PAUSE;
    let mut failures = 0;
    loop {
        let error = match attempt().await {
            Ok(done) => {
                if failures >= PATIENCE {
                    tracing::info!("the lake takes rows again");
                    shore.health.ready();
                }
                return Ok(done);
            }
            Err(error) => error,
        };
        if matches!(error.kind(), Kind::Invalid | Kind::Corrupt | Kind::Internal | Kind::Cancelled) {
            return Err(error);
        }
        failures += 1;
        shore.counters.flush_retries.inc();
        let reason = chain(&error);
        tracing::warn!(error = reason, "the lake did not take rows; trying again");
        if failures == PATIENCE {
            shore.health.degraded(reason);
        }
        shore.clock.sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn cut(shore: &Shore) -> Result<()> {
    let (journal, progress, clock) =
        (Arc::clone(&shore.journal), Arc::clone(&shore.progress), Arc::clone(&shore.clock));
    let work = move || {
        loop {
            // Bodies are appended while the file is removed.
            let gone = journal.lock().cut(progress.through(), clock.monotonic())?;
            let Some(gone) = gone else { return Ok::<_, Error>(()) };
            if let Err(error) = gone.remove() {
                journal.lock().leave(gone);
                return Err(error);
            }
        }
    };
    if let Err(error) = blocking("cut the journal", work).await? {
        tracing::warn!(error = chain(&error), "the journal could not be cut; the next commit tries again");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::rows::{Rows, position};
    use telemetry::table::TOKENS;

    /// Minutes of late rows are listed once, runs of them as ranges; rows in time are not listed.
    #[test]
    fn late_minutes_are_listed_as_ranges() {
        let time = position(&TOKENS, "time").unwrap();
        let batch = |minutes: &[i64]| {
            let mut rows = Rows::new(&TOKENS);
            for minute in minutes {
                rows.time(time, minute * MINUTE_US + 5);
                rows.end();
            }
            rows.finish().unwrap()
        };
        let now_us = 1_000 * MINUTE_US;
        assert_eq!(late_minutes(&batch(&[998, 999, 1_000]), now_us), None);
        assert_eq!(late_minutes(&batch(&[5, 3, 4, 4, 990, 1_000]), now_us), Some("3-5,990".to_owned()));
    }
}
