//! Step times from the records of real steps.
//!
//! A record is a line of CSV with the header `prefill_tokens,decode_slots,context,device_us`, as `docs/calibration.md`
//! shows how to ask for. `a + b · prompt tokens + c · slots + d · slots · context` is fitted to them.

use serde::Deserialize;

use super::{Calibration, JITTER_SIGMA, Method, NoTimes, StepShape, least};

/// A step that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct TimedStep {
    /// Prompt tokens, padding included.
    pub prefill_tokens: u32,
    /// Sequences of the decode graph, empty slots included.
    pub decode_slots: u32,
    /// Longest context in tokens.
    pub context: u32,
    /// Device time in microseconds.
    pub device_us: u64,
}

/// Reads records.
///
/// # Errors
/// [`NoTimes::Records`] with the line that cannot be read.
pub fn timed_steps(csv: &str) -> Result<Vec<TimedStep>, NoTimes> {
    let rows = csv::Reader::from_reader(csv.as_bytes()).into_deserialize();
    rows.collect::<Result<_, _>>().map_err(|error: csv::Error| NoTimes::Records { reason: error.to_string() })
}

/// Coefficients in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Replay {
    found: Vec<f64>,
}

/// Records without which no step time is believed.
const STEPS_MIN: usize = 20;

fn terms(shape: StepShape) -> Vec<f64> {
    let slots = f64::from(shape.decode_slots);
    vec![1.0, f64::from(shape.prefill_tokens), slots, slots * f64::from(shape.context) / 1e3]
}

impl TimedStep {
    fn shape(&self) -> StepShape {
        StepShape { prefill_tokens: self.prefill_tokens, decode_slots: self.decode_slots, context: self.context }
    }

    fn ms(&self) -> f64 {
        self.device_us as f64 / 1e3
    }
}

pub(super) fn fit(steps: &[TimedStep], model: &str) -> Result<(Replay, Calibration, f64), NoTimes> {
    let few = || NoTimes::Records { reason: format!("{} of at least {STEPS_MIN} steps", steps.len()) };
    let rows: Vec<_> = steps.iter().map(|step| (terms(step.shape()), step.ms())).collect();
    let found = least::fit(&rows).filter(|_| rows.len() >= STEPS_MIN).ok_or_else(few)?;
    let replay = Replay { found };
    let timed = || steps.iter().filter(|step| step.device_us > 0);
    let error = |step: &TimedStep| (least::value(&terms(step.shape()), &replay.found) / step.ms() - 1.0).abs();
    let (prompts, decodes): (Vec<_>, Vec<_>) = timed().partition(|step| step.prefill_tokens > 0);
    let calibration = Calibration {
        method: Method::Replay,
        hardware: "recorded".to_owned(),
        model: model.to_owned(),
        weight_type: "as recorded".to_owned(),
        chips: 1,
        tensor_parallel: 1,
        source: format!("{} recorded steps'", steps.len()),
        rows: steps.len(),
        decode_error: least::mean(decodes.into_iter().map(error)),
        unseen_error: None,
        exact: false,
        prefill_error: (!prompts.is_empty()).then(|| least::mean(prompts.into_iter().map(error))),
        batch_max: steps.iter().map(|step| step.decode_slots).max().unwrap_or(1),
    };
    // The mean distance from the fit is about 0.8 standard deviations of a normal distribution.
    let sigma = (least::mean(timed().map(error)) * 1.25).min(10.0 * JITTER_SIGMA);
    Ok((replay, calibration, sigma))
}

impl Replay {
    pub(super) fn fixed_ms(&self) -> f64 {
        self.found[0]
    }

    pub(super) fn decode_ms(&self, slots: f64, context: f64) -> f64 {
        least::value(&[1.0, 0.0, slots, slots * context / 1e3], &self.found)
    }

    pub(super) fn prefill_ms(&self, tokens: f64) -> f64 {
        least::value(&[1.0, tokens, 0.0, 0.0], &self.found)
    }
}
