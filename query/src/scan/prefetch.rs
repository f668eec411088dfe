//! Footers of files that were just committed, read before a query needs them: over a network the first query after a commit would
//! wait for them.
//!
//! Only tables that queries named lately are looked after, and of each at most the newest files of a round.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use datafusion::{
    datasource::physical_plan::parquet::metadata::DFParquetMetadata, execution::cache::cache_manager::FileMetadataCache,
};
use futures::{StreamExt, stream};
use lake::{File, Lake, Snapshot};
use object_store::ObjectStore;
use parking_lot::Mutex;
use service::{Deps, clock::SharedClock, shutdown::Stage};

use super::{FOOTER_BYTES, partitioned};

/// How often tables are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A table that no query named in this time is left alone.
const ASKED_FOR: Duration = Duration::from_secs(60);
/// Footers read at once.
const AT_ONCE: usize = 4;
/// Footers read in one round of one table, the newest ones.
const ROUND_MAX: usize = 64;

/// Which tables queries named, and when.
pub(crate) struct Asked {
    clock: SharedClock,
    tables: Mutex<BTreeMap<&'static str, Duration>>,
}

impl Asked {
    /// Nobody has asked yet.
    pub(crate) fn new(clock: SharedClock) -> Arc<Asked> {
        Arc::new(Asked { clock, tables: Mutex::default() })
    }

    /// A query names a table.
    pub(crate) fn note(&self, table: &'static str) {
        self.tables.lock().insert(table, self.clock.monotonic());
    }

    fn lately(&self) -> Vec<&'static str> {
        let now = self.clock.monotonic();
        let tables = self.tables.lock();
        tables.iter().filter(|(_, at)| now.saturating_sub(**at) < ASKED_FOR).map(|(table, _)| *table).collect()
    }
}

/// Reads footers into the cache that scans look in.
pub(crate) struct Prefetch {
    lake: Lake,
    store: Arc<dyn ObjectStore>,
    footers: Arc<FileMetadataCache>,
    asked: Arc<Asked>,
    /// Paths of each table's files so far, among them some that are gone.
    seen: BTreeMap<&'static str, HashSet<String>>,
}

impl Prefetch {
    /// Footers come from `store` into `footers`.
    pub(crate) fn new(
        lake: Lake,
        store: Arc<dyn ObjectStore>,
        footers: Arc<FileMetadataCache>,
        asked: Arc<Asked>,
    ) -> Prefetch {
        Prefetch { lake, store, footers, asked, seen: BTreeMap::new() }
    }

    /// Goes on until shutdown.
    pub(crate) fn in_background(mut self, deps: &Deps) {
        let (clock, stop) = (Arc::clone(&deps.clock), deps.shutdown.token(Stage::Query));
        deps.tasks.spawn("query.prefetch", async move {
            let work = async {
                loop {
                    clock.sleep(LOOK_EVERY).await;
                    self.round().await;
                }
            };
            // Cancel safe: a footer is in the cache or it is not.
            tokio::select! {
                () = work => (),
                () = stop.cancelled() => (),
            }
        });
    }

    /// Reads what is new in the tables that are asked for.
    async fn round(&mut self) {
        for table in self.asked.lately() {
            // Whoever queries the table meets the error.
            let Ok(snapshot) = self.lake.snapshot(table, None).await else { continue };
            let new = self.new_files(table, &snapshot);
            stream::iter(new).for_each_concurrent(AT_ONCE, |file| self.footer(file)).await;
        }
    }

    /// The newest of those that were not there the last time. What was there costs nothing: it comes first in a snapshot.
    fn new_files(&mut self, table: &'static str, snapshot: &Snapshot) -> Vec<Arc<File>> {
        let seen = self.seen.entry(table).or_default();
        let new: Vec<_> = snapshot.files.iter().rev().take_while(|file| !seen.contains(&file.path)).cloned().collect();
        seen.extend(new.iter().map(|file| file.path.clone()));
        if seen.len() > snapshot.files.len() * 2 + ROUND_MAX {
            *seen = snapshot.files.iter().map(|file| file.path.clone()).collect();
        }
        new.into_iter().take(ROUND_MAX).collect()
    }

