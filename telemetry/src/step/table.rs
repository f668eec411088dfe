//! Step times from the rows of one model on one machine.

use std::collections::BTreeMap;

use super::hardware::{Architecture, Family, Hardware, hardware};
use super::roofline::{self, Deployment};
use super::rows::{self, BenchmarkRow, GpuRow};
use super::{Calibration, JITTER_SIGMA, Method, Target, bucket, jitter, least};

/// Times of one deployment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    decode: Decode,
    prefill: Prefill,
}

#[derive(Clone, Debug, PartialEq)]
enum Decode {
    /// Coefficients of [`terms`].
    Linear(Vec<f64>),
    /// (sequences, milliseconds), rising in sequences.
    Batches(Vec<(f64, f64)>),
}

#[derive(Clone, Debug, PartialEq)]
enum Prefill {
    /// (tokens, milliseconds), rising in tokens.
    Anchors(Vec<(f64, f64)>),
    /// Milliseconds for each token and for each square of tokens.
    Formula(f64, f64),
}

impl Table {
    pub(super) fn decode_ms(&self, slots: f64, context: f64) -> f64 {
        match &self.decode {
            Decode::Linear(found) => least::value(&terms(slots, context), found),
            Decode::Batches(anchors) => interpolate(anchors, slots),
        }
    }

    pub(super) fn prefill_ms(&self, tokens: f64) -> f64 {
        match &self.prefill {
            Prefill::Anchors(anchors) => interpolate(anchors, tokens),
            Prefill::Formula(token, square) => token * tokens + square * tokens * tokens,
        }
    }
}

/// Times, what they were fitted on, and their spread.
pub(super) fn of(target: &Target<'_>) -> Option<(Table, Calibration, f64)> {
    let machine = hardware(target.hardware)?;
    match machine.family {
        Family::Neuron => {
            let fits = |row: &&BenchmarkRow| {
                row.instance_type == target.hardware
                    && row.model == target.model
                    && target.weight_type.is_none_or(|wanted| wanted == row.weight_type)
                    && target.chips.is_none_or(|chips| chips * machine.cores == row.tensor_parallel)
            };
            neuron(&rows::neuron().iter().filter(fits).collect::<Vec<_>>())
        }
        Family::Gpu => {
            let fits = |row: &&GpuRow| {
                row.gpu == target.hardware
                    && row.model == target.model
                    && target.weight_type.is_none_or(|wanted| wanted == "bf16")
            };
            let rows: Vec<&GpuRow> = rows::gpu().iter().filter(fits).collect();
            let gpus = target.chips.or_else(|| rows.iter().map(|row| row.gpus).min())?;
            gpu(machine, target.model, &rows.into_iter().filter(|row| row.gpus == gpus).collect::<Vec<_>>())
        }
    }
}

/// Most of the terms that so many rows can tell apart with some to spare.
const ROWS_FOR_CONTEXT: usize = 6;

fn neuron(rows: &[&BenchmarkRow]) -> Option<(Table, Calibration, f64)> {
    let first = rows.first()?;
    let width = width(rows.len());
    let table = Table { decode: linear(rows, width)?, prefill: Prefill::Anchors(anchors(rows)) };
    let decode_error = least::mean(rows.iter().map(|row| table.decode_error(row).abs()));
    let single = rows.iter().filter(|row| row.batch == 1);
    let calibration = Calibration {
        method: Method::Table,
        hardware: first.instance_type.clone(),
        model: first.model.clone(),
        weight_type: first.weight_type.clone(),
        chips: first.deployment()?.chips,
        tensor_parallel: first.tensor_parallel,
        source: format!("SDK {}", first.sdk.split('.').take(2).collect::<Vec<_>>().join(".")),
        rows: rows.len(),
        decode_error,
        unseen_error: left_out(rows, |others| linear(others, width), Table::decode_error),
        exact: rows.len() <= width,
        prefill_error: Some(least::mean(single.map(|row| table.prefill_error(row).abs()))),
        batch_max: rows.iter().map(|row| row.batch).max().unwrap_or(1),
    };
    Some((table, calibration, jitter(rows.iter().copied())))
}

impl Table {
    pub(super) fn decode_error(&self, row: &BenchmarkRow) -> f64 {
        let context = bucket(row.sequence_length, u32::MAX);
        self.decode_ms(f64::from(row.batch), f64::from(context)) / row.tpot_p50_ms - 1.0
    }

    fn gap_error(&self, row: &GpuRow) -> f64 {
        self.decode_ms(row.batch, 0.0) / row.itl_p50_ms - 1.0
    }

