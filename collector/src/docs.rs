//! `docs/dialects.md`, printed from the tables that normalization reads, and `docs/collector-metrics.md`, printed from the
//! registry that `/metrics` reads.

use std::fmt::Write;

use service::metrics::Registry;
use service::principal::{Principal, Principals, Role};

use crate::counters::Counters;
use crate::normalize::dialect::{self, Alias, DIALECTS, EMITTERS, FIRST_TOKEN_EVENTS, Place, Scale};
use crate::normalize::quality::Flags;
use crate::normalize::{Runaway, redact, sources};
use crate::receive::Writers;

/// The text of `docs/collector-metrics.md`.
pub fn metrics_markdown() -> String {
    let registry = Registry::new();
    // Made only when something runs away.
    Counters::new(&registry).ran_away(&Runaway { key: "host_id", service: String::new(), values: 0, first: false });
    let anybody = Principal {
        name: "…".to_owned(),
        role: Role::Writer,
        token_sha256: None,
        scram: None,
        expires: None,
        certificate: None,
        tenants: Vec::new(),
        regions: vec!["*".to_owned()],
        infrastructure: None,
        items_per_s: None,
        bytes_per_s: None,
        burst_s: 1,
    };
    let clock = service::clock::system();
    let _ = Writers::new(&Principals::new(&[anybody], &clock), &registry, &clock);
    let mut page = String::from(METRICS_HEAD);
    page.push('\n');
    row(&mut page, &["metric", "kind", "labels", "meaning"]);
    row(&mut page, &["---"; 4]);
    for family in registry.families() {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        row(&mut page, &[&format!("`{}`", family.name), family.kind, &labels.join(", "), &family.help]);
    }
    page
}

const METRICS_HEAD: &str = "# Metrics of a collector

What a collector says of itself on `/metrics` of its OTLP/HTTP port. Generated from the collector's registry; `cargo xtask docs`
writes it anew. Counters begin at zero with the process. The main ones are also a row of table `collectors` every ten seconds.
";

