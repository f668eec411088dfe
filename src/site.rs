//! Collector, query service and dashboard on one lake, in one process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use lake::Lake;
use query::{Postgres, Query, Worker};
use service::principal::{Role, Shares};
use service::shutdown::Stage;
use service::{Deps, Error, Result};
use tokio::net::TcpListener;

use crate::failure::Failure;
use crate::places;
use crate::settings::Config;

/// All that `tokenwatt up` serves, with its ports bound.
pub(crate) struct Site {
    collector: collector::Built,
    page: Page,
    flight: Page,
    postgres: Postgres,
    worker: Option<Worker>,
}

/// One HTTP port with its routes.
pub(crate) struct Page {
    name: &'static str,
    listener: TcpListener,
    addr: SocketAddr,
    router: Router,
}

impl Site {
    /// Opens the lake and binds all ports; nothing is served yet.
    pub(crate) async fn build(config: &Config, deps: &Deps) -> Result<Self, Failure> {
        places::prepare(config)?;
        // The port first: when it is taken, nothing has been written.
        let (listener, addr) = listen(config.ui.http_addr).await?;
        let lake = open(config, deps).await?;
        if config.maintain.unwrap_or(true) {
            lake.maintain_in_background(config.maintenance.clone(), deps);
        }
        let collector = collector::build(config.collector(), lake.clone(), deps.clone()).await?;
        let query = query::build(config.query(), config.lakes(&lake), deps.clone()).await?;
        if config.maintain.unwrap_or(true) {
            query.roll_up(&lake)?;
        }
        let postgres = query.postgres(config.postgres_addr()).await?;
        let options = ui_options(config, deps, Some((collector.grpc_addr(), collector.http_addr())));
        let access = access(config, deps);
        let pages = ui::guarded(&answers(&query), &access, options);
        let api = ui::open_to_sessions(&access, "/api/v1/sql", &query.router(), guarded(query.router(), deps));
        let router = own(pages.merge(api), config, deps).merge(deps.health.router());
        let page = Page { name: "dashboard", listener, addr, router };
        let flight = flight(&query, config).await?;
        let worker = query.worker().await?;
        Ok(Self { collector, page, flight, postgres, worker })
    }

    /// Names and addresses, as they are printed.
    pub(crate) fn addresses(&self, deps: &Deps) -> Vec<(String, String)> {
        let mut lines = self.page.addresses(deps);
        let page = format!("{}://{}", deps.tls.scheme(), self.page.addr);
        lines.push(("sql".to_owned(), format!("{page}/api/v1/sql")));
        lines.extend(self.flight.addresses(deps));
        lines.push(postgres_address(&self.postgres));
        lines.extend(self.worker.iter().map(|worker| worker_address(worker, deps)));
        lines.push(("metrics".to_owned(), format!("{page}/metrics")));
        lines.extend(collector_addresses(&self.collector, deps));
        lines
    }

    /// Where nodes and gateways of this process send their telemetry.
    pub(crate) fn otlp_endpoint(&self) -> String {
        format!("http://{}", self.collector.grpc_addr())
    }

    /// Serves all of it in the background.
    pub(crate) fn spawn(self, deps: &Deps) {
        deps.tasks.spawn("collector", self.collector.run());
        self.page.spawn(deps);
        self.flight.spawn(deps);
        self.postgres.spawn();
        if let Some(worker) = self.worker {
            worker.spawn();
        }
    }
}

impl Page {
    /// A role's routes on a port of its own.
    pub(crate) async fn bind(name: &'static str, addr: SocketAddr, router: Router) -> Result<Self> {
        let (listener, addr) = listen(addr).await?;
        Ok(Self { name, listener, addr, router })
    }

    /// Its name and address, as printed.
    pub(crate) fn addresses(&self, deps: &Deps) -> Vec<(String, String)> {
        vec![(self.name.to_owned(), format!("{}://{}", deps.tls.scheme(), self.addr))]
    }

    /// Serves it in the background until the last stage of the shutdown.
    pub(crate) fn spawn(self, deps: &Deps) {
        let health = deps.health.component(self.name);
        let (hold, stop) = (deps.shutdown.hold(Stage::Query, self.name), deps.shutdown.token(Stage::Query));
        let (tls, limits) = (deps.tls.clone(), deps.limits);
        deps.tasks.spawn(self.name, async move {
            health.ready();
            let served = service::listen::serve_http(self.listener, &tls, limits, self.router, stop).await;
            drop(hold);
            served
        });
    }
}

