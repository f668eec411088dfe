use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use telemetry::table::{REQUESTS, TABLES};

use super::{encode, encode_sorted};
use crate::snapshot::Value;

fn times(us: &[i64]) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(us.to_vec()).with_timezone("UTC"))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect())
        .expect("a batch")
}

fn metadata(body: Bytes) -> ParquetMetaData {
    SerializedFileReader::new(body).expect("a Parquet file").metadata().clone()
}

#[test]
fn rows_come_back_as_they_went_in() {
    let rows = batch(vec![
        ("time", times(&[3, 1, 2])),
        ("model", Arc::new(StringArray::from(vec![Some("b"), None, Some("a")]))),
        ("ttft_s", Arc::new(Float64Array::from(vec![Some(0.5), None, Some(0.25)]))),
        ("date", Arc::new(StringArray::from(vec!["1970-01-01"; 3]))),
    ]);
    let encoded = encode(&REQUESTS, &[rows.clone(), rows.clone()]).expect("encodable");
    assert_eq!(encoded.rows, 6);
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(encoded.body).expect("a Parquet file").build().expect("readable");
    let read: Vec<_> = reader.map(|batch| batch.expect("readable")).collect();
    assert_eq!(read[0].num_rows(), 6);
    assert!(read[0].column_by_name("date").is_none(), "the date lies in the path");
    for name in ["time", "model", "ttft_s"] {
        let (wanted, found) = (rows.column_by_name(name).expect("in"), read[0].column_by_name(name).expect("out"));
        assert_eq!(wanted, &found.slice(3, 3), "{name}");
    }
}

#[test]
fn every_table_of_the_registry_can_be_written_with_nulls_only() {
    for table in TABLES {
        let schema = table.schema();
        let columns = schema.fields().iter().map(|field| match field.data_type() {
            DataType::Timestamp(..) if !field.is_nullable() => times(&[7]),
            kind => arrow::array::new_null_array(kind, 1),
        });
        let rows = RecordBatch::try_new(Arc::clone(&schema), columns.collect()).expect("a batch");
        let encoded = encode(table, &[rows]).unwrap_or_else(|e| panic!("{}: {e}", table.name));
        let reader = ParquetRecordBatchReaderBuilder::try_new(encoded.body).expect("a Parquet file");
        for field in schema.fields() {
            let read = reader.schema().field_with_name(field.name()).expect("written");
            assert!(read.data_type().equals_datatype(field.data_type()), "{}.{}", table.name, field.name());
        }
    }
}

#[test]
fn bounds_cover_all_batches_and_err_outward() {
    let long = "m".repeat(100);
    let first = batch(vec![
        ("time", times(&[30, 10])),
        ("model", Arc::new(StringArray::from(vec![Some(long.as_str()), Some("a")]))),
        ("cluster", Arc::new(StringArray::from(vec![None::<&str>, None]))),
    ]);
    let second = batch(vec![
        ("time", times(&[20])),
        ("model", Arc::new(StringArray::from(vec![Some("b")]))),
        ("cluster", Arc::new(StringArray::from(vec![Some("c1")]))),
    ]);
    let stats = encode(&REQUESTS, &[first, second]).expect("encodable").stats;
    assert_eq!((stats["time"].min.clone(), stats["time"].max.clone()), (Some(Value::Time(10)), Some(Value::Time(30))));
    assert_eq!((stats["model"].min.clone(), stats["model"].max.clone()), (Some(Value::Text("a".to_owned())), None));
    let c1 = Some(Value::Text("c1".to_owned()));
    assert_eq!(
        (stats["cluster"].min.clone(), stats["cluster"].max.clone(), stats["cluster"].nulls),
        (c1.clone(), c1, Some(2))
    );
    assert!(!stats.contains_key("region"), "a column that is not in the file has no bounds");
}

