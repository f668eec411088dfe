//! A weight matrix, kept in the form in which this machine multiplies fastest.
//!
//! candle has run-time detected kernels for 8-bit weights, but only where the inner dimension is a multiple of 256. The inner
//! dimension is therefore padded with zeros (576 → 768 for SmolLM2), which changes no result and makes a step about three
//! times faster. Activations are rounded to 8 bit in blocks of 256 with one scale, and models of this family have values in them
//! that stand out by far; columns are therefore spread over blocks before they are rounded, weights and activations alike, which
//! changes no exact result either. Machines without the instructions multiply in f32; a trial at load tells which they are.

use std::time::{Duration, Instant};

use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{Device, Module, Result, Tensor};
use serde::{Deserialize, Serialize};

use super::vector::spread;

/// Inner dimension the 8-bit kernels need, in values.
const KERNEL_BLOCK: usize = 256;
/// Most columns that are spread over each other.
const SPREAD_MAX: usize = 256;
/// Rows that the 8-bit kernels take at once.
const KERNEL_ROWS: usize = 16;

/// How weights are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weights {
    /// As a trial at load finds to be faster here.
    #[default]
    Auto,
    /// 8 bit, blocks of 32 with one scale; activations are rounded to 8 bit too.
    #[serde(rename = "q8_0")]
    Q8_0,
    /// 32-bit floats.
    F32,
}

