//! Rows that are there twice: a sender that got no answer sent its body again, and it reached another collector.
//!
//! Two rows are one if they name the same span and say the same in every column. Rows that name the same span and differ are
//! both kept and counted: which of them is right is not for a merge to say. Rows that do not name a span are never one.

use arrow::array::{Array, AsArray, RecordBatch};
use telemetry::table::Table;

/// Rows with one key that are compared with each other; of more only the first are.
const GROUP_MAX: usize = 64;

/// What identifies a row, by table.
const IDENTITIES: [(&str, &[&str]); 3] = [
    ("requests", &["trace_id", "span_id"]),
    ("spans", &["trace_id", "span_id"]),
    ("tokens", &["trace_id", "request_span_id", "choice", "index"]),
];

/// Whether a row is there already.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Twin {
    /// No.
    None,
    /// A row that is equal in every column.
    Equal,
    /// A row of the same identity that says something else.
    AtOdds,
}

/// Looks for twins among neighbours: equal rows have equal keys, so they come one after the other.
pub(super) struct Twins {
    identity: &'static [&'static str],
    /// Rows with the key of the last one, as (batch, row).
    group: Vec<(usize, usize)>,
}

impl Twins {
    pub(super) fn of(table: &Table) -> Twins {
        let known = IDENTITIES.iter().find(|(name, _)| *name == table.name);
        Twins { identity: known.map_or(&[], |(_, identity)| identity), group: Vec::new() }
    }

    /// Compares a row with those before it that have the same key.
    pub(super) fn meet(&mut self, held: &[RecordBatch], place: (usize, usize), same_key: bool) -> Twin {
        if self.identity.is_empty() {
            return Twin::None;
        }
        if !same_key {
            self.group.clear();
            self.group.push(place);
            return Twin::None;
        }
        let mut found = Twin::None;
        for other in &self.group {
            if !self.same_identity(held, *other, place) {
                continue;
            }
            if equal(held, *other, place) {
                return Twin::Equal;
            }
            found = Twin::AtOdds;
        }
        if self.group.len() < GROUP_MAX {
            self.group.push(place);
        }
        found
    }

    /// The rows that are remembered, for whoever moves their batches.
    pub(super) fn group_mut(&mut self) -> &mut [(usize, usize)] {
        &mut self.group
    }

    fn same_identity(&self, held: &[RecordBatch], a: (usize, usize), b: (usize, usize)) -> bool {
        let (Some(left), Some(right)) = (held.get(a.0), held.get(b.0)) else { return false };
        self.identity.iter().all(|name| {
            let columns = left.column_by_name(name).zip(right.column_by_name(name));
            columns.is_some_and(|(left, right)| {
                let known = left.is_valid(a.1) && right.is_valid(b.1) && !is_empty(left.as_ref(), a.1);
                known && left.slice(a.1, 1) == right.slice(b.1, 1)
            })
        })
    }
}

fn is_empty(column: &dyn Array, row: usize) -> bool {
    column.as_string_opt::<i32>().is_some_and(|texts| texts.value(row).is_empty())
}

fn equal(held: &[RecordBatch], a: (usize, usize), b: (usize, usize)) -> bool {
    let (Some(left), Some(right)) = (held.get(a.0), held.get(b.0)) else { return false };
    let mut columns = left.columns().iter().zip(right.columns());
    columns.all(|(left, right)| left.slice(a.1, 1) == right.slice(b.1, 1))
}
