//! What an hour cost before it was computed again, beside what it costs now, and what came meanwhile: rows of `restatements`.
//!
//! They are recorded before the hours are, under the round's number. A round that fails after that is computed anew, with whatever came
//! meanwhile, and its lines take the place of those of the try before, which compaction leaves apart until the next round. So a restatement
//! is there once, and none is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type};
use arrow::error::ArrowError;
use jiff::{Timestamp, tz::TimeZone};
use lake::sets::WITHDRAWN;
use lake::{Arrival, Entry, File, HELD, Snapshot, Value, layout};
use service::{Error, Result};
use telemetry::contract::SqlRequest;
use telemetry::table::schema::{MONEY_PRECISION, MONEY_SCALE};
use telemetry::table::{COSTS_1H, RESTATEMENTS, Role};

use super::build::{Builder, Computed, failed};
use super::read::instant;
use super::window::{Built, MINUTE_US, Part};
use super::{HOUR_US, Rollup};

/// Its frames are the rounds of the roll-up, with gaps, and within each its tries.
const JOURNAL: &str = "restated";
/// Frames of one round.
const TRIES: u64 = 1_000;
/// What tells amounts of an hour apart.
const KEY: [&str; 6] = ["region", "model", "host_type", "tenant", "namespace", "part"];
/// The amounts: as the hour has them, before and after.
const AMOUNTS: [[&str; 3]; 3] = [
    ["list_cost", "list_before", "list_after"],
    ["effective_cost", "effective_before", "effective_after"],
    ["billed_cost", "billed_before", "billed_after"],
];
/// Names of what came that a reason holds.
const NAMED_MAX: usize = 5;

type Key = [Option<String>; KEY.len()];

/// What a key costs in an hour.
#[derive(Clone, Debug, Default)]
struct Sum {
    /// In the order of [`AMOUNTS`]; unknown is none.
    amounts: [Option<i128>; AMOUNTS.len()],
    basis: BTreeSet<String>,
}

/// A key whose amounts changed.
struct Change {
    key: Key,
    before: Sum,
    after: Sum,
}

impl Builder {
    /// Records which amounts of hours that were built before are others now.
    ///
    /// # Errors
    /// `Denied`, `Corrupt`, `Unavailable`, after which the round may be begun again.
    pub(super) async fn restate(
        &self,
        rollup: &'static Rollup,
        rounds: u64,
        (old, sources): (&Built, &[Arc<Snapshot>]),
        parts: &[Computed],
    ) -> Result<()> {
        let rebuilt = || parts.iter().filter_map(|part| Some((part, old.files.get(&part.0)?)));
        if rollup.table.name != COSTS_1H.name || rebuilt().next().is_none() {
            return Ok(());
        }
        let from = self.lake.through(&RESTATEMENTS, JOURNAL).await?.unwrap_or(0);
        let Some((to, removes)) = self.place(from, rounds + 1).await? else { return Ok(()) };
        let news = self.memory.news(&self.lake, old, sources).await?;
        let mut adds = Vec::new();
        for ((start, batches, _), part) in rebuilt() {
            let changes = changes(sums(&self.stored(rollup, *start).await?)?, &sums(batches)?);
            if changes.is_empty() {
                continue;
            }
            let reason = reason(sources, &news, part, *start);
            let rows = rows(*start, self.clock.now_us(), &reason, &changes)?;
            let name = layout::file_name(JOURNAL, from, to, &layout::unique());
            let mut add = self.lake.write(&RESTATEMENTS, &date(*start)?, &name, &[rows]).await?;
            add.tags.insert(HELD.to_owned(), TRIES.to_string());
            adds.push(add);
        }
        if adds.is_empty() && removes.is_empty() {
            return Ok(());
        }
        // Another process that was faster has recorded the same round.
        let entry = Entry { journal: JOURNAL.to_owned(), table: RESTATEMENTS.name, from, to, adds };
        self.lake.replace(entry, removes).await.map(|_| ())
    }

    /// The frame of the next try of a round, and the files of the tries before. `None` where those were too many, or are merged into others,
    /// as a version before this one left them: then what they say stays.
    async fn place(&self, from: u64, round: u64) -> Result<Option<(u64, Vec<String>)>> {
        if from / TRIES < round {
            return Ok(Some((round * TRIES, Vec::new())));
        }
        let snapshot = self.lake.snapshot(RESTATEMENTS.name, None).await?;
        let is_of_round = |file: &&Arc<File>| frame_of(&file.path).is_some_and(|frame| frame / TRIES == round);
        let removes: Vec<_> = snapshot.files.iter().filter(is_of_round).map(|file| file.path.clone()).collect();
        let is_last = from / TRIES > round || (from + 1) / TRIES > round;
        Ok((!removes.is_empty() && !is_last).then_some((from + 1, removes)))
    }

