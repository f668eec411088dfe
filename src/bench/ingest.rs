//! Ingest: bodies → load → collector (a process of its own, on a real disk) → Delta log → verify.
//!
//! Every request carries fresh ids and times, so that no cache, no retry digest and no dictionary helps. The clock
//! stops when all that was acknowledged stands in the Delta log, not when the last answer came.

pub(super) mod body;
pub(super) mod disk;
mod figures;
mod load;
mod server;
mod verify;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use service::error::{Error, Result};

use figures::Figures;

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
    /// gRPC connections.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: u32,
    /// Requests in flight on each connection.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    in_flight: u32,
    /// Directory for journal and lake; its file system is what is measured. Default: a new one under the current
    /// directory, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// How long the collector may take to commit what it acknowledged.
const COMMIT_PATIENCE: Duration = Duration::from_secs(120);

/// Measures once and prints the figures.
///
/// # Errors
/// When the collector does not start, refuses the load for good, or its tables cannot be read.
pub(crate) async fn run(args: Args) -> Result<()> {
    let place = disk::Place::open(args.dir.as_deref())?;
    let disk = place.probe()?;
    let server = server::Server::start(place.path()).await?;
    let watch = verify::Watch::start(place.path()).await?;

    let own_cpu = server::cpu_seconds(std::process::id())?;
    let server_cpu = server.cpu_seconds()?;
    let start = Instant::now();
    let load = load::Load {
        endpoint: server.grpc().to_owned(),
        spans_per_request: args.spans_per_request as usize,
        connections: args.connections,
        in_flight: args.in_flight,
        duration: Duration::from_secs(args.seconds),
    };
    let sent = load.run(start).await?;
    let generator_cpu_s = server::cpu_seconds(std::process::id())? - own_cpu;
    let seen = watch.until_rows(sent.tokens(), start, COMMIT_PATIENCE).await?;
    let server_cpu_s = server.cpu_seconds()? - server_cpu;
    let rss_mb = server.peak_rss_mb()?;
    server.stop().await?;

    let stored = verify::stored(place.path(), &sent).await?;
    let figures = Figures { sent, seen, stored, generator_cpu_s, server_cpu_s, rss_mb, disk };
    print(&args, &figures)
}

#[allow(clippy::print_stdout, reason = "figures are the command's output")]
fn print(args: &Args, figures: &Figures) -> Result<()> {
    let line = figures.json(args.spans_per_request, args.connections, args.in_flight);
    if args.json {
        println!("{line}");
        return Ok(());
    }
    let fields = line.as_object().ok_or_else(|| Error::internal("figures are not an object"))?;
    for (name, value) in fields {
        println!("{name:<28} {value}");
    }
    Ok(())
}
