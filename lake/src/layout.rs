//! Where things lie.
//!
//! ```text
//! <lake>/<table>/_delta_log/00000000000000000042.json
//! <lake>/<table>/date=2026-11-29/<name>.parquet
//! ```

use object_store::path::Path;
use service::{Error, Result};
use telemetry::table::{PARTITION, Table};

/// Folder of a table's Delta log, in the table's folder.
const LOG: &str = "_delta_log";
/// Digits of a version in the name of a log entry.
const VERSION_DIGITS: usize = 20;

/// Path of a data file relative to the lake: `<table>/date=<date>/<name>`.
///
/// # Errors
/// `Invalid` if `date` is no `YYYY-MM-DD` or `name` is not a plain file name.
pub fn data_path(table: &Table, date: &str, name: &str) -> Result<String> {
    if date.parse::<jiff::civil::Date>().is_err() || date.len() != 10 {
        return Err(Error::invalid(format!("date `{date}` of table {} is not YYYY-MM-DD", table.name)));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with(['.', '_']) || !name.chars().all(plain) {
        return Err(Error::invalid(format!("`{name}` cannot name a data file")));
    }
    Ok(format!("{}/{PARTITION}={date}/{name}", table.name))
}

/// Name of the file that holds one table's rows of a journal's frames (`from`, `to`]; `unique` sets apart two attempts.
pub fn file_name(journal: &str, from: u64, to: u64, unique: &str) -> String {
    format!("{journal}-{from}-{to}-{unique}.parquet")
}

/// What sets apart two attempts to write the same rows.
pub fn unique() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Name of a file that a merge made of others, of one level and window.
pub(crate) fn merged_name(level: &str, window_us: i64, unique: &str) -> String {
    format!("{MERGED}{level}-{window_us}-{unique}.parquet")
}

/// What names of merged files begin with.
const MERGED: &str = "compact-";

/// Who made a file in a table's folder, by its name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Maker<'a> {
    /// A journal, of its frames up to `to`.
    Journal { journal: &'a str, to: u64 },
    /// A merge.
    Merge,
    /// A writer that had not finished it.
    Unfinished,
    /// Somebody else.
    Stranger,
}

impl Maker<'_> {
    /// Reads a name made by [`file_name`] or [`merged_name`].
    pub(crate) fn of(name: &str) -> Maker<'_> {
        if name.starts_with('.') {
            return if name.ends_with(".tmp") { Maker::Unfinished } else { Maker::Stranger };
        }
        let Some(stem) = name.strip_suffix(".parquet") else { return Maker::Stranger };
        if stem.starts_with(MERGED) {
            return Maker::Merge;
        }
        let parts: Vec<_> = stem.rsplitn(4, '-').collect();
        match parts[..] {
            [_, to, from, journal] if from.parse::<u64>().is_ok() && !journal.is_empty() => {
                to.parse().map_or(Maker::Stranger, |to| Maker::Journal { journal, to })
            }
            _ => Maker::Stranger,
        }
    }
}

/// The log entry of one version.
pub(crate) fn commit_path(table: &Table, version: i64) -> Path {
    log_folder(table).join(format!("{version:0VERSION_DIGITS$}.json"))
}

/// The note that names the newest checkpoint.
pub(crate) fn checkpoint_hint_path(table: &Table) -> Path {
    log_folder(table).join("_last_checkpoint")
}

/// The folder of a table's log.
pub(crate) fn log_folder(table: &Table) -> Path {
    Path::from(table.name).join(LOG)
}

/// What a file in the log's folder is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LogFile {
    /// One version.
    Commit(i64),
    /// A checkpoint of one version in `parts` files.
    Checkpoint { version: i64, parts: usize },
    /// Anything else: notes, temporary files, checksums.
    Other,
}

impl LogFile {
    /// Reads a name such as `00000000000000000042.checkpoint.parquet`.
    pub(crate) fn parse(name: &str) -> LogFile {
        let Some((digits, rest)) = name.split_once('.') else { return LogFile::Other };
        let Some(version) = version(digits) else { return LogFile::Other };
        match rest.split('.').collect::<Vec<_>>()[..] {
            ["json"] => LogFile::Commit(version),
            ["checkpoint", "parquet"] => LogFile::Checkpoint { version, parts: 1 },
            ["checkpoint", _, parts, "parquet"] => {
                parts.parse().map_or(LogFile::Other, |parts| LogFile::Checkpoint { version, parts })
            }
            _ => LogFile::Other,
        }
    }
}

fn version(digits: &str) -> Option<i64> {
    let numeric = digits.len() == VERSION_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
    if numeric { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::{LogFile, Maker, commit_path, data_path, file_name, merged_name};
    use telemetry::table::TOKENS;

    #[test]
    fn a_data_file_lies_under_its_table_and_date() {
        let name = file_name("c1", 3, 9, "ab12");
        let path = data_path(&TOKENS, "2026-11-29", &name).expect("a good name");
        assert_eq!(path, "tokens/date=2026-11-29/c1-3-9-ab12.parquet");
    }

    #[test]
    fn names_that_would_leave_the_folder_or_hide_are_refused() {
        for name in ["", "../x", "a/b", ".hidden", "_hidden", "a b", "a%2fb"] {
            assert!(data_path(&TOKENS, "2026-11-29", name).is_err(), "{name}");
        }
        for date in ["", "2026-1-1", "2026-13-01", "29-11-2026", "../2026-11"] {
            assert!(data_path(&TOKENS, date, "a.parquet").is_err(), "{date}");
        }
    }

    #[test]
    fn a_name_says_who_made_a_file() {
        let journal = "0189-ab";
        let ours = file_name(journal, 3, 9, "ab12");
        assert_eq!(Maker::of(&ours), Maker::Journal { journal, to: 9 });
        assert_eq!(Maker::of(&merged_name("2", 1_795_910_400_000_000, "ab")), Maker::Merge);
        assert_eq!(Maker::of(".j-0-1-x.parquet.5f.tmp"), Maker::Unfinished);
        for other in
            ["part-00000-x.snappy.parquet", "j-a-1-x.parquet", "-1-2-x.parquet", "x.parquet", "j-1-2-x.txt", ".x"]
        {
            assert_eq!(Maker::of(other), Maker::Stranger, "{other}");
        }
    }

    #[test]
    fn log_files_are_told_apart() {
        assert_eq!(LogFile::parse(commit_path(&TOKENS, 42).filename().expect("a name")), LogFile::Commit(42));
        let single = LogFile::parse("00000000000000000010.checkpoint.parquet");
        assert_eq!(single, LogFile::Checkpoint { version: 10, parts: 1 });
        let part = LogFile::parse("00000000000000000010.checkpoint.0000000001.0000000003.parquet");
        assert_eq!(part, LogFile::Checkpoint { version: 10, parts: 3 });
        for other in ["_last_checkpoint", "00000000000000000010.crc", "10.json", ".00000000000000000010.json.tmp"] {
            assert_eq!(LogFile::parse(other), LogFile::Other, "{other}");
        }
    }
}
