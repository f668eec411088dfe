//! What is remembered of a target's series from one scrape to the next: when counting began, and what is still there.

use std::collections::HashMap;
use std::sync::Arc;

use telemetry::prometheus::{Point, Shape, Value};
use xxhash_rust::xxh3::Xxh3;

/// Resource attributes that a series brings itself.
pub(super) type Promoted = Arc<Vec<(String, String)>>;

/// The series of one target.
#[derive(Default)]
pub(super) struct Series {
    known: HashMap<u128, Known>,
    round: u64,
}

struct Known {
    /// When counting began, nanoseconds since 1970-01-01 UTC; 0 is unknown.
    start_ns: u64,
    /// The total, or count, read last.
    last: f64,
    last_ns: u64,
    /// The scrape that read it last.
    round: u64,
    /// Set for a gauge that has not been said to have ended.
    gauge: Option<Box<Gauge>>,
}

/// What the end of a gauge must repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gauge {
    pub(super) name: String,
    /// Encoded.
    pub(super) attributes: Vec<u8>,
    pub(super) promoted: Promoted,
}

impl Series {
    /// Begins a scrape.
    pub(super) fn begin(&mut self) {
        self.round += 1;
    }

    /// Takes a point in. Returns when its counting began (0 is unknown), or nothing if this very point was read before.
    pub(super) fn see(&mut self, key: u128, point: &Point<'_>, time_ns: u64, gauge: Option<Box<Gauge>>) -> Option<u64> {
        let total = total(&point.value, gauge.is_some());
        let created = point.created_ns.and_then(|created| u64::try_from(created).ok()).filter(|ns| *ns <= time_ns);
        let Some(known) = self.known.get_mut(&key) else {
            let start_ns = created.unwrap_or_default();
            let last = total.unwrap_or(f64::NAN);
            self.known.insert(key, Known { start_ns, last, last_ns: time_ns, round: self.round, gauge });
            return Some(start_ns);
        };
        let repeated = point.time_ns.is_some() && known.last_ns == time_ns && known.gauge.is_some() == gauge.is_some();
        known.round = self.round;
        known.gauge = gauge;
        if repeated {
            return None;
        }
        match (created, total) {
            (Some(created), _) => known.start_ns = created,
            // It was 0 again at some time after the last reading, so that reading opens the new interval.
            (None, Some(total)) if total < known.last => known.start_ns = known.last_ns,
            _ => {}
        }
        if let Some(total) = total.filter(|total| !total.is_nan()) {
            known.last = total;
        }
        known.last_ns = time_ns;
        Some(known.start_ns)
    }

    /// Ends a scrape that was answered: series it did not show are forgotten, and the gauges among them returned.
    pub(super) fn end(&mut self) -> Vec<Gauge> {
        let round = self.round;
        let gone = self.known.extract_if(|_, known| known.round != round);
        gone.filter_map(|(_, known)| known.gauge).map(|gauge| *gauge).collect()
    }

    /// Ends a scrape without an answer: all gauges end, and counters are remembered, for they may go on.
    pub(super) fn lose(&mut self) -> Vec<Gauge> {
        self.known.values_mut().filter_map(|known| known.gauge.take()).map(|gauge| *gauge).collect()
    }
}

/// What only grows in a value, unless it was reset.
fn total(value: &Value<'_>, gauge: bool) -> Option<f64> {
    match value {
        Value::Number(..) if gauge => None,
        Value::Number(value, _) => Some(*value),
        Value::Histogram(histogram) => Some(histogram.count as f64),
        Value::Summary(summary) => Some(summary.count as f64),
    }
}

/// What a series is known by.
pub(super) fn key(name: &str, shape: Shape, point: &Point<'_>) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(name.as_bytes());
    hasher.update(&[0xff, shape as u8]);
    for (label, value) in &point.labels {
        // 0xff is in no UTF-8 text, so no two sets of labels look alike.
        hasher.update(label.as_bytes());
        hasher.update(&[0xff]);
        hasher.update(value.as_bytes());
        hasher.update(&[0xff]);
    }
    hasher.digest128()
}
