//! The Delta log of one table.
//!
//! Commits go to `_delta_log/<version>.json` by a PUT that fails if the object is there, which every reader and writer of Delta
//! agrees on. A version is read and written with one request; nothing is listed but at opening and for old versions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt, PutMode, path::Path};
use serde::Deserialize;
use service::clock::SharedClock;
use service::task::blocking;
use service::{Error, Result};
use telemetry::table::Table;

use super::action::{self, Action};
use super::{State, TableLog, Written, checkpoint, fold, state};
use crate::background::in_background;
use crate::layout::{self, LogFile};
use crate::store::{Store, failure};

/// How often a PUT of a log entry whose outcome is unknown is tried again, and how long we wait before the first time.
const WRITE_ATTEMPTS: u32 = 5;
const WRITE_PAUSE: Duration = Duration::from_millis(100);
/// From a version's time to the moment at which others see it, at most, where nobody can tell any more. Milliseconds: all attempts
/// of a PUT, and one that arrives late.
const COMMIT_MS_MAX: i64 = 300_000;
/// What to do about a log that lost files.
pub(crate) const RESTORE: &str = "put them back from a copy of the lake, or stop its processes and remove what is left of the \
    table's folder: the table then begins anew, with what collectors have yet to commit";
/// Log entries fetched at once while a table is opened.
const READ_AHEAD: usize = 16;

/// The Delta log of one table.
pub struct DeltaLog {
    table: &'static Table,
    store: Arc<Store>,
    clock: SharedClock,
}

/// What lies in a log's folder.
#[derive(Default)]
struct Listing {
    commits: BTreeSet<i64>,
    /// When each of them came to be seen, milliseconds since 1970-01-01 UTC.
    committed_ms: BTreeMap<i64, i64>,
    /// Files of each checkpoint, and how many it should have.
    checkpoints: BTreeMap<i64, (usize, Vec<Path>)>,
    /// When each checkpoint was finished, milliseconds since 1970-01-01 UTC.
    written_ms: BTreeMap<i64, i64>,
}

#[derive(Deserialize)]
struct CheckpointHint {
    version: i64,
}

impl DeltaLog {
    /// The log of `table` in `store`. Nothing is read yet.
    pub(crate) fn new(table: &'static Table, store: Arc<Store>, clock: SharedClock) -> DeltaLog {
        DeltaLog { table, store, clock }
    }

    async fn get(&self, path: &Path) -> Result<Option<Bytes>> {
        let answer = match self.store.lake.get(path).await {
            Ok(answer) => answer.bytes().await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(body) => Ok(Some(body)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure(format!("read {path}"), error)),
        }
    }

    /// Everything from version `from` on.
    async fn list(&self, from: i64) -> Result<Listing> {
        let folder = layout::log_folder(self.table);
        // Offsets are exclusive, so we start after the entry before; `.json` sorts behind `.checkpoint…`.
        let found = if from > 0 {
            self.store.lake.list_with_offset(Some(&folder), &layout::commit_path(self.table, from - 1))
        } else {
            self.store.lake.list(Some(&folder))
        };
        let files: Vec<_> = found.try_collect().await.map_err(|e| failure(format!("list {folder}"), e))?;
        let mut listing = Listing::default();
        for file in files {
            match LogFile::parse(file.location.filename().unwrap_or_default()) {
                LogFile::Commit(version) => {
                    listing.commits.insert(version);
                    listing.committed_ms.insert(version, file.last_modified.timestamp_millis());
                }
                LogFile::Checkpoint { version, parts } => {
                    let entry = listing.checkpoints.entry(version).or_insert((parts, Vec::new()));
                    entry.1.push(file.location);
                    let written = listing.written_ms.entry(version).or_insert(i64::MIN);
                    *written = (*written).max(file.last_modified.timestamp_millis());
                }
                LogFile::Other => {}
            }
        }
        Ok(listing)
    }

    /// What is needed to read the table at a version, or the newest one.
    async fn listing(&self, at: Option<i64>) -> Result<Listing> {
        let hint = self.newest_checkpoint().await?.filter(|hint| at.is_none_or(|at| *hint <= at));
        let listing = self.list(hint.unwrap_or(0)).await?;
        if hint.is_some() && listing.base(at).is_none() {
            // The hint was wrong, or an older checkpoint is wanted.
            return self.list(0).await;
        }
        Ok(listing)
    }

    async fn folded(&self, parts: Vec<Path>, decode: fn(Bytes) -> Result<Vec<Action>>) -> Result<Vec<Action>> {
        let mut actions = Vec::new();
        for part in parts {
            let missing = || Error::corrupt(format!("checkpoint {part} is gone"));
            let body = self.get(&part).await?.ok_or_else(missing)?;
            actions.extend(blocking("read a checkpoint", move || decode(body)).await??);
        }
        Ok(actions)
    }

    async fn start(&self, base: Option<(i64, Vec<Path>)>) -> Result<State> {
        let mut state = State::new(self.table);
        let Some((version, parts)) = base else { return Ok(state) };
        state.apply(version, &self.folded(parts, checkpoint::decode).await?)?;
        state.set_checkpoint(version);
        Ok(state)
    }

