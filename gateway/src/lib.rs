//! The fleet's front door: one OpenAI address before many inference nodes.
//!
//! ```text
//! accept ─► identify ─► route ─► forward ─► observe ─► record
//!                         ▲
//!                   nodes, probe
//! ```
//!
//! Invariants:
//! 1. A node's outstanding count is the number of calls dispatched to it and not yet fully relayed or dropped. It is held by a
//!    guard inside the answer's body, so it cannot leak and cannot go below zero.
//! 2. A call is tried again only while no byte of an answer has gone to the client, and never on a node it was tried on.
//! 3. What a node sends is relayed as the same bytes, chunk by chunk; nothing waits for the end of an answer.
//! 4. The tenant is derived here, from the API key. What a client says about tenants never reaches a node.
//! 5. Recording never delays a call: a full queue loses the record and counts it.

pub mod config;

mod accept;
mod identify;
pub mod route;
mod nodes;
mod probe;
mod forward;
mod relay;
mod observe;
mod record;
mod trace;

mod admin;
mod fault;

use std::net::SocketAddr;
use std::sync::Arc;

use service::shutdown::Stage;
use service::{Deps, Error, Result};
use tokio::net::TcpListener;

pub use config::Config;

use crate::forward::Forwarder;
use crate::identify::Keys;
use crate::nodes::Fleet;
use crate::record::Recorder;

/// What every call needs.
pub(crate) struct Gateway {
    config: Config,
    keys: Keys,
    fleet: Arc<Fleet>,
    forwarder: Forwarder,
    recorder: Recorder,
    clock: service::clock::SharedClock,
    metrics: service::metrics::Registry,
}

/// A gateway that has its port and waits to be run.
pub struct Built {
    listener: TcpListener,
    address: SocketAddr,
    gateway: Arc<Gateway>,
    recording: record::Recording,
    deps: Deps,
}

/// Binds the port and prepares everything; nothing is served before [`Built::run`].
///
/// # Errors
/// `Invalid` for settings that cannot be, `Conflict` for a port in use.
pub async fn build(config: Config, deps: Deps) -> Result<Built> {
    let mut faults = Vec::new();
    config.validate(&mut faults);
    if !faults.is_empty() {
        return Err(Error::invalid(format!("gateway settings: {}", faults.join("; "))));
    }
    let listener = service::listen::bind(config.http_addr).await?;
    let address =
        listener.local_addr().map_err(|error| Error::internal("read the bound address").with_source(error))?;
    let fleet = Arc::new(Fleet::new(&config, &deps.metrics));
    let (recorder, recording) = record::new(&config, &deps)?;
    let gateway = Gateway {
        keys: Keys::new(&config.keys),
        forwarder: Forwarder::new(&config, &deps.metrics)?,
        fleet,
        recorder,
        clock: deps.clock.clone(),
        metrics: deps.metrics.clone(),
        config,
    };
    Ok(Built { listener, address, gateway: Arc::new(gateway), recording, deps })
}

impl Built {
    /// The bound HTTP address.
    #[must_use]
    pub fn http_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until shutdown: stops accepting, lets streams finish, sends what was recorded.
    ///
    /// # Errors
    /// `Internal` when the listener breaks.
    pub async fn run(self) -> Result<()> {
        let Self { listener, gateway, recording, deps, .. } = self;
        let streams = deps.shutdown.hold(Stage::Streams, "gateway.calls");
        recording.spawn(&deps);
        probe::spawn(&gateway, &deps);
        let health = deps.health.component("gateway");
        health.ready();
        let router = accept::router(Arc::clone(&gateway)).merge(admin::router(gateway)).merge(deps.ops_router());
        let stop = deps.shutdown.token(Stage::Accept);
        let served = service::listen::serve_http(listener, &deps.tls, deps.limits, router, stop).await;
        drop(streams);
        served
    }
}

#[cfg(test)]
mod tests;
