//! `peers`: other OTLP receivers, installed from the public registries, take what `tokenwatt bench ingest` sends, on this machine.
//!
//! ```text
//! install ─► for each receiver: start ─► bench ingest (CPU, memory) ─► stop ─► start ─► bench ingest --kill-after ─► table
//! ```
//!
//! They are not equals, so what each one stores stands beside its figures. Never part of the tests.

mod receiver;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use self::receiver::{Receiver, Running};
use crate::{cargo, demo, install};

const USAGE: &str = "usage: cargo xtask peers [--seconds N] [--binary PATH] [--dir DIR] [--without otlp2parquet]";

struct Options {
    seconds: u64,
    /// The program that sends, and is one of the receivers; built for speed if none is named.
    binary: Option<PathBuf>,
    /// Where all of them write; its file system is part of what is measured.
    dir: PathBuf,
    /// Leaves out the one that must be built first.
    without_build: bool,
}

/// How requests are sent to one receiver.
struct Payload {
    transport: &'static str,
    spans: u32,
}

/// What every receiver can take, and what suits each best besides.
const COMMON: Payload = Payload { transport: "http", spans: 1_000 };

/// One line of the table.
struct Line {
    name: String,
    payload: Payload,
    figures: Value,
    killed: Value,
    stores: &'static str,
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = options(args)?;
    let peers = install::for_peers(!options.without_build)?;
    let binary = match options.binary.clone() {
        Some(binary) => binary.canonicalize().with_context(|| format!("find {}", binary.display()))?,
        None => demo::build(true)?,
    };
    std::fs::create_dir_all(&options.dir).with_context(|| format!("make {}", options.dir.display()))?;
    let bench = Bench { binary, dir: options.dir.canonicalize()?, seconds: options.seconds };
    let mut lines = Vec::new();
    for payload in [COMMON, Payload { transport: "grpc", ..COMMON }] {
        lines.push(bench.ours(payload)?);
    }
    let mut receivers = vec![
        (Receiver::rotel(&peers.rotel), COMMON),
        (Receiver::rotel(&peers.rotel), Payload { transport: "grpc", ..COMMON }),
        (Receiver::rotel(&peers.rotel).tuned(peers.jemalloc.as_deref()), Payload { spans: 5_000, ..COMMON }),
    ];
    receivers.extend(peers.otlp2parquet.as_deref().map(|program| (Receiver::otlp2parquet(program), COMMON)));
    for (receiver, payload) in receivers {
        lines.push(bench.peer(&receiver, payload)?);
    }
    print(&lines);
    Ok(())
}

fn options(args: &[String]) -> Result<Options> {
    let mut options =
        Options { seconds: 20, binary: None, dir: PathBuf::from("tokenwatt-peers"), without_build: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value = args.next().context(USAGE)?;
        match arg.as_str() {
            "--seconds" => options.seconds = value.parse().context("--seconds takes a whole number")?,
            "--binary" => options.binary = Some(PathBuf::from(value)),
            "--dir" => options.dir = PathBuf::from(value),
            "--without" if value == install::OTLP2PARQUET[0] => options.without_build = true,
            _ => bail!("`{arg} {value}` is not known\n{USAGE}"),
        }
    }
    if options.seconds < 2 {
        bail!("a run takes at least 2 seconds");
    }
    Ok(options)
}

struct Bench {
    binary: PathBuf,
    dir: PathBuf,
    seconds: u64,
}

impl Bench {
    fn ours(&self, payload: Payload) -> Result<Line> {
        let figures = self.ingest(&payload, &self.seconds(), &[])?;
        let killed = self.ingest(&payload, &self.kill(), &[])?;
        let version = cargo::output(Command::new(&self.binary).arg("--version"))?;
        let stores = "every span, typed Parquet in Delta tables; durable before the answer";
        Ok(Line { name: version.trim().to_owned(), payload, figures, killed, stores })
    }

    fn peer(&self, receiver: &Receiver, payload: Payload) -> Result<Line> {
        let figures = self.against(receiver, &payload, &self.seconds())?;
        let killed = self.against(receiver, &payload, &self.kill())?;
        Ok(Line { name: receiver.name.clone(), payload, figures, killed, stores: receiver.stores })
    }

