//! The queries that run: which one a thread works for, what it holds, and the word that stops it.
//!
//! A future that is dropped stops at its next await, and an operator may be a long way from one. So operators and functions
//! ask, batch for batch, whether somebody still waits: whom they work for is noted on the thread while they are polled.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use datafusion::common::Result;
use parking_lot::Mutex;
use service::{Error, error::Kind};
use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::memory::QueryMemory;
use crate::{error, reader::Reader};

/// Characters of a statement that the list of queries shows.
const SQL_CHARS_MAX: usize = 4_000;

/// Why a query is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Nobody waits for it any more: its time is up, or its caller is gone.
    Abandoned,
    /// Somebody asked for it.
    Asked,
}

/// What a thread does for a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Planning,
    Executing,
}

/// A query that has a place. It keeps the place until the last of its operators is dropped: work that nobody waits for is
/// still work.
pub(crate) struct Running {
    pub(crate) id: u64,
    pub(crate) sql: String,
    /// Who asked it.
    pub(crate) reader: Arc<Reader>,
    /// Microseconds since 1970-01-01 UTC.
    pub(crate) started_us: i64,
    pub(crate) memory: Arc<QueryMemory>,
    rows: AtomicU64,
    is_planned: AtomicBool,
    stop: OnceLock<Stop>,
    told: Notify,
    registry: Weak<Registry>,
    /// None of a part of another process's query.
    _place: Option<OwnedSemaphorePermit>,
}

impl Running {
    /// Tells the query to stop; the first reason stands.
    pub(crate) fn stop(&self, reason: Stop) {
        let _ = self.stop.set(reason);
        self.told.notify_waiters();
    }

    /// Waits until it is to stop.
    pub(crate) async fn until_stopped(&self) {
        // Made before the look: a word that comes between the two is heard.
        let told = self.told.notified();
        if self.stopped().is_none() {
            told.await;
        }
    }

    /// What is done for it now.
    pub(crate) fn phase(&self) -> Phase {
        if self.is_planned.load(Ordering::Relaxed) { Phase::Executing } else { Phase::Planning }
    }

    /// Notes that its plan is made.
    pub(crate) fn planned(&self) {
        self.is_planned.store(true, Ordering::Relaxed);
    }

    /// Why it is to stop, if it is.
    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.stop.get().copied()
    }

    /// Rows of its answer so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    pub(crate) fn count_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// # Errors
    /// `Cancelled` once the query is to stop.
    pub(crate) fn check(&self) -> Result<()> {
        match self.stopped() {
            None => Ok(()),
            Some(_) => Err(error::from_lake(Error::new(Kind::Cancelled, "the query was cancelled"))),
        }
    }

    /// Notes on this thread that it works for the query, until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, phase: Phase) -> Entered {
        let before = CURRENT.with(|current| current.replace(Some((Arc::clone(self), phase))));
        Entered { before }
    }

    /// The future, polled as work for this query.
    pub(crate) fn within<F: Future>(self: &Arc<Self>, phase: Phase, future: F) -> Within<F> {
        Within { running: Arc::clone(self), phase, future: Box::pin(future) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.queries.lock().remove(&self.id);
        }
    }
}

thread_local! {
    static CURRENT: RefCell<Option<(Arc<Running>, Phase)>> = const { RefCell::new(None) };
}

/// The query this thread works for, and what it does for it; `None` outside of one.
pub(crate) fn current() -> Option<(Arc<Running>, Phase)> {
    CURRENT.with(|current| current.borrow().clone())
}

/// # Errors
/// `Cancelled` once the query that this thread works for is to stop.
pub(crate) fn check() -> Result<()> {
    CURRENT.with(|current| match &*current.borrow() {
        Some((running, _)) => running.check(),
        None => Ok(()),
    })
}

/// Gives the thread back to what it did before.
pub(crate) struct Entered {
    before: Option<(Arc<Running>, Phase)>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with(|current| current.replace(self.before.take()));
    }
}

/// See [`Running::within`].
pub(crate) struct Within<F> {
    running: Arc<Running>,
    phase: Phase,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = self.running.enter(self.phase);
        self.future.as_mut().poll(context)
    }
}

/// How a query began.
pub(crate) struct Started<'a> {
    pub(crate) sql: &'a str,
    pub(crate) reader: &'a Arc<Reader>,
    /// Microseconds since 1970-01-01 UTC.
    pub(crate) at_us: i64,
}

/// All queries that have a place.
#[derive(Default)]
pub(crate) struct Registry {
    queries: Mutex<BTreeMap<u64, Weak<Running>>>,
    started: AtomicU64,
}

impl Registry {
    /// Enters a query that got its place, or a part of one, which needs none.
    pub(crate) fn enter(
        self: &Arc<Self>,
        started: &Started<'_>,
        memory: QueryMemory,
        place: Option<OwnedSemaphorePermit>,
    ) -> Arc<Running> {
        let running = Arc::new(Running {
            id: self.started.fetch_add(1, Ordering::Relaxed) + 1,
            sql: started.sql.chars().take(SQL_CHARS_MAX).collect(),
            reader: Arc::clone(started.reader),
            started_us: started.at_us,
            memory: Arc::new(memory),
            rows: AtomicU64::new(0),
            is_planned: AtomicBool::new(false),
            told: Notify::new(),
            stop: OnceLock::new(),
            registry: Arc::downgrade(self),
            _place: place,
        });
        self.queries.lock().insert(running.id, Arc::downgrade(&running));
        running
    }

    /// Those that run, oldest first; among them those that were told to stop and have not yet.
    pub(crate) fn list(&self) -> Vec<Arc<Running>> {
        self.queries.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// The one with that number, if it runs.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Running>> {
        self.queries.lock().get(&id).and_then(Weak::upgrade)
    }

    /// Tells a query to stop; `false` if none of that number runs that `reader` may see: of others' it does not even learn that
    /// they run.
    pub(crate) fn cancel(&self, id: u64, reader: &Reader) -> bool {
        let running = self.get(id).filter(|running| reader.may_watch(&running.reader));
        running.inspect(|running| running.stop(Stop::Asked)).is_some()
    }
}
