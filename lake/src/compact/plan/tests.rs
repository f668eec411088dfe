use std::collections::BTreeMap;
use std::sync::Arc;

use telemetry::table::TOKENS;

use super::{FULL_BYTES, LATE_FILES, Level, MINUTE_US, ROWS_MAX, plan};
use crate::snapshot::{ColumnStats, File, SORT_TAG, Value, order_tag};

const QUARTER_US: i64 = 15 * MINUTE_US;
const HOUR_US: i64 = 60 * MINUTE_US;

fn file(name: &str, level: &str, from_us: i64, to_us: i64, rows: u64) -> Arc<File> {
    let time = ColumnStats { min: Some(Value::Time(from_us)), max: Some(Value::Time(to_us)), nulls: Some(0) };
    let mut tags = BTreeMap::from([("level".to_owned(), level.to_owned())]);
    if level != "0" {
        tags.insert(SORT_TAG.to_owned(), order_tag(&TOKENS));
    }
    Arc::new(File {
        path: name.to_owned(),
        size: 1,
        rows: Some(rows),
        date: "1970-01-01".to_owned(),
        modified_ms: to_us / 1_000,
        stats: BTreeMap::from([("time".to_owned(), time)]),
        tags,
    })
}

/// Level, window in minutes and names of each job.
fn jobs(files: &[Arc<File>], now_us: i64) -> Vec<(Level, i64, Vec<String>)> {
    let jobs = plan(&TOKENS, files, now_us).into_iter();
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
fn each_longer_window_takes_the_shorter_ones_and_what_came_late() {
    let mut files: Vec<_> =
        (0..15).map(|n| file(&format!("m{n:02}"), "1", n * MINUTE_US, n * MINUTE_US + 1, 1)).collect();
    files.push(file("late", "0", 3 * MINUTE_US + 5, 3 * MINUTE_US + 6, 1));
    assert_eq!(jobs(&files, QUARTER_US), [], "minutes are not merged again before the quarter is over");
    let found = jobs(&files, QUARTER_US + MINUTE_US);
    assert_eq!((found.len(), found[0].0, found[0].2.len()), (1, Level::Quarter, 16));
    assert_eq!(found[0].2[4], "late");

    let quarters = [file("a", "2", 0, 1, 1), file("b", "2", QUARTER_US, QUARTER_US + 1, 1)];
    assert_eq!(jobs(&quarters, HOUR_US + MINUTE_US - 1), []);
    assert_eq!(jobs(&quarters, HOUR_US + MINUTE_US), [(Level::Hour, 0, vec!["a".to_owned(), "b".to_owned()])]);
    let hours = [file("a", "3", 0, 1, 1), file("b", "3", 9 * HOUR_US, 9 * HOUR_US + 1, 1)];
    assert_eq!(jobs(&hours, 24 * HOUR_US), []);
    assert_eq!(jobs(&hours, 24 * HOUR_US + MINUTE_US), [(Level::Day, 0, vec!["a".to_owned(), "b".to_owned()])]);
}

#[test]
fn late_files_join_their_windows_file_once_they_are_many_or_have_waited() {
    let now_us = 30 * MINUTE_US;
    let late = |n: i64| {
        let mut late = (*file(&format!("late{n}"), "0", 5 + n, 6 + n, 1)).clone();
        late.modified_ms = now_us / 1_000;
        Arc::new(late)
    };
    let mut files = vec![file("q", "2", 0, QUARTER_US - 1, 16), late(0)];
    assert_eq!(jobs(&files, now_us), [], "one waits for others");
    assert_eq!(jobs(&files, now_us + QUARTER_US)[0].2, ["q", "late0"], "but not for ever");
    files.extend((1..8).map(late));
    assert_eq!(files.len(), 1 + LATE_FILES);
    assert_eq!(jobs(&files, now_us)[0].2.len(), 1 + LATE_FILES);
    assert_eq!(jobs(&[file("alone", "0", 5, 6, 1)], now_us), [], "one file alone stays as it is");
}

#[test]
fn a_merge_holds_no_more_than_fits_in_memory() {
    let mut files: Vec<_> = (0..7).map(|n| file(&n.to_string(), "0", n, n, ROWS_MAX / 3)).collect();
    files.push(file("large", "0", 3, 3, ROWS_MAX + 1));
    let found: Vec<_> = plan(&TOKENS, &files, QUARTER_US * 3).iter().map(|job| (job.rows(), job.files.len())).collect();
    assert!(found.iter().all(|(rows, files)| *rows <= ROWS_MAX || *files == 1), "{found:?}");
    assert!(found.contains(&(ROWS_MAX + 1, 1)), "a large one is put in order by itself: {found:?}");

    let sorted: Vec<_> = (0..9).map(|n| file(&n.to_string(), "1", n, n, ROWS_MAX / 4)).collect();
    let found: Vec<_> = plan(&TOKENS, &sorted, QUARTER_US * 3).iter().map(|job| job.files.len()).collect();
    assert_eq!(found, [4, 4], "rows in order are streamed, so there may be more; the ninth is alone");
    let mut large = (*file("large", "1", 0, 0, 1)).clone();
    large.size = FULL_BYTES;
    let full = [Arc::new(large), file("full", "1", 0, 0, ROWS_MAX / 2), file("small", "1", 0, 0, 1)];
    assert_eq!(jobs(&full, QUARTER_US * 3), [], "what is large enough is not written again");
    let raw = [file("raw", "0", 0, 0, ROWS_MAX / 2), file("small", "1", MINUTE_US * 20, MINUTE_US * 20, 1)];
    assert_eq!(jobs(&raw, QUARTER_US * 3)[0].2, ["raw"], "unless its rows are not in order");
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
