//! The parts put together and run in order.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use lake::Lake;
use parking_lot::Mutex;
use service::Deps;
use service::channel::{Receiver, Sender, bounded};
use service::error::{Error, Result, chain};
use service::listen;
use service::shutdown::{CancellationToken, Hold, Stage};
use service::tls::Acceptor;
use tokio::net::TcpListener;

use crate::batch::tables::{Closed, FILLED, Tables};
use crate::batch::{Frame, Gather, Limits};
use crate::commit::Commits;
use crate::config::Config;
use crate::counters::Counters;
use crate::journal::{self, Append, Digests, Journal};
use crate::normalize::redact::{Patterns, Redaction, Rules};
use crate::normalize::{Normalizer, Settings};
use crate::progress::Progress;
use crate::publish::{self, Shore};
use crate::receive::admit::Budget;
use crate::receive::commit::Desk;
use crate::receive::{self, Intake, Parts, Writers, serve};
use crate::sample::{self, Sampled};
use crate::{flush, neuron, replay, scrape, tail};

/// Bodies that may wait for the journal.
const APPENDS_MAX: usize = 1_024;
/// Durable bodies that may wait to become rows.
const FRAMES_MAX: usize = 256;
/// Closed buffers that may wait for a table's lane.
const CLOSED_MAX: usize = 2;

/// A collector with its ports bound and its journal open; nothing is served yet.
pub struct Built {
    config: Config,
    deps: Deps,
    grpc: (TcpListener, SocketAddr),
    http: (TcpListener, SocketAddr),
    digests: Arc<Digests>,
    after: u64,
    gather: Gather,
    follower: Option<tail::Follower>,
    shore: Shore,
    started_us: i64,
    hold: Hold,
}

/// Binds the ports, opens the journal and learns from the lake what is committed.
///
/// # Errors
/// `Conflict` if a port or the state directory is in use, `Denied` without permission, `Corrupt`, `Unavailable`.
pub async fn build(config: Config, lake: Lake, deps: Deps) -> Result<Built> {
    let grpc = bind(config.grpc_addr).await?;
    let http = bind(config.http_addr).await?;
    let digests = Arc::new(Digests::default());
    let started_us = deps.clock.now_us();
    let journal = open(&config, started_us, &digests).await?;
    let follower = tail::open(config.tail.clone(), &config.state, &digests, tail::Counters::new(&deps.metrics))?;
    let journal_id = journal.id().to_owned();
    let mut committed = BTreeMap::new();
    for table in FILLED {
        committed.insert(table.name, lake.through(table, &journal_id).await?.unwrap_or_default());
    }
    let newest = committed.values().copied().max().unwrap_or_default();
    let after = committed.values().copied().min().unwrap_or_default();
    let counters = Counters::new(&deps.metrics);
    let progress = Arc::new(Progress::default());
    let mut journal = journal;
    journal.skip_to(newest);
    let settings =
        Settings { redaction: redaction(&config)?, models: config.models.clone(), distinct_max: config.distinct_max };
    let gather = Gather::new(
        Normalizer::new(settings)?,
        Tables::new(|table| committed.get(table.name).copied().unwrap_or_default()),
        limits(&config),
        Arc::clone(&progress),
        counters.clone(),
    );
    let commits = Arc::new(commits(&config, &lake, grpc.1, &deps));
    let shore = Shore {
        lake,
        commits,
        journal: Arc::new(Mutex::new(journal)),
        journal_id,
        progress,
        counters,
        clock: Arc::clone(&deps.clock),
        health: deps.health.component("collector.lake"),
    };
    let hold = deps.shutdown.hold(Stage::Ingest, "collector");
    Ok(Built { config, deps, grpc, http, digests, after, gather, follower, shore, started_us, hold })
}

/// How entries are committed: straight, or together with the other collectors of the lake.
fn commits(config: &Config, lake: &Lake, grpc: SocketAddr, deps: &Deps) -> Commits {
    let clock = Arc::clone(&deps.clock);
    let secure = deps.tls.scheme() == "https";
    if !config.shares_commits(lake.url().scheme() != "file", deps.principals.is_open(), secure) {
        return Commits::straight(lake.clone(), clock);
    }
    let address = config.advertised(grpc);
    let wanted = address.is_some();
    let keeper = lake.keep_lease("committer", address, wanted, deps);
    let token = config.commit_token.as_ref().map(|token| token.expose().to_owned());
    let every = config.commit_every;
    Commits::shared(lake.clone(), keeper, every, token, clock, &deps.metrics)
}

fn redaction(config: &Config) -> Result<Redaction> {
    let patterns = Patterns::new(&config.redact_patterns).map_err(Error::invalid)?;
    let (drop, keep) = (config.redact.clone(), config.keep.clone());
    Ok(Redaction::new(Rules { keep_content: config.keep_content, drop, keep, patterns }))
}

async fn bind(addr: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener = listen::bind(addr).await?;
    let bound = listener.local_addr().map_err(|error| Error::internal("look up a bound address").with_source(error))?;
    Ok((listener, bound))
}

async fn open(config: &Config, now_us: i64, digests: &Arc<Digests>) -> Result<Journal> {
    let (directory, digests) = (config.state.join("journal"), Arc::clone(digests));
    tokio::task::spawn_blocking(move || Journal::open(&directory, now_us, &digests))
        .await
        .map_err(|error| Error::internal("open the journal").with_source(error))?
}

