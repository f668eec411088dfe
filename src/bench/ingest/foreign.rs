//! A receiver that is not ours: the same load, what `/proc` says of a process that somebody else started, and what it stored.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Value, json};
use service::error::{Error, Result};

use super::figures::{self, millis, quantile, round};
use super::load::{Load, Sent};
use super::{Args, kill, server};

/// Flags that name such a receiver.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Foreign {
    /// Send to the receiver at this address instead, such as http://127.0.0.1:4318, which somebody else started.
    #[arg(long, requires = "pid", conflicts_with_all = ["data", "offered_factor", "pin_server_cpu"])]
    pub(super) endpoint: Option<String>,
    /// The process of that receiver, for its CPU and memory.
    #[arg(long, requires = "endpoint")]
    pid: Option<u32>,
    /// Directory in which it writes Parquet; the rows in it are counted at the end.
    #[arg(long, requires = "endpoint")]
    rows_in: Option<PathBuf>,
}

/// A receiver at rest uses less than this share of a CPU; how long it is waited for.
const REST_SHARE: f64 = 0.05;
const REST_EVERY: Duration = Duration::from_secs(1);
const REST_PATIENCE: Duration = Duration::from_secs(60);

/// Sends to it and returns the figures.
///
/// # Errors
/// If it refuses the load, has no such process, or its files cannot be listed.
pub(super) async fn run(args: &Args, load: Load) -> Result<Value> {
    let pid = args.foreign.pid.ok_or_else(|| Error::invalid("--endpoint needs --pid"))?;
    let before = server::cpu_seconds(pid)?;
    let (sent, used) = match args.kill_after {
        Some(after) => (kill::during(load, pid, after).await?, None),
        None => {
            let sent = load.run(0).await?;
            rest(pid).await?;
            let cpu_s = server::cpu_seconds(pid)? - before;
            (sent, Some((cpu_s, server::peak_rss_mb(pid)?)))
        }
    };
    let found = args.foreign.rows_in.as_deref().map(Found::below).transpose()?;
    Ok(figures(args, &sent, used, found))
}

/// Waits until the process has done what it was given.
async fn rest(pid: u32) -> Result<()> {
    let deadline = Instant::now() + REST_PATIENCE;
    let mut used = server::cpu_seconds(pid)?;
    while Instant::now() < deadline {
        tokio::time::sleep(REST_EVERY).await;
        let now = server::cpu_seconds(pid)?;
        if now - used < REST_SHARE * REST_EVERY.as_secs_f64() {
            return Ok(());
        }
        used = now;
    }
    Ok(())
}

/// What stands in Parquet files.
#[derive(Debug, Default, PartialEq)]
struct Found {
    rows: u64,
    files: u64,
    /// Files without a readable end: they were being written.
    broken: u64,
    bytes: u64,
}

impl Found {
    /// Counts by the files' ends; a directory that is not there has none.
    fn below(dir: &Path) -> Result<Found> {
        let mut found = Found::default();
        let mut dirs = vec![dir.to_owned()];
        while let Some(dir) = dirs.pop() {
            let failed = |error| Error::invalid(format!("list {}", dir.display())).with_source(error);
            if !dir.exists() {
                continue;
            }
            for entry in std::fs::read_dir(&dir).map_err(failed)? {
                let path = entry.map_err(failed)?.path();
                if path.is_dir() {
                    dirs.push(path);
                } else if path.extension().is_some_and(|extension| extension == "parquet") {
                    found.add(&path);
                }
            }
        }
        Ok(found)
    }

    fn add(&mut self, path: &Path) {
        let opened = std::fs::File::open(path).ok();
        let reader = opened.and_then(|file| SerializedFileReader::new(file).ok());
        let Some(reader) = reader else {
            self.broken += 1;
            return;
        };
        self.files += 1;
        self.rows += u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
        self.bytes += path.metadata().map_or(0, |metadata| metadata.len());
    }
}

fn figures(args: &Args, sent: &Sent, used: Option<(f64, f64)>, found: Option<Found>) -> Value {
    let spans = sent.spans();
    let length = sent.acks.iter().map(|ack| ack.at).max();
    let rate = length.map(|length| (spans as f64 / length.as_secs_f64()).round());
    let took = || sent.acks.iter().map(|ack| ack.took).collect();
    let mut figures = json!({
        "bench": "ingest",
        "transport": figures::name(args.wire.transport),
        "encoding": figures::name(args.wire.encoding),
        "compression": figures::name(args.wire.compression),
        "layout": figures::name(args.layout),
        "running": figures::running(args),
        "spans_per_request": args.spans_per_request,
        "connections": args.connections,
        "in_flight": args.in_flight,
        "killed_after_s": args.kill_after,
        "acknowledged_spans": spans,
        "acknowledged_spans_per_s": rate,
        "ack_p50_ms": quantile(took(), 0.50).map(millis),
        "ack_p99_ms": quantile(took(), 0.99).map(millis),
        "refused": sent.refused,
        "cpu_s_per_million": used.filter(|_| spans > 0).map(|(cpu_s, _)| round(cpu_s / spans as f64 * 1e6, 3)),
        "rss_mb": used.map(|(_, rss_mb)| round(rss_mb, 1)),
    });
    if let Some(found) = found {
        figures["rows_found"] = json!(found.rows);
        figures["files_found"] = json!(found.files);
        figures["files_broken"] = json!(found.broken);
        figures["bytes_found"] = json!(found.bytes);
    }
    figures
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;

    use super::*;

    #[test]
    fn rows_are_those_of_whole_files() {
        let place = super::super::disk::Place::open(None).unwrap();
        let deep = place.path().join("traces/service/hour=1");
        std::fs::create_dir_all(&deep).unwrap();
        let batch =
            RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1, 2, 3])) as arrow::array::ArrayRef)]);
        let batch = batch.unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        let whole = writer.into_inner().unwrap();
        std::fs::write(deep.join("a.parquet"), &whole).unwrap();
        std::fs::write(deep.join("b.parquet"), &whole[..whole.len() - 9]).unwrap();
        std::fs::write(place.path().join("c.json"), b"{}").unwrap();
        let expected = Found { rows: 3, files: 1, broken: 1, bytes: whole.len() as u64 };
        assert_eq!(Found::below(place.path()).unwrap(), expected);
        assert_eq!(Found::below(&place.path().join("none")).unwrap(), Found::default());
    }
}
