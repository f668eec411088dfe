//! Grafana's dashboards: what the binary hands out, asked over the PostgreSQL wire as Grafana's data source asks it.

use crate::world::{World, client, finish, repository, tokenwatt};

/// An objective, so that its dashboard has something to show.
const OBJECTIVE: &str =
    "[[slo]]\nname = \"ttft\"\nindicator = \"ttft_s\"\nmeasured_at = \"server\"\nthreshold = 1.0\nobjective = 0.99\n";

/// Every panel of every dashboard answers with rows in time under its unit, and its variables offer something.
#[test]
fn every_panel_is_drawn_from_a_fleet_s_telemetry() {
    let world = World::new();
    let settings = world.write("tokenwatt.toml", OBJECTIVE).display().to_string();
    let server = world.up_with(&["--config", &settings]);
    let boards = world.path().join("grafana").display().to_string();
    let written = finish(&mut tokenwatt(&["export", "dashboards", "--to", &boards]));
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let folder = format!("{boards}/dashboards");
    let url = server.address("postgresql");
    let said = client("grafana.py", &[url, server.otlp_http(), server.http(), &folder], &[]);
    assert!(said.contains("4 dashboards, 66 panels drawn"), "{said}");
}

/// The binary's own files are those of the repository.
#[test]
fn what_is_exported_is_what_is_tested() {
    let world = World::new();
    let to = world.path().join("out").display().to_string();
    for (what, folder) in [("dashboards", "deploy/grafana"), ("rules", "deploy/prometheus")] {
        let output = finish(&mut tokenwatt(&["export", what, "--to", &to]));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        for path in text.lines() {
            let own = repository(folder).join(path.strip_prefix(&format!("{to}/")).expect("below the directory"));
            let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(read(path.as_ref()), read(&own), "{path}");
        }
    }
}
