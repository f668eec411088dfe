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
    /// Who holds which stage, by name.
    holds: Mutex<BTreeMap<(Stage, String), Held>>,
    released: Notify,
}

/// What is known of those who hold a stage under one name.
#[derive(Default)]
struct Held {
    count: usize,
    left: Option<Left>,
}

/// Says how much of the work is left.
type Left = Arc<dyn Fn() -> String + Send + Sync>;

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
        self.shared.holds.lock().entry(key.clone()).or_default().count += 1;
        Hold { shared: Arc::clone(&self.shared), key }
    }

    /// Whether the shutdown has begun.
    #[must_use]
    pub fn begun(&self) -> bool {
        self.shared.tokens[0].is_cancelled()
    }

    /// Walks all stages, giving each at most `grace` to finish.
    ///
    /// Returns who had not finished in time, as `stage/name`, and what they had left where they say so; empty means all drained.
    ///
    /// # Cancel safety
    /// Can be called again after a cancelled call; stages already begun stay so.
    pub async fn walk(&self, grace: Duration) -> Vec<String> {
        let mut late = Vec::new();
        for stage in Stage::ALL {
            self.shared.tokens[stage as usize].cancel();
            let deadline = tokio::time::Instant::now() + grace;
            if tokio::time::timeout_at(deadline, self.finished(stage)).await.is_err() {
                late.extend(self.late(stage));
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

    fn late(&self, stage: Stage) -> Vec<String> {
        let holds = self.shared.holds.lock();
        let late = holds.iter().filter(|((held, _), _)| *held == stage);
        late.map(|((_, name), held)| match &held.left {
            Some(left) => format!("{}/{name} ({})", stage.name(), left()),
            None => format!("{}/{name}", stage.name()),
        })
        .collect()
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

impl Hold {
    /// Says what is left of the work, such as `12 spans were not sent`, where the stage ends before it is done.
    pub fn leaving(self, left: impl Fn() -> String + Send + Sync + 'static) -> Self {
        if let Some(held) = self.shared.holds.lock().get_mut(&self.key) {
            held.left = Some(Arc::new(left));
        }
        self
    }
}

/// What has become of the work that [`Shutdown::walk`] and then the tasks had not finished, for people: one sentence for each stage.
#[must_use]
pub fn what_became(late: &[String]) -> String {
    let of = |stage: &str| late.iter().any(|name| name.split_once('/').is_some_and(|(of, _)| of == stage));
    let mut said = Vec::new();
    for (stage, text) in [
        (Stage::Streams, "calls that still ran were cut off"),
        (
            Stage::Recorders,
            "records that were not sent are gone: see that the collector runs and that otlp_endpoint is its address",
        ),
        (Stage::Ingest, "what was acknowledged is in the journal and is committed at the next start"),
        (Stage::Query, "queries that still ran were cut off"),
    ] {
        if of(stage.name()) {
            said.push(text);
        }
    }
    if said.is_empty() {
        said.push("the log above says what they were doing");
    }
    said.join("; ")
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut holds = self.shared.holds.lock();
        if let Some(held) = holds.get_mut(&self.key) {
            held.count -= 1;
            if held.count == 0 {
                holds.remove(&self.key);
            }
        }
        drop(holds);
        self.shared.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
