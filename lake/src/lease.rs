//! Leases: who does a job that one process of a fleet is enough for.
//!
//! A lease is an object that names its holder and counts its heartbeats. Whoever wants it looks at it from time to time; a
//! holder whose count has not moved for [`TTL`] *of the looker's own monotonic clock* is taken to be gone, and the object is
//! replaced by a conditional PUT that only one of many wins. No two clocks are ever compared, so none has to be right.
//!
//! A lease makes things fast, never correct: a process that was asleep may for a moment believe that it still holds one. What
//! holders do is fenced by the log of the table they do it to.

use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use service::clock::SharedClock;
use service::shutdown::Stage;
use service::{Deps, Error, Result, error};
use uuid::Uuid;

use crate::lake::{Lake, WeakLake};
use crate::store::failure;

/// A holder that has not been heard of for so long is taken to be gone.
const TTL: Duration = Duration::from_secs(15);
/// The holder itself stops sooner, counted from before its last heartbeat was sent.
const TRUSTED_FOR: Duration = Duration::from_secs(12);
/// How often a holder renews and others look.
const TEND_EVERY: Duration = Duration::from_secs(4);

/// Where things stand with a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nobody is known to hold it.
    Open,
    /// This process holds it.
    Mine,
    /// Another process does.
    Other {
        /// Where it can be reached, if it said so.
        address: Option<String>,
    },
}

/// What the object holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    /// Unique per process; empty once given back.
    holder: String,
    address: Option<String>,
    /// Counts holders.
    term: u64,
    /// Counts the holder's renewals.
    beat: u64,
}

/// One process's view of one lease.
pub(crate) struct Lease {
    store: Arc<dyn ObjectStore>,
    path: Path,
    clock: SharedClock,
    me: String,
    address: Option<String>,
    /// Whether to take it when it is open, or only to watch who holds it.
    wanted: bool,
    /// The note seen last, and since when it has not changed.
    seen: Option<(Note, Duration)>,
    /// Which of our heartbeats was answered last, and when, on our clock's monotonic scale.
    answered: Option<(u64, Duration)>,
    /// The store's time at one of our heartbeats.
    store_time: Option<StoreTime>,
}

/// A time that a store gave, and when we heard of it.
#[derive(Clone, Copy, Debug)]
struct StoreTime {
    /// Microseconds since 1970-01-01 UTC.
    us: i64,
    /// On our clock's monotonic scale.
    heard_at: Duration,
}

/// A lease as it was read.
struct Found {
    note: Note,
    version: UpdateVersion,
    /// When the store says that it was written, microseconds since 1970-01-01 UTC.
    written_us: i64,
}

impl Lease {
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        name: &str,
        address: Option<String>,
        wanted: bool,
        clock: SharedClock,
    ) -> Lease {
        let path = Path::from(format!("_tokenwatt/lease/{name}.json"));
        Lease {
            store,
            path,
            clock,
            me: Uuid::new_v4().simple().to_string(),
            address,
            wanted,
            seen: None,
            answered: None,
            store_time: None,
        }
    }

    /// Looks at the lease; renews it if it is ours, takes it if it is open and wanted.
    ///
    /// # Errors
    /// `Unavailable`, `Denied`. Nothing is known then, and what was known before holds for its time.
    pub(crate) async fn tend(&mut self) -> Result<Standing> {
        let Some(Found { note, version, written_us }) = self.read().await? else {
            return self.take(PutMode::Create, 1).await;
        };
        let since = self.since(&note);
        if note.holder == self.me {
            // It was written before its answer came, so by then it was at least that late at the store.
            let answered = self.answered.filter(|(beat, _)| *beat == note.beat);
            self.store_time = answered.map(|(_, at)| StoreTime { us: written_us, heard_at: at }).or(self.store_time);
            let next = Note { beat: note.beat + 1, ..note };
            return self.put(PutMode::Update(version), next).await;
        }
        if note.holder.is_empty() || self.clock.monotonic().saturating_sub(since) >= TTL {
            return self.take(PutMode::Update(version), note.term + 1).await;
        }
        Ok(Standing::Other { address: note.address })
    }

    /// Gives the lease back if it is ours, so that nobody has to wait for it to expire.
    ///
    /// # Errors
    /// `Unavailable`, `Denied`: it expires by itself then.
    pub(crate) async fn release(&mut self) -> Result<()> {
        self.wanted = false;
        let Some(found) = self.read().await?.filter(|found| found.note.holder == self.me) else { return Ok(()) };
        let open = Note { holder: String::new(), address: None, ..found.note };
        self.put(PutMode::Update(found.version), open).await.map(|_| ())
    }

    /// Since when, on our clock, the holder has given no sign of life.
    fn since(&mut self, note: &Note) -> Duration {
        let now = self.clock.monotonic();
        match &self.seen {
            Some((seen, since)) if seen == note => *since,
            _ => {
                self.seen = Some((note.clone(), now));
                now
            }
        }
    }

    async fn take(&mut self, mode: PutMode, term: u64) -> Result<Standing> {
        if !self.wanted {
            return Ok(Standing::Open);
        }
        let note = Note { holder: self.me.clone(), address: self.address.clone(), term, beat: 0 };
        self.put(mode, note).await
    }

    async fn put(&mut self, mode: PutMode, note: Note) -> Result<Standing> {
        let wrong = |e| Error::internal("write a lease").with_source(e);
        let body = serde_json::to_vec(&note).map_err(wrong)?;
        match self.store.put_opts(&self.path, body.into(), mode.into()).await {
            Ok(_) => {
                self.answered = Some((note.beat, self.clock.monotonic()));
                Ok(Standing::Mine)
            }
            // Somebody else was faster; the next look shows who. Its answer may also have been lost, and be ours.
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(Standing::Open)
            }
            Err(error) => Err(failure(format!("write {}", self.path), error)),
        }
    }

    async fn read(&self) -> Result<Option<Found>> {
        let answer = match self.store.get(&self.path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            answer => answer.map_err(|e| failure(format!("read {}", self.path), e))?,
        };
        let version = UpdateVersion { e_tag: answer.meta.e_tag.clone(), version: answer.meta.version.clone() };
        let written_us = answer.meta.last_modified.timestamp_micros();
        let body = answer.bytes().await.map_err(|e| failure(format!("read {}", self.path), e))?;
        // A note that cannot be read is one that nobody renews: it is replaced once it has been there for long enough.
        let unread = || Note { holder: "?".to_owned(), address: None, term: 0, beat: 0 };
        let note = serde_json::from_slice(&body).unwrap_or_else(|_| unread());
        Ok(Some(Found { note, version, written_us }))
    }
}

