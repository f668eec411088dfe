//! A lake: where collectors write and queries read.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow::array::RecordBatch;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt, PutMode, path::Path};
use service::clock::SharedClock;
use service::shutdown::Stage;
use service::task::blocking;
use service::{Deps, Error, Result};
use telemetry::table::{TABLES, Table};
use url::Url;

use crate::commit::{Change, Committer, Effect, Entry, Outcome};
use crate::encode::{Encoded, encode, encode_sorted};
use crate::head::Head;
use crate::layout;
use crate::log::delta::DeltaLog;
use crate::log::schema::{self, Difference};
use crate::snapshot::{File, FileAdd, SORT_TAG, Snapshot, order_tag};
use crate::store::{Access, Store, failure};

/// How often the log is asked for its next entry, for tables that readers asked for lately.
const REFRESH_EVERY: Duration = Duration::from_millis(250);
/// Tables opened at once.
const OPEN_AT_ONCE: usize = 8;

/// A lake. Clones share it.
#[derive(Clone)]
pub struct Lake {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    store: Arc<Store>,
    access: Access,
    clock: SharedClock,
    tables: BTreeMap<&'static str, Shelf>,
}

/// What is kept per table.
pub(crate) struct Shelf {
    pub(crate) head: Arc<Head>,
    committer: Committer,
}

/// Files that take the place of others.
pub(crate) struct Swap {
    pub(crate) adds: Vec<FileAdd>,
    /// Paths relative to the lake.
    pub(crate) removes: Vec<String>,
    pub(crate) effect: Effect,
    /// [`crate::commit::sweeps`] before the first of `adds` was begun.
    pub(crate) sweeps: u64,
    /// When that is, microseconds since 1970-01-01 UTC.
    pub(crate) now_us: i64,
}

impl Lake {
    /// Opens a lake for reading and writing: a directory, which is made if need be, or `s3://bucket/prefix`.
    ///
    /// # Errors
    /// `Denied`, `Invalid`, `NotFound`, `Unavailable`; `Conflict` if the store ignores conditional PUTs, or a table is newer than
    /// this program.
    pub async fn open(place: &str, deps: &Deps) -> Result<Lake> {
        let lake = Lake::on(Store::open(place, Access::Write).await?, deps, Access::Write);
        lake.check().await?;
        Ok(lake)
    }

    /// Sees to it that no table is newer than this program.
    async fn check(&self) -> Result<()> {
        let checks = stream::iter(self.shared.tables.values().map(|shelf| check(&shelf.head)));
        checks.buffer_unordered(OPEN_AT_ONCE).try_collect::<()>().await
    }

    /// Opens a lake for reading and writing on a store of the caller's making, such as one in memory, or one that is slow or
    /// fails on purpose. Paths are relative to it.
    ///
    /// # Errors
    /// As [`Lake::open`].
    pub async fn open_on(store: Arc<dyn ObjectStore>, deps: &Deps) -> Result<Lake> {
        let store = Store::over(store)?.ready(Access::Write).await?;
        let lake = Lake::on(store, deps, Access::Write);
        lake.check().await.map(|()| lake)
    }

    /// Opens a lake for reading only. Nothing is written, not even a probe.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory or bucket, `Denied`, `Invalid`, `Unavailable`.
    pub async fn open_read_only(place: &str, deps: &Deps) -> Result<Lake> {
        Ok(Lake::on(Store::open(place, Access::Read).await?, deps, Access::Read))
    }

