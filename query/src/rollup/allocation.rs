//! Configured allocation keys in the queries of views, and the bound of their values in an hour that is built.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::{Decimal128Type, Int64Type, TimestampMicrosecondType};
use service::Result;
use telemetry::allocation::{self, OTHER, Values};
use telemetry::table::{Kind, Table};

use super::fold::{column, others, texts, unfit};

/// The column of the values.
pub(super) const COLUMN: &str = "allocation";
/// What the hours' view says where no key is configured.
const NONE: &str = "SELECT *, CAST(NULL AS VARCHAR) AS allocation FROM drawn";
/// The same with keys, named in it as `$keys`.
const SPLIT: &str = include_str!("allocation.sql");
/// What views that list keys say where none is configured: those of the rows alone.
const LISTED: &str = "(allocation, '')";

/// The view's query with these keys, as [`allocation::joined`] joins them.
pub(crate) fn keyed<'a>(sql: &'a str, keys: &str) -> Cow<'a, str> {
    if keys.is_empty() || !(sql.contains(NONE) || sql.contains(LISTED)) {
        return Cow::Borrowed(sql);
    }
    let split = SPLIT.trim_end().replace("$keys", keys);
    Cow::Owned(sql.replace(NONE, &split).replace(LISTED, &format!("(allocation, '{keys}')")))
}

/// The text of a row that stands for several: the same keys, and nothing of their values.
pub(super) fn folded(text: &str) -> Option<String> {
    let values = allocation::read(text)?;
    Some(allocation::write(&values.into_keys().map(|key| (key, Some(OTHER.to_owned()))).collect()))
}

/// Windows in which each key has at most `values_max` values, those that cost most, and [`OTHER`]; and how many values that stands for.
///
/// # Errors
/// `Internal` for rows that are not windows of the table.
pub(super) fn bound(
    table: &'static Table,
    batches: Vec<RecordBatch>,
    values_max: usize,
) -> Result<(Vec<RecordBatch>, i64)> {
    let Some(first) = batches.first().filter(|_| table.column(COLUMN).is_some()) else { return Ok((batches, 0)) };
    let all = concat_batches(&first.schema(), &batches).map_err(|e| unfit(table, e))?;
    let texts = texts(table, &all, COLUMN)?;
    if texts.null_count() == texts.len() {
        return Ok((batches, 0));
    }
    let times = column(table, &all, "time")?.as_primitive::<TimestampMicrosecondType>().clone();
    let mut read: HashMap<&str, Values> = HashMap::new();
    for row in (0..texts.len()).filter(|row| texts.is_valid(*row)) {
        read.entry(texts.value(row)).or_insert_with(|| allocation::read(texts.value(row)).unwrap_or_default());
    }
    let row = |row: usize| texts.is_valid(row).then(|| read.get(texts.value(row))).flatten();
    let least = least(&sums(table, &all, (times.values(), &row))?, values_max);
    if least.is_empty() {
        return Ok((batches, 0));
    }
    let bounded = |at: usize| {
        let window = times.value(at);
        let kept = row(at)?.iter().map(|(key, value)| {
            let is_least = value.as_deref().is_some_and(|value| least.contains(&(window, key.as_str(), value)));
            (key.clone(), if is_least { Some(OTHER.to_owned()) } else { value.clone() })
        });
        Some(allocation::write(&kept.collect()))
    };
    let bounded: StringArray = (0..all.num_rows()).map(bounded).collect();
    let place = all.schema().index_of(COLUMN).map_err(|e| unfit(table, e))?;
    let mut columns = all.columns().to_vec();
    columns[place] = cast(&bounded, columns[place].data_type()).map_err(|e| unfit(table, e))?;
    let all = RecordBatch::try_new(all.schema(), columns).map_err(|e| unfit(table, e))?;
    Ok((joined(table, &all)?, least.len() as i64))
}

/// What is known of a value in a window: its cost at its price, else by the bill, and its device time.
type Sums<'a> = BTreeMap<(i64, &'a str), HashMap<&'a str, (i128, i64)>>;

fn sums<'a>(
    table: &'static Table,
    all: &RecordBatch,
    (times, values): (&[i64], &dyn Fn(usize) -> Option<&'a Values>),
) -> Result<Sums<'a>> {
    let money = |name: &str| Ok(column(table, all, name)?.as_primitive::<Decimal128Type>().clone());
    let (list, effective) = (money("list_cost")?, money("effective_cost")?);
    let device: Int64Array = column(table, all, "device_us")?.as_primitive::<Int64Type>().clone();
    let mut sums = Sums::new();
    for (row, window) in times.iter().enumerate() {
        let Some(values) = values(row) else { continue };
        let cost = [&list, &effective].into_iter().find_map(|cost| cost.is_valid(row).then(|| cost.value(row)));
        let us = if device.is_valid(row) { device.value(row) } else { 0 };
        for (key, value) in values {
            let Some(value) = value.as_deref().filter(|value| *value != OTHER) else { continue };
            let sum = sums.entry((*window, key)).or_default().entry(value).or_default();
            *sum = (sum.0.saturating_add(cost.unwrap_or(0)), sum.1.saturating_add(us));
        }
    }
    Ok(sums)
}

/// The values of a window and key beyond the `values_max` that cost most; of those that cost the same, the last by name.
fn least<'a>(sums: &Sums<'a>, values_max: usize) -> HashSet<(i64, &'a str, &'a str)> {
    let mut least = HashSet::new();
    for ((window, key), values) in sums.iter().filter(|(_, values)| values.len() > values_max) {
        let mut ranked: Vec<_> = values.iter().map(|(value, sum)| (std::cmp::Reverse(*sum), *value)).collect();
        ranked.sort_unstable();
        least.extend(ranked.into_iter().skip(values_max).map(|(_, value)| (*window, *key, value)));
    }
    least
}

/// Rows that differ in nothing but their numbers, as one.
fn joined(table: &'static Table, all: &RecordBatch) -> Result<Vec<RecordBatch>> {
    let kinds = table.columns().filter(|column| column.kind == Kind::Text);
    let words = kinds.map(|column| texts(table, all, column.name)).collect::<Result<Vec<_>>>()?;
    let times = column(table, all, "time")?.as_primitive::<TimestampMicrosecondType>().values();
    let mut groups: BTreeMap<(i64, Vec<Option<&str>>), Vec<usize>> = BTreeMap::new();
    for (row, window) in times.iter().enumerate() {
        let key = words.iter().map(|texts| texts.is_valid(row).then(|| texts.value(row))).collect();
        groups.entry((*window, key)).or_default().push(row);
    }
    let (alone, several): (Vec<_>, Vec<_>) = groups.into_values().partition(|rows| rows.len() == 1);
    let mut alone: Vec<_> = alone.into_iter().flatten().filter_map(|row| u32::try_from(row).ok()).collect();
    alone.sort_unstable();
    let kept = take_record_batch(all, &UInt32Array::from(alone)).map_err(|e| unfit(table, e))?;
    let columns: Vec<ArrayRef> = all
        .schema()
        .fields()
        .iter()
        .map(|field| others(table, all, field.name(), &several, |_| true))
        .collect::<Result<_>>()?;
    Ok(vec![kept, RecordBatch::try_new(all.schema(), columns).map_err(|e| unfit(table, e))?])
}

#[cfg(test)]
mod tests;
