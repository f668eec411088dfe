//! Distributions with bounds that are fixed when they are made.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::Exemplars;

/// Bounds for times from milliseconds to a minute, seconds; 1.0 is one of them.
pub const SECONDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Bounds for numbers of tokens, up to the longest contexts there are.
pub const TOKENS: &[f64] = &[
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    50.0,
    100.0,
    200.0,
    500.0,
    1_000.0,
    2_000.0,
    5_000.0,
    10_000.0,
    20_000.0,
    50_000.0,
    100_000.0,
    200_000.0,
    500_000.0,
    1_000_000.0,
];

/// How long things take, or how many there are. Clones share the counts.
#[derive(Debug, Clone)]
pub struct Histogram(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    bounds: &'static [f64],
    /// One per bound, and one for what lies above all.
    buckets: Vec<AtomicU64>,
    /// What was traced last in each bucket: its trace and its value.
    exemplars: Vec<Mutex<Option<(u128, f64)>>>,
    /// Nanoseconds, or what is counted.
    sum: AtomicU64,
    /// What the sum is divided by when it is shown.
    scale: f64,
}

impl Histogram {
    /// Of durations, bounds in seconds.
    pub(super) fn of_seconds(bounds: &'static [f64]) -> Self {
        Self::new(bounds, 1e9)
    }

    /// Of whole numbers.
    pub(super) fn of_counts(bounds: &'static [f64]) -> Self {
        Self::new(bounds, 1.0)
    }

    fn new(bounds: &'static [f64], scale: f64) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        let exemplars = (0..=bounds.len()).map(|_| Mutex::new(None)).collect();
        Self(Arc::new(Counts { bounds, buckets, exemplars, sum: AtomicU64::new(0), scale }))
    }

    /// Counts one duration.
    pub fn observe(&self, duration: Duration) {
        self.add(duration.as_secs_f64(), u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts one duration, and keeps the trace that it is from as its bucket's exemplar.
    pub fn observe_traced(&self, duration: Duration, trace_id: u128) {
        self.observe(duration);
        let value = duration.as_secs_f64();
        if let Some(exemplar) = self.0.exemplars.get(self.0.place(value)) {
            *exemplar.lock() = Some((trace_id, value));
        }
    }

    /// Counts one number of things, in a histogram of such numbers.
    pub fn observe_count(&self, count: u64) {
        self.add(count as f64, count);
    }

    fn add(&self, value: f64, sum: u64) {
        if let Some(bucket) = self.0.buckets.get(self.0.place(value)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.0.sum.fetch_add(sum, Ordering::Relaxed);
    }

    /// Values counted so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// Appends the lines of this series; `labels` without braces.
    pub(super) fn render(&self, text: &mut String, name: &str, labels: &str, exemplars: Exemplars) {
        let comma = if labels.is_empty() { "" } else { "," };
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let mut total = 0;
        let bounds = self.0.bounds.iter().map(|bound| format!("{bound:?}")).chain(["+Inf".to_owned()]);
        for ((bound, bucket), exemplar) in bounds.zip(&self.0.buckets).zip(&self.0.exemplars) {
            total += bucket.load(Ordering::Relaxed);
            // Writing to a String cannot fail.
            let _ = write!(text, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {total}");
            if let Some((trace_id, value)) = exemplar.lock().filter(|_| exemplars == Exemplars::Shown) {
                let _ = write!(text, " # {{trace_id=\"{trace_id:032x}\"}} {value}");
            }
            text.push('\n');
        }
        let sum = self.0.sum.load(Ordering::Relaxed) as f64 / self.0.scale;
        let _ = writeln!(text, "{name}_count{braces} {total}\n{name}_sum{braces} {sum}");
    }
}

impl Counts {
    /// The bucket of a value: a bound belongs to its own.
    fn place(&self, value: f64) -> usize {
        self.bounds.partition_point(|bound| *bound < value)
    }
}
