//! Runs a plan within limits: a place among the running queries, a deadline, a number of rows.

mod workers;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{Result, exec_datafusion_err, resources_datafusion_err, utils::memory::RecordBatchMemoryCounter},
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
    sync::Semaphore,
    time::{Instant, timeout_at},
};

use crate::{config::Config, error, plan::Scope, session::Shared};
use workers::Workers;

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
        let (free, concurrency) = (Arc::downgrade(&places), config.concurrency);
        deps.metrics.observe("tokenwatt_query_running", "Queries running now.", &[], move || {
            free.upgrade().map(|free| concurrency.saturating_sub(free.available_permits()) as f64)
        });
        let workers = Workers::start(config.partitions)
            .map_err(|error| exec_datafusion_err!("no threads for queries: {error}"))?;
        Ok(Engine { config, lake, deps, shared, workers, places, answered, failed })
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

    /// Waits for a place, then for the answer, both within the query's time: who never got a place may come again, who had one
    /// asked for too much.
    async fn admitted(self: &Arc<Self>, request: SqlRequest) -> Result<Collected, ApiError> {
        let started = self.deps.clock.monotonic();
        let timeout = self.config.timeout(request.timeout_ms);
        let deadline = Instant::now() + timeout;
        // The semaphore is never closed, so this only waits.
        let _place = timeout_at(deadline, self.places.acquire())
            .await
            .map_err(|_| error::overloaded(self.config.concurrency))?;
        let engine = Arc::clone(self);
        let answered = timeout_at(deadline, self.workers.run(async move { engine.answer(&request).await })).await;
        let mut collected = answered.map_err(|_| error::timeout(timeout))?.map_err(|error| error::to_api(&error))?;
        collected.elapsed = self.deps.clock.monotonic().saturating_sub(started);
        Ok(collected)
    }

    async fn answer(&self, request: &SqlRequest) -> Result<Collected> {
        let now_us = self.deps.clock.now_us();
        let scope = Scope::new(self.shared.clone(), self.lake.clone(), now_us);
        let planned = scope.plan(request).await?;
        let physical = planned.state.query_planner().create_physical_plan(&planned.plan, &planned.state).await?;
        let stream = execute_stream(physical, planned.state.task_ctx())?;
        let schema = stream.schema();
        let (batches, truncated) =
            collect(stream, self.config.rows(request.max_rows), self.config.answer_bytes_max).await?;
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

/// The stream's first `limit` rows, and whether there were more. An answer is outside the pool that bounds its computation, so its
/// bytes have a bound of their own.
async fn collect(
    mut stream: SendableRecordBatchStream,
    limit: usize,
    bytes_max: usize,
) -> Result<(Vec<RecordBatch>, bool)> {
    let (mut batches, mut room) = (Vec::new(), limit);
    let mut held = RecordBatchMemoryCounter::new();
    while let Some(batch) = stream.next().await.transpose()? {
        held.count_batch(&batch);
        if held.memory_usage() > bytes_max {
            return Err(resources_datafusion_err!(
                "the answer is larger than {bytes_max} bytes (query.answer_bytes_max)"
            ));
        }
        if batch.num_rows() > room {
            batches.push(batch.slice(0, room));
            return Ok((batches, true));
        }
        room -= batch.num_rows();
        batches.push(batch);
    }
    Ok((batches, false))
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
