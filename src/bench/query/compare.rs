//! Whether two engines say the same.

use std::cmp::Ordering;

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use serde_json::Value;
use service::error::{Error, Result};

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

/// Places in the answer of the columns that the statement orders its rows by, the first first; none where it does not order them.
///
/// # Errors
/// If it orders them by something that is not in its answer: nobody could tell whether they are in that order.
pub(super) fn order_of(sql: &str, columns: &[String]) -> Result<Vec<usize>> {
    let mut lines = sql.lines().skip_while(|line| !line.starts_with("ORDER BY "));
    let Some(first) = lines.next() else { return Ok(Vec::new()) };
    let rest = lines.take_while(|line| !line.starts_with("LIMIT "));
    let clause: String = std::iter::once(first.trim_start_matches("ORDER BY ")).chain(rest).collect();
    let place = |key: &str| {
        let key = key.trim().trim_end_matches(" DESC");
        let name = key.rsplit('.').next().unwrap_or(key).trim_matches('"');
        let place = match name.parse::<usize>() {
            Ok(number) => number.checked_sub(1).filter(|place| *place < columns.len()),
            Err(_) => columns.iter().position(|column| column == name),
        };
        place.ok_or_else(|| Error::internal(format!("it orders rows by `{key}`, which is not in its answer")))
    };
    clause.split(',').map(place).collect()
}

/// Says how the rows differ, where `order` are the places of the columns that they are ordered by: rows with other values there
/// stand in the same order on both sides, and those with the same values in any. `None` if they do not differ.
pub(super) fn difference(ours: &[Vec<Value>], theirs: &[Vec<Value>], order: &[usize]) -> Option<String> {
    if ours.len() != theirs.len() {
        return Some(format!("{} rows, not {}", ours.len(), theirs.len()));
    }
    let (ours, theirs) = (cells(ours), cells(theirs));
    let is_tied = |a: &Vec<Cell>, b: &Vec<Cell>| {
        order.iter().all(|place| match (a.get(*place), b.get(*place)) {
            (Some(a), Some(b)) => same(a, b),
            _ => false,
        })
    };
    let misplaced = ours.iter().zip(&theirs).position(|(a, b)| !is_tied(a, b));
    if let Some((at, (a, b))) = misplaced.and_then(|at| Some((at, ours.get(at).zip(theirs.get(at))?))) {
        return Some(format!("row {at} in the order asked for is {a:?}, not {b:?}"));
    }
    let mut rest = theirs.as_slice();
    for tied in ours.chunk_by(is_tied) {
        let (beside, after) = rest.split_at_checked(tied.len())?;
        rest = after;
        let (tied, beside) = (sorted(tied), sorted(beside));
        let differ = |(a, b): &(&&Vec<Cell>, &&Vec<Cell>)| {
            a.len() != b.len() || !a.iter().zip(b.iter()).all(|(a, b)| same(a, b))
        };
        if let Some((a, b)) = tied.iter().zip(&beside).find(differ) {
            return Some(format!("{a:?}, not {b:?}"));
        }
    }
    None
}

fn cells(rows: &[Vec<Value>]) -> Vec<Vec<Cell>> {
    rows.iter().map(|row| row.iter().map(cell).collect()).collect()
}

fn sorted(rows: &[Vec<Cell>]) -> Vec<&Vec<Cell>> {
    let mut rows: Vec<_> = rows.iter().collect();
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

    /// The order of rows that have none, the spelling of times and the last digits of a sum are no difference; anything else is.
    #[test]
    fn what_is_a_difference() {
        let ours = rows(&json!([["a", 1, 0.1 + 0.2], ["2026-07-08T12:00:00Z", null, 5.0]]));
        let theirs = rows(&json!([[{"us": 1_783_512_000_000_000_i64}, null, 5], ["a", 1, 0.3]]));
        assert_eq!(difference(&ours, &theirs, &[]), None);
        for wrong in [
            json!([["a", 1, 0.3]]),
            json!([["a", 1, 0.300_001], [{"us": 1_783_512_000_000_000_i64}, null, 5]]),
            json!([["a", 1, 0.3], [{"us": 1_783_512_000_000_001_i64}, null, 5]]),
            json!([["a", 1, 0.3], [{"us": 1_783_512_000_000_000_i64}, 0, 5]]),
            json!([["b", 1, 0.3], [{"us": 1_783_512_000_000_000_i64}, null, 5]]),
        ] {
            assert!(difference(&ours, &rows(&wrong), &[]).is_some(), "{wrong}");
        }
    }

    /// Rows that claim an order are in it: only those that are tied may change places.
    #[test]
    fn an_order_that_was_asked_for_is_kept() {
        let ours = rows(&json!([["a", 3], ["b", 2], ["c", 2], ["d", 1]]));
        let tied = rows(&json!([["a", 3], ["c", 2], ["b", 2], ["d", 1]]));
        assert_eq!(difference(&ours, &tied, &[1]), None);
        assert!(difference(&ours, &tied, &[1, 0]).is_some());
        let reversed: Vec<_> = ours.iter().rev().cloned().collect();
        assert!(difference(&ours, &reversed, &[1]).is_some());
        let mixed = rows(&json!([["b", 3], ["a", 2], ["c", 2], ["d", 1]]));
        assert!(difference(&ours, &mixed, &[1]).is_some());
        // what the other engine added up in another order is tied to itself
        let close = rows(&json!([["a", 0.3], ["b", 0.2]]));
        assert_eq!(difference(&close, &rows(&json!([["a", 0.1 + 0.2], ["b", 0.2]])), &[1]), None);
    }

    #[test]
    fn the_order_is_read_from_the_statement() {
        let columns = ["hour", "region", "index"].map(str::to_owned);
        let order = |sql: &str| order_of(sql, &columns).ok();
        assert_eq!(order("SELECT 1\nGROUP BY region"), Some(vec![]));
        assert_eq!(order("SELECT 1\nORDER BY 1, r.region DESC,\n  \"index\"\nLIMIT 3"), Some(vec![0, 1, 2]));
        assert_eq!(order("WITH a AS (\n  SELECT 1\n  ORDER BY elsewhere\n)\nSELECT 1"), Some(vec![]));
        assert_eq!(order("SELECT 1\nORDER BY elsewhere"), None);
        assert_eq!(order("SELECT 1\nORDER BY 4"), None);
    }
}
