//! Files and commits: one table's closed buffers, in order, each retried until it is in the table.

use std::sync::Arc;
use std::time::Duration;

use lake::{Entry, FileAdd, Lake, Outcome};
use parking_lot::Mutex;
use service::channel::Receiver;
use service::clock::SharedClock;
use service::error::{Error, Kind, Result, chain};
use service::health::Component;

use crate::batch::tables::Closed;
use crate::counters::Counters;
use crate::journal::Journal;
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
/// `Conflict` if another writer has moved the journal's mark; everything else is tried again.
pub(crate) async fn run(mut closed: Receiver<Closed>, shore: Shore) -> Result<()> {
    while let Some(closed) = closed.recv().await {
        publish(&closed, &shore).await?;
        shore.counters.committed_rows.add(closed.rows as u64);
        shore.counters.committed_files.add(closed.batches.len() as u64);
        shore.progress.committed(closed.table.name, closed.origin);
        cut(&shore).await?;
    }
    Ok(())
}

async fn publish(closed: &Closed, shore: &Shore) -> Result<()> {
    let adds = write(closed, shore).await?;
    let entry =
        Entry { journal: shore.journal_id.clone(), table: closed.table.name, from: closed.from, to: closed.to, adds };
    let outcome = retry(shore, || shore.lake.commit(entry.clone())).await?;
    match outcome {
        Outcome::Committed { .. } => Ok(()),
        // An earlier try whose answer was lost did it.
        Outcome::Through(through) if through == closed.to => Ok(()),
        Outcome::Through(through) => Err(Error::conflict(format!(
            "table {} holds this journal's rows through frame {through}, not {}",
            closed.table.name, closed.from
        ))
        .with_hint("another process wrote with a copy of this state directory; restart with the original one")),
    }
}

async fn write(closed: &Closed, shore: &Shore) -> Result<Vec<FileAdd>> {
    let mut adds = Vec::with_capacity(closed.batches.len());
    for (date, batch) in &closed.batches {
        let random: u32 = rand::random();
        let name = format!("{}-{}-{}-{random:08x}.parquet", shore.journal_id, closed.from, closed.to);
        let batches = std::slice::from_ref(batch);
        adds.push(retry(shore, || shore.lake.write(closed.table, date, &name, batches)).await?);
    }
    Ok(adds)
}

/// Does it again until it succeeds; only what no waiting can mend ends it.
async fn retry<T, F: Future<Output = Result<T>>>(shore: &Shore, mut attempt: impl FnMut() -> F) -> Result<T> {
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
        if matches!(error.kind(), Kind::Invalid | Kind::Corrupt | Kind::Internal) {
            return Err(error);
        }
        failures += 1;
        shore.counters.flush_retries.inc();
        let reason = chain(&error);
        tracing::warn!(error = reason, "the lake did not take rows; trying again");
        if failures == PATIENCE {
            shore.health.failed(reason);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn cut(shore: &Shore) -> Result<()> {
    let (journal, progress, clock) =
        (Arc::clone(&shore.journal), Arc::clone(&shore.progress), Arc::clone(&shore.clock));
    let cut = tokio::task::spawn_blocking(move || journal.lock().cut(progress.through(), clock.now_us())).await;
    match cut {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            tracing::warn!(error = chain(&error), "the journal could not be cut; the next commit tries again");
            Ok(())
        }
        Err(error) => Err(Error::internal("cut the journal").with_source(error)),
    }
}
