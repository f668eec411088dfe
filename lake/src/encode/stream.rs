//! A file whose rows come piece by piece, for more rows than should be in memory at once.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use service::{Error, Result};
use telemetry::table::Table;

use super::{Encoded, bounds, conform, properties};
use crate::snapshot::{ColumnStats, Value};

/// A file that stays, while it is written. In memory are its bytes so far and the rows of one row group.
pub(crate) struct Stream {
    table: &'static Table,
    writer: ArrowWriter<Vec<u8>>,
    rows: u64,
    stats: BTreeMap<String, ColumnStats>,
}

impl Stream {
    /// An empty file for about `rows` rows of batches of one schema.
    ///
    /// # Errors
    /// `Invalid` for columns that the registry does not know or types otherwise.
    pub(crate) fn new(table: &'static Table, schema: SchemaRef, rows: usize) -> Result<Stream> {
        let schema = conform(table, &RecordBatch::new_empty(schema))?.schema();
        let properties = properties::compacted(table, rows);
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), schema, options).map_err(|e| failed(table, e))?;
        Ok(Stream { table, writer, rows: 0, stats: BTreeMap::new() })
    }

    /// Appends rows; the caller sees to their order.
    ///
    /// # Errors
    /// As [`Stream::new`].
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = conform(self.table, batch)?;
        let rows = batch.num_rows() as u64;
        for (name, stats) in bounds::of(self.table, std::slice::from_ref(&batch)) {
            match self.stats.get_mut(&name) {
                // What had only NULLs so far has no bounds because there was nothing to bound.
                Some(known) if known.nulls != Some(self.rows) => widen(known, stats, rows),
                Some(known) => *known = ColumnStats { nulls: stats.nulls.map(|nulls| nulls + self.rows), ..stats },
                None => drop(self.stats.insert(name, stats)),
            }
        }
        self.rows += rows;
        self.writer.write(&batch).map_err(|e| failed(self.table, e))
    }

    /// The whole file.
    ///
    /// # Errors
    /// `Invalid` if it has no rows.
    pub(crate) fn finish(self) -> Result<Encoded> {
        if self.rows == 0 {
            return Err(Error::invalid(format!("a file of table {} without rows", self.table.name)));
        }
        let body = self.writer.into_inner().map_err(|e| failed(self.table, e))?;
        Ok(Encoded { body: Bytes::from(body), rows: self.rows, stats: self.stats })
    }
}

/// Bounds that hold for the rows so far and for `rows` more.
fn widen(known: &mut ColumnStats, more: ColumnStats, rows: u64) {
    known.nulls = known.nulls.zip(more.nulls).map(|(known, more)| known + more);
    if more.nulls == Some(rows) {
        return;
    }
    let outer = |a: Option<Value>, b: Option<Value>, further: fn(&Value, &Value) -> bool| {
        a.zip(b).map(|(a, b)| if further(&b, &a) { b } else { a })
    };
    known.min = outer(known.min.take(), more.min, |b, a| b < a);
    known.max = outer(known.max.take(), more.max, |b, a| b > a);
}

fn failed(table: &Table, error: parquet::errors::ParquetError) -> Error {
    Error::internal(format!("encode a file of table {}", table.name)).with_source(error)
}
