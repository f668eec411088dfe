//! The lake that is queried: made once, by the lake's own encoder, in sorted files, and kept.
//!
//! ```text
//! fleet ─► calls (an hour), windows (a day) ─► lake.write_sorted ─► lake.commit ─► "complete"
//! ```

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use futures::{StreamExt, TryStreamExt, stream};
use lake::{Entry, FileAdd, Lake, Outcome};
use parking_lot::Mutex;
use service::Deps;
use service::error::{Error, Kind, Result};
use telemetry::table::{REQUESTS, TOKENS, Table};

use super::calls::Hour;
use super::fleet::{DATE, DAY_HOURS, Fleet, HOUR_US, NOON_HOUR};
use super::windows;

/// What is made; another number makes it anew.
const EDITION: u32 = 1;
/// Written last: a lake without it was not finished.
const COMPLETE: &str = "complete";
/// Files made at once.
const AT_ONCE: usize = 2;
/// Files after which a long wait is told how far it is.
const FILES_A_NOTE: usize = 10;
/// Files of tokens at scale 1, of 1.5 million rows as compaction leaves them.
const TOKEN_FILES: f64 = 120.0;
/// Files of requests at scale 1.
const REQUEST_FILES: f64 = 12.0;

/// The lake that is queried.
pub(super) struct Data {
    /// Its directory.
    pub(super) dir: PathBuf,
    /// A trace in the middle of the hour.
    trace_id: String,
    /// A host in the middle of the fleet.
    host_id: String,
}

impl Data {
    /// The statement with the trace and the host in it.
    pub(super) fn filled(&self, sql: &str) -> String {
        sql.replace("$trace_id", &self.trace_id).replace("$host_id", &self.host_id)
    }
}

/// How large a lake is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Calls and tokens of the hour: 1 is 1.8 million and 180 million.
    pub(super) calls: f64,
    /// Hosts: 1 is 5,500 with 80,000 chips.
    pub(super) fleet: f64,
    /// Hours of roll-ups, the last of which is that of the calls where there are fewer than a day's.
    pub(super) hours: i64,
}

impl Size {
    /// Which hours of the day.
    fn rolled_up(self) -> Range<i64> {
        if self.hours >= DAY_HOURS { 0..DAY_HOURS } else { (NOON_HOUR + 1 - self.hours).max(0)..NOON_HOUR + 1 }
    }
}

/// Finds the lake of that size, or makes it.
///
/// # Errors
/// What writing a lake gives.
pub(super) async fn prepare(dir: Option<&Path>, size: Size) -> Result<Data> {
    let hours = if size.hours < DAY_HOURS { format!("-hours-{}", size.hours) } else { String::new() };
    let name = format!("edition-{EDITION}-calls-{}-fleet-{}{hours}", size.calls, size.fleet);
    let dir = dir.map_or_else(default_dir, |dir| Ok(dir.to_owned()))?.join(name);
    let hour = Arc::new(Hour::new(Arc::new(Fleet::new(size.fleet)), size.calls));
    let host_id = hour.fleet.hosts[hour.fleet.hosts.len() / 2].id.clone();
    let data = Data { trace_id: hour.a_trace(), host_id, dir };
    if !data.dir.join(COMPLETE).exists() {
        let begun = Instant::now();
        tracing::info!(dir = %data.dir.display(), calls = hour.calls, "the lake is made, once");
        let failed = |error: std::io::Error| {
            Error::new(Kind::Denied, format!("make {}", data.dir.display()))
                .with_source(error)
                .with_hint("choose another place with --dir")
        };
        if data.dir.exists() {
            std::fs::remove_dir_all(&data.dir).map_err(failed)?;
        }
        std::fs::create_dir_all(&data.dir).map_err(failed)?;
        make(&data.dir, &hour, size).await?;
        std::fs::write(data.dir.join(COMPLETE), "").map_err(failed)?;
        tracing::info!(seconds = begun.elapsed().as_secs(), "the lake is there");
    }
    Ok(data)
}

