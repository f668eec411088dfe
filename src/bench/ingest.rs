//! Ingest: bodies → load → collector (a process of its own, on a real disk) → Delta log → verify.
//!
//! Every request carries fresh ids and times, so that no cache, no retry digest and no dictionary helps. The clock
//! stops when all that was acknowledged stands in the Delta log, not when the last answer came.

pub(super) mod body;
pub(super) mod disk;
mod figures;
mod foreign;
mod kill;
mod load;
mod memory;
mod server;
mod verify;
pub(super) mod wire;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use service::error::Result;

use figures::{Figures, Overload, Rss};
use load::{Load, Sent};
use memory::Memory;
use server::Server;
use verify::Watch;

/// Flags of `tokenwatt bench ingest`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    /// Spans in one export request: 512 as an SDK sends, 1000 as a collector forwards.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(128..=16_384))]
    spans_per_request: u32,
    /// Seconds of load.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Connections.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: u32,
    /// Requests in flight on each connection.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    in_flight: u32,
    /// In which order their spans are sent.
    #[arg(long, value_enum, default_value = "interleaved")]
    layout: body::Layout,
    /// Calls that run at a time on each lane of a connection, of whose tokens a step sends one each.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    running: u32,
    #[command(flatten)]
    wire: wire::Wire,
    /// Keep the collector on this CPU (Linux).
    #[arg(long)]
    pin_server_cpu: Option<u32>,
    /// Then offer this many times as much as was taken, for as long again, and see how much of it is taken.
    #[arg(long, value_parser = offered_factor)]
    offered_factor: Option<f64>,
    /// Requests in flight on each connection while more is offered than is taken.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=256))]
    offered_in_flight: u32,
    /// The lake to write to: a directory that is new, or s3://bucket/prefix. Default: under `--dir`.
    #[arg(long)]
    data: Option<String>,
    #[command(flatten)]
    foreign: foreign::Foreign,
    /// Instead of `--seconds`: end the receiver by `kill -9` after so many, and look for what it had acknowledged.
    #[arg(long, conflicts_with = "offered_factor", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    kill_after: Option<u64>,
    /// Directory for journal and lake; its file system is what is measured. Default: a new one under the current
    /// directory, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// How long the collector may take to commit what it acknowledged.
const COMMIT_PATIENCE: Duration = Duration::from_secs(120);

/// How long the collector is left alone after an overload, before its memory is looked at for the last time.
const REST: Duration = Duration::from_secs(5);

fn offered_factor(text: &str) -> std::result::Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| (0.1..=10.0).contains(factor));
    factor.ok_or_else(|| "a number from 0.1 to 10".to_owned())
}

/// Measures once and prints the figures.
///
/// # Errors
/// When the collector does not start, refuses the load for good, or its tables cannot be read.
pub(crate) async fn run(args: Args) -> Result<()> {
    if let Some(endpoint) = &args.foreign.endpoint {
        return super::print(args.json, &foreign::run(&args, load(&args, endpoint, endpoint)).await?);
    }
    let place = disk::Place::open(args.dir.as_deref())?;
    let disk = place.probe()?;
    let data = args.data.clone().unwrap_or_else(|| place.path().join("lake").display().to_string());
    if let Some(after_s) = args.kill_after {
        return super::print(args.json, &kill::run(&args, after_s, &data, &place.path().join("state")).await?);
    }
    let server = Server::start(&data, &place.path().join("state"), args.pin_server_cpu).await?;
    let watch = Watch::start(&data).await?;
    let memory = Memory::watch(server.id()?);

    let own_cpu = server::cpu_seconds(std::process::id())?;
    let server_cpu = server.cpu_seconds()?;
    let load = load(&args, server.grpc(), server.http());
    let sent = load.run(0).await?;
    let generator_cpu_s = server::cpu_seconds(std::process::id())? - own_cpu;
    let seen = watch.until_rows(sent.tokens(), sent.start, COMMIT_PATIENCE).await?;
    let server_cpu_s = server.cpu_seconds()? - server_cpu;
    let rss_mb = server.peak_rss_mb()?;
    let overload = match args.offered_factor.zip(figures::rate(&sent, &seen)) {
        Some((factor, taken)) => Some(overload(&args, load, factor * taken, &sent, &watch, &memory).await?),
        None => None,
    };
    server.stop().await?;
    drop(watch);

    let mut acknowledged = vec![&sent];
    acknowledged.extend(overload.as_ref().map(|overload| &overload.sent));
    let stored = verify::stored(&data, &acknowledged).await?;
    let (compact_cpu_s, compacted) = verify::compact(&data).await?;
    let figures =
        Figures { sent, seen, stored, compacted, compact_cpu_s, overload, generator_cpu_s, server_cpu_s, rss_mb, disk };
    super::print(args.json, &figures.json(&args))
}

fn load(args: &Args, grpc: &str, http: &str) -> Load {
    Load {
        grpc: grpc.to_owned(),
        http: http.to_owned(),
        wire: args.wire,
        shape: body::Shape {
            layout: args.layout,
            running: args.running,
            spans: args.spans_per_request as usize,
            encoding: args.wire.encoding,
        },
        connections: args.connections,
        in_flight: args.in_flight,
        duration: Duration::from_secs(args.seconds),
        pace: None,
        victim: None,
    }
}

/// Offers `pace` spans a second, whatever becomes of them.
async fn overload(
    args: &Args,
    load: Load,
    pace: f64,
    before: &Sent,
    watch: &Watch,
    memory: &Memory,
) -> Result<Overload> {
    let load = Load { in_flight: args.offered_in_flight, pace: Some(pace), ..load };
    let sent = load.run(before.calls).await?;
    let offered = (sent.acks.len() as u64 + sent.refused) * u64::from(args.spans_per_request);
    let offered_spans_per_s = offered as f64 / sent.start.elapsed().as_secs_f64();
    let seen = watch.until_rows(before.tokens() + sent.tokens(), sent.start, COMMIT_PATIENCE).await?;
    let committed = Instant::now();
    tokio::time::sleep(REST).await;
    let rss = Rss::of(&memory.seen(), [before.start, sent.start, committed], load.duration);
    Ok(Overload { offered_spans_per_s, sent, seen, rss })
}
