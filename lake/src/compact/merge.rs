//! The rows of several files, in the table's order, as the bytes of one file; and the proof that they are the same rows.
//!
//! ```text
//! files in order ──► runs, read piece by piece ─┐
//! files as they came ─► sorted in memory: a run ┴─► heap ─► twins? ─► encode ─► read back, compare
//! ```
//!
//! Rows in memory are bounded: those of files that are not in order, and one piece of each run.

mod digest;
mod runs;
mod twins;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, new_null_array};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::{FieldRef, Schema, SchemaRef, TimestampMicrosecondType};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use service::{Error, Result};
use telemetry::table::Table;

use crate::encode::{Encoded, Stream};
use digest::Digest;
use runs::Runs;
use twins::{Twin, Twins};

/// Rows put in order before they are encoded.
const PIECE_ROWS: usize = 8 * 1024;
/// Rows of all runs in memory at once, at most.
const RUN_ROWS: usize = 256 * 1024;
/// Microseconds in a minute.
const MINUTE_US: i64 = 60_000_000;

/// A file to merge.
pub(super) struct Input {
    pub(super) body: Bytes,
    /// Whether its rows are in the table's order.
    pub(super) sorted: bool,
}

/// What a merge came to.
pub(super) struct Merged {
    pub(super) encoded: Encoded,
    pub(super) removed: Removed,
}

/// Rows that were there twice, as a retry leaves them that reached another collector.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Removed {
    /// Rows left out because an equal one is there.
    pub(super) rows: u64,
    /// The minutes since 1970-01-01 UTC that they were of.
    pub(super) minutes: BTreeSet<i64>,
    /// Rows that name the same thing as another and say something else of it. They stay.
    pub(super) at_odds: u64,
}

/// Merges files that should hold `rows` rows together.
///
/// # Errors
/// `Corrupt` if a file cannot be read or the rows are not that many, `Invalid` for columns that the registry does not know,
/// `Internal` if the result would not hold the same rows.
pub(super) fn merge(table: &'static Table, files: Vec<Input>, rows: u64) -> Result<Merged> {
    let schema = common_schema(table, &files)?;
    let mut merge = Merge {
        table,
        runs: Runs::open(table, &schema, files)?,
        twins: Twins::of(table),
        out: Stream::new(table, Arc::clone(&schema), usize::try_from(rows).unwrap_or(usize::MAX))?,
        picked: Vec::with_capacity(PIECE_ROWS),
        left_out: Digest::default(),
        removed: Removed::default(),
    };
    while merge.step()? {}
    merge.flush()?;
    let Merge { runs, out, mut left_out, removed, .. } = merge;
    let before = runs.into_digest();
    if before.rows != rows {
        let found = before.rows;
        return Err(Error::corrupt(format!("files of table {} hold {found} rows, not {rows}", table.name)));
    }
    let encoded = out.finish()?;
    for batch in open(table, encoded.body.clone(), PIECE_ROWS)? {
        left_out.add(&batch.map_err(|e| unreadable(table).with_source(e))?);
    }
    if before != left_out {
        return Err(Error::internal(format!("a merge of table {} would change its rows", table.name)));
    }
    Ok(Merged { encoded, removed })
}

struct Merge {
    table: &'static Table,
    runs: Runs,
    twins: Twins,
    out: Stream,
    /// Rows of the next piece, as (batch held by the runs, row).
    picked: Vec<(usize, usize)>,
    /// What the rows that are left out come to; what is written is added to it at the end.
    left_out: Digest,
    removed: Removed,
}

impl Merge {
    /// Takes the next row in order; false if there is none.
    fn step(&mut self) -> Result<bool> {
        let Some((place, same_key)) = self.runs.next(self.table)? else { return Ok(false) };
        match self.twins.meet(self.runs.held(), place, same_key) {
            Twin::Equal => self.leave_out(place),
            Twin::AtOdds => {
                self.removed.at_odds += 1;
                self.picked.push(place);
            }
            Twin::None => self.picked.push(place),
        }
        if self.picked.len() == PIECE_ROWS {
            self.flush()?;
        }
        Ok(true)
    }

    fn leave_out(&mut self, (batch, row): (usize, usize)) {
        let Some(batch) = self.runs.held().get(batch) else { return };
        let row = batch.slice(row, 1);
        let times = row.column_by_name("time").and_then(|time| time.as_primitive_opt::<TimestampMicrosecondType>());
        if let Some(us) = times.and_then(|times| times.iter().next().flatten()) {
            self.removed.minutes.insert(us.div_euclid(MINUTE_US));
        }
        self.removed.rows += 1;
        self.left_out.add(&row);
    }

    /// Encodes what is picked, and lets go of batches that nothing points into any more.
    fn flush(&mut self) -> Result<()> {
        if !self.picked.is_empty() {
            let sources: Vec<&RecordBatch> = self.runs.held().iter().collect();
            let failed = |e| Error::internal(format!("order rows of table {}", self.table.name)).with_source(e);
            let piece = interleave_record_batch(&sources, &self.picked).map_err(failed)?;
            self.out.write(&piece)?;
            self.picked.clear();
        }
        self.runs.let_go(self.twins.group_mut());
        Ok(())
    }
}

fn open(table: &Table, file: Bytes, rows: usize) -> Result<ParquetRecordBatchReader> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).and_then(|file| file.with_batch_size(rows).build());
    reader.map_err(|e| unreadable(table).with_source(e))
}

fn unreadable(table: &Table) -> Error {
    Error::corrupt(format!("read a file of table {}", table.name))
}

/// Every column that some file has: those of the registry in its order, then others, which the encoder will refuse.
fn common_schema(table: &Table, files: &[Input]) -> Result<SchemaRef> {
    let mut found: BTreeMap<String, FieldRef> = BTreeMap::new();
    for file in files {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file.body.clone());
        let builder = builder.map_err(|e| unreadable(table).with_source(e))?;
        for field in builder.schema().fields() {
            found.entry(field.name().clone()).or_insert_with(|| Arc::clone(field));
        }
    }
    let known: Vec<_> = table.columns().filter_map(|column| found.remove(column.name)).collect();
    let fields = known.into_iter().chain(found.into_values());
    Ok(Arc::new(Schema::new(fields.map(|field| (*field).clone().with_nullable(true)).collect::<Vec<_>>())))
}

/// The batch with all columns of the schema; those it lacks are NULL.
fn align(table: &Table, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = schema.fields().iter().map(|field| {
        let there = batch.column_by_name(field.name()).cloned();
        there.unwrap_or_else(|| new_null_array(field.data_type(), batch.num_rows()))
    });
    let aligned = RecordBatch::try_new(Arc::clone(schema), columns.collect());
    aligned.map_err(|e| Error::invalid(format!("files of table {} differ in type", table.name)).with_source(e))
}

#[cfg(test)]
mod tests;
