//! Which files to merge next. Pure: files and the time in, jobs out.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::snapshot::{File, Value};

/// A window is merged this long after its end, when its late rows have mostly come. Microseconds.
const GRACE_US: i64 = 60_000_000;
/// Windows of the first level: the leading edge stays small in files. Microseconds.
const MINUTE_US: i64 = 60_000_000;
/// Windows of the second level. Microseconds.
const QUARTER_US: i64 = 15 * MINUTE_US;
/// Rows of one merge: they are all in memory while they are put in order, at roughly half a kilobyte each.
const ROWS_MAX: u64 = 256 * 1024;
/// Bytes of the files of one merge.
const BYTES_MAX: u64 = 32 << 20;
/// Files of one merge.
const FILES_MAX: usize = 512;

/// How often the rows of a file have been merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// As they came.
    Arrival,
    /// A minute.
    Minute,
    /// A quarter of an hour.
    Quarter,
}

/// Files to merge into one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Job {
    pub(super) date: String,
    pub(super) level: Level,
    /// Start of the window, microseconds since 1970-01-01 UTC.
    pub(super) window_us: i64,
    pub(super) files: Vec<Arc<File>>,
}

impl Level {
    /// As in the tag `level`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Level::Arrival => "0",
            Level::Minute => "1",
            Level::Quarter => "2",
        }
    }

    fn of(file: &File) -> Option<Level> {
        match file.tags.get("level").map(String::as_str) {
            None | Some("0") => Some(Level::Arrival),
            Some("1") => Some(Level::Minute),
            Some("2") => Some(Level::Quarter),
            // Of a later version of this program, which will look after it.
            Some(_) => None,
        }
    }
}

impl Job {
    /// Rows of all its files.
    pub(super) fn rows(&self) -> u64 {
        self.files.iter().filter_map(|file| file.rows).sum()
    }
}

/// What can be merged now, the newest window first: that is where readers look most.
pub(super) fn plan(files: &[Arc<File>], now_us: i64) -> Vec<Job> {
    let mut windows: BTreeMap<(i64, Level, &str), Vec<Arc<File>>> = BTreeMap::new();
    for file in files {
        if let Some((window_us, level)) = window(file, now_us) {
            windows.entry((window_us, level, &file.date)).or_default().push(Arc::clone(file));
        }
    }
    let jobs = windows.into_iter().rev().flat_map(|((window_us, level, date), files)| {
        let parts = split(files).into_iter();
        parts.map(move |files| Job { date: date.to_owned(), level, window_us, files })
    });
    jobs.collect()
}

/// The closed window that a file is to be merged in, by its last row, and the level it reaches there.
fn window(file: &File, now_us: i64) -> Option<(i64, Level)> {
    let level = Level::of(file)?;
    file.rows?;
    let newest = file.newest_time_us()?;
    let closed = |length: i64| {
        let start = newest.div_euclid(length).checked_mul(length)?;
        let end = start.checked_add(length)?.checked_add(GRACE_US)?;
        (end <= now_us).then_some(start)
    };
    if level >= Level::Quarter {
        return None;
    }
    let quarter = closed(QUARTER_US).map(|start| (start, Level::Quarter));
    let minute = || closed(MINUTE_US).filter(|_| level < Level::Minute).map(|start| (start, Level::Minute));
    quarter.or_else(minute)
}

