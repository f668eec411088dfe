//! Reading a Delta checkpoint: a Parquet file whose rows are the lines of a log, folded.

use arrow::json::LineDelimitedWriter;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use service::{Error, Result};

use super::action::{self, Action};

/// The columns that make up a state. Checkpoints may also hold parsed statistics, and tombstones, which readers do not need.
const COLUMNS: [&str; 10] = [
    "protocol",
    "metaData",
    "txn",
    "add.path",
    "add.partitionValues",
    "add.size",
    "add.modificationTime",
    "add.dataChange",
    "add.stats",
    "add.tags",
];

/// What is known of files that were removed lately.
const TOMBSTONES: [&str; 2] = ["remove.path", "remove.deletionTimestamp"];

/// The lines of one checkpoint file, without tombstones.
///
/// # Errors
/// `Corrupt`.
pub(super) fn decode(body: Bytes) -> Result<Vec<Action>> {
    columns(body, &COLUMNS)
}

/// The tombstones of one checkpoint file.
///
/// # Errors
/// `Corrupt`.
pub(super) fn decode_tombstones(body: Bytes) -> Result<Vec<Action>> {
    columns(body, &TOMBSTONES)
}

fn columns(body: Bytes, names: &[&str]) -> Result<Vec<Action>> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(body).map_err(unreadable)?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), names.iter().copied());
    let reader = builder.with_projection(mask).build().map_err(unreadable)?;
    let mut actions = Vec::new();
    for batch in reader {
        // Checkpoint rows nest exactly as commit lines do, so one decoder serves both.
        let mut writer = LineDelimitedWriter::new(Vec::new());
        writer.write(&batch.map_err(unreadable)?).map_err(unreadable)?;
        writer.finish().map_err(unreadable)?;
        actions.extend(action::decode(&writer.into_inner())?);
    }
    Ok(actions)
}

fn unreadable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::corrupt("read a checkpoint").with_source(error)
}
