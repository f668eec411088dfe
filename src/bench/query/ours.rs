//! Our own side: a query service in this process, asked as a page asks it.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use lake::Lake;
use query::Query;
use rustix::fs::{Advice, fadvise};
use serde_json::Value;
use service::Deps;
use service::error::{Error, Result};
use telemetry::contract::{QueryApi, SqlAnswer, SqlRequest};

/// Rows that no statement here has more of.
const ROWS_MAX: usize = 1_000_000;

/// Memory of a query. The other engines take what the machine has.
const MEMORY_BYTES: usize = 8 << 30;

/// A query service over the lake.
pub(super) struct Ours {
    query: Query,
}

/// One statement, run a few times.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Milliseconds of each run but the first, which finds nothing prepared.
    pub(super) ms: Vec<f64>,
    /// Names of the answer's columns.
    pub(super) columns: Vec<String>,
    /// What came out.
    pub(super) rows: Vec<Vec<Value>>,
}

impl Ours {
    /// A service that knows nothing yet.
    ///
    /// # Errors
    /// What opening the lake gives.
    pub(super) async fn start(dir: &Path, threads: usize) -> Result<Ours> {
        let deps = Deps::system();
        let lake = Lake::open_read_only(&dir.display().to_string(), &deps).await?;
        let config = query::Config {
            partitions: threads,
            memory_bytes: MEMORY_BYTES,
            memory_bytes_per_query: MEMORY_BYTES,
            ..query::Config::default()
        };
        Ok(Ours { query: query::build(config, lake, deps).await? })
    }

    /// Runs a statement once more than `runs`.
    ///
    /// # Errors
    /// What the query service answers.
    pub(super) async fn run(&self, name: &str, sql: &str, runs: usize) -> Result<Run> {
        let mut answer = self.ask(name, sql).await?;
        let mut ms = Vec::with_capacity(runs);
        for _ in 0..runs {
            let begun = Instant::now();
            answer = self.ask(name, sql).await?;
            ms.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let columns = answer.columns.into_iter().map(|column| column.name).collect();
        Ok(Run { ms, columns, rows: answer.rows })
    }

    async fn ask(&self, name: &str, sql: &str) -> Result<SqlAnswer> {
        let request = SqlRequest { sql: sql.to_owned(), max_rows: Some(ROWS_MAX), ..SqlRequest::default() };
        let answer = self.query.sql(request).await;
        answer.map_err(|error| Error::invalid(format!("{name}: {}", error.message)))
    }
}

/// Milliseconds until a service that was just started has answered: the log, footers and columns come from the disk.
///
/// # Errors
/// As [`Ours::run`].
pub(super) async fn cold(dir: &Path, threads: usize, name: &str, sql: &str) -> Result<f64> {
    forget(dir).map_err(|error| Error::internal("drop files from the page cache").with_source(error))?;
    let begun = Instant::now();
    let ours = Ours::start(dir, threads).await?;
    let answer = ours.ask(name, sql).await?;
    let ms = begun.elapsed().as_secs_f64() * 1e3;
    if answer.rows.is_empty() { Err(Error::internal(format!("{name} found nothing"))) } else { Ok(ms) }
}

/// Has the kernel let go of every file's pages.
fn forget(dir: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path)?;
        } else {
            fadvise(File::open(&path)?, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