    /// The rows of an hour as they are.
    async fn stored(&self, rollup: &Rollup, start_us: i64) -> Result<Vec<RecordBatch>> {
        let columns: Vec<_> = KEY.iter().copied().chain(AMOUNTS.map(|[now, ..]| now)).chain(["basis"]).collect();
        let sql = format!(
            "SELECT {} FROM {} WHERE time >= {} AND time < {}",
            columns.join(", "),
            rollup.table.name,
            instant(start_us),
            instant(start_us + rollup.file_us)
        );
        let request = SqlRequest { sql, ..SqlRequest::default() };
        let answer = self.engine.run(request, &self.reader).await.map_err(failed)?;
        if answer.truncated {
            return Err(Error::internal(format!("more rows of {} than an hour may hold", rollup.table.name)));
        }
        Ok(answer.batches)
    }
}

/// The frame that a file was recorded under.
fn frame_of(path: &str) -> Option<u64> {
    let name = path.rsplit('/').next()?.strip_prefix(JOURNAL)?.strip_prefix('-')?;
    name.split('-').nth(1)?.parse().ok()
}

fn sums(batches: &[RecordBatch]) -> Result<BTreeMap<Key, Sum>> {
    let unread = |error: ArrowError| Error::internal("read hours of cost").with_source(error);
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    for batch in batches {
        let column = |name: &str| {
            batch.column_by_name(name).ok_or_else(|| Error::internal(format!("hours of cost without {name}")))
        };
        let text = |name: &str| cast(column(name)?, &DataType::Utf8).map_err(unread);
        let keys = KEY.iter().map(|name| text(name)).collect::<Result<Vec<_>>>()?;
        let amounts = AMOUNTS.iter().map(|[now, ..]| column(now)).collect::<Result<Vec<_>>>()?;
        let basis = text("basis")?;
        for row in 0..batch.num_rows() {
            let value = |array: &ArrayRef| {
                let texts = array.as_string::<i32>();
                texts.is_valid(row).then(|| texts.value(row).to_owned())
            };
            let key: Vec<_> = keys.iter().map(value).collect();
            let Ok(key) = Key::try_from(key) else { continue };
            let sum = sums.entry(key).or_default();
            for (sum, amounts) in sum.amounts.iter_mut().zip(&amounts) {
                let amounts = amounts.as_primitive::<Decimal128Type>();
                if amounts.is_valid(row) {
                    *sum = Some(sum.unwrap_or(0) + amounts.value(row));
                }
            }
            sum.basis.extend(value(&basis));
        }
    }
    Ok(sums)
}

fn changes(mut before: BTreeMap<Key, Sum>, after: &BTreeMap<Key, Sum>) -> Vec<Change> {
    let mut changes = Vec::new();
    for (key, after) in after {
        let before = before.remove(key).unwrap_or_default();
        if !is_same(&before.amounts, &after.amounts) {
            changes.push(Change { key: key.clone(), before, after: after.clone() });
        }
    }
    let gone = before.into_iter().filter(|(_, before)| !is_same(&before.amounts, &Sum::default().amounts));
    changes.extend(gone.map(|(key, before)| Change { key, before, after: Sum::default() }));
    changes
}

/// A part of which nothing was and nothing is to be paid is the same, whether that is known or not.
fn is_same(before: &[Option<i128>], after: &[Option<i128>]) -> bool {
    before == after || before.iter().chain(after).all(|amount| amount.is_none_or(|amount| amount == 0))
}

/// What came to the sources since the hour was computed, in words.
fn reason(sources: &[Arc<Snapshot>], news: &[Option<Vec<Arrival>>], part: &Part, start_us: i64) -> String {
    let mut names = BTreeSet::new();
    for (source, arrivals) in sources.iter().map(|source| source.table).zip(news) {
        let Some(arrivals) = arrivals else {
            return "computed again with everything else: what came is too long ago to tell".to_owned();
        };
        let seen = part.sources.get(source.name).copied().unwrap_or(-1);
        let came =
            arrivals.iter().filter(|arrival| arrival.version > seen && touches(&arrival.file, source.role, start_us));
        names.extend(came.map(|arrival| name(source.name, &arrival.file)));
    }
    let more = names.len().saturating_sub(NAMED_MAX);
    let mut reason = names.into_iter().take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    if more > 0 {
        reason.push_str(&format!(" and {more} more"));
    }
    if reason.is_empty() { "computed again".to_owned() } else { reason }
}

