//! The sum of absolute relative errors, made least, with coefficients that cannot be negative.
//!
//! Least absolute errors are not pulled by the few rows that no formula explains. They are found by weighted least
//! squares, again and again with the weights of the last errors; a coefficient that comes out negative is left out.

/// Rounds of weighting; the coefficients stand still long before.
const ROUNDS: usize = 60;
/// Errors below this count as this, so that a row that fits exactly does not outweigh all others.
const ERROR_MIN: f64 = 1e-3;

/// Coefficients of `terms · x ≈ target`; `None` without a row of a positive target.
pub(super) fn fit(rows: &[(Vec<f64>, f64)]) -> Option<Vec<f64>> {
    let rows: Vec<Vec<f64>> = rows
        .iter()
        .filter(|(_, target)| *target > 0.0)
        .map(|(terms, target)| terms.iter().map(|term| term / target).collect())
        .collect();
    let width = rows.first()?.len();
    // Terms are brought to the same size, so that a small pivot means rows that do not tell terms apart.
    let size: Vec<f64> = (0..width).map(|at| mean(rows.iter().map(|row| row[at].abs()))).collect();
    let scaled: Vec<Vec<f64>> = rows
        .iter()
        .map(|row| row.iter().zip(&size).map(|(term, size)| if *size > 0.0 { term / size } else { 0.0 }).collect())
        .collect();
    let mut kept: Vec<usize> = (0..width).filter(|at| size[*at] > 0.0).collect();
    while !kept.is_empty() {
        let Some(found) = weighted(&scaled, &kept) else {
            kept.pop();
            continue;
        };
        let lowest = (0..kept.len()).min_by(|a, b| found[*a].total_cmp(&found[*b]))?;
        if found[lowest] < 0.0 {
            kept.remove(lowest);
            continue;
        }
        let mut all = vec![0.0; width];
        for (at, value) in kept.iter().zip(found) {
            all[*at] = value / size[*at];
        }
        return Some(all);
    }
    None
}

/// Sum of terms times coefficients.
pub(super) fn value(terms: &[f64], coefficients: &[f64]) -> f64 {
    terms.iter().zip(coefficients).map(|(term, coefficient)| term * coefficient).sum()
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count == 0.0 { 0.0 } else { sum / count }
}

fn weighted(rows: &[Vec<f64>], kept: &[usize]) -> Option<Vec<f64>> {
    let mut weights = vec![1.0; rows.len()];
    let mut found = Vec::new();
    for _ in 0..ROUNDS {
        found = squares(rows, kept, &weights)?;
        for (weight, row) in weights.iter_mut().zip(rows) {
            let value: f64 = kept.iter().zip(&found).map(|(at, x)| row[*at] * x).sum();
            *weight = 1.0 / (value - 1.0).abs().max(ERROR_MIN);
        }
    }
    Some(found)
}

/// Solves the normal equations of `rows · x ≈ 1`.
fn squares(rows: &[Vec<f64>], kept: &[usize], weights: &[f64]) -> Option<Vec<f64>> {
    let width = kept.len();
    if rows.len() < width {
        return None;
    }
    let mut system = vec![vec![0.0; width + 1]; width];
    let total: f64 = weights.iter().sum();
    for (row, weight) in rows.iter().zip(weights) {
        for (line, i) in kept.iter().enumerate() {
            for (column, j) in kept.iter().enumerate() {
                system[line][column] += weight / total * row[*i] * row[*j];
            }
            system[line][width] += weight / total * row[*i];
        }
    }
    eliminate(system)
}

/// Gauss elimination with pivots; `None` if the rows do not tell the coefficients apart.
fn eliminate(mut system: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = system.len();
    for at in 0..size {
        let pivot = (at..size).max_by(|a, b| system[*a][at].abs().total_cmp(&system[*b][at].abs()))?;
        system.swap(at, pivot);
        if system[at][at].abs() < 1e-9 {
            return None;
        }
        let lead = system[at].clone();
        for (row, line) in system.iter_mut().enumerate() {
            if row != at {
                let factor = line[at] / lead[at];
                line.iter_mut().zip(&lead).for_each(|(cell, above)| *cell -= factor * above);
            }
        }
    }
    Some((0..size).map(|at| system[at][size] / system[at][at]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line comes out of its points though one of them is far off.
    #[test]
    fn one_bad_row_does_not_pull() {
        let rows: Vec<_> =
            (1..20).map(|x| (vec![1.0, f64::from(x)], if x == 7 { 400.0 } else { 3.0 + 2.0 * f64::from(x) })).collect();
        let found = fit(&rows).unwrap();
        assert!((found[0] - 3.0).abs() < 0.01 && (found[1] - 2.0).abs() < 0.01, "{found:?}");
    }

    /// What would be negative is left out, and so is what the rows cannot tell apart.
    #[test]
    fn no_coefficient_is_negative() {
        let falling: Vec<_> = (1..9).map(|x| (vec![1.0, f64::from(x)], 100.0 - f64::from(x))).collect();
        assert_eq!(fit(&falling).unwrap()[1], 0.0);
        let alike: Vec<_> = (1..9).map(|x| (vec![f64::from(x), f64::from(2 * x)], f64::from(3 * x))).collect();
        let found = fit(&alike).unwrap();
        assert!((found[0] - 3.0).abs() < 1e-6 && found[1] == 0.0, "{found:?}");
        assert_eq!(fit(&[]), None);
    }
}
