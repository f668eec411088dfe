use std::collections::BTreeMap;
use std::sync::Arc;

use lake::{Arrival, ColumnStats, File, Value};

use super::{Built, MINUTE_US, News, Part, Versions, due, files_with_rows, news};
use crate::rollup::{ROLLUPS, Rollup};

/// 2026-11-29 12:00 UTC in minutes since 1970.
const NOON: i64 = 29_932_560;

fn requests() -> &'static Rollup {
    ROLLUPS[0]
}

fn devices() -> &'static Rollup {
    ROLLUPS[3]
}

fn file(minutes: (i64, i64), written_minute: i64, tags: &[(&str, &str)]) -> File {
    let bound = |minute: i64| Some(Value::Time(minute * MINUTE_US + 30_000_000));
    let stats = ColumnStats { min: bound(minutes.0), max: bound(minutes.1), nulls: Some(0) };
    File {
        path: "x".to_owned(),
        size: 1,
        rows: Some(1),
        date: "2026-11-29".to_owned(),
        modified_ms: written_minute * 60_000 + 40_000,
        stats: BTreeMap::from([("time".to_owned(), stats)]),
        tags: tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    }
}

fn versions(source: &str, version: i64) -> Versions {
    Versions::from([(source.to_owned(), version)])
}

/// Built through 13:10 from version 5, with files of the hours 12 and 13.
fn built(source: &str) -> Built {
    let part = |version| Part { paths: vec!["p".to_owned()], sources: versions(source, version) };
    let hour = |hour: i64| (NOON + hour * 60) * MINUTE_US;
    Built {
        through_us: (NOON + 70) * MINUTE_US,
        settled: versions(source, 5),
        files: BTreeMap::from([(hour(0), part(5)), (hour(1), part(5))]),
        ..Built::default()
    }
}

/// Minutes after noon that are stale once `file` came as version 6.
fn stale(rollup: &Rollup, built: &Built, file: File) -> Vec<(i64, i64)> {
    let arrivals = [Arrival { version: 6, file: Arc::new(file) }];
    let news = [News { source: rollup.sources[0].table.name, arrivals: Some(&arrivals), ..News::default() }];
    let ranges = built.stale(rollup, &news, 0);
    ranges.iter().map(|range| (range.start / MINUTE_US - NOON, range.end / MINUTE_US - NOON)).collect()
}

#[test]
fn rows_that_are_on_time_change_no_window_that_is_built() {
    assert_eq!(stale(requests(), &built("requests"), file((NOON + 72, NOON + 72), NOON + 72, &[])), []);
    // 30 s into the minute after the last that is built: the call before it may have been counted at a gateway
    assert_eq!(stale(requests(), &built("requests"), file((NOON + 70, NOON + 70), NOON + 71, &[])), [(69, 70)]);
}

#[test]
fn a_late_row_changes_its_own_window_and_its_neighbours() {
    let late = (NOON + 7).to_string();
    let came = || file((NOON + 7, NOON + 72), NOON + 72, &[("minutes", &late)]);
    assert_eq!(stale(requests(), &built("requests"), came()), [(6, 9), (68, 70)]);
    assert_eq!(stale(devices(), &built("devices"), came()), [(6, 10), (68, 70)]);
    // without the tag nothing is known of what lies between
    assert_eq!(stale(requests(), &built("requests"), file((NOON + 7, NOON + 72), NOON + 72, &[])), [(6, 70)]);
}

#[test]
fn a_merge_changes_only_what_it_left_out() {
    let twins = (NOON + 7).to_string();
    let merged = file((NOON, NOON + 59), NOON + 72, &[("level", "3"), ("minutes", &twins)]);
    assert_eq!(stale(requests(), &built("requests"), merged), [(6, 9)]);
    assert_eq!(stale(requests(), &built("requests"), file((NOON, NOON + 59), NOON + 72, &[("level", "3")])), []);
}

#[test]
fn a_file_that_holds_the_rows_already_is_not_stale() {
    let late = format!("{}-{}", NOON + 50, NOON + 65);
    let came = || file((NOON + 50, NOON + 65), NOON + 72, &[("minutes", &late)]);
    let mut built = built("requests");
    assert_eq!(stale(requests(), &built, came()), [(49, 67)]);
    // the first hour was written anew from version 6, in a round that did not come to the second
    let first = built.files.values_mut().next().expect("two files");
    first.sources = versions("requests", 6);
    assert_eq!(stale(requests(), &built, came()), [(60, 67)]);
    built.settled = versions("requests", 6);
    assert_eq!(stale(requests(), &built, came()), []);
}

