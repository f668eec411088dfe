//! Distributions with bounds that are fixed when they are made.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bounds for times from milliseconds to a minute, seconds; 1.0 is one of them.
pub const SECONDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// How long things take. Clones share the counts.
#[derive(Debug, Clone)]
pub struct Histogram(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    bounds: &'static [f64],
    /// One per bound, and one for what lies above all.
    buckets: Vec<AtomicU64>,
    sum_ns: AtomicU64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Counts { bounds, buckets, sum_ns: AtomicU64::new(0) }))
    }

    /// Counts one duration.
    pub fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let place = self.0.bounds.partition_point(|bound| *bound < seconds);
        if let Some(bucket) = self.0.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.0.sum_ns.fetch_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Durations counted so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// Appends the lines of this series; `labels` without braces.
    pub(super) fn render(&self, text: &mut String, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let mut total = 0;
        let bounds = self.0.bounds.iter().map(|bound| format!("{bound:?}")).chain(["+Inf".to_owned()]);
        for (bound, bucket) in bounds.zip(&self.0.buckets) {
            total += bucket.load(Ordering::Relaxed);
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {total}");
        }
        let sum = self.0.sum_ns.load(Ordering::Relaxed) as f64 / 1e9;
        let _ = writeln!(text, "{name}_count{braces} {total}\n{name}_sum{braces} {sum}");
    }
}
