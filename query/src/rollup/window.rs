//! Which windows are built, which of them are no longer right, and which are due. Pure: files and the time in, windows out.
//!
//! A roll-up's state is in the tags of its own files, so one commit moves both:
//!
//! - `sources`: the version of each source from which the file's windows were computed, as `requests=812,tokens=40`
//! - `settled`: the version of each source up to which every file of the roll-up is right
//! - `through`: the instant before which all windows are built, microseconds since 1970-01-01 UTC
//! - `rebuilt`, `folded`: windows computed again, and keys folded into `__other__`, since the first build

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use lake::{Arrival, File, Snapshot, Value, sets};

use super::{FOR_EVER, Rollup, is_of_events, is_of_hosts};

/// Microseconds in a minute.
pub(super) const MINUTE_US: i64 = 60_000_000;
/// A window is built this long after its end by wall clock.
const SETTLE_US: i64 = 60_000_000;
/// Rows of a file that are younger than this when it is written are not in its tag `minutes`: two minutes, and one for a clock
/// that was set meanwhile.
const UNTAGGED_US: i64 = 180_000_000;

/// Longest charge that stands for hours of a host, as `node_cost` has it.
const CHARGE_US_MAX: i64 = 32 * 24 * 60 * MINUTE_US;

/// Versions by source table.
pub(super) type Versions = BTreeMap<String, i64>;

/// What of a roll-up is built.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Built {
    /// All windows before this instant are.
    pub(super) through_us: i64,
    /// Versions of the sources up to which every file is right.
    pub(super) settled: Versions,
    /// Its files, by the start of the stretch that each covers.
    pub(super) files: BTreeMap<i64, Part>,
    /// Windows computed again, since the first build.
    pub(super) rebuilt: i64,
    /// Keys folded into `__other__`, since the first build.
    pub(super) folded: i64,
    /// Stretches that were computed by this process and have no rows, by their start: from which versions of the sources. No file says it.
    pub(super) empty: BTreeMap<i64, Versions>,
}

/// One file of a roll-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Part {
    pub(super) paths: Vec<String>,
    /// Versions of the sources that its windows were computed from.
    pub(super) sources: Versions,
}

/// What a table has come to since a roll-up was settled.
#[derive(Clone, Debug, Default)]
pub(super) struct News<'a> {
    pub(super) source: &'a str,
    /// Files that came since; `None` if nobody knows any more.
    pub(super) arrivals: Option<&'a [Arrival]>,
    /// Starts of windows that may have no rows yet and get some by what came.
    pub(super) also: BTreeSet<i64>,
}

/// What came to each of the sources of a roll-up. `kept` is the stretch of windows that raw rows can compute again.
pub(super) fn news<'a>(
    rollup: &Rollup,
    sources: &'a [Arc<Snapshot>],
    arrivals: &'a [Option<Vec<Arrival>>],
    kept: &Range<i64>,
) -> Vec<News<'a>> {
    let of = |(source, arrivals): (&'a Arc<Snapshot>, &'a Option<Vec<Arrival>>)| {
        let arrivals = arrivals.as_deref();
        let came = arrivals.is_none_or(|arrivals| !arrivals.is_empty());
        let also = if came { windows_by(rollup, source, sources, kept) } else { BTreeSet::new() };
        News { source: source.table.name, arrivals, also }
    };
    sources.iter().zip(arrivals).map(of).collect()
}

/// Charges in another currency are in no window until a rate makes dollars of them, and hosts that nobody hears of until a list has them.
fn windows_by(rollup: &Rollup, source: &Arc<Snapshot>, sources: &[Arc<Snapshot>], kept: &Range<i64>) -> BTreeSet<i64> {
    if is_of_hosts(source.table) {
        return files_with_rows(rollup, std::slice::from_ref(source), kept.start, kept.end);
    }
    let Some(aged) = rollup.aged.as_ref().filter(|aged| aged.rates.name == source.table.name) else {
        return BTreeSet::new();
    };
    let charges: Vec<_> = sources.iter().filter(|other| other.table.name == aged.charges.name).cloned().collect();
    files_with_rows(rollup, &charges, 0, i64::MAX / 2)
}

