//! Between what a number lies: a struct `{lo, hi}`, an open end NULL.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Float64Array, StructArray},
    buffer::NullBuffer,
    datatypes::{DataType, Field, Fields},
};
use datafusion::common::Result;
use telemetry::histogram::Interval;

/// The type of an interval.
pub(super) fn kind() -> DataType {
    DataType::Struct(fields())
}

fn fields() -> Fields {
    ["lo", "hi"].map(|name| Field::new(name, DataType::Float64, true)).into_iter().collect()
}

/// The intervals as a column.
pub(super) fn column(rows: &[Option<Interval>]) -> Result<StructArray> {
    let end = |of: fn(&Interval) -> f64| -> ArrayRef {
        let finite = |row: &Option<Interval>| row.as_ref().map(of).filter(|end| end.is_finite());
        Arc::new(rows.iter().map(finite).collect::<Float64Array>())
    };
    let known: NullBuffer = rows.iter().map(Option::is_some).collect::<Vec<bool>>().into();
    Ok(StructArray::try_new(fields(), vec![end(|row| row.lo), end(|row| row.hi)], Some(known))?)
}