#[test]
fn columns_are_written_as_their_kind_asks() {
    let count = 1_000_i64;
    let ids: Vec<_> = (0..count).map(|n| format!("{n:016x}")).collect();
    let rows = batch(vec![
        ("time", times(&(0..count).collect::<Vec<_>>())),
        ("trace_id", Arc::new(StringArray::from_iter_values(ids.iter()))),
        ("span_id", Arc::new(StringArray::from_iter_values(ids.iter()))),
        ("output_tokens", Arc::new(Int64Array::from_iter_values(0..count))),
        ("e2e_s", Arc::new(Float64Array::from_iter_values((0..count).map(|n| n as f64)))),
    ]);
    let file = metadata(encode(&REQUESTS, &[rows]).expect("encodable").body);
    let group = file.row_group(0);
    let wanted = [
        Encoding::DELTA_BINARY_PACKED,
        Encoding::RLE_DICTIONARY,
        Encoding::DELTA_LENGTH_BYTE_ARRAY,
        Encoding::DELTA_BINARY_PACKED,
        Encoding::BYTE_STREAM_SPLIT,
    ];
    for (column, encoding) in group.columns().iter().zip(wanted) {
        assert!(column.encodings().any(|found| found == encoding), "{}", column.column_path());
        assert!(matches!(column.compression(), Compression::ZSTD(_)), "{}", column.column_path());
    }
    assert!(group.column(1).bloom_filter_offset().is_some(), "traces are looked up");
    assert!(group.column(2).bloom_filter_offset().is_none());
}

#[test]
fn rows_that_do_not_fit_the_table_are_refused() {
    let unknown = batch(vec![("time", times(&[1])), ("mood", Arc::new(StringArray::from(vec!["fine"])))]);
    let retyped = batch(vec![("time", times(&[1])), ("model", Arc::new(Int64Array::from(vec![1])))]);
    let naive = batch(vec![("time", Arc::new(TimestampMicrosecondArray::from(vec![1])))]);
    let none = batch(vec![("time", times(&[]))]);
    for (rows, word) in [(unknown, "mood"), (retyped, "model"), (naive, "time"), (none, "without rows")] {
        let error = encode(&REQUESTS, &[rows]).err().expect(word);
        assert!(error.message().contains(word), "{error}");
    }
    assert!(encode(&REQUESTS, &[]).is_err());
}

#[test]
fn not_a_number_and_the_sign_of_zero_do_not_hide_rows() {
    let rows = batch(vec![("time", times(&[1, 2])), ("status", Arc::new(StringArray::from(vec!["", ""])))]);
    let stats = encode(&REQUESTS, &[rows]).expect("encodable").stats;
    assert_eq!(stats["status"].min, Some(Value::Text(String::new())), "empty text is a value");
    let array: ArrayRef = Arc::new(Float64Array::from(vec![0.0, f64::NAN]));
    let (min, max) = super::bounds::array_bounds(telemetry::table::Kind::Double, &array);
    assert!(matches!(min, Some(Value::Double(zero)) if zero.is_sign_negative()));
    assert_eq!(max, None);
    assert_eq!(array.as_primitive::<arrow::datatypes::Float64Type>().null_count(), 0);
}

#[test]
fn rows_that_are_not_in_the_tables_order_get_no_file_that_says_they_are() {
    let rows = |models: Vec<Option<&str>>, us: &[i64]| {
        let clusters = vec!["c"; us.len()];
        batch(vec![
            ("time", times(us)),
            ("model", Arc::new(StringArray::from(models))),
            ("cluster", Arc::new(StringArray::from(clusters))),
        ])
    };
    let first = rows(vec![Some("a"), Some("b")], &[7, 3]);
    let unknown_last = rows(vec![Some("b"), None], &[3, 1]);
    let encoded = encode_sorted(&REQUESTS, [first.clone(), unknown_last.clone()].into_iter()).expect("in order");
    assert_eq!((encoded.rows, encoded.stats["model"].nulls), (4, Some(1)));
    for wrong in [vec![unknown_last, first.clone()], vec![rows(vec![Some("a"), Some("a")], &[2, 1])]] {
        let error = encode_sorted(&REQUESTS, wrong.into_iter()).err().expect("out of order");
        assert!(error.message().contains("model, cluster, time"), "{error}");
    }
    let without = batch(vec![("time", times(&[1]))]);
    assert!(encode_sorted(&REQUESTS, [without].into_iter()).is_err());
}
