//! Background tasks that have a name and an owner.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::{Error, Result, chain};
use crate::health::Health;

/// The tasks of a process. Clones share them.
#[derive(Clone)]
pub struct Tasks {
    shared: Arc<Shared>,
}

struct Shared {
    tracker: TaskTracker,
    running: Mutex<BTreeMap<String, usize>>,
    failed: CancellationToken,
    failure: Mutex<Option<String>>,
    health: Health,
}

/// Runs work that may block off the threads that serve I/O. A runtime of one thread has none to spare and runs it in place,
/// so that what a simulation does depends on nothing but its seed.
///
/// # Errors
/// `Internal` if the work panics; `action` says what it was doing.
pub async fn blocking<T, F>(action: &'static str, work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return std::panic::catch_unwind(AssertUnwindSafe(work))
            .map_err(|_| Error::internal(format!("{action}: panicked")));
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::internal(action).with_source(error))
}

/// What a task may end with: nothing, or a result.
pub trait Outcome: Send + 'static {
    /// The outcome as a result.
    ///
    /// # Errors
    /// The error the task ended with.
    fn into_result(self) -> Result<()>;
}

impl Outcome for () {
    fn into_result(self) -> Result<()> {
        Ok(())
    }
}

impl Outcome for Result<()> {
    fn into_result(self) -> Self {
        self
    }
}

impl Tasks {
    /// No tasks yet; failures are reported to `health`.
    #[must_use]
    pub fn new(health: Health) -> Self {
        let shared = Shared {
            tracker: TaskTracker::new(),
            running: Mutex::default(),
            failed: CancellationToken::new(),
            failure: Mutex::default(),
            health,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Runs `future` in the background under `name`, such as `collector.flush`.
    ///
    /// A task that ends with an error or panics is logged, fails the process's health and cancels [`Tasks::failed`].
    pub fn spawn<F>(&self, name: impl Into<String>, future: F)
    where
        F: Future + Send + 'static,
        F::Output: Outcome,
    {
        let (name, shared) = (name.into(), Arc::clone(&self.shared));
        *shared.running.lock().entry(name.clone()).or_default() += 1;
        self.shared.tracker.spawn(async move {
            let outcome = match AssertUnwindSafe(future).catch_unwind().await {
                Ok(outcome) => outcome.into_result(),
                Err(_) => Err(Error::internal("task panicked")),
            };
            shared.ended(&name, outcome);
        });
    }

    /// Cancelled when the first task fails.
    #[must_use]
    pub fn failed(&self) -> CancellationToken {
        self.shared.failed.clone()
    }

    /// What the first failed task said, as `name: error`.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.shared.failure.lock().clone()
    }

    /// Waits until no task runs, at most `deadline`. Returns the names of those that still run.
    ///
    /// # Cancel safety
    /// Can be called again.
    pub async fn join(&self, deadline: Duration) -> Vec<String> {
        self.shared.tracker.close();
        let _ = tokio::time::timeout(deadline, self.shared.tracker.wait()).await;
        self.shared.running.lock().keys().cloned().collect()
    }
}

impl Shared {
    fn ended(&self, name: &str, outcome: Result<()>) {
        let mut running = self.running.lock();
        if let Some(count) = running.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                running.remove(name);
            }
        }
        drop(running);
        let Err(error) = outcome else { return };
        if error.kind() == crate::Kind::Cancelled {
            return;
        }
        let text = chain(&error);
        tracing::error!(task = name, error = text, "task failed");
        self.health.component(name).failed(text.clone());
        self.failure.lock().get_or_insert_with(|| format!("{name}: {text}"));
        self.failed.cancel();
    }
}

#[cfg(test)]
mod tests;
