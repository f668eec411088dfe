//! What runs on the threads for queries: a statement is planned, run, and its rows are sent on within their limits.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, SchemaRef},
};
use datafusion::{
    common::{DataFusionError, Result, resources_datafusion_err, utils::memory::RecordBatchMemoryCounter},
    execution::memory_pool::MemoryPool,
    physical_plan::{
        EmptyRecordBatchStream, SendableRecordBatchStream, execute_stream, stream::RecordBatchStreamAdapter,
    },
};
use futures::StreamExt;
use lake::Snapshot;
use service::channel::Sender;
use telemetry::{
    contract::{AnswerColumn, ApiError, Freshness, SqlRequest},
    table::Role,
};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{
    Described, Engine,
    guard::{self, guarded},
    meant::{annotated, meant},
    reach,
    running::{Phase, Running, Stop},
    runs::by_runs,
    stoppable::stoppable,
};
use crate::{
    distribute::{Spread, unless_stopped},
    error,
    functions::bounded,
    plan::{Scope, split_version},
    reader::Reader,
    scan::late,
};

/// A statement with all that answering it takes.
pub(super) struct Question {
    pub(super) engine: Arc<Engine>,
    pub(super) request: SqlRequest,
    pub(super) reader: Arc<Reader>,
    pub(super) running: Arc<Running>,
    pub(super) deadline: Instant,
    pub(super) timeout: Duration,
}

/// What is known of an answer before its first row.
pub(super) struct Ready {
    pub(super) schema: SchemaRef,
    pub(super) columns: Vec<AnswerColumn>,
    pub(super) version: BTreeMap<String, i64>,
    pub(super) freshness: Option<Freshness>,
    /// Which rows answer.
    pub(super) served_by: String,
    /// What is not in it, though it was asked for.
    pub(super) notice: Option<String>,
}

/// An answer that is planned.
struct Begun {
    scope: Arc<Scope>,
    columns: Vec<AnswerColumn>,
    stream: SendableRecordBatchStream,
    /// Whether parts of it run on workers.
    is_spread: bool,
}

impl Begun {
    fn may_be_tried_again(&self) -> bool {
        self.is_spread || self.scope.has_lost_a_lake()
    }

    /// Sees whether there is a first batch; it stays the stream's first.
    async fn first(&mut self) -> Result<()> {
        let schema = self.stream.schema();
        let first = self.stream.next().await.transpose()?;
        let empty = Box::pin(EmptyRecordBatchStream::new(Arc::clone(&schema)));
        let others = std::mem::replace(&mut self.stream, empty);
        let whole = futures::stream::iter(first.map(Ok)).chain(others);
        self.stream = Box::pin(RecordBatchStreamAdapter::new(schema, whole));
        Ok(())
    }

    fn ready(&mut self) -> Ready {
        let snapshots = self.scope.snapshots();
        Ready {
            schema: self.stream.schema(),
            columns: std::mem::take(&mut self.columns),
            version: versions(&snapshots),
            // The newest row of a table may be anybody's.
            freshness: freshness(&snapshots, self.scope.now_us()).filter(|_| self.scope.reader().sees_everything()),
            served_by: self.scope.served_by(),
            notice: self.scope.notice(),
        }
    }
}

impl Question {
    /// Says what the answer will be, then sends it; whether there were more rows than it may have.
    ///
    /// The deadline is kept here too: whoever reads may have stopped without going away.
    pub(super) async fn answer(
        self,
        tell: oneshot::Sender<Ready>,
        batches: Sender<RecordBatch>,
    ) -> Result<bool, ApiError> {
        let answered = timeout_at(self.deadline, async {
            let stream = self.begun(tell).await?;
            self.running.within(Phase::Executing, self.sent(stream, &batches)).await
        });
        match answered.await {
            Ok(outcome) => outcome.map_err(|error| error::to_api(&error)),
            Err(_) => {
                self.running.stop(Stop::Abandoned);
                Err(error::timeout(self.timeout))
            }
        }
    }

    /// Plans the statement and says what it would answer.
    pub(super) async fn describe(self) -> Result<Described, ApiError> {
        let described = async { self.scope()?.describe(&self.request).await };
        let described = self.running.within(Phase::Planning, described).await.map_err(|error| error::to_api(&error))?;
        Ok(Described { schema: annotated(&described.schema, &described.columns), ..described })
    }

    fn scope(&self) -> Result<Arc<Scope>> {
        let memory = Arc::clone(&self.running.memory) as Arc<dyn MemoryPool>;
        Ok(Scope::new(self.engine.shared.within(memory)?, &self.engine, &self.reader, &self.request))
    }

    /// The answer's rows and what is known of them. What fails before the first row because a lake has gone, or on workers, is
    /// tried once more: without that lake, and by this process alone.
    async fn begun(&self, tell: oneshot::Sender<Ready>) -> Result<SendableRecordBatchStream> {
        // What this process asks for itself, minute by minute, is small and must not depend on others.
        let spread = if self.reader.is_internal() { None } else { Spread::over(&self.engine.cluster) };
        let mut begun = self.attempt(spread).await?;
        if begun.is_spread || begun.scope.is_of_several() {
            let mut first = begun.first().await;
            if let Err(failed) = &first
                && begun.may_be_tried_again()
            {
                tracing::warn!(error = %failed, workers = begun.is_spread, "a query is tried once more");
                if begun.is_spread {
                    self.engine.cluster.count(true);
                }
                begun = self.attempt(None).await?;
                first = begun.first().await;
            }
            first?;
        }
        // Whoever waits may be gone; the first batch finds out.
        let _ = tell.send(begun.ready());
        Ok(begun.stream)
    }

