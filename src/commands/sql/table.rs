//! An answer as aligned text: numbers to the right, unknown as an em dash, and what the answer says of itself below.

use serde_json::Value;
use telemetry::contract::{AnswerColumn, SqlAnswer};

/// What stands for NULL.
const UNKNOWN: &str = "—";
/// Widest cell; longer ones are cut with an ellipsis.
const CELL_MAX: usize = 80;

/// The whole answer as text.
pub(crate) fn render(answer: &SqlAnswer) -> String {
    let header: Vec<String> = answer.columns.iter().map(title).collect();
    let rows: Vec<Vec<String>> = answer.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let widths: Vec<usize> = (0..header.len()).map(|column| width(&header, &rows, column)).collect();
    let right: Vec<bool> = (0..header.len()).map(|column| numeric(answer, column)).collect();
    let mut text = line(&header, &widths, &right);
    text.push_str(&widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join("  "));
    text.push('\n');
    for row in &rows {
        text.push_str(&line(row, &widths, &right));
    }
    text.push_str(&footer(answer));
    text
}

fn title(column: &AnswerColumn) -> String {
    match &column.unit {
        Some(unit) if !unit.is_empty() => format!("{} [{unit}]", column.name),
        _ => column.name.clone(),
    }
}

fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => UNKNOWN.to_owned(),
        Value::String(text) => text.replace(['\n', '\r', '\t'], " "),
        other => other.to_string(),
    };
    if text.chars().count() <= CELL_MAX {
        return text;
    }
    text.chars().take(CELL_MAX - 1).chain(['…']).collect()
}

fn width(header: &[String], rows: &[Vec<String>], column: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(column));
    cells.chain(header.get(column)).map(|text| text.chars().count()).max().unwrap_or(0)
}

/// A column is set to the right when all it holds are numbers, or decimals as text.
fn numeric(answer: &SqlAnswer, column: usize) -> bool {
    let kind = answer.columns.get(column).map_or("", |column| column.kind.as_str()).to_lowercase();
    ["int", "float", "double", "decimal", "real"].iter().any(|name| kind.contains(name))
}

fn line(cells: &[String], widths: &[usize], right: &[bool]) -> String {
    let padded = cells.iter().zip(widths).zip(right).map(|((text, width), right)| {
        let space = " ".repeat(width.saturating_sub(text.chars().count()));
        if *right { format!("{space}{text}") } else { format!("{text}{space}") }
    });
    let mut line = padded.collect::<Vec<_>>().join("  ").trim_end().to_owned();
    line.push('\n');
    line
}

fn footer(answer: &SqlAnswer) -> String {
    let mut parts = vec![match answer.rows.len() {
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    }];
    if answer.truncated {
        parts.push("cut at the limit".to_owned());
    }
    parts.push(format!("{:.0} ms", answer.elapsed_ms));
    if let Some(freshness) = answer.freshness {
        parts.push(format!("newest row {:.1} s old", freshness.lag_s));
    }
    let versions: Vec<String> = answer.version.iter().map(|(table, version)| format!("{table} v{version}")).collect();
    if !versions.is_empty() {
        parts.push(versions.join(", "));
    }
    let missing = answer.notice.iter().map(|notice| format!("{notice}\n"));
    missing.chain([format!("({})\n", parts.join(" · "))]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn column(name: &str, kind: &str, unit: Option<&str>) -> AnswerColumn {
        AnswerColumn { name: name.to_owned(), kind: kind.to_owned(), unit: unit.map(str::to_owned), comment: None }
    }

    /// Numbers stand right, text left, NULL is a dash and never 0, and the version is named.
    #[test]
    fn table() {
        let answer = SqlAnswer {
            columns: vec![column("region", "Utf8", None), column("ttft", "Float64", Some("s"))],
            rows: vec![vec![json!("eu-west-1"), json!(0.25)], vec![json!("x\ny"), Value::Null]],
            version: BTreeMap::from([("requests".to_owned(), 7)]),
            elapsed_ms: 12.4,
            ..SqlAnswer::default()
        };
        let expected = "\
region     ttft [s]
─────────  ────────
eu-west-1      0.25
x y               —
(2 rows · 12 ms · requests v7)
";
        assert_eq!(render(&answer), expected);
    }
}