#[test]
fn what_nobody_knows_is_stale_and_what_may_have_been_dropped_stays() {
    let built = built("requests");
    let unknown = [News { source: "requests", arrivals: None, ..News::default() }];
    let all = |from_us: i64| std::iter::once(from_us..built.through_us).collect::<Vec<_>>();
    assert_eq!(built.stale(requests(), &unknown, 0), all(NOON * MINUTE_US));
    let floor = (NOON + 30) * MINUTE_US;
    assert_eq!(built.stale(requests(), &unknown, floor), all(floor));
    let late = format!("{}-{}", NOON + 20, NOON + 40);
    let arrivals =
        [Arrival { version: 6, file: Arc::new(file((NOON + 20, NOON + 40), NOON + 72, &[("minutes", &late)])) }];
    let news = [News { source: "requests", arrivals: Some(&arrivals), ..News::default() }];
    assert_eq!(built.stale(requests(), &news, floor)[0].start, floor);
}

/// A price changes every hour from then on, a call in flight those that it reaches into.
#[test]
fn a_dated_fact_changes_all_that_comes_after_it() {
    let costs = ROLLUPS[5];
    let hour = |hour: i64| (NOON + hour * 60) * MINUTE_US;
    let part = || Part { paths: vec!["p".to_owned()], sources: versions("prices", 5) };
    let built = Built {
        through_us: hour(4),
        settled: versions("prices", 5),
        files: [0, 1, 3].map(|at| (hour(at), part())).into(),
        ..Built::default()
    };
    let stale = |source, minutes: (i64, i64)| {
        let late = format!("{}-{}", minutes.0, minutes.1);
        let came = file(minutes, NOON + 300, &[("minutes", &late), ("level", "1")]);
        let arrivals = [Arrival { version: 6, file: Arc::new(came) }];
        let ranges = built.stale(costs, &[News { source, arrivals: Some(&arrivals), ..News::default() }], hour(1));
        ranges.iter().map(|range| (range.start / MINUTE_US - NOON, range.end / MINUTE_US - NOON)).collect::<Vec<_>>()
    };
    assert_eq!(stale("prices", (NOON + 190, NOON + 190)), [(180, 240)]);
    // one of years ago: as far back as rows are kept, and no hour that has none
    assert_eq!(stale("prices", (1, 1)), [(60, 120), (180, 240)]);
    assert_eq!(stale("requests", (NOON + 110, NOON + 110)), [(60, 180)]);
    assert_eq!(stale("tokens", (NOON + 90, NOON + 90)), [(60, 120)]);
}

#[test]
fn a_window_is_due_a_minute_after_its_end() {
    let at = |minute: i64, second: i64| (NOON + minute) * MINUTE_US + second * 1_000_000;
    assert_eq!(due(requests(), at(1, 59)), at(0, 0));
    assert_eq!(due(requests(), at(2, 0)), at(1, 0));
    assert_eq!(due(ROLLUPS[4], at(60, 59)), at(-60, 0) + 3_600_000_000);
    assert_eq!(due(ROLLUPS[4], at(61, 0)), at(60, 0));
}

#[test]
fn state_goes_through_tags_and_back() {
    let mut built = built("requests");
    built.rebuilt = 3;
    built.folded = 7;
    let mut snapshot = lake_snapshot(Vec::new());
    for (start, part) in &built.files {
        let minute = start / MINUTE_US;
        let mut one = file((minute, minute + 9), minute + 11, &[]);
        one.path = "p".to_owned();
        one.tags = built.tags(&part.sources);
        snapshot.files.push(Arc::new(one));
    }
    assert_eq!(Built::of(requests(), &snapshot), Some(built));
    assert_eq!(Built::of(requests(), &lake_snapshot(Vec::new())), None);
}

#[test]
fn files_without_rows_are_not_made() {
    let rows =
        lake_snapshot(vec![file((NOON, NOON + 3), NOON + 4, &[]), file((NOON + 300, NOON + 301), NOON + 302, &[])]);
    let rows = [Arc::new(rows)];
    let hours = |from: i64| -> Vec<i64> {
        let starts = files_with_rows(requests(), &rows, (NOON + from) * MINUTE_US, (NOON + 400) * MINUTE_US);
        starts.iter().map(|start| (start / MINUTE_US - NOON) / 60).collect()
    };
    assert_eq!(hours(0), [0, 5]);
    assert_eq!(hours(3), [0, 5]);
    assert_eq!(hours(4), [5]);
}