    async fn footer(&self, file: Arc<File>) {
        let meta = partitioned(&file).object_meta;
        let read = DFParquetMetadata::new(self.store.as_ref(), &meta)
            .with_metadata_size_hint(Some(FOOTER_BYTES))
            .with_file_metadata_cache(Some(Arc::clone(&self.footers)));
        if let Err(error) = read.fetch_metadata().await {
            tracing::debug!(path = file.path, error = error.to_string(), "footer not read ahead");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow::{
        array::{ArrayRef, RecordBatch, TimestampMicrosecondArray},
        datatypes::{DataType, Field, Schema, TimeUnit},
    };
    use datafusion::execution::runtime_env::RuntimeEnv;
    use lake::Entry;
    use object_store::{memory::InMemory, path::Path};
    use telemetry::table::TOKENS;

    use super::*;

    /// A clock that is set by hand.
    #[derive(Default)]
    struct Hand(Mutex<Duration>);

    impl service::clock::Clock for Hand {
        fn now_ns(&self) -> i64 {
            0
        }

        fn monotonic(&self) -> Duration {
            *self.0.lock()
        }
    }

    async fn commit(lake: &Lake, from: u64) -> Path {
        let kind = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let schema = Arc::new(Schema::new(vec![Field::new("time", kind, false)]));
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![7]).with_timezone("UTC"));
        let rows = RecordBatch::try_new(schema, vec![times]).expect("a batch");
        let file = lake.write(&TOKENS, "1970-01-01", &format!("{from}.parquet"), &[rows]).await.expect("written");
        let path = Path::from(file.path.as_str());
        let entry = Entry { journal: "j".to_owned(), table: "tokens", from, to: from + 1, adds: vec![file] };
        lake.commit(entry).await.expect("committed");
        path
    }

    fn file(number: usize) -> Arc<File> {
        Arc::new(File {
            path: format!("tokens/{number}.parquet"),
            size: 1,
            rows: Some(1),
            date: "1970-01-01".to_owned(),
            modified_ms: 0,
            stats: BTreeMap::new(),
            tags: BTreeMap::new(),
        })
    }

    /// Each file is new once, also after those before it were compacted; what is remembered does not outgrow the table.
    #[tokio::test]
    async fn a_file_is_new_once() {
        let lake = Lake::open_on(Arc::new(InMemory::new()), &Deps::system()).await.expect("a lake");
        let footers = RuntimeEnv::default().cache_manager.get_file_metadata_cache();
        let asked = Asked::new(Arc::new(Hand::default()) as SharedClock);
        let mut prefetch = Prefetch::new(lake.clone(), lake.store(), footers, asked);
        let mut new = |files: &[usize]| {
            let files = files.iter().map(|number| file(*number)).collect();
            let snapshot = Snapshot { table: &TOKENS, version: 0, committed_at_us: None, files, newest_time_us: None };
            let new = prefetch.new_files("tokens", &snapshot);
            let paths: Vec<_> = new.iter().map(|file| file.path.clone()).collect();
            (paths, prefetch.seen["tokens"].len())
        };
        let named = |numbers: &[usize]| numbers.iter().map(|number| file(*number).path.clone()).collect::<Vec<_>>();
        assert_eq!(new(&[0, 1]), (named(&[1, 0]), 2));
        assert_eq!(new(&[0, 1]), (vec![], 2));
        assert_eq!(new(&[0, 1, 2, 3]), (named(&[3, 2]), 4));
        assert_eq!(new(&[3, 9]), (named(&[9]), 5));
        let many: Vec<_> = (10..10 + 2 * ROUND_MAX).collect();
        let newest: Vec<_> = many.iter().rev().take(ROUND_MAX).copied().collect();
        assert_eq!(new(&many), (named(&newest), 5 + 2 * ROUND_MAX));
        assert_eq!(new(&[many[0], 1_000]), (named(&[1_000]), 2));
    }

    /// A file's footer is there after the commit, while the table is asked for and not after.
    #[tokio::test]
    async fn footers_of_new_files_are_read_while_their_table_is_asked_for() {
        let lake = Lake::open_on(Arc::new(InMemory::new()), &Deps::system()).await.expect("a lake");
        let footers = RuntimeEnv::default().cache_manager.get_file_metadata_cache();
        let clock = Arc::new(Hand::default());
        let asked = Asked::new(Arc::clone(&clock) as SharedClock);
        let mut prefetch = Prefetch::new(lake.clone(), lake.store(), Arc::clone(&footers), Arc::clone(&asked));
        let first = commit(&lake, 0).await;
        prefetch.round().await;
        assert!(!footers.contains_key(&first), "nobody asked");
        asked.note("tokens");
        prefetch.round().await;
        assert!(footers.contains_key(&first));
        let second = commit(&lake, 1).await;
        *clock.0.lock() += ASKED_FOR;
        prefetch.round().await;
        assert!(!footers.contains_key(&second), "it was long ago");
        asked.note("tokens");
        prefetch.round().await;
        assert!(footers.contains_key(&second));
    }
}
