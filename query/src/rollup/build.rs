//! One round of one roll-up: what is due and what is no longer right, computed a file at a time and committed together.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use lake::{FileAdd, Lake, Snapshot};
use service::clock::SharedClock;
use service::{Error, Result};
use telemetry::contract::{ApiError, SqlRequest};

use super::fold::fold;
use super::read::{Memory, instant};
use super::window::{self, Built, News, Versions};
use super::write::{self, Round};
use super::{Rollup, Source, is_of_events};
use crate::execute::Engine;
use crate::reader::Reader;

/// Files of one round, each in memory by itself: a backlog is worked off in rounds, the oldest first.
const FILES_MAX: usize = 24;

/// Builds windows.
pub(super) struct Builder {
    /// Runs the builder's queries, beside and not among those of readers.
    pub(super) engine: Arc<Engine>,
    pub(super) lake: Lake,
    pub(super) clock: SharedClock,
    pub(super) memory: Arc<Memory>,
    pub(super) reader: Arc<Reader>,
}

/// What a round came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Done {
    /// Windows computed for the first time.
    pub(super) built: i64,
    /// Windows computed again.
    pub(super) rebuilt: i64,
    /// Keys folded into `__other__`.
    pub(super) folded: i64,
    /// Whether there is more to do at once.
    pub(super) more: bool,
}

/// What to do in a round.
struct Plan {
    /// The roll-up's state once the round is done.
    next: Built,
    /// Starts of the files to write.
    files: BTreeSet<i64>,
    done: Done,
}

impl Builder {
    /// One round. Again after an error, or by another process, it does what is left.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`, `Overloaded`: nothing has changed then, or all of it.
    ///
    /// # Cancel safety
    /// A dropped call leaves at most files that no commit names.
    pub(super) async fn round(&self, rollup: &'static Rollup) -> Result<Done> {
        // Read first: whoever commits after this has the round refused.
        let rounds = self.lake.through(rollup.table, &write::journal(rollup)).await?.unwrap_or(0);
        let windows = self.lake.snapshot(rollup.table.name, None).await?;
        let mut sources = Vec::with_capacity(rollup.sources.len());
        for Source { table, .. } in rollup.sources {
            sources.push(self.lake.snapshot(table.name, None).await?);
        }
        let built = Built::of(rollup, &windows);
        let Some(Plan { mut next, files, mut done }) = self.plan(rollup, built.clone(), &sources).await? else {
            return Ok(Done::default());
        };
        let (old, settled) = (built.unwrap_or_default(), next.settled.clone());
        let mut parts = Vec::with_capacity(files.len());
        for start in files {
            let until = (start + rollup.file_us).min(next.through_us);
            let (batches, versions) = self.compute(rollup, start..until, &settled).await?;
            let (batches, folded) = fold(rollup, batches)?;
            done.folded += folded;
            parts.push((start, batches, versions));
        }
        next.folded += done.folded;
        let mut adds: Vec<FileAdd> = Vec::with_capacity(parts.len());
        let mut removes = Vec::new();
        let round = Round { rollup, rounds };
        for (start, batches, versions) in parts {
            adds.extend(write::file(&self.lake, &round, start, (&batches, &next.tags(&versions))).await?);
            removes.extend(old.files.get(&start).map(|part| part.paths.clone()).unwrap_or_default());
        }
        if adds.is_empty() && removes.is_empty() {
            return Ok(Done { more: done.more, ..Done::default() });
        }
        write::commit(&self.lake, &round, adds, removes)
            .await
            .map(|committed| if committed { done } else { Done::default() })
    }

