//! Too many keys in a window: the least of them become one, `__other__`, so that a dimension that runs away costs its own detail and
//! not the table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, Int64Builder, ListBuilder, RecordBatch,
    StringArray, TimestampMicrosecondArray, UInt32Array,
};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Decimal128Type, Field, Float64Type, Int64Type, TimestampMicrosecondType};
use service::{Error, Result};
use telemetry::allocation::OTHER;
use telemetry::histogram::{Histogram, Parts};
use telemetry::table::schema::{MONEY_PRECISION, MONEY_SCALE};
use telemetry::table::{Column, Kind, Table};

use super::{Rollup, allocation};

/// Dimensions that are never given up: numbers of different values must not be added.
const KEPT: [&str; 13] = [
    "measured_at",
    "status",
    "kind",
    "utilization_kind",
    "boundary",
    "energy_method",
    "energy_confidence",
    "slo_set",
    "slo_met",
    "part",
    "currency",
    "basis",
    "method",
];

/// Windows with at most as many keys as the roll-up tells apart and one `__other__` for each combination of what must be kept apart, and how many keys
/// were folded.
///
/// # Errors
/// `Internal` for rows that are not windows of the roll-up.
pub(super) fn fold(rollup: &Rollup, batches: Vec<RecordBatch>) -> Result<(Vec<RecordBatch>, i64)> {
    fold_beyond(rollup.table, batches, rollup.keys_max)
}

fn fold_beyond(table: &'static Table, batches: Vec<RecordBatch>, keys_max: usize) -> Result<(Vec<RecordBatch>, i64)> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let Some(first) = batches.first().filter(|_| rows > keys_max) else { return Ok((batches, 0)) };
    let all = concat_batches(&first.schema(), &batches).map_err(|e| unfit(table, e))?;
    let mut windows: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (row, us) in column(table, &all, "time")?.as_primitive::<TimestampMicrosecondType>().values().iter().enumerate()
    {
        windows.entry(*us).or_default().push(row);
    }
    let weights = weights(table, &all)?;
    let apart = apart(table, &all)?;
    let (mut kept, mut groups, mut folded) = (Vec::new(), BTreeMap::new(), 0);
    for (window, mut rows) in windows {
        rows.sort_by_key(|row| std::cmp::Reverse(weights.value(*row)));
        let few = rows.split_off(keys_max.min(rows.len()));
        kept.extend(rows);
        for row in few {
            folded += 1;
            let kept: Vec<_> = apart.iter().map(|texts| texts.is_valid(row).then(|| texts.value(row))).collect();
            groups.entry((window, kept)).or_insert_with(Vec::new).push(row);
        }
    }
    if folded == 0 {
        return Ok((batches, 0));
    }
    kept.sort_unstable();
    let kept: UInt32Array = kept.into_iter().filter_map(|row| u32::try_from(row).ok()).collect();
    let kept = take_record_batch(&all, &kept).map_err(|e| unfit(table, e))?;
    let groups: Vec<_> = groups.into_values().collect();
    let columns = all
        .schema()
        .fields()
        .iter()
        .map(|field| others(table, &all, field.name(), &groups, is_kept))
        .collect::<Result<_>>()?;
    let others = RecordBatch::try_new(all.schema(), columns).map_err(|e| unfit(table, e))?;
    Ok((vec![kept, others], folded))
}

/// What decides which keys are kept: the first number of the table.
fn weights(table: &Table, all: &RecordBatch) -> Result<Int64Array> {
    let counted = table.columns().find(|column| column.kind == Kind::Int).map_or("", |column| column.name);
    Ok(column(table, all, counted)?.as_primitive::<Int64Type>().clone())
}

/// The columns that keep rows apart.
fn apart(table: &'static Table, all: &RecordBatch) -> Result<Vec<StringArray>> {
    let names = KEPT.into_iter().filter(|name| table.column(name).is_some());
    names.map(|name| texts(table, all, name)).collect()
}

