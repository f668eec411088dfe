use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, Decimal128Array, Float64Array, Int64Array, MapBuilder, RecordBatch, StringBuilder, StringViewArray,
        TimestampMicrosecondArray,
    },
    datatypes::DataType,
};
use serde_json::json;

use super::{Encoder, parquet, rows, sql_type};

fn batch() -> RecordBatch {
    let mut attributes = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    attributes.keys().append_value("k");
    attributes.values().append_value("v");
    attributes.append(true).expect("balanced");
    attributes.append(false).expect("balanced");
    let money = Decimal128Array::from(vec![Some(37_500), None]).with_precision_and_scale(38, 12).expect("fits");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", Arc::new(TimestampMicrosecondArray::from(vec![1, 1_796_000_000_000_000]).with_timezone("UTC"))),
        ("usd", Arc::new(money)),
        ("ratio", Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(0.5)]))),
        ("count", Arc::new(Int64Array::from(vec![Some(7), None]))),
        ("name", Arc::new(StringViewArray::from(vec![Some("a \"b\", c"), None]))),
        ("attributes", Arc::new(attributes.finish())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .expect("a batch")
}

fn whole(mut encoder: Encoder, batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = encoder.head();
    bytes.extend(encoder.batch(batch).expect("rows"));
    bytes.extend(encoder.end().expect("an end"));
    bytes
}

#[test]
fn json_keeps_every_digit_and_says_null_for_unknown() {
    assert_eq!(
        rows(&batch()),
        vec![
            vec![
                json!("1970-01-01T00:00:00.000001Z"),
                json!("0.000000037500"),
                json!(null),
                json!(7),
                json!("a \"b\", c"),
                json!({"k": "v"})
            ],
            vec![json!("2026-11-30T00:53:20.000000Z"), json!(null), json!(0.5), json!(null), json!(null), json!(null)],
        ]
    );
}

#[test]
fn csv_quotes_what_it_must() {
    let batch = batch();
    let text = String::from_utf8(whole(Encoder::Csv(batch.schema()), &batch)).expect("text");
    let mut lines = text.split("\r\n");
    assert_eq!(lines.next(), Some("time,usd,ratio,count,name,attributes"));
    let first = r#"1970-01-01T00:00:00.000001Z,0.000000037500,,7,"a ""b"", c","{""k"":""v""}""#;
    assert_eq!(lines.next(), Some(first));
    assert_eq!(lines.next(), Some("2026-11-30T00:53:20.000000Z,,0.5,,,"));
}

/// PostgreSQL and DuckDB read it the same way: nothing is NULL, a pair of quotes is an empty text.
#[test]
fn csv_tells_unknown_from_empty() {
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some(""), None, Some("a")]));
    let batch = RecordBatch::try_from_iter_with_nullable([("a", Arc::clone(&texts), true), ("b", texts, true)]);
    let batch = batch.expect("a batch");
    let text = whole(Encoder::Csv(batch.schema()), &batch);
    assert_eq!(String::from_utf8(text).expect("text"), "a,b\r\n\"\",\"\"\r\n,\r\na,a\r\n");
}

#[test]
fn machines_get_back_what_was_asked() {
    let batch = batch();
    let stream = whole(Encoder::arrow(&batch.schema()).expect("an encoder"), &batch);
    let mut reader = arrow::ipc::reader::StreamReader::try_new(stream.as_slice(), None).expect("a reader");
    assert_eq!(reader.next().expect("one batch").expect("readable").num_rows(), 2);
    let file = parquet(&batch.schema(), std::slice::from_ref(&batch)).expect("a file");
    assert_eq!(&file[..4], b"PAR1");
    assert_eq!(whole(Encoder::Ndjson, &batch).iter().filter(|byte| **byte == b'\n').count(), 2);
}

#[test]
fn types_have_sql_names() {
    assert_eq!(sql_type(&DataType::Utf8View), "STRING");
    assert_eq!(sql_type(batch().schema().field(5).data_type()), "MAP<STRING,STRING>");
    assert_eq!(sql_type(&DataType::Decimal128(38, 12)), "DECIMAL(38,12)");
}

#[test]
fn a_bare_null_is_null() {
    assert_eq!(super::cell(&arrow::array::NullArray::new(1), 0), serde_json::Value::Null);
}
