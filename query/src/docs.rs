//! Documents generated from the view registry.

use std::fmt::Write;

use telemetry::table::Column;

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
}
