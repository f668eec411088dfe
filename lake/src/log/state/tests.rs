use std::collections::BTreeMap;

use telemetry::table::TOKENS;

use super::{State, add_action, protocol_action, remove_action};
use crate::log::action::{Action, CommitInfo, Protocol};
use crate::log::schema;
use crate::snapshot::{ColumnStats, File, Value};

fn file(name: &str, newest_us: i64) -> File {
    let time = ColumnStats { min: Some(Value::Time(0)), max: Some(Value::Time(newest_us)), nulls: Some(0) };
    File {
        path: format!("tokens/date=2026-11-29/{name}.parquet"),
        size: 10,
        rows: Some(4),
        date: "2026-11-29".to_owned(),
        modified_ms: 1,
        stats: BTreeMap::from([("time".to_owned(), time)]),
        tags: BTreeMap::from([("minutes".to_owned(), "29".to_owned())]),
    }
}

fn created() -> State {
    let metadata = schema::metadata(&TOKENS, "id".to_owned(), 0);
    let mut state = State::new(&TOKENS);
    state
        .apply(0, &[protocol_action(), Action { meta_data: Some(metadata), ..Action::default() }])
        .expect("a new table");
    state
}

#[test]
fn files_come_and_go_in_order() {
    let mut state = created();
    let (a, b, c) = (file("a", 5), file("b", 9), file("c", 7));
    state.apply(1, &[add_action(&TOKENS, &a, true), add_action(&TOKENS, &b, true)]).expect("adds");
    state.apply(2, &[add_action(&TOKENS, &c, true), remove_action(&TOKENS, &b, true, 3)]).expect("a swap");
    let snapshot = state.snapshot();
    let files: Vec<_> = snapshot.files.iter().map(|file| File::clone(file)).collect();
    assert_eq!(files, [a, c]);
    assert_eq!(
        (snapshot.version, snapshot.newest_time_us, snapshot.rows(), snapshot.bytes()),
        (2, Some(7), Some(8), 20)
    );
}

/// A version left out would be rows lost, one applied twice a journal set back.
#[test]
fn versions_follow_each_other() {
    let mut state = created();
    assert!(state.apply(2, &[add_action(&TOKENS, &file("a", 5), true)]).is_err());
    assert!(state.apply(0, &[]).is_err());
    assert_eq!((state.version(), state.snapshot().files.len()), (0, 0));
    state.apply(1, &[]).expect("the next one");
}

#[test]
fn a_path_added_twice_counts_once() {
    let mut state = created();
    let a = file("a", 5);
    state.apply(1, &[add_action(&TOKENS, &a, true)]).expect("an add");
    state.apply(2, &[add_action(&TOKENS, &a, true)]).expect("the same add");
    assert_eq!(state.snapshot().rows(), Some(4));
}

#[test]
fn a_journal_moves_on() {
    let mut state = created();
    assert_eq!(state.through("j"), None);
    state.apply(1, &[Action::txn("j", 7, 0), Action::txn("k", 1, 0)]).expect("journals");
    state.apply(2, &[Action::txn("j", 9, 0)]).expect("a journal");
    assert_eq!((state.through("j"), state.through("k")), (Some(9), Some(1)));
}

#[test]
fn the_commit_time_is_that_of_the_version() {
    let mut state = created();
    let info = CommitInfo { timestamp: Some(3), timestamp_us: Some(3_021), ..CommitInfo::default() };
    state.apply(1, &[Action::info(info)]).expect("a commit");
    assert_eq!(state.snapshot().committed_at_us, Some(3_021));
    let info = CommitInfo { timestamp: Some(4), ..CommitInfo::default() };
    state.apply(2, &[Action::info(info)]).expect("a commit of another engine");
    assert_eq!(state.snapshot().committed_at_us, Some(4_000));
    state.apply(3, &[]).expect("a commit that does not say");
    assert_eq!(state.snapshot().committed_at_us, None);
}

#[test]
fn a_table_that_needs_more_than_we_can_is_refused() {
    let protocol = Protocol { min_reader_version: 3, min_writer_version: 7 };
    let mut state = State::new(&TOKENS);
    assert!(state.apply(0, &[Action { protocol: Some(protocol), ..Action::default() }]).is_err());
}
