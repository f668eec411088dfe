//! Where a value falls on the exponential grid, and where its buckets lie.

use std::sync::LazyLock;

use super::Malformed;

/// Scale of our own observations: 32 buckets an octave, each 2.19 % wide.
pub const SCALE: i32 = 5;
/// Coarsest scale there is: two buckets for all doubles, as in OpenTelemetry.
pub const SCALE_MIN: i32 = -10;

/// Buckets of an octave at [`SCALE`].
const PER_OCTAVE: usize = 1 << SCALE;
/// Equal parts of an octave. Each is narrower than the narrowest bucket, so that at most one bound lies in it.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 6;
const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
const _: () = assert!(SLOTS >= 2 * PER_OCTAVE, "1/64 is less than 2^(1/32) - 1");

/// Exponent of the smallest double there is. Our own values below the smallest normal one share its bucket.
const EXPONENT_MIN: i64 = f64::MIN_EXP as i64 - f64::MANTISSA_DIGITS as i64;
const EXPONENT_MAX: i64 = f64::MAX_EXP as i64;

/// Bounds within an octave at [`SCALE`], and the first of them at or above the start of each slot.
pub(super) struct Grid {
    bounds: [f64; PER_OCTAVE + 1],
    next: [u8; SLOTS],
}

static GRID: LazyLock<Grid> = LazyLock::new(|| {
    let bounds = std::array::from_fn(|at| (at as f64 / PER_OCTAVE as f64).exp2());
    let next = std::array::from_fn(|slot| {
        let start = 1.0 + slot as f64 / SLOTS as f64;
        bounds.iter().filter(|bound| **bound < start).count() as u8
    });
    Grid { bounds, next }
});

impl Grid {
    pub(super) fn get() -> &'static Grid {
        &GRID
    }

    /// The bucket of a positive, finite value at [`SCALE`].
    #[inline]
    pub(super) fn index(&self, value: f64) -> i32 {
        let bits = value.max(f64::MIN_POSITIVE).to_bits();
        let exponent = ((bits >> MANTISSA_BITS) & 0x7ff) as i32 - (f64::MAX_EXP - 1);
        let mantissa = f64::from_bits((bits & ((1 << MANTISSA_BITS) - 1)) | 1.0_f64.to_bits());
        let slot = (bits >> (MANTISSA_BITS - SLOT_BITS)) as usize % SLOTS;
        let next = self.next[slot];
        // bounds below the value; it lies in the bucket above the last of them
        let below = i32::from(next) + i32::from(self.bounds[usize::from(next)] < mantissa);
        exponent * PER_OCTAVE as i32 + below - 1
    }

    /// What the bucket's values are above.
    pub(super) fn lower(&self, index: i32, scale: i32) -> f64 {
        if scale < 0 {
            return (f64::from(index) * f64::from(-scale).exp2()).exp2();
        }
        let (octave, within) = (index >> scale, index - ((index >> scale) << scale));
        let bound = usize::try_from(within << (SCALE - scale)).map_or(1.0, |at| self.bounds[at]);
        bound * f64::from(octave).exp2()
    }

    /// The value that is equally far, in relation to each, from both ends of the bucket: their harmonic mean.
    pub(super) fn middle(&self, index: i32, scale: i32) -> f64 {
        let lower = self.lower(index, scale);
        let inverse_base = (-(-f64::from(scale)).exp2()).exp2();
        (lower * (2.0 / (1.0 + inverse_base))).min(f64::MAX)
    }

    /// How far up the bucket a value lies, from 0 to 1, by logarithm; exactly 1 at its upper bound.
    pub(super) fn position(&self, value: f64, index: i32, scale: i32) -> f64 {
        if value >= self.lower(index + 1, scale) {
            return 1.0;
        }
        (value.log2() * f64::from(scale).exp2() - f64::from(index)).clamp(0.0, 1.0 - f64::EPSILON)
    }
}

/// Largest relative distance between a bucket's middle and a value in it, `(base - 1) / (base + 1)`.
pub(super) fn error(scale: i32) -> f64 {
    (std::f64::consts::LN_2 * (-f64::from(scale)).exp2() / 2.0).tanh()
}

/// The index, if a double can lie in that bucket.
pub(super) fn index_of(index: i64, scale: i32) -> Result<i32, Malformed> {
    // by 64 bits: an octave of scale 20 has a million buckets
    let (lowest, highest) = if scale >= 0 {
        ((EXPONENT_MIN << scale) - 1, (EXPONENT_MAX << scale) - 1)
    } else {
        (((EXPONENT_MIN << SCALE) - 1) >> (SCALE - scale), ((EXPONENT_MAX << SCALE) - 1) >> (SCALE - scale))
    };
    let narrow = i32::try_from(index).ok().filter(|_| (lowest..=highest).contains(&index));
    narrow.ok_or(Malformed::Index(index))
}
