//! The way from a body to committed rows, put together: everything of a collector but its ports.

use std::future::Future;
use std::sync::Arc;

use lake::Lake;
use parking_lot::Mutex;
use service::Deps;
use service::channel::{Receiver, bounded};
use service::error::{Error, Result};
use service::shutdown::{CancellationToken, Hold, Stage};
use service::task::blocking;

use crate::batch::Limits;
use crate::commit::Commits;
use crate::config::Config;
use crate::counters::Counters;
use crate::feed::{Outlet, feed};
use crate::journal::{self, Append, Digests, Journal, Room, SharedDisk};
use crate::land::{self, Landing, Marks};
use crate::normalize::Settings;
use crate::normalize::redact::{Patterns, Redaction, Rules};
use crate::progress::Progress;
use crate::publish::Shore;
use crate::receive::admit::{Budget, Line};
use crate::receive::{Intake, Parts, Writers};
use crate::sample::{self, Sampled};

/// Bodies that may wait for the journal.
const APPENDS_MAX: usize = 1_024;
/// Of the memory for bodies, the part in which those that wait to become rows may stay; the others are on disk alone. Half of it is
/// for bodies that were on their way when the line began to be held.
const MEMORY_SHARE: usize = 4;
/// Of the memory for bodies, the part that may be on its way to the disk: with the settings as they are 16 MiB, which one CPU
/// works off in a tenth of a second.
const LINE_SHARE: usize = 16;

/// A collector with its journal open; nothing is received yet.
pub(crate) struct Pipeline {
    config: Config,
    deps: Deps,
    digests: Arc<Digests>,
    room: Arc<Room>,
    landing: Landing,
    marks: Marks,
    started_us: i64,
    hold: Hold,
}

impl Pipeline {
    /// Opens the journal and learns from the lake what is committed.
    ///
    /// # Errors
    /// `Conflict` if the state directory is in use, `Denied` without permission, `Corrupt`, `Unavailable`.
    pub(crate) async fn open(
        config: Config,
        lake: Lake,
        commits: Arc<Commits>,
        deps: Deps,
        disk: SharedDisk,
    ) -> Result<Self> {
        let started_us = deps.clock.now_us();
        let digests = Arc::new(Digests::new(Arc::clone(&deps.clock)));
        let room = Arc::new(Room::new(config.journal_bytes, config.disk_free));
        let journal = open(&config, &deps, disk, &room, &digests).await?;
        let shore = Shore {
            lake,
            commits,
            journal_id: journal.id().to_owned(),
            journal: Arc::new(Mutex::new(journal)),
            progress: Arc::new(Progress::default()),
            counters: Counters::new(&deps.metrics),
            clock: Arc::clone(&deps.clock),
            health: deps.health.component("collector.lake"),
        };
        let settings = Settings {
            redaction: redaction(&config)?,
            models: config.models.clone(),
            distinct_max: config.distinct_max,
            allocation_keys: config.allocation_keys.clone(),
        };
        let mut landing = Landing { shore, settings, limits: limits(&config), memory: memory(&config) };
        landing.shore.counters.damaged_frames.add(landing.shore.journal.lock().lost());
        let mut marks = landing.marks().await?;
        belong(&landing, &marks, &digests).await?;
        if landing.shore.journal.lock().copied() {
            marks = settle(&mut landing, marks).await?;
        }
        landing.number_after(&marks)?;
        let hold = deps.shutdown.hold(Stage::Ingest, "collector");
        Ok(Self { config, deps, digests, room, landing, marks, started_us, hold })
    }

    /// Which bodies were acknowledged lately.
    pub(crate) fn digests(&self) -> &Digests {
        &self.digests
    }

