use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::datatypes::{Decimal128Type, Int64Type};
use serde_json::{Value, json};
use telemetry::table::{COSTS_1H, REQUESTS_1M, Table};

use super::{OTHER, fold_beyond};

/// Rows of `requests_1m` with the columns of the table.
fn windows(rows: &[Value]) -> RecordBatch {
    windows_of(&REQUESTS_1M, rows)
}

pub(in crate::rollup) fn windows_of(table: &'static Table, rows: &[Value]) -> RecordBatch {
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let schema = table.schema();
    let mut reader = arrow::json::ReaderBuilder::new(Arc::clone(&schema)).build(text.as_bytes()).expect("a reader");
    let batch = reader.next().expect("rows").expect("readable");
    let columns: Vec<ArrayRef> = schema
        .fields()
        .iter()
        .map(|field| {
            batch.column_by_name(field.name()).cloned().unwrap_or_else(|| new_null_array(field.data_type(), rows.len()))
        })
        .collect();
    RecordBatch::try_new(schema, columns).expect("a batch")
}

fn row(time: i64, pool: &str, place: &str, requests: i64) -> Value {
    json!({
        "time": time, "pool": pool, "measured_at": place, "requests": requests, "ttft_scale": 5, "ttft_zero": 0,
        "ttft_idx": [requests], "ttft_cnt": [requests], "ttft_count": requests, "ttft_sum": 1.5, "ttft_min": 0.5 / requests as f64,
        "ttft_max": requests as f64,
    })
}

#[test]
fn the_least_keys_become_one_and_no_call_is_lost() {
    let batch = windows(&[
        row(0, "a", "server", 9),
        row(0, "b", "server", 2),
        row(0, "c", "gateway", 1),
        row(0, "d", "server", 3),
        row(0, "e", "server", 8),
        row(60_000_000, "b", "server", 1),
    ]);
    let (folded, keys) = fold_beyond(&REQUESTS_1M, vec![batch], 2).expect("folded");
    assert_eq!(keys, 3, "of the first window; the second has one");
    let all = arrow::compute::concat_batches(&REQUESTS_1M.schema(), &folded).expect("one");
    let of = |name: &str| all.column_by_name(name).expect(name).clone();
    let (pools, places, requests) = (of("pool"), of("measured_at"), of("requests"));
    let found: Vec<_> = (0..all.num_rows())
        .map(|row| {
            let text = |column: &ArrayRef| column.as_string::<i32>().value(row).to_owned();
            (text(&pools), text(&places), requests.as_primitive::<Int64Type>().value(row))
        })
        .collect();
    let expected =
        [("a", "server", 9), ("e", "server", 8), ("b", "server", 1), (OTHER, "gateway", 1), (OTHER, "server", 5)];
    assert_eq!(found, expected.map(|(pool, place, count)| (pool.to_owned(), place.to_owned(), count)));
    let server = all.num_rows() - 1;
    let lists = of("ttft_idx");
    let indexes = lists.as_list::<i32>().value(server);
    assert_eq!(indexes.as_primitive::<Int64Type>().values(), &[2, 3]);
    assert_eq!(of("ttft_count").as_primitive::<Int64Type>().value(server), 5);
    let number = |name: &str| of(name).as_primitive::<arrow::datatypes::Float64Type>().value(server);
    assert_eq!((number("ttft_sum"), number("ttft_max")), (3.0, 3.0));
}

#[test]
fn few_keys_stay_as_they_are() {
    let batch = windows(&[row(0, "a", "server", 9), row(0, "b", "server", 2)]);
    let (same, keys) = fold_beyond(&REQUESTS_1M, vec![batch.clone()], 2).expect("as it was");
    assert_eq!((same, keys), (vec![batch], 0));
}

/// What hosts and tenants cost stays, apart by part and basis, whoever paid for it.
#[test]
fn no_money_is_lost_where_keys_are_given_up() {
    let row = |host: &str, part: &str, device_us: i64, usd: Option<&str>| {
        let basis = if usd.is_some() { "list, spot" } else { "no price" };
        json!({"time": 0, "host_id": host, "part": part, "basis": basis, "list_cost": usd, "device_us": device_us, "energy_j": 1.5})
    };
    let batch = windows_of(
        &COSTS_1H,
        &[
            row("a", "requests", 9, Some("1.000000000001")),
            row("b", "requests", 3, Some("2.000000000002")),
            row("c", "requests", 2, Some("4.000000000004")),
            row("c", "idle", 1, Some("8.0")),
            row("d", "idle", 1, None),
        ],
    );
    let (folded, keys) = fold_beyond(&COSTS_1H, vec![batch], 1).expect("folded");
    assert_eq!(keys, 4);
    let all = arrow::compute::concat_batches(&COSTS_1H.schema(), &folded).expect("one");
    let of = |name: &str| all.column_by_name(name).expect(name).clone();
    let (hosts, parts, money, joules) = (of("host_id"), of("part"), of("list_cost"), of("energy_j"));
    let mut found: Vec<_> = (0..all.num_rows())
        .map(|row| {
            let text = |column: &ArrayRef| column.as_string::<i32>().value(row).to_owned();
            let usd = money.is_valid(row).then(|| money.as_primitive::<Decimal128Type>().value(row));
            (text(&hosts), text(&parts), usd, joules.as_primitive::<arrow::datatypes::Float64Type>().value(row))
        })
        .collect();
    found.sort_by(|a, b| (&a.0, &a.1, a.2).cmp(&(&b.0, &b.1, b.2)));
    let other = |part: &str, usd, joules| (OTHER.to_owned(), part.to_owned(), usd, joules);
    let expected = [
        other("idle", None, 1.5),
        other("idle", Some(8_000_000_000_000), 1.5),
        other("requests", Some(6_000_000_000_006), 3.0),
        ("a".to_owned(), "requests".to_owned(), Some(1_000_000_000_001), 1.5),
    ];
    assert_eq!(found, expected);
}
