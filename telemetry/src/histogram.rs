//! Distributions that can be added: sparse base-2 exponential histograms, as OpenTelemetry has them.
//!
//! ```text
//! values ─► grid (bucket of a value) ─► Histogram ─► merge ─► quantile, rank
//! OTLP exponential parts ─► otel ─┘        classic buckets ─► Buckets ─► interval
//! ```
//!
//! Bucket `i` of scale `s` holds the values in `(base^i, base^(i+1)]` with `base = 2^(2^-s)`. Every second bound of a scale is
//! one of the scale below, so histograms of two scales merge in the coarser one without guessing.
//!
//! Invariants:
//! 1. `count` is `zero` plus the counts of all buckets; buckets are in order of their index, none is empty.
//! 2. Merging is associative and commutative, but for the rounding of `sum`, which is a sum of floats.
//! 3. A quantile differs from the observation of that rank by at most [`Histogram::error`] of it, 1.09 % at scale 5.
//! 4. No histogram is finer than scale 5, which bounds it: 67,137 buckets hold all doubles, about 400 hold 10 ms to 60 s.

mod classic;
mod grid;
mod otel;

#[cfg(test)]
mod tests;

pub use classic::{Buckets, Interval};
pub use grid::{SCALE, SCALE_MIN};
pub use otel::{Exponential, ZERO_THRESHOLD_MAX};

use grid::Grid;

/// How often each of a set of values was observed, to within [`Histogram::error`].
///
/// NaN and infinities are no observations. Negative values are counted together with zero and not told apart: only their
/// smallest is known, and a quantile that falls among them is not.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    scale: i32,
    zero: u64,
    buckets: Vec<Bucket>,
    count: u64,
    sum: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
}

/// Observations in `(base^index, base^(index+1)]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Which bucket of its scale.
    pub index: i32,
    /// Observations in it.
    pub count: u64,
}

/// A share of observations at or below a value, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank {
    /// The likeliest share: within the value's own bucket as if its observations were spread evenly over their logarithm.
    /// `None` among negative values.
    pub share: Option<f64>,
    /// Where the true share lies.
    pub within: Interval,
}

/// A histogram as eight columns of a roll-up hold it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts<'a> {
    /// Base is `2^(2^-scale)`.
    pub scale: i64,
    /// Observations of zero or less.
    pub zero: i64,
    /// Bucket indexes, ascending.
    pub indexes: &'a [i64],
    /// Observations per bucket, as many as indexes.
    pub counts: &'a [i64],
    /// All observations.
    pub count: i64,
    /// Their sum, if known.
    pub sum: Option<f64>,
    /// The smallest, if known.
    pub min: Option<f64>,
    /// The largest, if known.
    pub max: Option<f64>,
}

/// Why numbers are no histogram.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// Nobody sends such a scale.
    #[error("scale {0} is not between {min} and {max}", min = SCALE_MIN, max = otel::SCALE_MAX)]
    Scale(i64),
    /// Lists that belong together.
    #[error("there are {0} bucket counts where {1} belong")]
    Lengths(usize, usize),
    /// Less than nothing was observed.
    #[error("an observation count is negative: {0}")]
    Negative(i64),
    /// Parts and whole disagree.
    #[error("the buckets hold {0} observations, the count says {1}")]
    Total(u64, i64),
    /// Out of order, or beyond every double.
    #[error("bucket index {0} is out of order or beyond what a double can hold")]
    Index(i64),
    /// What a wide zero bucket holds is anything.
    #[error("a zero bucket up to {0} is too wide to count as zero, which ends at {max:e}", max = ZERO_THRESHOLD_MAX)]
    Threshold(f64),
    /// Bounds that do not ascend.
    #[error("bucket bounds must ascend and be numbers")]
    Bounds,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new(SCALE)
    }
}

impl Histogram {
    /// A histogram without observations, of that scale or the nearest there is between [`SCALE_MIN`] and [`SCALE`].
    pub fn new(scale: i32) -> Histogram {
        let scale = scale.clamp(SCALE_MIN, SCALE);
        Histogram { scale, zero: 0, buckets: Vec::new(), count: 0, sum: Some(0.0), min: None, max: None }
    }

