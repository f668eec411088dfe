//! What `tokenwatt bench` prints.

use serde_json::Value;

use crate::world::{World, bundle, finish, python, tokenwatt};

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
