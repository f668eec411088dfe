//! One role a process: `collector`, `query`, `ui`, `node`, `gateway`.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;

use crate::cli::{Common, HttpPort, OtlpPorts, SqlPorts};
use crate::failure::Failure;
use crate::places;
use crate::print;
use crate::process::{Process, forever};
use crate::remote::Remote;
use crate::settings;
use crate::site::{self, Page};

#[derive(Args)]
pub(crate) struct UiFlags {
    #[command(flatten)]
    http: HttpPort,
    /// Query service to ask [default: http://127.0.0.1:8080]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

#[derive(Args)]
pub(crate) struct ClientFlags {
    #[command(flatten)]
    http: HttpPort,
    /// Collector that telemetry is sent to, OTLP/gRPC [default: http://127.0.0.1:4317]
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
}

#[derive(Args, Clone, Default)]
pub(crate) struct QueryFlags {
    #[command(flatten)]
    ports: SqlPorts,
    /// Offer this process for maintenance of the lake: roll-ups, merging small files, retention. It writes to the lake then
    #[arg(long)]
    maintain: bool,
}

#[derive(Args, Clone, Default)]
pub(crate) struct CollectorFlags {
    #[command(flatten)]
    otlp: OtlpPorts,
    /// Offer this process for maintenance of the lake: merging small files, retention, deleting what nobody needs
    #[arg(long)]
    maintain: bool,
}

pub(crate) async fn collector(common: &Common, flags: &CollectorFlags) -> Result<(), Failure> {
    let mut given = settings::otlp_flags(&flags.otlp);
    given.extend(flags.maintain.then(|| ("maintain", true.to_string())));
    let config = settings::load(common, given)?.config;
    let mut process = Process::start(&config)?;
    let deps = process.deps().clone();
    let built = process
        .build(async {
            places::prepare(&config)?;
            let lake = site::open(&config, &deps).await?;
            // Of a fleet of collectors, those that are told to.
            if config.maintain.unwrap_or(false) {
                lake.maintain_in_background(config.maintenance.clone(), &deps);
            }
            Ok(collector::build(config.collector(), lake, deps.clone()).await?)
        })
        .await?;
    let addresses = site::collector_addresses(&built, &deps);
    deps.tasks.spawn("collector", built.run());
    serve(process, &addresses).await
}

pub(crate) async fn query(common: &Common, flags: &QueryFlags) -> Result<(), Failure> {
    let mut given = settings::sql_flags(&flags.ports);
    given.extend(flags.maintain.then(|| ("maintain", true.to_string())));
    let config = settings::load(common, given)?.config;
    let mut process = Process::start(&config)?;
    let deps = process.deps().clone();
    let (page, flight, postgres, worker) = process
        .build(async {
            let own = match config.maintain.unwrap_or(false) {
                true => Some(site::open(&config, &deps).await?),
                false => None,
            };
            let lakes = match &own {
                Some(lake) => config.lakes(lake),
                None => config.lakes_to_read(&deps).await?,
            };
            let query = query::build(config.query(), lakes, deps.clone()).await?;
            // Only a query service builds roll-ups, so one that maintains does the rest too.
            if let Some(lake) = own {
                lake.maintain_in_background(config.maintenance.clone(), &deps);
                query.roll_up(&lake)?;
            }
            let router = site::own(site::guarded(query.router(), &deps), &config, &deps).merge(deps.health.router());
            let page = Page::bind("query", config.ui.http_addr, router).await?;
            let flight = site::flight(&query, &config).await?;
            Ok((page, flight, query.postgres(config.postgres_addr()).await?, query.worker().await?))
        })
        .await?;
    let mut addresses = [page.addresses(&deps), flight.addresses(&deps)].concat();
    addresses.push(site::postgres_address(&postgres));
    addresses.extend(worker.iter().map(|worker| site::worker_address(worker, &deps)));
    page.spawn(&deps);
    flight.spawn(&deps);
    postgres.spawn();
    if let Some(worker) = worker {
        worker.spawn();
    }
    serve(process, &addresses).await
}

pub(crate) async fn ui(common: &Common, flags: &UiFlags) -> Result<(), Failure> {
    let mut given = http_flag("ui.http_addr", flags.http.http);
    given.extend(flags.server.clone().map(|server| ("ui.server", server)));
    let config = settings::load(common, given)?.config;
    let mut process = Process::start(&config)?;
    let deps = process.deps().clone();
    let page = process
        .build(async {
            let remote = Remote::new(&config.ui.server, config.ui.token.clone())?;
            let answers: ui::Answers = Arc::new(move |reader| Arc::new(remote.seen_by(reader)));
            let pages = ui::guarded(&answers, &site::access(&config, &deps), site::ui_options(&config, &deps, None));
            let router = site::own(pages, &config, &deps).merge(deps.ops_router());
            Ok(Page::bind("dashboard", config.ui.http_addr, router).await?)
        })
        .await?;
    let addresses = page.addresses(&deps);
    page.spawn(&deps);
    serve(process, &addresses).await
}

pub(crate) async fn node(common: &Common, flags: &ClientFlags) -> Result<(), Failure> {
    let config = settings::load(common, client_flags(flags, "node.http_addr", "node.otlp_endpoint"))?.config;
    let mut process = Process::start(&config)?;
    let deps = process.deps().clone();
    let built = process.build(async { Ok(inference_node::build(config.node, deps.clone()).await?) }).await?;
    let address = |name: &str, addr| (name.to_owned(), format!("{}://{addr}", deps.tls.scheme()));
    let addresses = [address("node", built.http_addr()), address("kserve", built.grpc_addr())];
    deps.tasks.spawn("node", built.run());
    serve(process, &addresses).await
}

pub(crate) async fn gateway(common: &Common, flags: &ClientFlags) -> Result<(), Failure> {
    let config = settings::load(common, client_flags(flags, "gateway.http_addr", "gateway.otlp_endpoint"))?.config;
    let mut process = Process::start(&config)?;
    let deps = process.deps().clone();
    let built = process.build(async { Ok(gateway::build(config.gateway, deps.clone()).await?) }).await?;
    let address = ("gateway".to_owned(), format!("{}://{}", deps.tls.scheme(), built.http_addr()));
    deps.tasks.spawn("gateway", built.run());
    serve(process, &[address]).await
}

async fn serve(process: Process, addresses: &[(String, String)]) -> Result<(), Failure> {
    print::pairs(addresses);
    print::line("ready");
    process.run(forever()).await
}

fn http_flag(key: &'static str, addr: Option<SocketAddr>) -> Vec<(&'static str, String)> {
    addr.map(|addr| (key, addr.to_string())).into_iter().collect()
}

fn client_flags(flags: &ClientFlags, http: &'static str, otlp: &'static str) -> Vec<(&'static str, String)> {
    let mut given = http_flag(http, flags.http.http);
    given.extend(flags.otlp_endpoint.clone().map(|endpoint| (otlp, endpoint)));
    given
}