    /// The histogram that eight columns of a roll-up hold.
    ///
    /// # Errors
    /// Which invariant the columns break.
    pub fn from_parts(parts: Parts<'_>) -> Result<Histogram, Malformed> {
        let scale = otel::scale(parts.scale)?;
        if parts.indexes.len() != parts.counts.len() {
            return Err(Malformed::Lengths(parts.counts.len(), parts.indexes.len()));
        }
        let zero = natural(parts.zero)?;
        let mut buckets: Vec<Bucket> = Vec::with_capacity(parts.indexes.len());
        for (index, count) in parts.indexes.iter().zip(parts.counts) {
            let bucket = Bucket { index: grid::index_of(*index, scale)?, count: natural(*count)? };
            if buckets.last().is_some_and(|last| last.index >= bucket.index) {
                return Err(Malformed::Index(*index));
            }
            if bucket.count > 0 {
                buckets.push(bucket);
            }
        }
        let count = total(zero, &buckets);
        if i64::try_from(count) != Ok(parts.count) {
            return Err(Malformed::Total(count, parts.count));
        }
        let Parts { sum, min, max, .. } = parts;
        let mut histogram = Histogram { scale, zero, buckets, count, sum, min, max };
        if count == 0 {
            histogram = Histogram::new(scale);
        }
        histogram.downscale(SCALE);
        Ok(histogram)
    }

    /// Counts a value. `false`: it is NaN or infinite, and was not.
    pub fn observe(&mut self, value: f64) -> bool {
        self.observe_n(value, 1)
    }

    /// Counts a value that was seen `times` times. `false`: it is NaN or infinite, and was not.
    pub fn observe_n(&mut self, value: f64, times: u64) -> bool {
        if !value.is_finite() {
            return false;
        }
        if times == 0 {
            return true;
        }
        if value > 0.0 {
            self.add(Bucket { index: Grid::get().index(value) >> (SCALE - self.scale), count: times });
        } else {
            self.zero = plus(self.zero, times);
        }
        let is_first = self.count == 0;
        self.count = plus(self.count, times);
        self.sum = self.sum.map(|sum| sum + value * times as f64);
        self.min = if is_first { Some(value) } else { self.min.map(|min| min.min(value)) };
        self.max = if is_first { Some(value) } else { self.max.map(|max| max.max(value)) };
        true
    }

    fn add(&mut self, bucket: Bucket) {
        match self.buckets.binary_search_by_key(&bucket.index, |known| known.index) {
            Ok(at) => self.buckets[at].count = plus(self.buckets[at].count, bucket.count),
            Err(at) => self.buckets.insert(at, bucket),
        }
    }

    /// Adds another's observations; the coarser of the two scales stays. One without observations changes nothing.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            self.clone_from(other);
            return;
        }
        self.downscale(other.scale);
        let shift = other.scale - self.scale;
        let theirs = other.buckets.iter().map(|bucket| Bucket { index: bucket.index >> shift, ..*bucket });
        let new = added(&mut self.buckets, theirs);
        if !new.is_empty() {
            self.buckets = merged(&self.buckets, new.into_iter());
        }
        self.zero = plus(self.zero, other.zero);
        self.count = plus(self.count, other.count);
        let both = |mine: Option<f64>, theirs: Option<f64>, join: fn(f64, f64) -> f64| {
            mine.zip(theirs).map(|(mine, theirs)| join(mine, theirs))
        };
        self.sum = both(self.sum, other.sum, |mine, theirs| mine + theirs);
        self.min = both(self.min, other.min, f64::min);
        self.max = both(self.max, other.max, f64::max);
    }

    /// Makes it as coarse as `scale`; a scale that is not coarser changes nothing.
    pub fn downscale(&mut self, scale: i32) {
        let shift = self.scale - scale.max(SCALE_MIN);
        if shift <= 0 {
            return;
        }
        self.scale -= shift;
        for bucket in &mut self.buckets {
            bucket.index >>= shift;
        }
        self.buckets.dedup_by(|next, kept| {
            let same = next.index == kept.index;
            if same {
                kept.count = plus(kept.count, next.count);
            }
            same
        });
    }

    /// The observation of rank `⌈q × count⌉`, to within [`Histogram::error`] of it; the first and the last are exact where
    /// they are known.
    ///
    /// `None` without observations, for a `q` that is not between 0 and 1, and among negative values, which are not told apart.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = rank(q, self.count)?;
        let exact = if rank == 1 { self.min } else { None };
        let exact = exact.or(if rank == self.count { self.max } else { None });
        if exact.is_some() {
            return exact;
        }
        if rank <= self.zero {
            return self.min.filter(|min| *min >= 0.0).map(|_| self.clamp(0.0));
        }
        let mut seen = self.zero;
        for bucket in &self.buckets {
            seen = plus(seen, bucket.count);
            if seen >= rank {
                return Some(self.clamp(Grid::get().middle(bucket.index, self.scale)));
            }
        }
        self.max
    }

    fn clamp(&self, value: f64) -> f64 {
        let value = self.min.map_or(value, |min| value.max(min));
        self.max.map_or(value, |max| value.min(max))
    }

    /// The share of observations at or below a value, and between what it lies: only observations in the value's own bucket
    /// are in doubt. `None` without observations and for NaN.
    pub fn rank(&self, value: f64) -> Option<Rank> {
        if self.count == 0 || value.is_nan() {
            return None;
        }
        let of = |count: u64| count as f64 / self.count as f64;
        let exactly = |share: f64| Some(Rank { share: Some(share), within: Interval { lo: share, hi: share } });
        if value == f64::NEG_INFINITY || self.min.is_some_and(|min| value < min) {
            return exactly(0.0);
        }
        if value == f64::INFINITY || self.max.is_some_and(|max| value >= max) {
            return exactly(1.0);
        }
        if value < 0.0 {
            return Some(Rank { share: None, within: Interval { lo: 0.0, hi: of(self.zero) } });
        }
        if value == 0.0 {
            return exactly(of(self.zero));
        }
        let grid = Grid::get();
        let index = grid.index(value) >> (SCALE - self.scale);
        let at = self.buckets.partition_point(|bucket| bucket.index < index);
        let below = total(self.zero, &self.buckets[..at]);
        let own = self.buckets.get(at).filter(|bucket| bucket.index == index).map_or(0, |bucket| bucket.count);
        let reach = grid.position(value, index, self.scale);
        let lo = if reach >= 1.0 { of(plus(below, own)) } else { of(below) };
        let within = Interval { lo, hi: of(plus(below, own)) };
        Some(Rank { share: Some((below as f64 + own as f64 * reach) / self.count as f64), within })
    }

    /// Largest relative error of a quantile at this scale, `(base - 1) / (base + 1)`: 0.0109 at scale 5, 0.0433 at scale 3.
    pub fn error(&self) -> f64 {
        grid::error(self.scale)
    }

    /// Base is `2^(2^-scale)`.
    pub fn scale(&self) -> i32 {
        self.scale
    }

    /// Observations of zero or less.
    pub fn zero(&self) -> u64 {
        self.zero
    }

    /// Buckets that hold something, by index.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// All observations; it stays at `i64::MAX` where more would not fit a column.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes that it holds elsewhere.
    pub fn heap_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    /// Sum of the observations, unless one of the histograms merged did not know its own.
    pub fn sum(&self) -> Option<f64> {
        self.sum
    }

    /// Smallest observation, unless there is none or one of the histograms merged did not know its own.
    pub fn min(&self) -> Option<f64> {
        self.min
    }

    /// Largest observation, unless there is none or one of the histograms merged did not know its own.
    pub fn max(&self) -> Option<f64> {
        self.max
    }
}