impl Built {
    /// As the roll-up's files say; `None` before the first build.
    pub(super) fn of(rollup: &Rollup, snapshot: &Snapshot) -> Option<Built> {
        let mut built = Built { through_us: i64::MIN, ..Built::default() };
        for file in &snapshot.files {
            let number = |tag: &str| file.tags.get(tag).and_then(|text| text.parse::<i64>().ok());
            let Some(through_us) = number("through") else { continue };
            built.through_us = built.through_us.max(through_us);
            built.rebuilt = built.rebuilt.max(number("rebuilt").unwrap_or(0));
            built.folded = built.folded.max(number("folded").unwrap_or(0));
            for (source, version) in versions(file.tags.get("settled")) {
                let known = built.settled.entry(source).or_insert(-1);
                *known = version.max(*known);
            }
            let Some(newest_us) = file.newest_time_us() else { continue };
            let part = built.files.entry(rollup.file_of(newest_us)).or_default();
            part.paths.push(file.path.clone());
            part.sources = versions(file.tags.get("sources"));
        }
        (built.through_us > i64::MIN).then_some(built)
    }

    /// The tags of a file computed from `sources` while this is the roll-up's state.
    pub(super) fn tags(&self, sources: &Versions) -> BTreeMap<String, String> {
        let tags = [
            ("sources", print(sources)),
            ("settled", print(&self.settled)),
            ("through", self.through_us.to_string()),
            ("rebuilt", self.rebuilt.to_string()),
            ("folded", self.folded.to_string()),
        ];
        tags.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Windows that are built and of which a source has come to hold other rows: in order, none touching the next. Those that
    /// begin before `floor_us` stay as they are: their sources may have been dropped by age.
    pub(super) fn stale(&self, rollup: &Rollup, news: &[News<'_>], floor_us: i64) -> Vec<Range<i64>> {
        self.changed(rollup, news, floor_us..self.through_us)
    }

    /// Windows older than `floor_us`, and not older than the roll-up keeps them, of which what restates aged windows has come to hold
    /// other rows.
    pub(super) fn aged(&self, rollup: &Rollup, news: &[News<'_>], (kept_us, floor_us): (i64, i64)) -> Vec<Range<i64>> {
        let Some(aged) = &rollup.aged else { return Vec::new() };
        let restates = |news: &&News<'_>| [aged.charges.name, aged.rates.name].contains(&news.source);
        let news: Vec<_> = news.iter().filter(restates).cloned().collect();
        self.changed(rollup, &news, kept_us..floor_us.min(self.through_us))
    }

    /// Windows that begin within a stretch and of which one of these sources has come to hold other rows.
    fn changed(&self, rollup: &Rollup, news: &[News<'_>], within: Range<i64>) -> Vec<Range<i64>> {
        let mut windows = BTreeSet::new();
        for News { source, arrivals, also } in news {
            let Some(arrivals) = arrivals else {
                // Nobody knows what came, so everything is computed again.
                let first = self.files.keys().next().copied().unwrap_or(self.through_us);
                return ranges_of(rollup, first.max(within.start), within.end);
            };
            let settled = self.settled.get(*source).copied().unwrap_or(-1);
            for arrival in arrivals.iter().filter(|arrival| arrival.version > settled) {
                self.add(rollup, (source, also), arrival, &within, &mut windows);
            }
        }
        joined(rollup, windows)
    }

    fn add(
        &self,
        rollup: &Rollup,
        (source, also): (&str, &BTreeSet<i64>),
        arrival: &Arrival,
        within: &Range<i64>,
        windows: &mut BTreeSet<i64>,
    ) {
        let reach = rollup.reach(source);
        for (first, last) in minutes(&arrival.file) {
            let from = rollup.window_of((first - reach.0).saturating_mul(MINUTE_US).max(within.start));
            let to = last.saturating_add(reach.1 + 1).saturating_mul(MINUTE_US).min(within.end);
            let mut window = if from < within.start { from + rollup.window_us } else { from };
            while window < to {
                let start = rollup.file_of(window);
                let part = self.files.get(&start);
                let known = part.map(|part| &part.sources).or_else(|| self.empty.get(&start));
                let seen = known.and_then(|sources| sources.get(source)).copied().unwrap_or(-1);
                // What holds for ever makes no rows where there are none.
                let may_hold_rows = part.is_some() || reach.1 < FOR_EVER || also.contains(&window);
                if may_hold_rows && arrival.version > seen {
                    windows.insert(window);
                }
                window += rollup.window_us;
            }
        }
    }
}

/// End of the last window that is due at `now_us`.
pub(super) fn due(rollup: &Rollup, now_us: i64) -> i64 {
    rollup.window_of(now_us - SETTLE_US)
}

/// Starts of the files that windows between two instants lie in, of those in which a source has rows.
pub(super) fn files_with_rows(rollup: &Rollup, sources: &[Arc<Snapshot>], from_us: i64, to_us: i64) -> BTreeSet<i64> {
    let mut starts = BTreeSet::new();
    for source in sources.iter().filter(|source| is_of_events(source.table) || is_of_hosts(source.table)) {
        for file in &source.files {
            let last_us = if is_of_hosts(source.table) { Some(i64::MAX) } else { last_us(file) };
            let (Some(oldest), Some(newest)) = (oldest_us(file), last_us) else { continue };
            if newest < from_us {
                continue;
            }
            // Rows at the very start of a minute may close the one before.
            let mut start = rollup.file_of((oldest - 1).max(from_us));
            while start < to_us && start <= newest {
                starts.insert(start);
                start += rollup.file_us;
            }
        }
    }
    starts
}

/// The oldest `time` of a table's rows, as far as its files say.
pub(super) fn oldest_us_of(source: &Snapshot) -> Option<i64> {
    source.files.iter().filter_map(|file| oldest_us(file)).min()
}

/// Minutes, since 1970-01-01 UTC, of which a file that came has rows that were not there before; first and last of each stretch.
fn minutes(file: &File) -> Vec<(i64, i64)> {
    let tagged = file.tags.get("minutes").map(String::as_str);
    let lists = tagged.into_iter().chain(file.tags.get(sets::WITHDRAWN).map(String::as_str));
    let mut minutes: Vec<_> = lists.flat_map(|list| list.split(',')).filter_map(stretch).collect();
    // A merge that left out rows that were there twice names their minutes, and no other row of it is new.
    if file.tags.contains_key("level") {
        return minutes;
    }
    let oldest_us = match tagged {
        Some(_) => oldest_us(file).max(Some(file.modified_ms.saturating_mul(1_000) - UNTAGGED_US)),
        None => oldest_us(file),
    };
    let newest = last_us(file).map_or(i64::MAX / MINUTE_US, |us| us.div_euclid(MINUTE_US));
    let oldest = oldest_us.map_or(0, |us| us.div_euclid(MINUTE_US));
    minutes.push((oldest.min(newest), newest));
    minutes
}

fn oldest_us(file: &File) -> Option<i64> {
    match file.stats.get("time")?.min {
        Some(Value::Time(us)) => Some(us),
        _ => None,
    }
}

/// The last instant that a row of the file says something of: that of an interval is its end. A charge stands for a host for
/// [`CHARGE_US_MAX`] at most, so that the fee of a commitment of years makes no windows of years.
fn last_us(file: &File) -> Option<i64> {
    let ended = |column: &str| match file.stats.get(column)?.max {
        Some(Value::Time(us)) => Some(us),
        _ => None,
    };
    let newest = file.newest_time_us();
    let charged = ended("charge_to").min(newest.map(|us| us.saturating_add(CHARGE_US_MAX)));
    newest.max(ended("last_seen")).max(charged)
}

fn stretch(text: &str) -> Option<(i64, i64)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (0 <= first && first <= last).then_some((first, last))
}

fn ranges_of(rollup: &Rollup, from_us: i64, to_us: i64) -> Vec<Range<i64>> {
    let from = rollup.window_of(from_us);
    std::iter::once(from..to_us).filter(|range| !range.is_empty()).collect()
}

fn joined(rollup: &Rollup, windows: BTreeSet<i64>) -> Vec<Range<i64>> {
    let mut ranges: Vec<Range<i64>> = Vec::new();
    for window in windows {
        match ranges.last_mut() {
            Some(range) if range.end == window => range.end += rollup.window_us,
            _ => ranges.push(window..window + rollup.window_us),
        }
    }
    ranges
}

fn versions(tag: Option<&String>) -> Versions {
    let pairs = tag.iter().flat_map(|list| list.split(','));
    pairs
        .filter_map(|pair| pair.split_once('='))
        .filter_map(|(name, version)| Some((name.to_owned(), version.parse().ok()?)))
        .collect()
}

fn print(versions: &Versions) -> String {
    let pairs: Vec<_> = versions.iter().map(|(name, version)| format!("{name}={version}")).collect();
    pairs.join(",")
}

#[cfg(test)]
mod tests;
