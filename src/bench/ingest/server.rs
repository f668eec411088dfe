//! The collector under test: this very binary, in a process of its own, and what `/proc` says of it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use service::error::{Error, Result};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

use crate::bench::child::Bound;

/// How long the collector may take to print its addresses, and to end when asked to.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running collector.
pub(super) struct Server {
    child: Bound,
    grpc: String,
    http: String,
    // Kept so that the collector can go on printing.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts `tokenwatt collector` on free ports, on one CPU if it is to have no more (Linux, through `taskset`).
    pub(super) async fn start(data: &str, state: &Path, cpu: Option<u32>) -> Result<Server> {
        let program = std::env::current_exe().map_err(|error| Error::internal("find own binary").with_source(error))?;
        let mut command = match cpu {
            Some(cpu) => {
                let mut command = Command::new("taskset");
                command.arg("--cpu-list").arg(cpu.to_string()).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.arg("collector").arg("--data").arg(data).arg("--state").arg(state);
        command.args(["--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0"]);
        command.stdout(Stdio::piped());
        let started = Bound::start(&mut command);
        let mut child = started.map_err(|error| Error::internal("start the collector").with_source(error))?;
        let stdout = child.0.stdout.take().ok_or_else(|| Error::internal("the collector has no output"))?;
        let mut lines = BufReader::new(stdout).lines();
        let found = tokio::time::timeout(PATIENCE, addresses(&mut lines)).await;
        let (grpc, http) = found.map_err(|_| Error::unavailable("the collector did not print its addresses"))??;
        Ok(Server { child, grpc, http, _stdout: lines })
    }

    /// Its OTLP/gRPC address.
    pub(super) fn grpc(&self) -> &str {
        &self.grpc
    }

    /// Its OTLP/HTTP address.
    pub(super) fn http(&self) -> &str {
        &self.http
    }

    /// CPU seconds it has used.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.id()?)
    }

    /// The most resident memory it ever had, MiB.
    pub(super) fn peak_rss_mb(&self) -> Result<f64> {
        peak_rss_mb(self.id()?)
    }

    /// Asks it to end and waits until it has.
    pub(super) async fn stop(mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_raw(self.id()? as i32).ok_or_else(|| Error::internal("no process id"))?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)
            .map_err(|error| Error::internal("stop the collector").with_source(error))?;
        let ended = tokio::time::timeout(PATIENCE, self.child.0.wait()).await;
        let status = ended.map_err(|_| Error::internal("the collector did not end when asked to"))?;
        let status = status.map_err(|error| Error::internal("wait for the collector").with_source(error))?;
        if status.success() { Ok(()) } else { Err(Error::internal(format!("the collector ended with {status}"))) }
    }

    /// Waits for it to have ended, however that came about.
    pub(super) async fn ended(mut self) -> Result<()> {
        let ended = self.child.0.wait().await;
        ended.map(drop).map_err(|error| Error::internal("wait for the collector").with_source(error))
    }

    /// Its process.
    pub(super) fn id(&self) -> Result<u32> {
        self.child.0.id().ok_or_else(|| Error::internal("the collector has ended"))
    }
}

/// The addresses of gRPC and HTTP, once both are printed.
async fn addresses(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<(String, String)> {
    let (mut grpc, mut http) = (None, None);
    loop {
        let line = lines.next_line().await.map_err(|error| Error::internal("read output").with_source(error))?;
        let line = line.ok_or_else(|| Error::internal("the collector ended before it was ready"))?;
        let address = line.split_whitespace().find(|word| word.starts_with("http://")).map(str::to_owned);
        match line.split_whitespace().next() {
            Some("otlp/grpc") => grpc = address,
            Some("otlp/http") => http = address,
            _ => {}
        }
        if let (Some(grpc), Some(http)) = (&grpc, &http) {
            return Ok((grpc.clone(), http.clone()));
        }
    }
}

/// User and system time of a process, seconds (proc(5), `stat`, fields 14 and 15, in ticks of 1/100 s).
pub(super) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = read(&format!("/proc/{pid}/stat"))?;
    // The command may contain spaces; it ends with the last parenthesis.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    match (ticks(11), ticks(12)) {
        (Some(user), Some(system)) => Ok((user + system) / 100.0),
        _ => Err(Error::internal(format!("/proc/{pid}/stat has no CPU times"))),
    }
}

/// The most resident memory that a process ever had, MiB.
pub(super) fn peak_rss_mb(pid: u32) -> Result<f64> {
    memory_mb(pid, "VmHWM:")
}

/// The resident memory of a process, MiB.
pub(super) fn rss_mb(pid: u32) -> Result<f64> {
    memory_mb(pid, "VmRSS:")
}

fn memory_mb(pid: u32, which: &str) -> Result<f64> {
    let status = read(&format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(which));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|kib| kib.parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| Error::internal(format!("/proc/{pid}/status does not tell its memory")))
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| Error::internal(format!("read {path}")).with_source(error))
}
