//! What must hold at the end: every acknowledged item is one row, no item is two, and what the log names can be read.

use std::collections::BTreeMap;

use arrow::array::{AsArray, RecordBatch};
use lake::Snapshot;
use object_store::ObjectStoreExt;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use telemetry::table::{LOGS, QUARANTINE, SPANS, TOKENS, Table};

use super::load::{Item, Ledger, TOKEN_SPAN};
use super::store::Bucket;

/// Tables in which items may end.
pub(super) const TABLES: [&Table; 4] = [&TOKENS, &SPANS, &LOGS, &QUARANTINE];

/// # Panics
/// If an item is lost or doubled.
pub(super) async fn verify(bucket: &Bucket, snapshots: &[std::sync::Arc<Snapshot>], ledger: &Ledger) {
    let mut found: BTreeMap<Item, u32> = BTreeMap::new();
    for snapshot in snapshots {
        for file in &snapshot.files {
            let body = bucket.objects.get(&file.path.as_str().into()).await.unwrap().bytes().await.unwrap();
            let builder = ParquetRecordBatchReaderBuilder::try_new(body).unwrap();
            let columns = ["trace_id", "span_id", "signal", "body"];
            let mask = ProjectionMask::columns(builder.parquet_schema(), columns);
            let batches: Vec<_> = builder.with_projection(mask).build().unwrap().map(Result::unwrap).collect();
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(file.rows, Some(rows as u64), "rows of {}", file.path);
            for batch in &batches {
                items(snapshot.table, batch).into_iter().for_each(|item| *found.entry(item).or_default() += 1);
            }
        }
    }
    let ledger = ledger.lock();
    for (item, acknowledged) in ledger.iter() {
        let count = found.remove(item).unwrap_or_default();
        assert!(count <= 1, "{item:?} is there {count} times (acknowledged: {acknowledged})");
        assert!(count == 1 || !acknowledged, "{item:?} was acknowledged and is lost");
    }
    assert!(found.is_empty(), "nobody sent {found:?}");
}

fn items(table: &Table, batch: &RecordBatch) -> Vec<Item> {
    let texts = |column: &str| -> Vec<Option<String>> {
        let Some(column) = batch.column_by_name(column) else { return vec![None; batch.num_rows()] };
        let column = arrow::compute::cast(column, &arrow::datatypes::DataType::Utf8).unwrap();
        column.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    };
    let token = format!("{TOKEN_SPAN:016x}");
    let [traces, spans, signals, bodies] = ["trace_id", "span_id", "signal", "body"].map(texts);
    let item = |row: usize| {
        // A log record in quarantine has its ids in its body alone.
        let trace = traces[row].clone().or_else(|| {
            let (_, rest) = bodies[row].as_ref()?.split_once("\"traceId\":\"")?;
            Some(rest.split_once('"')?.0.to_owned())
        });
        let key = u128::from_str_radix(&trace.unwrap(), 16).unwrap();
        if table == &LOGS || signals[row].as_deref() == Some("logs") {
            Item::Log(key)
        } else if table == &TOKENS || (table == &QUARANTINE && spans[row].as_ref() == Some(&token)) {
            Item::Token(key)
        } else {
            Item::Span(key)
        }
    };
    (0..batch.num_rows()).map(item).collect()
}
