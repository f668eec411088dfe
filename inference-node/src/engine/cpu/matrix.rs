//! A weight matrix, kept in the form in which this machine multiplies fastest.
//!
//! Weights of 4 and 8 bit are multiplied as they are ([`Packed`]), with activations rounded to 8 bit. Machines whose processor has no
//! instructions for that multiply in f32; a trial at load tells which they are.

use std::time::{Duration, Instant};

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Result, Tensor};
use serde::{Deserialize, Serialize};

use super::packed::Packed;

/// How weights are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weights {
    /// As a trial at load finds to be faster here.
    #[default]
    Auto,
    /// In blocks of 32 with one scale: those of a file in Q4_0, Q4_1 or Q8_0 as they are, others rounded to Q8_0. Activations are
    /// rounded to 8 bit.
    Packed,
    /// 32-bit floats; nothing is rounded.
    F32,
}

impl Weights {
    /// Settles what is left to a trial: both forms multiply a matrix with `columns` columns, and the packed one is taken if it is
    /// right and not slower for one row and for eight. Takes about a tenth of a second.
    pub(crate) fn settled(self, columns: usize) -> Result<Self> {
        if self != Weights::Auto {
            return Ok(self);
        }
        let whole = Tensor::from_vec(numbers(TRIAL_ROWS * columns, 1), (TRIAL_ROWS, columns), &Device::Cpu)?;
        let whole = [QTensor::quantize(&whole, GgmlDType::F32)?];
        let (packed, plain) = (Matrix::stack(&whole, Weights::Packed)?, Matrix::stack(&whole, Weights::F32)?);
        let mut faster = matches!(packed, Matrix::Packed(_));
        for rows in [1, 8] {
            let (packed_time, packed) = packed.trial(rows, columns)?;
            let (plain_time, plain) = plain.trial(rows, columns)?;
            let off = distance(&packed, &plain);
            tracing::info!(rows, ?packed_time, ?plain_time, off, "packed weights against f32");
            faster &= packed_time <= plain_time && off < TRIAL_ERROR_MAX;
        }
        Ok(if faster { Weights::Packed } else { Weights::F32 })
    }
}

/// Rows of the matrix that is tried.
const TRIAL_ROWS: usize = 1_024;
/// Products of which the fastest counts.
const TRIALS: usize = 8;
/// Rounding to 8 bit leaves about 0.01; a kernel that is further off is wrong.
const TRIAL_ERROR_MAX: f32 = 0.05;

/// Repeatable numbers between -1 and 1 without a pattern (Knuth's linear congruential generator, MMIX).
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}

/// Root of the squared differences over the squared values.
fn distance(values: &[f32], exact: &[f32]) -> f32 {
    let differences: f32 = values.iter().zip(exact).map(|(value, exact)| (value - exact).powi(2)).sum();
    (differences / exact.iter().map(|value| value * value).sum::<f32>()).sqrt()
}

/// Weights of shape `[rows, columns]`, applied as `x · Wᵀ`.
pub(crate) enum Matrix {
    Packed(Packed),
    /// 32-bit floats.
    Plain(Tensor),
}

impl Matrix {
    /// Stacks `parts` (each `[rows, columns]`, equal columns) into one matrix: one product then serves them all. Rows that do not
    /// come in whole blocks stay plain.
    pub(crate) fn stack(parts: &[QTensor], form: Weights) -> Result<Self> {
        let mut whole = Vec::with_capacity(parts.len());
        let packs = parts.iter().all(|part| part.shape().dims().last().is_some_and(|columns| Packed::takes(*columns)));
        if form != Weights::F32 && packs {
            return Packed::stack(parts).map(Self::Packed);
        }
        for part in parts {
            whole.push(part.dequantize(&Device::Cpu)?);
        }
        Tensor::cat(&whole, 0).map(Self::Plain)
    }

