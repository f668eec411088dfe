//! Generated pages say what the code says. `cargo xtask docs` writes them anew.

use crate::world::repository;

#[test]
fn generated_pages_are_up_to_date() {
    let pages = [
        ("docs/schema.md", telemetry::docs::schema_markdown()),
        ("docs/wire.md", telemetry::docs::wire_markdown()),
        ("docs/metrics.md", query::docs::metrics_markdown()),
        ("docs/collector-metrics.md", collector::docs::metrics_markdown()),
        ("docs/dialects.md", collector::docs::dialects_markdown()),
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
