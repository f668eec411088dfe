//! The products themselves, with the widest instructions that the processor has.
//!
//! Every form computes the same: for each block the exact sum of products of whole numbers, which is then scaled and added with one
//! rounding (fused), block after block.

#![allow(unsafe_code, reason = "vectors are loaded through pointers, and the processor was asked what it has")]

use std::ops::Range;

use super::{BLOCK, Eight, Four, LANES, OFFSET, Rounded, widened};

/// Results of one row of activations with a tile's rows.
type Lanes = [f32; LANES];

/// Blocks of 16 rows of weights.
pub(super) trait Tile: Clone + Sync {
    /// Weights of zero.
    const EMPTY: Self;

    /// Multiplies 16 rows of weights with `M` rows of activations, block by block.
    fn multiply<const M: usize>(level: Level, weights: &[Self], rows: &[[Rounded; M]]) -> [Lanes; M];
}

/// What the processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// 16 lanes and products of bytes (AVX-512 VNNI).
    #[cfg(target_arch = "x86_64")]
    Wide,
    /// 8 lanes (AVX2).
    #[cfg(target_arch = "x86_64")]
    Narrow,
    Plain,
}

impl Level {
    pub(super) fn highest() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx512f") && has!("avx512bw") && has!("avx512vnni") {
                return Self::Wide;
            }
            if has!("avx2") && has!("fma") && has!("f16c") {
                return Self::Narrow;
            }
        }
        Self::Plain
    }
}

/// Most rows of activations that registers hold at once.
const ROWS_MAX: usize = 8;

/// Multiplies weights, `blocks` of them in each of `width` rows, with rows of activations. Row after row of `width` results goes to
/// `out`. Work is shared out over candle's threads.
pub(super) fn multiply<T: Tile>(tiles: &[T], blocks: usize, input: &[Rounded], width: usize, out: &mut [f32]) {
    assert!(input.len() / blocks * width == out.len() && width.div_ceil(LANES) * blocks == tiles.len());
    let (level, out) = (Level::highest(), Out { start: out.as_mut_ptr(), width });
    let grouped = grouped(input, blocks);
    let pool = candle_core::utils::barrier_pool();
    pool.execute_chunked(width.div_ceil(LANES), |range| some_tiles(level, tiles, blocks, &grouped, range, &out));
}

/// How many of these rows go together: 8, 4, 2 or 1.
fn together(rows: usize) -> usize {
    1 << rows.min(ROWS_MAX).ilog2()
}

/// The rows that go together, block by block: the first block of each, then the second.
fn grouped(input: &[Rounded], blocks: usize) -> Vec<Rounded> {
    let (mut grouped, mut rest) = (Vec::with_capacity(input.len()), input);
    while !rest.is_empty() {
        let (rows, others) = rest.split_at(together(rest.len() / blocks) * blocks);
        (0..blocks).for_each(|block| grouped.extend(rows.iter().skip(block).step_by(blocks)));
        rest = others;
    }
    grouped
}

/// As many rows of activations at once as registers hold; the weights of a tile stay in the first cache meanwhile.
fn some_tiles<T: Tile>(level: Level, tiles: &[T], blocks: usize, grouped: &[Rounded], range: Range<usize>, out: &Out) {
    for tile in range {
        let weights = &tiles[tile * blocks..][..blocks];
        let (mut at, mut rest) = (0, grouped);
        while !rest.is_empty() {
            let count = together(rest.len() / blocks);
            let (rows, others) = rest.split_at(count * blocks);
            match count {
                8 => some_rows::<T, 8>(level, weights, rows, at, tile, out),
                4 => some_rows::<T, 4>(level, weights, rows, at, tile, out),
                2 => some_rows::<T, 2>(level, weights, rows, at, tile, out),
                _ => some_rows::<T, 1>(level, weights, rows, at, tile, out),
            }
            (at, rest) = (at + count, others);
        }
    }
}

