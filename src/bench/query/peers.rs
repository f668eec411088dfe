//! DuckDB and chDB on the same Parquet files, through Python. One that is not installed has no figures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use lake::Lake;
use serde::Deserialize;
use serde_json::{Value, json};
use service::Deps;
use service::error::{Error, Result};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::bench::child::Bound;

/// Reads a job, prints an answer.
const SCRIPT: &str = include_str!("peers.py");

/// Another engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    DuckDb,
    ChDb,
}

/// What an engine came to.
#[derive(Debug, Deserialize)]
pub(super) struct Answers {
    pub(super) version: String,
    pub(super) answers: BTreeMap<String, Answer>,
}

/// One statement's milliseconds by run, and rows; or why there are none.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    #[serde(default)]
    pub(super) ms: Vec<f64>,
    #[serde(default)]
    pub(super) rows: Vec<Vec<Value>>,
    pub(super) error: Option<String>,
}

impl Peer {
    /// As Python and figures call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::DuckDb => "duckdb",
            Peer::ChDb => "chdb",
        }
    }
}

/// The Parquet files of the tables, as an engine without a Delta reader is told them.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    dir: PathBuf,
    tables: BTreeMap<&'static str, Vec<PathBuf>>,
}

impl Files {
    /// Those that the newest version of each table names.
    ///
    /// # Errors
    /// What reading the log gives.
    pub(super) async fn of(dir: &Path, tables: &[&'static str]) -> Result<Files> {
        let lake = Lake::open_read_only(&dir.display().to_string(), &Deps::system()).await?;
        let mut files = Files { dir: dir.to_owned(), tables: BTreeMap::new() };
        for table in tables {
            let snapshot = lake.snapshot(table, None).await?;
            files.tables.insert(table, snapshot.files.iter().map(|file| dir.join(&file.path)).collect());
        }
        Ok(files)
    }

    fn globs(&self) -> BTreeMap<&'static str, PathBuf> {
        self.tables.keys().map(|table| (*table, self.dir.join(table).join("date=*/*.parquet"))).collect()
    }
}

/// Runs statements in an engine, each once more than `runs`; `None` if it is not installed for that Python.
///
/// # Errors
/// If the engine ends without an answer.
pub(super) async fn run(
    (peer, python): (Peer, &Path),
    files: &Files,
    (threads, runs): (usize, usize),
    statements: &[(&str, String)],
) -> Result<Option<Answers>> {
    let found =
        Command::new(python).args(["-c", &format!("import {}", peer.name())]).stderr(Stdio::null()).status().await;
    if !found.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let statements: Vec<_> = statements.iter().map(|(name, sql)| json!({"name": name, "sql": sql})).collect();
    let job = json!({
        "engine": peer.name(), "threads": threads, "runs": runs, "tables": files.tables, "globs": files.globs(),
        "statements": statements,
    });
    let ended = |error: Box<dyn std::error::Error + Send + Sync>| {
        Error::unavailable(format!("{} ended without an answer", peer.name())).with_source(error)
    };
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Bound::start(&mut command).map_err(|error| ended(error.into()))?;
    if let Some(mut input) = child.0.stdin.take() {
        input.write_all(job.to_string().as_bytes()).await.map_err(|error| ended(error.into()))?;
    }
    let (_, said) = child.output().await.map_err(|error| ended(error.into()))?;
    serde_json::from_slice(&said).map(Some).map_err(|error| ended(error.into()))
}