fn default_dir() -> Result<PathBuf> {
    Ok(cache_dir()?.join("bench/query"))
}

/// `~/.cache/tokenwatt`: what clones of this repository share.
pub(in crate::bench) fn cache_dir() -> Result<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home);
    let nowhere =
        || Error::invalid("no home directory to keep the lake in").with_hint("set HOME, or name it with --dir");
    Ok(cache.ok_or_else(nowhere)?.join("tokenwatt"))
}

async fn make(dir: &Path, hour: &Arc<Hour>, size: Size) -> Result<()> {
    let lake = Lake::open(&dir.display().to_string(), &Deps::system()).await?;
    let parts = stretches(REQUEST_FILES * size.calls).into_iter().map(|(from_us, to_us)| {
        let hour = Arc::clone(hour);
        write(&lake, &REQUESTS, from_us / 1_000_000, move || hour.requests(from_us, to_us))
    });
    commit(&lake, &REQUESTS, parts).await?;
    let parts = stretches(TOKEN_FILES * size.calls).into_iter().map(|(from_us, to_us)| {
        let batches = Arc::clone(hour).tokens(from_us, to_us);
        write_lazily(&lake, &TOKENS, from_us / 1_000_000, batches)
    });
    commit(&lake, &TOKENS, parts).await?;
    for table in windows::TABLES {
        let parts = size.rolled_up().map(|number| {
            let fleet = Arc::clone(&hour.fleet);
            write(&lake, table, number, move || windows::batches(table, &fleet, number))
        });
        commit(&lake, table, parts).await?;
    }
    Ok(())
}

/// The hour in equal stretches, one a file.
fn stretches(files: f64) -> Vec<(i64, i64)> {
    let files = (files.round() as i64).max(2);
    (0..files).map(|file| (file * HOUR_US / files, (file + 1) * HOUR_US / files)).collect()
}

async fn write(
    lake: &Lake,
    table: &'static Table,
    number: i64,
    batches: impl FnOnce() -> Result<Vec<RecordBatch>> + Send + 'static,
) -> Result<FileAdd> {
    let made = tokio::task::spawn_blocking(batches).await;
    let made = made.map_err(|error| Error::internal("make rows").with_source(error))??;
    lake.write_sorted(table, DATE, &name(number), made.into_iter()).await
}

async fn write_lazily(
    lake: &Lake,
    table: &'static Table,
    number: i64,
    batches: impl Iterator<Item = Result<RecordBatch>> + Send + 'static,
) -> Result<FileAdd> {
    // The writer takes rows alone: the first error ends them, and is what the caller gets.
    let failed: Arc<Mutex<Option<Error>>> = Arc::default();
    let noted = Arc::clone(&failed);
    let rows = batches.map_while(move |batch| batch.map_err(|error| *noted.lock() = Some(error)).ok());
    let written = lake.write_sorted(table, DATE, &name(number), rows).await;
    let failed = failed.lock().take();
    failed.map_or(written, Err)
}

fn name(number: i64) -> String {
    format!("bench-{number:04}.parquet")
}

async fn commit(
    lake: &Lake,
    table: &'static Table,
    parts: impl Iterator<Item = impl Future<Output = Result<FileAdd>>>,
) -> Result<()> {
    let files = parts.size_hint().0;
    let mut adds = Vec::with_capacity(files);
    let mut written = stream::iter(parts).buffered(AT_ONCE);
    while let Some(add) = written.try_next().await? {
        adds.push(add);
        if adds.len().is_multiple_of(FILES_A_NOTE) {
            tracing::info!(table = table.name, files = adds.len(), of = files, "being written");
        }
    }
    let rows: u64 = adds.iter().filter_map(|add| add.rows).sum();
    let entry = Entry { journal: "bench".to_owned(), table: table.name, from: 0, to: 1, adds };
    match lake.commit(entry).await? {
        Outcome::Committed { .. } => {
            tracing::info!(table = table.name, rows, "written");
            Ok(())
        }
        _ => Err(Error::internal(format!("table {} already holds this benchmark", table.name))),
    }
}
