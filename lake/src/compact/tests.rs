use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use object_store::ObjectStoreExt;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use service::{Deps, Kind};
use telemetry::table::TOKENS;

use super::{Compaction, Times, compacts, plan, write};
use crate::sample::{DATE, entry, lake, offer, token};
use crate::snapshot::Snapshot;
use crate::{Entry, Lake};

/// Half an hour after the rows of the samples, so that their quarter is closed.
const LATER_US: i64 = 1_795_910_400_000_000 + 30 * 60_000_000;
/// A little after their minute is closed.
pub(super) const SOON_US: i64 = 1_795_910_400_000_000 + 120_000_000;

/// The column `index` of all rows of a version.
pub(super) async fn indices(lake: &Lake, snapshot: &Snapshot) -> Vec<i64> {
    let mut all = Vec::new();
    for file in &snapshot.files {
        let body = lake.store().get(&file.path.as_str().into()).await.expect("there").bytes().await.expect("read");
        let reader = ParquetRecordBatchReaderBuilder::try_new(body).expect("a file").build().expect("readable");
        for batch in reader {
            let batch: RecordBatch = batch.expect("readable");
            all.extend_from_slice(batch["index"].as_primitive::<Int64Type>().values());
        }
    }
    all
}

pub(super) async fn newest(lake: &Lake) -> Arc<Snapshot> {
    lake.snapshot("tokens", None).await.expect("readable")
}

#[tokio::test]
async fn rows_stay_the_same_files_become_one_and_the_journal_keeps_its_mark() {
    let folder = tempfile::tempdir().expect("a folder");
    let (lake, deps) = (lake(&folder).await, Deps::system());
    for frame in (0..6).rev() {
        offer(&lake, &format!("j{frame}"), 0).await.expect("committed");
    }
    for frame in 1..6 {
        offer(&lake, "j0", frame).await.expect("committed");
    }
    let before = newest(&lake).await;
    let mut compaction = Compaction::new(&deps);
    let done = compaction.step(&lake, &TOKENS, Times::at(SOON_US)).await.expect("merged");
    assert!(done.is_some());
    let after = newest(&lake).await;
    assert_eq!((before.files.len(), after.files.len(), after.version), (11, 1, before.version + 1));
    assert_eq!((after.rows(), after.newest_time_us), (before.rows(), before.newest_time_us));
    assert_eq!(indices(&lake, &after).await, [0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5], "sorted");
    let tags: Vec<_> = after.files[0].tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(tags, ["level=1", "sort=trace_id,choice,index", "window=2026-11-29T00:00:00Z"]);
    assert_eq!(lake.through(&TOKENS, "j0").await.expect("readable"), Some(6));
    assert!(
        compaction.step(&lake, &TOKENS, Times::at(LATER_US)).await.expect("looked").is_none(),
        "nothing is left to do"
    );
    let text = deps.metrics.render();
    assert!(text.contains("tokenwatt_lake_compacted_files_total{table=\"tokens\"} 11"), "{text}");

    let old = lake.snapshot("tokens", Some(before.version)).await.expect("readable");
    let mut there = indices(&lake, &old).await;
    there.sort_unstable();
    assert_eq!((old.files.len(), there), (11, vec![0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5]), "old versions stay whole");
}

#[tokio::test]
async fn the_log_says_that_no_row_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    for frame in 0..2 {
        offer(&lake, "j", frame).await.expect("committed");
    }
    Compaction::new(&Deps::system()).step(&lake, &TOKENS, Times::at(SOON_US)).await.expect("merged").expect("was due");
    let log = folder.path().join("tokens/_delta_log/00000000000000000002.json");
    let log = std::fs::read_to_string(log).expect("an entry");
    assert_eq!(log.matches("\"dataChange\":false").count(), 3, "two removes, one add: {log}");
    assert!(log.contains("\"operation\":\"OPTIMIZE\"") && !log.contains("\"txn\""), "{log}");
    // Another process, and one that starts at a checkpoint, see the same and find nothing to do.
    lake.checkpoint("tokens").await.expect("a checkpoint");
    let other = Lake::open(folder.path().to_str().expect("utf-8"), &Deps::system()).await.expect("a lake");
    let seen = newest(&other).await;
    assert_eq!((seen.version, seen.files.len(), seen.rows()), (2, 1, Some(2)));
    assert_eq!(seen.files, newest(&lake).await.files);
    assert!(plan(&TOKENS, &seen.files, SOON_US).is_empty());
}

