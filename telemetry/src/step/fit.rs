//! Least squares of relative errors with coefficients that cannot be negative.

use super::rows::BenchmarkRow;
use super::{Calibration, DecodeTime, StepModel, bucket};

/// 99th percentile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326;

/// Fits the rows of one model on one instance type.
pub(crate) fn fit(rows: &[BenchmarkRow]) -> Option<StepModel> {
    let first = rows.first()?;
    let decode = decode(rows)?;
    let prefill = anchors(rows);
    if prefill.is_empty() {
        return None;
    }
    let single: Vec<&BenchmarkRow> = rows.iter().filter(|row| row.batch == 1).collect();
    let calibration = Calibration {
        instance_type: first.instance_type.clone(),
        model: first.model.clone(),
        weight_type: first.weight_type.clone(),
        tensor_parallel: first.tensor_parallel,
        sdk: sdk(&first.sdk),
        rows: rows.len(),
        decode_error: mean(rows.iter().map(|row| {
            let (slots, context) = decode_shape(row);
            (decode.ms(slots, context) / row.tpot_p50_ms - 1.0).abs()
        })),
        prefill_error: mean(single.iter().map(|row| {
            let tokens = f64::from(prompt_bucket(row));
            (interpolate(&prefill, tokens) / row.ttft_p50_ms - 1.0).abs()
        })),
        batch_max: rows.iter().map(|row| row.batch).max().unwrap_or(1),
    };
    let jitter_sigma = mean(rows.iter().map(|row| (row.tpot_p99_ms / row.tpot_p50_ms).ln().max(0.0) / NORMAL_P99));
    Some(StepModel { calibration, decode, prefill, jitter_sigma })
}

/// Major and minor version, as in `SDK 2.18`.
fn sdk(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

fn decode_shape(row: &BenchmarkRow) -> (f64, f64) {
    let context = bucket(row.sequence_length, u32::MAX);
    (f64::from(row.batch), f64::from(context))
}

fn prompt_bucket(row: &BenchmarkRow) -> u32 {
    bucket(row.input_tokens, u32::MAX)
}

/// Tries every set of non-zero coefficients and keeps the best one without a negative value.
fn decode(rows: &[BenchmarkRow]) -> Option<DecodeTime> {
    let points: Vec<([f64; 3], f64)> = rows
        .iter()
        .filter(|row| row.tpot_p50_ms > 0.0)
        .map(|row| {
            let (slots, context) = decode_shape(row);
            let terms = [1.0, slots - 1.0, slots * context / 1000.0];
            // Relative errors: every row is scaled to the same height.
            (terms.map(|term| term / row.tpot_p50_ms), 1.0)
        })
        .collect();
    let mut best: Option<([f64; 3], f64)> = None;
    for set in 1u8..8 {
        let Some(found) = least_squares(&points, set) else {
            continue;
        };
        if found.iter().any(|value| *value < 0.0) {
            continue;
        }
        let error = squares(&points, &found);
        if best.as_ref().is_none_or(|(_, least)| error < *least) {
            best = Some((found, error));
        }
    }
    let ([base_ms, slot_ms, context_ms], _) = best?;
    Some(DecodeTime { base_ms, slot_ms, context_ms })
}

fn squares(points: &[([f64; 3], f64)], found: &[f64; 3]) -> f64 {
    points
        .iter()
        .map(|(terms, target)| {
            let value: f64 = terms.iter().zip(found).map(|(term, x)| term * x).sum();
            (value - target).powi(2)
        })
        .sum()
}

/// Solves the normal equations for the coefficients in `set` (one bit each); the others stay 0.
fn least_squares(points: &[([f64; 3], f64)], set: u8) -> Option<[f64; 3]> {
    let used: Vec<usize> = (0..3).filter(|at| set & (1 << at) != 0).collect();
    let size = used.len();
    if points.len() < size {
        return None;
    }
    let mut system = [[0.0f64; 4]; 3];
    for (terms, target) in points {
        for (row, i) in used.iter().enumerate() {
            for (column, j) in used.iter().enumerate() {
                system[row][column] += terms[*i] * terms[*j];
            }
            system[row][3] += terms[*i] * target;
        }
    }
    let solution = eliminate(system, size)?;
    let mut found = [0.0; 3];
    for (row, at) in used.iter().enumerate() {
        found[*at] = solution[row];
    }
    Some(found)
}

/// Gauss elimination with pivots; `None` if the rows do not tell the coefficients apart.
fn eliminate(mut system: [[f64; 4]; 3], size: usize) -> Option<[f64; 3]> {
    for at in 0..size {
        let pivot = (at..size).max_by(|a, b| system[*a][at].abs().total_cmp(&system[*b][at].abs()))?;
        system.swap(at, pivot);
        if system[at][at].abs() < 1e-9 {
            return None;
        }
        for row in 0..size {
            if row == at {
                continue;
            }
            let factor = system[row][at] / system[at][at];
            let lead = system[at];
            for (cell, above) in system[row].iter_mut().zip(lead) {
                *cell -= factor * above;
            }
        }
    }
    let mut solution = [0.0; 3];
    for (at, value) in solution.iter_mut().enumerate().take(size) {
        *value = system[at][3] / system[at][at];
    }
    Some(solution)
}

/// Mean time to first token of each prompt bucket, batch 1 only: larger batches were prefilled
/// together, which a node that serves requests one by one never does.
fn anchors(rows: &[BenchmarkRow]) -> Vec<(f64, f64)> {
    let mut buckets: std::collections::BTreeMap<u32, Vec<f64>> = std::collections::BTreeMap::new();
    for row in rows.iter().filter(|row| row.batch == 1) {
        buckets.entry(prompt_bucket(row)).or_default().push(row.ttft_p50_ms);
    }
    buckets.into_iter().map(|(tokens, times)| (f64::from(tokens), mean(times.into_iter()))).collect()
}

/// Value at `tokens` on straight lines between the anchors: flat below the first one, the last
/// line goes on above the last one.
pub(crate) fn interpolate(anchors: &[(f64, f64)], tokens: f64) -> f64 {
    let Some(first) = anchors.first() else {
        return 0.0;
    };
    if tokens <= first.0 || anchors.len() == 1 {
        return first.1 * (tokens / first.0).max(1.0);
    }
    let above = anchors.iter().position(|anchor| tokens <= anchor.0).unwrap_or(anchors.len() - 1).max(1);
    let (left, right) = (anchors[above - 1], anchors[above]);
    let slope = (right.1 - left.1) / (right.0 - left.0);
    (left.1 + slope * (tokens - left.0)).max(first.1)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    if count == 0.0 { 0.0 } else { sum / count }
}
