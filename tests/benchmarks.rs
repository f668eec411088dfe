//! What `tokenwatt bench` prints.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::world::{PATIENCE, Peer, World, bundle, finish, python, tokenwatt};

/// On a lake of a thousandth of the hour and its roll-ups, every statement of the benchmark is answered, and DuckDB answers those that people ask by
/// hand with the same rows in the same order; else the benchmark fails.
#[test]
fn the_query_benchmark_agrees_with_duckdb_and_has_all_its_figures() {
    let world = World::new();
    let mut command = tokenwatt(&["bench", "query", "--json", "--runs", "1"]);
    command.args(["--scale", "0.001", "--fleet-scale", "0.01", "--hours", "1"]);
    let said = finish(command.arg("--dir").arg(world.path()).arg("--python").arg(python()));
    let (printed, noted) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{noted}");
    let figures: Value = serde_json::from_str(printed.trim()).expect("one line of JSON");
    for positive in ["dashboard_p95_ms", "dashboard_worst_ms", "token_timeline_ms", "geomean_ms", "duckdb_geomean_ms"] {
        assert!(figures[positive].as_f64().is_some_and(|ms| ms > 0.0), "{positive}: {figures}");
    }
    let count = |set: &str| figures[set].as_object().map(serde_json::Map::len);
    assert_eq!(count("adhoc"), Some(22), "{figures}");
    assert_eq!(figures["geomean_statements"], figures["adhoc_statements"], "{figures}");
    assert_eq!(figures["duckdb_refused"], 0, "{figures}");
    let panels = figures["dashboard"].as_object().expect("panels");
    assert!(panels.contains_key("fleet_utilization") && panels.contains_key("fleet_power"), "{figures}");
    assert!(panels.values().all(|ms| ms.as_f64().is_some_and(|ms| ms > 0.0)), "{figures}");
}

/// The benchmark of the dashboard measures what it says, where there are islands to measure.
#[test]
fn the_dashboard_benchmark_has_all_its_figures() {
    if bundle() == "none" {
        return;
    }
    let mut command = tokenwatt(&["bench", "ui", "--json", "--runs", "1", "--tokens", "2000"]);
    let said = finish(command.arg("--python").arg(python()));
    let (printed, noted) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{noted}");
    let figures: Value = serde_json::from_str(printed.trim()).expect("one line of JSON");
    for positive in
        ["lcp_ms", "interactive_ms", "hover_ms", "hover_p99_ms", "request_interactive_ms", "bytes", "requests"]
    {
        assert!(figures[positive].as_f64().is_some_and(|figure| figure > 0.0), "{positive}: {figures}");
    }
    assert_eq!((figures["charts"].as_u64(), figures["request_tokens"].as_u64()), (Some(24), Some(2_000)), "{figures}");
}

/// Whatever ends a benchmark ends the collector that it started: nothing writes into the directory any more.
#[test]
fn a_benchmarks_collector_ends_with_it() {
    for by in [Signal::INT, Signal::TERM, Signal::KILL] {
        let world = World::new();
        let mut command = tokenwatt(&["bench", "ingest", "--seconds", "600", "--connections", "1", "--in-flight", "1"]);
        let bench = Peer::start(command.arg("--dir").arg(world.path()));
        let bench_pid = bench.pid();
        until("the collector writes its lake", || world.lake().join("tokens/_delta_log").exists());
        let children: Vec<u32> =
            processes().filter(|process| process.parent == bench_pid).map(|process| process.pid).collect();
        assert_eq!(children.len(), 1, "the benchmark has one child");
        let ended = bench.end_by(by);
        if by != Signal::KILL {
            assert_eq!(ended.code(), Some(130), "{by:?}");
        }
        let runs = || processes().any(|process| process.pid == children[0] && process.runs);
        until(&format!("the collector ends after {by:?}"), || !runs());
    }
}

/// A process as `/proc` shows it.
struct Process {
    pid: u32,
    parent: u32,
    /// It has not ended; one that nobody waited for is still listed.
    runs: bool,
}

/// Those of this machine (proc(5), `stat`: the state and the parent stand behind the command's last parenthesis).
fn processes() -> impl Iterator<Item = Process> {
    let listed = std::fs::read_dir("/proc").expect("list /proc").flatten();
    listed.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit(')').next()?.split_whitespace();
        Some(Process { pid, runs: fields.next()? != "Z", parent: fields.next()?.parse().ok()? })
    })
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "{what}: not yet");
        std::thread::sleep(Duration::from_millis(20));
    }
}
