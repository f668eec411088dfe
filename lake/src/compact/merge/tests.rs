use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, MapBuilder, RecordBatch, StringArray, StringBuilder,
    TimestampMicrosecondArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimestampMicrosecondType};
use bytes::Bytes;
use service::{Kind, Result};
use telemetry::table::{REQUESTS, TABLES, TOKENS, Table};

use super::digest::Digest;
use super::{Input, Merged, PIECE_ROWS, open};
use crate::encode::{Encoded, encode};

/// Merges files that are not in order.
fn merge(table: &'static Table, files: Vec<Bytes>, rows: u64) -> Result<Encoded> {
    let files = files.into_iter().map(|body| Input { body, sorted: false }).collect();
    super::merge(table, files, rows).map(|merged| merged.encoded)
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect())
        .expect("a batch")
}

fn times(us: &[i64]) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(us.to_vec()).with_timezone("UTC"))
}

fn attributes(values: &[Option<&str>]) -> ArrayRef {
    let Some(column) = REQUESTS.column("attributes") else { panic!("requests have attributes") };
    let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for value in values {
        if let Some(value) = value {
            maps.keys().append_value("note");
            maps.values().append_value(value);
        }
        maps.append(value.is_some()).expect("keys and values match");
    }
    let built = maps.finish();
    arrow::compute::cast(&built, &column.kind.arrow()).expect("the registry's spelling of a map")
}

fn read(body: Bytes) -> RecordBatch {
    let batches: Vec<_> =
        open(&TOKENS, body, PIECE_ROWS).expect("a file").map(|batch| batch.expect("readable")).collect();
    concat_batches(&batches[0].schema(), &batches).expect("one schema")
}

#[test]
fn rows_of_all_files_come_back_in_the_order_of_the_table_with_their_maps() {
    let first = batch(vec![
        ("time", times(&[30, 10, 20])),
        ("cluster", Arc::new(StringArray::from(vec![Some("c"), Some("c"), None]))),
        ("model", Arc::new(StringArray::from(vec![Some("b"), Some("a"), Some("a")]))),
        ("attributes", attributes(&[Some("thirty"), Some("ten"), None])),
    ]);
    // An older writer, which did not know of attributes but of energy.
    let second = batch(vec![
        ("time", times(&[5, 7])),
        ("model", Arc::new(StringArray::from(vec![None, Some("a")]))),
        ("ttft_s", Arc::new(Float64Array::from(vec![f64::NAN, -0.0]))),
    ]);
    let files = [first, second].map(|rows| encode(&REQUESTS, &[rows]).expect("encodable").body);
    let merged = merge(&REQUESTS, files.into(), 5).expect("merged");
    assert_eq!(merged.rows, 5);
    let rows = read(merged.body);
    let order = rows["time"].as_primitive::<TimestampMicrosecondType>().values().to_vec();
    assert_eq!(order, [10, 7, 20, 30, 5], "model, cluster, time, unknown ones last");
    let notes = rows["attributes"].as_map();
    let note =
        |row: usize| notes.is_valid(row).then(|| notes.value(row).column(1).as_string::<i32>().value(0).to_owned());
    let found: Vec<_> = (0..5).map(note).collect();
    assert_eq!(found, [Some("ten".to_owned()), None, None, Some("thirty".to_owned()), None]);
    let time = &merged.stats["time"];
    assert_eq!(format!("{:?} {:?}", time.min, time.max), "Some(Time(5)) Some(Time(30))");
    assert_eq!(merged.stats["cluster"].nulls, Some(3));
}

#[test]
fn every_table_of_the_registry_can_be_merged() {
    for table in TABLES {
        let schema = table.schema();
        let row = |us: i64| {
            let columns = schema.fields().iter().map(|field| match field.data_type() {
                DataType::Timestamp(..) if !field.is_nullable() => times(&[us]),
                kind => arrow::array::new_null_array(kind, 1),
            });
            RecordBatch::try_new(Arc::clone(&schema), columns.collect()).expect("a batch")
        };
        let files = [9, 3].map(|us| encode(table, &[row(us)]).expect("encodable").body);
        let merged = merge(table, files.into(), 2).unwrap_or_else(|e| panic!("{}: {e}", table.name));
        assert_eq!(read(merged.body).num_columns(), schema.fields().len(), "{}", table.name);
    }
}

#[test]
fn a_file_with_fewer_rows_than_the_log_says_is_not_replaced() {
    let rows = batch(vec![("time", times(&[1])), ("index", Arc::new(Int64Array::from(vec![1])))]);
    let body = encode(&TOKENS, &[rows]).expect("encodable").body;
    let error = merge(&TOKENS, vec![body.clone(), body], 3).err().expect("a row is missing");
    assert!(error.kind() == Kind::Corrupt && error.message().contains("2 rows, not 3"), "{error}");
    assert_eq!(merge(&TOKENS, vec![Bytes::from_static(b"PAR1")], 1).err().expect("torn").kind(), Kind::Corrupt);
}

fn digest(batch: &RecordBatch) -> Digest {
    let mut digest = Digest::default();
    digest.add(batch);
    digest
}

