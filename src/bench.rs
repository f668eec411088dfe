//! `tokenwatt bench`: load of the product's own making, and the figures it came to.
//!
//! A benchmark prints figures; nothing asserts a time.

mod freshness;
mod ingest;

use clap::Subcommand;
use service::error::Result;

/// What can be measured.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Bench {
    /// Token spans over OTLP/gRPC until they are committed, against a collector of its own.
    Ingest(ingest::Args),
    /// Time from a collector to a reader, with many collectors on one slow store, in this process.
    Freshness(freshness::Args),
}

/// Runs one benchmark and prints its figures.
///
/// # Errors
/// Whatever kept it from measuring; a bad figure is not an error.
pub(crate) async fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Ingest(args) => ingest::run(args).await,
        Bench::Freshness(args) => freshness::run(args).await,
    }
}
