//! Whether rows come in the table's order: what a file's `sort` tag promises its readers.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use arrow::row::{OwnedRow, RowConverter, SortField};
use service::{Error, Result};
use telemetry::table::Table;

/// Ascending, unknown values last, as SQL sorts unless told otherwise.
pub(crate) const ASCENDING: SortOptions = SortOptions { descending: false, nulls_first: false };

/// Looks at rows as they come.
pub(crate) struct Order {
    table: &'static Table,
    columns: Vec<usize>,
    keys: RowConverter,
    last: Option<OwnedRow>,
}

impl Order {
    /// For rows of one schema.
    ///
    /// # Errors
    /// `Invalid` if a column that the table is ordered by is not there.
    pub(crate) fn new(table: &'static Table, schema: &Schema) -> Result<Order> {
        let missing =
            |name: &str| Error::invalid(format!("table {} is ordered by `{name}`, which is not there", table.name));
        let column = |name: &&str| schema.index_of(name).map_err(|_| missing(name));
        let columns = table.order.iter().map(column).collect::<Result<Vec<_>>>()?;
        let field = |at: &usize| SortField::new_with_options(schema.field(*at).data_type().clone(), ASCENDING);
        let keys =
            RowConverter::new(columns.iter().map(field).collect()).map_err(|e| unordered(table).with_source(e))?;
        Ok(Order { table, columns, keys, last: None })
    }

    /// Sees the next rows.
    ///
    /// # Errors
    /// `Invalid` if one of them belongs before the one ahead of it.
    pub(crate) fn check(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns: Vec<ArrayRef> = self.columns.iter().map(|at| batch.column(*at).clone()).collect();
        let keys = self.keys.convert_columns(&columns).map_err(|e| unordered(self.table).with_source(e))?;
        let Some(end) = keys.num_rows().checked_sub(1) else { return Ok(()) };
        let follows = self.last.as_ref().is_none_or(|last| last.row() <= keys.row(0));
        let ordered = (1..keys.num_rows()).all(|row| keys.row(row - 1) <= keys.row(row));
        self.last = Some(keys.row(end).owned());
        if follows && ordered { Ok(()) } else { Err(unordered(self.table)) }
    }
}

fn unordered(table: &Table) -> Error {
    Error::invalid(format!("rows of table {} are not ordered by {}", table.name, table.order.join(", ")))
}
