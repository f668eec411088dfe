//! What Tokenwatt knows of itself, as tables: `system.freshness` and `system.files` of the lake as it is now, and views of what
//! the collectors say.

pub(crate) mod views;

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray},
    error::ArrowError,
};
use datafusion::{catalog::TableProvider, common::Result, datasource::MemTable};
use lake::{File, Snapshot, Value};
use telemetry::table::TABLES;

use crate::plan::Scope;

/// Tables of the schema `system` that are made when they are asked for.
pub(crate) const NAMES: [&str; 2] = ["freshness", "files"];

/// The table of that name, as the lake is now; `None` if there is none.
pub(crate) async fn table(name: &str, scope: &Arc<Scope>) -> Result<Option<Arc<dyn TableProvider>>> {
    let make: fn(&[Arc<Snapshot>], i64) -> Result<RecordBatch, ArrowError> = match name {
        "freshness" => freshness,
        "files" => files,
        _ => return Ok(None),
    };
    let mut snapshots = Vec::with_capacity(TABLES.len());
    for table in TABLES {
        snapshots.push(scope.newest(table.name).await?);
    }
    let batch = make(&snapshots, scope.now_us())?;
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
    Ok(Some(Arc::new(table)))
}

fn freshness(snapshots: &[Arc<Snapshot>], now_us: i64) -> Result<RecordBatch, ArrowError> {
    let lag = |at: Option<i64>| at.map(|us| now_us.saturating_sub(us) as f64 / 1e6);
    let count = |number: Option<u64>| number.and_then(|number| i64::try_from(number).ok());
    let written = |snapshot: &&Arc<Snapshot>| snapshot.version >= 0;
    let of = || snapshots.iter().filter(written);
    nullable(vec![
        ("table", Arc::new(of().map(|snapshot| Some(snapshot.table.name)).collect::<StringArray>())),
        ("version", Arc::new(of().map(|snapshot| Some(snapshot.version)).collect::<Int64Array>())),
        ("committed_at", instants(of().map(|snapshot| snapshot.committed_at_us))),
        ("newest_time", instants(of().map(|snapshot| snapshot.newest_time_us))),
        ("commit_age_s", Arc::new(of().map(|snapshot| lag(snapshot.committed_at_us)).collect::<Float64Array>())),
        ("lag_s", Arc::new(of().map(|snapshot| lag(snapshot.newest_time_us)).collect::<Float64Array>())),
        ("files", Arc::new(of().map(|snapshot| i64::try_from(snapshot.files.len()).ok()).collect::<Int64Array>())),
        ("rows", Arc::new(of().map(|snapshot| count(snapshot.rows())).collect::<Int64Array>())),
        ("bytes", Arc::new(of().map(|snapshot| count(Some(snapshot.bytes()))).collect::<Int64Array>())),
    ])
}

fn files(snapshots: &[Arc<Snapshot>], _now_us: i64) -> Result<RecordBatch, ArrowError> {
    let of = || snapshots.iter().flat_map(|snapshot| snapshot.files.iter().map(|file| (snapshot.table.name, file)));
    let count = |number: Option<u64>| number.and_then(|number| i64::try_from(number).ok());
    nullable(vec![
        ("table", Arc::new(of().map(|(table, _)| Some(table)).collect::<StringArray>())),
        ("path", Arc::new(of().map(|(_, file)| Some(file.path.as_str())).collect::<StringArray>())),
        ("date", Arc::new(of().map(|(_, file)| Some(file.date.as_str())).collect::<StringArray>())),
        ("rows", Arc::new(of().map(|(_, file)| count(file.rows)).collect::<Int64Array>())),
        ("bytes", Arc::new(of().map(|(_, file)| count(Some(file.size))).collect::<Int64Array>())),
        ("written_at", instants(of().map(|(_, file)| file.modified_ms.checked_mul(1_000)))),
        ("oldest_time", instants(of().map(|(_, file)| oldest(file)))),
        ("newest_time", instants(of().map(|(_, file)| file.newest_time_us()))),
    ])
}

fn oldest(file: &File) -> Option<i64> {
    match file.stats.get("time")?.min {
        Some(Value::Time(us)) => Some(us),
        _ => None,
    }
}

fn instants(us: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(us.collect::<TimestampMicrosecondArray>().with_timezone("UTC"))
}

fn nullable(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
}
