//! Answers SQL over the lake.
//!
//! ```text
//! front (HTTP, PostgreSQL wire, Flight SQL) ─► execute (a place, a deadline) ─► plan (parse, pin, verify) ─► scan (prune, read) ─► encode
//! ```
//!
//! Invariants:
//! 1. Nothing here writes: every plan is verified to read only, whatever the front.
//! 2. A query sees one version of each table, and its answer names it.
//! 3. Unknown is NULL. A number that needs a price, a power figure or a counter that is not there has none.
//! 4. Only this crate links DataFusion.

mod answer;
mod audit;
mod cache;
mod config;
mod distribute;
pub mod docs;
mod encode;
mod error;
mod execute;
mod federate;
mod fleet;
mod front;
mod functions;
mod plan;
mod reader;
mod rollup;
mod scan;
mod session;
mod system;
mod views;

use std::{net::SocketAddr, sync::Arc};

use axum::Router;
use lake::Lake;
use service::principal::Principal;
use service::{Deps, Error, Result};
use telemetry::contract::{Answering, QueryApi, SqlRequest};

pub use config::Config;
pub use distribute::{Settings as WorkerSettings, Worker};
pub use federate::{LakeAt, Lakes, validate_lakes};
pub use front::postgres::Postgres;
pub use rollup::{Budget, Settings as RollupSettings, Slo, validate_budgets, validate_slos};

use execute::Engine;
use fleet::Fleet;
use reader::Reader;
use rollup::Rollups;

/// The query service. Clones share it.
#[derive(Clone)]
pub struct Query {
    engine: Arc<Engine>,
    fleet: Fleet,
}

/// Builds the query service over a lake, or several, and starts computing the fleet series.
///
/// # Errors
/// `Invalid` if a limit of the configuration cannot be set up.
pub async fn build(config: Config, lakes: impl Into<Lakes>, deps: Deps) -> Result<Query> {
    let refused = |error| Error::invalid("the query runtime cannot be set up").with_source(error);
    let engine = Arc::new(Engine::new(config, lakes.into(), deps).map_err(refused)?);
    engine.cluster.watch(&engine.deps);
    let fleet = Fleet::start(Arc::clone(&engine));
    Ok(Query { engine, fleet })
}

impl Query {
    /// Routes `POST /api/v1/sql` and `GET /metrics`.
    pub fn router(&self) -> Router {
        let routes = front::http::router(Arc::clone(&self.engine)).merge(self.fleet.router());
        service::origin::refuse_elsewhere(routes)
    }

    /// The service as a principal sees it, for the dashboard's pages.
    #[must_use]
    pub fn seen_by(&self, principal: &Arc<Principal>) -> impl QueryApi + use<> {
        Seen { query: self.clone(), reader: Arc::new(Reader::of(principal).through("dashboard")) }
    }

    /// The gRPC routes of Flight SQL, which find out themselves who asks.
    pub fn flight_router(&self) -> Router {
        front::flight::router(Arc::clone(&self.engine))
    }

    /// Binds the port on which PostgreSQL's protocol is spoken; nothing is served yet.
    ///
    /// # Errors
    /// `Conflict` when the port is in use, `Denied` when it needs rights, `Invalid` when the machine has no such address.
    pub async fn postgres(&self, addr: SocketAddr) -> Result<Postgres> {
        Postgres::bind(Arc::clone(&self.engine), addr).await
    }

    /// Binds the port on which parts of others' queries come in, where the settings ask for it; nothing is served yet.
    ///
    /// # Errors
    /// `Conflict` when the port is in use, `Denied` when it needs rights, `Invalid` when the machine has no such address.
    pub async fn worker(&self) -> Result<Option<Worker>> {
        match self.engine.config.workers.serve {
            true => Worker::bind(Arc::clone(&self.engine)).await.map(Some),
            false => Ok(None),
        }
    }

    /// Offers this process for building a lake's roll-ups: of all that do, the holder of a lease works.
    ///
    /// # Errors
    /// `Invalid` if a limit of the configuration cannot be set up.
    pub fn roll_up(&self, lake: &Lake) -> Result<()> {
        let Engine { config, deps, .. } = self.engine.as_ref();
        let keeper = lake.keep_lease("rollups", None, true, deps);
        Rollups::new(config, lake.clone(), deps)?.spawn(keeper);
        Ok(())
    }
}

impl QueryApi for Query {
    fn sql(&self, request: SqlRequest) -> Answering<'_> {
        let reader = Arc::new(Reader::local());
        Box::pin(async move { Ok(answer::json(self.engine.run(request, &reader).await?)) })
    }
}

/// The query service with the rights of one reader.
struct Seen {
    query: Query,
    reader: Arc<Reader>,
}

impl QueryApi for Seen {
    fn sql(&self, request: SqlRequest) -> Answering<'_> {
        Box::pin(async move { Ok(answer::json(self.query.engine.run(request, &self.reader).await?)) })
    }
}

#[cfg(test)]
mod tests;