    /// Outcome of a PUT that found the version taken: an earlier attempt of ours may have got through unanswered.
    async fn settle(&self, version: i64, id: Option<&str>) -> Result<Option<Written>> {
        let Some(found) = self.read(version).await? else { return Ok(None) };
        let ours = id.is_some() && action::attempt(&found) == id;
        Ok(Some(if ours { Written::Ours } else { Written::Taken }))
    }
}

#[async_trait]
impl TableLog for DeltaLog {
    async fn load(&self, at: Option<i64>) -> Result<Option<State>> {
        let listing = self.listing(at).await?;
        if listing.commits.is_empty() && listing.checkpoints.is_empty() {
            return Ok(None);
        }
        let base = listing.base(at);
        let first = base.as_ref().map_or(0, |(version, _)| version + 1);
        let newest = listing.newest().unwrap_or(-1);
        let last = at.unwrap_or(newest);
        let headless = first == 0 && !listing.commits.contains(&0);
        if headless && at.is_none() {
            return Err(self.headless(newest));
        }
        if last > newest || last < 0 || headless {
            return Err(self.absent(last, newest));
        }
        // The checkpoint's own entry, if still there, is the only place that says when it was committed.
        let committed = match &base {
            Some((version, _)) => self.read(*version).await?.unwrap_or_default(),
            None => Vec::new(),
        };
        let mut state = self.start(base).await?;
        state.set_commit_time(&committed);
        let mut entries = pin!(self.entries(first, last));
        while let Some((version, actions)) = entries.try_next().await? {
            state.apply(version, &actions)?;
        }
        Ok(Some(state))
    }

    async fn removed(&self) -> Result<HashMap<String, i64>> {
        let listing = self.listing(None).await?;
        let (Some(newest), base) = (listing.newest(), listing.base(None)) else { return Ok(HashMap::new()) };
        let mut removed = HashMap::new();
        // Who removes notes the time before others see it, and a store may stall between the two: readers count from when they saw it.
        let mut note = |actions: Vec<Action>, seen_ms: &dyn Fn(i64) -> i64| {
            for remove in actions.into_iter().filter_map(|action| action.remove) {
                // Without a time it counts as removed just now, for as long as the log knows of it.
                let at = remove.deletion_timestamp.map_or(i64::MAX, |at| at.max(seen_ms(at)));
                removed.insert(state::lake_path(self.table, &remove.path), at);
            }
        };
        let first = base.as_ref().map_or(0, |(version, _)| version + 1);
        if let Some((version, parts)) = base {
            let folded_ms = listing.written_ms.get(&version).copied().unwrap_or(i64::MAX);
            let seen_ms = |at: i64| folded_ms.min(at.saturating_add(COMMIT_MS_MAX));
            note(self.folded(parts, checkpoint::decode_tombstones).await?, &seen_ms);
        }
        let mut entries = pin!(self.entries(first, newest));
        while let Some((version, actions)) = entries.try_next().await? {
            let seen_ms = listing.committed_ms.get(&version).copied().unwrap_or(i64::MIN);
            note(actions, &|_| seen_ms);
        }
        Ok(removed)
    }

    async fn read(&self, version: i64) -> Result<Option<Vec<Action>>> {
        let body = self.get(&layout::commit_path(self.table, version)).await?;
        body.map(|body| action::decode(&body)).transpose()
    }

