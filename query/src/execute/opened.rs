//! An answer as it comes, and whole.

use std::{collections::BTreeMap, time::Duration};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use service::channel::Receiver;
use telemetry::contract::{AnswerColumn, ApiError, Freshness};
use tokio::time::{Instant, timeout_at};

use super::{Watched, workers::Work};
use crate::{audit::Record, error};

/// An answer on its way.
pub(crate) struct Opened {
    /// Number of the query in `system.queries`.
    pub(crate) id: u64,
    pub(crate) schema: SchemaRef,
    pub(crate) columns: Vec<AnswerColumn>,
    /// Version of each table read.
    pub(crate) version: BTreeMap<String, i64>,
    pub(crate) freshness: Option<Freshness>,
    /// Which rows answer.
    pub(crate) served_by: String,
    /// What is not in it, though it was asked for.
    pub(crate) notice: Option<String>,
    pub(crate) batches: Batches,
}

/// The rows of an answer as they are made.
pub(crate) struct Batches {
    receiver: Receiver<RecordBatch>,
    work: Work<bool>,
    deadline: Instant,
    timeout: Duration,
    end: Option<Ended>,
    record: Record,
    _watched: Watched,
}

/// How an answer ended.
#[derive(Clone, Copy)]
struct Ended {
    truncated: bool,
}

/// An answer before it is encoded.
pub(crate) struct Collected {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) columns: Vec<AnswerColumn>,
    pub(crate) version: BTreeMap<String, i64>,
    pub(crate) freshness: Option<Freshness>,
    pub(crate) served_by: String,
    pub(crate) notice: Option<String>,
    pub(crate) truncated: bool,
    pub(crate) elapsed: Duration,
}

impl Opened {
    /// All of the answer.
    ///
    /// # Errors
    /// Why it has no end.
    pub(crate) async fn collect(mut self) -> Result<Collected, ApiError> {
        let mut batches = Vec::new();
        while let Some(batch) = self.batches.next().await {
            batches.push(batch?);
        }
        Ok(Collected {
            schema: self.schema,
            batches,
            columns: self.columns,
            version: self.version,
            freshness: self.freshness,
            served_by: self.served_by,
            notice: self.notice,
            truncated: self.batches.truncated(),
            elapsed: self.batches.elapsed(),
        })
    }
}

impl Batches {
    pub(super) fn new(
        receiver: Receiver<RecordBatch>,
        work: Work<bool>,
        (deadline, timeout): (Instant, Duration),
        record: Record,
        watched: Watched,
    ) -> Batches {
        Batches { receiver, work, deadline, timeout, end: None, record, _watched: watched }
    }

    /// The next rows; `None` after the last. An error is the last.
    ///
    /// # Cancel safety
    /// Cancel safe: no batch is lost.
    pub(crate) async fn next(&mut self) -> Option<Result<RecordBatch, ApiError>> {
        if self.end.is_some() {
            return None;
        }
        match self.step().await {
            Ok(Some(batch)) => {
                self.record.count(&batch);
                Some(Ok(batch))
            }
            Ok(None) => {
                self.record.answered();
                None
            }
            Err(error) => {
                self.end = Some(Ended { truncated: false });
                Some(Err(self.record.failed(error)))
            }
        }
    }

    async fn step(&mut self) -> Result<Option<RecordBatch>, ApiError> {
        let late = error::timeout(self.timeout);
        // What is there already would be given without a look at the time.
        if Instant::now() >= self.deadline {
            return Err(late);
        }
        let batch = timeout_at(self.deadline, self.receiver.recv()).await.map_err(|_| late.clone())?;
        if batch.is_none() {
            let truncated = timeout_at(self.deadline, self.work.outcome()).await.map_err(|_| late)??;
            self.end = Some(Ended { truncated });
        }
        Ok(batch)
    }

    /// Whether rows were cut at the limit; `false` before the end.
    pub(crate) fn truncated(&self) -> bool {
        self.end.is_some_and(|end| end.truncated)
    }

    /// Time since the query came.
    pub(crate) fn elapsed(&self) -> Duration {
        self.record.elapsed()
    }
}
