//! Documents generated from the view registry.

use std::{collections::BTreeMap, fmt::Write};

use datafusion::{execution::SessionStateBuilder, logical_expr::Documentation};
use telemetry::table::Column;

use crate::functions;
use crate::system;
use crate::views::{VIEWS, View};

/// `docs/metrics.md`: every view with its definition, the unit and meaning of its columns, and its SQL.
#[must_use]
pub fn metrics_markdown() -> String {
    let mut text = String::from(HEAD);
    for view in VIEWS {
        let _ = writeln!(text, "- [`{name}`](#{name}): {first}", name = view.name, first = first_sentence(view.doc));
    }
    for view in system::views::VIEWS {
        let first = first_sentence(view.doc);
        let _ = writeln!(text, "- [`system.{name}`](#system{name}): {first}", name = view.name);
    }
    for view in VIEWS {
        section(&mut text, view, "");
    }
    for view in system::views::VIEWS {
        section(&mut text, view, "system.");
    }
    text
}

const HEAD: &str = "# Metrics\n\n\
    Every number that Tokenwatt shows comes from one of these views; each is plain SQL over the tables of `docs/schema.md` and can be \
    queried like a table. This page is generated from the views themselves (`UPDATE_DOCS=1 cargo test -p query docs`).\n\n\
    Unknown is NULL, never 0. A cost names its basis, an energy its boundary, method and confidence. Windows are minutes, named by their \
    start; the minute still running holds what has been seen of it so far. Ask every view for a stretch of `time`: it reads only the \
    files of that stretch and a little around it.\n\n";

fn first_sentence(doc: &str) -> &str {
    let end = doc.find(". ").map_or(doc.len(), |at| at + 1);
    doc.get(..end).unwrap_or(doc)
}

fn section(text: &mut String, view: &View, schema: &str) {
    let _ = write!(text, "\n## {schema}{}\n\n{}\n", view.name, view.doc);
    if !view.columns.is_empty() {
        text.push_str("\n| column | unit | meaning |\n|---|---|---|\n");
        for column in view.columns {
            let unit = if column.unit.is_empty() { String::new() } else { format!("`{}`", column.unit) };
            let _ = writeln!(text, "| `{}` | {} | {} |", column.name, unit, column.doc);
        }
    }
    for table in view.passes {
        let passed: Vec<_> = table
            .columns()
            .filter(|column| is_passed(view, column))
            .map(|column| format!("`{}`", column.name))
            .collect();
        let _ = write!(text, "\nColumns as in `{}`: {}.\n", table.name, passed.join(", "));
    }
    let _ = write!(text, "\n```sql\n{}\n```\n", view.sql.trim_end());
}

/// `ui/editor/functions.json`: every function that a statement may call, aliases too, each with how it is written where that is known. The
/// editor of the SQL page completes them.
#[must_use]
pub fn functions_json() -> String {
    let state = SessionStateBuilder::new().with_default_features().build();
    let scalar = state.scalar_functions().values().cloned().chain(functions::scalar());
    let aggregate = state.aggregate_functions().values().cloned().chain(functions::aggregate());
    let window = state.window_functions().values().cloned().chain(functions::window());
    let mut all = BTreeMap::new();
    let mut put = |name: &str, aliases: &[String], documentation: Option<&Documentation>| {
        let written = documentation.map_or("", |documentation| documentation.syntax_example.as_str());
        // One line is enough to remember a function by.
        let written = written.lines().next().unwrap_or_default();
        for known in aliases.iter().map(String::as_str).chain([name]) {
            let arguments = written.split_once('(').map(|(_, rest)| format!("{known}({rest}"));
            all.insert(known.to_owned(), arguments.unwrap_or_default());
        }
    };
    scalar.for_each(|function| put(function.name(), function.aliases(), function.documentation()));
    aggregate.for_each(|function| put(function.name(), function.aliases(), function.documentation()));
    window.for_each(|function| put(function.name(), function.aliases(), function.documentation()));
    let lines: Vec<String> = all.iter().map(|pair| serde_json::to_string(&pair)).filter_map(Result::ok).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// Whether the view's SQL names the table's column and does not redefine it.
fn is_passed(view: &View, column: &Column) -> bool {
    let redefined = view.columns.iter().any(|own| own.name == column.name);
    // what stands in a comment is nothing, and in quotes a value
    let lines: Vec<_> = view.sql.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
    let code = lines.join("\n");
    let parts = code.split('\'').step_by(2);
    let mut words = parts.flat_map(|part| part.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')));
    !redefined && words.any(|word| word == column.name)
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    /// `docs/metrics.md` says what the views say.
    #[test]
    fn docs_metrics_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
        let wanted = super::metrics_markdown();
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &wanted).expect("docs/ is writable");
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == wanted, "docs/metrics.md is stale: UPDATE_DOCS=1 cargo test -p query docs");
    }

    /// Functions of SQL and of ours, by their other names too, are completed with their arguments.
    #[test]
    fn functions_are_told_with_their_arguments() {
        let text = super::functions_json();
        let all: Vec<(String, String)> = serde_json::from_str(&text).expect("JSON");
        let of = |name: &str| all.iter().find(|(known, _)| known == name).map(|(_, written)| written.as_str());
        assert!(of("date_bin").is_some_and(|written| written.starts_with("date_bin(interval")), "{text}");
        assert!(of("time_bucket").is_some_and(|written| written.starts_with("time_bucket(interval")), "{text}");
        for name in ["count", "approx_percentile_cont", "row_number", "buckets_quantile", "coalesce"] {
            assert!(of(name).is_some(), "{name} is missing: {text}");
        }
        assert_eq!(of("no_such_function"), None);
    }
}
