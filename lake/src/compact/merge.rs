//! The rows of several files, in the table's order, as the bytes of one file; and the proof that they are the same rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::compute::{SortColumn, SortOptions, concat, lexsort_to_indices};
use arrow::datatypes::{
    DataType, Decimal128Type, FieldRef, Float64Type, Int64Type, Schema, SchemaRef, TimestampMicrosecondType,
};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use service::{Error, Result};
use telemetry::table::Table;
use xxhash_rust::xxh3::xxh3_64;

use crate::encode::{Encoded, encode_in_order};

/// Rows read at once.
const READ_ROWS: usize = 8 * 1024;
/// Ascending, unknown values last, as SQL sorts unless told otherwise.
const ASCENDING: SortOptions = SortOptions { descending: false, nulls_first: false };

/// Merges files that should hold `rows` rows together.
///
/// # Errors
/// `Corrupt` if a file cannot be read or the rows are not that many, `Invalid` for columns that the registry does not know,
/// `Internal` if the result would not hold the same rows.
pub(super) fn merge(table: &'static Table, files: Vec<Bytes>, rows: u64) -> Result<Encoded> {
    let mut batches = Vec::new();
    for file in files {
        for batch in open(table, file)? {
            batches.push(batch.map_err(|e| unreadable(table).with_source(e))?);
        }
    }
    let schema = common_schema(table, &batches);
    let batches = batches.iter().map(|batch| align(table, batch, &schema)).collect::<Result<Vec<_>>>()?;
    let before = digest(batches.iter().cloned().map(Ok))?;
    if before.rows != rows {
        let found = before.rows;
        return Err(Error::corrupt(format!("files of table {} hold {found} rows, not {rows}", table.name)));
    }
    let order = sorted(table, &batches)?;
    let merged = encode_in_order(table, &batches, &order)?;
    drop(batches);
    let written = open(table, merged.body.clone())?;
    let after = digest(written.map(|batch| batch.map_err(|e| unreadable(table).with_source(e))))?;
    if before != after {
        return Err(Error::internal(format!("a merge of table {} would change its rows", table.name)));
    }
    Ok(merged)
}

fn open(table: &Table, file: Bytes) -> Result<ParquetRecordBatchReader> {
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(file).and_then(|file| file.with_batch_size(READ_ROWS).build());
    reader.map_err(|e| unreadable(table).with_source(e))
}

fn unreadable(table: &Table) -> Error {
    Error::corrupt(format!("read a file of table {}", table.name))
}

/// Every column that some file has: those of the registry in its order, then others, which the encoder will refuse.
fn common_schema(table: &Table, batches: &[RecordBatch]) -> SchemaRef {
    let mut found: BTreeMap<String, FieldRef> = BTreeMap::new();
    for batch in batches {
        for field in batch.schema_ref().fields() {
            found.entry(field.name().clone()).or_insert_with(|| Arc::clone(field));
        }
    }
    let known: Vec<_> = table.columns().filter_map(|column| found.remove(column.name)).collect();
    let fields = known.into_iter().chain(found.into_values());
    Arc::new(Schema::new(fields.map(|field| (*field).clone().with_nullable(true)).collect::<Vec<_>>()))
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

/// The rows in the table's order, as (batch, row).
fn sorted(table: &Table, batches: &[RecordBatch]) -> Result<Vec<(usize, usize)>> {
    let failed = |e| Error::internal(format!("sort rows of table {}", table.name)).with_source(e);
    let places = batches.iter().enumerate().flat_map(|(n, batch)| (0..batch.num_rows()).map(move |row| (n, row)));
    let places: Vec<_> = places.collect();
    let mut keys = Vec::new();
    for name in table.order {
        let parts: Vec<&dyn Array> =
            batches.iter().filter_map(|batch| batch.column_by_name(name)).map(AsRef::as_ref).collect();
        if !parts.is_empty() {
            keys.push(SortColumn { values: concat(&parts).map_err(failed)?, options: Some(ASCENDING) });
        }
    }
    if keys.is_empty() {
        return Ok(places);
    }
    let order = lexsort_to_indices(&keys, None).map_err(failed)?;
    Ok(order.values().iter().filter_map(|at| places.get(*at as usize).copied()).collect())
}

/// What a set of rows comes to, whatever their order.
#[derive(Debug, Default, PartialEq)]
struct Digest {
    rows: u64,
    /// Per column: values that are NULL, and the sum of all others modulo 2^64.
    columns: BTreeMap<String, (u64, u64)>,
}

fn digest(batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<Digest> {
    let mut digest = Digest::default();
    for batch in batches {
        let batch = batch?;
        digest.rows += batch.num_rows() as u64;
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let (nulls, sum) = digest.columns.entry(field.name().clone()).or_default();
            *nulls += array.null_count() as u64;
            *sum = sum.wrapping_add(column_sum(array));
        }
    }
    Ok(digest)
}

/// Whole numbers add up; of doubles the bits do, since their sum would depend on the order; of text, a hash of each value; of
/// maps and lists, their values and how many there are.
fn column_sum(array: &ArrayRef) -> u64 {
    let total = |values: &mut dyn Iterator<Item = u64>| values.fold(0_u64, u64::wrapping_add);
    match array.data_type() {
        DataType::Int64 => total(&mut array.as_primitive::<Int64Type>().iter().flatten().map(i64::cast_unsigned)),
        DataType::Timestamp(..) => match array.as_primitive_opt::<TimestampMicrosecondType>() {
            Some(times) => total(&mut times.iter().flatten().map(i64::cast_unsigned)),
            None => 0,
        },
        DataType::Float64 => total(&mut array.as_primitive::<Float64Type>().iter().flatten().map(f64::to_bits)),
        DataType::Decimal128(..) => {
            let hash = |value: i128| xxh3_64(&value.to_le_bytes());
            total(&mut array.as_primitive::<Decimal128Type>().iter().flatten().map(hash))
        }
        DataType::Boolean => array.as_boolean().true_count() as u64,
        DataType::Utf8 => total(&mut array.as_string::<i32>().iter().flatten().map(|text| xxh3_64(text.as_bytes()))),
        DataType::Map(..) => {
            let maps = array.as_map();
            entries(maps.value_offsets(), maps.entries().columns())
        }
        DataType::List(..) => {
            let lists = array.as_list::<i32>();
            entries(lists.value_offsets(), std::slice::from_ref(lists.values()))
        }
        _ => 0,
    }
}

/// How many entries lists or maps have together, and what the entries come to.
fn entries(offsets: &[i32], columns: &[ArrayRef]) -> u64 {
    let place = |offset: Option<&i32>| usize::try_from(offset.copied().unwrap_or(0)).unwrap_or(0);
    let (first, last) = (place(offsets.first()), place(offsets.last()));
    let count = last.saturating_sub(first);
    let sums = columns.iter().map(|column| column_sum(&column.slice(first, count)));
    sums.fold(count as u64, u64::wrapping_add)
}

#[cfg(test)]
mod tests;
