//! What Tokenwatt knows of itself, as tables: `system.freshness` and `system.files` of the lake as it is now,
//! `system.queries` of what runs, `system.audit` of what ran, `system.rollups` of how far windows are
//! built, and views of what the collectors say.

pub(crate) mod columns;
pub(crate) mod pg_catalog;
pub(crate) mod views;

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray},
    error::ArrowError,
};
use datafusion::{catalog::TableProvider, common::Result, datasource::MemTable};
use lake::{File, Snapshot, Value};
use telemetry::table::TABLES;

use crate::{
    audit::Entry,
    execute::running::{Phase, Running, Stop},
    plan::Scope,
    rollup::{ROLLUPS, status},
};

/// Tables of the schema `system` that are made when they are asked for.
pub(crate) const NAMES: [&str; 5] = ["freshness", "files", "queries", "audit", "rollups"];
/// Those of them in which every reader finds what is its own, and who sees everything that of all.
pub(crate) const OWN: [&str; 2] = ["queries", "audit"];

/// What a row of the table of that name is.
pub(crate) fn comment(name: &str) -> Option<&'static str> {
    match name {
        "freshness" => {
            Some("one table of the lake: its version, when it was committed, its newest event time and how old that is")
        }
        "files" => Some("one file of the newest version of a table"),
        "queries" => Some("one query that holds a place, this one too"),
        "audit" => Some("one query that has ended, with who asked it and what it took"),
        "rollups" => Some("one roll-up: through which window it is built, and how far behind that is"),
        _ => None,
    }
}

/// The table of that name, as the lake is now; `None` if there is none.
pub(crate) async fn table(name: &str, scope: &Arc<Scope>) -> Result<Option<Arc<dyn TableProvider>>> {
    match name {
        "queries" => return in_memory(queries(&scope.running(), scope.now_us())?).map(Some),
        "audit" => return in_memory(audit(&scope.ended())?).map(Some),
        _ => (),
    }
    if name == "rollups" {
        let mut windows = Vec::with_capacity(ROLLUPS.len());
        for rollup in ROLLUPS {
            let each = scope.newest(rollup.table.name).await?;
            windows.extend(each.into_iter().map(|(lake, snapshot)| (rollup, lake, snapshot)));
        }
        return in_memory(status::batch(&windows, scope.now_us())?).map(Some);
    }
    let make: fn(&[OfLake], i64) -> Result<RecordBatch, ArrowError> = match name {
        "freshness" => freshness,
        "files" => files,
        _ => return Ok(None),
    };
    let mut snapshots = Vec::with_capacity(TABLES.len());
    for table in TABLES {
        snapshots.extend(scope.newest(table.name).await?);
    }
    in_memory(make(&snapshots, scope.now_us())?).map(Some)
}

/// A snapshot and its lake, which has a name where there are several.
type OfLake = (Option<String>, Arc<Snapshot>);

fn in_memory(batch: RecordBatch) -> Result<Arc<dyn TableProvider>> {
    Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
}

/// One row per query that holds a place, this one too.
fn queries(running: &[Arc<Running>], now_us: i64) -> Result<RecordBatch, ArrowError> {
    let state = |stopped: Option<Stop>| match stopped {
        None => "running",
        Some(Stop::Asked) => "cancelled",
        Some(Stop::Abandoned) => "abandoned",
    };
    let phase = |phase: Phase| match phase {
        Phase::Planning => "planning",
        Phase::Executing => "executing",
    };
    let of = || running.iter();
    let whole = |bytes: usize| i64::try_from(bytes).ok();
    nullable(vec![
        ("id", Arc::new(of().map(|query| i64::try_from(query.id).ok()).collect::<Int64Array>())),
        ("started_at", instants(of().map(|query| Some(query.started_us)))),
        (
            "age_s",
            Arc::new(of().map(|query| now_us.saturating_sub(query.started_us) as f64 / 1e6).collect::<Float64Array>()),
        ),
        ("reader", Arc::new(of().map(|query| Some(query.reader.name())).collect::<StringArray>())),
        ("front", Arc::new(of().map(|query| Some(query.reader.front())).collect::<StringArray>())),
        ("phase", Arc::new(of().map(|query| Some(phase(query.phase()))).collect::<StringArray>())),
        ("state", Arc::new(of().map(|query| Some(state(query.stopped()))).collect::<StringArray>())),
        ("rows", Arc::new(of().map(|query| i64::try_from(query.rows()).ok()).collect::<Int64Array>())),
        ("memory_bytes", Arc::new(of().map(|query| whole(query.memory.held())).collect::<Int64Array>())),
        ("peak_memory_bytes", Arc::new(of().map(|query| whole(query.memory.peak())).collect::<Int64Array>())),
        ("sql", Arc::new(of().map(|query| Some(query.sql.as_str())).collect::<StringArray>())),
    ])
}

/// One row per query that ended, oldest first.
fn audit(ended: &[Arc<Entry>]) -> Result<RecordBatch, ArrowError> {
    let of = || ended.iter();
    let whole = |count: u64| i64::try_from(count).ok();
    nullable(vec![
        ("time", instants(of().map(|entry| Some(entry.time_us)))),
        ("reader", Arc::new(of().map(|entry| Some(entry.reader.name())).collect::<StringArray>())),
        ("front", Arc::new(of().map(|entry| Some(entry.reader.front())).collect::<StringArray>())),
        ("outcome", Arc::new(of().map(|entry| Some(entry.outcome.as_str())).collect::<StringArray>())),
        ("message", Arc::new(of().map(|entry| entry.message.as_deref()).collect::<StringArray>())),
        ("rows", Arc::new(of().map(|entry| whole(entry.rows)).collect::<Int64Array>())),
        ("bytes", Arc::new(of().map(|entry| whole(entry.bytes)).collect::<Int64Array>())),
        ("elapsed_ms", Arc::new(of().map(|entry| entry.elapsed.as_secs_f64() * 1e3).collect::<Float64Array>())),
        ("sql_hash", Arc::new(of().map(|entry| Some(entry.sql_hash.as_str())).collect::<StringArray>())),
        ("sql", Arc::new(of().map(|entry| Some(entry.sql.as_str())).collect::<StringArray>())),
    ])
}

fn freshness(snapshots: &[OfLake], now_us: i64) -> Result<RecordBatch, ArrowError> {
    let lag = |at: Option<i64>| at.map(|us| now_us.saturating_sub(us) as f64 / 1e6);
    let count = |number: Option<u64>| number.and_then(|number| i64::try_from(number).ok());
    let written = |(_, snapshot): &&OfLake| snapshot.version >= 0;
    let written = || snapshots.iter().filter(written);
    let of = || written().map(|(_, snapshot)| snapshot);
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
        ("lake", Arc::new(written().map(|(lake, _)| lake.as_deref()).collect::<StringArray>())),
    ])
}

fn files(snapshots: &[OfLake], _now_us: i64) -> Result<RecordBatch, ArrowError> {
    let each = || snapshots.iter().flat_map(|of| of.1.files.iter().map(move |file| (of, file)));
    let of = || each().map(|((_, snapshot), file)| (snapshot.table.name, file));
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
        ("lake", Arc::new(each().map(|((lake, _), _)| lake.as_deref()).collect::<StringArray>())),
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
