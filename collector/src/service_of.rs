//! The collector as a service: its ports bound, its pipeline running.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use lake::Lake;
use service::Deps;
use service::error::{Error, Result, chain};
use service::listen::{self, Bounds};
use service::shutdown::{CancellationToken, Stage};
use service::tls::Acceptor;
use tokio::net::TcpListener;

use crate::commit::peer::network;
use crate::commit::{Commits, Fleet};
use crate::config::Config;
use crate::journal::SystemDisk;
use crate::pipeline::Pipeline;
use crate::receive::commit::Desk;
use crate::receive::{self, Intake};
use crate::{neuron, scrape, tail};

/// A collector with its ports bound and its journal open; nothing is served yet.
pub struct Built {
    deps: Deps,
    grpc: (TcpListener, SocketAddr),
    http: (TcpListener, SocketAddr),
    config: Config,
    /// Where other collectors hand in their entries, if they may.
    desk: Option<Desk>,
    follower: Option<tail::Follower>,
    pipeline: Pipeline,
}

/// Binds the ports, opens the journal and learns from the lake what is committed.
///
/// # Errors
/// `Conflict` if a port or the state directory is in use, `Denied` without permission, `Corrupt`, `Unavailable`.
pub async fn build(config: Config, lake: Lake, deps: Deps) -> Result<Built> {
    let grpc = bind(config.grpc_addr).await?;
    let http = bind(config.http_addr).await?;
    let commits = Arc::new(commits(&config, &lake, grpc.1, &deps));
    let desk = Desk { commits: Arc::clone(&commits), token: config.commit_token.clone() };
    let desk = config.takes_commits(deps.principals.is_open()).then_some(desk);
    let pipeline = Pipeline::open(config.clone(), lake, commits, deps.clone(), Arc::new(SystemDisk)).await?;
    let counters = tail::Counters::new(&deps.metrics);
    let follower = tail::open(config.tail.clone(), &config.state, pipeline.digests(), counters)?;
    Ok(Built { deps, grpc, http, config, desk, follower, pipeline })
}

/// How entries are committed: straight, or together with the other collectors of the lake.
fn commits(config: &Config, lake: &Lake, grpc: SocketAddr, deps: &Deps) -> Commits {
    if !config.shares_commits(lake.url().scheme() != "file", deps.principals.is_open()) {
        return Commits::straight(lake.clone(), Arc::clone(&deps.clock));
    }
    let address = config.advertised(deps.tls.scheme(), grpc);
    let wanted = address.is_some();
    let keeper = lake.keep_lease("committer", address, wanted, deps);
    let token = config.commit_token.as_ref().map(|token| token.expose().to_owned());
    let fleet = Fleet { every: config.commit_every, token, dial: network(config.commit_ca.clone()) };
    Commits::shared(lake.clone(), keeper, fleet, deps)
}

async fn bind(addr: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener = listen::bind(addr).await?;
    let bound = listener.local_addr().map_err(|error| Error::internal("look up a bound address").with_source(error))?;
    Ok((listener, bound))
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
        let (intake, work) = self.pipeline.start(stop.clone());
        let mut router = receive::router(&intake).merge(self.deps.ops_router());
        if let Some(desk) = self.desk {
            router = router.merge(receive::commit::router(desk));
        }
        let bounds = receive::bounds(&self.config, self.deps.limits);
        let own = receive_own(self.config, self.follower, intake, &self.deps, stop.clone());
        let served = serve_both([self.grpc.0, self.http.0], &self.deps.tls, router, bounds, stop);
        match tokio::try_join!(served, own, work) {
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
    bounds: Bounds,
    stop: CancellationToken,
) -> Result<()> {
    let [grpc, http] = listeners;
    let grpc = listen::serve_http(grpc, acceptor, bounds.clone(), router.clone(), stop.clone());
    let http = listen::serve_http(http, acceptor, bounds, router, stop);
    tokio::try_join!(grpc, http).map(|_| ())
}
