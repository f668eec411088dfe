//! What answers for a view: windows that are built where they are right, raw rows for the others.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;
use lake::{Arrival, Lake, Snapshot};
use service::Result;
use tokio::sync::Mutex;

use super::objective::Objective;
use super::views::COSTS_HOURS;
use super::window::{self, Built};
use super::{DAY_US, HOUR_US, Rollup};

/// Stretches of a roll-up that raw rows answer for, beside the newest; with more, the nearest are joined.
const STALE_MAX: usize = 8;
/// Versions of a table that a reader looks through for what came; where more have gone by, raw rows answer for everything.
const READER_VERSIONS_MAX: i64 = 2_000;
/// The same for the builder, which then computes everything again.
const BUILDER_VERSIONS_MAX: i64 = 100_000;

/// The default in the text of views, in the place of which the settings stand.
const KEPT_DAYS: &str = "CAST(7 AS BIGINT)";

/// How a view is answered in one query.
pub(crate) struct Answer {
    /// The query.
    pub(crate) sql: String,
    /// Which rows it reads, for people.
    pub(crate) served_by: String,
}

/// What answers where no roll-up does.
pub(crate) const RAW_ROWS: &str = "raw rows";

/// What all queries of a process remember of the sources' logs and of the objectives.
pub(crate) struct Memory {
    /// Versions of a table that are looked through for what came.
    versions_max: i64,
    /// Days that a table keeps its rows, where other than its default.
    retention_days: BTreeMap<String, u32>,
    arrivals: Mutex<BTreeMap<&'static str, Seen>>,
    objectives: parking_lot::Mutex<Option<(i64, Arc<[Objective]>)>>,
}

/// What the versions of a source after `from` up to `to` brought.
struct Seen {
    from: i64,
    to: i64,
    arrivals: Vec<Arrival>,
}

impl Memory {
    /// For queries of readers.
    pub(crate) fn of_reader(retention_days: BTreeMap<String, u32>) -> Memory {
        let (arrivals, objectives) = (Mutex::default(), parking_lot::Mutex::default());
        Memory { versions_max: READER_VERSIONS_MAX, retention_days, arrivals, objectives }
    }

    /// For whoever builds windows.
    pub(crate) fn of_builder(retention_days: BTreeMap<String, u32>) -> Memory {
        Memory { versions_max: BUILDER_VERSIONS_MAX, ..Memory::of_reader(retention_days) }
    }

    /// Objectives as they were read at that version of their table.
    pub(crate) fn objectives(&self, version: i64) -> Option<Arc<[Objective]>> {
        let known = self.objectives.lock();
        known.as_ref().filter(|(known, _)| *known == version).map(|(_, objectives)| Arc::clone(objectives))
    }

    pub(crate) fn remember(&self, version: i64, objectives: Arc<[Objective]>) {
        *self.objectives.lock() = Some((version, objectives));
    }

    /// The instant before which some source of the roll-up may have dropped rows by age.
    pub(super) fn floor_us(&self, rollup: &Rollup, now_us: i64) -> i64 {
        self.days(rollup).map_or(i64::MIN / 2, |days| now_us - i64::from(days) * DAY_US + HOUR_US)
    }

