//! Runs a plan within limits: a place among the running queries, a deadline, memory, a number of rows.
//!
//! ```text
//! open ─► place ─► plan ─► stream ─► a queue of two batches ─► whoever asked
//!         └─────── on the threads for queries ───────┘
//! ```

pub(crate) mod guard;
mod meant;
mod memory;
mod opened;
mod reach;
pub(crate) mod running;
mod runs;
pub(crate) mod stoppable;
mod stream;
mod workers;

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, SchemaRef},
};
use datafusion::common::{Result, exec_datafusion_err};
use service::{Deps, channel};
use telemetry::contract::{AnswerColumn, ApiError, SqlRequest};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{Instant, timeout_at},
};

use crate::{
    audit::{Audit, Record},
    config::Config,
    distribute::Cluster,
    error,
    federate::{Lakes, Reading},
    reader::Reader,
    session::Shared,
};
use running::{Registry, Running, Started, Stop};
use stream::Question;
use workers::{Work, Workers};

pub(crate) use memory::QueryMemory;
pub(crate) use opened::{Batches, Collected, Opened};

/// Threads for queries, however many places there are.
const THREADS_MAX: usize = 256;
/// Batches of an answer that wait for whoever reads it.
const BATCHES_AHEAD: usize = 2;

/// Everything a query needs.
pub(crate) struct Engine {
    pub(crate) config: Config,
    pub(crate) reading: Reading,
    pub(crate) deps: Deps,
    /// Workers elsewhere.
    pub(crate) cluster: Arc<Cluster>,
    shared: Shared,
    threads: Workers,
    places: Arc<Semaphore>,
    waiting: Semaphore,
    running: Arc<Registry>,
    audit: Arc<Audit>,
}

/// What a statement would answer.
pub(crate) struct Described {
    pub(crate) schema: SchemaRef,
    pub(crate) columns: Vec<AnswerColumn>,
    /// Name without `$` and type, where the statement tells it, of every parameter; numbered ones first, in order.
    pub(crate) parameters: Vec<(String, Option<DataType>)>,
}

/// A query with a place.
struct Admitted {
    running: Arc<Running>,
    deadline: Instant,
    timeout: Duration,
}

impl Engine {
    /// # Errors
    /// A runtime that cannot be set up within the configured limits.
    pub(crate) fn new(config: Config, lakes: Lakes, deps: Deps) -> Result<Engine> {
        let reading = lakes.reading(&config, &deps);
        let shared = Shared::new(&config, &reading, &deps)?;
        let audit = Audit::new(&deps);
        let places = Arc::new(Semaphore::new(config.concurrency));
        let running = Arc::<Registry>::default();
        observe(&running, &deps);
        // Those of one query for each place, should it not come to a point where it can stop, and those of one that can.
        let threads = config.partitions.saturating_mul(config.concurrency.saturating_add(1)).min(THREADS_MAX);
        let cluster = Cluster::new(config.workers.clone());
        let threads =
            Workers::start(threads).map_err(|error| exec_datafusion_err!("no threads for queries: {error}"))?;
        let waiting = Semaphore::new(config.waiting);
        Ok(Engine { config, reading, deps, cluster, shared, threads, places, waiting, running, audit })
    }

    /// Answers one statement.
    ///
    /// # Errors
    /// What the caller can do about it.
    ///
    /// # Cancel safety
    /// Dropping the future stops the query.
    pub(crate) async fn run(
        self: &Arc<Self>,
        request: SqlRequest,
        reader: &Arc<Reader>,
    ) -> Result<Collected, ApiError> {
        self.open(request, reader).await?.collect().await
    }

    /// Begins to answer one statement; its batches come as they are made. Until their end, or until they are dropped, the query
    /// holds its place and its memory.
    ///
    /// # Errors
    /// What the caller can do about it: the statement cannot be planned, or there is no place for it.
    ///
    /// # Cancel safety
    /// Dropping the future, or what it gives, stops the query.
    pub(crate) async fn open(self: &Arc<Self>, request: SqlRequest, reader: &Arc<Reader>) -> Result<Opened, ApiError> {
        let mut record = self.audit.begin(&request.sql, reader);
        match self.opened(request, reader).await {
            Ok(opening) => Ok(opening.recorded(record)),
            Err(error) => Err(record.failed(error)),
        }
    }