/// Adds what falls into buckets that are there, and gives the rest: of many histograms that are added up, nearly all have buckets that
/// those before them had.
fn added(mine: &mut [Bucket], theirs: impl Iterator<Item = Bucket>) -> Vec<Bucket> {
    let mut new = Vec::new();
    let mut mine = mine.iter_mut().peekable();
    for their in theirs {
        while mine.next_if(|own| own.index < their.index).is_some() {}
        match mine.peek_mut() {
            Some(own) if own.index == their.index => own.count = plus(own.count, their.count),
            _ => new.push(their),
        }
    }
    new
}

/// Buckets of both, in order; `theirs` may name an index twice.
fn merged(mine: &[Bucket], theirs: impl Iterator<Item = Bucket>) -> Vec<Bucket> {
    let mut made: Vec<Bucket> = Vec::with_capacity(mine.len() + theirs.size_hint().0);
    let mut push = |bucket: Bucket| match made.last_mut() {
        Some(last) if last.index == bucket.index => last.count = plus(last.count, bucket.count),
        _ => made.push(bucket),
    };
    let mut mine = mine.iter().copied().peekable();
    for their in theirs {
        while let Some(own) = mine.next_if(|own| own.index <= their.index) {
            push(own);
        }
        push(their);
    }
    mine.for_each(push);
    made
}

/// Which observation in ascending order is the `q` quantile, from 1.
fn rank(q: f64, count: u64) -> Option<u64> {
    if count == 0 || !(0.0..=1.0).contains(&q) {
        return None;
    }
    // 0.55 × 100 is a little more than 55 as a double, and must not become 56
    let exact = q * count as f64 * (1.0 - 2.0 * f64::EPSILON);
    Some((exact.ceil() as u64).clamp(1, count))
}

/// Adds counts that must fit a BIGINT column. Capped addition stays associative.
fn plus(one: u64, other: u64) -> u64 {
    one.saturating_add(other).min(i64::MAX.unsigned_abs())
}

fn total(zero: u64, buckets: &[Bucket]) -> u64 {
    buckets.iter().fold(zero, |sum, bucket| plus(sum, bucket.count))
}

fn natural(count: i64) -> Result<u64, Malformed> {
    u64::try_from(count).map_err(|_| Malformed::Negative(count))
}