    /// Where bodies go in, and what has to run for that; it ends when all is committed after `stop` and the last intake is gone.
    pub(crate) fn start(self, stop: CancellationToken) -> (Intake, impl Future<Output = Result<()>>) {
        let Self { config, deps, digests, room, landing, marks, started_us, hold } = self;
        let shore = landing.shore.clone();
        let memory = memory(&config);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let waiting = Budget::new(memory / MEMORY_SHARE);
        let budget = Budget::new(memory - memory / MEMORY_SHARE);
        let (appends, bodies) = bounded::<Append>("collector.journal", APPENDS_MAX);
        let line = Line::new(cpus, memory / LINE_SHARE);
        let (outlet, mut feed) = feed(&shore.journal, waiting.clone(), line.clone(), shore.counters.clone());
        deps.metrics.queue(&appends);
        deps.metrics.queue(outlet.queue());
        let intake = Intake::new(Parts {
            clock: Arc::clone(&deps.clock),
            budget: budget.clone(),
            line,
            body_bytes_max: usize::try_from(config.body_max).unwrap_or(usize::MAX),
            writers: Writers::new(&deps.principals, &deps.metrics, &deps.clock),
            digests: Arc::clone(&digests),
            journal: appends.clone(),
            room: Arc::clone(&room),
            counters: shore.counters.clone(),
        });
        let sampled = Sampled {
            collector: shore.journal_id.clone(),
            started_us,
            counters: shore.counters.clone(),
            progress: Arc::clone(&shore.progress),
            journal: Arc::clone(&shore.journal),
            memory: [budget, waiting],
            room,
            health: deps.health.component("collector.journal"),
            clock: Arc::clone(&deps.clock),
            state: config.state.clone(),
        };
        let work = async move {
            let stored = store(&deps, &landing, digests, bodies, outlet);
            let sampling = sample::run(sampled, config.sample_every, appends, stop);
            let landed = land::run(&mut feed, &landing, marks);
            let mut ended = tokio::try_join!(sampling, stored, landed).map(|_| ());
            if ended.is_ok() {
                ended = empty(&shore).await;
            }
            drop(hold);
            ended
        };
        (intake, work)
    }
}

/// Journals what comes in.
async fn store(
    deps: &Deps,
    landing: &Landing,
    digests: Arc<Digests>,
    bodies: Receiver<Append>,
    outlet: Outlet,
) -> Result<()> {
    let health = deps.health.component("collector");
    health.ready();
    let shore = &landing.shore;
    shore.health.ready();
    journal::run(bodies, Arc::clone(&shore.journal), digests, outlet, Arc::clone(&shore.clock), health).await
}

async fn open(
    config: &Config,
    deps: &Deps,
    disk: SharedDisk,
    room: &Arc<Room>,
    digests: &Arc<Digests>,
) -> Result<Journal> {
    let (directory, now) = (config.state.join("journal"), deps.clock.monotonic());
    let (room, digests) = (Arc::clone(room), Arc::clone(digests));
    blocking("open the journal", move || Journal::open(disk, &directory, now, room, &digests)).await?
}

/// Sees to it that the journal is this lake's.
async fn belong(landing: &Landing, marks: &Marks, digests: &Arc<Digests>) -> Result<()> {
    let (id, url) = (landing.shore.lake.id().await?, landing.shore.lake.url().to_string());
    let is_known = marks.values().any(|through| *through > 0);
    let (journal, digests) = (Arc::clone(&landing.shore.journal), Arc::clone(digests));
    blocking("bind the journal to its lake", move || journal.lock().belong(&id, &url, is_known, &digests)).await?
}

/// Removes what is committed, all of it now, so that the next process has nothing to read and may have another lake.
async fn empty(shore: &Shore) -> Result<()> {
    let (journal, through, now) = (Arc::clone(&shore.journal), shore.progress.through(), shore.clock.monotonic());
    let emptied = blocking("empty the journal", move || journal.lock().empty(through, now)).await?;
    if let Err(error) = emptied {
        tracing::warn!(
            error = service::error::chain(&error),
            "the journal could not be emptied; the next start reads it"
        );
    }
    Ok(())
}

/// Commits what a copied state directory holds under the id it was copied with, and gives it an id of its own: the original
/// may commit the same frames at the same time, but it will number others alike.
async fn settle(landing: &mut Landing, marks: Marks) -> Result<Marks> {
    let journal = Arc::clone(&landing.shore.journal);
    tracing::warn!(id = landing.shore.journal_id, "the state directory is a copy; what it holds is committed first");
    let (outlet, mut feed) = feed(&journal, Budget::new(0), Line::new(1, 0), landing.shore.counters.clone());
    drop(outlet);
    land::run(&mut feed, landing, marks).await?;
    let now = landing.shore.clock.monotonic();
    let id = blocking("give the journal an id of its own", move || {
        let mut journal = journal.lock();
        journal.renew(now).map(|()| journal.id().to_owned())
    });
    landing.shore.journal_id = id.await??;
    tracing::info!(id = landing.shore.journal_id, "the state directory has an id of its own");
    landing.marks().await
}

fn redaction(config: &Config) -> Result<Redaction> {
    let patterns = Patterns::new(&config.redact_patterns).map_err(Error::invalid)?;
    let (drop, keep) = (config.redact.clone(), config.keep.clone());
    Ok(Redaction::new(Rules { keep_content: config.keep_content, drop, keep, patterns }))
}

fn memory(config: &Config) -> usize {
    usize::try_from(config.memory).unwrap_or(usize::MAX)
}

fn limits(config: &Config) -> Limits {
    Limits {
        live_after: config.flush_after,
        bulk_after: config.bulk_flush_after,
        bytes: usize::try_from(config.flush_bytes).unwrap_or(usize::MAX),
    }
}
