//! What to write for the changes that wait. Pure: state and changes in, one version's lines and a verdict per change out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use service::{Error, Result};
use telemetry::table::Table;

use super::{Change, Effect, Entry, sweeps};
use crate::log::State;
use crate::log::action::{Action, CommitInfo};
use crate::log::schema::{self, Difference};
use crate::log::state::{add_action, protocol_action, remove_action};

/// Time and identity of an attempt.
pub(super) struct Stamp {
    pub(super) now_us: i64,
    /// Unique per attempt.
    pub(super) id: String,
}

/// One version's lines.
pub(super) struct Plan {
    /// Empty if no change is applied.
    pub(super) actions: Vec<Action>,
    /// One for each change, in their order.
    pub(super) verdicts: Vec<Verdict>,
}

/// What becomes of one change.
#[derive(Debug)]
pub(super) enum Verdict {
    Apply,
    /// The journal has come to this frame, not to the change's `from`.
    Through(u64),
    Refuse(Error),
}

/// Changes staged so far in this version.
#[derive(Default)]
struct Staged<'a> {
    marks: BTreeMap<&'a str, u64>,
    added: BTreeSet<&'a str>,
    removed: BTreeSet<&'a str>,
    files: Vec<Action>,
    /// Whether files go without others in their place.
    dropping: bool,
}

/// Decides on each change as if those before it were already applied.
///
/// # Errors
/// `Conflict` if the table has columns that we do not know.
pub(super) fn plan(table: &'static Table, state: &State, changes: &[Arc<Change>], stamp: &Stamp) -> Result<Plan> {
    let now_ms = stamp.now_us.div_euclid(1_000);
    let mut staged = Staged::default();
    let verdicts: Vec<_> = changes.iter().map(|change| staged.judge(table, state, change, now_ms)).collect();
    if staged.marks.is_empty() && staged.files.is_empty() {
        return Ok(Plan { actions: Vec::new(), verdicts });
    }
    let mut actions = vec![info(stamp, operation(state, &staged))];
    actions.extend(definition(table, state, &stamp.id, now_ms)?);
    for (journal, frame) in &staged.marks {
        let frame = i64::try_from(*frame).map_err(|_| Error::invalid("a journal frame beyond 2^63"))?;
        actions.push(Action::txn(journal, frame, now_ms));
    }
    actions.append(&mut staged.files);
    Ok(Plan { actions, verdicts })
}

impl<'a> Staged<'a> {
    fn judge(&mut self, table: &Table, state: &State, change: &'a Change, now_ms: i64) -> Verdict {
        let entry = &change.entry;
        let refused = match change.effect {
            Effect::Advance => self.fence(state, entry),
            Effect::Rearrange | Effect::Drop => unfounded(change).or_else(|| swept(state, change)),
        };
        if let Some(verdict) = refused {
            return verdict;
        }
        if let Some(twice) =
            entry.adds.iter().find(|add| state.holds(&add.path) || self.added.contains(add.path.as_str()))
        {
            return Verdict::Refuse(Error::conflict(format!("file {} is already in the table", twice.path)));
        }
        let gone = |path: &&String| !state.holds(path) || self.removed.contains(path.as_str());
        if let Some(gone) = change.removes.iter().find(gone) {
            return Verdict::Refuse(Error::conflict(format!("file {gone} is no longer in the table")));
        }
        self.stage(table, state, change, now_ms);
        Verdict::Apply
    }

    /// What an entry is told whose frames are not the journal's next ones.
    fn fence(&self, state: &State, entry: &Entry) -> Option<Verdict> {
        if entry.journal.is_empty() || entry.from >= entry.to {
            let (from, to) = (entry.from, entry.to);
            let wrong = Error::invalid(format!("frames ({from}, {to}] of journal `{}`", entry.journal));
            return Some(Verdict::Refuse(wrong));
        }
        let staged = self.marks.get(entry.journal.as_str()).copied();
        let mark = staged.or_else(|| state.through(&entry.journal)).unwrap_or(0);
        (mark != entry.from).then_some(Verdict::Through(mark))
    }

    fn stage(&mut self, table: &Table, state: &State, change: &'a Change, now_ms: i64) {
        let changes = change.effect.changes_data();
        let removed_ms = change.removed_us.map_or(now_ms, |us| us.div_euclid(1_000));
        self.dropping |= change.effect == Effect::Drop && change.entry.adds.is_empty();
        if change.effect == Effect::Advance {
            self.marks.insert(&change.entry.journal, change.entry.to);
        }
        for path in &change.removes {
            self.removed.insert(path);
            self.files.extend(state.file(path).map(|file| remove_action(table, file, changes, removed_ms)));
        }
        for add in &change.entry.adds {
            self.added.insert(&add.path);
            self.files.push(add_action(table, add, changes));
        }
    }
}

/// What moves no journal must be founded on files that are there; what leaves the rows as they are must put something in their
/// place.
fn unfounded(change: &Change) -> Option<Verdict> {
    let founded = !change.removes.is_empty() && (change.effect == Effect::Drop || !change.entry.adds.is_empty());
    let wrong = || Error::invalid(format!("files of table {} that replace nothing", change.entry.table));
    (!founded).then(|| Verdict::Refuse(wrong()))
}

/// Files that lay about while orphans were swept away may have been among them.
fn swept(state: &State, change: &Change) -> Option<Verdict> {
    let gone = !change.entry.adds.is_empty() && sweeps(state) != change.sweeps;
    let late = || Error::conflict(format!("orphans of table {} were deleted meanwhile", change.entry.table));
    gone.then(|| Verdict::Refuse(late()))
}

fn operation(state: &State, staged: &Staged<'_>) -> &'static str {
    match state.version() < 0 {
        true => "CREATE TABLE",
        false if staged.marks.is_empty() && staged.dropping => "DELETE",
        false if staged.marks.is_empty() => "OPTIMIZE",
        false => "WRITE",
    }
}

/// Lines that create the table or add the columns it lacks.
fn definition(table: &Table, state: &State, id: &str, now_ms: i64) -> Result<Vec<Action>> {
    let metadata = |metadata| Action { meta_data: Some(metadata), ..Action::default() };
    if state.version() < 0 {
        return Ok(vec![protocol_action(), metadata(schema::metadata(table, table_id(id), now_ms))]);
    }
    match state.difference() {
        Difference::None => Ok(Vec::new()),
        Difference::Older(grown) => Ok(vec![metadata((**grown).clone())]),
        Difference::Newer(columns) => Err(schema::newer(table, columns)),
    }
}

/// A table's identity is a UUID; the first attempt's will do.
fn table_id(id: &str) -> String {
    uuid::Uuid::parse_str(id).map_or_else(|_| id.to_owned(), |id| id.hyphenated().to_string())
}

fn info(stamp: &Stamp, operation: &str) -> Action {
    Action::info(CommitInfo {
        timestamp: Some(stamp.now_us.div_euclid(1_000)),
        operation: Some(operation.to_owned()),
        engine_info: Some(concat!("tokenwatt/", env!("CARGO_PKG_VERSION")).to_owned()),
        txn_id: Some(stamp.id.clone()),
        timestamp_us: Some(stamp.now_us),
    })
}

#[cfg(test)]
mod tests;
