//! The loops between the matrix products, on plain slices.
//!
//! Each is compiled once for every width of vectors and the widest that the processor has is taken at run time. Sums run in a
//! fixed number of lanes and nothing is contracted, so that a result is the same on every processor and in every build.

use super::kv::Past;
use super::packed::{BLOCK, OFFSET, Rounded};

/// Independent partial sums: one register of the widest vectors, or several of narrower ones.
const LANES: usize = 16;
/// Added to a small number, leaves it in the lowest bits, rounded to a whole one (a half to the even one).
const WHOLE: f32 = 12_582_912.0;

/// Makes a function that runs `$body` compiled for the widest vectors there are.
macro_rules! widest {
    ($(#[$doc:meta])* $name:ident, $body:ident($($arg:ident: $type:ty),*)) => {
        $(#[$doc])*
        #[allow(unsafe_code, reason = "the processor was asked whether it has what the function is compiled for")]
        pub(crate) fn $name($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f")]
                fn wide($($arg: $type),*) {
                    $body($($arg),*);
                }
                #[target_feature(enable = "avx2")]
                fn narrow($($arg: $type),*) {
                    $body($($arg),*);
                }
                if std::arch::is_x86_feature_detected!("avx512f") {
                    // SAFETY: the processor has these instructions.
                    return unsafe { wide($($arg),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has these instructions.
                    return unsafe { narrow($($arg),*) };
                }
            }
            $body($($arg),*);
        }
    };
}

widest!(
    /// Root-mean-square normalisation of `row`, scaled by `weights`.
    normalize,
    normalize_in_lanes(row: &[f32], weights: &[f32], epsilon: f32, target: &mut [f32])
);

widest!(
    /// `silu(gate) · up`, element by element.
    silu_times,
    silu_times_in_lanes(gate: &[f32], up: &[f32], target: &mut [f32])
);

widest!(
    /// Looks back with all heads of one token over the pages of its sequence up to itself; the heads' results stand side by side.
    attend,
    attend_in_lanes(heads: Heads, past: &[Past<'_>], queries: &[f32], scores: &mut Vec<f32>, target: &mut [f32])
);

widest!(
    /// Rounds activations to 8 bit, block by block: the largest of a block becomes 127, or -127. A block with an infinity or with
    /// what is no number has a scale that is no number.
    round,
    round_in_lanes(values: &[f32], rounded: &mut [Rounded])
);

/// How the heads of a layer share keys and values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    /// Floats of a head.
    pub(crate) size: usize,
    /// Heads with keys and values of their own.
    pub(crate) kv_heads: usize,
    /// Query heads that share one of those.
    pub(crate) group: usize,
}

/// Adds `other` to `target`, element by element.
pub(crate) fn add(target: &mut [f32], other: &[f32]) {
    for (sum, part) in target.iter_mut().zip(other) {
        *sum += part;
    }
}

/// Rotary position embedding of neighbouring pairs, for every head in `heads` (each twice as many floats as there are `turns`).
/// GGUF files of this family store query and key weights in the order that neighbouring pairs need.
pub(crate) fn rotate(heads: &mut [f32], turns: &[Turn]) {
    for head in heads.chunks_exact_mut(2 * turns.len()) {
        for (pair, (sin, cos)) in head.chunks_exact_mut(2).zip(turns) {
            let (x, y) = (pair[0], pair[1]);
            pair[0] = x * cos - y * sin;
            pair[1] = x * sin + y * cos;
        }
    }
}

/// Sine and cosine of the angle by which a pair turns.
pub(crate) type Turn = (f32, f32);

/// By how much each pair turns at `position`.
pub(crate) fn turns(position: usize, frequencies: &[f32]) -> Vec<Turn> {
    frequencies.iter().map(|speed| (position as f32 * speed).sin_cos()).collect()
}

#[inline(always)]
fn normalize_in_lanes(row: &[f32], weights: &[f32], epsilon: f32, target: &mut [f32]) {
    let mean = dot(row, row) / row.len() as f32;
    // Divided by an infinite mean, numbers too large to be squared would all be nothing.
    let scale = if mean.is_finite() { 1.0 / (mean + epsilon).sqrt() } else { f32::NAN };
    for ((out, value), weight) in target.iter_mut().zip(row).zip(weights) {
        *out = value * scale * weight;
    }
}

#[inline(always)]
fn silu_times_in_lanes(gate: &[f32], up: &[f32], target: &mut [f32]) {
    for ((out, gate), up) in target.iter_mut().zip(gate).zip(up) {
        *out = gate / (1.0 + exp(-gate)) * up;
    }
}

#[inline(always)]
fn attend_in_lanes(heads: Heads, past: &[Past<'_>], queries: &[f32], scores: &mut Vec<f32>, target: &mut [f32]) {
    let Heads { size, kv_heads, group } = heads;
    let width = kv_heads * size;
    let scale = 1.0 / (size as f32).sqrt();
    for (head, (query, out)) in queries.chunks_exact(size).zip(target.chunks_exact_mut(size)).enumerate() {
        let at = (head / group) * size;
        scores.clear();
        for page in past {
            // A loop and no `extend`, whose closure would be compiled for the narrowest vectors.
            for key in page.keys.chunks_exact(width) {
                scores.push(dot(query, &key[at..at + size]) * scale);
            }
        }
        softmax(scores);
        mix(past, scores, width, at, out);
    }
}

#[inline(always)]
fn round_in_lanes(values: &[f32], rounded: &mut [Rounded]) {
    /// Smaller numbers are nothing: dividing by them would leave the range of numbers.
    const NOTHING: f32 = 1e-30;
    /// The bit that makes a number negative.
    const SIGN: u32 = 1 << 31;
    for (values, rounded) in values.chunks_exact(BLOCK).zip(rounded) {
        // Sizes of floats are ordered as their bits are, with infinity above all numbers and what is no number above that.
        let mut most = [0_u32; LANES];
        for values in values.chunks_exact(LANES) {
            for lane in 0..LANES {
                most[lane] = most[lane].max(values[lane].to_bits() & !SIGN);
            }
        }
        let most = f32::from_bits(most.into_iter().fold(0, u32::max));
        if !most.is_finite() {
            // A product with it is no number either, whatever the weights are.
            *rounded = Rounded { scale: f32::NAN, total: f32::NAN, ..Rounded::default() };
            continue;
        }
        let inverse = if most > NOTHING { 127.0 / most } else { 0.0 };
        let mut quants = [0_i8; BLOCK];
        for (quant, value) in quants.iter_mut().zip(values) {
            *quant = (value * inverse + WHOLE).to_bits().wrapping_sub(WHOLE.to_bits()) as i8;
        }
        rounded.scale = most / 127.0;
        let sum: i32 = quants.iter().map(|quant| i32::from(*quant)).sum();
        (rounded.total, rounded.excess) = (rounded.scale * sum as f32, -OFFSET * sum);
        for (word, quants) in rounded.quants.iter_mut().zip(quants.chunks_exact(4)) {
            *word = i32::from_le_bytes([quants[0] as u8, quants[1] as u8, quants[2] as u8, quants[3] as u8]);
        }
    }
}

/// Sum of the values' parts from `at` on, each weighted by its score.
#[inline(always)]
fn mix(past: &[Past<'_>], scores: &[f32], width: usize, at: usize, out: &mut [f32]) {
    let mut done = 0;
    // Several registers at once, so that no addition waits for the one before it.
    while let Some(out) = out[done..].as_chunks_mut().0.first_chunk_mut::<4>() {
        mix_columns(past, scores, width, at + done, out);
        done += 4 * LANES;
    }
    while let Some(out) = out[done..].as_chunks_mut().0.first_chunk_mut::<1>() {
        mix_columns(past, scores, width, at + done, out);
        done += LANES;
    }
    for (index, out) in out.iter_mut().enumerate().skip(done) {
        let values = past.iter().flat_map(|page| page.values.chunks_exact(width));
        *out = values.zip(scores).map(|(value, score)| score * value[at + index]).sum();
    }
}

#[inline(always)]
fn mix_columns<const N: usize>(
    past: &[Past<'_>],
    scores: &[f32],
    width: usize,
    at: usize,
    out: &mut [[f32; LANES]; N],
) {
    let mut sums = [[0.0_f32; LANES]; N];
    let mut scores = scores.iter();
    for page in past {
        for (value, score) in page.values.chunks_exact(width).zip(&mut scores) {
            // There always are: a value is as wide as `out` and all before it.
            let Some(value) = value[at..].as_chunks::<LANES>().0.first_chunk::<N>() else { continue };
            for register in 0..N {
                for lane in 0..LANES {
                    sums[register][lane] += score * value[register][lane];
                }
            }
        }
    }
    *out = sums;
}

/// Inner product of two slices of equal length.
#[inline(always)]
fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (lefts, rights) = (left.chunks_exact(LANES), right.chunks_exact(LANES));
    let rest: f32 = lefts.remainder().iter().zip(rights.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in lefts.zip(rights) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
        half /= 2;
    }
    sums[0] + rest
}

/// Turns scores into weights that sum to one.
#[inline(always)]
fn softmax(scores: &mut [f32]) {
    let mut highest = f32::NEG_INFINITY;
    for score in scores.iter() {
        highest = if *score > highest { *score } else { highest };
    }
    for score in scores.iter_mut() {
        *score = exp(*score - highest);
    }
    let sum: f32 = scores.iter().sum();
    for score in scores.iter_mut() {
        *score /= sum;
    }
}

/// The exponential function to within 2 units of the last place, for arguments that are cut to -87 … 88. The reduction and the
/// polynomial are those of Moshier's Cephes library (`expf`), without branches so that a loop over it becomes vector instructions.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// The natural logarithm of 2 in two parts, of which the first has few bits.
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + WHOLE;
    let whole = shifted - WHOLE;
    let rest = x - whole * LN_2.0 - whole * LN_2.1;
    let mut sum = 1.987_569_1e-4;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_6e-1, 5e-1] {
        sum = sum * rest + coefficient;
    }
    let power = f32::from_bits(shifted.to_bits().wrapping_sub(WHOLE.to_bits()).wrapping_add(127) << 23);
    (sum * rest * rest + rest + 1.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Close to the library's function everywhere it is asked, and no further off at the ends.
    #[test]
    fn exponentials_are_close() {
        let mut worst = 0.0_f64;
        for step in -87_000..=88_000 {
            let x = step as f32 / 1e3;
            let expected = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - expected).abs() / expected);
        }
        assert!(worst < 2.5e-7, "{worst:e}");
        assert!(exp(-1e9) < 1e-37 && exp(f32::NEG_INFINITY) < 1e-37);
        assert_eq!(exp(0.0), 1.0);
    }

    fn numbers(count: usize, seed: f32) -> Vec<f32> {
        (0..count).map(|at| (at as f32 * 0.37 + seed).sin()).collect()
    }

    /// The largest value of a block is kept, others are off by half a step at most, and what is nearly nothing becomes nothing.
    #[test]
    fn rounding_is_fine() {
        let mut values = numbers(96, 1.0);
        values[5] = -40.0;
        values[64..].iter_mut().for_each(|value| *value *= 1e-33);
        let mut rounded = [Rounded::default(); 3];
        round(&values, &mut rounded);
        for (values, block) in values.chunks(BLOCK).zip(&rounded).take(2) {
            let quants: Vec<i8> =
                block.quants.iter().flat_map(|word| word.to_le_bytes()).map(|byte| byte as i8).collect();
            for (value, quant) in values.iter().zip(&quants) {
                assert!((value - block.scale * f32::from(*quant)).abs() <= 0.501 * block.scale, "{value} {quant}");
            }
            let sum = quants.iter().map(|quant| i32::from(*quant)).sum::<i32>();
            assert_eq!((block.total, block.excess), (block.scale * sum as f32, -128 * sum));
            assert_eq!(quants.iter().map(|quant| quant.abs()).max(), Some(127));
        }
        assert_eq!((rounded[0].quants[1] >> 8) as i8, -127);
        assert_eq!((rounded[2].quants, rounded[2].total, rounded[2].excess), ([0; 8], 0.0, 0));
    }

    /// What is no number, and what is too large for one, is none afterwards: in its own block, and in all of its row.
    #[test]
    fn what_is_no_number_stays_none() {
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in [BLOCK, BLOCK + 15, 2 * BLOCK - 1] {
                let mut values = numbers(3 * BLOCK, 1.0);
                values[at] = bad;
                for run in [round, round_in_lanes] {
                    let mut rounded = [Rounded::default(); 3];
                    run(&values, &mut rounded);
                    assert_eq!(rounded.map(|block| block.scale.is_nan()), [false, true, false], "{bad} {at}");
                    assert_eq!(rounded.map(|block| block.total.is_nan()), [false, true, false], "{bad} {at}");
                }
            }
        }
        for bad in [f32::NAN, f32::INFINITY, -1e30] {
            let mut row = numbers(40, 2.0);
            row[33] = bad;
            for run in [normalize, normalize_in_lanes] {
                let mut out = [0.0; 40];
                run(&row, &[1.0; 40], 1e-5, &mut out);
                assert!(out.iter().all(|value| value.is_nan()), "{bad}");
            }
        }
    }

    /// The widest form and the plain one give the same bits, whatever the length.
    #[test]
    fn widths_agree_to_the_bit() {
        for count in [1, 15, 16, 17, 64, 100, 576] {
            let (left, right) = (numbers(count, 1.0), numbers(count, 2.0));
            let both = |run: fn(&[f32], &[f32], &mut [f32])| {
                let mut out = vec![0.0; count];
                run(&left, &right, &mut out);
                out.iter().map(|value| value.to_bits()).collect::<Vec<u32>>()
            };
            assert_eq!(both(silu_times), both(silu_times_in_lanes), "{count}");
            let norm = |left: &[f32], right: &[f32], out: &mut [f32]| normalize(left, right, 1e-5, out);
            let plain = |left: &[f32], right: &[f32], out: &mut [f32]| normalize_in_lanes(left, right, 1e-5, out);
            assert_eq!(both(norm), both(plain), "{count}");
        }
        let mut forms = [[Rounded::default(); 5]; 2];
        let values = numbers(5 * BLOCK, 6.0);
        round(&values, &mut forms[0]);
        round_in_lanes(&values, &mut forms[1]);
        assert_eq!(forms[0], forms[1]);
        for (size, tokens) in [(8, 3), (16, 1), (20, 40), (64, 33)] {
            let heads = Heads { size, kv_heads: 2, group: 3 };
            let (keys, values) = (numbers(2 * size * tokens, 3.0), numbers(2 * size * tokens, 4.0));
            let pages = keys.chunks(2 * size * 16).zip(values.chunks(2 * size * 16));
            let past: Vec<Past<'_>> = pages.map(|(keys, values)| Past { keys, values }).collect();
            let queries = numbers(6 * size, 5.0);
            let (mut one, mut other) = (vec![0.0; 6 * size], vec![0.0; 6 * size]);
            attend(heads, &past, &queries, &mut Vec::new(), &mut one);
            attend_in_lanes(heads, &past, &queries, &mut Vec::new(), &mut other);
            assert_eq!(one, other, "{size} {tokens}");
        }
    }
}