    fn against(&self, receiver: &Receiver, payload: &Payload, length: &[String]) -> Result<Value> {
        let dir = self.dir.join("peer");
        let running = Running::start(receiver, &dir)?;
        let mut more = vec!["--endpoint".to_owned(), running.address(payload.transport == "grpc")];
        more.extend(["--pid".to_owned(), running.pid().to_string()]);
        if receiver.writes {
            more.extend(["--rows-in".to_owned(), dir.display().to_string()]);
        }
        let figures = self.ingest(payload, length, &more);
        running.stop()?;
        std::fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
        figures
    }

    fn seconds(&self) -> [String; 2] {
        ["--seconds".to_owned(), self.seconds.to_string()]
    }

    fn kill(&self) -> [String; 2] {
        ["--kill-after".to_owned(), (self.seconds / 2).to_string()]
    }

    fn ingest(&self, payload: &Payload, length: &[String], more: &[String]) -> Result<Value> {
        let mut command = Command::new(&self.binary);
        command.args(["bench", "ingest", "--json", "--transport", payload.transport]).current_dir(&self.dir);
        command.arg("--spans-per-request").arg(payload.spans.to_string()).args(length).args(more);
        let said = cargo::output(&mut command)?;
        let line = said.lines().rev().find(|line| line.starts_with('{')).context("the benchmark printed no figures")?;
        println!("{line}");
        Ok(serde_json::from_str(line)?)
    }
}

fn print(lines: &[Line]) {
    println!(
        "\n| | request | spans/s | CPU s per million | peak memory, MiB | acknowledged until `kill -9` | of these there afterwards | stores |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for line in lines {
        let figure = |of: &Value, name: &str| of.get(name).filter(|value| !value.is_null()).map(Value::to_string);
        let or_unknown = |figure: Option<String>| figure.unwrap_or_else(|| "unknown".to_owned());
        let rate = figure(&line.figures, "spans_per_s").or(figure(&line.figures, "acknowledged_spans_per_s"));
        let (acknowledged, kept) = kept(&line.killed);
        let cells = [
            line.name.clone(),
            format!("{}, {} spans", line.payload.transport, line.payload.spans),
            or_unknown(rate),
            or_unknown(figure(&line.figures, "cpu_s_per_million")),
            or_unknown(figure(&line.figures, "rss_mb")),
            or_unknown(acknowledged.map(|rows| rows.to_string())),
            or_unknown(kept.map(|rows| rows.to_string())),
            line.stores.to_owned(),
        ];
        println!("| {} |", cells.join(" | "));
    }
}

/// Rows acknowledged before the kill, and how many of them were there after it: tokens of ours, which are known one by one, spans of
/// others, which are only counted.
fn kept(killed: &Value) -> (Option<u64>, Option<u64>) {
    let number = |name: &str| killed.get(name).and_then(Value::as_u64);
    if let Some(tokens) = number("acknowledged_tokens") {
        return (Some(tokens), number("lost").map(|lost| tokens - lost));
    }
    let spans = number("acknowledged_spans");
    (spans, spans.map(|spans| number("rows_found").unwrap_or(0).min(spans)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_survives_is_told_from_what_was_acknowledged() {
        let ours = json!({"acknowledged_spans": 128, "acknowledged_tokens": 127, "stored_tokens": 300, "lost": 2});
        assert_eq!(kept(&ours), (Some(127), Some(125)));
        let stores = json!({"acknowledged_spans": 1000, "rows_found": 700});
        assert_eq!(kept(&stores), (Some(1000), Some(700)));
        assert_eq!(kept(&json!({"acknowledged_spans": 1000})), (Some(1000), Some(0)), "nothing is stored");
        assert_eq!(kept(&json!({"acknowledged_spans": 10, "rows_found": 12})), (Some(10), Some(10)));
    }

    #[test]
    fn an_unknown_option_is_told() {
        assert!(options(&["--second".to_owned(), "5".to_owned()]).err().unwrap().to_string().contains("usage"));
        assert!(options(&["--seconds".to_owned()]).is_err());
        assert_eq!(options(&["--seconds".to_owned(), "5".to_owned()]).unwrap().seconds, 5);
    }
}
