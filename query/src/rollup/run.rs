//! The task that builds windows, in the process that holds the lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lake::{Keeper, Lake};
use service::shutdown::Stage;
use service::{Deps, Result, error};

use super::budget::{self, Budget};
use super::build::{Builder, Done};
use super::objective::Slo;
use super::progress::Progress;
use super::read::Memory;
use super::window::Built;
use super::{ROLLUPS, Rollup, slos, window};
use crate::config::Config;
use crate::execute::Engine;
use crate::reader::Reader;

/// How often it is looked whether a window is due.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Rows of one file: about 10,000 keys in each minute of an hour.
const ROWS_MAX: usize = 1 << 20;
/// Bytes of one file's rows in memory.
const BYTES_MAX: usize = 512 << 20;
/// Milliseconds that computing one file may take.
const TIMEOUT_MS: u64 = 600_000;

/// What building windows needs to know, taken from other sections of `tokenwatt.toml`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Days that a table keeps its rows, where other than its default.
    pub retention_days: BTreeMap<String, u32>,
    /// Objectives that calls are judged by.
    pub slo: Vec<Slo>,
    /// Budgets that costs are held against.
    pub budget: Vec<Budget>,
    /// Keys that costs are split by.
    pub cost: telemetry::allocation::Settings,
}

/// The builder of all roll-ups.
pub(crate) struct Rollups {
    builder: Builder,
    slo: Vec<Slo>,
    budget: Vec<Budget>,
    progress: Progress,
    deps: Deps,
    /// Up to where each roll-up was looked at.
    looked: BTreeMap<&'static str, i64>,
    /// Whether the objectives and budgets of this process are published.
    published: bool,
}

impl Rollups {
    /// # Errors
    /// `Invalid` if the limits of the configuration cannot be set up.
    pub(crate) fn new(config: &Config, lake: Lake, deps: &Deps) -> Result<Rollups> {
        let memory = Arc::new(Memory::of_builder(config.rollup.retention_days.clone()));
        let limits = Config {
            concurrency: 1,
            max_rows: ROWS_MAX,
            answer_bytes_max: BYTES_MAX,
            timeout_ms: TIMEOUT_MS,
            memory_bytes: config.memory_bytes_per_query,
            // A backlog is read file by file of windows, however many files of rows that is.
            scan_bytes_max: u64::MAX,
            scan_files_max: usize::MAX,
            // It reads what nobody has asked for yet, and would push out what somebody did.
            cache_bytes: 0,
            // What is written must not depend on who else is up.
            workers: crate::distribute::Settings::default(),
            ..config.clone()
        };
        // A registry of its own: readers' queries and the builder's are not one number.
        let apart = Deps { metrics: service::metrics::Registry::new(), ..deps.clone() };
        let refused = |error| service::Error::invalid("roll-ups cannot be set up").with_source(error);
        let engine = Arc::new(Engine::new(limits, lake.clone().into(), apart).map_err(refused)?);
        let (clock, reader) = (Arc::clone(&deps.clock), Arc::new(Reader::internal()));
        let (empty, values_max) = (parking_lot::Mutex::default(), config.rollup.cost.allocation_values_max);
        let builder = Builder { engine, lake, clock, memory, reader, values_max, empty };
        let progress = Progress::new(&deps.metrics);
        let (slo, budget) = (config.rollup.slo.clone(), config.rollup.budget.clone());
        Ok(Rollups { builder, slo, budget, progress, deps: deps.clone(), looked: BTreeMap::new(), published: false })
    }

    /// Builds in the background until the shutdown begins, whenever `keeper` says that it is ours to do.
    pub(crate) fn spawn(mut self, keeper: Keeper) {
        let stop = self.deps.shutdown.token(Stage::Accept);
        let (tasks, clock) = (self.deps.tasks.clone(), Arc::clone(&self.deps.clock));
        tasks.spawn("query.rollup", async move {
            let work = async {
                loop {
                    clock.sleep(LOOK_EVERY).await;
                    self.look(&keeper).await;
                }
            };
            // Cancel safe: a round is one commit, and what was written before it is named by none.
            tokio::select! {
                () = work => (),
                () = stop.cancelled() => (),
            }
        });
    }

    async fn look(&mut self, keeper: &Keeper) {
        if !keeper.is_mine() {
            return;
        }
        self.publish().await;
        for rollup in ROLLUPS {
            let due_us = window::due(rollup, self.deps.clock.now_us());
            if self.looked.get(rollup.table.name).is_some_and(|looked| *looked >= due_us) {
                continue;
            }
            while keeper.is_mine() {
                match self.turn(rollup).await {
                    Some(Done { more: true, .. }) => {}
                    Some(_) => {
                        self.looked.insert(rollup.table.name, due_us);
                        break;
                    }
                    None => break,
                }
            }
        }
    }

    /// Objectives and budgets are dated once, when a process that has others begins to build.
    async fn publish(&mut self) {
        if self.published {
            return;
        }
        let published = match slos::publish(&self.builder, &self.slo).await {
            Ok(()) => budget::publish(&self.builder, &self.budget).await,
            failed => failed,
        };
        match published {
            Ok(()) => self.published = true,
            Err(failed) => {
                let error = error::chain(&failed);
                tracing::warn!(error, "objectives and budgets were not published; it is tried again");
            }
        }
    }

    /// One round; `None` if it failed.
    async fn turn(&self, rollup: &'static Rollup) -> Option<Done> {
        let began = self.deps.clock.monotonic();
        let outcome = self.builder.round(rollup).await;
        let took = self.deps.clock.monotonic().saturating_sub(began);
        self.lag(rollup).await;
        match outcome {
            Ok(done) => {
                self.progress.done(rollup, &done, took);
                let Done { built, rebuilt, folded, .. } = done;
                tracing::debug!(
                    table = rollup.table.name,
                    built,
                    rebuilt,
                    folded,
                    ms = took.as_secs_f64() * 1e3,
                    "windows"
                );
                Some(done)
            }
            Err(failed) => {
                self.progress.failed(rollup);
                let (table, error) = (rollup.table.name, error::chain(&failed));
                tracing::warn!(table, error, "windows were not built; raw rows answer for them until they are");
                None
            }
        }
    }

    async fn lag(&self, rollup: &'static Rollup) {
        let Ok(windows) = self.builder.lake.snapshot(rollup.table.name, None).await else { return };
        if let Some(built) = Built::of(rollup, &windows) {
            self.progress.lag(rollup, self.deps.clock.now_us().saturating_sub(built.through_us) as f64 / 1e6);
        }
    }

    /// Builds what is due, one round after another, without a lease.
    ///
    /// # Errors
    /// As a round.
    #[cfg(test)]
    pub(crate) async fn catch_up(&self) -> Result<()> {
        slos::publish(&self.builder, &self.slo).await?;
        for rollup in ROLLUPS {
            while self.builder.round(rollup).await?.more {}
        }
        Ok(())
    }
}