    /// A lake on an opened store. Nothing is read yet.
    pub(crate) fn on(store: Store, deps: &Deps, access: Access) -> Lake {
        let store = Arc::new(store);
        let shelf = |table: &'static Table| {
            let log = Arc::new(DeltaLog::new(table, Arc::clone(&store), Arc::clone(&deps.clock)));
            let head = Arc::new(Head::new(table, log, Arc::clone(&deps.clock)));
            (table.name, Shelf { committer: Committer::new(Arc::clone(&head), deps), head })
        };
        let tables = TABLES.iter().copied().map(shelf).collect();
        let shared = Arc::new(Shared { store, access, clock: Arc::clone(&deps.clock), tables });
        let stop = deps.shutdown.token(Stage::Query);
        let lake = Lake { shared };
        let refresh = refresh_until_dropped(lake.downgrade(), Arc::clone(&deps.clock));
        deps.tasks.spawn("lake.refresh", async move {
            // Cancel safe: a refresh cut short leaves the last version in place.
            tokio::select! {
                () = refresh => (),
                () = stop.cancelled() => (),
            }
        });
        lake
    }

    /// The lake's store; paths are relative to the lake, as in [`File::path`].
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.shared.store.lake)
    }

    /// Where the lake lies, with a slash at its end.
    pub fn url(&self) -> &Url {
        &self.shared.store.url
    }

    /// Writes rows of one date as a file of a table. Readers see it once it is committed.
    ///
    /// Columns are those of the registry, in any order; one that is left out is NULL. `name` must not have been used for other
    /// rows: writing the same rows again after an error is fine.
    ///
    /// # Errors
    /// `Invalid`, `Denied`, `Unavailable`.
    ///
    /// # Cancel safety
    /// A dropped call leaves at most a file that no commit names.
    pub async fn write(
        &self,
        table: &'static Table,
        date: &str,
        name: &str,
        batches: &[RecordBatch],
    ) -> Result<FileAdd> {
        self.writable()?;
        let path = layout::data_path(table, date, name)?;
        let batches = batches.to_vec();
        let encoded = blocking("encode a file", move || encode(table, &batches)).await??;
        self.place(path, date, encoded, BTreeMap::new()).await
    }

    /// Like [`Lake::write`], for rows that come in the table's order: the file says so to readers, is compressed with more effort
    /// and is made piece by piece.
    ///
    /// # Errors
    /// As [`Lake::write`]; `Invalid` too if the rows come in another order.
    ///
    /// # Cancel safety
    /// As [`Lake::write`].
    pub async fn write_sorted(
        &self,
        table: &'static Table,
        date: &str,
        name: &str,
        batches: impl Iterator<Item = RecordBatch> + Send + 'static,
    ) -> Result<FileAdd> {
        self.writable()?;
        let path = layout::data_path(table, date, name)?;
        let encoded = blocking("encode a file", move || encode_sorted(table, batches)).await??;
        let tags = BTreeMap::from([(SORT_TAG.to_owned(), order_tag(table))]);
        self.place(path, date, encoded, tags).await
    }

    async fn place(
        &self,
        path: String,
        date: &str,
        encoded: Encoded,
        tags: BTreeMap<String, String>,
    ) -> Result<FileAdd> {
        let size = encoded.body.len() as u64;
        self.put(&Path::from(path.as_str()), encoded.body).await?;
        Ok(File {
            path,
            size,
            rows: Some(encoded.rows),
            date: date.to_owned(),
            modified_ms: self.shared.clock.now_us().div_euclid(1_000),
            stats: encoded.stats,
            tags,
        })
    }

    pub(crate) async fn put(&self, path: &Path, body: bytes::Bytes) -> Result<()> {
        let size = body.len() as u64;
        let store = &self.shared.store.lake;
        match store.put_opts(path, body.into(), PutMode::Create.into()).await {
            Ok(_) => Ok(()),
            Err(error @ object_store::Error::AlreadyExists { .. }) => {
                // An earlier attempt whose answer was lost wrote the same bytes.
                let there = store.head(path).await.map_err(|e| failure(format!("look at {path}"), e))?;
                if there.size == size { Ok(()) } else { Err(failure(format!("write {path}"), error)) }
            }
            Err(error) => Err(failure(format!("write {path}"), error)),
        }
    }

    /// Deletes objects of the lake.
    pub(crate) async fn delete(&self, paths: Vec<Path>) -> Result<()> {
        self.writable()?;
        self.shared.store.delete(paths).await
    }

    /// Makes an entry's files part of its table, once. See [`Outcome`].
    ///
    /// # Errors
    /// `Invalid`, `Conflict`, `Denied`, `Corrupt`; `Overloaded` and `Unavailable`, after which the entry may or may not have been
    /// applied and can be sent again.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been applied; it can be sent again.
    pub async fn commit(&self, entry: Entry) -> Result<Outcome> {
        self.submit(Change::advance(entry, Vec::new())).await
    }

    /// Like [`Lake::commit`], for a process that commits for others: a table gets at most one version in `every`, and all
    /// entries that come in between share it. The first after a pause does not wait.
    ///
    /// # Errors
    /// As [`Lake::commit`].
    ///
    /// # Cancel safety
    /// As [`Lake::commit`].
    pub async fn commit_at_pace(&self, entry: Entry, every: Duration) -> Result<Outcome> {
        self.writable()?;
        let change = Change::advance(entry, Vec::new());
        self.shelf(change.entry.table)?.committer.submit(change, Some(every)).await
    }

    /// Like [`Lake::commit`], and takes out other files in the same version. If one of them is already gone, nothing happens.
    ///
    /// # Errors
    /// As [`Lake::commit`].
    ///
    /// # Cancel safety
    /// As [`Lake::commit`].
    pub async fn replace(&self, entry: Entry, removes: Vec<String>) -> Result<Outcome> {
        self.submit(Change::advance(entry, removes)).await
    }

    /// Takes files out of a table and puts others, or nothing, in their place. `Conflict` if one of them is already gone, or the
    /// new ones may be.
    pub(crate) async fn swap(&self, table: &'static Table, swap: Swap) -> Result<Outcome> {
        let Swap { adds, removes, effect, sweeps, now_us } = swap;
        let entry = Entry { journal: String::new(), table: table.name, from: 0, to: 0, adds };
        self.submit(Change { entry, removes, effect, sweeps, removed_us: Some(now_us) }).await
    }

    async fn submit(&self, change: Change) -> Result<Outcome> {
        self.writable()?;
        self.shelf(change.entry.table)?.committer.submit(change, None).await
    }

    /// The frame up to which a journal's rows are in a table; `None` if it has none there.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    pub async fn through(&self, table: &'static Table, journal: &str) -> Result<Option<u64>> {
        let head = &self.shelf(table.name)?.head;
        let mut known = head.lock().await?;
        head.catch_up(&mut known).await?;
        Ok(known.state.through(journal))
    }

    /// A table at a version, or the newest one. The newest is at most half a second behind the log, and never behind a commit
    /// made through this lake. A table that nobody has written to is empty at version -1.
    ///
    /// # Errors
    /// `NotFound` for a table or version that does not exist, `Corrupt`, `Unavailable`.
    pub async fn snapshot(&self, table: &str, version: Option<i64>) -> Result<Arc<Snapshot>> {
        let head = &self.shelf(table)?.head;
        match version {
            None => head.newest().await,
            Some(version) => head.at(version).await,
        }
    }

    pub(crate) fn downgrade(&self) -> WeakLake {
        WeakLake { shared: Arc::downgrade(&self.shared) }
    }

    pub(crate) fn shelf(&self, table: &str) -> Result<&Shelf> {
        let unknown = || Error::not_found(format!("there is no table `{table}`"));
        self.shared.tables.get(table).ok_or_else(unknown)
    }

    pub(crate) fn heads(&self) -> impl Iterator<Item = &Arc<Head>> {
        self.shared.tables.values().map(|shelf| &shelf.head)
    }

    pub(crate) fn writable(&self) -> Result<()> {
        match self.shared.access {
            Access::Write => Ok(()),
            Access::Read => Err(Error::denied(format!("the lake at {} was opened for reading only", self.url()))),
        }
    }
}

/// A lake as background tasks hold it: they end when nobody else does.
pub(crate) struct WeakLake {
    shared: Weak<Shared>,
}

impl WeakLake {
    pub(crate) fn upgrade(&self) -> Option<Lake> {
        self.shared.upgrade().map(|shared| Lake { shared })
    }
}

/// A writer must know every column there is.
async fn check(head: &Head) -> Result<()> {
    let known = head.lock().await?;
    match known.state.difference() {
        Difference::None | Difference::Older(_) => Ok(()),
        Difference::Newer(columns) => Err(schema::newer(head.table, columns)),
    }
}

async fn refresh_until_dropped(lake: WeakLake, clock: SharedClock) {
    loop {
        clock.sleep(REFRESH_EVERY).await;
        let Some(lake) = lake.upgrade() else { return };
        let looks = lake.heads().map(|head| async {
            // Readers meet the same error when they ask, so here it is only worth a note.
            head.refresh_if_wanted().await.inspect_err(|e| {
                tracing::debug!(table = head.table.name, error = service::error::chain(e), "refresh");
            })
        });
        futures::future::join_all(looks).await;
    }
}

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod s3_tests;
#[cfg(test)]
mod tests;
