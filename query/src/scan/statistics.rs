//! What the planner may know of a scan: exact where the log is, and no more than a bound where it is not.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics, stats::Precision};
use lake::{ColumnStats, File, Value};
use telemetry::table::PARTITION;

use super::prune::scalar;

/// Files beyond which columns are not looked at: that takes longer than a better plan saves.
const FILES_MAX: usize = 1_000;

/// Rows and unknown values are counted by the writer. Bounds may be wider than the values, so no aggregate may be answered from
/// them; they only tell how many rows a filter lets through.
pub(super) fn of(files: &[Arc<File>], schema: &SchemaRef) -> Statistics {
    let mut statistics = Statistics::new_unknown(schema);
    if let Some(rows) = total(files.iter().map(|file| file.rows)) {
        statistics.num_rows = Precision::Exact(rows);
    }
    let bytes: u64 = files.iter().map(|file| file.size).sum();
    statistics.total_byte_size = Precision::Inexact(usize::try_from(bytes).unwrap_or(usize::MAX));
    if files.len() > FILES_MAX {
        return statistics;
    }
    for (field, column) in schema.fields().iter().zip(&mut statistics.column_statistics) {
        if field.name() != PARTITION {
            *column = of_column(files, field.name(), |value| scalar(value, field.data_type()));
        }
    }
    statistics
}

fn of_column(files: &[Arc<File>], name: &str, scalar: impl Fn(&Value) -> ScalarValue) -> ColumnStatistics {
    let mut column = ColumnStatistics::new_unknown();
    let known = || files.iter().map(|file| file.stats.get(name));
    if let Some(nulls) = total(known().map(|stats| stats.and_then(|stats| stats.nulls))) {
        column.null_count = Precision::Exact(nulls);
    }
    let bound = |bound: fn(&ColumnStats) -> Option<&Value>, further: fn(&Value, &Value) -> bool| {
        let outer = |outer: &Value, value: &Value| if further(value, outer) { value.clone() } else { outer.clone() };
        let values = known().map(|stats| stats.and_then(bound)).collect::<Option<Vec<_>>>()?;
        let (first, rest) = values.split_first()?;
        Some(Precision::Inexact(scalar(&rest.iter().fold((*first).clone(), |found, value| outer(&found, value)))))
    };
    column.min_value = bound(|stats| stats.min.as_ref(), |a, b| a < b).unwrap_or_default();
    column.max_value = bound(|stats| stats.max.as_ref(), |a, b| a > b).unwrap_or_default();
    column
}

/// The sum, if every part is known.
fn total(parts: impl Iterator<Item = Option<u64>>) -> Option<usize> {
    parts.sum::<Option<u64>>().and_then(|sum| usize::try_from(sum).ok())
}
