//! The commands, one file each.

pub(crate) mod up;
pub(crate) mod demo;
pub(crate) mod roles;
pub(crate) mod sql;
pub(crate) mod check;
pub(crate) mod import;
pub(crate) mod export;
pub(crate) mod token;
pub(crate) mod what_if;

mod stretch;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

/// Runs the command to its end.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    let common = cli.common;
    match cli.command {
        Command::Up(flags) => up::run(&common, &flags).await,
        Command::Demo(flags) => demo::run(&common, &flags).await,
        Command::Collector(flags) => roles::collector(&common, &flags).await,
        Command::Query(flags) => roles::query(&common, &flags).await,
        Command::Ui(flags) => roles::ui(&common, &flags).await,
        Command::Node(flags) => roles::node(&common, &flags).await,
        Command::Gateway(flags) => roles::gateway(&common, &flags).await,
        Command::Sql(flags) => sql::run(&common, &flags).await,
        Command::Token => token::run(),
        Command::WhatIf(flags) => what_if::run(&common, &flags).await,
        Command::Import(import) => import::run(&common, &import).await,
        Command::Export(export) => export::run(&common, &export).await,
        Command::Check(flags) => check::run(&common, &flags).await,
        Command::Bench(bench) => Ok(crate::bench::run(bench).await?),
    }
}
