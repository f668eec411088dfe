//! Columns of numbers and of lists of them, as the functions over histograms read them.

use std::ops::Range;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray},
    datatypes::{Float64Type, Int64Type},
};
use datafusion::common::{Result, exec_datafusion_err, exec_err};

/// The column as whole numbers.
pub(super) fn ints(column: &ArrayRef) -> Result<&Int64Array> {
    let found = column.as_primitive_opt::<Int64Type>();
    found.ok_or_else(|| exec_datafusion_err!("whole numbers belong here, not {}", column.data_type()))
}

/// The column as numbers.
pub(super) fn doubles(column: &ArrayRef) -> Result<&Float64Array> {
    let found = column.as_primitive_opt::<Float64Type>();
    found.ok_or_else(|| exec_datafusion_err!("numbers belong here, not {}", column.data_type()))
}

/// Where the elements of a row's list lie among those of all.
pub(super) fn between(offsets: &[i32], row: usize) -> Range<usize> {
    let at = |offset: i32| usize::try_from(offset).unwrap_or(0);
    at(offsets[row])..at(offsets[row + 1])
}

/// A column of lists of whole numbers.
pub(super) struct Ints<'a> {
    rows: &'a ListArray,
    values: &'a Int64Array,
}

impl<'a> Ints<'a> {
    pub(super) fn of(column: &'a ArrayRef) -> Result<Ints<'a>> {
        let Some(rows) = column.as_list_opt::<i32>() else { return exec_err!("not a list: {}", column.data_type()) };
        Ok(Ints { rows, values: ints(rows.values())? })
    }

    /// The row's numbers; none where the list is NULL.
    pub(super) fn get(&self, row: usize) -> Result<&'a [i64]> {
        if self.rows.is_null(row) {
            return Ok(&[]);
        }
        let elements = between(self.rows.value_offsets(), row);
        if self.values.null_count() > 0 && elements.clone().any(|at| self.values.is_null(at)) {
            return exec_err!("a list of counts holds NULL");
        }
        Ok(&self.values.values()[elements])
    }
}
