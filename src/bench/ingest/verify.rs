//! What became of the load: when it could be seen in the Delta log, and whether each token is there once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, Int64Array, RecordBatch, StringArray};
use lake::Lake;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use parking_lot::Mutex;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use prost::bytes::Bytes;
use service::error::{Error, Result};
use telemetry::table;

use super::body::call_of;
use super::load::Sent;

/// How often the log is looked at; the error of the freshness figure.
const POLL: Duration = Duration::from_millis(100);

/// Token rows that a reader could see, over time.
#[derive(Default)]
pub(super) struct Seen {
    /// (since the start of the load, rows visible), whenever the rows had grown.
    pub(super) growth: Vec<(Duration, u64)>,
    /// Since the start of the load until all acknowledged rows were visible; unknown if they never were.
    pub(super) complete: Option<Duration>,
}

/// Watches the tokens table like any reader does.
pub(super) struct Watch {
    lake: Lake,
    growth: Arc<Mutex<Vec<(Instant, u64)>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Watch {
    /// Starts to look at a lake.
    pub(super) async fn start(data: &str) -> Result<Watch> {
        let lake = Lake::open(data, &service::Deps::system()).await?;
        let growth: Arc<Mutex<Vec<(Instant, u64)>>> = Arc::default();
        let task = tokio::spawn(follow(lake.clone(), growth.clone()));
        Ok(Watch { lake, growth, task })
    }

    /// Waits until `rows` token rows are visible, or patience ends. Times count from `start`.
    pub(super) async fn until_rows(&self, rows: u64, start: Instant, patience: Duration) -> Result<Seen> {
        let deadline = Instant::now() + patience;
        let mut complete = None;
        while complete.is_none() && Instant::now() < deadline {
            if visible(&self.lake).await? >= rows {
                complete = Some(start.elapsed());
            }
            tokio::time::sleep(POLL).await;
        }
        let growth = self.growth.lock().iter().map(|(at, rows)| (at.saturating_duration_since(start), *rows)).collect();
        Ok(Seen { growth, complete })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(lake: Lake, growth: Arc<Mutex<Vec<(Instant, u64)>>>) {
    let mut last = 0;
    loop {
        // An unreadable log is told by `until_rows`, which reads it too.
        if let Ok(rows) = visible(&lake).await
            && rows > last
        {
            last = rows;
            growth.lock().push((Instant::now(), rows));
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn visible(lake: &Lake) -> Result<u64> {
    let snapshot = lake.snapshot(table::TOKENS.name, None).await?;
    snapshot.rows().ok_or_else(|| Error::new(service::error::Kind::Corrupt, "a file of tokens has no row count"))
}

/// What the tables hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Stored {
    /// Token rows.
    pub(super) rows: u64,
    /// Bytes of their files.
    pub(super) bytes: u64,
    /// Files of tokens.
    pub(super) files: u64,
    /// Acknowledged tokens that are not there.
    pub(super) lost: u64,
    /// Token rows beyond the first of the same token.
    pub(super) doubled: u64,
}

/// Reads every token row back and compares with what was acknowledged.
pub(super) async fn stored(data: &str, sent: &[&Sent]) -> Result<Stored> {
    let lake = Lake::open_read_only(data, &service::Deps::system()).await?;
    let snapshot = lake.snapshot(table::TOKENS.name, None).await?;
    let calls = sent.iter().map(|sent| sent.calls).max().unwrap_or(0);
    let mut ledger = Ledger { calls: vec![0; calls as usize], stored: Stored::default() };
    for file in &snapshot.files {
        let read = async { lake.store().get(&Path::from(file.path.as_str())).await?.bytes().await };
        let bytes = read.await.map_err(|error| unreadable(&file.path)(error.into()))?;
        ledger.stored.bytes += file.size;
        ledger.stored.files += 1;
        ledger = tokio::task::spawn_blocking(move || ledger.file(bytes))
            .await
            .map_err(|error| unreadable(&file.path)(error.into()))?
            .map_err(|error| unreadable(&file.path)(error.into()))?;
    }
    Ok(ledger.compare(sent))
}

fn unreadable(path: &str) -> impl Fn(Box<dyn std::error::Error + Send + Sync>) -> Error {
    move |error| Error::new(service::error::Kind::Corrupt, format!("read {path}")).with_source(error)
}

/// CPU seconds that it takes to compact the tokens, all of whose windows are taken to be over; and what they take then.
pub(super) async fn compact(data: &str) -> Result<(f64, Stored)> {
    let deps = service::Deps::new(Arc::new(Later(service::clock::system())));
    let lake = Lake::open(data, &deps).await?;
    let before = super::server::cpu_seconds(std::process::id())?;
    lake.compact(&table::TOKENS, &deps).await?;
    let cpu_s = super::server::cpu_seconds(std::process::id())? - before;
    let snapshot = lake.snapshot(table::TOKENS.name, None).await?;
    let mut stored =
        Stored { rows: snapshot.rows().unwrap_or(0), files: snapshot.files.len() as u64, ..Stored::default() };
    stored.bytes = snapshot.files.iter().map(|file| file.size).sum();
    Ok((cpu_s, stored))
}

/// The machine's clock, an hour ahead.
struct Later(service::clock::SharedClock);

impl service::clock::Clock for Later {
    fn now_ns(&self) -> i64 {
        self.0.now_ns() + 3_600_000_000_000
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
}

/// One bit per token of every call.
struct Ledger {
    calls: Vec<u128>,
    stored: Stored,
}

impl Ledger {
    fn file(mut self, bytes: Bytes) -> Result<Ledger> {
        let unreadable = |error: Box<dyn std::error::Error + Send + Sync>| {
            Error::new(service::error::Kind::Corrupt, "no file of tokens").with_source(error)
        };
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(|error| unreadable(error.into()))?;
        let mask = ProjectionMask::columns(builder.parquet_schema(), ["trace_id", "index"]);
        let reader = builder.with_projection(mask).build().map_err(|error| unreadable(error.into()))?;
        for batch in reader {
            self.batch(&batch.map_err(|error| unreadable(error.into()))?)?;
        }
        Ok(self)
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let wrong = || Error::new(service::error::Kind::Corrupt, "tokens lacks trace_id or index");
        let traces = batch.column_by_name("trace_id").and_then(|column| column.as_any().downcast_ref::<StringArray>());
        let indexes = batch.column_by_name("index").and_then(|column| column.as_any().downcast_ref::<Int64Array>());
        let (traces, indexes) = (traces.ok_or_else(wrong)?, indexes.ok_or_else(wrong)?);
        for row in 0..batch.num_rows() {
            self.mark(traces.value(row), indexes.value(row));
        }
        Ok(())
    }

    fn mark(&mut self, trace: &str, index: i64) {
        self.stored.rows += 1;
        let call = call_of(trace).and_then(|call| usize::try_from(call).ok());
        // A token of a call that never was counts as doubled: it should not be there.
        let Some(bits) = call.and_then(|call| self.calls.get_mut(call)) else {
            self.stored.doubled += 1;
            return;
        };
        let bit = 1u128 << index.clamp(0, 127);
        if *bits & bit != 0 {
            self.stored.doubled += 1;
        }
        *bits |= bit;
    }

    fn compare(mut self, sent: &[&Sent]) -> Stored {
        for ack in sent.iter().flat_map(|sent| &sent.acks) {
            for held in ack.held.iter() {
                let present = self.calls[(ack.first_call + u64::from(held.call)) as usize];
                self.stored.lost += u64::from((held.tokens & !present).count_ones());
            }
        }
        self.stored
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::body::Held;
    use super::super::load::Ack;
    use super::*;

    fn sent() -> Sent {
        let held = [Held { call: 0, tokens: 0b111 }].into();
        let ack = Ack { at: Duration::ZERO, took: Duration::ZERO, spans: 4, tokens: 3, held, first_call: 0 };
        Sent { acks: vec![ack], ..Sent::at(Instant::now()) }
    }

    fn trace(call: u64) -> String {
        format!("{:016x}{:016x}", call.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15), 0)
    }

    #[test]
    fn a_missing_and_a_double_token_are_told_apart() {
        let mut ledger = Ledger { calls: vec![0], stored: Stored::default() };
        for index in [0, 1, 1] {
            ledger.mark(&trace(0), index);
        }
        assert_eq!(ledger.compare(&[&sent()]), Stored { rows: 3, lost: 1, doubled: 1, ..Stored::default() });
    }

    #[test]
    fn a_token_of_an_unknown_call_does_not_hide_a_loss() {
        let mut ledger = Ledger { calls: vec![0], stored: Stored::default() };
        for (call, index) in [(0, 0), (0, 1), (7, 2)] {
            ledger.mark(&trace(call), index);
        }
        assert_eq!(ledger.compare(&[&sent()]), Stored { rows: 3, lost: 1, doubled: 1, ..Stored::default() });
    }
}
