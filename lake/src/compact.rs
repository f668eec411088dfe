//! Compaction: many small files, as they came, into few that are sorted.
//!
//! ```text
//! plan (closed windows, newest first) ─► fetch ─► merge + verify ─► PUT ─► commit: Remove old, Add new, no row changes
//! ```
//!
//! A minute is merged a minute after its end; the minutes of a quarter of an hour once that is over, then hours and days. What
//! comes later joins its window's file. Each merge is one version that says `dataChange = false` and leaves every journal's mark
//! alone. It is refused if one of the old files is no longer in the table; rows that are appended meanwhile are none of its
//! business. A crash leaves a file that no commit names.
//!
//! The old files stay where they are for a while, for readers of older versions. One merge runs at a time, on a thread that the
//! kernel lets run when nothing else wants to; as long a pause follows it as it took; and its memory is bounded.

mod counters;
mod merge;
mod plan;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use service::clock::SharedClock;
use service::{Deps, Kind, Result, error};
use telemetry::table::{BILLING, Role, Table};
use uuid::Uuid;

use crate::background::in_background;
use crate::commit::{Effect, sweeps};
use crate::lake::{Lake, Swap};
use crate::lease::Keeper;
use crate::snapshot::{File, FileAdd, SORT_TAG, order_tag};
use crate::store::failure;
use crate::{layout, minutes};
use counters::Counters;
use merge::{Input, Merged, Removed};
use plan::{Job, plan};

/// Files fetched at once.
const FETCH_AT_ONCE: usize = 8;
/// Merges of one table before the next table has its turn.
const TURN: usize = 4;
/// How far our clock may be ahead of the store's before the store's is believed. Microseconds.
const SKEW_US: i64 = 60_000_000;
/// Longest pause after a merge.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Merges that failed and are not tried again by this process; with more, all are tried once more.
const SHUNNED_MAX: usize = 1_000;

/// The tag of a file in whose place its journal may yet put another: how many of the journal's frames are one round, such as `1000`. It stays
/// apart, so that it can be taken out as a whole, until the journal has come to the next round.
pub const HELD: &str = "held";

/// Tables that grow by small files: all that are not computed from others. A bill's files are replaced as a set, and stay apart.
fn compacts(table: &Table) -> bool {
    !matches!(table.role, Role::Reference | Role::Rollup) && *table != BILLING
}

impl Lake {
    /// Merges what is due in a table, one merge after another without the pauses that background work makes.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Conflict` if another process merges too, `Corrupt`, `Unavailable`.
    pub async fn compact(&self, table: &'static Table, deps: &Deps) -> Result<()> {
        let mut compaction = Compaction::new(deps);
        while compaction.step(self, table, Times::at(deps.clock.now_us())).await?.is_some() {}
        Ok(())
    }
}

/// What time it is when a merge begins, microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy)]
struct Times {
    /// By our clock.
    now_us: i64,
    /// At least, by the store's.
    store_us: i64,
}

impl Times {
    /// Of one clock.
    fn at(us: i64) -> Times {
        Times { now_us: us, store_us: us }
    }

    /// The same, a while later.
    fn after(self, elapsed: Duration) -> Times {
        let us = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
        Times { now_us: self.now_us.saturating_add(us), store_us: self.store_us.saturating_add(us) }
    }

    /// When files leave, for those who count the time since: by our clock, as far as the store's agrees with it.
    fn removal_us(self) -> i64 {
        self.now_us.clamp(self.store_us, self.store_us.saturating_add(SKEW_US))
    }
}

/// The merges of one process.
pub(crate) struct Compaction {
    clock: SharedClock,
    counters: Counters,
    /// First file of each merge that failed for a reason that will not go away.
    shunned: HashSet<String>,
}

impl Compaction {
    pub(crate) fn new(deps: &Deps) -> Compaction {
        let counters = Counters::new(&deps.metrics);
        Compaction { clock: deps.clock.clone(), counters, shunned: HashSet::new() }
    }

