//! The way of an entry into the log: by the process that commits for the whole fleet, or straight.
//!
//! ```text
//! lane ─► entry ─┬─ lease is ours ──────► with the others' at our pace ─┐
//!                ├─ lease is another's ─► its port 4317 ────────────────┼─► one version
//!                └─ nobody, or no answer ──────────────────────────────►┘
//! ```
//!
//! The fence in the log makes each way right by itself, and all of them together: an entry that went two ways is applied once. So
//! whatever goes wrong with the other process, the entry is committed straight, and for a while the following ones too.

pub(crate) mod peer;

use std::sync::Arc;
use std::time::Duration;

use lake::{Entry, Keeper, Lake, Outcome, Standing};
use parking_lot::Mutex;
use service::Deps;
use service::clock::SharedClock;
use service::error::{Result, chain};
use service::metrics::Counter;

use peer::{Dial, Peer};

/// After a call that failed, entries are committed straight for so long.
const STRAIGHT_FOR: Duration = Duration::from_secs(10);

/// Commits entries.
pub(crate) struct Commits {
    lake: Lake,
    shared: Option<Shared>,
    clock: SharedClock,
}

/// What it takes to commit together with other collectors.
struct Shared {
    keeper: Keeper,
    every: Duration,
    peer: Peer,
    /// Until when the other process is not asked, on the clock's monotonic scale.
    straight_until: Mutex<Duration>,
    sent: Counter,
    failed: Counter,
}

/// How collectors of a lake commit together.
pub(crate) struct Fleet {
    /// Shortest time between two versions of a table by the holder of the lease.
    pub(crate) every: Duration,
    /// What they show each other.
    pub(crate) token: Option<String>,
    /// How they reach each other.
    pub(crate) dial: Dial,
}

impl Commits {
    /// Every entry goes straight to the log.
    pub(crate) fn straight(lake: Lake, clock: SharedClock) -> Self {
        Self { lake, shared: None, clock }
    }

    /// Entries go the way that the lease says; as its holder a table gets at most one version in `every`.
    pub(crate) fn shared(lake: Lake, keeper: Keeper, fleet: Fleet, deps: &Deps) -> Self {
        let (metrics, clock) = (&deps.metrics, Arc::clone(&deps.clock));
        let Fleet { every, token, dial } = fleet;
        let counter = |name: &str, help: &str| metrics.counter(&format!("tokenwatt_collector_{name}"), help, &[]);
        let shared = Shared {
            keeper,
            every,
            peer: Peer::new(dial, token, Arc::clone(&clock)),
            straight_until: Mutex::new(Duration::ZERO),
            sent: counter("entries_sent_total", "Entries committed by the collector that holds the lease."),
            failed: counter(
                "entries_unsent_total",
                "Entries that it did not answer for; they were committed straight.",
            ),
        };
        Self { lake, shared: Some(shared), clock }
    }

    /// Makes an entry's files part of its table, once.
    ///
    /// # Errors
    /// As [`Lake::commit`].
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been applied; it can be sent again.
    pub(crate) async fn commit(&self, entry: Entry) -> Result<Outcome> {
        let Some(shared) = &self.shared else { return self.lake.commit(entry).await };
        match shared.keeper.standing() {
            Standing::Mine => self.lake.commit_at_pace(entry, shared.every).await,
            Standing::Other { address: Some(address) } if self.clock.monotonic() >= *shared.straight_until.lock() => {
                match shared.peer.commit(&address, &entry).await {
                    Ok(outcome) => {
                        shared.sent.inc();
                        Ok(outcome)
                    }
                    Err(error) => {
                        shared.failed.inc();
                        *shared.straight_until.lock() = self.clock.monotonic() + STRAIGHT_FOR;
                        tracing::debug!(
                            address,
                            error = chain(&error),
                            "the committer did not answer; committing straight"
                        );
                        self.lake.commit(entry).await
                    }
                }
            }
            _ => self.lake.commit(entry).await,
        }
    }

    /// Commits an entry of another collector, if that is for us to do.
    ///
    /// # Errors
    /// `Unavailable` if the lease is not ours; as [`Lake::commit`].
    pub(crate) async fn commit_for(&self, entry: Entry) -> Result<Outcome> {
        match self.shared.as_ref().filter(|shared| shared.keeper.is_mine()) {
            Some(shared) => self.lake.commit_at_pace(entry, shared.every).await,
            None => Err(service::Error::unavailable("this collector does not hold the committer's lease")),
        }
    }
}

#[cfg(test)]
mod tests;