    /// Plans one statement without running it; its parameters may be unbound.
    ///
    /// # Errors
    /// What the caller can do about it.
    ///
    /// # Cancel safety
    /// Dropping the future stops the planning.
    pub(crate) async fn describe(
        self: &Arc<Self>,
        request: &SqlRequest,
        reader: &Arc<Reader>,
    ) -> Result<Described, ApiError> {
        // A statement that is refused here is never run, so this is where it is recorded.
        self.described(request, reader).await.map_err(|error| self.audit.begin(&request.sql, reader).failed(error))
    }

    /// What all queries share.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Runs the future on the threads for queries, until it ends or nobody waits for it.
    ///
    /// # Errors
    /// What the future gives; `internal` if it panics.
    pub(crate) async fn on_query_threads<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, ApiError>> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.threads.work(future).outcome().await
    }

    /// The queries that run, and the way to stop one.
    pub(crate) fn running(&self) -> &Arc<Registry> {
        &self.running
    }

    /// The queries that have ended.
    pub(crate) fn audit(&self) -> &Arc<Audit> {
        &self.audit
    }

    /// Waits for a place, then for the plan, both within the query's time: who never got a place may come again, who had one
    /// asked for too much.
    async fn opened(self: &Arc<Self>, request: SqlRequest, reader: &Arc<Reader>) -> Result<Opening, ApiError> {
        let admitted = self.admitted(&request, reader).await?;
        let (tell, ready) = oneshot::channel();
        let (sender, batches) = channel::bounded("query.batches", BATCHES_AHEAD);
        let question = self.question(request, reader, &admitted);
        let mut work = self.threads.work(question.answer(tell, sender));
        let watched = Watched(Arc::downgrade(&admitted.running));
        match timeout_at(admitted.deadline, ready).await {
            Ok(Ok(ready)) => Ok(Opening { admitted, ready, batches, work, watched }),
            // Whoever was to say that it is ready is gone, and says why.
            Ok(Err(_)) => Err(work.outcome().await.err().unwrap_or_else(|| error::timeout(admitted.timeout))),
            Err(_) => Err(error::timeout(admitted.timeout)),
        }
    }

    async fn described(self: &Arc<Self>, request: &SqlRequest, reader: &Arc<Reader>) -> Result<Described, ApiError> {
        let admitted = self.admitted(request, reader).await?;
        let question = self.question(request.clone(), reader, &admitted);
        let mut work = self.threads.work(question.describe());
        let _watched = Watched(Arc::downgrade(&admitted.running));
        let described = timeout_at(admitted.deadline, work.outcome()).await;
        described.unwrap_or_else(|_| Err(error::timeout(admitted.timeout)))
    }

    async fn admitted(&self, request: &SqlRequest, reader: &Arc<Reader>) -> Result<Admitted, ApiError> {
        let timeout = self.config.timeout(request.timeout_ms);
        let deadline = Instant::now() + timeout;
        let place = self.place(deadline).await?;
        let memory = QueryMemory::new(self.shared.memory(), self.config.memory_bytes_per_query);
        let started = Started { sql: &request.sql, reader, at_us: self.deps.clock.now_us() };
        Ok(Admitted { running: self.running.enter(&started, memory, Some(place)), deadline, timeout })
    }

    fn question(self: &Arc<Self>, request: SqlRequest, reader: &Arc<Reader>, admitted: &Admitted) -> Question {
        Question {
            engine: Arc::clone(self),
            request,
            reader: Arc::clone(reader),
            running: Arc::clone(&admitted.running),
            deadline: admitted.deadline,
            timeout: admitted.timeout,
        }
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
}

/// A query that is planned and under way.
struct Opening {
    admitted: Admitted,
    ready: stream::Ready,
    batches: channel::Receiver<RecordBatch>,
    work: Work<bool>,
    watched: Watched,
}

impl Opening {
    fn recorded(self, record: Record) -> Opened {
        let Opening { admitted, ready, batches, work, watched } = self;
        let limit = (admitted.deadline, admitted.timeout);
        let batches = Batches::new(batches, work, limit, record, watched);
        Opened {
            id: admitted.running.id,
            schema: ready.schema,
            columns: ready.columns,
            version: ready.version,
            freshness: ready.freshness,
            served_by: ready.served_by,
            notice: ready.notice,
            batches,
        }
    }
}

/// Tells a query to stop once nobody waits for it.
struct Watched(Weak<Running>);

impl Drop for Watched {
    fn drop(&mut self) {
        // One whose work is done has given back its place already.
        if let Some(running) = self.0.upgrade() {
            running.stop(Stop::Abandoned);
        }
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
