//! Files and commits: one table's closed buffers, in order, each retried until it is in the table.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use lake::{Entry, FileAdd, Lake, Outcome, minutes};
use parking_lot::Mutex;
use service::channel::Receiver;
use service::clock::SharedClock;
use service::error::{Error, Kind, Result, chain};
use service::health::Component;
use service::task::blocking;

use crate::batch::tables::Closed;
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

/// Publishes a table's closed buffers until no more can come.
///
/// # Errors
/// `Moved` if the journal's mark is elsewhere; everything else that waiting may mend is tried again.
pub(crate) async fn run(mut closed: Receiver<Closed>, shore: Shore) -> Result<(), Halt> {
    while let Some(closed) = closed.recv().await {
        publish(&closed, &shore).await?;
        shore.counters.committed_rows.add(closed.rows as u64);
        shore.counters.committed_files.add(closed.batches.len() as u64);
        shore.progress.committed(closed.table.name, closed.origin);
        cut(&shore).await?;
    }
    Ok(())
}

async fn publish(closed: &Closed, shore: &Shore) -> Result<(), Halt> {
    let began = shore.clock.monotonic();
    let adds = write(closed, shore).await?;
    let written = shore.clock.monotonic();
    let entry =
        Entry { journal: shore.journal_id.clone(), table: closed.table.name, from: closed.from, to: closed.to, adds };
    let outcome = retry(shore, || shore.commits.commit(entry.clone())).await?;
    if let Some(lane) = shore.counters.lane(closed.table.name) {
        lane.write_seconds.observe(written.saturating_sub(began));
        lane.commit_seconds.observe(shore.clock.monotonic().saturating_sub(written));
    }
    match outcome {
        Outcome::Committed { .. } => Ok(()),
        // An earlier try whose answer was lost did it.
        Outcome::Through(through) if through == closed.to => Ok(()),
        // A commit of an earlier process, or of another one with the same frames, came through late.
        Outcome::Through(through) => Err(Halt::Moved(Error::conflict(format!(
            "table {} holds this journal's rows through frame {through}, not {}",
            closed.table.name, closed.from
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
    let work = move || journal.lock().cut(progress.through(), clock.monotonic());
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