    pub(super) fn prefill_error(&self, row: &BenchmarkRow) -> f64 {
        self.prefill_ms(f64::from(bucket(row.input_tokens, u32::MAX))) / row.ttft_p50_ms - 1.0
    }
}

/// How many of the [`terms`] so many rows are fitted with.
fn width(rows: usize) -> usize {
    if rows >= ROWS_FOR_CONTEXT { 4 } else { 3 }
}

fn linear(rows: &[&BenchmarkRow], width: usize) -> Option<Decode> {
    let points = rows.iter().map(|row| {
        let mut terms = terms(f64::from(row.batch), f64::from(bucket(row.sequence_length, u32::MAX)));
        terms.truncate(width);
        (terms, row.tpot_p50_ms)
    });
    least::fit(&points.collect::<Vec<_>>()).map(Decode::Linear)
}

fn batches(rows: &[&GpuRow]) -> Decode {
    let mut batches: Vec<(f64, f64)> = rows.iter().map(|row| (row.batch, row.itl_p50_ms)).collect();
    batches.sort_by(|a, b| a.0.total_cmp(&b.0));
    Decode::Batches(batches)
}

/// Mean absolute error over rows, each by a fit of the others; `None` of a single row.
fn left_out<T>(rows: &[&T], fit: impl Fn(&[&T]) -> Option<Decode>, error: impl Fn(&Table, &T) -> f64) -> Option<f64> {
    let of = |at: usize| {
        let others: Vec<&T> = (0..rows.len()).filter(|other| *other != at).map(|other| rows[other]).collect();
        let table = Table { decode: fit(&others)?, prefill: Prefill::Formula(0.0, 0.0) };
        (!others.is_empty()).then(|| error(&table, rows[at]).abs())
    };
    let errors: Option<Vec<f64>> = (0..rows.len()).map(of).collect();
    errors.filter(|errors| !errors.is_empty()).map(|errors| least::mean(errors.into_iter()))
}

fn gpu(machine: &Hardware, model: &str, rows: &[&GpuRow]) -> Option<(Table, Calibration, f64)> {
    let first = rows.first()?;
    let degree = first.gpus;
    let model = Architecture::of(model)?;
    let deployment = Deployment { hardware: machine, model, chips: degree, degree, weight_type: "bf16" };
    let terms = deployment.prefill(1.0);
    let fit = roofline::of(Family::Gpu)?;
    let prefill = Prefill::Formula(terms[2] * fit.prefill[2], terms[3] * fit.prefill[3]);
    let table = Table { decode: batches(rows), prefill };
    let calibration = Calibration {
        method: Method::Table,
        hardware: first.gpu.clone(),
        model: first.model.clone(),
        weight_type: "bf16".to_owned(),
        chips: degree,
        tensor_parallel: degree,
        source: "ML.ENERGY".to_owned(),
        rows: rows.len(),
        decode_error: least::mean(rows.iter().map(|row| table.gap_error(row).abs())),
        unseen_error: left_out(rows, |others| Some(batches(others)), Table::gap_error),
        exact: true,
        prefill_error: None,
        batch_max: rows.iter().map(|row| row.batch.round() as u32).max().unwrap_or(1),
    };
    Some((table, calibration, JITTER_SIGMA))
}

/// One, further slots, thousands of tokens of all slots' contexts, thousands of tokens of the context bucket.
fn terms(slots: f64, context: f64) -> Vec<f64> {
    vec![1.0, slots - 1.0, slots * context / 1e3, context / 1e3]
}

/// Mean time to first token of each prompt bucket, batch 1 only: larger batches were prefilled
/// together, which a node that serves requests one by one never does.
fn anchors(rows: &[&BenchmarkRow]) -> Vec<(f64, f64)> {
    let mut buckets: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.batch == 1) {
        buckets.entry(bucket(row.input_tokens, u32::MAX)).or_default().push(row.ttft_p50_ms);
    }
    buckets.into_iter().map(|(tokens, times)| (f64::from(tokens), least::mean(times.into_iter()))).collect()
}

/// Value at `at` on straight lines between the anchors: flat below the first one, the last line goes on above the last
/// one, and no value is below the first.
fn interpolate(anchors: &[(f64, f64)], at: f64) -> f64 {
    let Some(first) = anchors.first() else {
        return 0.0;
    };
    if at <= first.0 || anchors.len() == 1 {
        return first.1 * (at / first.0).max(1.0);
    }
    let above = anchors.iter().position(|anchor| at <= anchor.0).unwrap_or(anchors.len() - 1).max(1);
    let (left, right) = (anchors[above - 1], anchors[above]);
    let slope = (right.1 - left.1) / (right.0 - left.0);
    (left.1 + slope * (at - left.0)).max(first.1)
}