/// The text of `docs/dialects.md`.
pub fn dialects_markdown() -> String {
    let mut page = String::from(HEAD);
    emitters(&mut page);
    dialects(&mut page);
    attributes(&mut page);
    table(
        &mut page,
        "Metrics that sample devices and engines",
        &["exporter", "metric", "column of `devices`", "factor where no unit is declared"],
    );
    for (exporter, metric, column, factor) in sources() {
        row(&mut page, &[exporter, &format!("`{metric}`"), column, &factor.to_string()]);
    }
    page.push_str(METRICS);
    list(&mut page, "Events that mark the first token where no attribute gives TTFT", FIRST_TOKEN_EVENTS);
    list(&mut page, "What column `quality` may say", &Flags::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    list(
        &mut page,
        "Dropped before any table unless `collector.keep_content` is set; credentials always",
        redact::content(),
    );
    page
}

const HEAD: &str = "# Dialects

What other emitters call things, and the columns they end in. Generated from `collector::normalize`; `cargo xtask docs`
writes it anew. Every span, metric and log record is also kept as it was sent.
";

const METRICS: &str = "
A unit that the sender declares (`%`, `mW`, `kW.h`, `MiBy`) holds over the factor. Names are also known with `_` for `:`, with
Ray Serve's `ray_` before them, and without `_total`. Points that give a figure for the same device and instant count once, the
larger of them. A MIG slice has a row of its own, `UUID/slice`, but for watts, joules and degrees, which are the whole GPU's. A
point of `vllm:*` without a model, or with `server`, is a router's and samples nothing.
";

fn emitters(page: &mut String) {
    table(page, "Emitters, and the way their calls come in", &["emitter", "calls", "gauges by scrape", "to know"]);
    for emitter in EMITTERS {
        let calls = match emitter.spans {
            Some(dialect) => format!("spans, dialect `{}`", dialect.name),
            None => emitter.otherwise.to_owned(),
        };
        row(page, &[emitter.name, &calls, emitter.scrape, emitter.note]);
    }
}

fn dialects(page: &mut String) {
    table(
        page,
        "Dialects of spans, in the order in which they are asked",
        &["dialect", "a call is known by", "engine", "measured at", "TTFT by default"],
    );
    for dialect in DIALECTS {
        let measured = match dialect.measured_at {
            Place::Server => "server",
            Place::Gateway => "gateway",
            Place::ByKind => "server if SERVER, else client",
            Place::ServerOrGateway => "server if SERVER, else gateway",
        };
        let engine = dialect.engine.unwrap_or_default();
        row(page, &[dialect.name, dialect.sign, engine, measured, dialect.ttft_definition]);
    }
    table(page, "What a streamed call fills, and what its spans never tell", &["dialect", "fills", "never tells"]);
    let mut columns: Vec<&str> = Vec::new();
    for column in DIALECTS.iter().flat_map(|dialect| dialect.fills()) {
        if !columns.contains(&column) && !OF_RESOURCE.contains(&column) {
            columns.push(column);
        }
    }
    for dialect in DIALECTS {
        let fills: Vec<&str> = dialect.fills().collect();
        let never: Vec<&str> = columns.iter().copied().filter(|column| !fills.contains(column)).collect();
        row(page, &[dialect.name, &fills.join(", "), &never.join(", ")]);
    }
    let _ = write!(
        page,
        "\nWhatever the dialect, {} come from the resource, or from the configuration, where the span does not name them.\n",
        OF_RESOURCE.map(|column| format!("`{column}`")).join(", ")
    );
}

/// Columns that a resource or an operator can name for every emitter.
const OF_RESOURCE: [&str; 6] = ["engine", "accelerator", "chips", "model", "quantization", "tensor_parallel"];

fn attributes(page: &mut String) {
    let columns = ["dialect", "attribute", "column of `requests`", "unit as sent"];
    table(page, "Attributes, in the order in which they hold", &columns);
    for dialect in DIALECTS {
        for alias in dialect.aliases {
            attribute(page, dialect.name, &format!("`{}`", alias.key), alias);
        }
        for alias in dialect.usage {
            attribute(page, dialect.name, &format!("`{}` inside its usage", alias.key), alias);
        }
    }
    for alias in dialect::shared() {
        attribute(page, "all", &format!("`{}`", alias.key), alias);
    }
    page.push_str("\nA dialect's own hold before those of all. The first in the list holds and the others stay in `attributes`.\n");
}

fn attribute(page: &mut String, dialect: &str, key: &str, alias: &Alias) {
    let unit = match alias.scale {
        Scale::One => String::new(),
        Scale::Times(factor) => format!("× {factor}"),
        Scale::RustDuration => "text such as `1.5ms`".to_owned(),
        Scale::Instant => "an instant, from the span's start".to_owned(),
    };
    let column = if alias.field.column().is_empty() { "tells what the others include" } else { alias.field.column() };
    row(page, &[dialect, key, column, &unit]);
}

fn table(page: &mut String, title: &str, columns: &[&str]) {
    let _ = write!(page, "\n## {title}\n\n");
    row(page, columns);
    row(page, &vec!["---"; columns.len()]);
}

fn row(page: &mut String, cells: &[&str]) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn list(page: &mut String, title: &str, items: &[&str]) {
    let items: Vec<String> = items.iter().map(|item| format!("`{item}`")).collect();
    let _ = write!(page, "\n## {title}\n\n{}\n", items.join(", "));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// The pages say what the code says.
    #[test]
    fn pages_are_printed_from_the_tables() {
        let pages = [
            ("docs/dialects.md", super::dialects_markdown()),
            ("docs/collector-metrics.md", super::metrics_markdown()),
        ];
        for (page, wanted) in pages {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
            if std::env::var_os("UPDATE_DOCS").is_some() {
                std::fs::write(&path, &wanted).unwrap();
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(found == wanted, "{page} is stale: UPDATE_DOCS=1 cargo test -p collector docs");
        }
    }
}