    /// A few merges of a table, if they are due and as long as `keeper` says that they are ours to make.
    pub(crate) async fn turn(&mut self, lake: &Lake, table: &'static Table, keeper: &Keeper) {
        if !compacts(table) {
            return;
        }
        for _ in 0..TURN {
            let Some(store_us) = keeper.store_us().filter(|_| keeper.is_mine()) else { return };
            match self.step(lake, table, Times { now_us: self.clock.now_us(), store_us }).await {
                Ok(Some(took)) => self.clock.sleep(took.min(PAUSE_MAX)).await,
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
    async fn step(&mut self, lake: &Lake, table: &'static Table, times: Times) -> Result<Option<Duration>> {
        // Not the readers' view: that would have the log looked at for as long as we run.
        let (files, sweeps) = {
            let known = lake.shelf(table.name)?.head.lock().await?;
            let mut files = known.state.snapshot().files;
            self.counters.files(table, files.len());
            files.retain(|file| !is_held(file, |journal| known.state.through(journal)));
            (files, sweeps(&known.state))
        };
        let due = plan(table, &files, times.now_us).into_iter().find(|job| !self.shunned.contains(key(job)));
        let Some(job) = due else { return Ok(None) };
        drop(files);
        let began = self.clock.monotonic();
        let outcome = self.run(lake, table, &job, sweeps, times).await;
        let took = self.clock.monotonic().saturating_sub(began);
        match outcome {
            Ok((merged, removed)) => {
                self.counters.merged(table, &job, took);
                self.counters.twins(table, &removed);
                let (files, rows, level) = (job.files.len(), job.rows(), job.level.name());
                let (ms, twins) = (took.as_secs_f64() * 1_000.0, removed.rows);
                tracing::debug!(table = table.name, files, rows, twins, level, bytes = merged.size, ms, "merged");
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

    async fn run(
        &self,
        lake: &Lake,
        table: &'static Table,
        job: &Job,
        sweeps: u64,
        times: Times,
    ) -> Result<(FileAdd, Removed)> {
        let began = self.clock.monotonic();
        let (merged, removed) = write(lake, table, job, times.now_us).await?;
        // A store that is slow to take the merge must not shorten the time that readers have to finish.
        let times = times.after(self.clock.monotonic().saturating_sub(began));
        let removes = job.files.iter().map(|file| file.path.clone()).collect();
        let effect = if removed.rows == 0 { Effect::Rearrange } else { Effect::Drop };
        let swap = Swap { adds: vec![merged.clone()], removes, effect, sweeps, now_us: times.removal_us() };
        lake.swap(table, swap).await?;
        Ok((merged, removed))
    }

    fn shun(&mut self, job: &Job) {
        if self.shunned.len() >= SHUNNED_MAX {
            self.shunned.clear();
        }
        self.shunned.insert(key(job).to_owned());
    }
}

/// Whether the journal that wrote the file is still in the round of which it is.
fn is_held(file: &File, through: impl Fn(&str) -> Option<u64>) -> bool {
    let Some(frames) = file.tags.get(HELD).and_then(|tag| tag.parse::<u64>().ok()).filter(|frames| *frames > 0) else {
        return false;
    };
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let layout::Maker::Journal { journal, to } = layout::Maker::of(name) else { return false };
    through(journal).is_some_and(|through| through / frames <= to / frames)
}

fn key(job: &Job) -> &str {
    job.files.first().map_or("", |file| &file.path)
}

/// Writes the merged file; nobody sees it yet.
async fn write(lake: &Lake, table: &'static Table, job: &Job, now_us: i64) -> Result<(FileAdd, Removed)> {
    let fetches = job.files.iter().map(|file| {
        let (path, sorted) = (Path::from(file.path.as_str()), file.is_sorted(table));
        let body = fetch(lake.store(), path);
        async move { Ok(Input { body: body.await?, sorted }) }
    });
    let fetches: Vec<_> = fetches.collect();
    let inputs: Vec<_> = stream::iter(fetches).buffered(FETCH_AT_ONCE).try_collect().await?;
    let rows = job.rows();
    let work = move || merge::merge(table, inputs, rows);
    let Merged { encoded, removed } = in_background(format!("merge files of table {}", table.name), work).await?;
    let name = layout::merged_name(job.level.name(), job.window_us, &Uuid::new_v4().simple().to_string());
    let path = layout::data_path(table, &job.date, &name)?;
    let size = encoded.body.len() as u64;
    lake.put(&Path::from(path.as_str()), encoded.body).await?;
    let merged = File {
        path,
        size,
        rows: Some(encoded.rows),
        date: job.date.clone(),
        modified_ms: now_us.div_euclid(1_000),
        stats: encoded.stats,
        tags: tags(order_tag(table), job, &removed),
    };
    Ok((merged, removed))
}

async fn fetch(store: Arc<dyn ObjectStore>, path: Path) -> Result<Bytes> {
    let body = match store.get(&path).await {
        Ok(answer) => answer.bytes().await,
        Err(error) => Err(error),
    };
    body.map_err(|e| failure(format!("read {path}"), e))
}

/// What readers may rely on: the order of the rows, which window they are of, and which minutes have to be computed anew.
fn tags(order: String, job: &Job, removed: &Removed) -> BTreeMap<String, String> {
    let window = jiff::Timestamp::from_microsecond(job.window_us).map(|start| ("window", start.to_string()));
    let late = job.files.iter().filter_map(|file| Some(file.tags.get(minutes::TAG)?.as_str()));
    let late = minutes::union(late, removed.minutes.iter().copied()).map(|minutes| (minutes::TAG, minutes));
    let known = [("level", job.level.name().to_owned()), (SORT_TAG, order)];
    let all = known.into_iter().chain(window).chain(late);
    all.map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;
