//! The dashboard in a real browser: this very binary with a small fleet's data, and Chromium driven from Python.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use service::error::{Error, Result};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

use super::child::Bound;

/// Sends the data, drives the browser, prints the figures.
const SCRIPT: &str = include_str!("ui.py");
/// How long the server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// Flags of `tokenwatt bench ui`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    /// Times that each page is opened by a browser that knows nothing yet.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    runs: u32,
    /// Tokens of the call whose page is opened.
    #[arg(long, default_value_t = 8_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    tokens: u32,
    /// Python with selenium. Default: that of the repository's tests.
    #[arg(long)]
    python: Option<PathBuf>,
}

/// Measures once and prints the figures.
///
/// # Errors
/// If there is no Chromium, chromedriver or selenium, or no web bundle: `cargo xtask test` installs the ones, `cargo xtask web` builds
/// the other.
pub(crate) async fn run(args: Args) -> Result<()> {
    let python = match args.python.clone() {
        Some(python) => python,
        None => super::query::cache_dir()?.join("venv/current/bin/python"),
    };
    let scratch = Scratch(std::env::temp_dir().join(format!("tokenwatt-bench-ui-{}", std::process::id())));
    let figures = measured(&args, &python, &scratch.0).await?;
    super::print(args.json, &figures)
}

/// The directory of a run, removed with it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, dir = %self.0.display(), "could not be removed");
        }
    }
}

async fn measured(args: &Args, python: &Path, dir: &Path) -> Result<Value> {
    let server = Server::start(dir).await?;
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT, &server.dashboard, &server.otlp]);
    command.args([args.runs, args.tokens].map(|number| number.to_string()));
    command.stdout(Stdio::piped());
    let failed = || {
        let hint = "`cargo xtask test` installs Chromium, chromedriver and selenium, and `cargo xtask web` builds the islands that are measured";
        Error::unavailable("the dashboard could not be measured; what is missing stands above").with_hint(hint)
    };
    // What it says on standard error goes where ours does.
    let browser = Bound::start(&mut command).map_err(|error| failed().with_source(error))?;
    let (status, said) = browser.output().await.map_err(|error| failed().with_source(error))?;
    if !status.success() {
        return Err(failed());
    }
    serde_json::from_slice(&said).map_err(|error| failed().with_source(error))
}

/// `tokenwatt up` on free ports.
struct Server {
    dashboard: String,
    otlp: String,
    // Ended with it.
    _child: Bound,
    // Kept so that it can go on printing.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Server {
    async fn start(dir: &Path) -> Result<Server> {
        let failed = |what: &'static str| move |error: std::io::Error| Error::internal(what).with_source(error);
        let program = std::env::current_exe().map_err(failed("find own binary"))?;
        std::fs::create_dir_all(dir).map_err(failed("create a directory for the lake"))?;
        let mut command = Command::new(program);
        command.arg("up").arg("--data").arg(dir.join("lake")).arg("--state").arg(dir.join("state"));
        for port in ["--otlp-grpc", "--otlp-http", "--http", "--flight"] {
            command.args([port, "127.0.0.1:0"]);
        }
        command.args(["--log", "error"]).current_dir(dir).stdout(Stdio::piped());
        let mut child = Bound::start(&mut command).map_err(failed("start the server"))?;
        let stdout = child.0.stdout.take().ok_or_else(|| Error::internal("the server has no output"))?;
        let mut stdout = BufReader::new(stdout).lines();
        let found = tokio::time::timeout(PATIENCE, addresses(&mut stdout)).await;
        let (dashboard, otlp) = found.map_err(|_| Error::unavailable("the server did not become ready"))??;
        Ok(Server { dashboard, otlp, _child: child, _stdout: stdout })
    }
}

/// Dashboard and OTLP/HTTP, once it is ready.
async fn addresses(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<(String, String)> {
    let (mut dashboard, mut otlp) = (None, None);
    loop {
        let line = lines.next_line().await.map_err(|error| Error::internal("read output").with_source(error))?;
        let line = line.ok_or_else(|| Error::internal("the server ended before it was ready"))?;
        let mut words = line.split_whitespace();
        let (name, address) = (words.next(), words.next().map(|address| address.trim_end_matches('/').to_owned()));
        match name {
            Some("dashboard") => dashboard = address,
            Some("otlp/http") => otlp = address,
            Some(word) if word.starts_with("ready") => break,
            _ => {}
        }
    }
    dashboard.zip(otlp).ok_or_else(|| Error::internal("the server did not print its addresses"))
}