/// Rows `at` and on, `M` of them, which go together.
fn some_rows<T: Tile, const M: usize>(
    level: Level,
    weights: &[T],
    rows: &[Rounded],
    at: usize,
    tile: usize,
    out: &Out,
) {
    let results = T::multiply::<M>(level, weights, rows.as_chunks().0);
    for (row, lanes) in results.iter().enumerate() {
        out.put(at + row, tile, lanes);
    }
}

/// Where results go.
struct Out {
    start: *mut f32,
    /// Floats of a row.
    width: usize,
}

// SAFETY: threads write the columns of different tiles.
unsafe impl Sync for Out {}

impl Out {
    /// Writes the results of one tile; those of rows that a last tile lacks are left out.
    fn put(&self, row: usize, tile: usize, lanes: &Lanes) {
        let column = tile * LANES;
        let count = LANES.min(self.width - column);
        // SAFETY: rows and tiles are those that `multiply` found room for, and no other thread has this tile.
        unsafe {
            let target = self.start.add(row * self.width + column);
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), target, count);
        }
    }
}

impl Tile for Four {
    const EMPTY: Self = Self { quants: [[0; 4 * LANES]; 4], scales: [0; LANES], least: [0; LANES] };

    fn multiply<const M: usize>(level: Level, weights: &[Self], rows: &[[Rounded; M]]) -> [Lanes; M] {
        match level {
            // SAFETY: the processor has these instructions.
            #[cfg(target_arch = "x86_64")]
            Level::Wide => unsafe { wide::four(weights, rows) },
            // SAFETY: the processor has these instructions.
            #[cfg(target_arch = "x86_64")]
            Level::Narrow => std::array::from_fn(|row| unsafe { narrow::four(weights, rows, row) }),
            Level::Plain => std::array::from_fn(|row| plain_four(weights, rows, row)),
        }
    }
}

impl Tile for Eight {
    const EMPTY: Self = Self { quants: [[OFFSET as u8; 4 * LANES]; 8], scales: [0.0; LANES] };

    fn multiply<const M: usize>(level: Level, weights: &[Self], rows: &[[Rounded; M]]) -> [Lanes; M] {
        match level {
            // SAFETY: the processor has these instructions.
            #[cfg(target_arch = "x86_64")]
            Level::Wide => unsafe { wide::eight(weights, rows) },
            // SAFETY: the processor has these instructions.
            #[cfg(target_arch = "x86_64")]
            Level::Narrow => std::array::from_fn(|row| unsafe { narrow::eight(weights, rows, row) }),
            Level::Plain => std::array::from_fn(|row| plain_eight(weights, rows, row)),
        }
    }
}

fn plain_four<const M: usize>(weights: &[Four], rows: &[[Rounded; M]], row: usize) -> Lanes {
    let mut sums = [0.0; LANES];
    for (tile, blocks) in weights.iter().zip(rows) {
        let block = &blocks[row];
        for (lane, sum) in sums.iter_mut().enumerate() {
            let dot: i32 = (0..BLOCK).map(|at| i32::from(tile.quant(lane, at)) * quant(block, at)).sum();
            *sum = (dot as f32).mul_add(widened(tile.scales[lane]) * block.scale, *sum);
            *sum = widened(tile.least[lane]).mul_add(block.total, *sum);
        }
    }
    sums
}

fn plain_eight<const M: usize>(weights: &[Eight], rows: &[[Rounded; M]], row: usize) -> Lanes {
    let mut sums = [0.0; LANES];
    for (tile, blocks) in weights.iter().zip(rows) {
        let block = &blocks[row];
        for (lane, sum) in sums.iter_mut().enumerate() {
            let dot: i32 = (0..BLOCK).map(|at| tile.quant(lane, at) * quant(block, at)).sum();
            *sum = (dot as f32).mul_add(tile.scales[lane] * block.scale, *sum);
        }
    }
    sums
}

fn quant(block: &Rounded, at: usize) -> i32 {
    i32::from(block.quants[at / 4].to_le_bytes()[at % 4] as i8)
}

