//! Parquet rows as text, column by column.

use std::fs::File;
use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray, MapArray, RecordBatch, StringArray};
use arrow::compute::{can_cast_types, cast};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use service::{Error, Result};
use telemetry::record::{Header, Record};

use super::{Take, refused};

/// Rows of one batch.
const ROWS: usize = 8_192;

/// The batches of a file.
pub(super) struct Batches {
    reader: ParquetRecordBatchReader,
    read: u64,
}

pub(super) fn open(path: &Path, file: File) -> Result<(Header, Batches)> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| no_parquet(path, error);
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| failed(error.into()))?;
    let names: Vec<_> = builder.schema().fields().iter().map(|field| field.name().clone()).collect();
    let header = Header::new(names).map_err(|refusal| refused(path, &refusal))?;
    let reader = builder.with_batch_size(ROWS).build().map_err(|error| failed(error.into()))?;
    Ok((header, Batches { reader, read: 0 }))
}

impl Batches {
    pub(super) fn next(&mut self, header: &Header, path: &Path, take: &mut Take<'_>) -> Result<bool> {
        let Some(batch) = self.reader.next() else { return Ok(false) };
        let batch = batch.map_err(|error| no_parquet(path, error.into()))?;
        let columns = texts(&batch).map_err(|error| no_parquet(path, error.into()))?;
        for row in 0..batch.num_rows() {
            self.read += 1;
            let value = |column: &StringArray| column.is_valid(row).then(|| column.value(row).to_owned());
            let owned: Vec<_> = columns.iter().map(value).collect();
            let values: Vec<_> = owned.iter().map(Option::as_deref).collect();
            take(self.read, Record::new(header, &values))?;
        }
        Ok(true)
    }
}

fn texts(batch: &RecordBatch) -> std::result::Result<Vec<StringArray>, ArrowError> {
    batch.columns().iter().map(text).collect()
}

/// A column as text: numbers with all their digits, times by RFC 3339, maps as JSON objects.
fn text(column: &ArrayRef) -> std::result::Result<StringArray, ArrowError> {
    match column.data_type() {
        DataType::Map(..) => Ok(objects(column.as_map())),
        other if can_cast_types(other, &DataType::Utf8) => {
            Ok(cast(column, &DataType::Utf8)?.as_string::<i32>().clone())
        }
        _ => {
            let options = FormatOptions::default();
            let formatter = ArrayFormatter::try_new(column.as_ref(), &options)?;
            let value = |row| column.is_valid(row).then(|| formatter.value(row).to_string());
            Ok((0..column.len()).map(value).collect())
        }
    }
}

/// Maps of text to text as JSON.
fn objects(maps: &MapArray) -> StringArray {
    let object = |row: usize| {
        let entries = maps.value(row);
        let texts = |at: usize| cast(entries.column(at), &DataType::Utf8).ok();
        let (keys, values) = (texts(0)?, texts(1)?);
        let (keys, values) = (keys.as_string::<i32>(), values.as_string::<i32>());
        let known = (0..entries.len()).filter(|at| keys.is_valid(*at) && values.is_valid(*at));
        let pairs = known.map(|at| (keys.value(at).to_owned(), serde_json::Value::from(values.value(at))));
        Some(serde_json::Value::Object(pairs.collect()).to_string())
    };
    (0..maps.len()).map(|row| if maps.is_valid(row) { object(row) } else { None }).collect()
}

fn no_parquet(path: &Path, error: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::corrupt(format!("{} cannot be read as Parquet", path.display())).with_source(error)
}
