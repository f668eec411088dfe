//! What must hold at every version: no item is there twice, none is gone again before its time, and what the log names can be
//! read for as long as it promises. And at the end: every acknowledged item is one row.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use lake::{File, Lake, Snapshot};
use object_store::ObjectStoreExt;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use service::clock::Clock;
use telemetry::table::{DEVICES, HISTOGRAMS, LOGS, METRICS, QUARANTINE, REQUESTS, SPANS, TOKENS, Table};

use super::clock::SimClock;
use super::load::{self, Item, KEPT, Ledger, Sent};
use super::store::Bucket;

/// Tables in which items may end.
pub(super) const TABLES: [&Table; 8] =
    [&TOKENS, &REQUESTS, &SPANS, &LOGS, &METRICS, &HISTOGRAMS, &DEVICES, &QUARANTINE];

/// How long a replaced file stays, and how far the processes' notion of the time may be off.
pub(super) const GRACE: Duration = Duration::from_secs(40);
const TOLERANCE: Duration = Duration::from_secs(10);

/// A reader that looks at the tables every so often and remembers what it saw.
pub(super) struct Reader {
    bucket: Bucket,
    ledger: Ledger,
    /// What is in each file; files never change.
    files: HashMap<String, Vec<Item>>,
    /// Version of each table the last time, and what it held.
    versions: [i64; TABLES.len()],
    seen: [BTreeSet<Item>; TABLES.len()],
    /// Versions that somebody may still read, and since when they are not the newest any more.
    held: VecDeque<(Duration, Arc<Snapshot>)>,
}

impl Reader {
    pub(super) fn new(bucket: &Bucket, ledger: &Ledger) -> Self {
        let (bucket, ledger) = (bucket.clone(), Arc::clone(ledger));
        let (versions, seen) = ([-1; TABLES.len()], Default::default());
        Self { bucket, ledger, files: HashMap::new(), versions, seen, held: VecDeque::new() }
    }

    /// Looks at the newest versions.
    ///
    /// # Panics
    /// If an item is there twice, or is gone again before its time, or a file is gone that a version of late names.
    pub(super) async fn look(&mut self, lake: &Lake, clock: &SimClock) {
        let now = clock.monotonic();
        for (place, table) in TABLES.iter().enumerate() {
            let snapshot = lake.snapshot(table.name, None).await.unwrap();
            assert!(snapshot.version >= self.versions[place], "{} went back", table.name);
            self.versions[place] = snapshot.version;
            let items = self.items(&snapshot).await;
            let set: BTreeSet<Item> = items.iter().copied().collect();
            assert_eq!(set.len(), items.len(), "version {} of {} holds an item twice", snapshot.version, table.name);
            for gone in self.seen[place].difference(&set) {
                assert!(self.due(*gone, clock), "{gone:?} was in {} and is gone at {}", table.name, snapshot.version);
            }
            self.seen[place] = set;
            self.held.retain(|(_, held)| held.table != *table || held.version != snapshot.version);
            self.held.push_back((now, snapshot));
        }
        while let Some((at, held)) = self.held.pop_front_if(|(at, _)| now - *at >= GRACE - TOLERANCE) {
            // After everything has slept a file may have gone in good time.
            if now - at < GRACE {
                self.check(lake, &held, now).await;
            }
        }
    }

    /// Whoever opened a version a grace period ago can still read it, and so can who asks for it by number.
    async fn check(&self, lake: &Lake, held: &Snapshot, now: Duration) {
        let (name, version) = (held.table.name, held.version);
        for file in &held.files {
            let found = self.bucket.objects.head(&file.path.as_str().into()).await;
            assert!(found.is_ok(), "version {version} of {name} lost {} too soon, by {now:?}", file.path);
        }
        if version >= 0 {
            let paths =
                |snapshot: &Snapshot| snapshot.files.iter().map(|file| file.path.clone()).collect::<BTreeSet<_>>();
            assert_eq!(paths(&lake.snapshot(name, Some(version)).await.unwrap()), paths(held), "{name} at {version}");
        }
    }

    async fn items(&mut self, snapshot: &Snapshot) -> Vec<Item> {
        let mut items = Vec::new();
        for file in &snapshot.files {
            if !self.files.contains_key(&file.path) {
                let read = read(&self.bucket, snapshot.table, file).await;
                self.files.insert(file.path.clone(), read);
            }
            items.extend_from_slice(&self.files[&file.path]);
        }
        items
    }

    /// Whether retention may have dropped an item.
    fn due(&self, item: Item, clock: &SimClock) -> bool {
        let sent = self.ledger.lock().get(&item).copied().unwrap_or_default();
        sent.time_ns + u64::try_from(KEPT.as_nanos()).unwrap() <= clock.true_ns()
    }

    /// What must hold at the end: every acknowledged item is one row, no item is two, and what the log names can be read.
    ///
    /// # Panics
    /// If an item is lost or doubled.
    pub(super) async fn verify(&mut self, lake: &Lake, clock: &SimClock) {
        self.look(lake, clock).await;
        let mut found: BTreeMap<Item, u32> = BTreeMap::new();
        self.seen.iter().flatten().for_each(|item| *found.entry(*item).or_default() += 1);
        let ledger = self.ledger.lock().clone();
        for (item, Sent { acknowledged, .. }) in ledger {
            let count = found.remove(&item).unwrap_or_default();
            assert!(count <= 1, "{item:?} is there {count} times (acknowledged: {acknowledged})");
            assert!(count == 1 || !acknowledged || self.due(item, clock), "{item:?} was acknowledged and is lost");
        }
        assert!(found.is_empty(), "nobody sent {found:?}");
    }
}

async fn read(bucket: &Bucket, table: &Table, file: &File) -> Vec<Item> {
    let body = bucket.objects.get(&file.path.as_str().into()).await;
    let body = body.unwrap_or_else(|error| panic!("{} is named and cannot be read: {error}", file.path));
    let builder = ParquetRecordBatchReaderBuilder::try_new(body.bytes().await.unwrap()).unwrap();
    let columns = ["trace_id", "host_id", "signal", "name", "body"];
    let mask = ProjectionMask::columns(builder.parquet_schema(), columns);
    let batches: Vec<_> = builder.with_projection(mask).build().unwrap().map(Result::unwrap).collect();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(file.rows, Some(rows as u64), "rows of {}", file.path);
    batches.iter().flat_map(|batch| items(table, batch)).collect()
}

fn items(table: &Table, batch: &RecordBatch) -> Vec<Item> {
    let texts = |column: &str| -> Vec<Option<String>> {
        let Some(column) = batch.column_by_name(column) else { return vec![None; batch.num_rows()] };
        let column = arrow::compute::cast(column, &arrow::datatypes::DataType::Utf8).unwrap();
        column.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    };
    let [traces, hosts, signals, names, bodies] = ["trace_id", "host_id", "signal", "name", "body"].map(texts);
    let item = |row: usize| {
        // A log record in quarantine has its ids in its body alone.
        let in_body = || {
            let (_, rest) = bodies[row].as_ref()?.split_once("\"traceId\":\"")?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        let key = hosts[row].clone().or_else(|| traces[row].clone()).or_else(in_body).unwrap();
        let key = u128::from_str_radix(&key, 16).unwrap();
        match &signals[row] {
            Some(signal) => load::items(signal, names[row].as_deref().unwrap_or_default(), key),
            None => vec![Item { table: table.name, key }],
        }
    };
    (0..batch.num_rows()).flat_map(item).collect()
}
