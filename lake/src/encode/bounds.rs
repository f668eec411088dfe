//! Smallest and greatest values of the columns that scans prune by.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute;
use arrow::datatypes::{Float64Type, Int64Type, TimestampMicrosecondType};
use telemetry::table::{Kind, Table};

use super::runs;
use crate::snapshot::{ColumnStats, Value, stats_columns};

/// Longer text gives no bound above, and a cut one below.
const TEXT_BYTES_MAX: usize = 64;

/// Bounds over all batches.
pub(super) fn of(table: &Table, batches: &[RecordBatch]) -> BTreeMap<String, ColumnStats> {
    let mut all = BTreeMap::new();
    for column in stats_columns(table) {
        let arrays: Vec<&ArrayRef> = batches.iter().filter_map(|batch| batch.column_by_name(column.name)).collect();
        if arrays.len() == batches.len() {
            all.insert(column.name.to_owned(), column_bounds(column.kind, &arrays));
        }
    }
    all
}

fn column_bounds(kind: Kind, arrays: &[&ArrayRef]) -> ColumnStats {
    let parts: Vec<_> = arrays.iter().map(|array| runs::values(array)).collect();
    let nulls: usize = parts.iter().map(|(_, nulls)| nulls).sum();
    let parts = parts.iter().filter(|(values, _)| values.null_count() < values.len());
    let bounds: Vec<_> = parts.map(|(values, _)| array_bounds(kind, values)).collect();
    let (mins, maxs): (Vec<_>, Vec<_>) = bounds.into_iter().unzip();
    ColumnStats { min: widest(mins, |a, b| b < a), max: widest(maxs, |a, b| b > a), nulls: Some(nulls as u64) }
}

/// The outermost bound; none as soon as one part has none.
fn widest(parts: Vec<Option<Value>>, further: impl Fn(&Value, &Value) -> bool) -> Option<Value> {
    let mut parts = parts.into_iter();
    let mut bound = parts.next()??;
    for part in parts {
        let part = part?;
        if further(&bound, &part) {
            bound = part;
        }
    }
    Some(bound)
}

pub(super) fn array_bounds(kind: Kind, array: &ArrayRef) -> (Option<Value>, Option<Value>) {
    match kind {
        Kind::Time => {
            let array = array.as_primitive::<TimestampMicrosecondType>();
            (compute::min(array).map(Value::Time), compute::max(array).map(Value::Time))
        }
        Kind::Int => {
            let array = array.as_primitive::<Int64Type>();
            (compute::min(array).map(Value::Int), compute::max(array).map(Value::Int))
        }
        Kind::Double => {
            let array = array.as_primitive::<Float64Type>();
            (compute::min(array).and_then(low), compute::max(array).and_then(high))
        }
        Kind::Text => {
            let array = array.as_string::<i32>();
            (compute::min_string(array).map(text_below), compute::max_string(array).and_then(text_above))
        }
        Kind::Bool | Kind::Money | Kind::Map | Kind::IntList | Kind::DoubleList => (None, None),
    }
}

/// NaN sorts above everything here and elsewhere below, so a bound that it touches is none. Zeros get the sign that errs outward.
fn low(value: f64) -> Option<Value> {
    let outward = if value == 0.0 { -0.0 } else { value };
    value.is_finite().then_some(Value::Double(outward))
}

fn high(value: f64) -> Option<Value> {
    let outward = if value == 0.0 { 0.0 } else { value };
    value.is_finite().then_some(Value::Double(outward))
}

fn text_below(text: &str) -> Value {
    let end = (0..=TEXT_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    Value::Text(text.get(..end).unwrap_or_default().to_owned())
}

fn text_above(text: &str) -> Option<Value> {
    (text.len() <= TEXT_BYTES_MAX).then(|| Value::Text(text.to_owned()))
}