#[test]
fn a_digest_sees_a_changed_value_and_not_a_changed_order() {
    let rows = |indices: &[i64], notes: &[Option<&str>]| {
        let index: ArrayRef = Arc::new(Int64Array::from(indices.to_vec()));
        let model: ArrayRef = Arc::new(StringArray::from(notes.to_vec()));
        digest(&batch(vec![("index", index), ("model", model)]))
    };
    let whole = rows(&[1, 2, 4], &[Some("a"), None, Some("b")]);
    assert_eq!(rows(&[4, 1, 2], &[None, Some("b"), Some("a")]), whole);
    assert_ne!(rows(&[1, 2, 5], &[Some("a"), None, Some("b")]), whole);
    assert_ne!(rows(&[1, 2, 4], &[Some("a"), None, Some("a")]), whole);
    assert_ne!(rows(&[1, 2, 4], &[Some("a"), Some(""), Some("b")]), whole);
    assert_ne!(rows(&[1, 2], &[Some("a"), Some("b")]), whole);
    let maps = |notes: &[Option<&str>]| digest(&batch(vec![("attributes", attributes(notes))]));
    assert_eq!(maps(&[None, Some("b"), Some("a")]), maps(&[Some("a"), Some("b"), None]));
    assert_ne!(maps(&[None, Some("b"), Some("a")]), maps(&[None, Some("b"), Some("c")]));
}

#[test]
fn more_rows_than_one_piece_are_all_in_order() {
    let count = 3 * 8_192 + 5_i64;
    let shuffled: Vec<_> = (0..count).map(|n| n * 7_919 % count).collect();
    let rows = |part: &[i64]| {
        let time = times(part);
        batch(vec![("time", time), ("index", Arc::new(Int64Array::from(part.to_vec())))])
    };
    let (first, second) = shuffled.split_at(10_000);
    let files = [first, second].map(|part| encode(&TOKENS, &[rows(part)]).expect("encodable").body);
    let merged = merge(&TOKENS, files.into(), count.unsigned_abs()).expect("merged");
    let found = read(merged.body);
    assert!(found["index"].as_primitive::<Int64Type>().values().iter().copied().eq(0..count));
}

#[test]
fn more_rows_than_stay_in_memory_are_put_in_order_too() {
    let count = 300_007_i64;
    let shuffled: Vec<_> = (0..count).map(|n| n * 7_919 % count).collect();
    let rows = batch(vec![("time", times(&shuffled)), ("index", Arc::new(Int64Array::from(shuffled.clone())))]);
    let body = encode(&TOKENS, &[rows]).expect("encodable").body;
    let merged = merge(&TOKENS, vec![body], count.unsigned_abs()).expect("merged");
    let found = read(merged.body);
    assert!(found["index"].as_primitive::<Int64Type>().values().iter().copied().eq(0..count));
}

#[test]
fn files_in_order_are_streamed_beside_one_that_is_not_and_a_twin_is_found_across_pieces() {
    let count = 5 * PIECE_ROWS as i64;
    let ids =
        |rows: &[i64]| -> ArrayRef { Arc::new(StringArray::from_iter_values(rows.iter().map(|n| format!("{n:08}")))) };
    let rows = |rows: &[i64]| {
        let span: ArrayRef = Arc::new(StringArray::from(vec!["s"; rows.len()]));
        let zeros: ArrayRef = Arc::new(Int64Array::from(vec![0; rows.len()]));
        batch(vec![
            ("time", times(rows)),
            ("trace_id", ids(rows)),
            ("request_span_id", span),
            ("choice", Arc::clone(&zeros)),
            ("index", zeros),
        ])
    };
    let (even, odd): (Vec<_>, Vec<_>) = (0..count).partition(|n| n % 2 == 0);
    // In reverse order, and every seventh is there again.
    let late: Vec<_> = (0..count).rev().filter(|n| n % 7 == 0).collect();
    let files = [(even, true), (odd, true), (late.clone(), false)]
        .map(|(part, sorted)| Input { body: encode(&TOKENS, &[rows(&part)]).expect("encodable").body, sorted });
    let total = count.unsigned_abs() + late.len() as u64;
    let Merged { encoded, removed } = super::merge(&TOKENS, files.into(), total).expect("merged");
    assert_eq!((encoded.rows, removed.rows, removed.at_odds), (count.unsigned_abs(), late.len() as u64, 0));
    let time = &encoded.stats["time"];
    assert_eq!(format!("{:?} {:?}", time.min, time.max), format!("Some(Time(0)) Some(Time({}))", count - 1));
    let found = read(encoded.body);
    assert!(found["time"].as_primitive::<TimestampMicrosecondType>().values().iter().copied().eq(0..count));
}

#[test]
fn rows_that_do_not_say_which_span_they_are_of_are_never_twins() {
    let rows = || batch(vec![("time", times(&[1])), ("index", Arc::new(Int64Array::from(vec![1])))]);
    let empty = || {
        let text = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
        let zero: ArrayRef = Arc::new(Int64Array::from(vec![0]));
        batch(vec![
            ("time", times(&[1])),
            ("trace_id", text("")),
            ("request_span_id", text("s")),
            ("choice", Arc::clone(&zero)),
            ("index", zero),
        ])
    };
    let bodies = [rows(), rows(), empty(), empty()].map(|rows| encode(&TOKENS, &[rows]).expect("encodable").body);
    assert_eq!(merge(&TOKENS, bodies.into(), 4).expect("merged").rows, 4);
}
