//! A receiver of somebody else: how it is started, and how it ends.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cargo;
use crate::install;

/// How long a receiver may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// What is started, with the addresses and the directory of a run put in for these.
const HTTP: &str = "{http}";
const GRPC: &str = "{grpc}";
const PORT: &str = "{port}";
const DIR: &str = "{dir}";

/// One way to run one of them.
pub(super) struct Receiver {
    pub(super) name: String,
    /// What is left of a span that it took.
    pub(super) stores: &'static str,
    /// Whether it writes Parquet.
    pub(super) writes: bool,
    words: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Receiver {
    /// rotel as PyPI has it, into its exporter that throws everything away. That build has no exporter to files.
    pub(super) fn rotel(program: &Path) -> Receiver {
        let program = program.display().to_string();
        let words = ["start", "--otlp-http-endpoint", HTTP, "--otlp-grpc-endpoint", GRPC, "--exporter", "blackhole"];
        let own = ["--pid-file", "{dir}/pid", "--log-file", "{dir}/log"];
        Receiver {
            name: install::ROTEL.to_owned(),
            stores: "nothing: received, decoded, thrown away",
            writes: false,
            words: [program.as_str()].iter().chain(&words).chain(&own).map(|word| (*word).to_owned()).collect(),
            environment: Vec::new(),
        }
    }

    /// With requests of 5,000 spans that it need not split, and another allocator where there is one.
    pub(super) fn tuned(mut self, jemalloc: Option<&Path>) -> Receiver {
        self.words.extend(["--batch-max-size".to_owned(), "10000".to_owned()]);
        self.name.push_str(", batches of 10,000");
        if let Some(library) = jemalloc {
            self.name.push_str(", jemalloc");
            self.environment.push(("LD_PRELOAD".to_owned(), library.display().to_string()));
        }
        self
    }

    /// otlp2parquet as crates.io has it, with its own defaults.
    pub(super) fn otlp2parquet(program: &Path) -> Receiver {
        let program = program.display().to_string();
        let words = [program.as_str(), "--port", PORT, "--output", DIR, "--log-level", "error"];
        Receiver {
            name: install::OTLP2PARQUET.join(" "),
            stores: "every span, Parquet files; answered before they are synced",
            writes: true,
            words: words.map(str::to_owned).into(),
            environment: Vec::new(),
        }
    }
}

/// One that runs; it is killed if it is not stopped.
pub(super) struct Running {
    child: Child,
    http: u16,
    grpc: u16,
}

impl Running {
    /// Starts it on free ports of loopback, in a directory that is new.
    pub(super) fn start(receiver: &Receiver, dir: &Path) -> Result<Running> {
        std::fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        let (http, grpc) = (free_port()?, free_port()?);
        let filled = |word: &String| {
            let word = word.replace(HTTP, &format!("127.0.0.1:{http}")).replace(GRPC, &format!("127.0.0.1:{grpc}"));
            word.replace(PORT, &http.to_string()).replace(DIR, &dir.display().to_string())
        };
        let words: Vec<String> = receiver.words.iter().map(filled).collect();
        let (program, args) = words.split_first().context("no program")?;
        let mut command = Command::new(program);
        command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.envs(receiver.environment.iter().map(|(name, value)| (name, value)));
        println!("$ {}", words.join(" "));
        let child = command.spawn().with_context(|| format!("start {program}"))?;
        let mut running = Running { child, http, grpc };
        running.listens()?;
        Ok(running)
    }

    fn listens(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", self.http)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the receiver ended with {status} before it listened");
            }
            if Instant::now() > deadline {
                bail!("the receiver does not listen on port {}", self.http);
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Where to send.
    pub(super) fn address(&self, grpc: bool) -> String {
        format!("http://127.0.0.1:{}", if grpc { self.grpc } else { self.http })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it, if nothing has yet.
    pub(super) fn stop(mut self) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            cargo::output(Command::new("kill").arg(self.child.id().to_string()))?;
        }
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails for one that has ended, as it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago: neither of them can be told to choose one and say which.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("find a free port")?;
    Ok(listener.local_addr()?.port())
}