/// 16 rows of weights side by side in registers of 512 bit.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::*;

    use super::*;

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn four<const M: usize>(weights: &[Four], rows: &[[Rounded; M]]) -> [Lanes; M] {
        let lower = _mm512_set1_epi8(15);
        let mut sums = [_mm512_setzero_ps(); M];
        for (tile, blocks) in weights.iter().zip(rows) {
            let mut dots = [_mm512_setzero_si512(); M];
            for (pair, bytes) in tile.quants.iter().enumerate() {
                let both = load(bytes);
                let (low, high) =
                    (_mm512_and_si512(both, lower), _mm512_and_si512(_mm512_srli_epi16::<4>(both), lower));
                for (dot, block) in dots.iter_mut().zip(blocks) {
                    *dot = _mm512_dpbusd_epi32(*dot, low, _mm512_set1_epi32(block.quants[2 * pair]));
                    *dot = _mm512_dpbusd_epi32(*dot, high, _mm512_set1_epi32(block.quants[2 * pair + 1]));
                }
            }
            let (scales, least) = (halves(&tile.scales), halves(&tile.least));
            for ((sum, dot), block) in sums.iter_mut().zip(&dots).zip(blocks) {
                let scale = _mm512_mul_ps(scales, _mm512_set1_ps(block.scale));
                *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(*dot), scale, *sum);
                *sum = _mm512_fmadd_ps(least, _mm512_set1_ps(block.total), *sum);
            }
        }
        stored(sums)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn eight<const M: usize>(weights: &[Eight], rows: &[[Rounded; M]]) -> [Lanes; M] {
        let mut sums = [_mm512_setzero_ps(); M];
        for (tile, blocks) in weights.iter().zip(rows) {
            let mut dots = [_mm512_setzero_si512(); M];
            for (dot, block) in dots.iter_mut().zip(blocks) {
                *dot = _mm512_set1_epi32(block.excess);
            }
            for (group, bytes) in tile.quants.iter().enumerate() {
                let quants = load(bytes);
                for (dot, block) in dots.iter_mut().zip(blocks) {
                    *dot = _mm512_dpbusd_epi32(*dot, quants, _mm512_set1_epi32(block.quants[group]));
                }
            }
            // SAFETY: a tile has 16 scales.
            let scales = unsafe { _mm512_loadu_ps(tile.scales.as_ptr()) };
            for ((sum, dot), block) in sums.iter_mut().zip(&dots).zip(blocks) {
                let scale = _mm512_mul_ps(scales, _mm512_set1_ps(block.scale));
                *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(*dot), scale, *sum);
            }
        }
        stored(sums)
    }

    #[target_feature(enable = "avx512f")]
    fn load(bytes: &[u8; 64]) -> __m512i {
        // SAFETY: there are 64 bytes.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f")]
    fn halves(halves: &[u16; LANES]) -> __m512 {
        // SAFETY: there are 32 bytes.
        _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(halves.as_ptr().cast()) })
    }

    #[target_feature(enable = "avx512f")]
    fn stored<const M: usize>(sums: [__m512; M]) -> [Lanes; M] {
        let mut all = [[0.0; LANES]; M];
        for (lanes, sum) in all.iter_mut().zip(sums) {
            // SAFETY: there is room for 16 floats.
            unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), sum) };
        }
        all
    }
}

/// 8 rows of weights in registers of 256 bit, twice. Products of 4-bit numbers with bytes are added in pairs to 16 bit, which eight of
/// them do not fill (8 · 2 · 15 · 128 < 2¹⁵); 8-bit weights are taken as two numbers of 4 bit.
#[cfg(target_arch = "x86_64")]
mod narrow {
    use std::arch::x86_64::*;

