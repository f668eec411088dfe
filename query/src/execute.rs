//! Runs a plan within limits: a place among the running queries, a deadline, memory, a number of rows.

mod memory;
pub(crate) mod running;
mod stoppable;
mod workers;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, SchemaRef},
};
use datafusion::{
    common::{
        DataFusionError, Result, exec_datafusion_err, resources_datafusion_err, utils::memory::RecordBatchMemoryCounter,
    },
    execution::memory_pool::MemoryPool,
    physical_plan::{SendableRecordBatchStream, execute_stream},
};
use futures::StreamExt;
use lake::{Lake, Snapshot};
use service::{Deps, metrics::Counter};
use telemetry::{
    contract::{AnswerColumn, ApiError, Freshness, SqlRequest},
    table::Role,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use crate::{config::Config, error, plan::Scope, session::Shared};
use memory::QueryMemory;
use running::{Phase, Registry, Running, Stop};
use stoppable::stoppable;
use workers::Workers;

/// Threads for queries, however many places there are.
const THREADS_MAX: usize = 256;

/// An answer before it is encoded.
pub(crate) struct Collected {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) columns: Vec<AnswerColumn>,
    pub(crate) version: BTreeMap<String, i64>,
    pub(crate) freshness: Option<Freshness>,
    pub(crate) truncated: bool,
    pub(crate) elapsed: Duration,
}

/// Everything a query needs.
pub(crate) struct Engine {
    pub(crate) config: Config,
    pub(crate) lake: Lake,
    pub(crate) deps: Deps,
    shared: Shared,
    workers: Workers,
    places: Arc<Semaphore>,
    waiting: Semaphore,
    running: Arc<Registry>,
    answered: Counter,
    failed: Counter,
}

impl Engine {
    /// # Errors
    /// A runtime that cannot be set up within the configured limits.
    pub(crate) fn new(config: Config, lake: Lake, deps: Deps) -> Result<Engine> {
        let shared = Shared::new(&config, &lake)?;
        let outcome = |outcome: &str| {
            let labels = [("outcome", outcome.to_owned())];
            deps.metrics.counter("tokenwatt_query_requests_total", "Queries by outcome.", &labels)
        };
        let (answered, failed) = (outcome("answered"), outcome("failed"));
        let places = Arc::new(Semaphore::new(config.concurrency));
        let running = Arc::<Registry>::default();
        observe(&running, &deps);
        // Those of one query for each place, should it not come to a point where it can stop, and those of one that can.
        let threads = config.partitions.saturating_mul(config.concurrency.saturating_add(1)).min(THREADS_MAX);
        let workers =
            Workers::start(threads).map_err(|error| exec_datafusion_err!("no threads for queries: {error}"))?;
        let waiting = Semaphore::new(config.waiting);
        Ok(Engine { config, lake, deps, shared, workers, places, waiting, running, answered, failed })
    }

    /// Answers one statement.
    ///
    /// # Errors
    /// What the caller can do about it.
    ///
    /// # Cancel safety
    /// Dropping the future stops the query.
    pub(crate) async fn run(self: &Arc<Self>, request: SqlRequest) -> Result<Collected, ApiError> {
        let outcome = self.admitted(request).await;
        match &outcome {
            Ok(_) => self.answered.inc(),
            Err(_) => self.failed.inc(),
        }
        outcome
    }

    /// The queries that run, and the way to stop one.
    pub(crate) fn running(&self) -> &Arc<Registry> {
        &self.running
    }

    /// Waits for a place, then for the answer, both within the query's time: who never got a place may come again, who had one
    /// asked for too much.
    async fn admitted(self: &Arc<Self>, request: SqlRequest) -> Result<Collected, ApiError> {
        let started = self.deps.clock.monotonic();
        let timeout = self.config.timeout(request.timeout_ms);
        let deadline = Instant::now() + timeout;
        let place = self.place(deadline).await?;
        let memory = QueryMemory::new(self.shared.memory(), self.config.memory_bytes_per_query);
        let running = self.running.enter(&request.sql, self.deps.clock.now_us(), memory, place);
        let _watched = Watched(Arc::clone(&running));
        let (engine, working) = (Arc::clone(self), Arc::clone(&running));
        let answer = async move { engine.answer(&request, &working).await };
        let answered = timeout_at(deadline, self.workers.run(answer)).await;
        let answered = answered.map_err(|_| error::timeout(timeout))?;
        let mut collected = answered.map_err(|error| error::to_api(&error))?;
        collected.elapsed = self.deps.clock.monotonic().saturating_sub(started);
        Ok(collected)
    }

    /// A place among the running queries; who waits for one is counted, and too many do not wait at all.
    async fn place(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, ApiError> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        let _waiting = self.waiting.try_acquire().map_err(|_| error::crowded(self.config.waiting))?;
        // The semaphore is never closed, so this only waits.
        match timeout_at(deadline, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(error::overloaded(self.config.concurrency)),
        }
    }