    /// Name of its form, as files have it.
    pub(crate) fn form(&self) -> &'static str {
        match self {
            Self::Plain(_) => "f32",
            Self::Packed(packed) => match packed.form() {
                GgmlDType::Q4_0 => "q4_0",
                GgmlDType::Q4_1 => "q4_1",
                _ => "q8_0",
            },
        }
    }

    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.rows(),
            Self::Plain(weights) => weights.dims()[0],
        }
    }

    /// Multiplies `count` input rows, one after another; gives `count` rows of [`Matrix::rows`] floats.
    pub(crate) fn apply(&self, input: Vec<f32>, count: usize) -> Result<Vec<f32>> {
        match self {
            Self::Packed(packed) => Ok(packed.apply(&input, count)),
            Self::Plain(weights) => {
                let columns = input.len() / count.max(1);
                let input = Tensor::from_vec(input, (count, columns), &Device::Cpu)?;
                input.matmul(&weights.t()?)?.flatten_all()?.to_vec1()
            }
        }
    }

    /// The rows themselves, for an embedding: `ids.len()` rows, one after another.
    pub(crate) fn lookup(&self, ids: &[u32]) -> Result<Vec<f32>> {
        match self {
            Self::Packed(packed) => {
                let mut rows = Vec::new();
                ids.iter().for_each(|id| packed.row(*id as usize, &mut rows));
                Ok(rows)
            }
            Self::Plain(weights) => weights.index_select(&Tensor::new(ids, &Device::Cpu)?, 0)?.flatten_all()?.to_vec1(),
        }
    }

    /// The shortest of several products with `rows` rows, and what came of them.
    fn trial(&self, rows: usize, columns: usize) -> Result<(Duration, Vec<f32>)> {
        let input = numbers(columns, 2).repeat(rows);
        let (mut shortest, mut product) = (Duration::MAX, Vec::new());
        for _ in 0..TRIALS {
            let input = input.clone();
            let begun = Instant::now();
            product = self.apply(input, rows)?;
            shortest = shortest.min(begun.elapsed());
        }
        Ok((shortest, product))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(rows: usize, columns: usize, form: GgmlDType) -> [QTensor; 1] {
        let whole = Tensor::from_vec(numbers(rows * columns, 3), (rows, columns), &Device::Cpu).unwrap();
        [QTensor::quantize(&whole, form).unwrap()]
    }

    /// The trial settles on one form; a form that is asked for is not tried.
    #[test]
    fn trials_settle() {
        assert_ne!(Weights::Auto.settled(64).unwrap(), Weights::Auto);
        assert_eq!(Weights::F32.settled(64).unwrap(), Weights::F32);
    }

    /// Products of packed weights are near those of the same weights as floats, whatever their form, and a row's does not depend on
    /// its neighbours. Rows need not come in sixteens.
    #[test]
    fn packed_products_are_near() {
        for (form, name) in [
            (GgmlDType::Q4_0, "q4_0"),
            (GgmlDType::Q4_1, "q4_1"),
            (GgmlDType::Q8_0, "q8_0"),
            (GgmlDType::F32, "q8_0"),
            (GgmlDType::F16, "q8_0"),
        ] {
            for (rows, columns) in [(48, 64), (40, 576), (1, 32)] {
                let parts = parts(rows, columns, form);
                let packed = Matrix::stack(&parts, Weights::Packed).unwrap();
                let plain = Matrix::stack(&parts, Weights::F32).unwrap();
                assert_eq!((packed.form(), plain.form()), (name, "f32"));
                assert_eq!((packed.rows(), plain.rows()), (rows, rows));
                let one = packed.trial(1, columns).unwrap().1;
                let off = distance(&one, &plain.trial(1, columns).unwrap().1);
                assert!(off < 0.02, "{form:?} {rows} {columns}: {off}");
                let five = packed.trial(5, columns).unwrap().1;
                assert!(five.chunks_exact(rows).all(|row| row == one), "{form:?} {rows} {columns}");
            }
        }
    }

    /// Weights of a file's form are the file's very values; parts of several forms become one.
    #[test]
    fn kept_forms_are_exact() {
        for form in [GgmlDType::Q4_0, GgmlDType::Q4_1, GgmlDType::Q8_0] {
            let parts = parts(40, 96, form);
            let ids: Vec<u32> = (0..40).rev().collect();
            let packed = Matrix::stack(&parts, Weights::Packed).unwrap().lookup(&ids).unwrap();
            assert_eq!(packed, Matrix::stack(&parts, Weights::F32).unwrap().lookup(&ids).unwrap(), "{form:?}");
        }
        let [four] = parts(16, 64, GgmlDType::Q4_1);
        let [eight] = parts(32, 64, GgmlDType::Q8_0);
        let both = Matrix::stack(&[four, eight], Weights::Packed).unwrap();
        assert_eq!((both.form(), both.rows()), ("q8_0", 48));
    }

    /// Rows that do not come in whole blocks are multiplied as floats.
    #[test]
    fn odd_rows_stay_plain() {
        assert_eq!(Matrix::stack(&parts(16, 24, GgmlDType::F32), Weights::Packed).unwrap().form(), "f32");
    }

    /// Values that stand out drown those of their own block alone: a scale is shared by 32 values.
    #[test]
    fn what_stands_out_drowns_little() {
        let parts = parts(48, 256, GgmlDType::Q8_0);
        let packed = Matrix::stack(&parts, Weights::Packed).unwrap();
        let plain = Matrix::stack(&parts, Weights::F32).unwrap();
        let mut input = numbers(256, 4);
        input[7] = 300.0;
        // What the value itself adds is the same in both, and large: it is taken away.
        let mut only = vec![0.0; 256];
        only[7] = 300.0;
        let exact = |matrix: &Matrix, input: &[f32]| matrix.apply(input.to_vec(), 1).unwrap();
        let rest = |matrix: &Matrix| -> Vec<f32> {
            exact(matrix, &input).iter().zip(exact(&plain, &only)).map(|(all, only)| all - only).collect()
        };
        let off = distance(&rest(&packed), &rest(&plain));
        assert!(off < 0.5, "{off}");
    }

    /// Two values off by a tenth each.
    #[test]
    fn distances_are_relative() {
        assert!((distance(&[1.1, -2.2], &[1.0, -2.0]) - 0.1).abs() < 1e-6);
    }
}