    /// `None` where there is nothing to do.
    async fn plan(
        &self,
        rollup: &'static Rollup,
        built: Option<Built>,
        sources: &[Arc<Snapshot>],
    ) -> Result<Option<Plan>> {
        let now_us = self.clock.now_us();
        let due_us = window::due(rollup, now_us);
        let Some(first_us) = first(rollup, built.as_ref(), sources) else { return Ok(None) };
        let newest: Versions = sources.iter().map(|source| (source.table.name.to_owned(), source.version)).collect();
        let stale = match &built {
            None => Vec::new(),
            Some(built) => {
                let news = self.memory.news(&self.lake, built, sources).await?;
                let news = sources.iter().zip(&news);
                let news: Vec<_> = news
                    .map(|(source, arrivals)| News { source: source.table.name, arrivals: arrivals.as_deref() })
                    .collect();
                built.stale(rollup, &news, self.memory.floor_us(rollup, now_us))
            }
        };
        let mut next = built.unwrap_or_else(|| Built { through_us: first_us, ..Built::default() });
        let from_us = next.through_us;
        let old = files_of(rollup, &stale);
        let new =
            if from_us < due_us { window::files_with_rows(rollup, sources, from_us, due_us) } else { BTreeSet::new() };
        if old.is_empty() && new.is_empty() {
            return Ok(None);
        }
        let wanted: BTreeSet<i64> = old.union(&new).copied().collect();
        let files: BTreeSet<i64> = wanted.iter().copied().take(FILES_MAX).collect();
        let more = files.len() < wanted.len();
        // All that was wanted, or what lies before the first file that is left for the next round.
        let left = wanted.iter().copied().nth(FILES_MAX);
        next.through_us = left.map_or(due_us, |left| left.min(due_us)).max(from_us);
        if old.iter().all(|start| files.contains(start)) {
            next.settled = newest;
        }
        let rebuilt =
            stale.iter().filter(|range| files.contains(&rollup.file_of(range.start))).map(|range| count(rollup, range));
        let rebuilt = rebuilt.sum();
        next.rebuilt += rebuilt;
        let built = count(rollup, &(from_us..next.through_us));
        Ok(Some(Plan { next, files, done: Done { built, rebuilt, folded: 0, more } }))
    }

    /// The windows of a stretch, as the view answers them, and the versions of the sources that they come from.
    async fn compute(
        &self,
        rollup: &Rollup,
        stretch: Range<i64>,
        settled: &Versions,
    ) -> Result<(Vec<RecordBatch>, Versions)> {
        let columns: Vec<_> = rollup.table.columns().map(|column| format!("\"{}\"", column.name)).collect();
        let order: Vec<_> = rollup.table.order.iter().map(|column| format!("\"{column}\"")).collect();
        let (from, to) = (instant(stretch.start), instant(stretch.end));
        let sql = format!(
            "SELECT {} FROM {} WHERE time >= {from} AND time < {to} ORDER BY {}",
            columns.join(", "),
            rollup.view.name,
            order.join(", ")
        );
        let answer =
            self.engine.run(SqlRequest { sql, ..SqlRequest::default() }, &self.reader).await.map_err(failed)?;
        if answer.truncated {
            return Err(Error::internal(format!("more rows of {} than one file may hold", rollup.table.name)));
        }
        let version = |source: &Source| {
            let name = source.table.name;
            let pinned = answer.version.get(name).or(settled.get(name)).copied().unwrap_or(-1);
            (name.to_owned(), pinned)
        };
        Ok((answer.batches, rollup.sources.iter().map(version).collect()))
    }
}

/// Where to begin: after what is built, or with the oldest row there is.
fn first(rollup: &Rollup, built: Option<&Built>, sources: &[Arc<Snapshot>]) -> Option<i64> {
    let events = || sources.iter().filter(|source| is_of_events(source.table));
    let oldest = || events().filter_map(|source| window::oldest_us_of(source)).min();
    built.map(|built| built.through_us).or_else(|| oldest().map(|us| rollup.file_of(us - 1)))
}

fn files_of(rollup: &Rollup, ranges: &[Range<i64>]) -> BTreeSet<i64> {
    let mut starts = BTreeSet::new();
    for range in ranges {
        let mut start = rollup.file_of(range.start);
        while start < range.end {
            starts.insert(start);
            start += rollup.file_us;
        }
    }
    starts
}

fn count(rollup: &Rollup, range: &Range<i64>) -> i64 {
    (range.end - range.start).max(0) / rollup.window_us
}

pub(super) fn failed(error: ApiError) -> Error {
    let message = format!("compute windows: {}", error.message);
    match error.kind.as_str() {
        "unavailable" | "overloaded" | "timeout" => Error::unavailable(message),
        _ => Error::internal(message),
    }
}
