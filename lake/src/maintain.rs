//! Maintenance: what one process of a lake does so that reading stays cheap and the disk does not fill.
//!
//! ```text
//! lease ─► checkpoints ─► compaction ─► now and then: retention ─► vacuum
//! ```
//!
//! Any number of processes may offer themselves; the holder of the lease `maintenance` works. Were there two for a moment, the
//! log decides: of two merges of one file the second is refused, a checkpoint is written if absent, and a file is deleted only
//! by what the log says of it.

mod counters;
mod time;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use service::shutdown::Stage;
use service::{Deps, Error, Result, error};
use telemetry::table::{self, TABLES, Table};

use crate::compact::Compaction;
use crate::head::Head;
use crate::lake::Lake;
use crate::lease::Keeper;
use crate::retain::retain;
use crate::vacuum::{Grace, vacuum};
use counters::Counters;
use time::Time;

/// The lease whose holder works.
const LEASE: &str = "maintenance";
/// Commits between two checkpoints. A reader that opens the table reads at most about this many log entries.
const COMMITS_PER_CHECKPOINT: i64 = 100;
/// How often tables are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often retention and vacuum have their turn.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// A leap of the clock by which files age that is not believed at once.
const LEAP: Duration = Duration::from_secs(3_600);
/// How far this machine's clock may be ahead of the store's when a checkpoint is made. The Delta library leaves out of it what was
/// removed a day ago by the machine's clock, and what nobody remembers is deleted as an orphan.
const AHEAD_US_MAX: i64 = 3_600_000_000;
/// Longest and shortest grace of replaced files. The log forgets after a day which files it named, so they cannot stay longer.
const REPLACED: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(24 * 3_600));
/// The shortest `keep_orphans`: no write and its commit take longer.
const ORPHANS_MIN: Duration = Duration::from_secs(3_600);

/// Settings of maintenance. Plain data; `tokenwatt.toml` holds them under `[maintenance]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How long a file stays after it was replaced or dropped, for queries under way, older versions (`VERSION AS OF`) and other
    /// engines. Default 24h, which is also the most; shorter takes less disk.
    #[serde(with = "service::config::duration")]
    pub keep_replaced: Duration,
    /// How long a file stays that was written and never committed, as a crash leaves it. Default 24h, at least 1h.
    #[serde(with = "service::config::duration")]
    pub keep_orphans: Duration,
    /// Days that a table keeps its rows, where other than its default: table to days.
    pub retention_days: BTreeMap<String, u32>,
    /// What no file sets, and a simulation does.
    #[serde(skip)]
    pub habits: Habits,
}

/// How often maintenance does what, and under which lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// The lease whose holder works.
    pub lease: &'static str,
    /// Time between two looks at the tables.
    pub look_every: Duration,
    /// Time between two turns of retention and vacuum.
    pub sweep_every: Duration,
    /// Commits between two checkpoints. A reader that opens the table reads at most about this many log entries.
    pub commits_per_checkpoint: i64,
    /// A leap of the clock by which files age that is not believed at once.
    pub leap: Duration,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            lease: LEASE,
            look_every: LOOK_EVERY,
            sweep_every: SWEEP_EVERY,
            commits_per_checkpoint: COMMITS_PER_CHECKPOINT,
            leap: LEAP,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keep_replaced: REPLACED.1,
            keep_orphans: REPLACED.1,
            retention_days: BTreeMap::new(),
            habits: Habits::default(),
        }
    }
}

impl Settings {
    /// Adds one line for every rule broken.
    pub fn validate(&self, faults: &mut Vec<String>) {
        if !(REPLACED.0..=REPLACED.1).contains(&self.keep_replaced) {
            faults.push("`maintenance.keep_replaced` must lie between 1m and 24h".to_owned());
        }
        if self.keep_orphans < ORPHANS_MIN {
            faults.push("`maintenance.keep_orphans` must be at least 1h: a write may take long".to_owned());
        }
        for (name, days) in &self.retention_days {
            if table::by_name(name).is_none() {
                faults.push(format!("`maintenance.retention_days.{name}`: there is no table `{name}`"));
            }
            if *days == 0 {
                faults.push(format!("`maintenance.retention_days.{name}` must be at least 1"));
            }
        }
    }

    /// Days that a table keeps its rows; `None` for ever.
    pub fn retention(&self, table: &Table) -> Option<u32> {
        self.retention_days.get(table.name).copied().or(table.retention_days)
    }

    fn grace(&self) -> Grace {
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Grace { replaced_ms: ms(self.keep_replaced), orphan_ms: ms(self.keep_orphans) }
    }
}

impl Lake {
    /// Looks after the lake in the background until shutdown, or until the lake is dropped, whenever this process holds the
    /// lease.
    pub fn maintain_in_background(&self, settings: Settings, deps: &Deps) {
        let keeper = self.keep_lease(settings.habits.lease, None, true, deps);
        let (lake, stop) = (self.downgrade(), deps.shutdown.token(Stage::Accept));
        let mut maintenance = Maintenance::new(settings, keeper, deps);
        let (clock, every) = (Arc::clone(&deps.clock), maintenance.settings.habits.look_every);
        deps.tasks.spawn("lake.maintain", async move {
            let work = async {
                loop {
                    clock.sleep(every).await;
                    let Some(lake) = lake.upgrade() else { return };
                    maintenance.round(&lake).await;
                }
            };
            // Cancel safe: a checkpoint is whole or not there, a merge cut short leaves a file that no commit names, and what was
            // not deleted is deleted the next time.
            tokio::select! {
                () = work => (),
                () = stop.cancelled() => (),
            }
        });
    }

