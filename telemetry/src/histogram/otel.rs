//! Exponential histograms as OTLP sends them, and as table `histograms` keeps them.

use super::{Bucket, Histogram, Malformed, SCALE_MIN, grid, natural, plus, total};

/// Finest scale that SDKs send.
pub(super) const SCALE_MAX: i32 = 20;

/// Widest zero bucket whose observations count as zero: 2^-40, about 10^-12. SDKs send 0, Prometheus 2^-128.
pub const ZERO_THRESHOLD_MAX: f64 = 1.0 / (1_u64 << 40) as f64;

/// The parts of an OTLP exponential histogram's data point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exponential<'a> {
    /// Base is `2^(2^-scale)`, -10 to 20.
    pub scale: i64,
    /// Observations in the zero bucket.
    pub zero_count: i64,
    /// Half-width of the zero bucket, at most [`ZERO_THRESHOLD_MAX`] if it holds anything.
    pub zero_threshold: f64,
    /// Index of the first positive bucket.
    pub positive_offset: i64,
    /// Observations per positive bucket.
    pub positive_counts: &'a [i64],
    /// Observations per negative bucket, wherever they lie: they are counted, not told apart.
    pub negative_counts: &'a [i64],
    /// Sum of the observations, if sent.
    pub sum: Option<f64>,
    /// The smallest, if sent.
    pub min: Option<f64>,
    /// The largest, if sent.
    pub max: Option<f64>,
}

impl Histogram {
    /// The histogram that an OTLP data point holds, at its own scale or [`SCALE`](super::SCALE) if that is finer.
    ///
    /// # Errors
    /// What makes it none.
    pub fn from_otel(sent: &Exponential<'_>) -> Result<Histogram, Malformed> {
        let scale = scale(sent.scale)?;
        let zeros = natural(sent.zero_count)?;
        if zeros > 0 && !(0.0..=ZERO_THRESHOLD_MAX).contains(&sent.zero_threshold) {
            return Err(Malformed::Threshold(sent.zero_threshold));
        }
        let mut negatives = 0;
        for count in sent.negative_counts {
            negatives = plus(negatives, natural(*count)?);
        }
        let mut buckets = Vec::new();
        for (at, count) in (0_i64..).zip(sent.positive_counts) {
            let count = natural(*count)?;
            if count > 0 {
                buckets.push(Bucket { index: grid::index_of(sent.positive_offset.saturating_add(at), scale)?, count });
            }
        }
        let zero = plus(zeros, negatives);
        let count = total(zero, &buckets);
        let mut made = Histogram { scale, zero, buckets, count, sum: sent.sum, min: sent.min, max: sent.max };
        if count == 0 {
            made = Histogram::new(scale);
        } else if zeros > 0 && negatives == 0 {
            made.min = made.min.or(Some(0.0));
        }
        made.downscale(grid::SCALE);
        Ok(made)
    }
}

/// The scale, if anybody sends it.
pub(super) fn scale(sent: i64) -> Result<i32, Malformed> {
    let known = i32::try_from(sent).ok().filter(|scale| (SCALE_MIN..=SCALE_MAX).contains(scale));
    known.ok_or(Malformed::Scale(sent))
}
