//! Compaction: many small files, as they came, into few that are sorted.
//!
//! ```text
//! plan (closed windows, newest first) ─► fetch ─► merge + verify ─► PUT ─► commit: Remove old, Add new, no row changes
//! ```
//!
//! A minute is merged a minute after its end; the minutes of a quarter of an hour once that is over. Each merge is one version
//! that says `dataChange = false` and leaves every journal's mark alone. It is refused if one of the old files is no longer in
//! the table; rows that are appended meanwhile are none of its business. A crash leaves a file that no commit names.
//!
//! The old files stay where they are, for readers of older versions. One merge runs at a time, as long a pause follows it as
//! it took, and its rows are bounded, so that receiving goes first.

mod counters;
mod merge;
mod plan;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use service::clock::SharedClock;
use service::shutdown::Stage;
use service::{Deps, Error, Kind, Result, error};
use telemetry::table::{Role, TABLES, Table};
use uuid::Uuid;

use crate::lake::Lake;
use crate::layout;
use crate::snapshot::{File, FileAdd};
use crate::store::failure;
use counters::Counters;
use plan::{Job, plan};

/// How often tables are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Files fetched at once.
const FETCH_AT_ONCE: usize = 8;
/// Merges of one table before the next table has its turn.
const TURN: usize = 4;
/// Longest pause after a merge.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Merges that failed and are not tried again by this process; with more, all are tried once more.
const SHUNNED_MAX: usize = 1_000;

impl Lake {
    /// Merges small files in the background until shutdown, or until the lake is dropped. One process per lake is enough;
    /// several at once do each other's work in vain, and no harm.
    pub fn compact_in_background(&self, deps: &Deps) {
        let (lake, stop) = (self.downgrade(), deps.shutdown.token(Stage::Accept));
        let mut compaction = Compaction::new(deps);
        deps.tasks.spawn("lake.compact", async move {
            let work = async {
                loop {
                    tokio::time::sleep(LOOK_EVERY).await;
                    let Some(lake) = lake.upgrade() else { return };
                    for table in TABLES.iter().copied().filter(|table| compacts(table)) {
                        compaction.turn(&lake, table).await;
                    }
                }
            };
            // Cancel safe: a merge cut short leaves at most a file that no commit names.
            tokio::select! {
                () = work => (),
                () = stop.cancelled() => (),
            }
        });
    }
}

/// Tables that grow by small files all the time.
fn compacts(table: &Table) -> bool {
    matches!(table.role, Role::Live | Role::Bulk)
}

struct Compaction {
    clock: SharedClock,
    counters: Counters,
    /// First file of each merge that failed for a reason that will not go away.
    shunned: HashSet<String>,
}

impl Compaction {
    fn new(deps: &Deps) -> Compaction {
        let counters = Counters::new(&deps.metrics);
        Compaction { clock: deps.clock.clone(), counters, shunned: HashSet::new() }
    }

    async fn turn(&mut self, lake: &Lake, table: &'static Table) {
        for _ in 0..TURN {
            match self.step(lake, table, self.clock.now_us()).await {
                Ok(Some(took)) => tokio::time::sleep(took.min(PAUSE_MAX)).await,
                Ok(None) => return,
                Err(failed) => {
                    let (table, error) = (table.name, error::chain(&failed));
                    tracing::warn!(table, error, "small files were not merged; queries only read more of them");
                    return;
                }
            }
        }
    }

    /// One merge, if one is due, and how long it took.
    async fn step(&mut self, lake: &Lake, table: &'static Table, now_us: i64) -> Result<Option<Duration>> {
        // Not the readers' view: that would have the log looked at for as long as we run.
        let snapshot = lake.shelf(table.name)?.head.lock().await?.state.snapshot();
        self.counters.files(table, snapshot.files.len());
        let due = plan(&snapshot.files, now_us).into_iter().find(|job| !self.shunned.contains(key(job)));
        let Some(job) = due else { return Ok(None) };
        drop(snapshot);
        let began = Instant::now();
        let outcome = run(lake, table, &job, now_us).await;
        let took = began.elapsed();
        match outcome {
            Ok(merged) => {
                self.counters.merged(table, &job, took);
                let (files, rows, level) = (job.files.len(), job.rows(), job.level.name());
                let ms = took.as_secs_f64() * 1_000.0;
                tracing::debug!(table = table.name, files, rows, level, bytes = merged.size, ms, "merged");
                Ok(Some(took))
            }
            // Somebody else was faster. The next look at the table sees what they made.
            Err(refused) if refused.kind() == Kind::Conflict => {
                self.counters.abandoned(table);
                Ok(None)
            }
            Err(failed) => {
                self.counters.failed(table);
                if failed.kind().retry_after().is_none() {
                    self.shun(&job);
                }
                Err(failed)
            }
        }
    }

    fn shun(&mut self, job: &Job) {
        if self.shunned.len() >= SHUNNED_MAX {
            self.shunned.clear();
        }
        self.shunned.insert(key(job).to_owned());
    }
}

fn key(job: &Job) -> &str {
    job.files.first().map_or("", |file| &file.path)
}

async fn run(lake: &Lake, table: &'static Table, job: &Job, now_us: i64) -> Result<FileAdd> {
    let merged = write(lake, table, job, now_us).await?;
    let removes = job.files.iter().map(|file| file.path.clone()).collect();
    lake.swap(table, merged.clone(), removes).await?;
    Ok(merged)
}

/// Writes the merged file; nobody sees it yet.
async fn write(lake: &Lake, table: &'static Table, job: &Job, now_us: i64) -> Result<FileAdd> {
    let paths: Vec<_> = job.files.iter().map(|file| Path::from(file.path.as_str())).collect();
    let fetches = paths.into_iter().map(|path| fetch(lake.store(), path));
    let bodies: Vec<_> = stream::iter(fetches).buffered(FETCH_AT_ONCE).try_collect().await?;
    let rows = job.rows();
    let merged = tokio::task::spawn_blocking(move || merge::merge(table, bodies, rows)).await;
    let failed = |e| Error::internal(format!("merge files of table {}", table.name)).with_source(e);
    let merged = merged.map_err(failed)??;
    let name = format!("compact-{}-{}-{}.parquet", job.level.name(), job.window_us, Uuid::new_v4().simple());
    let path = layout::data_path(table, &job.date, &name)?;
    let size = merged.body.len() as u64;
    lake.put(&Path::from(path.as_str()), merged.body).await?;
    Ok(File {
        path,
        size,
        rows: Some(merged.rows),
        date: job.date.clone(),
        modified_ms: now_us.div_euclid(1_000),
        stats: merged.stats,
        tags: tags(table, job),
    })
}

async fn fetch(store: Arc<dyn ObjectStore>, path: Path) -> Result<Bytes> {
    let body = match store.get(&path).await {
        Ok(answer) => answer.bytes().await,
        Err(error) => Err(error),
    };
    body.map_err(|e| failure(format!("read {path}"), e))
}

/// What readers may rely on: the order of the rows, and which window they are of.
fn tags(table: &Table, job: &Job) -> BTreeMap<String, String> {
    let window = jiff::Timestamp::from_microsecond(job.window_us).map(|start| ("window", start.to_string()));
    let known = [("level", job.level.name().to_owned()), ("sort", table.order.join(","))];
    known.into_iter().chain(window).map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests;
