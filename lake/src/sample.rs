//! Rows for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use service::clock::Clock;
use service::{Deps, Result};
use telemetry::table::TOKENS;

use crate::{Entry, Lake, Outcome, layout};

/// The date of every row here.
pub(crate) const DATE: &str = "2026-11-29";

/// Start of [`DATE`], microseconds since 1970-01-01 UTC.
pub(crate) const DAY_US: i64 = 1_795_910_400_000_000;

/// A clock that is set by hand. It starts at [`DAY_US`].
#[derive(Default)]
pub(crate) struct Hand {
    passed_us: AtomicI64,
    jumped_us: AtomicI64,
}

impl Hand {
    /// Time passes.
    pub(crate) fn pass(&self, time: Duration) {
        let us = i64::try_from(time.as_micros()).expect("a while");
        self.passed_us.fetch_add(us, Ordering::SeqCst);
    }

    /// The wall clock is set; no time passes.
    pub(crate) fn jump(&self, us: i64) {
        self.jumped_us.fetch_add(us, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now_ns(&self) -> i64 {
        let (passed, jumped) = (self.passed_us.load(Ordering::SeqCst), self.jumped_us.load(Ordering::SeqCst));
        (DAY_US + passed + jumped) * 1_000
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.passed_us.load(Ordering::SeqCst).unsigned_abs())
    }
}

/// One token: `index`, which left its engine that many microseconds into [`DATE`].
pub(crate) fn token(index: i64) -> RecordBatch {
    let time = Field::new("time", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), false);
    let schema = Schema::new(vec![time, Field::new("index", DataType::Int64, true)]);
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![DAY_US + index]).with_timezone("UTC"));
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
