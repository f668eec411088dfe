//! Weights of 4 or 8 bit, and their products with activations rounded to 8 bit.
//!
//! ```text
//! blocks of a GGUF file -> tiles of 16 rows -> kernel
//! a row of activations  -> blocks of 32     -> kernel -> a row of results
//! ```
//!
//! Blocks of Q4_0, Q4_1 and Q8_0 keep the very values that the file has; weights in other forms are rounded to Q8_0 first. They lie
//! so that one load serves 16 rows. Activations are rounded as llama.cpp rounds them: to 8 bit, each 32 values with a scale of their
//! own. Products of whole numbers are exact and sums run in one order, so that results are the same to the bit on every processor
//! and whatever else is in the batch.

mod kernel;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Result};

use self::kernel::Tile;
use super::vector::round;

/// Values that share a scale, of weights and of activations.
pub(super) const BLOCK: usize = 32;
/// Rows of a tile, as many as the widest vectors have lanes.
const LANES: usize = 16;
/// Added to signed weights, since the processor multiplies unsigned ones.
pub(super) const OFFSET: i32 = 128;

/// A matrix in tiles.
pub(crate) struct Packed {
    form: GgmlDType,
    rows: usize,
    /// Blocks of a row.
    blocks: usize,
    tiles: Tiles,
}

/// All blocks of the first 16 rows, then those of the next.
enum Tiles {
    Four(Vec<Four>),
    Eight(Vec<Eight>),
}

/// One block of 16 rows in 4 bit: `scale · quant + least`.
#[derive(Clone)]
#[repr(C, align(64))]
struct Four {
    /// Byte `j` of lane `i` in vector `g` has value `8 g + j` in its lower half and `8 g + 4 + j` in its upper half.
    quants: [[u8; 4 * LANES]; 4],
    /// 16-bit floats.
    scales: [u16; LANES],
    /// 16-bit floats.
    least: [u16; LANES],
}

/// One block of 16 rows in 8 bit: `scale · (quant - 128)`.
#[derive(Clone)]
#[repr(C, align(64))]
struct Eight {
    /// Byte `j` of lane `i` in vector `g` has value `4 g + j`.
    quants: [[u8; 4 * LANES]; 8],
    scales: [f32; LANES],
}

/// One block of activations: `scale · quant`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rounded {
    /// Four quants in each, the first in the lowest byte.
    pub(super) quants: [i32; BLOCK / 4],
    pub(super) scale: f32,
    /// Sum of the values.
    pub(super) total: f32,
    /// What the offset of 8-bit weights adds to a product too much, to be begun with: `-128 ·` sum of the quants.
    pub(super) excess: i32,
}

impl Packed {
    /// Whether rows of `columns` values come in whole blocks.
    pub(super) fn takes(columns: usize) -> bool {
        columns > 0 && columns.is_multiple_of(BLOCK)
    }

    /// Stacks `parts`, each of shape `[rows, columns]` with the same columns, which [`Packed::takes`]. They keep their form if it is
    /// one that can be kept and all have it.
    pub(super) fn stack(parts: &[QTensor]) -> Result<Self> {
        let form = shared_form(parts);
        let (mut rows, mut columns, mut bytes) = (0, 0, Vec::new());
        for part in parts {
            let (count, width) = part.shape().dims2()?;
            (rows, columns) = (rows + count, width);
            if part.dtype() == form {
                bytes.extend_from_slice(&part.data()?);
            } else {
                let whole = part.dequantize(&Device::Cpu)?;
                bytes.extend_from_slice(&QTensor::quantize(&whole, form)?.data()?);
            }
        }
        let blocks = columns / BLOCK;
        let raw = bytes.chunks_exact(form.type_size());
        let tiles = match form {
            GgmlDType::Q4_1 => Tiles::Four(tiles(raw, rows, blocks, Four::put_q4_1)),
            GgmlDType::Q4_0 => Tiles::Eight(tiles(raw, rows, blocks, Eight::put_q4_0)),
            _ => Tiles::Eight(tiles(raw, rows, blocks, Eight::put_q8_0)),
        };
        Ok(Self { form, rows, blocks, tiles })
    }

