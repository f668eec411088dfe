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

/// What is fitted: the curve, or something simpler that it is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// Watts rise with a power of the load.
    Curve,
    /// Watts rise with the load, from any beginning to any end.
    Line,
    /// The same watts at any load.
    Constant,
}

impl Shape {
    /// What is tried: hundredths in which the runs tell curves apart, and as many that lines and constants are not held back by them. A
    /// finer and wider grid of curves errs by half a point to one less, and begins at 55 % of the power of an H100 and 3 % of a B200's, which
    /// no GPU at rest does.
    fn candidates(self) -> Vec<LoadCurve> {
        let steps = |from: u32, to: u32, by| (from..=to).step_by(by).map(|hundredth| f64::from(hundredth) / 100.0);
        let all = |idle: (u32, u32, usize), full: (u32, u32, usize), exponents: (u32, u32)| {
            let ends = steps(idle.0, idle.1, idle.2).flat_map(move |idle_share| {
                steps(full.0, full.1, full.2).map(move |full_share| (idle_share, full_share))
            });
            let curves = ends.flat_map(|(idle_share, full_share)| {
                steps(exponents.0, exponents.1, 5).map(move |exponent| LoadCurve { idle_share, full_share, exponent })
            });
            curves.collect::<Vec<_>>()
        };
        match self {
            Shape::Curve => all((15, 45, 5), (70, 100, 5), (10, 100)),
            Shape::Line => all((0, 100, 2), (40, 120, 2), (100, 100)),
            Shape::Constant => {
                let flat = |share| LoadCurve { idle_share: share, full_share: share, exponent: 1.0 };
                steps(10, 100, 1).map(flat).collect()
            }
        }
    }
}

/// Errors of every candidate on every run of one GPU.
struct Tried {
    candidates: Vec<LoadCurve>,
    runs: Vec<&'static Run>,
    errors: Vec<Vec<f64>>,
}

impl Tried {
    fn of(gpu: &str, shape: Shape) -> Option<Tried> {
        let (full_w, candidates) = (full_w(gpu)?, shape.candidates());
        let runs: Vec<&Run> = runs().iter().filter(|run| run.gpu == gpu).collect();
        let error = |curve: &LoadCurve, run: &Run| curve.watts(full_w, run.load) / run.watts - 1.0;
        let errors = candidates.iter().map(|curve| runs.iter().map(|run| error(curve, run)).collect()).collect();
        Some(Tried { candidates, runs, errors })
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
        let tried = Tried::of(gpu, Shape::Curve)?;
        Some((*gpu, tried.candidates[tried.best("")?], tried.unseen()))
    });
    fitted.collect()
});

/// Every run of a GPU with the error of a line or a constant fitted without its model, as [`unseen`] is of the curve: what the curve has to
/// beat.
pub fn unseen_by(shape: Shape, gpu: &str) -> Vec<Unseen> {
    Tried::of(gpu, shape).map(|tried| tried.unseen()).unwrap_or_default()
}

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

    /// What the curve is held against is fitted as it is: every run by what has not seen its model, and the curve by the same way is what
    /// [`unseen`] says. No line is further off than the best constant in the middle of the runs that it was fitted to.
    #[test]
    fn simpler_shapes_are_fitted_the_same_way() {
        for (gpu, _) in FULL_W {
            let middle = |shape| median(unseen_by(shape, gpu).iter().map(|unseen| unseen.error.abs()).collect());
            let curve = median_error(|unseen| unseen.run.gpu == gpu);
            assert_eq!(middle(Shape::Curve), Some(curve), "{gpu}");
            let best = |shape| {
                let tried = Tried::of(gpu, shape).expect("runs");
                let errors = &tried.errors[tried.best("").expect("a candidate")];
                median(errors.iter().map(|error| error.abs()).collect()).expect("runs")
            };
            assert!(best(Shape::Line) <= best(Shape::Constant) + 0.005, "{gpu}");
        }
        assert_eq!(unseen_by(Shape::Line, "inferentia2").len(), 0);
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
