//! `tokenwatt demo`: `up`, with a simulated fleet of three regions under load.

use std::time::Duration;

use clap::Args;
use service::config::duration;
use service::{Deps, Error};

use super::up;
use crate::cli::Common;
use crate::demo::fleet::{self, Faults, Fleet, Plan, Ports};
use crate::demo::load::{self, Shape};
use crate::failure::Failure;
use crate::print;
use crate::process::{Process, forever};
use crate::settings;
use crate::site::Site;

#[derive(Args)]
#[group(id = "demo")]
pub(crate) struct Flags {
    #[command(flatten)]
    up: up::Flags,
    /// Slow down one node of eu-west-1, or the whole region: prefill takes 20 times as long
    #[arg(long, num_args = 0..=1, default_missing_value = "node", value_name = "WHICH")]
    pub(crate) faults: Option<Faults>,
    /// Calls per second over all regions, as the mean of a day; an answer has about 140 tokens
    #[arg(long, default_value_t = 9.0, value_parser = rate)]
    rate: f64,
    /// How long a day takes
    #[arg(long, default_value = "20m", value_parser = duration::parse)]
    day: Duration,
    /// End by itself after this time
    #[arg(long, value_parser = duration::parse)]
    duration: Option<Duration>,
    /// Port of the first gateway; the others follow [default: 8200, or free ports when --http has port 0]
    #[arg(long, value_name = "PORT")]
    gateway_port: Option<u16>,
    /// Port of the first node; the others follow [default: 8110, or free ports when --http has port 0]
    #[arg(long, value_name = "PORT")]
    node_port: Option<u16>,
}

/// Most calls per second: the simulated hardware serves about this many.
const RATE_MAX: f64 = 40.0;

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if (0.0..=RATE_MAX).contains(&rate) {
        Ok(rate)
    } else {
        Err(format!("the demo takes 0 to {RATE_MAX} calls per second"))
    }
}

impl Flags {
    /// First ports of gateways and nodes; `None` takes free ones.
    fn ports(&self, any: bool) -> Option<Ports> {
        match (self.gateway_port, self.node_port) {
            (None, None) if any => None,
            (gateways, nodes) => Some(Ports { gateways: gateways.unwrap_or(8200), nodes: nodes.unwrap_or(8110) }),
        }
    }
}

pub(crate) async fn run(common: &Common, flags: &Flags) -> Result<(), Failure> {
    let mut config = settings::load(common, flags.up.settings())?.config;
    unprotected(&config)?;
    if config.slo.is_empty() {
        config.slo = fleet::objectives();
    }
    if config.cost.allocation_keys.is_empty() {
        config.cost.allocation_keys = fleet::ALLOCATION_KEYS.map(str::to_owned).to_vec();
    }
    let mut process = Process::start(&config)?;
    let deps = process.deps().clone();
    let ports = flags.ports(config.ui.http_addr.port() == 0);
    let (site, fleet) = process
        .build(async {
            let site = Site::build(&config, &deps).await?;
            let plan = Plan { faults: flags.faults, ports, otlp_endpoint: site.otlp_endpoint() };
            let fleet = fleet::build(&plan, &deps).await?;
            Ok((site, fleet))
        })
        .await?;
    let otlp = site.otlp_endpoint();
    announce(&site, &fleet, &deps);
    let gateways = fleet.gateways();
    site.spawn(&deps);
    fleet.spawn();
    let shape = Shape { rate: flags.rate, day: flags.day };
    let applications = process.client_deps();
    for (region, gateway) in gateways {
        load::spawn(region, gateway, shape.clone(), &otlp, &applications)?;
    }
    print::line("ready; open the dashboard, and end with Ctrl-C");
    match flags.duration {
        Some(duration) => process.run(tokio::time::sleep(duration)).await,
        None => process.run(forever()).await,
    }
}

/// The demo's fleet has no tokens and trusts no certificate: it would be refused by its own collector.
fn unprotected(config: &settings::Config) -> Result<(), Error> {
    if config.principal.is_empty() && !config.tls.is_set() {
        return Ok(());
    }
    Err(Error::invalid("the demo does not run with [[principal]] or [tls]")
        .with_hint("run it without this settings file, or use `tokenwatt up`"))
}

fn announce(site: &Site, fleet: &Fleet, deps: &Deps) {
    let mut addresses = site.addresses(deps);
    addresses.extend(fleet.addresses());
    print::pairs(&addresses);
    for name in &fleet.slow {
        print::line(format!("slow on purpose: {name}, its prefill takes 20 times as long"));
    }
}