    /// Form of the weights: Q4_0, Q4_1 or Q8_0.
    pub(super) fn form(&self) -> GgmlDType {
        self.form
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Multiplies `count` rows of `input`, one after another; gives as many rows of [`Packed::rows`] floats.
    pub(super) fn apply(&self, input: &[f32], count: usize) -> Vec<f32> {
        let mut rounded = vec![Rounded::default(); count * self.blocks];
        round(input, &mut rounded);
        let mut out = vec![0.0; count * self.rows];
        match &self.tiles {
            Tiles::Four(tiles) => kernel::multiply(tiles, self.blocks, &rounded, self.rows, &mut out),
            Tiles::Eight(tiles) => kernel::multiply(tiles, self.blocks, &rounded, self.rows, &mut out),
        }
        out
    }

    /// Row `index` as floats, appended to `out`.
    pub(super) fn row(&self, index: usize, out: &mut Vec<f32>) {
        let (first, lane) = (index / LANES * self.blocks, index % LANES);
        for block in first..first + self.blocks {
            match &self.tiles {
                Tiles::Four(tiles) => out.extend(tiles[block].values(lane)),
                Tiles::Eight(tiles) => out.extend(tiles[block].values(lane)),
            }
        }
    }
}

/// The form that the parts share, if it can be kept; else Q8_0.
fn shared_form(parts: &[QTensor]) -> GgmlDType {
    let mut forms = parts.iter().map(QTensor::dtype);
    match forms.next() {
        Some(form @ (GgmlDType::Q4_0 | GgmlDType::Q4_1)) if forms.all(|other| other == form) => form,
        _ => GgmlDType::Q8_0,
    }
}

/// Tiles of blocks that lie row by row. Rows that are missing in the last tile have weights of zero.
fn tiles<'a, T: Tile>(
    raw: impl Iterator<Item = &'a [u8]>,
    rows: usize,
    blocks: usize,
    put: fn(&mut T, usize, &[u8]),
) -> Vec<T> {
    let mut tiles = vec![T::EMPTY; rows.div_ceil(LANES) * blocks];
    for (index, raw) in raw.enumerate() {
        let (row, block) = (index / blocks, index % blocks);
        put(&mut tiles[row / LANES * blocks + block], row % LANES, raw);
    }
    tiles
}

impl Four {
    /// Takes a block of the form Q4_1: scale, least value, then 16 bytes with value `i` in the lower and `i + 16` in the upper half.
    fn put_q4_1(&mut self, lane: usize, raw: &[u8]) {
        self.scales[lane] = u16::from_le_bytes([raw[0], raw[1]]);
        self.least[lane] = u16::from_le_bytes([raw[2], raw[3]]);
        let quants = halves(&raw[4..]);
        for (at, quant) in quants.into_iter().enumerate() {
            self.quants[at / 8][4 * lane + at % 4] |= quant << (at % 8 / 4 * 4);
        }
    }

    fn quant(&self, lane: usize, at: usize) -> u8 {
        self.quants[at / 8][4 * lane + at % 4] >> (at % 8 / 4 * 4) & 15
    }

    fn values(&self, lane: usize) -> impl Iterator<Item = f32> {
        let (scale, least) = (widened(self.scales[lane]), widened(self.least[lane]));
        (0..BLOCK).map(move |at| scale * f32::from(self.quant(lane, at)) + least)
    }
}

impl Eight {
    /// Takes a block of the form Q8_0: scale, then 32 signed bytes.
    fn put_q8_0(&mut self, lane: usize, raw: &[u8]) {
        self.scales[lane] = widened(u16::from_le_bytes([raw[0], raw[1]]));
        for (at, quant) in raw[2..].iter().enumerate() {
            self.quants[at / 4][4 * lane + at % 4] = quant.wrapping_add(OFFSET as u8);
        }
    }

    /// Takes a block of the form Q4_0: scale, then 16 bytes as in Q4_1 with values from -8 to 7.
    fn put_q4_0(&mut self, lane: usize, raw: &[u8]) {
        self.scales[lane] = widened(u16::from_le_bytes([raw[0], raw[1]]));
        for (at, quant) in halves(&raw[2..]).into_iter().enumerate() {
            self.quants[at / 4][4 * lane + at % 4] = quant + OFFSET as u8 - 8;
        }
    }

    fn quant(&self, lane: usize, at: usize) -> i32 {
        i32::from(self.quants[at / 4][4 * lane + at % 4]) - OFFSET
    }

    fn values(&self, lane: usize) -> impl Iterator<Item = f32> {
        (0..BLOCK).map(move |at| self.scales[lane] * self.quant(lane, at) as f32)
    }
}

/// 32 numbers of 4 bit out of 16 bytes: the lower halves, then the upper ones.
fn halves(bytes: &[u8]) -> [u8; BLOCK] {
    let mut values = [0; BLOCK];
    for (at, byte) in bytes.iter().take(BLOCK / 2).enumerate() {
        (values[at], values[at + BLOCK / 2]) = (byte & 15, byte >> 4);
    }
    values
}

/// A 16-bit float as one of 32 bit: the exponent's bias is 112 larger there. Infinities, which no scale is, become large numbers.
fn widened(half: u16) -> f32 {
    const BIAS: f32 = f32::from_bits((127 + 112) << 23);
    let size = f32::from_bits(u32::from(half & 0x7FFF) << 13) * BIAS;
    if half & 0x8000 == 0 { size } else { -size }
}