/// Whether rows of the file, or those whose place they took, may say something of the hour.
fn touches(file: &File, role: Role, start_us: i64) -> bool {
    let until = start_us + HOUR_US;
    // Rows of events change the hour after theirs too; facts hold on.
    let lies =
        |first: i64, last: i64| first < until + HOUR_US && (role == Role::Reference || last >= start_us - HOUR_US);
    let withdrawn = file.tags.get(WITHDRAWN).and_then(|minutes| {
        let (first, last) = minutes.split_once('-')?;
        Some((first.parse::<i64>().ok()?, last.parse::<i64>().ok()?))
    });
    if withdrawn.is_some_and(|(first, last)| lies(first.saturating_mul(MINUTE_US), last.saturating_mul(MINUTE_US))) {
        return true;
    }
    let bound = |value: Option<&Value>| match value {
        Some(Value::Time(us)) => Some(*us),
        _ => None,
    };
    let stats = |column: &str| file.stats.get(column);
    let first = bound(stats("time").and_then(|stats| stats.min.as_ref())).unwrap_or(i64::MIN);
    let end = |column: &str| bound(stats(column).and_then(|stats| stats.max.as_ref()));
    let last = end("time").max(end("charge_to")).max(end("last_seen")).unwrap_or(i64::MAX);
    lies(first, last)
}

fn name(source: &str, file: &File) -> String {
    match (file.tags.get("set"), file.tags.contains_key("bundled")) {
        (Some(set), _) => format!("import into {source}: {set}"),
        (None, true) => format!("{source} that come with Tokenwatt"),
        (None, false) => format!("rows of {source}"),
    }
}

fn rows(hour_us: i64, now_us: i64, reason: &str, changes: &[Change]) -> Result<RecordBatch> {
    let made = |error: ArrowError| Error::internal("restatements as rows").with_source(error);
    let time = |us: i64| -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(vec![us; changes.len()]).with_timezone("UTC"))
    };
    let mut columns: Vec<(&str, ArrayRef)> = vec![("time", time(hour_us))];
    for (place, name) in KEY.iter().enumerate() {
        let values = changes.iter().map(|change| change.key.get(place).and_then(Option::as_deref));
        columns.push((*name, Arc::new(values.collect::<StringArray>())));
    }
    for (place, [_, before, after]) in AMOUNTS.iter().enumerate() {
        let amounts = |of: fn(&Change) -> &Sum| -> std::result::Result<ArrayRef, ArrowError> {
            let amounts = changes.iter().map(|change| of(change).amounts.get(place).copied().flatten());
            Ok(Arc::new(amounts.collect::<Decimal128Array>().with_precision_and_scale(MONEY_PRECISION, MONEY_SCALE)?))
        };
        columns.push((*before, amounts(|change| &change.before).map_err(made)?));
        columns.push((*after, amounts(|change| &change.after).map_err(made)?));
    }
    let basis = |of: fn(&Change) -> &Sum| -> ArrayRef {
        let joined = |sum: &Sum| sum.basis.iter().map(String::as_str).collect::<Vec<_>>().join(" | ");
        Arc::new(
            changes
                .iter()
                .map(|change| Some(joined(of(change))).filter(|text| !text.is_empty()))
                .collect::<StringArray>(),
        )
    };
    columns.push(("basis_before", basis(|change| &change.before)));
    columns.push(("basis_after", basis(|change| &change.after)));
    columns.push(("reason", Arc::new(StringArray::from(vec![reason; changes.len()]))));
    columns.push(("restated_at", time(now_us)));
    let nullable = columns.into_iter().map(|(name, array)| (name, array, name != "time"));
    RecordBatch::try_from_iter_with_nullable(nullable).map_err(made)
}

fn date(us: i64) -> Result<String> {
    let at = Timestamp::from_microsecond(us).map_err(|e| Error::internal("date of a restatement").with_source(e))?;
    Ok(at.to_zoned(TimeZone::UTC).date().to_string())
}
