//! Classic histograms with explicit bounds. They say between which bounds an observation lies, and nothing more.

use super::{Malformed, natural, plus, rank};

/// Between what a number lies; an open end is infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// At least this.
    pub lo: f64,
    /// At most this.
    pub hi: f64,
}

/// Observations at or below each of some bounds and above the one before; those above the last come last.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    bounds: Vec<f64>,
    counts: Vec<u64>,
}

impl Buckets {
    /// Buckets with one count more than bounds.
    ///
    /// # Errors
    /// What makes them none.
    pub fn try_new(bounds: &[f64], counts: &[i64]) -> Result<Buckets, Malformed> {
        if counts.len() != bounds.len() + 1 {
            return Err(Malformed::Lengths(counts.len(), bounds.len() + 1));
        }
        if bounds.iter().any(|bound| bound.is_nan()) || bounds.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(Malformed::Bounds);
        }
        let counts = counts.iter().map(|count| natural(*count)).collect::<Result<Vec<_>, _>>()?;
        Ok(Buckets { bounds: bounds.to_vec(), counts })
    }

    /// Adds another's observations. Only bounds that both have stay: what lies between others cannot be told apart any more.
    pub fn merge(&mut self, other: &Buckets) {
        if self.bounds != other.bounds {
            let common = |bound: &f64| self.bounds.contains(bound) && other.bounds.contains(bound);
            let common: Vec<f64> = self.bounds.iter().copied().filter(|bound| common(bound)).collect();
            *self = self.coarsened(&common);
            let theirs = other.coarsened(&common);
            return self.add(&theirs.counts);
        }
        self.add(&other.counts);
    }

    fn add(&mut self, counts: &[u64]) {
        self.counts.iter_mut().zip(counts).for_each(|(mine, theirs)| *mine = plus(*mine, *theirs));
    }

    /// The same observations between some of the bounds.
    fn coarsened(&self, bounds: &[f64]) -> Buckets {
        let mut counts = vec![0; bounds.len() + 1];
        for (at, count) in self.counts.iter().enumerate() {
            let upper = self.bounds.get(at).copied().unwrap_or(f64::INFINITY);
            let bucket = bounds.partition_point(|bound| *bound < upper);
            counts[bucket] = plus(counts[bucket], *count);
        }
        Buckets { bounds: bounds.to_vec(), counts }
    }

    /// Between what the observation of rank `⌈q × count⌉` lies. `None` without observations and for a `q` that is not between 0
    /// and 1.
    pub fn quantile(&self, q: f64) -> Option<Interval> {
        let rank = rank(q, self.count())?;
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen = plus(seen, *count);
            seen >= rank
        })?;
        let lo = at.checked_sub(1).map_or(f64::NEG_INFINITY, |before| self.bounds[before]);
        Some(Interval { lo, hi: self.bounds.get(at).copied().unwrap_or(f64::INFINITY) })
    }

    /// All observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| plus(sum, *count))
    }

    /// Upper bounds, ascending.
    pub fn bounds(&self) -> &[f64] {
        &self.bounds
    }

    /// Observations per bucket, one more than bounds.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
}
