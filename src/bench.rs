//! `tokenwatt bench`: load of the product's own making, and the figures it came to.
//!
//! A benchmark prints figures; nothing asserts a time.

mod child;
mod freshness;
mod ingest;
mod llama_cpp;
mod node;
mod query;
mod ui;

use std::time::Duration;

use clap::Subcommand;
use serde_json::Value;
use service::error::{Error, Result};
use service::signal::Stop;
use tokio::sync::oneshot;

use crate::failure::INTERRUPTED;

/// How long a benchmark may take to end when a signal asks it to.
const END_GRACE: Duration = Duration::from_secs(5);

/// What can be measured.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Bench {
    /// Token spans over OTLP/gRPC until they are committed, against a collector of its own.
    Ingest(ingest::Args),
    /// Time from a collector to a reader, with many collectors on one slow store, in this process.
    Freshness(freshness::Args),
    /// What recording costs a node, and tokens a second of the CPU engine, one sequence alone and several in a step.
    Node(node::Args),
    /// Dashboards, one request's timeline and ad-hoc SQL, beside other engines on the same files.
    Query(query::Args),
    /// The dashboard in Chromium: first paint, bytes, requests, layout shift, the pointer over many charts, a call of many tokens.
    Ui(ui::Args),
}

/// Runs one benchmark and prints its figures. SIGINT or SIGTERM ends it, the processes that it started, and the directories that it made.
///
/// # Errors
/// Whatever kept it from measuring, a signal among that; a bad figure is not an error.
pub(crate) async fn run(bench: Bench) -> Result<()> {
    let stop = Stop::listen()?;
    let (tell, told) = oneshot::channel();
    tokio::spawn(interrupt(stop, tell));
    tokio::select! {
        done = measure(bench) => done,
        Ok(signal) = told => Err(Error::cancelled(format!("{signal} before the benchmark's end"))),
    }
}

/// Tells of the first signal. What computes without a pause does not hear of it: after a while, or a second signal, the process ends as it is.
async fn interrupt(mut stop: Stop, tell: oneshot::Sender<&'static str>) {
    // Nobody listens once the benchmark is done; then the process is about to end.
    let _ = tell.send(stop.next().await);
    tokio::select! {
        () = tokio::time::sleep(END_GRACE) => {}
        _ = stop.next() => {}
    }
    std::process::exit(INTERRUPTED.into());
}

async fn measure(bench: Bench) -> Result<()> {
    match bench {
        Bench::Ingest(args) => ingest::run(args).await,
        Bench::Freshness(args) => freshness::run(args).await,
        Bench::Node(args) => node::run(&args).await,
        Bench::Query(args) => query::run(args).await,
        Bench::Ui(args) => ui::run(args).await,
    }
}

/// Prints figures: as one line of JSON, or one figure a line.
#[allow(clippy::print_stdout, reason = "figures are the command's output")]
fn print(as_json: bool, figures: &Value) -> Result<()> {
    if as_json {
        println!("{figures}");
        return Ok(());
    }
    let fields = figures.as_object().ok_or_else(|| Error::internal("figures are not an object"))?;
    for (name, value) in fields {
        println!("{name:<28} {value}");
    }
    Ok(())
}
