//! The bundle of shared parts handed to every `build`.

use axum::Router;

use crate::clock::{self, SharedClock};
use crate::health::Health;
use crate::listen::Limits;
use crate::metrics::Registry;
use crate::principal::Principals;
use crate::shutdown::Shutdown;
use crate::task::Tasks;
use crate::tls::Acceptor;

/// What a service is built with. Cloning it shares the same parts.
#[derive(Clone)]
pub struct Deps {
    /// Source of every timestamp.
    pub clock: SharedClock,
    /// Owner of every background task.
    pub tasks: Tasks,
    /// The stages in which the process ends.
    pub shutdown: Shutdown,
    /// Whether the process lives and may be given work.
    pub health: Health,
    /// The process's own counters and gauges.
    pub metrics: Registry,
    /// Who may call; nobody has to prove anything by default.
    pub principals: Principals,
    /// TLS of every port; none by default.
    pub tls: Acceptor,
    /// What the peers of every port may hold, and for how long.
    pub limits: Limits,
}

impl Deps {
    /// Fresh parts on a clock of the caller's choice.
    #[must_use]
    pub fn new(clock: SharedClock) -> Self {
        let health = Health::new();
        Self {
            clock,
            tasks: Tasks::new(health.clone()),
            shutdown: Shutdown::new(),
            health,
            metrics: Registry::new(),
            principals: Principals::default(),
            tls: Acceptor::default(),
            limits: Limits::default(),
        }
    }

    /// Fresh parts on the machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self::new(clock::system())
    }

    /// Parts for one more service in this process, with health and metrics of its own: several nodes in one
    /// process answer `/readyz` and `/metrics` each for itself.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self { health: self.health.sibling(), metrics: Registry::new(), ..self.clone() }
    }

    /// Routes every role serves on its HTTP port: `/healthz`, `/readyz` and `/metrics`.
    ///
    /// The query service has a `/metrics` of its own (fleet series before these); it merges [`Health::router`] only.
    pub fn ops_router(&self) -> Router {
        self.health.router().merge(self.metrics.router())
    }
}
