//! What each term of the decode formula is worth: the error of the rows when the formula does without it.

use super::hardware::Family;
use super::{least, roofline, rows};

/// Name of the term left out, and the mean absolute error over the Neuron rows with the others fitted anew.
pub(super) fn neuron() -> Vec<(&'static str, f64)> {
    let terms = roofline::decode_terms(Family::Neuron);
    terms.iter().enumerate().map(|(at, term)| (term.name, error_without(at))).collect()
}

fn error_without(left_out: usize) -> f64 {
    let row = |row: &rows::BenchmarkRow| {
        let mut terms = row.decode_terms()?;
        // A term that is nothing in every row has no coefficient.
        terms[left_out] = 0.0;
        Some((terms, row.tpot_p50_ms))
    };
    let points: Vec<_> = rows::neuron().iter().filter_map(row).collect();
    let Some(found) = least::fit(&points) else { return f64::NAN };
    least::mean(points.iter().map(|(terms, ms)| (least::value(terms, &found) / ms - 1.0).abs()))
}
