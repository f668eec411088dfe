//! What a reader sees: the files of one version of a table, and what is known of their content.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use telemetry::table::{self, Table};

/// A bound of a column.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Value {
    /// Microseconds since 1970-01-01 UTC.
    Time(i64),
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// Text, compared byte by byte.
    Text(String),
}

/// What is known of one column in one file.
///
/// Bounds hold for every value that is not NULL; a missing bound says nothing. Bounds of text may be wider than the values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ColumnStats {
    /// No value is smaller.
    pub min: Option<Value>,
    /// No value is greater.
    pub max: Option<Value>,
    /// How many are NULL.
    pub nulls: Option<u64>,
}

/// One Parquet file of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct File {
    /// Path relative to the lake.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Rows; unknown if another writer did not say.
    pub rows: Option<u64>,
    /// Partition: UTC date of the rows' `time`, `YYYY-MM-DD`.
    pub date: String,
    /// When it was written, milliseconds since 1970-01-01 UTC.
    pub modified_ms: i64,
    /// Bounds by column; columns that are not here have none.
    pub stats: BTreeMap<String, ColumnStats>,
    /// Notes of the writer, such as `minutes`, `sort` and `level`.
    pub tags: BTreeMap<String, String>,
}

/// A file about to be added. It is the same thing before and after the commit.
pub type FileAdd = File;

/// The content of a table at one version.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What the table is.
    pub table: &'static Table,
    /// Delta version; -1 for a table that nobody has written to.
    pub version: i64,
    /// When that version was committed, microseconds since 1970-01-01 UTC, by the writer's clock.
    pub committed_at_us: Option<i64>,
    /// Its files, oldest commit first.
    pub files: Vec<Arc<File>>,
    /// Greatest `time` of any row, microseconds since 1970-01-01 UTC.
    pub newest_time_us: Option<i64>,
}

impl Snapshot {
    /// A table that nobody has written to.
    pub(crate) fn empty(table: &'static Table) -> Snapshot {
        Snapshot { table, version: -1, committed_at_us: None, files: Vec::new(), newest_time_us: None }
    }

    /// Rows in all files; `None` if some file does not say.
    pub fn rows(&self) -> Option<u64> {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// Bytes in all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}

impl File {
    /// Greatest `time` in the file, microseconds since 1970-01-01 UTC.
    pub fn newest_time_us(&self) -> Option<i64> {
        match self.stats.get("time")?.max {
            Some(Value::Time(us)) => Some(us),
            _ => None,
        }
    }

    /// Whether its rows are in the table's order: ascending, unknown values last.
    pub fn is_sorted(&self, table: &Table) -> bool {
        self.tags.get(SORT_TAG).is_some_and(|sort| sort.split(',').eq(table.order.iter().copied()))
    }

    /// Path relative to its table, as the Delta log holds it.
    pub(crate) fn path_in_table(&self, table: &Table) -> &str {
        let below = self.path.strip_prefix(table.name).and_then(|rest| rest.strip_prefix('/'));
        below.unwrap_or(&self.path)
    }
}

/// The tag that names the columns by which a file's rows are ordered.
pub(crate) const SORT_TAG: &str = "sort";

/// The table's order as in [`SORT_TAG`].
pub(crate) fn order_tag(table: &Table) -> String {
    table.order.join(",")
}

/// Columns whose bounds are kept per file: what scans prune by, at most [`STATS_COLUMNS_MAX`].
pub(crate) fn stats_columns(table: &Table) -> Vec<&'static table::Column> {
    let wanted = ["time"].into_iter().chain(table.order.iter().copied()).chain(PRUNED_BY);
    let mut columns: Vec<&'static table::Column> = Vec::new();
    for column in wanted.filter_map(|name| table.column(name)) {
        let bounded =
            matches!(column.kind, table::Kind::Time | table::Kind::Text | table::Kind::Int | table::Kind::Double);
        let seen = columns.iter().any(|known| known.name == column.name);
        if bounded && !seen && columns.len() < STATS_COLUMNS_MAX {
            columns.push(column);
        }
    }
    columns
}

/// More columns only make the log and every snapshot larger.
const STATS_COLUMNS_MAX: usize = 8;
/// What queries filter by beside time and sort key.
const PRUNED_BY: [&str; 6] = ["region", "model", "host_id", "service", "status", "charge_to"];

#[cfg(test)]
mod tests {
    use super::stats_columns;
    use telemetry::table::{TABLES, TOKENS};

    #[test]
    fn bounds_are_kept_of_time_and_sort_key_first() {
        let names: Vec<_> = stats_columns(&TOKENS).iter().map(|column| column.name).collect();
        assert_eq!(names[..4], ["time", "trace_id", "choice", "index"]);
        for table in TABLES {
            let columns = stats_columns(table);
            assert!(columns.len() <= 8 && columns[0].name == "time", "{}", table.name);
        }
    }
}
