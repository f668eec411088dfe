use service::{Deps, Kind};
use telemetry::table::{LOGS, TOKENS};

use super::Lake;
use crate::Entry;
use crate::sample::{DATE, offer, token};

fn place(folder: &tempfile::TempDir) -> &str {
    folder.path().to_str().expect("utf-8")
}

#[tokio::test]
async fn a_lake_opened_for_reading_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let reader = Lake::open_read_only(place(&folder), &Deps::system()).await.expect("a folder will do");
    assert_eq!(offer(&reader, "j", 0).await.expect_err("read only").kind(), Kind::Denied);
    let entry = Entry { journal: "j".to_owned(), table: "tokens", from: 0, to: 1, adds: Vec::new() };
    assert_eq!(reader.commit(entry).await.expect_err("read only").kind(), Kind::Denied);
    assert_eq!(reader.snapshot("logs", None).await.expect("empty").version, -1);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[tokio::test]
async fn a_reader_sees_what_another_process_commits() {
    let folder = tempfile::tempdir().expect("a folder");
    let writer = Lake::open(place(&folder), &Deps::system()).await.expect("a lake");
    let reader = Lake::open_read_only(place(&folder), &Deps::system()).await.expect("a lake");
    assert_eq!(reader.snapshot("tokens", None).await.expect("empty").version, -1);
    offer(&writer, "j", 0).await.expect("committed");
    offer(&writer, "j", 1).await.expect("committed");
    // Asking for a version looks at the log whatever was seen before.
    let snapshot = reader.snapshot("tokens", Some(1)).await.expect("readable");
    assert_eq!((snapshot.version, snapshot.rows()), (1, Some(2)));
    assert_eq!(reader.snapshot("tokens", None).await.expect("readable").version, 1);
}

#[tokio::test]
async fn rows_written_again_under_one_name_are_fine_and_other_rows_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = Lake::open(place(&folder), &Deps::system()).await.expect("a lake");
    for _ in 0..2 {
        lake.write(&TOKENS, DATE, "a.parquet", &[token(0)]).await.expect("the same rows");
    }
    let more: Vec<_> = (0..500).map(|_| token(0)).collect();
    let error = lake.write(&TOKENS, DATE, "a.parquet", &more).await.expect_err("other rows");
    assert_eq!(error.kind(), Kind::Conflict);
}

#[tokio::test]
async fn a_table_that_gained_columns_elsewhere_stops_a_writer_and_not_a_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = Lake::open(place(&folder), &Deps::system()).await.expect("a lake");
    offer(&lake, "j", 0).await.expect("committed");
    rewrite_schema(&folder, |schema| {
        schema.replace(
            "{\\\"metadata\\\":{\\\"comment\\\":\\\"event time\\\"}",
            "MOOD{\\\"metadata\\\":{\\\"comment\\\":\\\"event time\\\"}",
        )
    });
    let error = Lake::open(place(&folder), &Deps::system()).await.err().expect("a newer table");
    assert!(error.message().contains("tokens") && error.message().contains("mood"), "{error}");
    let reader = Lake::open_read_only(place(&folder), &Deps::system()).await.expect("a lake");
    assert_eq!(reader.snapshot("tokens", None).await.expect("readable").rows(), Some(1));
}

#[tokio::test]
async fn a_table_that_lacks_columns_gains_them_before_the_first_file_that_needs_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = Lake::open(place(&folder), &Deps::system()).await.expect("a lake");
    offer(&lake, "j", 0).await.expect("committed");
    rewrite_schema(&folder, |schema| schema.replace("\\\"name\\\":\\\"tenant\\\"", "\\\"name\\\":\\\"date\\\""));
    let lake = Lake::open(place(&folder), &Deps::system()).await.expect("an older table");
    offer(&lake, "j", 1).await.expect("committed");
    let entry =
        std::fs::read_to_string(folder.path().join("tokens/_delta_log/00000000000000000001.json")).expect("an entry");
    let lines: Vec<_> = entry.lines().collect();
    let (grown, added) = (position(&lines, "metaData"), position(&lines, "add"));
    assert!(grown < added && lines[grown].contains("tenant"), "{entry}");
}

#[tokio::test]
async fn a_table_that_does_not_exist_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = Lake::open(place(&folder), &Deps::system()).await.expect("a lake");
    let error = lake.snapshot("moods", None).await.expect_err("unknown");
    assert!(error.kind() == Kind::NotFound && error.message().contains("moods"));
    assert_eq!(lake.through(&LOGS, "j").await.expect("empty"), None);
}

fn position(lines: &[&str], kind: &str) -> usize {
    let start = format!("{{\"{kind}\":");
    lines.iter().position(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no {kind} in {lines:?}"))
}

/// Changes the schema in the table's first log entry, as another version of the program would have written it.
fn rewrite_schema(folder: &tempfile::TempDir, change: impl Fn(&str) -> String) {
    let path = folder.path().join("tokens/_delta_log/00000000000000000000.json");
    let entry = std::fs::read_to_string(&path).expect("an entry");
    let mood = "{\\\"metadata\\\":{},\\\"name\\\":\\\"mood\\\",\\\"nullable\\\":true,\\\"type\\\":\\\"string\\\"},";
    let changed = change(&entry).replace("MOOD", mood);
    assert_ne!(changed, entry, "the schema is spelled otherwise: {entry}");
    std::fs::write(path, changed).expect("written");
}
