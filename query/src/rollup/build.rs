//! One round of one roll-up: what is due and what is no longer right, computed a file at a time and committed together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use lake::{FileAdd, Lake, Snapshot};
use service::clock::SharedClock;
use service::{Error, Result};
use telemetry::contract::{ApiError, SqlRequest};

use super::allocation;
use super::fold::fold;
use super::read::{Memory, instant};
use super::window::{self, Built, Versions};
use super::write::{self, Round};
use super::{Rollup, Source, is_of_events};
use crate::execute::Engine;
use crate::reader::Reader;

/// Files of one round, each in memory by itself: a backlog is worked off in rounds, the oldest first.
const FILES_MAX: usize = 24;
/// Stretches of one round that turn out to have no rows, beside those: an answer each.
const EMPTY_MAX: usize = 240;

/// Builds windows.
pub(super) struct Builder {
    /// Runs the builder's queries, beside and not among those of readers.
    pub(super) engine: Arc<Engine>,
    pub(super) lake: Lake,
    pub(super) clock: SharedClock,
    pub(super) memory: Arc<Memory>,
    pub(super) reader: Arc<Reader>,
    /// Values of an allocation key that are told apart in an hour.
    pub(super) values_max: usize,
    /// [`Built::empty`] of each roll-up.
    pub(super) empty: parking_lot::Mutex<BTreeMap<&'static str, BTreeMap<i64, Versions>>>,
}

/// What a round came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Done {
    /// Windows computed for the first time.
    pub(super) built: i64,
    /// Windows computed again.
    pub(super) rebuilt: i64,
    /// Keys, and values of allocation keys, folded into `__other__`.
    pub(super) folded: i64,
    /// Whether there is more to do at once.
    pub(super) more: bool,
}

/// What to do in a round.
struct Plan {
    /// The roll-up's state before it.
    built: Built,
    /// Starts of the files to write, in order, and how each is computed.
    files: BTreeMap<i64, How>,
    /// Windows that are computed again.
    stale: Vec<Range<i64>>,
    /// End of the last window that is due.
    due_us: i64,
    /// Versions of the sources up to which every file is right once all of it is done.
    newest: Versions,
}

/// How a file's windows are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// From raw rows, by the view.
    View,
    /// From the windows as they are and what restates them: raw rows may be gone.
    Aged,
}

