//! From what was measured to the figures that are printed. Unknown is `null`.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::Args;
use super::body::Layout;
use super::disk::Disk;
use super::load::{Ack, Sent};
use super::memory::Samples;
use super::verify::{Seen, Stored};

/// All that one run measured.
pub(super) struct Figures {
    pub(super) sent: Sent,
    pub(super) seen: Seen,
    pub(super) stored: Stored,
    pub(super) compacted: Stored,
    pub(super) compact_cpu_s: f64,
    pub(super) overload: Option<Overload>,
    pub(super) generator_cpu_s: f64,
    pub(super) server_cpu_s: f64,
    pub(super) rss_mb: f64,
    pub(super) disk: Disk,
}

/// What was measured while more was offered than can be taken.
pub(super) struct Overload {
    pub(super) offered_spans_per_s: f64,
    pub(super) sent: Sent,
    pub(super) seen: Seen,
    pub(super) rss: Rss,
}

/// Resident memory around an overload, MiB: medians, but for the most.
pub(super) struct Rss {
    /// In the second half of the load before.
    before: Option<f64>,
    /// In each quarter of the overload.
    quarters: [Option<f64>; 4],
    most: Option<f64>,
    /// In the last second of the rest after it.
    after: Option<f64>,
}

impl Rss {
    /// Of a load and an overload that began at these times and took so long each, and a rest that began when all was committed.
    pub(super) fn of(samples: &Samples, [load, overload, rest]: [Instant; 3], duration: Duration) -> Self {
        let quarter = |quarter: u32| overload + duration * quarter / 4;
        Self {
            before: samples.median(load + duration / 2, load + duration),
            quarters: [0, 1, 2, 3].map(|at| samples.median(quarter(at), quarter(at + 1))),
            most: samples.most(overload, rest),
            after: samples.median(Instant::now().checked_sub(Duration::from_secs(1)).unwrap_or(rest), Instant::now()),
        }
    }
}

impl Figures {
    /// The figures by name. `spans_per_s` is over the time until everything was committed.
    pub(super) fn json(&self, args: &Args) -> Value {
        let spans = self.sent.spans() as f64;
        let all = spans + self.overload.as_ref().map_or(0.0, |overload| overload.sent.spans() as f64);
        let per_million = |cpu_s: f64, of: f64| (of > 0.0).then(|| round(cpu_s / of * 1e6, 3));
        let mut figures = json!({
            "bench": "ingest",
            "profile": if cfg!(debug_assertions) { "dev" } else { "release" },
            "transport": name(args.wire.transport),
            "encoding": name(args.wire.encoding),
            "compression": name(args.wire.compression),
            "layout": name(args.layout),
            "running": running(args),
            "spans_per_request": args.spans_per_request,
            "connections": args.connections,
            "in_flight": args.in_flight,
            "spans": self.sent.spans(),
            "committed_after_s": self.seen.complete.map(|complete| round(complete.as_secs_f64(), 3)),
            "spans_per_s": rate(&self.sent, &self.seen).map(f64::round),
            "cpu_s_per_million": per_million(self.server_cpu_s, spans),
            "generator_cpu_s_per_million": per_million(self.generator_cpu_s, spans),
            "compact_cpu_s_per_million": per_million(self.compact_cpu_s, all),
            "rss_mb": round(self.rss_mb, 1),
            "bytes_per_token": bytes_per_token(&self.stored),
            "compacted_bytes_per_token": bytes_per_token(&self.compacted),
            "files": self.stored.files,
            "compacted_files": self.compacted.files,
            "freshness_p95_s": freshness_p95(&self.sent.acks, &self.seen.growth).map(|lag| round(lag.as_secs_f64(), 3)),
            "ack_p50_ms": quantile(self.sent.acks.iter().map(|ack| ack.took).collect(), 0.50).map(millis),
            "ack_p99_ms": quantile(self.sent.acks.iter().map(|ack| ack.took).collect(), 0.99).map(millis),
            "lost": self.stored.lost,
            "doubled": self.stored.doubled,
            "rejected": self.sent.rejected,
            "refused": self.sent.refused,
            "file_system": self.disk.file_system,
            "fdatasync_p50_ms": millis(self.disk.fdatasync_p50),
        });
        if let Some(overload) = &self.overload {
            let taken = rate(&overload.sent, &overload.seen);
            let share = taken.zip(rate(&self.sent, &self.seen)).map(|(taken, peak)| round(taken / peak, 3));
            figures["overload_offered_spans_per_s"] = json!(overload.offered_spans_per_s.round());
            figures["overload_spans_per_s"] = json!(taken.map(f64::round));
            figures["overload_share_of_peak"] = json!(share);
            let mb = |mb: Option<f64>| mb.map(|mb| round(mb, 1));
            figures["overload_rss_before_mb"] = json!(mb(overload.rss.before));
            figures["overload_rss_quarters_mb"] = json!(overload.rss.quarters.map(mb));
            figures["overload_rss_max_mb"] = json!(mb(overload.rss.most));
            figures["overload_rss_after_mb"] = json!(mb(overload.rss.after));
            figures["overload_refused"] = json!(overload.sent.refused);
        }
        figures
    }
}