    /// The query of a view that goes back as far as all raw rows of hours of cost are kept, such as `kept_hours`.
    pub(crate) fn kept<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        let days = super::of(&COSTS_HOURS).and_then(|rollup| self.days(rollup)).filter(|_| sql.contains(KEPT_DAYS));
        let set = |days| Cow::Owned(sql.replace(KEPT_DAYS, &format!("CAST({days} AS BIGINT)")));
        days.map_or(Cow::Borrowed(sql), set)
    }

    /// Days that each source of the roll-up keeps its rows, at least.
    fn days(&self, rollup: &Rollup) -> Option<u32> {
        let days = |source: &super::Source| {
            self.retention_days.get(source.table.name).copied().or(source.table.retention_days)
        };
        rollup.sources.iter().filter_map(days).min()
    }

    /// The instant before which the roll-up itself may drop windows by age; a day is left for the sweep that does it.
    pub(super) fn kept_us(&self, rollup: &Rollup, now_us: i64) -> i64 {
        let days = self.retention_days.get(rollup.table.name).copied().or(rollup.table.retention_days);
        days.map_or(i64::MIN / 2, |days| now_us - i64::from(days) * DAY_US + DAY_US)
    }

    /// What came to each of the sources since the roll-up was settled.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    pub(super) async fn news(
        &self,
        lake: &Lake,
        built: &Built,
        sources: &[Arc<Snapshot>],
    ) -> Result<Vec<Option<Vec<Arrival>>>> {
        let mut news = Vec::with_capacity(sources.len());
        for source in sources {
            let since = built.settled.get(source.table.name).copied().unwrap_or(-1);
            news.push(self.arrivals(lake, source, since).await?);
        }
        Ok(news)
    }

    async fn arrivals(&self, lake: &Lake, source: &Snapshot, since: i64) -> Result<Option<Vec<Arrival>>> {
        let (table, until) = (source.table.name, source.version);
        if until - since > self.versions_max {
            return Ok(None);
        }
        let mut all = self.arrivals.lock().await;
        let seen = all.entry(table).or_insert(Seen { from: since, to: since, arrivals: Vec::new() });
        if seen.from > since || since - seen.to > self.versions_max {
            *seen = Seen { from: since, to: since, arrivals: Vec::new() };
        }
        if seen.to < until {
            let Some(more) = lake.arrivals(table, seen.to, until).await? else { return Ok(None) };
            seen.arrivals.extend(more);
            seen.to = until;
        }
        // No roll-up asks for what is that old.
        if seen.to - seen.from > 2 * self.versions_max {
            seen.arrivals.retain(|arrival| arrival.version > since);
            seen.from = since;
        }
        let asked = seen.arrivals.iter().filter(|arrival| arrival.version > since && arrival.version <= until);
        Ok(Some(asked.cloned().collect()))
    }
}

/// How the view of a roll-up is answered over its pinned tables, as [`Rollup::tables`] lists them.
///
/// # Errors
/// `Corrupt`, `Unavailable` from reading the sources' logs.
pub(crate) async fn answer(
    rollup: &'static Rollup,
    pinned: &[Arc<Snapshot>],
    (memory, lake): (&Memory, &Lake),
    now_us: i64,
) -> Result<Answer> {
    let name = rollup.view.name;
    let built = pinned.split_first().and_then(|(windows, sources)| Some((Built::of(rollup, windows)?, sources)));
    let Some((built, sources)) = built else {
        let sql = format!("SELECT {} FROM raw.{name}", columns(rollup));
        return Ok(Answer { sql, served_by: RAW_ROWS.to_owned() });
    };
    let stale = merged(stale(rollup, &built, sources, (memory, lake), now_us).await?);
    let through_us = built.through_us;
    Ok(Answer { sql: union(rollup, through_us, &stale), served_by: served_by(rollup, through_us, &stale) })
}

/// Windows that are built and no longer right.
async fn stale(
    rollup: &Rollup,
    built: &Built,
    sources: &[Arc<Snapshot>],
    (memory, lake): (&Memory, &Lake),
    now_us: i64,
) -> Result<Vec<Range<i64>>> {
    let news = memory.news(lake, built, sources).await?;
    let floor_us = memory.floor_us(rollup, now_us);
    let news = window::news(rollup, sources, &news, &(floor_us..built.through_us));
    Ok(built.stale(rollup, &news, floor_us))
}

/// What one of several lakes has of a roll-up.
pub(crate) struct OfLake<'a> {
    /// Its tables, as [`Rollup::tables`] lists them.
    pub(crate) pinned: Vec<Arc<Snapshot>>,
    pub(crate) memory: &'a Memory,
    pub(crate) lake: &'a Lake,
}

/// The query of a view over several lakes before it is known what they have built: raw rows alone.
pub(crate) fn shape(rollup: &Rollup) -> String {
    union(rollup, 0, &[])
}

/// How the view of a roll-up is answered over several lakes: windows where every lake has built them and they are right, raw rows
/// for the others.
///
/// # Errors
/// As [`answer`].
pub(crate) async fn answer_of_several(rollup: &'static Rollup, lakes: &[OfLake<'_>], now_us: i64) -> Result<Answer> {
    let raw = || Answer { sql: shape(rollup), served_by: RAW_ROWS.to_owned() };
    let (mut through_us, mut all) = (i64::MAX, Vec::new());
    for OfLake { pinned, memory, lake } in
        lakes.iter().filter(|of| of.pinned.iter().any(|table| !table.files.is_empty()))
    {
        let Some((windows, sources)) = pinned.split_first() else { return Ok(raw()) };
        let Some(built) = Built::of(rollup, windows) else { return Ok(raw()) };
        through_us = through_us.min(built.through_us);
        all.extend(stale(rollup, &built, sources, (memory, lake), now_us).await?);
    }
    if through_us == i64::MAX {
        return Ok(raw());
    }
    let stale = merged(united(all, through_us));
    Ok(Answer { sql: union(rollup, through_us, &stale), served_by: served_by(rollup, through_us, &stale) })
}