/// A rate restates hours that a bill speaks of, whether they have rows or not; an hour that was found empty since is not looked at again.
#[test]
fn a_rate_restates_hours_that_are_charged() {
    let costs = ROLLUPS[5];
    let hour = |hour: i64| (NOON + hour * 60) * MINUTE_US;
    let part = Part { paths: vec!["p".to_owned()], sources: versions("exchange_rates", 5) };
    let mut built = Built {
        through_us: hour(9),
        settled: versions("exchange_rates", 5),
        files: [(hour(0), part)].into(),
        ..Built::default()
    };
    let table = |table, files| Arc::new(lake::Snapshot { table, ..lake_snapshot(files) });
    let bill = file((NOON + 180, NOON + 290), NOON + 600, &[]);
    let sources = [table(&telemetry::table::BILLING, vec![bill]), table(&telemetry::table::EXCHANGE_RATES, vec![])];
    let rate = file((NOON - 60, NOON - 60), NOON + 600, &[("minutes", &(NOON - 60).to_string()), ("level", "1")]);
    let came = [Some(vec![]), Some(vec![Arrival { version: 6, file: Arc::new(rate) }])];
    let hours = |built: &Built| -> Vec<(i64, i64)> {
        let aged = built.aged(costs, &news(costs, &sources, &came, &(0..hour(9))), (0, hour(8)));
        aged.iter().map(|range| ((range.start / MINUTE_US - NOON) / 60, (range.end / MINUTE_US - NOON) / 60)).collect()
    };
    assert_eq!(hours(&built), [(0, 1), (3, 5)]);
    built.empty.insert(hour(4), versions("exchange_rates", 6));
    assert_eq!(hours(&built), [(0, 1), (3, 4)]);
}

/// A list of hosts makes windows where nothing was heard of anybody, as far back as raw rows are kept and until what is built ends.
#[test]
fn a_list_of_hosts_restates_hours_without_rows() {
    let costs = ROLLUPS[5];
    let hour = |hour: i64| (NOON + hour * 60) * MINUTE_US;
    let built = Built { through_us: hour(4), settled: versions("inventory", 5), ..Built::default() };
    let list = file((NOON + 90, NOON + 100), NOON + 600, &[]);
    let sources =
        [Arc::new(lake::Snapshot { table: &telemetry::table::INVENTORY, ..lake_snapshot(vec![list.clone()]) })];
    let came = [Some(vec![Arrival { version: 6, file: Arc::new(list) }])];
    let stale = |floor_us: i64| -> Vec<(i64, i64)> {
        let stale = built.stale(costs, &news(costs, &sources, &came, &(floor_us..hour(4))), floor_us);
        stale.iter().map(|range| ((range.start / MINUTE_US - NOON) / 60, (range.end / MINUTE_US - NOON) / 60)).collect()
    };
    assert_eq!(stale(0), [(1, 4)]);
    assert_eq!(stale(hour(3)), [(3, 4)]);
    let next = files_with_rows(costs, &sources, hour(4), hour(6));
    assert_eq!(next.into_iter().collect::<Vec<_>>(), [hour(4), hour(5)], "and those that are built next");
}

/// What the fee of a commitment of years covers is no hours of a host, let alone what a wrong date makes of it.
#[test]
fn a_long_charge_makes_no_windows_of_years() {
    let costs = ROLLUPS[5];
    let mut bill = file((NOON, NOON + 3), NOON + 4, &[]);
    let century = Some(Value::Time((NOON + 100 * 366 * 24 * 60) * MINUTE_US));
    bill.stats.insert("charge_to".to_owned(), ColumnStats { min: None, max: century, nulls: Some(0) });
    let bill = lake::Snapshot { table: &telemetry::table::BILLING, ..lake_snapshot(vec![bill]) };
    let starts = files_with_rows(costs, &[Arc::new(bill)], NOON * MINUTE_US, i64::MAX / 2);
    assert_eq!(starts.len(), 32 * 24 + 1);
}

fn lake_snapshot(files: Vec<File>) -> lake::Snapshot {
    lake::Snapshot {
        table: &telemetry::table::REQUESTS_1M,
        version: 1,
        committed_at_us: None,
        files: files.into_iter().map(Arc::new).collect(),
        newest_time_us: None,
    }
}
