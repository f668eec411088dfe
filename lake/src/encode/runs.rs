//! Files with columns of text that come as runs.
//!
//! The library's writer hashes every value of a text column, though it repeats a thousand times. Here a run-end encoded column
//! becomes a dictionary and one run of the format's own run-length encoding per run: what it costs follows the number of runs,
//! not of rows. All other columns go through the library's writer.

mod chunk;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32RunArray, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use super::properties::ROW_GROUP_ROWS;

/// Whether a column of the batch comes as runs.
pub(super) fn any(batch: &RecordBatch) -> bool {
    batch.columns().iter().any(|column| text_runs(column).is_some())
}

/// The type of one value.
pub(super) fn value_type(kind: &DataType) -> &DataType {
    match kind {
        DataType::RunEndEncoded(_, values) => values.data_type(),
        other => other,
    }
}

/// The values of a column, those of runs once each, and how many rows are NULL.
pub(super) fn values(column: &ArrayRef) -> (ArrayRef, usize) {
    match text_runs(column) {
        Some(runs) => {
            let nulls = pieces(runs, 0, runs.len()).filter(|(place, _)| runs.values().is_null(*place));
            (Arc::clone(runs.values()), nulls.map(|(_, rows)| rows).sum())
        }
        None => (Arc::clone(column), column.null_count()),
    }
}

/// Writes batches of like columns, whatever form they come in.
pub(super) fn write(properties: WriterProperties, batches: &[RecordBatch]) -> Result<Vec<u8>> {
    let schema = flat(batches);
    let converter = ArrowSchemaConverter::new().with_coerce_types(properties.coerce_types());
    let described = converter.convert(&schema)?;
    let mut file = SerializedFileWriter::new(Vec::new(), described.root_schema_ptr(), Arc::new(properties))?;
    let properties = Arc::clone(file.properties());
    let factory = ArrowRowGroupWriterFactory::new(&file, Arc::clone(&schema));
    let mut groups = 0;
    for batch in batches {
        for from in (0..batch.num_rows()).step_by(ROW_GROUP_ROWS) {
            let rows = ROW_GROUP_ROWS.min(batch.num_rows() - from);
            let mut writers = factory.create_column_writers(groups)?.into_iter();
            let mut group = file.next_row_group()?;
            let mut leaf = 0;
            for (field, column) in schema.fields().iter().zip(batch.columns()) {
                if let Some(runs) = text_runs(column) {
                    let (bytes, close) = chunk::write(&described.column(leaf), &properties, runs, from, rows)?;
                    group.append_column(&bytes, close)?;
                    writers.next();
                    leaf += 1;
                    continue;
                }
                for values in compute_leaves(field, &column.slice(from, rows))? {
                    let more = || ParquetError::General("a column without a writer".to_owned());
                    let mut writer = writers.next().ok_or_else(more)?;
                    writer.write(&values)?;
                    writer.close()?.append_to_row_group(&mut group)?;
                    leaf += 1;
                }
            }
            group.close()?;
            groups += 1;
        }
    }
    file.into_inner()
}

/// The schema with runs taken for what they are runs of.
fn flat(batches: &[RecordBatch]) -> SchemaRef {
    let Some(first) = batches.first() else { return Arc::new(Schema::empty()) };
    let fields = first.schema_ref().fields().iter().map(|field| match field.data_type() {
        DataType::RunEndEncoded(..) => {
            Arc::new(field.as_ref().clone().with_data_type(value_type(field.data_type()).clone()))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn text_runs(column: &ArrayRef) -> Option<&Int32RunArray> {
    let runs = column.as_any().downcast_ref::<Int32RunArray>()?;
    runs.values().as_string_opt::<i32>().map(|_| runs)
}

/// The runs of the rows from `from` on: where their value stands, and how many rows it holds for.
fn pieces(runs: &Int32RunArray, from: usize, rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let ends = runs.run_ends();
    let from = ends.offset() + from;
    let to = from + rows;
    let first = ends.values().partition_point(|end| *end as usize <= from);
    let ends = ends.values().iter().enumerate().skip(first);
    let mut start = from;
    ends.map_while(move |(place, end)| {
        let end = to.min(*end as usize);
        let rows = end.checked_sub(start).filter(|rows| *rows > 0)?;
        start = end;
        Some((place, rows))
    })
}

#[cfg(test)]
mod tests;
