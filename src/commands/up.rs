//! `tokenwatt up`: collector, query service and dashboard on one lake.

use clap::Args;

use super::check;
use crate::cli::{Common, OtlpPorts, SqlPorts};
use crate::failure::Failure;
use crate::print;
use crate::process::{Process, forever};
use crate::settings;
use crate::site::Site;

#[derive(Args, Clone, Default)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) otlp: OtlpPorts,
    #[command(flatten)]
    pub(crate) sql: SqlPorts,
}

impl Flags {
    /// The flags as settings.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let mut flags = settings::otlp_flags(&self.otlp);
        flags.extend(settings::sql_flags(&self.sql));
        flags
    }
}

pub(crate) async fn run(common: &Common, flags: &Flags) -> Result<(), Failure> {
    let config = settings::load(common, flags.settings())?.config;
    if let Some(clash) = check::clashes(&config).into_iter().next() {
        return Err(clash.into());
    }
    let mut process = Process::start(&config)?;
    let deps = process.deps().clone();
    let site = process.build(Site::build(&config, &deps)).await?;
    print::pairs(&site.addresses(&deps));
    site.spawn(&deps);
    print::line("ready");
    process.run(forever()).await
}