    async fn answer(&self, request: &SqlRequest, running: &Arc<Running>) -> Result<Collected> {
        let now_us = self.deps.clock.now_us();
        let shared = self.shared.within(Arc::clone(&running.memory) as Arc<dyn MemoryPool>)?;
        let scope = Scope::new(shared, self.lake.clone(), Arc::clone(&self.running), now_us);
        let planning = async {
            let planned = scope.plan(request).await?;
            let physical = planned.state.query_planner().create_physical_plan(&planned.plan, &planned.state).await?;
            Ok::<_, DataFusionError>((planned, stoppable(physical, running)?))
        };
        let (planned, physical) = running.within(Phase::Planning, planning).await?;
        let stream = execute_stream(physical, planned.state.task_ctx())?;
        let schema = stream.schema();
        let limits = (self.config.rows(request.max_rows), self.config.answer_bytes_max);
        let collecting = collect(stream, limits, running);
        let (batches, truncated) = running.within(Phase::Executing, collecting).await?;
        let snapshots = scope.snapshots();
        Ok(Collected {
            schema,
            batches,
            columns: planned.columns,
            freshness: freshness(&snapshots, now_us),
            version: versions(&snapshots),
            truncated,
            elapsed: Duration::ZERO,
        })
    }
}

/// Tells a query to stop once nobody waits for it.
struct Watched(Arc<Running>);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.stop(Stop::Abandoned);
    }
}

fn observe(running: &Arc<Registry>, deps: &Deps) {
    let gauge = |name: &str, help: &str, counts: fn(&Running) -> bool| {
        let registry = Arc::downgrade(running);
        deps.metrics.observe(name, help, &[], move || {
            registry.upgrade().map(|registry| registry.list().iter().filter(|running| counts(running)).count() as f64)
        });
    };
    gauge("tokenwatt_query_running", "Queries that hold a place.", |_| true);
    let help = "Queries that nobody waits for any more and that have not come to a point where they can stop.";
    gauge("tokenwatt_query_stopping", help, |running| running.stopped().is_some());
}

/// The stream's first `limit` rows, and whether there were more. An answer is outside the pool that bounds its computation, so its
/// bytes have a bound of their own.
async fn collect(
    mut stream: SendableRecordBatchStream,
    (limit, bytes_max): (usize, usize),
    running: &Running,
) -> Result<(Vec<RecordBatch>, bool)> {
    let (mut batches, mut room) = (Vec::new(), limit);
    let (mut held, mut shared) = (RecordBatchMemoryCounter::new(), 0_usize);
    while let Some(batch) = stream.next().await.transpose()? {
        held.count_batch(&batch);
        shared = shared.saturating_add(batch.columns().iter().map(written).sum());
        if held.memory_usage().max(shared) > bytes_max {
            return Err(resources_datafusion_err!(
                "the answer is larger than {bytes_max} bytes (query.answer_bytes_max)"
            ));
        }
        running.count_rows(batch.num_rows().min(room));
        if batch.num_rows() > room {
            batches.push(batch.slice(0, room));
            return Ok((batches, true));
        }
        room -= batch.num_rows();
        batches.push(batch);
    }
    Ok((batches, false))
}

/// Bytes that a column's values take where they are written out, if they may share their bytes in memory.
fn written(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Utf8View => column.as_string_view().lengths().map(|length| length as usize).sum(),
        DataType::BinaryView => column.as_binary_view().lengths().map(|length| length as usize).sum(),
        DataType::Dictionary(..) => {
            stoppable::widest_value(column.as_any_dictionary().values()).saturating_mul(column.len())
        }
        _ => 0,
    }
}

/// Versions by table; one pinned beside the newest keeps the name it was asked under, `tokens@7`.
fn versions(snapshots: &BTreeMap<String, Arc<Snapshot>>) -> BTreeMap<String, i64> {
    let name = |asked: &String, snapshot: &Snapshot| {
        let is_only = snapshots.values().filter(|other| other.table.name == snapshot.table.name).count() == 1;
        if is_only { snapshot.table.name.to_owned() } else { asked.clone() }
    };
    snapshots.iter().map(|(asked, snapshot)| (name(asked, snapshot), snapshot.version)).collect()
}

/// How old the newest row of the stalest table is, among tables that events arrive in.
fn freshness(snapshots: &BTreeMap<String, Arc<Snapshot>>, now_us: i64) -> Option<Freshness> {
    let receives = |snapshot: &&Arc<Snapshot>| {
        matches!(snapshot.table.role, Role::Live | Role::Bulk) && snapshot.table.column("first_seen").is_none()
    };
    let newest_time_us = snapshots.values().filter(receives).filter_map(|snapshot| snapshot.newest_time_us).min()?;
    Some(Freshness { newest_time_us, lag_s: now_us.saturating_sub(newest_time_us) as f64 / 1e6 })
}