fn is_kept(name: &str) -> bool {
    KEPT.contains(&name)
}

/// One column of the rows that stand for groups of others. A text that is kept is the same in all of a group.
pub(super) fn others(
    table: &'static Table,
    all: &RecordBatch,
    name: &str,
    groups: &[Vec<usize>],
    is_kept: fn(&str) -> bool,
) -> Result<ArrayRef> {
    let declared = table.column(name).ok_or_else(|| missing(table, name))?;
    let values = column(table, all, name)?;
    Ok(match declared.kind {
        Kind::Time => {
            let times = values.as_primitive::<TimestampMicrosecondType>();
            let first = groups.iter().filter_map(|rows| rows.first()).map(|row| times.value(*row));
            Arc::new(TimestampMicrosecondArray::from_iter_values(first).with_timezone("UTC"))
        }
        Kind::Text => {
            let texts = texts(table, all, name)?;
            let own = |row: usize| texts.is_valid(row).then(|| texts.value(row));
            let text = |rows: &Vec<usize>| match rows.first() {
                Some(row) if is_kept(name) => own(*row).map(str::to_owned),
                // of keys that had values there is one that stands for all; where there was none, there is none
                Some(_) if name == allocation::COLUMN => rows.iter().find_map(|row| allocation::folded(own(*row)?)),
                _ => Some(OTHER.to_owned()),
            };
            arrow::compute::cast(&groups.iter().map(text).collect::<StringArray>(), values.data_type())
                .map_err(|e| unfit(table, e))?
        }
        Kind::Int | Kind::IntList if distribution(table, name).is_some() => part(table, all, declared, groups)?,
        Kind::Int => {
            let numbers = values.as_primitive::<Int64Type>();
            let sum = |rows: &Vec<usize>| {
                known(rows.iter().map(|row| numbers.is_valid(*row).then(|| numbers.value(*row))), |a, b| {
                    a.saturating_add(b)
                })
            };
            Arc::new(groups.iter().map(sum).collect::<Int64Array>())
        }
        Kind::Money => {
            let amounts = values.as_primitive::<Decimal128Type>();
            let sum = |rows: &Vec<usize>| {
                known(rows.iter().map(|row| amounts.is_valid(*row).then(|| amounts.value(*row))), |a, b| {
                    a.saturating_add(b)
                })
            };
            let sums: Decimal128Array = groups.iter().map(sum).collect();
            Arc::new(sums.with_precision_and_scale(MONEY_PRECISION, MONEY_SCALE).map_err(|e| unfit(table, e))?)
        }
        Kind::Double => {
            let numbers = values.as_primitive::<Float64Type>();
            let join = joins(declared);
            let joined = |rows: &Vec<usize>| {
                known(rows.iter().map(|row| numbers.is_valid(*row).then(|| numbers.value(*row))), join?)
            };
            Arc::new(groups.iter().map(joined).collect::<Float64Array>())
        }
        _ => return Err(missing(table, name)),
    })
}

/// How two numbers of a column become one; `None` where they do not: a mean of means is none.
fn joins(column: &Column) -> Option<fn(f64, f64) -> f64> {
    match column.name {
        name if name.ends_with("_min") => Some(f64::min),
        name if name.ends_with("_max") || name == "gap_s" => Some(f64::max),
        name if name.ends_with("_sum") => Some(|a, b| a + b),
        "power_w" | "energy_j" | "running" | "waiting" => Some(|a, b| a + b),
        _ => None,
    }
}

/// All that is known, joined; `None` where nothing is.
fn known<T>(values: impl Iterator<Item = Option<T>>, join: impl Fn(T, T) -> T) -> Option<T> {
    values.flatten().reduce(join)
}

/// The name of the distribution that a column is a part of: one with a scale.
fn distribution<'a>(table: &Table, name: &'a str) -> Option<&'a str> {
    let (stem, part) = name.rsplit_once('_')?;
    let is_part = ["scale", "zero", "idx", "cnt", "count"].contains(&part);
    (is_part && table.column(&format!("{stem}_scale")).is_some()).then_some(stem)
}

