use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Decimal128Type;
use serde_json::{Value, json};
use telemetry::table::COSTS_1H;

use super::{bound, folded, keyed};
use crate::rollup::fold::tests::windows_of;
use crate::views::VIEWS;

fn hours(rows: &[Value]) -> RecordBatch {
    windows_of(&COSTS_1H, rows)
}

fn row(hour: i64, (team, user): (Option<&str>, &str), usd: &str) -> Value {
    let allocation = json!({"team": team, "user": user}).to_string();
    json!({"time": hour, "part": "requests", "tenant": "acme", "list_cost": usd, "allocation": allocation})
}

/// Cost by hour and allocation.
fn costs(batches: &[RecordBatch]) -> BTreeMap<(i64, String), i128> {
    let mut costs = BTreeMap::new();
    for batch in batches {
        let of = |name: &str| batch.column_by_name(name).expect(name);
        let times = of("time").as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
        let (texts, usd) = (of("allocation").as_string::<i32>(), of("list_cost").as_primitive::<Decimal128Type>());
        for at in 0..batch.num_rows() {
            let text = if texts.is_valid(at) { texts.value(at) } else { "" };
            assert!(costs.insert((times.value(at), text.to_owned()), usd.value(at)).is_none(), "one row of {text}");
        }
    }
    costs
}

/// A key that runs away costs its own detail: the values that cost most stay, each hour by itself, and other keys keep theirs.
#[test]
fn values_beyond_the_most_become_one() {
    let hour = 3_600_000_000;
    let rows = [
        row(0, (Some("a"), "u1"), "3.000000000001"),
        row(0, (Some("a"), "u2"), "1"),
        row(0, (Some("b"), "u3"), "2"),
        row(0, (None, "u4"), "1"),
        row(0, (Some("a"), "u5"), "0.5"),
        row(hour, (Some("a"), "u2"), "7"),
    ];
    let (bounded, values) = bound(&COSTS_1H, vec![hours(&rows)], 2).expect("bounded");
    assert_eq!(values, 3, "u2, u4 and u5 of the first hour");
    let usd = |cents: i128| cents * 10_000_000_000;
    let expected = BTreeMap::from([
        ((0, r#"{"team":"a","user":"u1"}"#.to_owned()), usd(300) + 1),
        ((0, r#"{"team":"b","user":"u3"}"#.to_owned()), usd(200)),
        ((0, r#"{"team":"a","user":"__other__"}"#.to_owned()), usd(150)),
        ((0, r#"{"team":null,"user":"__other__"}"#.to_owned()), usd(100)),
        ((hour, r#"{"team":"a","user":"u2"}"#.to_owned()), usd(700)),
    ]);
    assert_eq!(costs(&bounded), expected);
    let few = hours(&rows[..2]);
    let (same, values) = bound(&COSTS_1H, vec![few.clone()], 2).expect("bounded");
    assert_eq!((same, values), (vec![few], 0), "within the bound nothing is touched");
}

/// A fleet without keys has the rows that it had.
#[test]
fn rows_without_keys_are_not_looked_at() {
    let plain = hours(&[
        json!({"time": 0, "tenant": "acme", "list_cost": "1"}),
        json!({"time": 0, "tenant": "acme", "list_cost": "2"}),
    ]);
    let (same, values) = bound(&COSTS_1H, vec![plain.clone()], 1).expect("bounded");
    assert_eq!((same, values), (vec![plain], 0));
    assert_eq!(folded(r#"{"team":"a","user":null}"#).as_deref(), Some(r#"{"team":"__other__","user":"__other__"}"#));
}

/// Every place that knows of keys is reached, and nothing is changed where there are none.
#[test]
fn views_are_told_the_keys() {
    let told = |keys: &str| -> Vec<_> {
        VIEWS.iter().filter(|view| keyed(view.sql, keys) != view.sql).map(|view| view.name).collect()
    };
    assert_eq!(told("team"), ["cost_per_key", "costs_hours", "budget_status"]);
    assert!(told("").is_empty());
    let hours = VIEWS.iter().find(|view| view.name == "costs_hours").expect("a view");
    let sql = keyed(hours.sql, "team,cost_center");
    assert!(!sql.contains('$') && sql.matches("'team,cost_center'").count() == 8, "{sql}");
}
