//! Rows of many sources as one sequence in the table's order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::SortColumn;
use arrow::compute::{SortOptions, concat_batches, lexsort_to_indices, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, Rows, SortField};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use service::{Error, Result};
use telemetry::table::Table;

use super::digest::Digest;
use super::{Input, PIECE_ROWS, RUN_ROWS, align, open, unreadable};
use crate::encode::encode;

/// Ascending, unknown values last, as SQL sorts unless told otherwise.
const ASCENDING: SortOptions = SortOptions { descending: false, nulls_first: false };
/// Fewest rows of a run in memory.
const RUN_ROWS_MIN: usize = 256;
/// Rows put in order at once; they are in memory, at roughly half a kilobyte each.
const SORT_ROWS: usize = 128 * 1024;
/// Rows put in order that stay in memory as they are. Of more, each run is packed as a file would be, and read piece by piece.
const UNPACKED_ROWS: usize = 256 * 1024;

/// All sources, merged.
pub(super) struct Runs {
    schema: SchemaRef,
    keys: Option<RowConverter>,
    /// Columns of the schema that the rows are ordered by.
    key_columns: Vec<usize>,
    runs: Vec<Run>,
    /// The next row of each run, by key.
    heap: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    /// Batches that rows taken since the last [`Runs::let_go`] lie in, and the current one of each run.
    held: Vec<RecordBatch>,
    /// Key of the row taken last.
    last: Option<Vec<u8>>,
    digest: Digest,
}

/// One source whose rows are in order.
struct Run {
    source: Source,
    /// Place of the current batch among those held.
    batch: usize,
    keys: Option<Rows>,
    row: usize,
    rows: usize,
}

enum Source {
    File(Box<ParquetRecordBatchReader>),
    Memory(Option<RecordBatch>),
}

impl Runs {
    /// Opens all files; those that are not in order are read and sorted.
    pub(super) fn open(table: &'static Table, schema: &SchemaRef, files: Vec<Input>) -> Result<Runs> {
        let key_columns: Vec<_> = table.order.iter().filter_map(|name| schema.index_of(name).ok()).collect();
        let fields =
            key_columns.iter().map(|at| SortField::new_with_options(schema.field(*at).data_type().clone(), ASCENDING));
        let fields: Vec<_> = fields.collect();
        let failed = |e| Error::internal(format!("order rows of table {}", table.name)).with_source(e);
        let keys = if fields.is_empty() { None } else { Some(RowConverter::new(fields).map_err(failed)?) };
        let rows = (RUN_ROWS / files.len().max(1)).clamp(RUN_ROWS_MIN, PIECE_ROWS);
        let mut sources = Vec::with_capacity(files.len());
        let mut unpacked = UNPACKED_ROWS;
        for file in files {
            match file.sorted {
                true => sources.push(Source::File(Box::new(open(table, file.body, rows)?))),
                false => sources.extend(sort(table, schema, &key_columns, file, &mut unpacked)?),
            }
        }
        let mut merged = Runs {
            schema: schema.clone(),
            keys,
            key_columns,
            runs: Vec::with_capacity(sources.len()),
            heap: BinaryHeap::with_capacity(sources.len()),
            held: Vec::new(),
            last: None,
            digest: Digest::default(),
        };
        for (at, source) in sources.into_iter().enumerate() {
            merged.runs.push(Run { source, batch: 0, keys: None, row: 0, rows: 0 });
            merged.advance(table, at)?;
        }
        Ok(merged)
    }

    /// The next row in order, as (batch, row) of [`Runs::held`], and whether its key is that of the row before.
    pub(super) fn next(&mut self, table: &Table) -> Result<Option<((usize, usize), bool)>> {
        let Some(Reverse((key, at))) = self.heap.pop() else { return Ok(None) };
        let Some(run) = self.runs.get_mut(at) else { return Ok(None) };
        let place = (run.batch, run.row);
        run.row += 1;
        let same = self.last.as_ref() == Some(&key);
        self.last = Some(key);
        self.advance(table, at)?;
        Ok(Some((place, same)))
    }