/// A whole column of merged distributions.
fn part(table: &'static Table, all: &RecordBatch, declared: &Column, groups: &[Vec<usize>]) -> Result<ArrayRef> {
    let stem = distribution(table, declared.name).unwrap_or_default();
    let merged = groups.iter().map(|rows| merge(table, all, stem, rows)).collect::<Result<Vec<_>>>()?;
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let whole = |value: &dyn Fn(&Histogram) -> i64| -> ArrayRef {
        Arc::new(merged.iter().map(|one| Some(value(one))).collect::<Int64Array>())
    };
    let list = |value: &dyn Fn(&Histogram) -> Vec<i64>| -> ArrayRef {
        let element = Arc::new(Field::new("element", DataType::Int64, true));
        let mut lists = ListBuilder::new(Int64Builder::new()).with_field(element);
        for one in &merged {
            lists.append_value(value(one).into_iter().map(Some));
        }
        Arc::new(lists.finish())
    };
    let made = match declared.name.rsplit_once('_').map(|(_, part)| part) {
        Some("scale") => whole(&|one| i64::from(one.scale())),
        Some("zero") => whole(&|one| signed(one.zero())),
        Some("idx") => list(&|one| one.buckets().iter().map(|bucket| i64::from(bucket.index)).collect()),
        Some("cnt") => list(&|one| one.buckets().iter().map(|bucket| signed(bucket.count)).collect()),
        _ => whole(&|one| signed(one.count())),
    };
    let wanted = column(table, all, declared.name)?.data_type().clone();
    arrow::compute::cast(&made, &wanted).map_err(|e| unfit(table, e))
}

/// The distribution of all rows together.
fn merge(table: &'static Table, all: &RecordBatch, stem: &str, rows: &[usize]) -> Result<Histogram> {
    let number = |part: &str| -> Result<Int64Array> {
        Ok(column(table, all, &format!("{stem}_{part}"))?.as_primitive::<Int64Type>().clone())
    };
    let (scale, zero, count) = (number("scale")?, number("zero")?, number("count")?);
    let (idx, cnt) = (column(table, all, &format!("{stem}_idx"))?, column(table, all, &format!("{stem}_cnt"))?);
    let (idx, cnt) = (idx.as_list::<i32>(), cnt.as_list::<i32>());
    let mut merged = Histogram::default();
    for row in rows.iter().copied().filter(|row| count.is_valid(*row) && count.value(*row) > 0) {
        let (indexes, counts) = (idx.value(row), cnt.value(row));
        let parts = Parts {
            scale: scale.value(row),
            zero: zero.value(row),
            indexes: indexes.as_primitive::<Int64Type>().values(),
            counts: counts.as_primitive::<Int64Type>().values(),
            count: count.value(row),
            sum: None,
            min: None,
            max: None,
        };
        let one = Histogram::from_parts(parts);
        merged
            .merge(&one.map_err(|e| Error::internal(format!("distribution {stem} of {}", table.name)).with_source(e))?);
    }
    Ok(merged)
}

pub(super) fn texts(table: &'static Table, all: &RecordBatch, name: &str) -> Result<StringArray> {
    let cast = arrow::compute::cast(column(table, all, name)?, &DataType::Utf8).map_err(|e| unfit(table, e))?;
    Ok(cast.as_string::<i32>().clone())
}

pub(super) fn column<'a>(table: &Table, all: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    all.column_by_name(name).ok_or_else(|| missing(table, name))
}

fn missing(table: &Table, name: &str) -> Error {
    Error::internal(format!("windows of {} have no column {name}", table.name))
}

pub(super) fn unfit(table: &Table, error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("fold windows of {}", table.name)).with_source(error)
}

#[cfg(test)]
pub(super) mod tests;
