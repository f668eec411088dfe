//! Rows for tests.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use service::{Deps, Result};
use telemetry::table::TOKENS;

use crate::{Entry, Lake, Outcome, layout};

/// The date of every row here.
pub(crate) const DATE: &str = "2026-11-29";

/// One token: `index`, which left its engine that many microseconds into [`DATE`].
pub(crate) fn token(index: i64) -> RecordBatch {
    let time = Field::new("time", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), false);
    let schema = Schema::new(vec![time, Field::new("index", DataType::Int64, true)]);
    let times: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from(vec![1_795_910_400_000_000 + index]).with_timezone("UTC"));
    RecordBatch::try_new(Arc::new(schema), vec![times, Arc::new(Int64Array::from(vec![index]))]).expect("a batch")
}

/// A lake in a folder.
pub(crate) async fn lake(folder: &tempfile::TempDir) -> Lake {
    Lake::open(folder.path().to_str().expect("utf-8"), &Deps::system()).await.expect("a lake")
}

/// Writes one token for the frames (`from`, `from + 1`] of a journal.
pub(crate) async fn entry(lake: &Lake, journal: &str, from: u64) -> Result<Entry> {
    let name = layout::file_name(journal, from, from + 1, &uuid::Uuid::new_v4().simple().to_string());
    let add = lake.write(&TOKENS, DATE, &name, &[token(i64::try_from(from).expect("small"))]).await?;
    Ok(Entry { journal: journal.to_owned(), table: "tokens", from, to: from + 1, adds: vec![add] })
}

/// Writes and commits one token for the frames (`from`, `from + 1`] of a journal.
pub(crate) async fn offer(lake: &Lake, journal: &str, from: u64) -> Result<Outcome> {
    lake.commit(entry(lake, journal, from).await?).await
}
