//! Generated pages say what the code says. `cargo xtask docs` writes them anew.

mod batching;

use crate::world::repository;

#[test]
fn generated_pages_are_up_to_date() {
    let points = inference_node::docs::batching().expect("the simulated engine runs");
    let pages = [
        ("docs/calibration.md", inference_node::docs::calibration_markdown().expect("the simulated engine runs")),
        ("docs/batching.md", inference_node::docs::batching_markdown(&points).expect("the simulated engine runs")),
        ("docs/images/batching.svg", batching::svg(&points)),
        ("docs/schema.md", telemetry::docs::schema_markdown()),
        ("docs/wire.md", telemetry::docs::wire_markdown()),
        ("docs/metrics.md", query::docs::metrics_markdown()),
        ("docs/collector-metrics.md", collector::docs::metrics_markdown()),
        ("docs/power.md", telemetry::power::markdown()),
        ("docs/rufus.md", telemetry::rufus::markdown()),
        ("docs/dialects.md", collector::docs::dialects_markdown()),
        ("ui/editor/functions.json", query::docs::functions_json()),
    ];
    for (path, wanted) in pages {
        let file = repository(path);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&file, &wanted).unwrap_or_else(|error| panic!("write {path}: {error}"));
        }
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(found == wanted, "{path} is not what the code says; `cargo xtask docs` writes it anew");
    }
}
