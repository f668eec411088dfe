//! Which files to merge next. Pure: files and the time in, jobs out.

use std::collections::BTreeMap;
use std::sync::Arc;

use telemetry::table::Table;

use crate::snapshot::{File, Value};

/// A window is merged this long after its end, when its late rows have mostly come. Microseconds.
const GRACE_US: i64 = 60_000_000;
/// Microseconds in a minute, the smallest window: the leading edge stays small in files.
const MINUTE_US: i64 = 60_000_000;
/// Late files that are worth rewriting their window's file for.
const LATE_FILES: usize = 8;
/// Time after which fewer are. Milliseconds.
const LATE_MS: i64 = 15 * 60_000;
/// Rows of one merge.
const ROWS_MAX: u64 = 2 << 20;
/// Bytes of the files of one merge, which are in memory as they lie in the store.
const BYTES_MAX: u64 = 64 << 20;
/// Files of one merge.
const FILES_MAX: usize = 512;
/// A file with so many rows or bytes is large enough for good.
const FULL_ROWS: u64 = ROWS_MAX / 2;
const FULL_BYTES: u64 = BYTES_MAX / 2;

/// How often the rows of a file have been merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// As they came.
    Arrival,
    Minute,
    Quarter,
    Hour,
    Day,
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
    const ALL: [Level; 5] = [Level::Arrival, Level::Minute, Level::Quarter, Level::Hour, Level::Day];

    /// As in the tag `level`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Level::Arrival => "0",
            Level::Minute => "1",
            Level::Quarter => "2",
            Level::Hour => "3",
            Level::Day => "4",
        }
    }

    /// `None` for a level of a later version of this program, which will look after the file.
    fn of(file: &File) -> Option<Level> {
        let name = file.tags.get("level").map_or("0", String::as_str);
        Level::ALL.into_iter().find(|level| level.name() == name)
    }

    /// Length of its windows, microseconds; each divides a day.
    fn window_us(self) -> Option<i64> {
        let minutes = match self {
            Level::Arrival => return None,
            Level::Minute => 1,
            Level::Quarter => 15,
            Level::Hour => 60,
            Level::Day => 24 * 60,
        };
        Some(minutes * MINUTE_US)
    }

    /// Start of the window of this level that holds an instant, and the end of that window.
    fn window(self, us: i64) -> Option<(i64, i64)> {
        let length = self.window_us()?;
        let start = us.div_euclid(length).checked_mul(length)?;
        Some((start, start.checked_add(length)?))
    }
}

impl Job {
    /// Rows of all its files.
    pub(super) fn rows(&self) -> u64 {
        self.files.iter().filter_map(|file| file.rows).sum()
    }
}

/// A closed window: its start, the level that its files reach, and the date.
type Window<'a> = (i64, Level, &'a str);

/// What can be merged now, the newest window first: that is where readers look most.
pub(super) fn plan(table: &Table, files: &[Arc<File>], now_us: i64) -> Vec<Job> {
    let mut windows: BTreeMap<Window<'_>, Vec<Arc<File>>> = BTreeMap::new();
    let mut there: BTreeMap<Window<'_>, Vec<Arc<File>>> = BTreeMap::new();
    let is_due = |file: &Arc<File>| !is_full(file) || (file.rows.is_some() && !file.is_sorted(table));
    for file in files.iter().filter(|file| is_due(file)) {
        let Some((level, newest_us)) = Level::of(file).zip(file.newest_time_us()) else { continue };
        if let Some((start, _)) = level.window(newest_us).filter(|_| !is_full(file)) {
            there.entry((start, level, &file.date)).or_default().push(Arc::clone(file));
        }
        if let Some((start, level)) = due(level, newest_us, now_us) {
            windows.entry((start, level, &file.date)).or_default().push(Arc::clone(file));
        }
    }
    let jobs = windows.into_iter().rev().flat_map(|(window, mut files)| {
        let (window_us, level, date) = window;
        if let Some(old) = there.get(&window) {
            // Files that came after their window was merged join it, a few at a time.
            let waiting = |file: &Arc<File>| now_us.div_euclid(1_000) - file.modified_ms < LATE_MS;
            if files.len() < LATE_FILES && files.iter().all(waiting) {
                files.clear();
            } else {
                files.extend(old.iter().cloned());
            }
        }
        let parts = split(files).into_iter().filter(|files| is_worth_it(table, files, level));
        let parts: Vec<_> = parts.collect();
        parts.into_iter().map(move |files| Job { date: date.to_owned(), level, window_us, files })
    });
    jobs.collect()
}

/// One file alone stays as it is, unless nothing will ever be merged with it and its rows are not in order.
fn is_worth_it(table: &Table, files: &[Arc<File>], level: Level) -> bool {
    match files {
        [] => false,
        [alone] => !alone.is_sorted(table) && alone.size <= BYTES_MAX && (is_full(alone) || level == Level::Day),
        _ => true,
    }
}

fn is_full(file: &File) -> bool {
    file.rows.is_none_or(|rows| rows >= FULL_ROWS) || file.size >= FULL_BYTES
}

/// The longest closed window that a file is to be merged in, by its last row.
fn due(level: Level, newest_us: i64, now_us: i64) -> Option<(i64, Level)> {
    let above = Level::ALL.into_iter().rev().take_while(|above| *above > level);
    above.into_iter().find_map(|above| {
        let (start, end) = above.window(newest_us)?;
        (end.checked_add(GRACE_US)? <= now_us).then_some((start, above))
    })
}

/// What a group of files comes to.
#[derive(Default)]
struct Size {
    rows: u64,
    bytes: u64,
    files: usize,
}

impl Size {
    fn add(&mut self, file: &File) {
        self.rows = self.rows.saturating_add(file.rows.unwrap_or(u64::MAX));
        self.bytes = self.bytes.saturating_add(file.size);
        self.files += 1;
    }

    fn fits(&self) -> bool {
        self.rows <= ROWS_MAX && self.bytes <= BYTES_MAX && self.files <= FILES_MAX
    }
}

/// Files by time, in groups that a merge can hold.
fn split(mut files: Vec<Arc<File>>) -> Vec<Vec<Arc<File>>> {
    files.sort_by_key(|file| oldest_us(file));
    let mut groups: Vec<Vec<Arc<File>>> = Vec::new();
    let mut size = Size::default();
    for file in files {
        size.add(&file);
        match groups.last_mut() {
            Some(group) if size.fits() => group.push(file),
            _ => {
                size = Size::default();
                size.add(&file);
                groups.push(vec![file]);
            }
        }
    }
    groups
}

fn oldest_us(file: &File) -> i64 {
    match file.stats.get("time").and_then(|stats| stats.min.as_ref()) {
        Some(Value::Time(us)) => *us,
        _ => i64::MIN,
    }
}

#[cfg(test)]
mod tests;
