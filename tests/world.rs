//! The world of a test: the real binary with directories and ports of its own, and the clients that speak with it.
//!
//! Nothing is mocked. A wait has a deadline, but no result depends on how long it took.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use telemetry::contract::SqlAnswer;

/// How long anything may take before a test calls it broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A directory of its own for one test, with the lake and the state of the servers in it.
pub(crate) struct World {
    dir: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> World {
        World { dir: tempfile::tempdir().expect("create a directory") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn lake(&self) -> PathBuf {
        self.dir.path().join("lake")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Writes a file into the directory and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).expect("write a file");
        path
    }

    /// `tokenwatt up` on this directory; its ports are free ones.
    pub(crate) fn up(&self) -> Server {
        self.up_with(&[])
    }

    /// `tokenwatt up` with further arguments.
    pub(crate) fn up_with(&self, more: &[&str]) -> Server {
        Server::start(&mut self.up_command(more))
    }

    pub(crate) fn up_command(&self, more: &[&str]) -> Command {
        let mut command = tokenwatt(&["up"]);
        if !more.contains(&"--data") {
            command.arg("--data").arg(self.lake());
        }
        command.arg("--state").arg(self.state()).args(FREE_PORTS).args(more);
        command.current_dir(self.path());
        command
    }
}

/// Every port of `up` by flag, so that tests run side by side.
pub(crate) const FREE_PORTS: [&str; 8] =
    ["--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0", "--http", "127.0.0.1:0", "--flight", "127.0.0.1:0"];

/// The binary under test.
pub(crate) fn tokenwatt(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokenwatt"));
    command.args(args);
    command
}

/// A running server and what it printed.
pub(crate) struct Server {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    addresses: BTreeMap<String, String>,
    client: reqwest::Client,
}

impl Server {
    /// Starts it and waits until it says that it is ready.
    pub(crate) fn start(command: &mut Command) -> Server {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("start tokenwatt");
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        collect(child.stdout.take().expect("stdout"), &lines);
        collect(child.stderr.take().expect("stderr"), &lines);
        let client = reqwest::Client::new();
        let mut server = Server { child, lines, addresses: BTreeMap::new(), client };
        server.until_ready();
        server
    }

