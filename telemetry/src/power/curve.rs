//! Power of a GPU as a concave curve of its load, fitted to measured runs, and how far it errs on models it has not seen.
//!
//! Load is the output rate of a run as a share of the highest rate of the same deployment (model, task, precision, GPUs), so the
//! curve of a model nobody metered needs its rates and no watts. `docs/power.md` prints curves and errors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::dated;

/// Watts of one GPU between rest and full load, as shares of its thermal design power:
/// `idle_share + (full_share - idle_share) · load ^ exponent`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadCurve {
    /// Where the curve begins. The runs were all under load, so it is no measurement of a GPU at rest.
    pub idle_share: f64,
    /// Where it ends.
    pub full_share: f64,
    /// Below 1: the first requests cost the most.
    pub exponent: f64,
}

/// One measured run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Model that was served.
    pub model: String,
    /// What it was asked: the name of the data set.
    pub task: String,
    /// `H100` or `B200`.
    pub gpu: String,
    /// Watts of one GPU board, mean over the run.
    pub watts: f64,
    /// Output rate as a share of the deployment's highest, above 0 to 1.
    pub load: f64,
}

/// A curve's error on a run of a model that it was not fitted to.
#[derive(Clone, Copy, Debug)]
pub struct Unseen {
    /// The run.
    pub run: &'static Run,
    /// Predicted over measured watts, less 1.
    pub error: f64,
}

/// GPUs of the runs and their thermal design power in watts (NVIDIA's data sheets of the SXM parts).
pub const FULL_W: [(&str, f64); 2] = [("H100", 700.0), ("B200", 1_000.0)];

#[derive(Deserialize)]
struct Row {
    model: String,
    task: String,
    weight_precision: String,
    gpu_model: String,
    num_gpus: u32,
    avg_power_w_per_gpu: f64,
    output_tok_per_s: f64,
}

const TEXT: &str = include_str!("../../../data/mlenergy_extract.csv");

static RUNS: LazyLock<Vec<Run>> = LazyLock::new(|| {
    let rows: Vec<Row> = dated::rows(TEXT).collect();
    let key = |row: &Row| {
        (row.model.clone(), row.task.clone(), row.weight_precision.clone(), row.gpu_model.clone(), row.num_gpus)
    };
    let mut most: BTreeMap<_, f64> = BTreeMap::new();
    for row in &rows {
        let highest = most.entry(key(row)).or_default();
        *highest = highest.max(row.output_tok_per_s);
    }
    let run = |row: &Row| Run {
        model: row.model.clone(),
        task: row.task.clone(),
        gpu: row.gpu_model.clone(),
        watts: row.avg_power_w_per_gpu,
        load: row.output_tok_per_s / most[&key(row)],
    };
    rows.iter().filter(|row| row.output_tok_per_s > 0.0 && row.avg_power_w_per_gpu > 0.0).map(run).collect()
});

/// The measured runs: GPU boards under load (ML.ENERGY; source and licence in `data/NOTICE`).
pub fn runs() -> &'static [Run] {
    &RUNS
}

/// Curves that are tried: hundredths in which the runs tell them apart.
static CANDIDATES: LazyLock<Vec<LoadCurve>> = LazyLock::new(|| {
    let steps = |from: u32, to: u32| (from..=to).step_by(5).map(|hundredth| f64::from(hundredth) / 100.0);
    let curves = steps(15, 45).flat_map(|idle_share| {
        steps(70, 100).flat_map(move |full_share| {
            steps(10, 100).map(move |exponent| LoadCurve { idle_share, full_share, exponent })
        })
    });
    curves.collect()
});

/// Errors of every candidate on every run of one GPU.
struct Tried {
    runs: Vec<&'static Run>,
    errors: Vec<Vec<f64>>,
}

impl Tried {
    fn of(gpu: &str) -> Option<Tried> {
        let full_w = full_w(gpu)?;
        let runs: Vec<&Run> = runs().iter().filter(|run| run.gpu == gpu).collect();
        let error = |curve: &LoadCurve, run: &Run| curve.watts(full_w, run.load) / run.watts - 1.0;
        let errors = CANDIDATES.iter().map(|curve| runs.iter().map(|run| error(curve, run)).collect()).collect();
        Some(Tried { runs, errors })
    }