/// Files by time, in groups that a merge can hold. One file alone stays as it is.
fn split(mut files: Vec<Arc<File>>) -> Vec<Vec<Arc<File>>> {
    files.sort_by_key(|file| oldest_us(file));
    let mut groups: Vec<Vec<Arc<File>>> = Vec::new();
    let (mut rows, mut bytes) = (0_u64, 0_u64);
    for file in files {
        rows = rows.saturating_add(file.rows.unwrap_or(u64::MAX));
        bytes = bytes.saturating_add(file.size);
        match groups.last_mut() {
            Some(group) if rows <= ROWS_MAX && bytes <= BYTES_MAX && group.len() < FILES_MAX => group.push(file),
            _ => {
                (rows, bytes) = (file.rows.unwrap_or(u64::MAX), file.size);
                groups.push(vec![file]);
            }
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}

fn oldest_us(file: &File) -> i64 {
    match file.stats.get("time").and_then(|stats| stats.min.as_ref()) {
        Some(Value::Time(us)) => *us,
        _ => i64::MIN,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::{Level, MINUTE_US, QUARTER_US, ROWS_MAX, plan};
    use crate::snapshot::{ColumnStats, File, Value};

    fn file(name: &str, level: &str, from_us: i64, to_us: i64, rows: u64) -> Arc<File> {
        let time = ColumnStats { min: Some(Value::Time(from_us)), max: Some(Value::Time(to_us)), nulls: Some(0) };
        Arc::new(File {
            path: name.to_owned(),
            size: 1,
            rows: Some(rows),
            date: "1970-01-01".to_owned(),
            modified_ms: 0,
            stats: BTreeMap::from([("time".to_owned(), time)]),
            tags: BTreeMap::from([("level".to_owned(), level.to_owned())]),
        })
    }

    /// Level, window in minutes and names of each job.
    fn jobs(files: &[Arc<File>], now_us: i64) -> Vec<(Level, i64, Vec<String>)> {
        let jobs = plan(files, now_us).into_iter();
        jobs.map(|job| {
            let names = job.files.iter().map(|file| file.path.clone()).collect();
            (job.level, job.window_us / MINUTE_US, names)
        })
        .collect()
    }

    #[test]
    fn a_minute_is_merged_a_minute_after_its_end_and_newer_ones_come_first() {
        let second = |n: i64| file(&n.to_string(), "0", n * 1_000_000, n * 1_000_000 + 999_999, 1);
        let files: Vec<_> = [10, 5, 65, 119, 120].map(second).into();
        assert_eq!(jobs(&files, 2 * MINUTE_US - 1), []);
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        let wanted = [(Level::Minute, 1, names(["65", "119"])), (Level::Minute, 0, names(["5", "10"]))];
        assert_eq!(jobs(&files, 2 * MINUTE_US), wanted[1..]);
        assert_eq!(jobs(&files, 3 * MINUTE_US), wanted);
    }

    #[test]
    fn a_quarter_takes_its_minutes_and_what_came_late() {
        let mut files: Vec<_> =
            (0..15).map(|n| file(&format!("m{n:02}"), "1", n * MINUTE_US, n * MINUTE_US + 1, 1)).collect();
        files.push(file("late", "0", 3 * MINUTE_US + 5, 3 * MINUTE_US + 6, 1));
        assert_eq!(jobs(&files, QUARTER_US), [], "minutes are not merged again before the quarter is over");
        let found = jobs(&files, QUARTER_US + MINUTE_US);
        assert_eq!((found.len(), found[0].0, found[0].2.len()), (1, Level::Quarter, 16));
        assert_eq!(found[0].2[4], "late");
        let done = [file("q", "2", 0, QUARTER_US - 1, 16), file("alone", "0", 5, 6, 1)];
        assert_eq!(jobs(&done, 10 * QUARTER_US), [], "one file alone stays as it is");
    }

    #[test]
    fn a_merge_holds_no_more_rows_than_fit_in_memory() {
        let third = ROWS_MAX / 3;
        let mut files: Vec<_> = (0..7).map(|n| file(&n.to_string(), "0", n, n, third)).collect();
        files.push(file("large", "0", 3, 3, ROWS_MAX + 1));
        let found: Vec<_> = plan(&files, QUARTER_US * 3).iter().map(|job| (job.rows(), job.files.len())).collect();
        assert!(found.iter().all(|(rows, files)| *rows <= ROWS_MAX && *files > 1), "{found:?}");
        assert!(!found.is_empty());
    }

    #[test]
    fn a_file_that_does_not_say_what_it_holds_is_left_alone() {
        let mut silent = (*file("a", "0", 1, 2, 1)).clone();
        silent.rows = None;
        let mut timeless = (*file("b", "0", 1, 2, 1)).clone();
        timeless.stats.clear();
        let files = [Arc::new(silent), Arc::new(timeless), file("c", "9", 1, 2, 1), file("d", "0", 1, 2, 1)];
        assert_eq!(jobs(&files, QUARTER_US * 3), []);
    }
}