    use super::*;

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn four<const M: usize>(weights: &[Four], rows: &[[Rounded; M]], row: usize) -> Lanes {
        let mut sums = [_mm256_setzero_ps(); 2];
        for (tile, blocks) in weights.iter().zip(rows) {
            let block = &blocks[row];
            let total = _mm256_set1_ps(block.total);
            for (side, sum) in sums.iter_mut().enumerate() {
                let mut pairs = _mm256_setzero_si256();
                for (bytes, words) in tile.quants.iter().zip(block.quants.chunks_exact(2)) {
                    let (low, high) = split(load(bytes, side));
                    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(low, _mm256_set1_epi32(words[0])));
                    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(high, _mm256_set1_epi32(words[1])));
                }
                let scale = _mm256_mul_ps(halves(&tile.scales, side), _mm256_set1_ps(block.scale));
                *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(joined(pairs)), scale, *sum);
                *sum = _mm256_fmadd_ps(halves(&tile.least, side), total, *sum);
            }
        }
        stored(sums)
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn eight<const M: usize>(weights: &[Eight], rows: &[[Rounded; M]], row: usize) -> Lanes {
        let mut sums = [_mm256_setzero_ps(); 2];
        for (tile, blocks) in weights.iter().zip(rows) {
            let block = &blocks[row];
            for (side, sum) in sums.iter_mut().enumerate() {
                let mut pairs = [_mm256_setzero_si256(); 2];
                for (bytes, word) in tile.quants.iter().zip(block.quants) {
                    let (low, high) = split(load(bytes, side));
                    pairs[0] = _mm256_add_epi16(pairs[0], _mm256_maddubs_epi16(low, _mm256_set1_epi32(word)));
                    pairs[1] = _mm256_add_epi16(pairs[1], _mm256_maddubs_epi16(high, _mm256_set1_epi32(word)));
                }
                let dot = _mm256_add_epi32(joined(pairs[0]), _mm256_slli_epi32::<4>(joined(pairs[1])));
                let dot = _mm256_add_epi32(dot, _mm256_set1_epi32(block.excess));
                // SAFETY: a tile has 16 scales, 8 on each side.
                let scales = unsafe { _mm256_loadu_ps(tile.scales[8 * side..][..8].as_ptr()) };
                let scale = _mm256_mul_ps(scales, _mm256_set1_ps(block.scale));
                *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, *sum);
            }
        }
        stored(sums)
    }

    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8; 64], side: usize) -> __m256i {
        // SAFETY: there are 64 bytes, 32 on each side.
        unsafe { _mm256_loadu_si256(bytes[32 * side..][..32].as_ptr().cast()) }
    }

    /// Lower and upper halves of bytes.
    #[target_feature(enable = "avx2")]
    fn split(bytes: __m256i) -> (__m256i, __m256i) {
        let lower = _mm256_set1_epi8(15);
        (_mm256_and_si256(bytes, lower), _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), lower))
    }

    /// Sums of neighbours.
    #[target_feature(enable = "avx2")]
    fn joined(pairs: __m256i) -> __m256i {
        _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
    }

    #[target_feature(enable = "avx2,f16c")]
    fn halves(halves: &[u16; LANES], side: usize) -> __m256 {
        // SAFETY: there are 32 bytes, 16 on each side.
        _mm256_cvtph_ps(unsafe { _mm_loadu_si128(halves[8 * side..][..8].as_ptr().cast()) })
    }

    #[target_feature(enable = "avx2")]
    fn stored(sums: [__m256; 2]) -> Lanes {
        let mut lanes = [0.0; LANES];
        for (lanes, sum) in lanes.chunks_exact_mut(8).zip(sums) {
            // SAFETY: there is room for 8 floats.
            unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
        }
        lanes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole numbers between -128 and 127 without a pattern.
    fn bytes(count: usize, seed: u32) -> Vec<u8> {
        (0..count as u32).map(|at| (at.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    }

    fn rows(count: usize, blocks: usize) -> Vec<Rounded> {
        let bytes = bytes(count * blocks * BLOCK, 1);
        let block = |(at, bytes): (usize, &[u8])| {
            let mut block = Rounded { scale: 0.01 + at as f32 * 1e-3, ..Rounded::default() };
            for (word, four) in block.quants.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = i32::from_le_bytes(four.try_into().unwrap());
            }
            let sum: i32 = (0..BLOCK).map(|at| quant(&block, at)).sum();
            (block.total, block.excess) = (block.scale * sum as f32, -OFFSET * sum);
            block
        };
        bytes.chunks_exact(BLOCK).enumerate().map(block).collect()
    }

    /// What this processor has.
    fn levels() -> Vec<Level> {
        match Level::highest() {
            #[cfg(target_arch = "x86_64")]
            Level::Wide => vec![Level::Plain, Level::Narrow, Level::Wide],
            #[cfg(target_arch = "x86_64")]
            Level::Narrow => vec![Level::Plain, Level::Narrow],
            Level::Plain => vec![Level::Plain],
        }
    }

    /// Every level of this processor gives the plain one's bits, for every number of rows, with the extremes of all numbers.
    fn levels_agree<T: Tile>(tiles: &[T], blocks: usize) {
        let width = tiles.len() / blocks * LANES - 3;
        for count in [1, 2, 3, 4, 7, 8, 17] {
            let input = rows(count, blocks);
            let run = |level| {
                let mut out = vec![0.0; count * width];
                let target = Out { start: out.as_mut_ptr(), width };
                some_tiles(level, tiles, blocks, &grouped(&input, blocks), 0..tiles.len() / blocks, &target);
                out.iter().map(|value: &f32| value.to_bits()).collect::<Vec<u32>>()
            };
            let plain = run(Level::Plain);
            assert!(plain.iter().all(|bits| f32::from_bits(*bits) != 0.0), "{count}");
            for level in levels() {
                assert_eq!(run(level), plain, "{level:?} {count}");
            }
        }
    }

    /// A block of activations that is no number makes all results of its row none, on every level of this processor, with weights of
    /// zero as well; those of its neighbours stay as they are.
    fn no_number_stays_none<T: Tile>(tiles: &[T]) {
        let mut tiles = tiles.to_vec();
        tiles[1] = T::EMPTY;
        let (blocks, width) = (tiles.len(), LANES);
        for count in [1, 2, 4, 8, 15] {
            let mut input = rows(count, blocks);
            let run = |level, input: &[Rounded]| {
                let mut out = vec![0.0; count * width];
                let target = Out { start: out.as_mut_ptr(), width };
                some_tiles(level, &tiles, blocks, &grouped(input, blocks), 0..1, &target);
                out
            };
            let sound = run(Level::Plain, &input);
            let bad = count / 2;
            crate::engine::cpu::vector::round(&[f32::NAN; BLOCK], &mut input[bad * blocks + 1..][..1]);
            for level in levels() {
                for (row, (results, sound)) in run(level, &input).chunks(width).zip(sound.chunks(width)).enumerate() {
                    if row == bad {
                        assert!(results.iter().all(|value| value.is_nan()), "{level:?} {count}: {results:?}");
                    } else {
                        assert_eq!(results, sound, "{level:?} {count}");
                    }
                }
            }
        }
    }

    #[test]
    fn levels_agree_on_four_bits() {
        let mut tiles = vec![Four::EMPTY; 2 * 3];
        for (index, tile) in tiles.iter_mut().enumerate() {
            for lane in 0..LANES {
                let mut raw = vec![0x34 + lane as u8, 0x2C, 0x12 + index as u8, 0xA8];
                raw.extend(bytes(BLOCK / 2, (index * LANES + lane) as u32));
                tile.put_q4_1(lane, &raw);
            }
        }
        levels_agree(&tiles, 3);
        no_number_stays_none(&tiles[..3]);
    }

    #[test]
    fn levels_agree_on_eight_bits() {
        let mut tiles = vec![Eight::EMPTY; 2 * 3];
        for (index, tile) in tiles.iter_mut().enumerate() {
            for lane in 0..LANES {
                let mut raw = vec![0x34 + lane as u8, 0x2C];
                raw.extend(bytes(BLOCK, (index * LANES + lane) as u32));
                tile.put_q8_0(lane, &raw);
            }
        }
        levels_agree(&tiles, 3);
        no_number_stays_none(&tiles[..3]);
    }
}
