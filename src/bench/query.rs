//! Queries: a lake of a busy hour and a day of roll-ups → what pages ask, what people ask, and other engines on the same files.
//!
//! ```text
//! data (made once) ─► ours: dashboard, timeline, ad hoc ─► peers: ad hoc ─► compare ─► figures
//! ```
//!
//! At scale 1 the hour has 1.8 million calls and 180 million tokens. The roll-ups are those of the whole fleet, 80,000 chips,
//! whatever that scale, for they are what makes a dashboard independent of the number of tokens.

mod rows;
mod fleet;
mod calls;
mod windows;
mod data;
mod sets;
mod ours;
mod peers;
mod compare;
mod figures;

use std::path::PathBuf;

use service::error::{Error, Result};

pub(super) use data::cache_dir;
use data::{Data, Size};
use figures::{AdHoc, Beside, Figures};
use ours::{Ours, Run};
use peers::{Answer, Answers, Files, Peer};
use sets::Statement;

/// Flags of `tokenwatt bench query`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    /// How much of an hour with 1.8 million calls and 180 million tokens to make: 0.1 makes 18 million tokens.
    #[arg(long, default_value_t = 0.1, value_parser = scale)]
    scale: f64,
    /// How much of a fleet of 5,500 hosts with 80,000 chips the roll-ups are of.
    #[arg(long, default_value_t = 1.0, value_parser = scale)]
    fleet_scale: f64,
    /// How many hours the roll-ups are of: 24 are the day, fewer end with the hour of the calls.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=24))]
    hours: u32,
    /// Threads of each engine.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Times that each statement is run, after one run that does not count.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Only statements whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Leave other engines out.
    #[arg(long)]
    alone: bool,
    /// Python with duckdb and chdb. Default: `~/.cache/tokenwatt/venv-bench`, else that of the repository's tests.
    #[arg(long)]
    python: Option<PathBuf>,
    /// Directory that keeps the lake for the next run. Default: `~/.cache/tokenwatt/bench/query`.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Tables that ad-hoc statements name.
const ADHOC_TABLES: [&str; 3] = ["requests", "tokens", "devices_1m"];
/// Times that a service is started to be asked for one timeline.
const COLD_RUNS: usize = 3;

fn scale(text: &str) -> std::result::Result<f64, String> {
    let scale = text.parse::<f64>().ok().filter(|scale| (0.001..=10.0).contains(scale));
    scale.ok_or_else(|| "a number from 0.001 to 10".to_owned())
}

/// Measures once and prints the figures.
///
/// # Errors
/// When a statement fails here, or another engine answers it otherwise.
pub(crate) async fn run(args: Args) -> Result<()> {
    let data = data::prepare(
        args.dir.as_deref(),
        Size { calls: args.scale, fleet: args.fleet_scale, hours: args.hours.into() },
    )
    .await?;
    let (threads, runs) = (args.threads as usize, args.runs as usize);
    let timeline = data.filled(sets::TIMELINE.sql);
    let mut timeline_ms = Vec::new();
    for _ in 0..COLD_RUNS {
        timeline_ms.push(ours::cold(&data.dir, threads, sets::TIMELINE.name, &timeline).await?);
    }
    let ours = Ours::start(&data.dir, threads).await?;
    let mut dashboard = Vec::new();
    for statement in chosen(sets::DASHBOARD, &args) {
        dashboard.push((statement.name, ours.run(statement.name, &data.filled(statement.sql), runs).await?.ms));
    }
    let mut adhoc = Vec::new();
    for statement in chosen(sets::ADHOC, &args) {
        adhoc.push((statement, ours.run(statement.name, &data.filled(statement.sql), runs).await?));
    }
    drop(ours);
    let mut peers = Vec::new();
    for engine in [Peer::DuckDb, Peer::ChDb] {
        peers.extend(peer(&args, engine, &data).await?.map(|answers| (engine, answers)));
    }
    let beside = adhoc.iter().map(|(statement, run)| beside(statement, run, &peers));
    let figures = Figures {
        scale: args.scale,
        fleet_scale: args.fleet_scale,
        hours: args.hours,
        threads,
        dashboard,
        timeline_ms,
        adhoc: beside.collect::<Result<_>>()?,
        peers: peers.into_iter().map(|(engine, answers)| (engine.name(), answers.version)).collect(),
    };
    for (place, (engine, _)) in figures.peers.iter().enumerate() {
        for (name, why) in figures.refused(place) {
            tracing::warn!(engine, name, why, "refused");
        }
    }
    super::print(args.json, &figures.json())?;
    figures.otherwise().map_or(Ok(()), |differ| Err(Error::internal(differ)))
}

/// One statement in all engines.
fn beside(statement: &Statement, run: &Run, peers: &[(Peer, Answers)]) -> Result<AdHoc> {
    let order = compare::order_of(statement.sql, &run.columns)?;
    let peers = peers.iter().map(|(_, answers)| match answers.answers.get(statement.name) {
        None => Beside::Refused("it was not asked".to_owned()),
        Some(Answer { error: Some(error), .. }) => Beside::Refused(error.clone()),
        Some(answer) => match compare::difference(&run.rows, &answer.rows, &order) {
            Some(how) => Beside::Otherwise(how),
            None => best(&answer.ms).map_or_else(|| Beside::Refused("it was not run".to_owned()), Beside::Answered),
        },
    });
    Ok(AdHoc { name: statement.name, ms: best(&run.ms).unwrap_or(f64::NAN), peers: peers.collect() })
}

fn chosen(set: &'static [Statement], args: &Args) -> impl Iterator<Item = &'static Statement> {
    let only = args.only.clone().unwrap_or_default();
    set.iter().filter(move |statement| statement.name.contains(&only))
}

/// The ad-hoc set in another engine; `None` if it is left out or not installed.
async fn peer(args: &Args, peer: Peer, data: &Data) -> Result<Option<Answers>> {
    if args.alone {
        return Ok(None);
    }
    let statements = chosen(sets::ADHOC, args).map(|statement| (statement.name, data.filled(statement.sql)));
    let statements: Vec<_> = statements.collect();
    let files = Files::of(&data.dir, &ADHOC_TABLES).await?;
    let effort = (args.threads as usize, args.runs as usize);
    peers::run((peer, &python(args)?), &files, effort, &statements).await
}

/// The Python that was named, else the one that was made for this benchmark, else that of the repository's tests.
fn python(args: &Args) -> Result<PathBuf> {
    if let Some(python) = &args.python {
        return Ok(python.clone());
    }
    let cache = cache_dir()?;
    let own = cache.join("venv-bench/bin/python");
    Ok(if own.exists() { own } else { cache.join("venv/current/bin/python") })
}

fn best(ms: &[f64]) -> Option<f64> {
    ms.iter().copied().min_by(f64::total_cmp)
}