/// The port of Flight SQL, which asks by itself who calls.
pub(crate) async fn flight(query: &Query, config: &Config) -> Result<Page> {
    Page::bind("flight", config.query.flight_addr, query.flight_router()).await
}

/// Opens the lake for writing and puts in the reference rows that this binary carries.
pub(crate) async fn open(config: &Config, deps: &Deps) -> Result<Lake> {
    let lake = Lake::open(&config.data, deps).await?;
    lake::reference::publish(&lake).await?;
    Ok(lake)
}

/// Name and address of PostgreSQL's protocol, as its clients are given it.
pub(crate) fn postgres_address(postgres: &Postgres) -> (String, String) {
    ("postgresql".to_owned(), format!("postgresql://{}/tokenwatt", postgres.addr()))
}

/// Name and address of the port for parts of others' queries.
pub(crate) fn worker_address(worker: &Worker, deps: &Deps) -> (String, String) {
    ("worker".to_owned(), format!("{}://{}", deps.tls.scheme(), worker.addr()))
}

/// Names and addresses of a collector.
pub(crate) fn collector_addresses(collector: &collector::Built, deps: &Deps) -> Vec<(String, String)> {
    let scheme = deps.tls.scheme();
    vec![
        ("otlp/grpc".to_owned(), format!("{scheme}://{}", collector.grpc_addr())),
        ("otlp/http".to_owned(), format!("{scheme}://{}", collector.http_addr())),
    ]
}

/// Routes that only readers may use, where principals are named.
pub(crate) fn guarded(router: Router, deps: &Deps) -> Router {
    // Before anybody is asked who they are, which would have a browser ask for a password that a page of another site uses then.
    service::origin::refuse_elsewhere(service::principal::require(router, &deps.principals, Role::Reader))
}

/// Routes that answer under this server's own names alone, where nobody has to prove who they are: else a page of another site whose
/// name leads here would read them. Whoever has proven something has proven enough.
pub(crate) fn own(router: Router, config: &Config, deps: &Deps) -> Router {
    match deps.principals.is_open() {
        true => service::host::only_own_names(router, &config.ui.names),
        false => router,
    }
}

/// Who may see the pages. Where links cannot be made, the pages are there without them.
pub(crate) fn access(config: &Config, deps: &Deps) -> ui::Access {
    let wanted = !deps.principals.is_open() && !config.ui.share.is_zero();
    let shares = wanted.then(|| Shares::open(&deps.principals, &deps.clock, &config.state, config.ui.share));
    let shares = shares.and_then(|opened| {
        let warn = |error: &Error| tracing::warn!(error = service::error::chain(error), "no page can be shared");
        opened.inspect_err(warn).ok()
    });
    ui::Access::new(deps, config.ui.session, shares)
}

/// Pages ask with the rights of whoever looks at them.
fn answers(query: &Query) -> ui::Answers {
    let query = query.clone();
    Arc::new(move |reader| match reader {
        Some(principal) => Arc::new(query.seen_by(principal)),
        None => Arc::new(query.clone()),
    })
}

/// What the dashboard is told; `otlp` are the addresses of the collector in this process.
pub(crate) fn ui_options(config: &Config, deps: &Deps, otlp: Option<(SocketAddr, SocketAddr)>) -> ui::Options {
    ui::Options {
        bundle: config.ui.bundle.clone().or_else(bundle_nearby),
        otlp_grpc: otlp.map(|(grpc, _)| grpc.to_string()),
        otlp_http: otlp.map(|(_, http)| http.to_string()),
        clock: deps.clock.clone(),
        // Whoever receives in the same process answers there, too.
        has_api: otlp.is_some(),
        allocation_keys: config.cost.allocation_keys.clone(),
        ..ui::Options::default()
    }
}

/// The web bundle where `cargo xtask web` or a package puts it, relative to the binary.
fn bundle_nearby() -> Option<PathBuf> {
    let binary = std::env::current_exe().ok()?;
    let dir = binary.parent()?;
    let places = [dir.join("../web/current"), dir.join("../share/tokenwatt/web")];
    places.into_iter().find(|place| place.is_dir())
}

async fn listen(addr: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener = service::listen::bind(addr).await?;
    let addr = listener.local_addr().map_err(|error| Error::internal("read the bound address").with_source(error))?;
    Ok((listener, addr))
}
