use arrow::array::{Int32Array, Int64Array, RunArray, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{Field, Int32Type};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReaderBuilder, RowSelection, RowSelector};
use parquet::file::reader::{FileReader, SerializedFileReader};
use telemetry::table::TOKENS;

use super::super::encode;
use super::*;

fn runs(of: &[(Option<&str>, usize)]) -> ArrayRef {
    let ends: Vec<i32> = of
        .iter()
        .scan(0, |end, (_, rows)| {
            *end += *rows as i32;
            Some(*end)
        })
        .collect();
    let values = StringArray::from(of.iter().map(|(value, _)| *value).collect::<Vec<_>>());
    Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from(ends), &values).expect("runs"))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect())
        .expect("a batch")
}

/// A batch over several row groups: a run across their border, many values, one value, NULL alone and among values.
fn sample(rows: usize) -> RecordBatch {
    let count = rows / 100;
    let ids: Vec<String> = (0..count).map(|n| format!("{:032x}", n * 0x9e37_79b9)).collect();
    let traces: Vec<_> = ids.iter().map(|id| (Some(id.as_str()), 100)).collect();
    let stalls: Vec<_> =
        (0..count).flat_map(|n| [((n % 3 > 0).then_some("decode"), 93), (Some("prefill"), 7)]).collect();
    batch(vec![
        ("time", Arc::new(TimestampMicrosecondArray::from_iter_values(0..rows as i64).with_timezone("UTC"))),
        ("region", runs(&[(Some("eu-west-1"), rows)])),
        ("zone", runs(&[(None, rows)])),
        ("trace_id", runs(&traces)),
        ("index", Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row % 100)))),
        ("stall", runs(&stalls)),
    ])
}

fn flattened(batch: &RecordBatch) -> Vec<ArrayRef> {
    let flat = |column: &ArrayRef| arrow::compute::cast(column, value_type(column.data_type())).expect("flat");
    batch.columns().iter().map(flat).collect()
}

#[test]
fn runs_read_back_row_by_row() {
    let rows = ROW_GROUP_ROWS / 100 * 100 + 23_500;
    let sample = sample(rows);
    let encoded = encode(&TOKENS, std::slice::from_ref(&sample)).expect("encodable");
    assert_eq!(encoded.rows, rows as u64);
    let mut builder = ParquetRecordBatchReaderBuilder::try_new(encoded.body).expect("a Parquet file");
    builder = builder.with_batch_size(rows);
    let read: Vec<_> = builder.build().expect("readable").map(|batch| batch.expect("readable")).collect();
    let read = arrow::compute::concat_batches(&read[0].schema(), &read).expect("one batch");
    for (wanted, (found, field)) in flattened(&sample).iter().zip(read.columns().iter().zip(read.schema().fields())) {
        assert_eq!(wanted, found, "{}", field.name());
    }
}

#[test]
fn a_selection_of_rows_is_found_by_the_page_index() {
    let sample = sample(60_000);
    let body = encode(&TOKENS, std::slice::from_ref(&sample)).expect("encodable").body;
    let options = parquet::arrow::arrow_reader::ArrowReaderOptions::new()
        .with_page_index_policy(parquet::file::metadata::PageIndexPolicy::Required);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(body, options).expect("with its index");
    let selection = RowSelection::from(vec![RowSelector::skip(41_250), RowSelector::select(300)]);
    let read = builder.with_row_selection(selection).build().expect("readable").next().expect("rows").expect("rows");
    let wanted: Vec<_> = flattened(&sample).iter().map(|column| column.slice(41_250, 300)).collect();
    assert_eq!(wanted, read.columns());
}

#[test]
fn bounds_and_filters_tell_of_runs_what_they_tell_of_rows() {
    let sample = sample(20_000);
    let flat = batch(sample.schema().fields().iter().map(|f| f.name().as_str()).zip(flattened(&sample)).collect());
    let (runs, rows) = (encode(&TOKENS, &[sample]).expect("runs"), encode(&TOKENS, &[flat]).expect("rows"));
    assert_eq!(runs.stats, rows.stats);
    let metadata = |body| SerializedFileReader::new(body).expect("a Parquet file").metadata().clone();
    let (runs, rows) = (metadata(runs.body), metadata(rows.body));
    for (one, other) in runs.row_group(0).columns().iter().zip(rows.row_group(0).columns()) {
        assert_eq!(one.statistics(), other.statistics(), "{}", one.column_path());
        assert_eq!(one.bloom_filter_offset().is_some(), other.bloom_filter_offset().is_some());
        assert!(one.compressed_size() <= other.compressed_size() + 64, "{}", one.column_path());
    }
}

#[test]
fn a_long_value_gives_no_bounds_and_reads_back() {
    let long = "m".repeat(STATISTICS_BYTES_PLUS);
    let sample = batch(vec![
        ("time", Arc::new(TimestampMicrosecondArray::from_iter_values(0..9).with_timezone("UTC"))),
        ("model", runs(&[(Some(&long), 4), (None, 2), (Some("a"), 3)])),
    ]);
    let body = encode(&TOKENS, std::slice::from_ref(&sample)).expect("encodable").body;
    let read = ParquetRecordBatchReaderBuilder::try_new(body).expect("a file").build().expect("readable").next();
    assert_eq!(flattened(&sample), read.expect("rows").expect("rows").columns());
}

const STATISTICS_BYTES_PLUS: usize = super::super::properties::STATISTICS_BYTES + 1;