/// The stretches before `until` in order, those that touch as one.
fn united(mut ranges: Vec<Range<i64>>, until: i64) -> Vec<Range<i64>> {
    ranges.sort_by_key(|range| range.start);
    let mut united: Vec<Range<i64>> = Vec::new();
    for range in ranges.into_iter().map(|range| range.start..range.end.min(until)).filter(|range| !range.is_empty()) {
        match united.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => united.push(range),
        }
    }
    united
}

fn union(rollup: &Rollup, through_us: i64, stale: &[Range<i64>]) -> String {
    let (columns, name) = (columns(rollup), rollup.view.name);
    let through = instant(through_us);
    let mut sql = format!("SELECT {columns} FROM {} WHERE time < {through}", stored(rollup));
    for range in stale {
        let _ = write!(sql, " AND NOT (time >= {} AND time < {})", instant(range.start), instant(range.end));
    }
    for range in stale {
        let (from, to) = (instant(range.start), instant(range.end));
        let _ = write!(sql, " UNION ALL SELECT {columns} FROM raw.{name} WHERE time >= {from} AND time < {to}");
    }
    let _ = write!(sql, " UNION ALL SELECT {columns} FROM raw.{name} WHERE time >= {through}");
    sql
}

/// The table of windows, with the `model` that every view has.
fn stored(rollup: &Rollup) -> String {
    let table = rollup.table.name;
    match rollup.table.column("model") {
        Some(_) => table.to_owned(),
        None => format!("(SELECT *, CAST(NULL AS VARCHAR) AS model FROM {table}) AS {table}"),
    }
}

/// As in every view, `time, region, model` first.
fn columns(rollup: &Rollup) -> String {
    let first = ["time", "region", "model"];
    let others = rollup.table.columns().map(|column| column.name).filter(|name| !first.contains(name));
    first.into_iter().chain(others).map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

pub(super) fn instant(us: i64) -> String {
    format!("arrow_cast({us}, 'Timestamp(Microsecond, Some(\"UTC\"))')")
}

fn served_by(rollup: &Rollup, through_us: i64, stale: &[Range<i64>]) -> String {
    let through = minute(through_us);
    let late: i64 = stale.iter().map(|range| (range.end - range.start) / rollup.window_us).sum();
    let beside = if late == 0 { String::new() } else { format!(" and for {late} windows with late rows") };
    format!("{} through {through}, raw rows after{beside}", rollup.table.name)
}

fn minute(us: i64) -> String {
    Timestamp::from_microsecond(us).map_or_else(|_| us.to_string(), |at| at.strftime("%Y-%m-%dT%H:%MZ").to_string())
}

/// At most [`STALE_MAX`] stretches: the smallest gaps between them are filled.
fn merged(mut ranges: Vec<Range<i64>>) -> Vec<Range<i64>> {
    while ranges.len() > STALE_MAX {
        let gap = |at: &usize| ranges[at + 1].start - ranges[*at].end;
        let Some(nearest) = (0..ranges.len() - 1).min_by_key(gap) else { break };
        let next = ranges.remove(nearest + 1);
        ranges[nearest].end = next.end;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Memory;
    use crate::views::KEPT_HOURS;

    /// Hours are kept as long as the rows that are dropped first, by the settings where they say it.
    #[test]
    fn kept_hours_follow_the_settings() {
        let of = |days: &[(&str, u32)]| {
            let days = days.iter().map(|(table, days)| ((*table).to_owned(), *days));
            Memory::of_reader(days.collect::<BTreeMap<_, _>>()).kept(KEPT_HOURS.sql).into_owned()
        };
        assert_eq!(of(&[]), KEPT_HOURS.sql, "the default is that of the tables");
        assert!(of(&[("tokens", 20), ("devices", 19)]).contains("CAST(19 AS BIGINT)"));
        assert_eq!(of(&[("logs", 1)]), KEPT_HOURS.sql, "tables that cost is not computed from do not count");
    }
}
