//! `docs/dialects.md`, printed from the tables that normalization reads.

use std::fmt::Write;

use crate::normalize::dialect::{self, FIRST_TOKEN_EVENTS, Place, Scale};
use crate::normalize::{redact, sources};

/// The text of `docs/dialects.md`.
pub fn dialects_markdown() -> String {
    let mut page = String::from(HEAD);
    table(
        &mut page,
        "Emitters of calls, in the order in which they are asked",
        &["dialect", "known by", "engine", "measured at", "TTFT by default"],
    );
    for dialect in dialect::DIALECTS {
        let measured = match dialect.measured_at {
            Place::Server => "server",
            Place::Gateway => "gateway",
            Place::ByKind => "server if SERVER, else client",
            Place::ServerOrGateway => "server if SERVER, else gateway",
        };
        let engine = dialect.engine.unwrap_or_default();
        row(&mut page, &[dialect.name, dialect.sign, engine, measured, dialect.ttft_definition]);
    }
    table(
        &mut page,
        "Attributes, in the order in which they hold",
        &["attribute", "column of `requests`", "unit as sent"],
    );
    for alias in dialect::table().filter(|alias| !alias.field.column().is_empty()) {
        let unit = match alias.scale {
            Scale::One => String::new(),
            Scale::Times(factor) => format!("× {factor}"),
            Scale::RustDuration => "text such as `1.5ms`".to_owned(),
        };
        row(&mut page, &[&format!("`{}`", alias.key), alias.field.column(), &unit]);
    }
    table(&mut page, "Metrics that sample devices and engines", &["metric", "column of `devices`", "factor"]);
    for (metric, column, factor) in sources() {
        row(&mut page, &[&format!("`{metric}`"), column, &factor.to_string()]);
    }
    list(&mut page, "Events that mark the first token where no attribute gives TTFT", FIRST_TOKEN_EVENTS);
    list(
        &mut page,
        "Dropped before any table unless `collector.keep_content` is set; credentials always",
        redact::content(),
    );
    page
}

const HEAD: &str = "# Dialects

What other emitters call things, and the columns they end in. Generated from `collector::normalize`; `cargo xtask docs`
writes it anew. Where several attributes are sent for one column, the first in the list holds and the others stay in
`attributes`. A metric with unit `%` and factor 1 is divided by 100. Every span, metric and log record is also kept as it was
sent.
";

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