    /// Writes a checkpoint of a table's newest version now.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Invalid` for one without a version, `Denied`, `Corrupt`, `Unavailable`, `Internal`.
    pub async fn checkpoint(&self, table: &str) -> Result<()> {
        self.writable()?;
        let head = &self.shelf(table)?.head;
        let version = head.lock().await?.state.version();
        checkpoint(head, version).await
    }
}

struct Maintenance {
    settings: Settings,
    keeper: Keeper,
    deps: Deps,
    compaction: Compaction,
    counters: Counters,
    time: Time,
    /// When the last sweep began, on the clock's monotonic scale.
    swept_at: Option<Duration>,
}

impl Maintenance {
    fn new(settings: Settings, keeper: Keeper, deps: &Deps) -> Maintenance {
        let (compaction, counters) = (Compaction::new(deps), Counters::new(&deps.metrics));
        let time = Time::new(settings.habits.leap, deps);
        Maintenance { settings, keeper, deps: deps.clone(), compaction, counters, time, swept_at: None }
    }

    /// One look at all tables.
    async fn round(&mut self, lake: &Lake) {
        for table in TABLES.iter().copied() {
            if !self.keeper.is_mine() {
                return;
            }
            if let Err(failed) = self.fold(lake, table).await {
                let (table, error) = (table.name, error::chain(&failed));
                tracing::warn!(table, error, "no checkpoint was written; the log only grows longer");
            }
            self.compaction.turn(lake, table, &self.keeper).await;
        }
        let now = self.deps.clock.monotonic();
        if self.swept_at.is_none_or(|at| now.saturating_sub(at) >= self.settings.habits.sweep_every)
            && self.sweep_all(lake).await
        {
            self.swept_at = Some(now);
        }
    }

    /// Writes a checkpoint of a table if one is due and it is certain enough what time it is.
    async fn fold(&self, lake: &Lake, table: &Table) -> Result<()> {
        let Some(version) = due(lake, table, self.settings.habits.commits_per_checkpoint).await? else { return Ok(()) };
        let Some(store_us) = self.keeper.store_us() else { return Ok(()) };
        if self.time.judge(lake, store_us).await?.is_none() {
            return Ok(());
        }
        let ahead_us = self.deps.clock.now_us().saturating_sub(store_us);
        if ahead_us > AHEAD_US_MAX {
            let minutes = ahead_us / 60_000_000;
            return Err(Error::conflict(format!("the clock of this machine is {minutes} minutes ahead of the store's"))
                .with_hint("set it right, or let another machine maintain the lake: a checkpoint made here would forget which files were replaced lately"));
        }
        checkpoint(&lake.shelf(table.name)?.head, version).await
    }

    /// Retention and vacuum of all tables, unless the time is doubted; false if it is not known yet.
    async fn sweep_all(&mut self, lake: &Lake) -> bool {
        let Some(store_us) = self.keeper.store_us() else { return false };
        let now_us = match self.time.judge(lake, store_us).await {
            Ok(Some(now_us)) => now_us,
            Ok(None) => return true,
            Err(failed) => {
                tracing::warn!(error = error::chain(&failed), "it is not known what time it is; nothing is deleted");
                return false;
            }
        };
        for table in TABLES.iter().copied().filter(|_| self.keeper.is_mine()) {
            if let Err(failed) = self.sweep(lake, table, now_us).await {
                let (table, error) = (table.name, error::chain(&failed));
                tracing::warn!(table, error, "old files were not deleted; the next sweep tries again");
            }
        }
        true
    }

    async fn sweep(&self, lake: &Lake, table: &'static Table, now_us: i64) -> Result<()> {
        if let Some(days) = self.settings.retention(table) {
            let dropped = retain(lake, table, days, now_us).await?;
            self.counters.dropped(table, dropped);
        }
        let swept = vacuum(lake, table, self.settings.grace(), now_us.div_euclid(1_000)).await?;
        self.counters.swept(table, &swept);
        Ok(())
    }
}

/// The version of which a checkpoint is due.
async fn due(lake: &Lake, table: &Table, distance: i64) -> Result<Option<i64>> {
    let head = &lake.shelf(table.name)?.head;
    let (version, mut last) = {
        let known = head.lock().await?;
        (known.state.version(), known.state.checkpoint())
    };
    if version - last.unwrap_or(-1) < distance {
        return Ok(None);
    }
    last = last.max(head.log.newest_checkpoint().await?);
    if let Some(last) = last {
        head.lock().await?.state.set_checkpoint(last);
    }
    Ok((version - last.unwrap_or(-1) >= distance).then_some(version))
}

async fn checkpoint(head: &Head, version: i64) -> Result<()> {
    head.log.checkpoint(version).await?;
    head.lock().await?.state.set_checkpoint(version);
    tracing::debug!(table = head.table.name, version, "checkpoint");
    Ok(())
}

#[cfg(test)]
mod tests;
