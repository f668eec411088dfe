//! A weight matrix, kept in the form in which this machine multiplies fastest.
//!
//! candle has run-time detected kernels for 8-bit weights, but only where the inner dimension is a multiple of 256. The inner
//! dimension is therefore padded with zeros (576 → 768 for SmolLM2), which changes no result and makes a step about three
//! times faster. Machines without the instructions multiply in f32.

use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{Device, Module, Result, Tensor};

/// Inner dimension the 8-bit kernels need, in values.
const KERNEL_BLOCK: usize = 256;

/// Weights of shape `[rows, columns]`, applied as `x · Wᵀ`.
pub(crate) struct Matrix {
    weights: QMatMul,
    rows: usize,
    columns: usize,
    padded: usize,
}

impl Matrix {
    /// Stacks `parts` (each `[rows, columns]`, equal columns) into one matrix: one product then serves them all.
    pub(crate) fn stack(parts: &[Tensor]) -> Result<Self> {
        let whole = Tensor::cat(parts, 0)?;
        let (rows, columns) = whole.dims2()?;
        if !eight_bit_is_fast() || !rows.is_multiple_of(16) {
            return Ok(Self { weights: QMatMul::Tensor(whole), rows, columns, padded: columns });
        }
        let padded = columns.next_multiple_of(KERNEL_BLOCK);
        let whole = whole.pad_with_zeros(1, 0, padded - columns)?;
        let weights = QMatMul::from_qtensor(QTensor::quantize(&whole, GgmlDType::Q8_0)?)?;
        Ok(Self { weights, rows, columns, padded })
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Floats that one input row of [`Matrix::apply`] takes; those from `columns` on must be zero.
    pub(crate) fn stride(&self) -> usize {
        self.padded
    }

    /// Multiplies `count` input rows of [`Matrix::stride`] floats; gives `count` rows of [`Matrix::rows`] floats.
    pub(crate) fn apply(&self, input: Vec<f32>, count: usize) -> Result<Vec<f32>> {
        let input = Tensor::from_vec(input, (count, self.padded), &Device::Cpu)?;
        self.weights.forward(&input)?.flatten_all()?.to_vec1()
    }

    /// The rows themselves, for an embedding: `ids.len()` rows of `columns` floats, one after another.
    pub(crate) fn lookup(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let ids = Tensor::new(ids, &Device::Cpu)?;
        self.weights.embedding(&ids)?.narrow(1, 0, self.columns)?.flatten_all()?.to_vec1()
    }
}

/// Whether candle's 8-bit kernels run here; they need dot-product instructions of the processor.
#[cfg(target_arch = "x86_64")]
pub(crate) fn eight_bit_is_fast() -> bool {
    let wide = std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512vnni");
    let narrow = std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("avxvnni");
    wide || narrow
}

/// Whether candle's 8-bit kernels run here; they need dot-product instructions of the processor.
#[cfg(target_arch = "aarch64")]
pub(crate) fn eight_bit_is_fast() -> bool {
    std::arch::is_aarch64_feature_detected!("dotprod")
}

/// Whether candle's 8-bit kernels run here; they need dot-product instructions of the processor.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn eight_bit_is_fast() -> bool {
    false
}