    async fn attempt(&self, spread: Option<Spread>) -> Result<Begun> {
        let scope = self.scope()?;
        let planning = async {
            let planned = scope.plan(&self.request, spread.as_ref()).await?;
            let physical = planned.state.query_planner().create_physical_plan(&planned.plan, &planned.state).await?;
            reach::check(&physical, &self.engine.config)?;
            let cut = match &spread {
                Some(spread) => spread.cut(&physical, &planned.plan, &planned.state).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "a plan cannot be spread over workers; this process answers alone");
                    None
                }),
                None => None,
            };
            Ok::<_, DataFusionError>((planned, physical, cut))
        };
        let (planned, physical, cut) = self.running.within(Phase::Planning, planning).await?;
        self.running.planned();
        let (is_spread, stream) = match cut {
            Some((cut, state)) => {
                self.engine.cluster.count(false);
                (true, unless_stopped(execute_stream(guarded(cut)?, state.task_ctx())?, &self.running))
            }
            None => {
                let plan = stoppable(by_runs(late(guarded(physical)?)?)?, &self.running)?;
                (false, execute_stream(plan, planned.state.task_ctx())?)
            }
        };
        Ok(Begun { scope, stream: meant(stream, &planned.columns), columns: planned.columns, is_spread })
    }

    /// The stream's first rows, as many as the answer may have, and whether there were more. An answer is outside the pool that
    /// bounds its computation, so its bytes have a bound of their own.
    async fn sent(&self, mut stream: SendableRecordBatchStream, batches: &Sender<RecordBatch>) -> Result<bool> {
        let mut room = self.engine.config.rows(self.request.max_rows);
        let bytes_max = self.engine.config.answer_bytes_max;
        let (mut held, mut shown) = (RecordBatchMemoryCounter::new(), 0_usize);
        while let Some(batch) = stream.next().await.transpose()? {
            held.count_batch(&batch);
            shown = shown.saturating_add(batch.columns().iter().map(written).sum());
            if held.memory_usage().max(shown) > bytes_max {
                return Err(resources_datafusion_err!(
                    "the answer is larger than {bytes_max} bytes (query.answer_bytes_max)"
                ));
            }
            let is_cut = batch.num_rows() > room;
            let batch = if is_cut { batch.slice(0, room) } else { batch };
            room -= batch.num_rows();
            self.running.count_rows(batch.num_rows());
            tokio::select! {
                sent = batches.send(batch) => sent.map_err(error::from_lake)?,
                // Whoever reads may take its time, and be told to stop meanwhile.
                () = self.running.until_stopped() => self.running.check()?,
            }
            if is_cut {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Bytes that a column's values take where they are written out: they may share theirs in memory.
pub(super) fn written(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Dictionary(..) => {
            guard::widest_value(column.as_any_dictionary().values()).saturating_mul(column.len())
        }
        _ => usize::try_from(bounded::size_of_column(column)).unwrap_or(usize::MAX),
    }
}

/// Versions by table; one pinned beside the newest keeps the name it was asked under, `tokens@7`.
fn versions(snapshots: &BTreeMap<String, Arc<Snapshot>>) -> BTreeMap<String, i64> {
    let name = |asked: &String| {
        let (table, _) = split_version(asked);
        let is_only = snapshots.keys().filter(|other| split_version(other).0 == table).count() == 1;
        if is_only { table.to_owned() } else { asked.clone() }
    };
    snapshots.iter().map(|(asked, snapshot)| (name(asked), snapshot.version)).collect()
}

/// How old the newest row of the stalest table is, among tables that events arrive in.
fn freshness(snapshots: &BTreeMap<String, Arc<Snapshot>>, now_us: i64) -> Option<Freshness> {
    let receives = |snapshot: &&Arc<Snapshot>| {
        matches!(snapshot.table.role, Role::Live | Role::Bulk) && snapshot.table.column("first_seen").is_none()
    };
    let newest_time_us = snapshots.values().filter(receives).filter_map(|snapshot| snapshot.newest_time_us).min()?;
    Some(Freshness { newest_time_us, lag_s: now_us.saturating_sub(newest_time_us) as f64 / 1e6 })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray, StringViewArray},
        compute::take,
    };

    use super::written;

    /// An answer whose rows share one long text is as large as that text for each of them, once it is sent.
    #[test]
    fn shared_text_is_written_for_every_row() {
        let text = "x".repeat(1_000);
        let one: ArrayRef = Arc::new(StringViewArray::from(vec![text.as_str()]));
        let rows = take(&one, &Int32Array::from(vec![0; 500]), None).expect("taken");
        assert!(rows.get_array_memory_size() < 100_000);
        assert_eq!(written(&rows), 500_000);
        let keys = Int32Array::from(vec![0; 500]);
        let dictionary: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from(vec![text]))));
        assert_eq!(written(&dictionary), 500_000);
        assert_eq!(written(&(Arc::new(Int64Array::from(vec![1; 500])) as ArrayRef)), 4_000);
    }
}
