//! `tokenwatt import`: what others know, as rows of the tables. Nothing is imported by halves: all of it becomes visible in one
//! version, or nothing does.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lake::Lake;
use service::Deps;

use crate::cli::Common;
use crate::failure::Failure;
use crate::import::{bills, bills::Namesake, lists, prices, report::Report};
use crate::{places, print, settings};

#[derive(Subcommand)]
pub(crate) enum Import {
    /// A price book: a CSV file of dated prices, which takes the place of an earlier one of the same name
    Prices(Prices),
    /// Negotiated discounts: a CSV file of dated factors, which takes the place of an earlier one of the same name
    Discounts(Discounts),
    /// Exchange rates into USD: a CSV file of dated rates, which takes the place of the earlier one
    Rates(Rates),
    /// Power models: a CSV file of dated watts or measured curves, which takes the place of an earlier one of the same name
    Power(Power),
    /// Grid factors and PUE: a CSV file of dated grams a kilowatt hour, which takes the place of an earlier one of the same name
    Grid(Grid),
    /// Hosts that are paid for: a CSV file, which takes the place of an earlier one of the same name
    Inventory(Inventory),
    /// Bills: files of one export, FOCUS 1.0-1.4 or AWS CUR 2.0, as CSV, gzipped CSV or Parquet
    Billing(Billing),
}

#[derive(Args)]
pub(crate) struct Prices {
    /// The price list; docs/cost.md names its columns
    file: PathBuf,
    /// Name of the price book
    #[arg(long, value_name = "NAME", default_value = "default")]
    book: String,
    #[command(flatten)]
    refusals: Refusals,
}

#[derive(Args)]
pub(crate) struct Discounts {
    /// The list of discounts; docs/cost.md names its columns
    file: PathBuf,
    /// Name of the list, such as that of the contract
    #[arg(long, value_name = "NAME", default_value = "default")]
    contract: String,
    #[command(flatten)]
    refusals: Refusals,
}

#[derive(Args)]
pub(crate) struct Rates {
    /// The list of rates; docs/cost.md names its columns
    file: PathBuf,
    #[command(flatten)]
    refusals: Refusals,
}

#[derive(Args)]
pub(crate) struct Power {
    /// The list of power models; docs/power.md names its columns
    file: PathBuf,
    /// Name of the list
    #[arg(long, value_name = "NAME", default_value = "default")]
    list: String,
    #[command(flatten)]
    refusals: Refusals,
}

#[derive(Args)]
pub(crate) struct Grid {
    /// The list of grid factors; docs/power.md names its columns
    file: PathBuf,
    /// Name of the list
    #[arg(long, value_name = "NAME", default_value = "default")]
    list: String,
    #[command(flatten)]
    refusals: Refusals,
}

#[derive(Args)]
pub(crate) struct Inventory {
    /// The list of hosts; docs/cost.md names its columns
    file: PathBuf,
    /// Name of the list
    #[arg(long, value_name = "NAME", default_value = "default")]
    list: String,
    #[command(flatten)]
    refusals: Refusals,
}

#[derive(Args)]
pub(crate) struct Billing {
    /// All files of one export: a bill found in them is replaced as a whole
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// A bill of the same account and month that is there under another provider's name is the same bill: take its place
    #[arg(long, conflicts_with = "other_provider")]
    same_provider: bool,
    /// A bill of the same account and month that is there under another provider's name is another bill: keep both
    #[arg(long)]
    other_provider: bool,
    #[command(flatten)]
    refusals: Refusals,
}

/// What is done about rows that cannot be taken.
#[derive(Args)]
struct Refusals {
    /// Import the other rows where some are refused; by default nothing is imported then
    #[arg(long)]
    skip_refused: bool,
    /// Write every refused row to this CSV file: file, row, reason
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl Billing {
    fn namesake(&self) -> Namesake {
        match (self.same_provider, self.other_provider) {
            (true, _) => Namesake::Replace,
            (_, true) => Namesake::Beside,
            _ => Namesake::Refuse,
        }
    }
}

impl Refusals {
    fn open(&self) -> Result<Report, Failure> {
        Ok(Report::open(self.skip_refused, self.report.as_deref())?)
    }
}

pub(crate) async fn run(common: &Common, import: &Import) -> Result<(), Failure> {
    let config = settings::load_quietly(common)?.config;
    if let Some(data) = places::local(&config.data) {
        places::writable("data", data.as_ref())?;
    }
    let deps = Deps::system();
    let lake = Lake::open(&config.data, &deps).await?;
    let now_us = deps.clock.now_us();
    let lines = match import {
        Import::Prices(flags) => {
            prices::import(&lake, &flags.file, &flags.book, flags.refusals.open()?, now_us).await?
        }
        Import::Discounts(flags) => {
            lists::discounts(&lake, &flags.file, &flags.contract, flags.refusals.open()?).await?
        }
        Import::Rates(flags) => lists::rates(&lake, &flags.file, flags.refusals.open()?).await?,
        Import::Power(flags) => lists::power(&lake, &flags.file, &flags.list, flags.refusals.open()?).await?,
        Import::Grid(flags) => lists::grid(&lake, &flags.file, &flags.list, flags.refusals.open()?).await?,
        Import::Inventory(flags) => lists::inventory(&lake, &flags.file, &flags.list, flags.refusals.open()?).await?,
        Import::Billing(flags) => {
            bills::import(&lake, &flags.files, flags.namesake(), flags.refusals.open()?, now_us).await?
        }
    };
    lines.iter().for_each(print::line);
    Ok(())
}