/// A file computed: where it begins, its rows, and the versions of the sources that they come from.
pub(super) type Computed = (i64, Vec<RecordBatch>, Versions);

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
        let empty = self.empty.lock().get(rollup.table.name).cloned().unwrap_or_default();
        let built = Built::of(rollup, &windows).map(|built| Built { empty, ..built });
        let Some(plan) = self.plan(rollup, built, &sources).await? else {
            return Ok(Done::default());
        };
        let (parts, left, folded) = self.parts(rollup, &plan).await?;
        self.restate(rollup, rounds, (&plan.built, &sources), &parts).await?;
        let (next, done) = plan.after(rollup, left, folded);
        let mut adds: Vec<FileAdd> = Vec::with_capacity(parts.len());
        let mut removes = Vec::new();
        let round = Round { rollup, rounds };
        for (start, batches, versions) in parts {
            adds.extend(write::file(&self.lake, &round, start, (&batches, &next.tags(&versions))).await?);
            removes.extend(plan.built.files.get(&start).map(|part| part.paths.clone()).unwrap_or_default());
        }
        if adds.is_empty() && removes.is_empty() {
            return Ok(Done { more: done.more, ..Done::default() });
        }
        write::commit(&self.lake, &round, adds, removes)
            .await
            .map(|committed| if committed { done } else { Done::default() })
    }

    /// The first files of the plan, the start of the first that is left for another round, and how many keys were folded. A stretch
    /// that has no rows, and had none, is done once it is looked at.
    async fn parts(&self, rollup: &'static Rollup, plan: &Plan) -> Result<(Vec<Computed>, Option<i64>, i64)> {
        let (mut parts, mut folded_keys, mut empty) = (Vec::new(), 0, 0);
        for (start, how) in &plan.files {
            if parts.len() == FILES_MAX || empty == EMPTY_MAX {
                return Ok((parts, Some(*start), folded_keys));
            }
            let until = (start + rollup.file_us).min(plan.due_us.max(plan.built.through_us));
            let (batches, versions) = self.compute(rollup, *how, *start..until, &plan.newest).await?;
            let (batches, values) = allocation::bound(rollup.table, batches, self.values_max)?;
            let (batches, folded) = fold(rollup, batches)?;
            folded_keys += values + folded;
            if plan.built.files.contains_key(start) || batches.iter().any(|batch| batch.num_rows() > 0) {
                parts.push((*start, batches, versions));
            } else if *start < plan.built.through_us {
                // one that was looked at before does not count, so that every round comes farther
                let known = self.empty.lock().entry(rollup.table.name).or_default().insert(*start, versions);
                empty += usize::from(known.is_none());
            }
        }
        Ok((parts, None, folded_keys))
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
        let (stale, aged) = match &built {
            None => (Vec::new(), Vec::new()),
            Some(built) => {
                let news = self.memory.news(&self.lake, built, sources).await?;
                let news = window::news(rollup, sources, &news);
                let (floor_us, kept_us) = (self.memory.floor_us(rollup, now_us), self.memory.kept_us(rollup, now_us));
                (built.stale(rollup, &news, floor_us), built.aged(rollup, &news, (kept_us, floor_us)))
            }
        };
        let built = built.unwrap_or_else(|| Built { through_us: first_us, ..Built::default() });
        let mut files: BTreeMap<i64, How> =
            files_of(rollup, &aged).into_iter().map(|start| (start, How::Aged)).collect();
        files.extend(files_of(rollup, &stale).into_iter().map(|start| (start, How::View)));
        if built.through_us < due_us {
            let new = window::files_with_rows(rollup, sources, built.through_us, due_us);
            files.extend(new.into_iter().map(|start| (start, How::View)));
        }
        let stale = stale.into_iter().chain(aged).collect();
        Ok((!files.is_empty()).then_some(Plan { built, files, stale, due_us, newest }))
    }

    /// The windows of a stretch, as the view answers them or as what is kept restates them, and the versions of the sources that they
    /// come from: `newest` of those that had no part.
    async fn compute(
        &self,
        rollup: &Rollup,
        how: How,
        stretch: Range<i64>,
        newest: &Versions,
    ) -> Result<(Vec<RecordBatch>, Versions)> {
        let columns: Vec<_> = rollup.table.columns().map(|column| format!("\"{}\"", column.name)).collect();
        let order: Vec<_> = rollup.table.order.iter().map(|column| format!("\"{column}\"")).collect();
        let (from, to) = (instant(stretch.start), instant(stretch.end));
        let (columns, order) = (columns.join(", "), order.join(", "));
        let sql = match (how, &rollup.aged) {
            (How::Aged, Some(aged)) => {
                let restated =
                    aged.sql.replace("$from", &stretch.start.to_string()).replace("$to", &stretch.end.to_string());
                format!("SELECT {columns} FROM ({restated}) AS restated ORDER BY {order}")
            }
            _ => {
                let name = rollup.view.name;
                format!("SELECT {columns} FROM {name} WHERE time >= {from} AND time < {to} ORDER BY {order}")
            }
        };
        let answer =
            self.engine.run(SqlRequest { sql, ..SqlRequest::default() }, &self.reader).await.map_err(failed)?;
        if answer.truncated {
            return Err(Error::internal(format!("more rows of {} than one file may hold", rollup.table.name)));
        }
        let version = |source: &Source| {
            let name = source.table.name;
            let pinned = answer.version.get(name).or(newest.get(name)).copied().unwrap_or(-1);
            (name.to_owned(), pinned)
        };
        Ok((answer.batches, rollup.sources.iter().map(version).collect()))
    }
}

impl Plan {
    /// The roll-up's state once all files before `left` are done, and what that came to.
    fn after(&self, rollup: &Rollup, left: Option<i64>, folded: i64) -> (Built, Done) {
        let from_us = self.built.through_us;
        let mut next = Built {
            through_us: left.map_or(self.due_us, |left| left.min(self.due_us)).max(from_us),
            folded: self.built.folded + folded,
            ..self.built.clone()
        };
        let is_done = |start: i64| left.is_none_or(|left| start < left);
        let done = |range: &&Range<i64>| is_done(rollup.file_of(range.start));
        if self.stale.iter().all(|range| files_of(rollup, std::slice::from_ref(range)).into_iter().all(is_done)) {
            next.settled = self.newest.clone();
        }
        let rebuilt = self.stale.iter().filter(done).map(|range| count(rollup, range)).sum();
        next.rebuilt += rebuilt;
        let built = count(rollup, &(from_us..next.through_us));
        (next, Done { built, rebuilt, folded, more: left.is_some() })
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