pub(super) fn name(flag: impl ValueEnum) -> Option<String> {
    flag.to_possible_value().map(|value| value.get_name().to_owned())
}

/// Calls that run at a time; nothing where they are sent one by one.
pub(super) fn running(args: &Args) -> Option<u32> {
    (args.layout == Layout::Interleaved).then_some(args.running)
}

/// Spans acknowledged a second, until all of them were committed.
pub(super) fn rate(sent: &Sent, seen: &Seen) -> Option<f64> {
    seen.complete.map(|complete| sent.spans() as f64 / complete.as_secs_f64())
}

fn bytes_per_token(stored: &Stored) -> Option<f64> {
    (stored.rows > 0).then(|| round(stored.bytes as f64 / stored.rows as f64, 2))
}

/// Time from an acknowledgement until as many rows as were acknowledged by then are visible, 95th percentile over
/// requests.
fn freshness_p95(acks: &[Ack], growth: &[(Duration, u64)]) -> Option<Duration> {
    let mut acks = acks.to_vec();
    acks.sort_by_key(|ack| ack.at);
    let mut acknowledged = 0;
    let mut visible = growth.iter().peekable();
    let mut lags = Vec::new();
    for ack in &acks {
        acknowledged += ack.tokens;
        while visible.next_if(|(_, rows)| *rows < acknowledged).is_some() {}
        let (at, _) = visible.peek()?;
        lags.push(at.saturating_sub(ack.at));
    }
    quantile(lags, 0.95)
}

/// Nearest rank.
pub(super) fn quantile(mut values: Vec<Duration>, q: f64) -> Option<Duration> {
    values.sort_unstable();
    let rank = (values.len() as f64 * q).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied()
}

pub(super) fn millis(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1e3, 2)
}

pub(super) fn round(value: f64, digits: i32) -> f64 {
    let factor = 10f64.powi(digits);
    (value * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(at_ms: u64, tokens: u64) -> Ack {
        let (at, took) = (Duration::from_millis(at_ms), Duration::ZERO);
        Ack { at, took, spans: tokens, tokens, held: [].into(), first_call: 0 }
    }

    #[test]
    fn freshness_is_the_wait_for_the_rows_acknowledged() {
        let acks = [ack(200, 10), ack(100, 10)];
        let growth = [(Duration::from_millis(900), 10), (Duration::from_millis(1_200), 25)];
        // The first 10 rows waited 800 ms, the next 10 waited 1,000 ms.
        assert_eq!(freshness_p95(&acks, &growth), Some(Duration::from_millis(1_000)));
    }

    #[test]
    fn freshness_is_unknown_while_rows_are_missing() {
        assert_eq!(freshness_p95(&[ack(0, 10)], &[(Duration::from_millis(5), 9)]), None);
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let values = (1..=100).map(Duration::from_millis).collect::<Vec<_>>();
        assert_eq!(quantile(values.clone(), 0.95), Some(Duration::from_millis(95)));
        assert_eq!(quantile(values, 0.5), Some(Duration::from_millis(50)));
        assert_eq!(quantile(Vec::new(), 0.5), None);
    }
}
