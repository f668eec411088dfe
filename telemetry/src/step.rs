//! How long a step takes on a Neuron node, and how much power it draws: pure models, calibrated
//! on the decoder benchmarks that AWS publishes (`data/neuron_decoder_benchmarks.csv`).
//!
//! ```text
//! benchmark rows -> fit (decode: three coefficients, prefill: anchors) -> StepModel -> time of a step shape
//! ```
//!
//! The fit runs when a model is asked for, so its error is always the error of the rows in the
//! file. Whoever shows a number that stems from here shows [`Calibration::note`] with it.

mod fit;
mod power;
mod rows;

pub use power::PowerCurve;
pub use rows::{BenchmarkRow, rows};

/// Shape of one step, as far as its time depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepShape {
    /// Prompt tokens that the step computes, padding to the bucket included; 0 for none.
    pub prefill_tokens: u32,
    /// Sequences that the decode graph computes, empty slots included; 0 for none.
    pub decode_slots: u32,
    /// Context bucket of the decode graph in tokens.
    pub context: u32,
}

/// Device time of a step in nanoseconds, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepParts {
    /// For prompt tokens.
    pub prefill_ns: u64,
    /// For the decode graph, empty slots included.
    pub decode_ns: u64,
}

impl StepParts {
    /// Both parts.
    pub fn total_ns(self) -> u64 {
        self.prefill_ns + self.decode_ns
    }
}

/// What a model was fitted on and how well it repeats it.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Instance type of the rows.
    pub instance_type: String,
    /// Model of the rows.
    pub model: String,
    /// Weight type of the rows, such as `int8`.
    pub weight_type: String,
    /// Tensor-parallel degree of the rows.
    pub tensor_parallel: u32,
    /// Neuron SDK that the rows were measured with, such as `2.18`.
    pub sdk: String,
    /// Rows used.
    pub rows: usize,
    /// Mean absolute error of the time per output token over the rows, as a share of the row.
    pub decode_error: f64,
    /// The same of the time to first token, over the rows of batch 1.
    pub prefill_error: f64,
    /// Largest batch among the rows; a larger one is an extrapolation.
    pub batch_max: u32,
}

impl Calibration {
    /// Mean error over all figures fitted, in percent.
    pub fn mean_error_percent(&self) -> f64 {
        50.0 * (self.decode_error + self.prefill_error)
    }

    /// What to show beside every number that this model made.
    pub fn note(&self) -> String {
        format!(
            "simulated, calibrated on SDK {} rows, mean error {:.1} % (decode {:.1} %, prefill {:.1} %)",
            self.sdk,
            self.mean_error_percent(),
            100.0 * self.decode_error,
            100.0 * self.prefill_error,
        )
    }
}

/// Step times of one model on one instance type.
///
/// Decode: `base + slot * (slots - 1) + context * slots * context_bucket`, milliseconds; the
/// constant part is launches and all-reduces, which at these tensor-parallel degrees outweigh the
/// memory traffic of the weights. Prefill: straight lines between the published prompt lengths, one
/// prompt at a time, as the continuous-batching path really works; never below the shortest bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct StepModel {
    calibration: Calibration,
    decode: DecodeTime,
    /// (tokens, milliseconds), rising in tokens.
    prefill: Vec<(f64, f64)>,
    jitter_sigma: f64,
}

/// Coefficients of the decode time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DecodeTime {
    /// Milliseconds of a step with one slot and no context.
    base_ms: f64,
    /// Milliseconds for each further slot.
    slot_ms: f64,
    /// Milliseconds for each slot and 1,000 tokens of its context bucket.
    context_ms: f64,
}

impl DecodeTime {
    fn ms(self, slots: f64, context: f64) -> f64 {
        self.base_ms + self.slot_ms * (slots - 1.0) + self.context_ms * slots * context / 1000.0
    }
}

impl StepModel {
    /// Fits the published rows of `model` on `instance_type`; `None` if there are too few.
    pub fn calibrated(instance_type: &str, model: &str) -> Option<Self> {
        let rows: Vec<BenchmarkRow> =
            rows().into_iter().filter(|row| row.instance_type == instance_type && row.model == model).collect();
        fit::fit(&rows)
    }

    /// What the model was fitted on.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// Standard deviation of the natural logarithm of a step's time, from the spread between the
    /// published p50 and p99.
    pub fn jitter_sigma(&self) -> f64 {
        self.jitter_sigma
    }

    /// Device time of a step, without jitter.
    pub fn time(&self, shape: StepShape) -> StepParts {
        let decode_ms = if shape.decode_slots == 0 {
            0.0
        } else {
            self.decode.ms(f64::from(shape.decode_slots), f64::from(shape.context))
        };
        let prefill_ms = if shape.prefill_tokens == 0 {
            0.0
        } else {
            fit::interpolate(&self.prefill, f64::from(shape.prefill_tokens))
        };
        StepParts { prefill_ns: nanos(prefill_ms), decode_ns: nanos(decode_ms) }
    }

    /// How hard the tensor engines work in a step, 0 to 1: its tokens per second as a share of the
    /// best prefill rate among the published prompt lengths. Input of [`PowerCurve::watts`].
    pub fn load(&self, shape: StepShape) -> f64 {
        let parts = self.time(shape);
        if parts.total_ns() == 0 {
            return 0.0;
        }
        let best = self.prefill.iter().map(|(tokens, ms)| tokens / ms).fold(0.0, f64::max);
        let tokens = f64::from(shape.prefill_tokens) + f64::from(shape.decode_slots);
        let rate = tokens / (parts.total_ns() as f64 / 1e6);
        (rate / best).clamp(0.0, 1.0)
    }
}

/// Smallest bucket that holds `tokens`: powers of two from 128, the last one exactly `longest`.
pub fn bucket(tokens: u32, longest: u32) -> u32 {
    tokens.max(128).checked_next_power_of_two().unwrap_or(u32::MAX).min(longest.max(tokens))
}

fn nanos(ms: f64) -> u64 {
    (ms.max(0.0) * 1e6).round() as u64
}

#[cfg(test)]
mod tests;