fn limits(config: &Config) -> Limits {
    Limits {
        live_after: config.flush_after,
        bulk_after: config.bulk_flush_after,
        bytes: usize::try_from(config.flush_bytes).unwrap_or(usize::MAX),
    }
}

impl Built {
    /// Where OTLP/gRPC listens.
    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc.1
    }

    /// Where OTLP/HTTP listens.
    pub fn http_addr(&self) -> SocketAddr {
        self.http.1
    }

    /// Serves until the shutdown reaches [`Stage::Ingest`]; then stops receiving, and returns when all is committed.
    ///
    /// # Errors
    /// What ended a part of it early.
    pub async fn run(self) -> Result<()> {
        let stop = self.deps.shutdown.token(Stage::Ingest);
        let body_bytes_max = usize::try_from(self.config.body_max).unwrap_or(usize::MAX);
        let budget = Budget::new(usize::try_from(self.config.memory).unwrap_or(usize::MAX));
        let (appends, bodies) = bounded::<Append>("collector.journal", APPENDS_MAX);
        let (frames, gathered) = bounded::<Frame>("collector.gather", FRAMES_MAX);
        self.deps.metrics.queue(&appends);
        self.deps.metrics.queue(&frames);
        let replayed = CancellationToken::new();
        if !self.shore.journal.lock().holds(self.after) {
            replayed.cancel();
        }
        let intake = Intake::new(Parts {
            clock: Arc::clone(&self.deps.clock),
            budget: budget.clone(),
            body_bytes_max,
            writers: Writers::new(&self.deps.principals, &self.deps.metrics, &self.deps.clock),
            digests: Arc::clone(&self.digests),
            journal: appends.clone(),
            replayed: replayed.clone(),
            counters: self.shore.counters.clone(),
        });
        let sampled = Sampled {
            collector: self.shore.journal_id.clone(),
            started_us: self.started_us,
            counters: self.shore.counters.clone(),
            progress: Arc::clone(&self.shore.progress),
            journal: Arc::clone(&self.shore.journal),
            budget,
            clock: Arc::clone(&self.deps.clock),
            state: self.config.state.clone(),
        };
        let sampling = sample::run(sampled, self.config.sample_every, appends, stop.clone());
        let desk = Desk { commits: Arc::clone(&self.shore.commits), token: self.config.commit_token.clone() };
        let mut router = receive::router(&intake).merge(self.deps.ops_router());
        if self.config.takes_commits(self.deps.principals.is_open()) {
            router = router.merge(receive::commit::router(desk));
        }
        let age = self.config.connection_age;
        let own = receive_own(self.config, self.follower, intake, &self.deps, stop.clone());
        let listeners = [self.grpc.0, self.http.0];
        let served = serve_both(listeners, &self.deps.tls, router, age, stop.clone());
        let health = self.deps.health.component("collector");
        let store = store(self.shore.clone(), self.digests, self.after, bodies, frames, replayed, health);
        let land = land(gathered, self.gather, self.shore, Arc::clone(&self.deps.clock));
        let ended = tokio::try_join!(served, own, sampling, store, land);
        drop(self.hold);
        match ended {
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::error!(error = chain(&error), "the collector stopped");
                Err(error)
            }
        }
    }
}

/// The ways in that wait for no sender: scrapes, files, devices.
async fn receive_own(
    config: Config,
    follower: Option<tail::Follower>,
    intake: Intake,
    deps: &Deps,
    stop: CancellationToken,
) -> Result<()> {
    let (clock, metrics) = (&deps.clock, &deps.metrics);
    let scraped = scrape::run(config.scrape, intake.clone(), Arc::clone(clock), metrics.clone(), stop.clone());
    let followed = tail::run(follower, intake.clone(), Arc::clone(clock), stop.clone());
    let sensed = neuron::run(config.neuron_monitor, intake, Arc::clone(clock), metrics.clone(), stop);
    tokio::try_join!(scraped, followed, sensed).map(|_| ())
}

async fn serve_both(
    listeners: [TcpListener; 2],
    acceptor: &Acceptor,
    router: Router,
    age: Duration,
    stop: CancellationToken,
) -> Result<()> {
    let [grpc, http] =
        listeners.map(|listener| serve::serve(listener, acceptor.clone(), router.clone(), age, stop.clone()));
    tokio::try_join!(grpc, http).map(|_| ())
}

/// Replays what an earlier process left, then journals what comes in.
async fn store(
    shore: Shore,
    digests: Arc<Digests>,
    after: u64,
    bodies: Receiver<Append>,
    frames: Sender<Frame>,
    replayed: CancellationToken,
    health: service::health::Component,
) -> Result<()> {
    replay::run(Arc::clone(&shore.journal), after, frames.clone(), shore.counters.clone()).await?;
    replayed.cancel();
    health.ready();
    shore.health.ready();
    journal::run(bodies, shore.journal, digests, frames, shore.clock, health).await
}

/// Turns durable bodies into committed rows.
async fn land(frames: Receiver<Frame>, gather: Gather, shore: Shore, clock: service::clock::SharedClock) -> Result<()> {
    let mut lanes = flush::Lanes::new();
    let mut publishing = Vec::with_capacity(FILLED.len());
    for table in FILLED {
        let (lane, closed) = bounded::<Closed>(table.name, CLOSED_MAX);
        lanes.insert(table.name, lane);
        publishing.push(publish::run(closed, shore.clone()));
    }
    let published = futures::future::try_join_all(publishing);
    tokio::try_join!(flush::run(frames, gather, lanes, clock), published).map(|_| ())
}