    fn until_ready(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.lines().iter().any(|line| line.starts_with("ready")) {
            let ended = self.child.try_wait().expect("look at the child");
            assert!(ended.is_none(), "tokenwatt ended at once with {ended:?}:\n{}", self.output());
            assert!(Instant::now() < deadline, "tokenwatt is not ready:\n{}", self.output());
            std::thread::sleep(Duration::from_millis(20));
        }
        for line in self.lines() {
            let mut words = line.split_whitespace();
            if let (Some(name), Some(address)) = (words.next(), words.next())
                && ["http://", "https://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme))
            {
                self.addresses.insert(name.to_owned(), address.trim_end_matches('/').to_owned());
            }
        }
    }

    /// A printed address, such as that of `otlp/grpc`.
    pub(crate) fn address(&self, name: &str) -> &str {
        let address = self.addresses.get(name);
        address.unwrap_or_else(|| panic!("no address of {name} in:\n{}", self.output()))
    }

    pub(crate) fn otlp_grpc(&self) -> &str {
        self.address("otlp/grpc")
    }

    pub(crate) fn otlp_http(&self) -> &str {
        self.address("otlp/http")
    }

    /// Dashboard and HTTP API.
    pub(crate) fn http(&self) -> &str {
        self.address("dashboard")
    }

    pub(crate) fn client(&self) -> &reqwest::Client {
        &self.client
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Bytes that it has read from files and sockets so far (proc(5), `io`).
    pub(crate) fn bytes_read(&self) -> u64 {
        let counts = std::fs::read_to_string(format!("/proc/{}/io", self.pid())).expect("read /proc");
        let read = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("a count");
        read.parse().expect("a number")
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("lines").clone()
    }

    /// All it printed so far.
    pub(crate) fn output(&self) -> String {
        self.lines().join("\n")
    }

    /// Answers one statement, or panics with the server's words.
    pub(crate) async fn sql(&self, sql: &str) -> SqlAnswer {
        let url = format!("{}/api/v1/sql", self.http());
        let answer = self.client.post(url).json(&json!({ "sql": sql })).send().await.expect("ask");
        let status = answer.status();
        let body = answer.text().await.expect("read the answer");
        assert!(status.is_success(), "{sql}\nanswered {status}: {body}\n{}", self.output());
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{sql}\nanswered {body}: {error}"))
    }

    /// The one row of an answer.
    pub(crate) async fn row(&self, sql: &str) -> Vec<Value> {
        let mut answer = self.sql(sql).await;
        assert_eq!(answer.rows.len(), 1, "{sql}");
        answer.rows.remove(0)
    }

    /// The whole numbers of the one row of an answer.
    pub(crate) async fn numbers(&self, sql: &str) -> Vec<i64> {
        self.row(sql).await.iter().map(number).collect()
    }

    /// Asks until the first column of the one row is at least `wanted`.
    pub(crate) async fn until_at_least(&self, sql: &str, wanted: i64) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.numbers(sql).await[0];
            if seen >= wanted {
                return;
            }
            assert!(Instant::now() < deadline, "{sql}\nstays at {seen} of {wanted}\n{}", self.output());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until it takes data: after a crash it reads its journal first.
    pub(crate) async fn until_taking(&self) {
        let deadline = Instant::now() + PATIENCE;
        let ready = format!("{}/readyz", self.http());
        while !self.client.get(&ready).send().await.is_ok_and(|answer| answer.status().is_success()) {
            assert!(Instant::now() < deadline, "it does not become ready:\n{}", self.output());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// SIGKILL: no chance to do anything any more.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// SIGTERM, and how it ended.
    pub(crate) fn stop(mut self) -> (ExitStatus, String) {
        signal(&self.child, rustix::process::Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return (status, self.output());
            }
            assert!(Instant::now() < deadline, "tokenwatt does not end:\n{}", self.output());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Resident memory and its peak, bytes (proc(5), `status`).
    pub(crate) fn rss(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("read /proc");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("field of /proc");
            line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
        };
        (field("VmRSS:"), field("VmHWM:"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A child process that is ended with the test, such as Prometheus.
pub(crate) struct Peer(Child);

impl Peer {
    pub(crate) fn start(command: &mut Command) -> Peer {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Peer(child.unwrap_or_else(|error| panic!("start {command:?}: {error}")))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends a signal, and says how it ended.
    pub(crate) fn end_by(mut self, by: rustix::process::Signal) -> ExitStatus {
        signal(&self.0, by);
        self.0.wait().expect("wait")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn collect(source: impl Read + Send + 'static, lines: &Arc<Mutex<Vec<String>>>) {
    let lines = lines.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(source).lines().map_while(Result::ok) {
            lines.lock().expect("lines").push(line);
        }
    });
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a process id");
    rustix::process::kill_process(pid, signal).expect("signal");
}

/// Whole numbers come as numbers, or as text where they are decimals.
pub(crate) fn number(value: &Value) -> i64 {
    let text = || value.as_str().and_then(|text| text.split('.').next()?.parse().ok());
    value.as_i64().or_else(|| value.as_f64().map(|value| value as i64)).or_else(text).unwrap_or(0)
}

pub(crate) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970").as_nanos() as u64
}

/// Runs a command to its end, which it must reach before patience does.
pub(crate) fn finish(command: &mut Command) -> Output {
    finish_within(command, 3 * PATIENCE)
}

fn finish_within(command: &mut Command, patience: Duration) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.as_mut().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
    let stdout: Arc<Mutex<Vec<String>>> = Arc::default();
    let stderr: Arc<Mutex<Vec<String>>> = Arc::default();
    collect(child.stdout.take().expect("stdout"), &stdout);
    collect(child.stderr.take().expect("stderr"), &stderr);
    let deadline = Instant::now() + patience;
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait") {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("{command:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // The readers see the end of the pipes just after the child has ended.
    std::thread::sleep(Duration::from_millis(100));
    let text = |lines: &Mutex<Vec<String>>| lines.lock().expect("lines").join("\n").into_bytes();
    Output { status, stdout: text(&stdout), stderr: text(&stderr) }
}

/// Runs a Python client of `tests/clients` and returns what it printed.
pub(crate) fn client(name: &str, args: &[&str], env: &[(&str, &str)]) -> String {
    client_within(name, args, env, 3 * PATIENCE)
}

/// The same for one that may take `patience`.
pub(crate) fn client_within(name: &str, args: &[&str], env: &[(&str, &str)], patience: Duration) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name);
    let mut command = Command::new(python());
    command.arg("-B").arg(script).args(args).envs(env.iter().copied());
    let output = finish_within(&mut command, patience);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {args:?} ended with {}\n{stdout}\n{stderr}", output.status);
    stdout
}

/// The interpreter with the packages of `tests/requirements.txt`.
pub(crate) fn python() -> PathBuf {
    cached("TOKENWATT_PYTHON", "venv/current/bin/python")
}

/// Whether `cargo xtask` has built the web bundle: the word that the browser's scripts are told.
pub(crate) fn bundle() -> &'static str {
    let built = Path::new(env!("CARGO_BIN_EXE_tokenwatt")).parent().map(|dir| dir.join("../web/current"));
    if built.is_some_and(|dir| dir.exists()) { "bundle" } else { "none" }
}

/// axe-core, the rules by which pages are searched for barriers.
pub(crate) fn axe() -> PathBuf {
    cached("TOKENWATT_AXE", "axe-core-4.14.1/axe.min.js")
}

/// The small real model of the `cpu` engine.
pub(crate) fn model() -> PathBuf {
    cached("TOKENWATT_MODEL", "models/SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// A file that `cargo xtask test` installs: named by the environment, else in the cache directory.
fn cached(variable: &str, below: &str) -> PathBuf {
    let cache = || {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        std::env::var_os("XDG_CACHE_HOME").map_or(home.join(".cache"), PathBuf::from).join("tokenwatt").join(below)
    };
    let path = std::env::var_os(variable).map_or_else(cache, PathBuf::from);
    assert!(path.exists(), "{} is missing: `cargo xtask test` installs it", path.display());
    path
}

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