    /// Puts a run's next row in the heap, reading on if need be.
    fn advance(&mut self, table: &Table, at: usize) -> Result<()> {
        let Some(run) = self.runs.get_mut(at) else { return Ok(()) };
        while run.row == run.rows {
            let Some(batch) = run.source.next(table)? else { return Ok(()) };
            let batch = align(table, &batch, &self.schema)?;
            self.digest.add(&batch);
            (run.row, run.rows, run.batch) = (0, batch.num_rows(), self.held.len());
            run.keys = None;
            if let Some(keys) = &self.keys {
                let columns: Vec<ArrayRef> = self.key_columns.iter().map(|at| batch.column(*at).clone()).collect();
                let failed = |e| Error::internal(format!("order rows of table {}", table.name)).with_source(e);
                run.keys = Some(keys.convert_columns(&columns).map_err(failed)?);
            }
            self.held.push(batch);
        }
        let key = run.keys.as_ref().map_or_else(Vec::new, |keys| keys.row(run.row).as_ref().to_vec());
        self.heap.push(Reverse((key, at)));
        Ok(())
    }

    /// Batches that places point into.
    pub(super) fn held(&self) -> &[RecordBatch] {
        &self.held
    }

    /// Keeps the current batch of each run and those that `others` point into; their places move.
    pub(super) fn let_go(&mut self, others: &mut [(usize, usize)]) {
        let current = self.runs.iter_mut().filter(|run| run.row < run.rows).map(|run| &mut run.batch);
        let places: Vec<&mut usize> = current.chain(others.iter_mut().map(|(batch, _)| batch)).collect();
        let mut moved = vec![None; self.held.len()];
        let mut kept = Vec::new();
        for place in places {
            let (Some(known), Some(batch)) = (moved.get_mut(*place), self.held.get(*place)) else { continue };
            *place = *known.get_or_insert_with(|| {
                kept.push(batch.clone());
                kept.len() - 1
            });
        }
        self.held = kept;
    }

    /// What all rows that were read come to.
    pub(super) fn into_digest(self) -> Digest {
        self.digest
    }
}

impl Source {
    fn next(&mut self, table: &Table) -> Result<Option<RecordBatch>> {
        match self {
            Source::File(reader) => reader.next().transpose().map_err(|e| unreadable(table).with_source(e)),
            Source::Memory(batch) => Ok(batch.take()),
        }
    }
}

/// The rows of a file that are not in order, as runs that are. `unpacked` rows may stay as they are.
fn sort(
    table: &'static Table,
    schema: &SchemaRef,
    key_columns: &[usize],
    file: Input,
    unpacked: &mut usize,
) -> Result<Vec<Source>> {
    let mut runs = Vec::new();
    let (mut batches, mut rows) = (Vec::new(), 0);
    let mut reader = open(table, file.body, PIECE_ROWS)?.peekable();
    while let Some(batch) = reader.next() {
        let batch = align(table, &batch.map_err(|e| unreadable(table).with_source(e))?, schema)?;
        rows += batch.num_rows();
        batches.push(batch);
        if rows >= SORT_ROWS || reader.peek().is_none() {
            let run = sort_batches(table, schema, key_columns, &std::mem::take(&mut batches))?;
            runs.push(match unpacked.checked_sub(rows) {
                Some(left) => {
                    *unpacked = left;
                    Source::Memory(Some(run))
                }
                None => Source::File(Box::new(open(table, encode(table, &[run])?.body, RUN_ROWS_MIN)?)),
            });
            rows = 0;
        }
    }
    Ok(runs)
}

fn sort_batches(
    table: &Table,
    schema: &SchemaRef,
    key_columns: &[usize],
    batches: &[RecordBatch],
) -> Result<RecordBatch> {
    let failed = |e| Error::internal(format!("sort rows of table {}", table.name)).with_source(e);
    let rows = concat_batches(schema, batches).map_err(failed)?;
    if rows.num_rows() == 0 || key_columns.is_empty() {
        return Ok(rows);
    }
    let column = |at: &usize| SortColumn { values: rows.column(*at).clone(), options: Some(ASCENDING) };
    let keys: Vec<_> = key_columns.iter().map(column).collect();
    let order = lexsort_to_indices(&keys, None).map_err(failed)?;
    take_record_batch(&rows, &order).map_err(failed)
}
