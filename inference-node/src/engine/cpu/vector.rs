//! The small loops between the matrix products, on plain slices. Written in lanes of eight so that the compiler uses vector
//! instructions without being allowed to reorder sums: a result is the same on every build.

/// Independent partial sums of [`dot`].
const LANES: usize = 8;

/// Inner product of two slices of equal length.
pub(crate) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (lefts, rights) = (left.chunks_exact(LANES), right.chunks_exact(LANES));
    let rest: f32 = lefts.remainder().iter().zip(rights.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in lefts.zip(rights) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// Adds `other` to `target`, element by element.
pub(crate) fn add(target: &mut [f32], other: &[f32]) {
    for (sum, part) in target.iter_mut().zip(other) {
        *sum += part;
    }
}

/// Root-mean-square normalisation, scaled by `weights`.
pub(crate) fn normalize(row: &[f32], weights: &[f32], epsilon: f32, target: &mut [f32]) {
    let scale = 1.0 / (dot(row, row) / row.len() as f32 + epsilon).sqrt();
    for ((out, value), weight) in target.iter_mut().zip(row).zip(weights) {
        *out = value * scale * weight;
    }
}

/// Rotary position embedding of neighbouring pairs, for every head in `heads` (each `2 · frequencies.len()` floats).
/// GGUF files of this family store query and key weights in the order that neighbouring pairs need.
pub(crate) fn rotate(heads: &mut [f32], position: usize, frequencies: &[f32]) {
    let turns: Vec<(f32, f32)> = frequencies.iter().map(|speed| (position as f32 * speed).sin_cos()).collect();
    for head in heads.chunks_exact_mut(2 * frequencies.len()) {
        for (pair, (sin, cos)) in head.chunks_exact_mut(2).zip(&turns) {
            let (x, y) = (pair[0], pair[1]);
            pair[0] = x * cos - y * sin;
            pair[1] = x * sin + y * cos;
        }
    }
}

/// `silu(gate) · up`.
pub(crate) fn silu_times(gate: &[f32], up: &[f32], target: &mut [f32]) {
    for ((out, gate), up) in target.iter_mut().zip(gate).zip(up) {
        *out = gate / (1.0 + (-gate).exp()) * up;
    }
}

/// Turns scores into weights that sum to one.
pub(crate) fn softmax(scores: &mut [f32]) {
    let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - highest).exp();
        sum += *score;
    }
    for score in scores.iter_mut() {
        *score /= sum;
    }
}