    async fn holds(&self, version: i64) -> Result<bool> {
        let path = layout::commit_path(self.table, version);
        match self.store.lake.head(&path).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(failure(format!("look at {path}"), error)),
        }
    }

    async fn write(&self, version: i64, actions: &[Action]) -> Result<Written> {
        let path = layout::commit_path(self.table, version);
        let body = Bytes::from(action::encode(actions)?);
        let id = action::attempt(actions);
        let mut pause = WRITE_PAUSE;
        for attempt in 1.. {
            let put = self.store.lake.put_opts(&path, body.clone().into(), PutMode::Create.into()).await;
            let error = match put {
                Ok(_) => return Ok(Written::Ours),
                Err(error) => error,
            };
            if let object_store::Error::AlreadyExists { .. } = error {
                return self.settle(version, id).await?.ok_or_else(|| failure(format!("write {path}"), error));
            }
            let error = failure(format!("write {path}"), error);
            if error.kind().retry_after().is_none() {
                return Err(error);
            }
            if attempt == WRITE_ATTEMPTS {
                return self.settle(version, id).await?.ok_or(error);
            }
            self.clock.sleep(pause).await;
            pause *= 2;
        }
        Err(Error::internal("a loop without end ended"))
    }

    async fn checkpoint(&self, version: i64) -> Result<()> {
        let Some(log) = self.copy(version).await? else { return Ok(()) };
        let table = self.table;
        let fold = move || fold::fold(table, version, log);
        let folded = in_background(format!("fold the log of table {}", table.name), fold).await?;
        let (notes, files): (Vec<_>, Vec<_>) = folded.into_iter().partition(|(path, _)| self.is_hint(path));
        for (path, body) in files {
            match self.store.lake.put_opts(&path, body.into(), PutMode::Create.into()).await {
                Ok(_) => {}
                // Another process wrote it, and its bytes may differ: its note belongs to it, ours would not.
                Err(object_store::Error::AlreadyExists { .. }) => return Ok(()),
                Err(error) => return Err(failure(format!("write {path}"), error)),
            }
        }
        for (path, body) in notes {
            self.store.lake.put(&path, body.into()).await.map_err(|e| failure(format!("write {path}"), e))?;
        }
        Ok(())
    }

    async fn clean_up(&self, since_ms: i64, most: usize) -> Result<usize> {
        let listing = self.list(0).await?;
        // All versions since then start from this checkpoint or from a newer one.
        let Some(first) = listing.last_finished_before(since_ms) else { return Ok(0) };
        let commits = listing.commits.range(..first).map(|version| layout::commit_path(self.table, *version));
        let folded = listing.checkpoints.range(..first).flat_map(|(_, (_, files))| files.iter().cloned());
        // Oldest first, so that what is left has no gap.
        let paths: Vec<_> = folded.chain(commits).take(most).collect();
        let count = paths.len();
        self.store.delete(paths).await?;
        Ok(count)
    }

    async fn newest_checkpoint(&self) -> Result<Option<i64>> {
        let Some(body) = self.get(&layout::checkpoint_hint_path(self.table)).await? else { return Ok(None) };
        // A hint that cannot be read costs a longer listing, nothing else.
        Ok(serde_json::from_slice::<CheckpointHint>(&body).ok().map(|hint| hint.version))
    }
}

impl DeltaLog {
    /// The objects of the log that make up a version: a checkpoint and the entries after it; `None` if it is itself one.
    async fn copy(&self, version: i64) -> Result<Option<Vec<(Path, Bytes)>>> {
        let listing = self.listing(Some(version)).await?;
        let base = listing.base(Some(version));
        if base.as_ref().is_some_and(|(base, _)| *base == version) {
            return Ok(None);
        }
        let first = base.as_ref().map_or(0, |(version, _)| version + 1);
        let entries = (first..=version).map(|version| layout::commit_path(self.table, version));
        let paths = base.into_iter().flat_map(|(_, parts)| parts).chain(entries);
        let copies = paths.map(|path| async move {
            let gap = || Error::corrupt(format!("log of table {} lacks {path}", self.table.name));
            let body = self.get(&path).await?.ok_or_else(gap)?;
            Ok((path, body))
        });
        let copies: Vec<_> = copies.collect();
        stream::iter(copies).buffered(READ_AHEAD).try_collect().await.map(Some)
    }

    /// The lines of some versions, in order.
    fn entries(&self, first: i64, last: i64) -> impl Stream<Item = Result<(i64, Vec<Action>)>> + Send + '_ {
        let read = move |version| async move {
            let gap = || Error::corrupt(format!("log of table {} lacks version {version}", self.table.name));
            Ok((version, self.read(version).await?.ok_or_else(gap)?))
        };
        stream::iter(first..=last).map(read).buffered(READ_AHEAD)
    }

    fn is_hint(&self, path: &Path) -> bool {
        path.filename() == layout::checkpoint_hint_path(self.table).filename()
    }

    /// Nobody cleans up what the newest version needs, so somebody else did it.
    fn headless(&self, newest: i64) -> Error {
        let (table, folder) = (self.table.name, layout::log_folder(self.table));
        Error::corrupt(format!("the log of table {table} goes to version {newest}, but how it began is missing"))
            .with_hint(format!("{folder} of the lake was removed or lost files; {RESTORE}"))
    }

    fn absent(&self, wanted: i64, newest: i64) -> Error {
        let error = Error::not_found(format!("table {} has no version {wanted}", self.table.name));
        if wanted > newest {
            return error.with_hint(format!("its newest version is {newest}"));
        }
        error.with_hint("older versions have been cleaned up")
    }
}

impl Listing {
    /// The newest complete checkpoint that is not newer than `at`.
    fn base(&self, at: Option<i64>) -> Option<(i64, Vec<Path>)> {
        let complete = |(version, (parts, files)): (&i64, &(usize, Vec<Path>))| {
            (files.len() == *parts && at.is_none_or(|at| *version <= at)).then(|| (*version, files.clone()))
        };
        self.checkpoints.iter().rev().find_map(complete)
    }

    /// The newest complete checkpoint that was finished before a time.
    fn last_finished_before(&self, ms: i64) -> Option<i64> {
        let finished = |(version, written): (&i64, &i64)| {
            let (parts, files) = self.checkpoints.get(version)?;
            (*written < ms && files.len() == *parts).then_some(*version)
        };
        self.written_ms.iter().rev().find_map(finished)
    }

    fn newest(&self) -> Option<i64> {
        let checkpoint = self.base(None).map(|(version, _)| version);
        self.commits.last().copied().max(checkpoint)
    }
}

#[cfg(test)]
mod tests;