#[tokio::test]
async fn minutes_become_a_quarter_and_late_rows_join_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (lake, deps) = (lake(&folder).await, Deps::system());
    let mut compaction = Compaction::new(&deps);
    for frame in 0..4 {
        offer(&lake, "j", frame).await.expect("committed");
    }
    compaction.step(&lake, &TOKENS, Times::at(SOON_US)).await.expect("merged").expect("was due");
    for frame in 4..6 {
        offer(&lake, "j", frame).await.expect("committed");
    }
    compaction.step(&lake, &TOKENS, Times::at(LATER_US)).await.expect("merged").expect("was due");
    let after = newest(&lake).await;
    assert_eq!(indices(&lake, &after).await, [0, 1, 2, 3, 4, 5]);
    assert_eq!((after.files.len(), after.files[0].tags["level"].as_str()), (1, "2"));
    assert!(compaction.step(&lake, &TOKENS, Times::at(LATER_US)).await.expect("looked").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn appends_and_two_processes_that_merge_lose_and_double_nothing() {
    const FRAMES: u64 = 40;
    let folder = tempfile::tempdir().expect("a folder");
    let (writer, other) = (lake(&folder).await, lake(&folder).await);
    let merges = Arc::new(AtomicUsize::new(0));
    let merging: Vec<_> = [writer.clone(), other]
        .into_iter()
        .map(|lake| {
            let merges = Arc::clone(&merges);
            tokio::spawn(async move {
                let mut compaction = Compaction::new(&Deps::system());
                // Files of level 0 are always due at this time, so every step merges what is there.
                while lake.snapshot("tokens", None).await.expect("readable").rows() != Some(FRAMES) {
                    lake.shelf("tokens").expect("known").head.refresh().await.expect("readable");
                    let step = compaction.step(&lake, &TOKENS, Times::at(SOON_US)).await;
                    let merged = step.expect("no error but a conflict").is_some();
                    merges.fetch_add(usize::from(merged), Ordering::Relaxed);
                }
            })
        })
        .collect();
    for frame in 0..FRAMES {
        offer(&writer, "j", frame).await.expect("appends never lose against merges");
        while frame == FRAMES / 2 && merges.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    }
    for task in merging {
        task.await.expect("no panic");
    }
    let fresh = lake(&folder).await;
    let mut found = indices(&fresh, &*newest(&fresh).await).await;
    found.sort_unstable();
    assert_eq!(found, (0..40).collect::<Vec<_>>());
    assert_eq!(fresh.through(&TOKENS, "j").await.expect("readable"), Some(FRAMES));
}

#[tokio::test]
async fn a_merge_whose_files_others_have_replaced_is_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (lake(&folder).await, lake(&folder).await);
    for frame in 0..3 {
        offer(&first, "j", frame).await.expect("committed");
    }
    let job = plan(&TOKENS, &newest(&first).await.files, SOON_US).remove(0);
    second.snapshot("tokens", Some(2)).await.expect("readable");
    let compaction = Compaction::new(&Deps::system());
    compaction.run(&second, &TOKENS, &job, 0, Times::at(SOON_US)).await.expect("merged");
    let error = compaction.run(&first, &TOKENS, &job, 0, Times::at(SOON_US)).await.expect_err("too late");
    assert_eq!(error.kind(), Kind::Conflict);
    let after = newest(&first).await;
    assert_eq!((after.version, after.rows(), after.files.len()), (3, Some(3), 1));
}

#[tokio::test]
async fn a_crash_between_write_and_commit_leaves_a_file_that_nobody_sees() {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let lake = lake(&folder).await;
        for frame in 0..3 {
            offer(&lake, "j", frame).await.expect("committed");
        }
        let job = plan(&TOKENS, &newest(&lake).await.files, SOON_US).remove(0);
        write(&lake, &TOKENS, &job, SOON_US).await.expect("written");
    }
    let lake = lake(&folder).await;
    assert_eq!((newest(&lake).await.files.len(), newest(&lake).await.rows()), (3, Some(3)));
    assert_eq!(lake.through(&TOKENS, "j").await.expect("readable"), Some(3));
    Compaction::new(&Deps::system()).step(&lake, &TOKENS, Times::at(SOON_US)).await.expect("merged").expect("was due");
    assert_eq!(indices(&lake, &*newest(&lake).await).await, [0, 1, 2]);
    let files = std::fs::read_dir(folder.path().join(format!("tokens/date={DATE}"))).expect("a folder");
    let names: BTreeSet<_> = files.map(|file| file.expect("a file").file_name()).collect();
    assert_eq!(names.len(), 5, "three as they came, an orphan and the merge");
}

