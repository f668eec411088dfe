//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::{bench, commands};

/// What every token of an LLM fleet costs: in seconds, in watts and in dollars.
#[derive(Parser)]
#[command(name = "tokenwatt", version, about, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Args, Clone, Default)]
pub(crate) struct Common {
    /// Settings file [default: tokenwatt.toml of the working directory, if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where the tables lie: a directory, or s3://bucket/prefix [default: ./tokenwatt-data]
    #[arg(long, global = true, value_name = "PLACE")]
    pub(crate) data: Option<String>,
    /// Local directory for journal, spill and caches [default: ./tokenwatt-data]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// What to log to standard error: error, warn, info, debug, trace, or directives [default: info]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
}

/// Where OTLP is received.
#[derive(Args, Clone, Default)]
pub(crate) struct OtlpPorts {
    /// OTLP/gRPC [default: 127.0.0.1:4317; port 0 takes any free one]
    #[arg(long, value_name = "ADDR")]
    pub(crate) otlp_grpc: Option<SocketAddr>,
    /// OTLP/HTTP [default: 127.0.0.1:4318; port 0 takes any free one]
    #[arg(long, value_name = "ADDR")]
    pub(crate) otlp_http: Option<SocketAddr>,
}

/// Where the role's HTTP is served.
#[derive(Args, Clone, Default)]
pub(crate) struct HttpPort {
    /// HTTP address of this role [port 0 takes any free one]
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
}

/// Where SQL is answered.
#[derive(Args, Clone, Default)]
pub(crate) struct SqlPorts {
    /// Dashboard and HTTP API [default: 127.0.0.1:8080; port 0 takes any free one]
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
    /// Flight SQL [default: 127.0.0.1:8815; port 0 takes any free one]
    #[arg(long, value_name = "ADDR")]
    pub(crate) flight: Option<SocketAddr>,
    /// SQL for PostgreSQL clients [default: 127.0.0.1:5433, or a free port when --http has port 0]
    #[arg(long, value_name = "ADDR")]
    pub(crate) postgres: Option<SocketAddr>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Collector, query service and dashboard in one process
    Up(commands::up::Flags),
    /// `up` with a simulated fleet of three regions under load
    Demo(commands::demo::Flags),
    /// Receives OTLP and writes the tables
    Collector(commands::roles::CollectorFlags),
    /// Answers SQL over HTTP and exports the fleet's metrics
    Query(commands::roles::QueryFlags),
    /// The dashboard, asking a query service elsewhere
    Ui(commands::roles::UiFlags),
    /// An inference node that speaks OpenAI's API
    Node(commands::roles::ClientFlags),
    /// The front door of a fleet of nodes
    Gateway(commands::roles::ClientFlags),
    /// Answers one SQL statement
    Sql(commands::sql::Flags),
    /// Makes a token for a principal, and the hash that the settings hold of it
    Token,
    /// Reckons recorded calls on another machine, in another region, bought otherwise; says what it assumes
    WhatIf(commands::what_if::Flags),
    /// Checks settings, directories, object store and clock
    Check(commands::check::Flags),
    /// Reads prices and bills into the tables
    #[command(subcommand)]
    Import(commands::import::Import),
    /// Writes files for Grafana, Prometheus and FinOps tools
    #[command(subcommand)]
    Export(commands::export::Export),
    /// Measures, and prints the figures
    #[command(subcommand)]
    Bench(bench::Bench),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// No two flags of a command collide, shared ones included.
    #[test]
    fn flags_are_consistent() {
        Cli::command().debug_assert();
    }

    /// `--faults` alone means one node, and a word chooses.
    #[test]
    fn faults_may_stand_alone() {
        for (args, expected) in
            [(&["--faults"][..], "Some(Node)"), (&["--faults", "region"], "Some(Region)"), (&[], "None")]
        {
            let cli = Cli::try_parse_from(["tokenwatt", "demo"].iter().chain(args)).unwrap();
            let Command::Demo(flags) = cli.command else { panic!("another command") };
            assert_eq!(format!("{:?}", flags.faults), expected);
        }
        assert!(Cli::try_parse_from(["tokenwatt", "demo", "--rate", "1e9"]).is_err());
    }
}
