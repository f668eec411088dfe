//! Whether two engines say the same.

use std::cmp::Ordering;

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use serde_json::Value;

/// Engines add numbers up in different orders.
const RELATIVE: f64 = 1e-9;

#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Unknown,
    Text(String),
    /// Microseconds since 1970-01-01 UTC.
    Time(i64),
    Whole(i64),
    Number(f64),
}

/// Says how the rows differ, in whatever order they come; `None` if they do not.
pub(super) fn difference(ours: &[Vec<Value>], theirs: &[Vec<Value>]) -> Option<String> {
    if ours.len() != theirs.len() {
        return Some(format!("{} rows, not {}", ours.len(), theirs.len()));
    }
    let (ours, theirs) = (sorted(ours), sorted(theirs));
    let pairs = ours.iter().zip(&theirs);
    let differ =
        |(a, b): &(&Vec<Cell>, &Vec<Cell>)| a.len() != b.len() || !a.iter().zip(b.iter()).all(|(a, b)| same(a, b));
    pairs.into_iter().find(differ).map(|(a, b)| format!("{a:?}, not {b:?}"))
}

fn sorted(rows: &[Vec<Value>]) -> Vec<Vec<Cell>> {
    let mut rows: Vec<Vec<Cell>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    rows.sort_by(|a, b| by_keys(a, b).then_with(|| by_numbers(a, b)));
    rows
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Unknown,
        Value::Bool(truth) => Cell::Whole(i64::from(*truth)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Cell::Whole(whole),
            (None, number) => number.map_or(Cell::Unknown, Cell::Number),
        },
        Value::String(text) => match string_to_timestamp_nanos(text) {
            // ours are in UTC and say so; a date alone, or a text of digits, is a text
            Ok(at_ns) if text.ends_with('Z') => Cell::Time(at_ns / 1_000),
            _ => Cell::Text(text.clone()),
        },
        Value::Object(time) if time.contains_key("us") => time["us"].as_i64().map_or(Cell::Unknown, Cell::Time),
        other => Cell::Text(other.to_string()),
    }
}

/// What no engine rounds.
fn by_keys(a: &[Cell], b: &[Cell]) -> Ordering {
    let key = |cell: &Cell| match cell {
        Cell::Text(text) => Some((0, 0, text.clone())),
        Cell::Time(us) => Some((1, *us, String::new())),
        _ => None,
    };
    a.iter().map(key).cmp(b.iter().map(key))
}

fn by_numbers(a: &[Cell], b: &[Cell]) -> Ordering {
    let numbers = |cells: &[Cell]| cells.iter().filter_map(number).collect::<Vec<_>>();
    let (a, b) = (numbers(a), numbers(b));
    let differ = a.iter().zip(&b).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
    differ.unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Whole(whole) => Some(*whole as f64),
        Cell::Number(number) => Some(*number),
        _ => None,
    }
}

fn same(a: &Cell, b: &Cell) -> bool {
    match (number(a), number(b)) {
        (Some(a), Some(b)) => (a - b).abs() <= RELATIVE * a.abs().max(b.abs()).max(1.0),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(value: &Value) -> Vec<Vec<Value>> {
        serde_json::from_value(value.clone()).unwrap()
    }

    /// The order of rows, the spelling of times and the last digits of a sum are no difference; anything else is.
    #[test]
    fn what_is_a_difference() {
        let ours = rows(&json!([["a", 1, 0.1 + 0.2], ["2026-07-08T12:00:00Z", null, 5.0]]));
        let theirs = rows(&json!([[{"us": 1_783_512_000_000_000_i64}, null, 5], ["a", 1, 0.3]]));
        assert_eq!(difference(&ours, &theirs), None);
        for wrong in [
            json!([["a", 1, 0.3]]),
            json!([["a", 1, 0.300_001], [{"us": 1_783_512_000_000_000_i64}, null, 5]]),
            json!([["a", 1, 0.3], [{"us": 1_783_512_000_000_001_i64}, null, 5]]),
            json!([["a", 1, 0.3], [{"us": 1_783_512_000_000_000_i64}, 0, 5]]),
            json!([["b", 1, 0.3], [{"us": 1_783_512_000_000_000_i64}, null, 5]]),
        ] {
            assert!(difference(&ours, &rows(&wrong)).is_some(), "{wrong}");
        }
    }
}
