//! What the columns of the tables in `system` mean, those that are made when they are asked for.

use crate::views::{ViewColumn, column};

const TABLE: ViewColumn = column("table", "", "name of the table");
const LAKE: ViewColumn = column("lake", "", "name of the lake, where there are several");
const READER: ViewColumn = column("reader", "", "principal that asks, `local` where there are none");
const FRONT: ViewColumn = column("front", "", "where it asks: http, postgresql, flight or process");
const SQL: ViewColumn = column("sql", "", "the statement as it came");

const FRESHNESS: [ViewColumn; 10] = [
    TABLE,
    column("version", "", "newest version in the table's log"),
    column("committed_at", "", "when that version was committed"),
    column("newest_time", "", "newest event time in the table"),
    column("commit_age_s", "s", "time since that version was committed"),
    column("lag_s", "s", "time since the newest event"),
    column("files", "{file}", "files of that version"),
    column("rows", "{row}", "rows in them, unknown where a file does not say"),
    column("bytes", "By", "bytes of the files"),
    LAKE,
];

const FILES: [ViewColumn; 9] = [
    TABLE,
    column("path", "", "path below the table"),
    column("date", "", "UTC date of the rows"),
    column("rows", "{row}", "rows in the file"),
    column("bytes", "By", "size of the file"),
    column("written_at", "", "when it was written"),
    column("oldest_time", "", "oldest event time in the file"),
    column("newest_time", "", "newest event time in the file"),
    LAKE,
];

const QUERIES: [ViewColumn; 11] = [
    column("id", "", "number of the query, by which it can be stopped"),
    column("started_at", "", "when it came"),
    column("age_s", "s", "time since it came"),
    READER,
    FRONT,
    column("phase", "", "planning or executing"),
    column("state", "", "running; cancelled or abandoned where it was told to stop and has not yet"),
    column("rows", "{row}", "rows given so far"),
    column("memory_bytes", "By", "memory it holds now"),
    column("peak_memory_bytes", "By", "most memory it held at once"),
    SQL,
];

const AUDIT: [ViewColumn; 10] = [
    column("time", "", "when the query ended"),
    READER,
    FRONT,
    column("outcome", "", "answered, or why not"),
    column("message", "", "the error's text"),
    column("rows", "{row}", "rows given"),
    column("bytes", "By", "bytes of the rows in memory"),
    column("elapsed_ms", "ms", "time from coming to its end"),
    column("sql_hash", "", "the same for the same statement"),
    SQL,
];

const ROLLUPS: [ViewColumn; 10] = [
    TABLE,
    column("view", "", "view that reads it"),
    column("window_s", "s", "length of a window"),
    column("through", "", "end of the newest window that is built"),
    column("lag_s", "s", "time since that end"),
    column("sources", "", "tables it was computed from, with the version of each"),
    column("files", "{file}", "files of its windows"),
    column("rebuilt_windows", "{window}", "windows computed again for late rows"),
    column("folded_keys", "{key}", "keys that became `__other__`"),
    LAKE,
];

/// The column of the table of that name.
pub(crate) fn of(table: &str, name: &str) -> Option<ViewColumn> {
    let columns: &[ViewColumn] = match table {
        "freshness" => &FRESHNESS,
        "files" => &FILES,
        "queries" => &QUERIES,
        "audit" => &AUDIT,
        "rollups" => &ROLLUPS,
        _ => return None,
    };
    columns.iter().copied().find(|column| column.name == name)
}
