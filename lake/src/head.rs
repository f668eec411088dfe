//! The newest known version of one table, shared by its readers and its committer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use service::clock::SharedClock;
use service::{Error, Result};
use telemetry::table::Table;
use tokio::sync::{Mutex, MutexGuard};

use crate::log::{Action, State, TableLog};
use crate::snapshot::Snapshot;

/// A reader that asks sooner after the last look at the log gets what that look found.
const FRESH_FOR: Duration = Duration::from_millis(300);
/// How long readers are shown the last known version while the store does not answer.
const STALE_FOR: Duration = Duration::from_secs(60);
/// A table that nobody asked for in this time is no longer looked after in the background.
const WANTED_FOR: Duration = Duration::from_secs(60);
/// Round trips of reading on before it is cheaper to load the table anew from its checkpoint.
const STEPS_MAX: usize = 12;
/// Versions read in one round trip.
const AHEAD_MAX: i64 = 16;
/// A state that was not compared with the log for so long may be older than what is left of the log: versions that were
/// cleaned up look as if they had not been written yet. Far shorter than anything is kept.
const UNSEEN_MAX: Duration = Duration::from_secs(1_800);
/// Old versions kept for readers that ask for them again.
const PAST_MAX: usize = 8;

/// The newest known version of one table.
pub(crate) struct Head {
    pub(crate) table: &'static Table,
    pub(crate) log: Arc<dyn TableLog>,
    clock: SharedClock,
    state: Mutex<Known>,
    seen: RwLock<Seen>,
    past: parking_lot::Mutex<VecDeque<Arc<Snapshot>>>,
}

/// What is known of the log, guarded so that only one task at a time reads on or commits.
pub(crate) struct Known {
    pub(crate) state: State,
    /// Whether the log has been looked at.
    opened: bool,
    /// When the state was the newest one, on both scales of the clock: monotonic time, and microseconds since 1970-01-01 UTC.
    current_at: (Duration, i64),
}

impl Known {
    fn new(table: &'static Table) -> Known {
        Known { state: State::new(table), opened: false, current_at: (Duration::ZERO, 0) }
    }
}

struct Seen {
    snapshot: Arc<Snapshot>,
    /// When the log was last looked at, on the clock's monotonic scale.
    looked_at: Option<Duration>,
    /// When a reader last asked.
    wanted_at: Option<Duration>,
}

impl Head {
    pub(crate) fn new(table: &'static Table, log: Arc<dyn TableLog>, clock: SharedClock) -> Head {
        let seen = Seen { snapshot: Arc::new(Snapshot::empty(table)), looked_at: None, wanted_at: None };
        let known = Known::new(table);
        Head {
            table,
            log,
            clock,
            state: Mutex::new(known),
            seen: RwLock::new(seen),
            past: parking_lot::Mutex::default(),
        }
    }

    /// The newest version; looks at the log only if nobody has for [`FRESH_FOR`].
    pub(crate) async fn newest(&self) -> Result<Arc<Snapshot>> {
        let now = self.clock.monotonic();
        let fresh = {
            let mut seen = self.seen.write();
            seen.wanted_at = Some(now);
            seen.looked_at.is_some_and(|at| now.saturating_sub(at) < FRESH_FOR).then(|| Arc::clone(&seen.snapshot))
        };
        match fresh {
            Some(snapshot) => Ok(snapshot),
            None => self.refresh().await.or_else(|error| self.stale(now, error)),
        }
    }

    /// While the store does not answer, what was seen last; its version and newest time say how old it is.
    fn stale(&self, now: Duration, error: Error) -> Result<Arc<Snapshot>> {
        let seen = self.seen.read();
        let recent = seen.looked_at.is_some_and(|at| now.saturating_sub(at) < STALE_FOR);
        if !recent || error.kind().retry_after().is_none() {
            return Err(error);
        }
        let (table, version, error) = (self.table.name, seen.snapshot.version, service::error::chain(&error));
        tracing::warn!(table, version, error, "the log cannot be read; readers see the last version known");
        Ok(Arc::clone(&seen.snapshot))
    }

