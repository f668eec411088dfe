//! Rows to the bytes of a Parquet file, and what readers may know of them without reading them.

mod bounds;
mod order;
mod properties;
mod runs;
mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use service::{Error, Result};
use telemetry::table::{PARTITION, Table};

use crate::snapshot::ColumnStats;
use order::Order;
pub use properties::LOOKED_UP;
pub(crate) use stream::Stream;

/// A file's bytes and what is known of its rows.
pub(crate) struct Encoded {
    /// The Parquet file.
    pub(crate) body: Bytes,
    /// Rows in it.
    pub(crate) rows: u64,
    /// Bounds of the columns that scans prune by.
    pub(crate) stats: BTreeMap<String, ColumnStats>,
}

/// Encodes batches in the order given. A column `date` is left out: it lies in the path. Text may come run-end encoded.
///
/// # Errors
/// `Invalid` if there are no rows, or columns that the registry does not know or types otherwise.
pub(crate) fn encode(table: &'static Table, batches: &[RecordBatch]) -> Result<Encoded> {
    let batches = batches.iter().map(|batch| conform(table, batch)).collect::<Result<Vec<_>>>()?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let Some(first) = batches.first().filter(|_| rows > 0) else {
        return Err(Error::invalid(format!("a file of table {} without rows", table.name)));
    };
    let properties = properties::arrival(table, rows);
    let body = if batches.iter().any(runs::any) {
        runs::write(properties, &batches).map(Bytes::from).map_err(|e| failed(table, e))?
    } else {
        write(table, properties, first.schema(), batches.iter().cloned().map(Ok))?
    };
    Ok(Encoded { body, rows: rows as u64, stats: bounds::of(table, &batches) })
}

/// Encodes rows that come in the table's order, piece by piece, as a file that stays.
///
/// # Errors
/// `Invalid` if there are no rows, they are in another order, or their columns are not those of the registry.
pub(crate) fn encode_sorted(table: &'static Table, batches: impl Iterator<Item = RecordBatch>) -> Result<Encoded> {
    let mut batches = batches.peekable();
    let Some(first) = batches.peek() else {
        return Err(Error::invalid(format!("a file of table {} without rows", table.name)));
    };
    let mut order = Order::new(table, &first.schema())?;
    let mut stream = Stream::new(table, first.schema(), properties::ROW_GROUP_ROWS)?;
    for batch in batches {
        order.check(&batch)?;
        stream.write(&batch)?;
    }
    stream.finish()
}

fn write(
    table: &'static Table,
    properties: WriterProperties,
    schema: SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<Bytes> {
    let failed = |e| failed(table, e);
    // The Arrow schema would repeat in every small file what the columns' own types say.
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema, options).map_err(failed)?;
    for batch in batches {
        writer.write(&batch?).map_err(failed)?;
    }
    Ok(Bytes::from(writer.into_inner().map_err(failed)?))
}

fn failed(table: &Table, error: ParquetError) -> Error {
    Error::internal(format!("encode a file of table {}", table.name)).with_source(error)
}

/// The batch with the columns of the registry only, in its own order.
fn conform(table: &Table, batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let mut fields = Vec::with_capacity(schema.fields().len());
    let mut arrays = Vec::with_capacity(schema.fields().len());
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        if field.name() == PARTITION {
            continue;
        }
        let column = table.column(field.name()).ok_or_else(|| unknown(table, field.name()))?;
        if !column.kind.arrow().equals_datatype(runs::value_type(field.data_type())) {
            let (found, wanted) = (field.data_type(), column.kind.sql());
            return Err(Error::invalid(format!("column {}.{} is {found}, not {wanted}", table.name, column.name)));
        }
        fields.push(Arc::clone(field));
        arrays.push(Arc::clone(array));
    }
    let rebuilt = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
    rebuilt.map_err(|e| Error::invalid(format!("a batch of table {}", table.name)).with_source(e))
}

fn unknown(table: &Table, column: &str) -> Error {
    Error::invalid(format!("table {} has no column `{column}`", table.name))
}

#[cfg(test)]
mod tests;
