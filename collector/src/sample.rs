//! Own counters on their way into table `collectors`: through the journal, like everything that becomes a row.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use service::channel::Sender;
use service::clock::SharedClock;
use service::error::{Error, Result, chain};
use service::health::Component;
use service::shutdown::CancellationToken;
use tokio::sync::oneshot;

use crate::batch::tables::FILLED;
use crate::counters::Counters;
use crate::decode::inflate::Compression;
use crate::journal::{Append, Journal, Room, Stored};
use crate::normalize::Sample;
use crate::progress::Progress;
use crate::receive::Encoding;
use crate::receive::admit::Budget;
use crate::signal::Signal;

/// What a sample is taken of.
pub(crate) struct Sampled {
    /// Id of the journal.
    pub(crate) collector: String,
    /// When the process started, microseconds since 1970-01-01 UTC.
    pub(crate) started_us: i64,
    /// The counters.
    pub(crate) counters: Counters,
    /// What is committed.
    pub(crate) progress: Arc<Progress>,
    /// The journal.
    pub(crate) journal: Arc<Mutex<Journal>>,
    /// Memory for bodies before and after they are durable.
    pub(crate) memory: [Budget; 2],
    /// What the journal may still take.
    pub(crate) room: Arc<Room>,
    /// Health of the journal's room.
    pub(crate) health: Component,
    /// Source of time.
    pub(crate) clock: SharedClock,
    /// Directory of the journal.
    pub(crate) state: PathBuf,
}

/// How often the gauges are set anew.
const GAUGES_EVERY: Duration = Duration::from_secs(1);

/// Takes a sample every `every` until `stop`.
///
/// # Errors
/// `Internal` if a sample cannot be written as JSON.
pub(crate) async fn run(
    sampled: Sampled,
    every: Duration,
    journal: Sender<Append>,
    stop: CancellationToken,
) -> Result<()> {
    let mut due = sampled.clock.monotonic() + every;
    let mut full = None;
    loop {
        let last = sampled.set_gauges();
        sampled.watch(&mut full, last);
        // Cancel safe: the next wait begins anew.
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = sampled.clock.sleep(GAUGES_EVERY.min(every)) => {}
        }
        if sampled.clock.monotonic() < due {
            continue;
        }
        due += every;
        // A full journal is for those who wait for an answer.
        if full == Some(true) {
            continue;
        }
        let sample = sampled.take();
        let body = serde_json::to_vec(&sample).map_err(|error| Error::internal("write a sample").with_source(error))?;
        let body = Bytes::from(body);
        let stored = Stored {
            signal: Signal::Own,
            compression: Compression::Identity,
            encoding: Encoding::Json,
            faulty: false,
            received_us: sample.time_us,
            digest: rand::random(),
            body: body.clone(),
        };
        // Nobody waits for the ack: a sample that the disk does not take is replaced by the next.
        let (done, _) = oneshot::channel();
        if journal.send(Append { stored, body, permit: None, done }).await.is_err() {
            return Ok(());
        }
    }
}

impl Sampled {
    /// Sets the gauges and returns the journal's last frame.
    fn set_gauges(&self) -> u64 {
        let (bytes, last) = {
            let journal = self.journal.lock();
            journal.look();
            (journal.bytes(), journal.last())
        };
        self.counters.journal_bytes.set(bytes as f64);
        self.counters.journal_bytes_max.set(self.room.bytes_max() as f64);
        self.counters.journal_behind.set(self.progress.behind(last) as f64);
        self.counters.oldest_unflushed_s.set(self.oldest_unflushed_s(last).unwrap_or_default());
        self.counters.body_bytes.set(self.memory.iter().map(Budget::used).sum::<usize>() as f64);
        if let Some(free) = disk_free(&self.state) {
            self.counters.disk_free_bytes.set(free as f64);
        }
        let now_us = self.clock.now_us();
        for table in FILLED {
            let Some(lane) = self.counters.lane(table.name) else { continue };
            let oldest_us = self.progress.oldest_of_us(table.name).unwrap_or(now_us);
            lane.lag_seconds.set((now_us - oldest_us).max(0) as f64 / 1e6);
        }
        last
    }

    /// Says when the journal's room is used up and when there is some again; `full` is what was said last.
    fn watch(&self, full: &mut Option<bool>, last: u64) {
        match self.room.check() {
            Ok(()) if *full != Some(false) => {
                if *full == Some(true) {
                    tracing::info!("the journal has room again");
                }
                self.health.ready();
                *full = Some(false);
            }
            Err(error) => {
                let age_s = self.oldest_unflushed_s(last);
                let bytes = self.counters.journal_bytes.get();
                if *full != Some(true) {
                    tracing::error!(
                        bytes,
                        age_s,
                        reason = chain(&error),
                        "no room in the journal; senders are asked to wait"
                    );
                }
                let age = age_s.map(|age| format!("; the oldest body waits for {age:.0} s")).unwrap_or_default();
                self.health.waiting(format!("{}{age}", chain(&error)));
                *full = Some(true);
            }
            Ok(()) => {}
        }
    }

    fn oldest_unflushed_s(&self, last: u64) -> Option<f64> {
        let oldest_us = self.progress.oldest_us(last)?;
        Some(((self.clock.now_us() - oldest_us).max(0)) as f64 / 1e6)
    }

    fn take(&self) -> Sample {
        let counters = &self.counters;
        let (journal_bytes, last) = {
            let journal = self.journal.lock();
            (journal.bytes(), journal.last())
        };
        Sample {
            time_us: self.clock.now_us(),
            collector: self.collector.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_us: self.started_us,
            accepted_spans: counters.accepted(Signal::Traces),
            accepted_points: counters.accepted(Signal::Metrics),
            accepted_logs: counters.accepted(Signal::Logs),
            rejected_items: counters.rejected_items(),
            refused_requests: counters.refused_requests(),
            invalid_requests: counters.invalid_requests(),
            quarantined_rows: counters.quarantined_rows.get(),
            duplicate_requests: counters.duplicate_requests.get(),
            committed_rows: counters.committed_rows.get(),
            journal_bytes,
            oldest_unflushed_s: self.oldest_unflushed_s(last),
            throttled_requests: counters.throttled_requests(),
            dropped_frames: counters.dropped_frames.get() + counters.damaged_frames.get(),
            flush_retries: counters.flush_retries.get(),
            runaway_values: counters.runaway_values(),
            disk_free_bytes: disk_free(&self.state),
            rss_bytes: resident(),
            cpu_s: cpu_seconds(),
        }
    }
}

/// Resident memory of this process, where the system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Bytes that may still be written to the disk of `directory`, where the system tells.
fn disk_free(directory: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(directory).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

/// CPU time of this process.
fn cpu_seconds() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}