/// What the rest of a process knows of a lease that is looked after in the background. Clones share it.
#[derive(Clone)]
pub struct Keeper {
    clock: SharedClock,
    known: Arc<RwLock<Known>>,
}

struct Known {
    standing: Standing,
    /// Until when that may be believed, on the clock's monotonic scale.
    until: Duration,
    store_time: Option<StoreTime>,
}

const UNKNOWN: Known = Known { standing: Standing::Open, until: Duration::ZERO, store_time: None };

impl Keeper {
    pub(crate) fn new(clock: SharedClock) -> Keeper {
        Keeper { clock, known: Arc::new(RwLock::new(UNKNOWN)) }
    }

    /// Where things stand now.
    pub fn standing(&self) -> Standing {
        let known = self.known.read();
        if self.clock.monotonic() < known.until { known.standing.clone() } else { Standing::Open }
    }

    /// Whether this process holds the lease.
    pub fn is_mine(&self) -> bool {
        self.standing() == Standing::Mine
    }

    /// What time it is at least by the store's clock, microseconds since 1970-01-01 UTC; `None` before our second heartbeat. Early
    /// by as much as a heartbeat's answer took, and whatever our own clock shows.
    pub(crate) fn store_us(&self) -> Option<i64> {
        let StoreTime { us, heard_at } = self.known.read().store_time?;
        let passed = self.clock.monotonic().saturating_sub(heard_at);
        Some(us.saturating_add(i64::try_from(passed.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Looks after the lease once. What was found is believed from before it was asked for.
    pub(crate) async fn tend(&self, lease: &mut Lease) -> Result<()> {
        let asked = self.clock.monotonic();
        let standing = lease.tend().await?;
        let before = self.standing();
        if standing != before {
            tracing::debug!(lease = lease.path.as_ref(), ?before, now = ?standing, "lease");
        }
        *self.known.write() = Known { standing, until: asked + TRUSTED_FOR, store_time: lease.store_time };
        Ok(())
    }

    /// The store's clock is set to a later time.
    #[cfg(test)]
    pub(crate) fn leap(&self, us: i64) {
        if let Some(time) = &mut self.known.write().store_time {
            time.us += us;
        }
    }

    fn give_up(&self) {
        *self.known.write() = UNKNOWN;
    }
}

impl Lake {
    /// Looks after the lease `name` in the background until the shutdown begins, when it is given back.
    ///
    /// `address` is where the holder can be reached. A process that does not want it only watches.
    pub fn keep_lease(&self, name: &'static str, address: Option<String>, wanted: bool, deps: &Deps) -> Keeper {
        let keeper = Keeper::new(Arc::clone(&deps.clock));
        let lease = Lease::new(self.store(), name, address, wanted, Arc::clone(&deps.clock));
        let (stop, hold) = (deps.shutdown.token(Stage::Accept), deps.shutdown.hold(Stage::Accept, "lake.lease"));
        let (kept, lake) = (keeper.clone(), self.downgrade());
        deps.tasks.spawn("lake.lease", async move {
            let mut lease = lease;
            // Cancel safe: a heartbeat cut short was sent or was not, and the lease is given back either way.
            tokio::select! {
                () = tend_until_dropped(&lake, &kept, &mut lease) => (),
                () = stop.cancelled() => (),
            }
            kept.give_up();
            if let Err(failed) = lease.release().await {
                tracing::debug!(
                    lease = name,
                    error = error::chain(&failed),
                    "a lease was not given back and will expire"
                );
            }
            drop(hold);
        });
        keeper
    }
}

async fn tend_until_dropped(lake: &WeakLake, keeper: &Keeper, lease: &mut Lease) {
    while lake.upgrade().is_some() {
        if let Err(failed) = keeper.tend(lease).await {
            let (path, error) = (lease.path.as_ref(), error::chain(&failed));
            tracing::debug!(path, error, "the lease could not be looked at; the work goes on without");
        }
        lease.clock.sleep(TEND_EVERY).await;
    }
}

#[cfg(test)]
mod tests;