    /// The table as it was at `version`; at -1 it was empty, whatever it is by now.
    pub(crate) async fn at(&self, version: i64) -> Result<Arc<Snapshot>> {
        let empty = Snapshot::empty(self.table);
        if version == empty.version {
            return Ok(Arc::new(empty));
        }
        if let Some(snapshot) = self.remembered(version) {
            return Ok(snapshot);
        }
        let newest = self.refresh().await?;
        if newest.version == version {
            return Ok(newest);
        }
        let absent = || Error::not_found(format!("table {} has no version {version}", self.table.name));
        let state = self.log.load(Some(version)).await?.ok_or_else(absent)?;
        let snapshot = Arc::new(state.snapshot());
        let mut past = self.past.lock();
        past.truncate(PAST_MAX - 1);
        past.push_front(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// Looks at the log and returns the newest version.
    pub(crate) async fn refresh(&self) -> Result<Arc<Snapshot>> {
        let mut known = self.state.lock().await;
        self.catch_up(&mut known).await?;
        Ok(Arc::clone(&self.seen.read().snapshot))
    }

    /// Looks at the log if a reader asked lately and no commit is under way.
    pub(crate) async fn refresh_if_wanted(&self) -> Result<()> {
        let now = self.clock.monotonic();
        let wanted = self.seen.read().wanted_at.is_some_and(|at| now.saturating_sub(at) < WANTED_FOR);
        match self.state.try_lock() {
            Ok(mut known) if wanted => self.catch_up(&mut known).await,
            // Whoever holds it is looking at the log right now.
            _ => Ok(()),
        }
    }

    /// The state, for one task at a time, with the log looked at least once.
    pub(crate) async fn lock(&self) -> Result<MutexGuard<'_, Known>> {
        let mut known = self.state.lock().await;
        if !known.opened {
            self.catch_up(&mut known).await?;
        }
        Ok(known)
    }

    /// Reads what others have committed since.
    ///
    /// # Cancel safety
    /// The state is at a version at every await.
    pub(crate) async fn catch_up(&self, known: &mut Known) -> Result<()> {
        self.read_on(known).await?;
        known.opened = true;
        self.publish(known);
        Ok(())
    }

    /// Whether the state is so old that the log may have been cleaned up beyond it. A machine that slept shows on the wall clock
    /// alone, one whose clock was set on the other.
    pub(crate) fn may_be_behind_the_log(&self, known: &Known) -> bool {
        let (at, wall_us) = known.current_at;
        let passed = self.clock.monotonic().saturating_sub(at);
        let passed_us = u64::try_from(self.clock.now_us().saturating_sub(wall_us)).unwrap_or(0);
        passed.max(Duration::from_micros(passed_us)) > UNSEEN_MAX
    }

    async fn read_on(&self, known: &mut Known) -> Result<()> {
        let asked = (self.clock.monotonic(), self.clock.now_us());
        if known.opened && !self.may_be_behind_the_log(known) {
            self.step_on(known).await?;
        } else {
            self.reload(known).await?;
        }
        known.current_at = asked;
        Ok(())
    }

    async fn step_on(&self, known: &mut Known) -> Result<()> {
        let mut ahead = 1;
        for _ in 0..STEPS_MAX {
            let first = known.state.version() + 1;
            // One request when there is nothing new, and few round trips when there is much.
            let reads = (first..first + ahead).map(|version| self.log.read(version));
            for (version, actions) in (first..).zip(futures::future::try_join_all(reads).await?) {
                let Some(actions) = actions else { return Ok(()) };
                self.step(known, version, &actions)?;
            }
            ahead = (ahead * 2).min(AHEAD_MAX);
        }
        self.reload(known).await
    }

    async fn reload(&self, known: &mut Known) -> Result<()> {
        if let Some(state) = self.log.load(None).await?
            && state.version() >= known.state.version()
        {
            known.state = state;
        }
        Ok(())
    }

    /// Goes on to a version that we have just written.
    pub(crate) fn advance(&self, known: &mut Known, version: i64, actions: &[Action]) -> Result<()> {
        known.current_at = (self.clock.monotonic(), self.clock.now_us());
        self.step(known, version, actions)?;
        self.publish(known);
        Ok(())
    }

    fn step(&self, known: &mut Known, version: i64, actions: &[Action]) -> Result<()> {
        let outcome = known.state.apply(version, actions);
        if outcome.is_err() {
            // A half-applied version must not be built upon.
            *known = Known::new(self.table);
        }
        outcome
    }

    /// Shows readers the state's version.
    fn publish(&self, known: &Known) {
        let mut seen = self.seen.write();
        seen.looked_at = Some(self.clock.monotonic());
        if seen.snapshot.version != known.state.version() {
            seen.snapshot = Arc::new(known.state.snapshot());
        }
    }

    fn remembered(&self, version: i64) -> Option<Arc<Snapshot>> {
        let seen = self.seen.read();
        if seen.snapshot.version == version && seen.looked_at.is_some() {
            return Some(Arc::clone(&seen.snapshot));
        }
        self.past.lock().iter().find(|snapshot| snapshot.version == version).cloned()
    }
}
