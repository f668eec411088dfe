//! `tokenwatt bench`: load of the product's own making, and the figures it came to.
//!
//! A benchmark prints figures; nothing asserts a time.

mod freshness;
mod ingest;
mod llama_cpp;
mod node;
mod query;
mod ui;

use clap::Subcommand;
use serde_json::Value;
use service::error::{Error, Result};

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

/// Runs one benchmark and prints its figures.
///
/// # Errors
/// Whatever kept it from measuring; a bad figure is not an error.
pub(crate) async fn run(bench: Bench) -> Result<()> {
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