#[tokio::test]
async fn a_file_that_cannot_be_merged_is_tried_once_and_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    for frame in 0..2 {
        let mut entry = entry(&lake, "j", frame).await.expect("written");
        entry.adds[0].rows = Some(7);
        lake.commit(entry).await.expect("committed");
    }
    let mut compaction = Compaction::new(&Deps::system());
    let error = compaction.step(&lake, &TOKENS, Times::at(SOON_US)).await.expect_err("the log says 14 rows");
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(compaction.step(&lake, &TOKENS, Times::at(SOON_US)).await.expect("looked").is_none());
    assert_eq!(newest(&lake).await.files.len(), 2);
}

#[test]
fn tables_that_grow_by_small_files_are_compacted_and_facts_and_windows_are_not() {
    let names: BTreeSet<_> =
        telemetry::table::TABLES.iter().filter(|table| compacts(table)).map(|table| table.name).collect();
    let growing = ["requests", "tokens", "devices", "spans", "metrics", "logs", "collectors", "quarantine", "alerts"];
    assert!(growing.iter().all(|name| names.contains(name)), "{names:?}");
    assert!(["prices", "requests_1m", "billing"].iter().all(|name| !names.contains(name)), "{names:?}");
}

/// Commits the sample's token `index` with its ids, as `journal` would, so that equal tokens are equal rows.
async fn emit(lake: &Lake, journal: &str, from: u64, tokens: &[(i64, &str)], minutes: Option<&str>) {
    let name = crate::layout::file_name(journal, from, from + 1, "x");
    let batch = identified(tokens);
    let mut add = lake.write(&TOKENS, DATE, &name, &[batch]).await.expect("written");
    add.tags.extend(minutes.map(|minutes| ("minutes".to_owned(), minutes.to_owned())));
    let entry = Entry { journal: journal.to_owned(), table: "tokens", from, to: from + 1, adds: vec![add] };
    lake.commit(entry).await.expect("committed");
}

fn identified(tokens: &[(i64, &str)]) -> RecordBatch {
    let rows: Vec<_> = tokens.iter().map(|(index, _)| token(*index)).collect();
    let rows = arrow::compute::concat_batches(&rows[0].schema(), &rows).expect("one schema");
    let text = |value: &str| Arc::new(StringArray::from(vec![value; tokens.len()])) as ArrayRef;
    let models: ArrayRef = Arc::new(StringArray::from_iter_values(tokens.iter().map(|(_, model)| *model)));
    let choices: ArrayRef = Arc::new(Int64Array::from(vec![0; tokens.len()]));
    RecordBatch::try_from_iter([
        ("time", Arc::clone(&rows["time"])),
        ("index", Arc::clone(&rows["index"])),
        ("trace_id", text("4bf92f3577b34da6a3ce929d0e0e4736")),
        ("request_span_id", text("00f067aa0ba902b7")),
        ("choice", choices),
        ("model", models),
    ])
    .expect("a batch")
}

#[tokio::test]
async fn a_retry_that_reached_another_collector_is_removed_and_its_minute_is_computed_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let (lake, deps) = (lake(&folder).await, Deps::system());
    emit(&lake, "a", 0, &[(0, "m"), (1, "m"), (2, "m")], Some("7-8")).await;
    // The same body at another collector, and one token of which it says something else.
    emit(&lake, "b", 0, &[(0, "m"), (1, "m"), (2, "other")], Some("3,9")).await;
    let mut compaction = Compaction::new(&deps);
    compaction.step(&lake, &TOKENS, Times::at(SOON_US)).await.expect("merged").expect("was due");
    let after = newest(&lake).await;
    assert_eq!(indices(&lake, &after).await, [0, 1, 2, 2], "what contradicts stays");
    let minute = crate::sample::DAY_US / 60_000_000;
    let tags = &after.files[0].tags;
    assert_eq!(tags["minutes"], format!("3,7-9,{minute}"), "late minutes survive, and the removed rows' is added");
    let text = deps.metrics.render();
    assert!(text.contains("tokenwatt_lake_duplicate_rows_total{table=\"tokens\"} 2"), "{text}");
    assert!(text.contains("tokenwatt_lake_contradicting_rows_total{table=\"tokens\"} 1"), "{text}");
    let log = folder.path().join("tokens/_delta_log/00000000000000000002.json");
    let log = std::fs::read_to_string(log).expect("an entry");
    assert_eq!(log.matches("\"dataChange\":true").count(), 3, "readers see fewer rows: {log}");
    assert_eq!(lake.through(&TOKENS, "b").await.expect("readable"), Some(1), "the journals keep their marks");
}
