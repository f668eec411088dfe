use std::sync::Arc;

use service::Kind;
use telemetry::table::TOKENS;

use super::DeltaLog;
use crate::commit::{Entry, Outcome};
use crate::log::action::{Action, CommitInfo};
use crate::log::state::protocol_action;
use crate::log::{TableLog, Written, schema};
use crate::sample::{self, DATE, token};
use crate::snapshot::{File, Value};
use crate::store::{Access, Store};
use crate::{Lake, layout};

async fn log(folder: &tempfile::TempDir) -> DeltaLog {
    let store = Store::open(folder.path().to_str().expect("utf-8"), Access::Write).await.expect("a store");
    DeltaLog::new(&TOKENS, Arc::new(store), service::clock::system())
}

fn info(id: &str) -> Action {
    Action::info(CommitInfo { txn_id: Some(id.to_owned()), timestamp: Some(5), ..CommitInfo::default() })
}

fn created(id: &str) -> Vec<Action> {
    let metadata = schema::metadata(&TOKENS, "id".to_owned(), 0);
    vec![info(id), protocol_action(), Action { meta_data: Some(metadata), ..Action::default() }]
}

/// A lake with `versions` commits of one token each.
async fn grown(folder: &tempfile::TempDir, versions: u64) -> Lake {
    let lake = sample::lake(folder).await;
    grow(&lake, 0, versions).await;
    lake
}

async fn grow(lake: &Lake, from: u64, to: u64) {
    for frame in from..to {
        let batch = token(i64::try_from(frame).expect("small"));
        let name = layout::file_name("j", frame, frame + 1, "x");
        let mut add = lake.write(&TOKENS, DATE, &name, &[batch]).await.expect("written");
        add.tags.insert("minutes".to_owned(), frame.to_string());
        let entry = Entry { journal: "j".to_owned(), table: "tokens", from: frame, to: frame + 1, adds: vec![add] };
        let outcome = lake.commit(entry).await.expect("committed");
        assert_eq!(outcome, Outcome::Committed { version: i64::try_from(frame).expect("small") });
    }
}

async fn files(lake: &Lake, version: Option<i64>) -> Vec<File> {
    let snapshot = lake.snapshot("tokens", version).await.expect("readable");
    snapshot.files.iter().map(|file| File::clone(file)).collect()
}

#[tokio::test]
async fn a_table_that_is_not_there_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = log(&folder).await;
    assert!(log.load(None).await.expect("readable").is_none());
    assert!(log.read(0).await.expect("readable").is_none());
}

#[tokio::test]
async fn a_version_has_one_writer() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = log(&folder).await;
    assert_eq!(log.write(0, &created("a")).await.expect("written"), Written::Ours);
    assert_eq!(log.write(0, &created("b")).await.expect("answered"), Written::Taken);
}

#[tokio::test]
async fn an_attempt_whose_answer_was_lost_is_recognised() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = log(&folder).await;
    log.write(0, &created("a")).await.expect("written");
    assert_eq!(log.write(0, &created("a")).await.expect("answered"), Written::Ours);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_reads_the_same_from_its_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = grown(&folder, 5).await;
    let before = files(&lake, None).await;
    lake.checkpoint("tokens").await.expect("a checkpoint");
    assert!(folder.path().join("tokens/_delta_log/00000000000000000004.checkpoint.parquet").exists());
    grow(&lake, 5, 7).await;

    let fresh = grown(&folder, 0).await;
    let after = files(&fresh, None).await;
    let mut sorted: Vec<_> = after.iter().take(5).cloned().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(sorted, before, "statistics and tags survive too");
    assert_eq!(after.len(), 7);
    assert_eq!(fresh.through(&TOKENS, "j").await.expect("readable"), Some(7));
    let bound = &after[6].stats["index"];
    assert_eq!((bound.min.clone(), bound.nulls), (Some(Value::Int(6)), Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_can_be_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = grown(&folder, 4).await;
    lake.checkpoint("tokens").await.expect("a checkpoint");
    grow(&lake, 4, 6).await;
    let fresh = grown(&folder, 0).await;
    for version in [5, 0, 3, 2, 4] {
        let snapshot = fresh.snapshot("tokens", Some(version)).await.expect("readable");
        assert_eq!((snapshot.version, snapshot.rows()), (version, u64::try_from(version + 1).ok()));
        assert!(snapshot.committed_at_us.is_some(), "version {version} says when it was made");
    }
    assert!(fresh.snapshot("tokens", Some(-1)).await.expect("the table before its first version").files.is_empty());
    for version in [6, -2, i64::MIN, i64::MAX] {
        let error = fresh.snapshot("tokens", Some(version)).await.expect_err("no such version");
        assert_eq!(error.kind(), Kind::NotFound, "{version}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_implementation_of_delta_reads_what_we_wrote() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = grown(&folder, 3).await;
    let url = lake.url().join("tokens").expect("a URL");
    let table = deltalake::open_table(url.clone()).await.expect("a Delta table");
    let theirs = table.snapshot().expect("loaded");
    assert_eq!(theirs.version(), 2);
    let mark = theirs.transaction_version(table.log_store().as_ref(), "j").await.expect("readable");
    assert_eq!(mark, Some(3));
    let mut paths: Vec<_> = table.get_file_uris().expect("files").collect();
    paths.sort();
    let mut ours: Vec<_> =
        files(&lake, None).await.iter().map(|file| lake.url().join(&file.path).expect("a URL")).collect();
    ours.sort();
    assert_eq!(paths.len(), ours.len());
    for (theirs, ours) in paths.iter().zip(&ours) {
        assert!(ours.path().ends_with(theirs.rsplit('/').next().expect("a name")), "{theirs} is {ours}");
    }
    let arrow = theirs.snapshot().arrow_schema();
    let registry = TOKENS.schema();
    for field in registry.fields() {
        let found = arrow.field_with_name(field.name()).expect("declared");
        assert!(found.data_type().equals_datatype(field.data_type()), "{}: {}", field.name(), found.data_type());
    }
}

#[tokio::test]
async fn a_log_with_a_hole_is_an_error_and_not_a_shorter_table() {
    let folder = tempfile::tempdir().expect("a folder");
    grown(&folder, 4).await;
    std::fs::remove_file(folder.path().join("tokens/_delta_log/00000000000000000001.json")).expect("removed");
    let error = log(&folder).await.load(None).await.expect_err("a hole");
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    std::fs::remove_file(folder.path().join("tokens/_delta_log/00000000000000000000.json")).expect("removed");
    assert!(log(&folder).await.load(None).await.is_err());
}

#[tokio::test]
async fn a_torn_log_entry_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    grown(&folder, 2).await;
    std::fs::write(folder.path().join("tokens/_delta_log/00000000000000000001.json"), b"{\"add\":{\"pa").expect("torn");
    let error = log(&folder).await.load(None).await.expect_err("torn");
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
}