    /// The candidate with the least median error on runs of models other than `left_out`.
    fn best(&self, left_out: &str) -> Option<usize> {
        let median = |errors: &Vec<f64>| {
            let seen = self.runs.iter().zip(errors).filter(|(run, _)| run.model != left_out);
            median(seen.map(|(_, error)| error.abs()).collect()).unwrap_or(f64::INFINITY)
        };
        let medians: Vec<f64> = self.errors.iter().map(median).collect();
        (0..medians.len()).min_by(|a, b| medians[*a].total_cmp(&medians[*b]))
    }

    fn unseen(&self) -> Vec<Unseen> {
        let models: BTreeSet<&str> = self.runs.iter().map(|run| run.model.as_str()).collect();
        let mut all = Vec::with_capacity(self.runs.len());
        for model in models {
            let Some(best) = self.best(model) else { continue };
            let own = self.runs.iter().zip(&self.errors[best]).filter(|(run, _)| run.model == model);
            all.extend(own.map(|(run, error)| Unseen { run, error: *error }));
        }
        all
    }
}

static FITTED: LazyLock<Vec<(&'static str, LoadCurve, Vec<Unseen>)>> = LazyLock::new(|| {
    let fitted = FULL_W.iter().filter_map(|(gpu, _)| {
        let tried = Tried::of(gpu)?;
        Some((*gpu, CANDIDATES[tried.best("")?], tried.unseen()))
    });
    fitted.collect()
});

/// The curve of a GPU over all of its runs; `None` where nobody published any.
pub fn fitted(gpu: &str) -> Option<LoadCurve> {
    FITTED.iter().find(|(name, ..)| name.eq_ignore_ascii_case(gpu)).map(|(_, curve, _)| *curve)
}

/// Every run with the error of the curve fitted without its model (leave one model out).
pub fn unseen() -> Vec<Unseen> {
    FITTED.iter().flat_map(|(.., unseen)| unseen.iter().copied()).collect()
}

/// Thermal design power of one GPU, watts.
pub fn full_w(gpu: &str) -> Option<f64> {
    FULL_W.iter().find(|(name, _)| name.eq_ignore_ascii_case(gpu)).map(|(_, watts)| *watts)
}

/// The middle of the values, of two the lower; `None` of none.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

impl LoadCurve {
    /// Watts of one GPU of that thermal design power at a load from 0 to 1.
    pub fn watts(&self, full_w: f64, load: f64) -> f64 {
        let rise = (self.full_share - self.idle_share).max(0.0);
        full_w * (self.idle_share + rise * load.clamp(0.0, 1.0).powf(self.exponent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn median_error(of: impl Fn(&Unseen) -> bool) -> f64 {
        let errors = unseen().iter().filter(|unseen| of(unseen)).map(|unseen| unseen.error.abs()).collect();
        median(errors).expect("runs")
    }

    #[test]
    fn every_run_is_predicted_by_a_curve_that_has_not_seen_its_model() {
        let lines = TEXT.lines().skip(1).filter(|line| !line.is_empty()).count();
        assert_eq!((runs().len(), unseen().len()), (lines, lines));
        assert_eq!(lines, 565);
    }

    /// The figure that docs/power.md prints.
    #[test]
    fn unseen_models_are_predicted_within_15_percent_in_the_median() {
        let all = median_error(|_| true);
        assert!(all <= 0.15, "{all}");
        for (gpu, _) in FULL_W {
            let one = median_error(|unseen| unseen.run.gpu == gpu);
            assert!(one <= 0.15, "{gpu}: {one}");
        }
    }

    /// A straight line through rest at 15 % and the thermal design power would be far off on the same runs.
    #[test]
    fn the_curve_is_concave_and_a_straight_line_errs_more() {
        for (gpu, full_w) in FULL_W {
            let curve = fitted(gpu).expect("a curve");
            assert!(curve.exponent < 1.0 && curve.idle_share < curve.full_share, "{gpu}: {curve:?}");
            let line = LoadCurve { idle_share: 0.15, full_share: 1.0, exponent: 1.0 };
            let errors = runs().iter().filter(|run| run.gpu == gpu);
            let errors = errors.map(|run| (line.watts(full_w, run.load) / run.watts - 1.0).abs()).collect();
            let straight = median(errors).expect("runs");
            assert!(straight > 2.0 * median_error(|unseen| unseen.run.gpu == gpu), "{gpu}: {straight}");
        }
    }

    #[test]
    fn a_gpu_that_nobody_measured_has_no_curve() {
        assert_eq!(fitted("inferentia2"), None);
        assert_eq!(full_w("inferentia2"), None);
        assert_eq!(median(Vec::new()), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0, 9.0]), Some(2.0));
    }
}
