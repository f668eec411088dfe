use std::collections::BTreeMap;
use std::sync::Arc;

use telemetry::table::TOKENS;

use super::{Plan, Stamp, Verdict, plan};
use crate::commit::{Change, Entry};
use crate::log::State;
use crate::snapshot::File;

fn file(name: &str) -> File {
    File {
        path: format!("tokens/date=2026-11-29/{name}"),
        size: 1,
        rows: Some(1),
        date: "2026-11-29".to_owned(),
        modified_ms: 0,
        stats: BTreeMap::new(),
        tags: BTreeMap::new(),
    }
}

fn change(journal: &str, from: u64, to: u64, adds: &[&str], removes: &[&str]) -> Arc<Change> {
    let adds = adds.iter().map(|name| file(name)).collect();
    let entry = Entry { journal: journal.to_owned(), table: "tokens", from, to, adds };
    let removes = removes.iter().map(|name| file(name).path).collect();
    Arc::new(Change::advance(entry, removes))
}

fn decide(state: &State, changes: &[Arc<Change>]) -> Plan {
    plan(&TOKENS, state, changes, &Stamp { now_us: 1_000, id: "a".to_owned() }).expect("a plan")
}

/// Applies what is applicable, and says in a word what became of each change.
fn go_on(state: &mut State, changes: &[Arc<Change>]) -> Vec<String> {
    let Plan { actions, verdicts } = decide(state, changes);
    if !actions.is_empty() {
        state.apply(state.version() + 1, &actions).expect("own lines");
    }
    verdicts
        .iter()
        .map(|verdict| match verdict {
            Verdict::Apply => "apply".to_owned(),
            Verdict::Through(frame) => format!("through {frame}"),
            Verdict::Refuse(error) => format!("refuse: {error}"),
        })
        .collect()
}

fn live(state: &State) -> Vec<String> {
    let name = |file: &Arc<File>| file.path.rsplit('/').next().unwrap_or_default().to_owned();
    state.snapshot().files.iter().map(name).collect()
}

#[test]
fn the_first_commit_makes_the_table() {
    let mut state = State::new(&TOKENS);
    assert_eq!(go_on(&mut state, &[change("j", 0, 5, &["a"], &[])]), ["apply"]);
    assert_eq!((state.version(), state.through("j"), live(&state)), (0, Some(5), vec!["a".to_owned()]));
}

#[test]
fn a_replay_is_told_how_far_the_journal_is() {
    let mut state = State::new(&TOKENS);
    go_on(&mut state, &[change("j", 0, 5, &["a"], &[])]);
    let replays = [change("j", 0, 5, &["b"], &[]), change("j", 3, 9, &["c"], &[]), change("j", 7, 9, &["d"], &[])];
    assert_eq!(go_on(&mut state, &replays), ["through 5", "through 5", "through 5"]);
    assert_eq!((state.version(), live(&state)), (0, vec!["a".to_owned()]), "nothing was written");
}

#[test]
fn entries_that_follow_one_another_share_a_version_and_their_journal_ends_at_the_last() {
    let mut state = State::new(&TOKENS);
    let changes = [
        change("j", 0, 5, &["a"], &[]),
        change("k", 0, 2, &["b"], &[]),
        change("j", 5, 6, &["c"], &[]),
        change("j", 0, 5, &["d"], &[]),
    ];
    assert_eq!(go_on(&mut state, &changes), ["apply", "apply", "apply", "through 6"]);
    assert_eq!((state.version(), state.through("j"), state.through("k")), (0, Some(6), Some(2)));
    assert_eq!(live(&state), ["a", "b", "c"]);
}

#[test]
fn a_replacement_is_whole_or_not_at_all() {
    let mut state = State::new(&TOKENS);
    go_on(&mut state, &[change("j", 0, 1, &["a", "b"], &[])]);
    let verdicts = go_on(&mut state, &[change("m", 0, 1, &["ab"], &["a", "b"]), change("n", 0, 1, &["bx"], &["b"])]);
    assert_eq!(verdicts, ["apply", "refuse: file tokens/date=2026-11-29/b is no longer in the table"]);
    assert_eq!(live(&state), ["ab"]);
    let verdicts = go_on(&mut state, &[change("n", 0, 1, &["aa"], &["a"])]);
    assert_eq!(verdicts, ["refuse: file tokens/date=2026-11-29/a is no longer in the table"]);
    assert_eq!((live(&state), state.through("n")), (vec!["ab".to_owned()], None));
}

#[test]
fn a_file_is_never_added_twice() {
    let mut state = State::new(&TOKENS);
    let verdicts = go_on(&mut state, &[change("j", 0, 1, &["a"], &[]), change("k", 0, 1, &["a"], &[])]);
    assert_eq!(verdicts[0], "apply");
    assert!(verdicts[1].starts_with("refuse: "), "{verdicts:?}");
    assert!(go_on(&mut state, &[change("k", 0, 1, &["a"], &[])])[0].starts_with("refuse: "));
    assert_eq!(live(&state), ["a"]);
}

#[test]
fn frames_must_go_forward_and_have_a_journal() {
    let mut state = State::new(&TOKENS);
    let verdicts = go_on(&mut state, &[change("j", 3, 3, &["a"], &[]), change("", 0, 1, &["b"], &[])]);
    assert!(verdicts.iter().all(|verdict| verdict.starts_with("refuse: ")), "{verdicts:?}");
    assert_eq!(state.version(), -1);
}

#[test]
fn an_entry_without_files_still_moves_its_journal() {
    let mut state = State::new(&TOKENS);
    assert_eq!(go_on(&mut state, &[change("j", 0, 4, &[], &[])]), ["apply"]);
    assert_eq!((state.through("j"), live(&state).len()), (Some(4), 0));
}
