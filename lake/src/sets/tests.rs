use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use service::{Deps, Kind};
use telemetry::table::BILLING;

use super::{Import, Published, WITHDRAWN, named};
use crate::Lake;

const DAY: i64 = 86_400_000_000;

async fn lake(folder: &tempfile::TempDir) -> Lake {
    Lake::open(folder.path().to_str().expect("utf-8"), &Deps::system()).await.expect("a lake")
}

/// Rows of one account, one a day, imported at some time.
fn rows(account: &str, days: i64, imported_us: i64) -> RecordBatch {
    let times = |us: Vec<i64>| -> ArrayRef { Arc::new(TimestampMicrosecondArray::from(us).with_timezone("UTC")) };
    let length = usize::try_from(days).expect("a few");
    RecordBatch::try_from_iter([
        ("time", times((0..days).map(|day| day * DAY).collect())),
        ("account", Arc::new(StringArray::from(vec![account; length])) as ArrayRef),
        ("imported_at", times(vec![imported_us; length])),
    ])
    .expect("rows")
}

async fn import(lake: &Lake, sets: &[(&str, RecordBatch)]) -> Vec<Published> {
    let mut import = Import::begin(lake, &BILLING, &["imported_at"]).await.expect("begun");
    for (set, rows) in sets {
        import.write(set, rows).await.expect("written");
    }
    import.commit().await.expect("committed")
}

fn published(set: &str, rows: u64, replaced: u64, is_unchanged: bool) -> Published {
    Published { set: set.to_owned(), rows, replaced, is_unchanged }
}

async fn stored(lake: &Lake) -> (i64, Option<u64>) {
    let snapshot = lake.snapshot("billing", None).await.expect("readable");
    (snapshot.version, snapshot.rows())
}

#[tokio::test]
async fn a_set_takes_the_place_of_its_older_self_and_of_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    let first = import(&lake, &[("may", rows("1", 3, 1)), ("june", rows("2", 2, 1))]).await;
    assert_eq!(first, [published("june", 2, 0, false), published("may", 3, 0, false)]);
    assert_eq!(stored(&lake).await, (0, Some(5)), "one version for all sets");
    let restated = import(&lake, &[("may", rows("1", 4, 2))]).await;
    assert_eq!(restated, [published("may", 4, 3, false)]);
    assert_eq!(stored(&lake).await, (1, Some(6)));
    let names = named(&lake, &BILLING).await.expect("named");
    assert_eq!(names.into_iter().collect::<Vec<_>>(), [("june".to_owned(), 2), ("may".to_owned(), 4)]);
}

/// Again, later and in other pieces: the same rows are the same rows.
#[tokio::test]
async fn the_same_rows_again_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    import(&lake, &[("may", rows("1", 3, 1))]).await;
    let again = import(&lake, &[("may", rows("1", 3, 99))]).await;
    assert_eq!(again, [published("may", 3, 3, true)]);
    assert_eq!(stored(&lake).await, (0, Some(3)));
    let other = import(&lake, &[("may", rows("2", 3, 99))]).await;
    assert_eq!(other, [published("may", 3, 3, false)]);
}

/// An import that is given up leaves what was there, and one of two at the same time is told to begin again.
#[tokio::test]
async fn what_is_not_committed_is_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    import(&lake, &[("may", rows("1", 3, 1))]).await;
    let mut given_up = Import::begin(&lake, &BILLING, &[]).await.expect("begun");
    given_up.write("may", &rows("1", 1, 1)).await.expect("written");
    import(&lake, &[("june", rows("2", 2, 1))]).await;
    assert_eq!(given_up.commit().await.expect_err("another was faster").kind(), Kind::Conflict);
    assert_eq!(stored(&lake).await, (1, Some(5)));
}

/// What takes the place of rows says over which minutes those lay, of a charge of years the month for which it may stand.
#[tokio::test]
async fn what_is_withdrawn_is_told_by_what_takes_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    let withdrawn = async || {
        let snapshot = lake.snapshot("billing", None).await.expect("readable");
        snapshot.files.iter().filter_map(|file| file.tags.get(WITHDRAWN).cloned()).collect::<Vec<_>>()
    };
    let times = |us: i64| -> ArrayRef { Arc::new(TimestampMicrosecondArray::from(vec![us]).with_timezone("UTC")) };
    let fee = RecordBatch::try_from_iter([("time", times(DAY)), ("charge_to", times(1_096 * DAY))]).expect("rows");
    import(&lake, &[("may", fee)]).await;
    assert_eq!(withdrawn().await, Vec::<String>::new());
    import(&lake, &[("may", rows("1", 1, 1))]).await;
    assert_eq!(withdrawn().await, ["1440-47520"]);
    import(&lake, &[("may", rows("1", 2, 1))]).await;
    assert_eq!(withdrawn().await, ["0-0", "0-0"], "one file a day");
}
