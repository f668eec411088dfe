//! How a process ends: in stages, so that what is upstream stops before what it feeds.
//!
//! ```text
//! Accept ─► Streams ─► Recorders ─► Ingest ─► Query
//! ```
//!
//! A service waits on [`Shutdown::token`] of a stage and keeps a [`Hold`] on it while work of that stage remains.
//! [`Shutdown::walk`] cancels the stages in order and enters one only when nobody holds the one before it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
pub use tokio_util::sync::CancellationToken;

/// A step of the shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Gateway and node stop accepting calls; the process is no longer ready.
    Accept,
    /// Streams that run are finished.
    Streams,
    /// Recorders send what they hold to the collector.
    Recorders,
    /// The collector stops receiving, drains its buffers and commits.
    Ingest,
    /// Query and dashboard stop; running queries are cancelled.
    Query,
}

impl Stage {
    /// All stages in the order in which they are walked.
    pub const ALL: [Self; 5] = [Self::Accept, Self::Streams, Self::Recorders, Self::Ingest, Self::Query];

    /// Lowercase name for messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Streams => "streams",
            Self::Recorders => "recorders",
            Self::Ingest => "ingest",
            Self::Query => "query",
        }
    }
}

/// The process's shutdown. Clones share it.
#[derive(Clone, Default)]
pub struct Shutdown {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    tokens: [CancellationToken; Stage::ALL.len()],
    /// How many hold each (stage, name).
    holds: Mutex<BTreeMap<(Stage, String), usize>>,
    released: Notify,
}

/// Keeps a stage open while it lives.
#[must_use = "dropping the hold says that the stage's work is done"]
pub struct Hold {
    shared: Arc<Shared>,
    key: (Stage, String),
}

impl Shutdown {
    /// A shutdown that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancelled when `stage` begins.
    #[must_use]
    pub fn token(&self, stage: Stage) -> CancellationToken {
        self.shared.tokens[stage as usize].clone()
    }

    /// Says that `name` has work to finish in `stage`; later stages wait until the hold is dropped.
    pub fn hold(&self, stage: Stage, name: impl Into<String>) -> Hold {
        let key = (stage, name.into());
        *self.shared.holds.lock().entry(key.clone()).or_default() += 1;
        Hold { shared: Arc::clone(&self.shared), key }
    }

    /// Whether the shutdown has begun.
    #[must_use]
    pub fn begun(&self) -> bool {
        self.shared.tokens[0].is_cancelled()
    }

    /// Walks all stages, giving each at most `grace` to finish.
    ///
    /// Returns who had not finished in time, as `stage/name`; empty means all drained.
    ///
    /// # Cancel safety
    /// Can be called again after a cancelled call; stages already begun stay so.
    pub async fn walk(&self, grace: Duration) -> Vec<String> {
        let mut late = Vec::new();
        for stage in Stage::ALL {
            self.shared.tokens[stage as usize].cancel();
            let deadline = tokio::time::Instant::now() + grace;
            if tokio::time::timeout_at(deadline, self.finished(stage)).await.is_err() {
                late.extend(self.pending(stage).into_iter().map(|name| format!("{}/{name}", stage.name())));
            }
        }
        late
    }

    /// Names of those who still hold `stage`.
    #[must_use]
    pub fn pending(&self, stage: Stage) -> Vec<String> {
        let holds = self.shared.holds.lock();
        holds.keys().filter(|(held, _)| *held == stage).map(|(_, name)| name.clone()).collect()
    }

    async fn finished(&self, stage: Stage) {
        loop {
            // Registered before the check, so that a release in between is not missed.
            let released = self.shared.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            if self.pending(stage).is_empty() {
                return;
            }
            released.await;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut holds = self.shared.holds.lock();
        if let Some(count) = holds.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                holds.remove(&self.key);
            }
        }
        drop(holds);
        self.shared.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
