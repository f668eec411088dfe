//! Files followed: container logs and other logs on this host's disk become OTLP log records.
//!
//! ```text
//! find (globs) ─► file (identity, offset) ─► line (CRI, Docker, plain; joined) ─► state: "sending" ─► intake ─► state: "sent"
//! ```
//!
//! Invariants:
//! 1. An offset moves only after the journal has the lines before it.
//! 2. Before lines are sent, their digest and the offsets they lead to are on disk. After a crash the journal tells by the
//!    digest whether it has them, so that lines are neither lost nor stored twice, however long the collector was down.
//! 3. A file is known by device, inode and first bytes, not by name: rotation, truncation and reuse are told apart.

mod file;
mod find;
mod follow;
mod line;
mod origin;
mod state;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use service::clock::SharedClock;
use service::error::{Error, Result, chain};
use service::metrics::{Counter, Registry};
use service::shutdown::CancellationToken;

pub(crate) use self::follow::Follower;
use crate::journal::Digests;
use crate::receive::Intake;
use crate::signal::Signal;

/// Files that are followed alike: `[[collector.tail]]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tail {
    /// Which files: an absolute path in which `*` and `?` stand for parts of a name, and `**` for folders.
    pub path: String,
    /// Paths among them that are left alone, such as the collector's own log.
    pub exclude: Vec<String>,
    /// How lines are written. Default auto: CRI, Docker's JSON, or plain, each line by itself.
    pub format: Format,
    /// Where to begin in files that are there when the collector starts for the first time. Default beginning.
    pub from: From,
    /// How often files are looked at. Default 250ms.
    #[serde(with = "service::config::duration")]
    pub poll: Duration,
    /// Longest record; a longer line becomes several, each marked. Default 256KiB.
    #[serde(with = "service::config::bytes")]
    pub line_max: u64,
    /// Resource attributes of the records, such as `"service.name"`.
    pub labels: BTreeMap<String, String>,
}

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// As a container runtime writes them, else plain.
    #[default]
    Auto,
    /// A line is a record.
    Plain,
}

/// Where to begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum From {
    /// With the first line.
    #[default]
    Beginning,
    /// With the next line.
    End,
}

impl Default for Tail {
    fn default() -> Self {
        Self {
            path: String::new(),
            exclude: Vec::new(),
            format: Format::default(),
            from: From::default(),
            poll: Duration::from_millis(250),
            line_max: 256 << 10,
            labels: BTreeMap::new(),
        }
    }
}

impl Tail {
    /// Adds one line for every rule broken.
    pub(crate) fn validate(&self, faults: &mut Vec<String>) {
        let mut fault = |text: &str| faults.push(format!("`collector.tail` of `{}`: {text}", self.path));
        if !self.path.starts_with('/') || self.exclude.iter().any(|path| !path.starts_with('/')) {
            fault("paths must be absolute");
        }
        if !(Duration::from_millis(10)..=Duration::from_secs(60)).contains(&self.poll) {
            fault("`poll` must lie between 10ms and 1m");
        }
        if !(1 << 10..=4 << 20).contains(&self.line_max) {
            fault("`line_max` must lie between 1KiB and 4MiB");
        }
    }
}

/// What becomes of followed files.
#[derive(Clone)]
pub(crate) struct Counters {
    /// Lines stored.
    lines: Counter,
    /// Files that were cut to less than was read of them, or replaced under the same inode.
    truncated: Counter,
    /// Files that went away with bytes that nobody can read any more.
    lost: Counter,
    /// Reads and writes that failed, and were tried again.
    failed: Counter,
    /// Lines that can never be stored.
    dropped: Counter,
}

impl Counters {
    pub(crate) fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str| registry.counter(&format!("tokenwatt_collector_tail_{name}"), help, &[]);
        Self {
            lines: counter("lines_total", "Lines of followed files stored."),
            truncated: counter("truncated_total", "Followed files found shorter or replaced, and read from the start."),
            lost: counter("lost_files_total", "Followed files that went while the collector was down."),
            failed: counter("failures_total", "Reads and writes of the follower that failed and were tried again."),
            dropped: counter("dropped_lines_total", "Lines of followed files that can never be stored."),
        }
    }
}

/// Reads where the files stand, and asks the journal about lines whose fate is open. Called before anything else is
/// received, while `digests` still holds all that the journal knows.
///
/// # Errors
/// `Corrupt` if the state is not of this version, `Denied`, `Unavailable`.
pub(crate) fn open(
    settings: Vec<Tail>,
    directory: &Path,
    digests: &Digests,
    counters: Counters,
) -> Result<Option<Follower>> {
    if settings.is_empty() {
        return Ok(None);
    }
    let state = state::State::open(directory, |digest| digests.holds(digest))?;
    Ok(Some(Follower::new(settings, state, counters)))
}

/// Follows the files until `stop`.
///
/// # Errors
/// `Internal` if following panics.
pub(crate) async fn run(
    follower: Option<Follower>,
    intake: Intake,
    clock: SharedClock,
    stop: CancellationToken,
) -> Result<()> {
    let Some(mut follower) = follower else { return Ok(()) };
    loop {
        let (now, now_ns) = (clock.monotonic(), u64::try_from(clock.now_ns()).unwrap_or_default());
        let gathered = tokio::task::spawn_blocking(move || {
            let batch = follower.gather(now, now_ns);
            (follower, batch)
        });
        let (back, batch) = gathered.await.map_err(|error| Error::internal("follow files").with_source(error))?;
        follower = back;
        let Some(body) = batch else {
            // Cancel safe: nothing is under way.
            tokio::select! {
                () = tokio::time::sleep(follower.pause()) => continue,
                () = stop.cancelled() => return Ok(()),
            }
        };
        // Cancel safe: the state says that these lines were being sent, and the next start finds out whether they were.
        let delivered = tokio::select! {
            delivered = intake.deliver(Signal::Logs, body) => delivered,
            () = stop.cancelled() => return Ok(()),
        };
        match delivered {
            Ok(()) => follower.delivered(),
            Err(error) => {
                tracing::warn!(error = chain(&error), "a body of followed lines is not taken; smaller ones are tried");
                follower.refused();
            }
        }
    }
}