impl Weights {
    /// Its name in telemetry.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Weights::Auto => "auto",
            Weights::Q8_0 => "q8_0",
            Weights::F32 => "f32",
        }
    }

    /// Settles what is left to a trial: both forms multiply a matrix with `columns` columns, and 8 bit is taken if it is right
    /// and not slower for one row and for eight. Takes about a tenth of a second.
    pub(crate) fn settled(self, columns: usize) -> Result<Self> {
        if self != Weights::Auto {
            return Ok(self);
        }
        let count = TRIAL_ROWS * columns;
        let whole = Tensor::from_vec(numbers(count, 1), (TRIAL_ROWS, columns), &Device::Cpu)?;
        let (narrow, wide) = (Matrix::of(whole.clone(), Weights::Q8_0)?, Matrix::of(whole, Weights::F32)?);
        let mut faster = narrow.quantized();
        for rows in [1, 8] {
            let (narrow_time, narrow) = narrow.trial(rows, columns)?;
            let (wide_time, wide) = wide.trial(rows, columns)?;
            let off = distance(&narrow, &wide);
            tracing::info!(rows, ?narrow_time, ?wide_time, off, "8-bit weights against f32");
            faster &= narrow_time <= wide_time && off < TRIAL_ERROR_MAX;
        }
        Ok(if faster { Weights::Q8_0 } else { Weights::F32 })
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
pub(crate) struct Matrix {
    weights: QMatMul,
    rows: usize,
    columns: usize,
    padded: usize,
    /// Columns that are spread over each other, a power of 4; 1 where nothing is rounded.
    block: usize,
}

impl Matrix {
    /// Stacks `parts` (each `[rows, columns]`, equal columns) into one matrix: one product then serves them all.
    pub(crate) fn stack(parts: &[Tensor], form: Weights) -> Result<Self> {
        Self::of(Tensor::cat(parts, 0)?, form)
    }

    /// Rows in 8 bit must come in sixteens; others stay as they are.
    fn of(whole: Tensor, form: Weights) -> Result<Self> {
        let (rows, columns) = whole.dims2()?;
        if form == Weights::F32 || !rows.is_multiple_of(KERNEL_ROWS) {
            return Ok(Self { weights: QMatMul::Tensor(whole), rows, columns, padded: columns, block: 1 });
        }
        let padded = columns.next_multiple_of(KERNEL_BLOCK);
        let block = 4_usize.pow(columns.trailing_zeros() / 2).min(SPREAD_MAX);
        let mut values = whole.flatten_all()?.to_vec1()?;
        spread(&mut values, block);
        let whole = Tensor::from_vec(values, (rows, columns), &Device::Cpu)?;
        let whole = whole.pad_with_zeros(1, 0, padded - columns)?;
        let weights = QMatMul::from_qtensor(QTensor::quantize(&whole, GgmlDType::Q8_0)?)?;
        Ok(Self { weights, rows, columns, padded, block })
    }

    /// Whether the weights are rounded.
    fn quantized(&self) -> bool {
        matches!(self.weights, QMatMul::QTensor(_))
    }

    /// The shortest of several products with `rows` rows, and what came of them.
    fn trial(&self, rows: usize, columns: usize) -> Result<(Duration, Vec<f32>)> {
        let mut input = vec![0.0; rows * self.padded];
        input.chunks_exact_mut(self.padded).for_each(|row| row[..columns].copy_from_slice(&numbers(columns, 2)));
        let (mut shortest, mut product) = (Duration::MAX, Vec::new());
        for _ in 0..TRIALS {
            let begun = Instant::now();
            product = self.apply(input.clone(), rows)?;
            shortest = shortest.min(begun.elapsed());
        }
        Ok((shortest, product))
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Floats that one input row of [`Matrix::apply`] takes; those from `columns` on must be zero.
    pub(crate) fn stride(&self) -> usize {
        self.padded
    }

    /// Multiplies `count` input rows of [`Matrix::stride`] floats; gives `count` rows of [`Matrix::rows`] floats.
    pub(crate) fn apply(&self, mut input: Vec<f32>, count: usize) -> Result<Vec<f32>> {
        if self.block > 1 {
            input.chunks_exact_mut(self.padded).for_each(|row| spread(&mut row[..self.columns], self.block));
        }
        let input = Tensor::from_vec(input, (count, self.padded), &Device::Cpu)?;
        self.weights.forward(&input)?.flatten_all()?.to_vec1()
    }

    /// The rows themselves, for an embedding: `ids.len()` rows of `columns` floats, one after another.
    pub(crate) fn lookup(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let ids = Tensor::new(ids, &Device::Cpu)?;
        let mut rows = self.weights.embedding(&ids)?.narrow(1, 0, self.columns)?.flatten_all()?.to_vec1()?;
        spread(&mut rows, self.block);
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trial settles on one form; a form that is asked for is not tried.
    #[test]
    fn trials_settle() {
        assert_ne!(Weights::Auto.settled(64).unwrap(), Weights::Auto);
        assert_eq!(Weights::F32.settled(64).unwrap(), Weights::F32);
    }

    /// 8-bit products are near the exact ones with and without padding, and a row's does not depend on its neighbours.
    #[test]
    fn eight_bit_products_are_near() {
        for columns in [64, 256, 576] {
            let whole = Tensor::from_vec(numbers(48 * columns, 3), (48, columns), &Device::Cpu).unwrap();
            let (narrow, wide) =
                (Matrix::of(whole.clone(), Weights::Q8_0).unwrap(), Matrix::of(whole, Weights::F32).unwrap());
            let one = narrow.trial(1, columns).unwrap().1;
            let off = distance(&one, &wide.trial(1, columns).unwrap().1);
            assert!(off < TRIAL_ERROR_MAX, "{columns}: {off}");
            let five = narrow.trial(5, columns).unwrap().1;
            assert!(five.chunks_exact(48).all(|row| row == one), "{columns}");
        }
    }

    /// A value that stands out does not drown the others: without spreading, half of them would be rounded to nothing.
    #[test]
    fn what_stands_out_drowns_nothing() {
        let whole = Tensor::from_vec(numbers(48 * 256, 3), (48, 256), &Device::Cpu).unwrap();
        let (narrow, wide) =
            (Matrix::of(whole.clone(), Weights::Q8_0).unwrap(), Matrix::of(whole, Weights::F32).unwrap());
        let mut input = numbers(256, 4);
        input[7] = 300.0;
        // What the value itself adds is the same in both, and large: it is taken away.
        let mut only = vec![0.0; 256];
        only[7] = 300.0;
        let exact = |matrix: &Matrix, input: &[f32]| matrix.apply(input.to_vec(), 1).unwrap();
        let least = |matrix: &Matrix| -> Vec<f32> {
            exact(matrix, &input).iter().zip(exact(&wide, &only)).map(|(all, only)| all - only).collect()
        };
        let off = distance(&least(&narrow), &least(&wide));
        assert!(off < 0.3, "{off}");
    }

    /// Two values off by a tenth each.
    #[test]
    fn distances_are_relative() {
        assert!((distance(&[1.1, -2.2], &[1.0, -2.0]) - 0.1).abs() < 1e-6);
    }
}
