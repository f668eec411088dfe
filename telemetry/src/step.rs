//! How long a step takes on a simulated node, and how much power it draws: pure models, calibrated
//! on rows that others published.
//!
//! ```text
//! published rows -> table (one model on one machine) ─┐
//!                -> roofline (a family of machines) ──┼-> StepModel -> time of a step shape
//! own step records -> replay ─────────────────────────┘
//! ```
//!
//! The fit runs when a model is asked for, so its error is always the error of the rows in the
//! file. Whoever shows a number that stems from here shows [`Calibration::note`] with it.
//! `docs/calibration.md` prints coefficients and errors, row by row.

mod ablation;
mod hardware;
mod least;
mod power;
mod replay;
mod report;
mod roofline;
mod rows;
mod table;

pub use hardware::{ARCHITECTURES, Architecture, Family, HARDWARE, Hardware, hardware};
pub use power::PowerCurve;
pub use replay::{TimedStep, timed_steps};
pub use report::calibration_markdown;
pub use rows::{BenchmarkRow, GpuRow, ServingRow, gpu as gpu_rows, neuron as rows, serving as serving_rows};

use roofline::{Deployment, Fit};
use table::Table;

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

/// How step times are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// From the rows of this model on this machine alone.
    Table,
    /// From the figures of machine and model, with coefficients of all rows of the family.
    Roofline,
    /// From the records of real steps.
    Replay,
}

impl Method {
    /// As settings and telemetry spell it.
    pub fn name(self) -> &'static str {
        match self {
            Method::Table => "table",
            Method::Roofline => "roofline",
            Method::Replay => "replay",
        }
    }
}

/// What a model was fitted on and how well it repeats it.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// How the times are found.
    pub method: Method,
    /// Machine of the times: an instance type, or a GPU.
    pub hardware: String,
    /// Model of the times.
    pub model: String,
    /// How the weights are stored, such as `int8`.
    pub weight_type: String,
    /// Chips that the times are for.
    pub chips: u32,
    /// Tensor-parallel degree of the times: cores on Neuron, GPUs elsewhere.
    pub tensor_parallel: u32,
    /// Whose rows, such as `SDK 2.18`.
    pub source: String,
    /// Rows used.
    pub rows: usize,
    /// Mean absolute error of the time per output token over the rows, as a share of the row.
    pub decode_error: f64,
    /// The same for models (of a roofline) or rows (of a table) that the fit had not seen, where that can be said.
    pub unseen_error: Option<f64>,
    /// The fit has as many coefficients as rows, so its error over them says nothing; `unseen_error` does.
    pub exact: bool,
    /// The same of the time to first token, over the rows of batch 1; `None` where no row has one.
    pub prefill_error: Option<f64>,
    /// Largest batch among the rows; a larger one is an extrapolation.
    pub batch_max: u32,
}

impl Calibration {
    /// Mean error over all figures fitted, in percent; where the fit goes through every row, that over rows it had not seen.
    pub fn mean_error_percent(&self) -> f64 {
        let decode = self.unseen_error.filter(|_| self.exact).unwrap_or(self.decode_error);
        match self.prefill_error {
            Some(prefill) => 50.0 * (decode + prefill),
            None => 100.0 * decode,
        }
    }

    /// What to show beside every number that this model made.
    pub fn note(&self) -> String {
        let prefill = match self.prefill_error {
            Some(error) => format!("prefill {:.1} %", 100.0 * error),
            None => "prefill assumed".to_owned(),
        };
        let left_out = if self.method == Method::Roofline { "model" } else { "row" };
        let unseen = self
            .unseen_error
            .map_or_else(String::new, |error| format!("; decode {:.1} % on a {left_out} left out", 100.0 * error));
        let decode = match self.exact {
            true => "decode goes through every row".to_owned(),
            false => format!("decode {:.1} %", 100.0 * self.decode_error),
        };
        format!(
            "simulated, calibrated on {} rows, mean error {:.1} % ({decode}, {prefill}{unseen}), step model {}",
            self.source,
            self.mean_error_percent(),
            self.method.name(),
        )
    }
}

/// For which machine and model step times are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Name of the machine, as in [`HARDWARE`].
    pub hardware: &'a str,
    /// Name of the model, as in [`ARCHITECTURES`].
    pub model: &'a str,
    /// Chips of the replica; `None` takes all of the machine, or what the rows have.
    pub chips: Option<u32>,
    /// How the weights are stored; `None` takes what the rows have.
    pub weight_type: Option<&'a str>,
}

/// Why there are no step times.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTimes {
    /// Nobody published rows of it.
    #[error("no published step times of {model} on {hardware}")]
    Unpublished {
        /// Model asked for.
        model: String,
        /// Machine asked for.
        hardware: String,
    },
    /// The records are too few, or do not tell the parts of a step apart.
    #[error("the step records do not give step times: {reason}")]
    Records {
        /// What is wrong.
        reason: String,
    },
}

/// Step times of one model on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct StepModel {
    calibration: Calibration,
    times: Times,
    jitter_sigma: f64,
    /// Tokens a second of the fastest prompt.
    best_rate: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Times {
    Table(Table),
    Roofline(Roofline),
    Replay(replay::Replay),
}

/// A fit applied to a deployment.
#[derive(Clone, Debug, PartialEq)]
struct Roofline {
    fit: Fit,
    hardware: &'static Hardware,
    model: &'static Architecture,
    chips: u32,
    degree: u32,
    weight_type: String,
    /// Published prompt time over the formula's, where one of just this deployment is published.
    prefill_scale: f64,
}

impl Roofline {
    fn deployment(&self) -> Deployment<'_> {
        let Self { hardware, model, chips, degree, .. } = *self;
        Deployment { hardware, model, chips, degree, weight_type: &self.weight_type }
    }
}

/// Spread of step times where no row gives one. The Neuron rows lie between 0.01 and 0.04.
const JITTER_SIGMA: f64 = 0.02;
/// 99th percentile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326;
/// Longest prompt whose rate counts as a machine's best.
const BEST_TOKENS_MAX: u32 = 8_192;

impl StepModel {
    /// Fits the rows of one model on one machine.
    ///
    /// Decode on Neuron: `base + slot · (slots - 1) + context_slot · slots · context + context · context`, milliseconds and
    /// context buckets in thousands of tokens. Decode on a GPU: straight lines between the published batches. Prefill:
    /// straight lines between the published prompt lengths, one prompt at a time, never below the shortest bucket; on a GPU as
    /// the roofline has it.
    ///
    /// # Errors
    /// [`NoTimes::Unpublished`] without rows of this deployment.
    pub fn table(target: &Target<'_>) -> Result<Self, NoTimes> {
        let (table, calibration, jitter_sigma) = table::of(target).ok_or_else(|| target.unpublished())?;
        Ok(Self::new(Times::Table(table), calibration, jitter_sigma))
    }

    /// Reckons with the figures of machine and model; the coefficients are those of all rows of the family.
    ///
    /// # Errors
    /// [`NoTimes::Unpublished`] if the machine or the model is unknown.
    pub fn roofline(target: &Target<'_>) -> Result<Self, NoTimes> {
        let hardware = hardware(target.hardware).ok_or_else(|| target.unpublished())?;
        let model = Architecture::of(target.model).ok_or_else(|| target.unpublished())?;
        let fit = roofline::of(hardware.family).ok_or_else(|| target.unpublished())?.clone();
        let chips = target.chips.unwrap_or(hardware.chips).max(1);
        let degree = chips * hardware.cores;
        let weight_type = target.weight_type.unwrap_or("bf16").to_owned();
        let mut roofline = Roofline { fit, hardware, model, chips, degree, weight_type, prefill_scale: 1.0 };
        let prompts: Vec<&ServingRow> = roofline.published_prompts(target);
        let published_ms = least::mean(prompts.iter().map(|row| row.prompt_ms()));
        let mut calibration = report::roofline_calibration(&roofline, target);
        if let Some(row) = prompts.first() {
            let terms = roofline.deployment().prefill(f64::from(row.prompt_bucket));
            roofline.prefill_scale = published_ms / least::value(&terms, &roofline.fit.prefill);
            calibration.source.push_str(" (decode) and optimum-neuron (prompts)");
            calibration.prefill_error =
                Some(least::mean(prompts.iter().map(|row| (published_ms / row.prompt_ms() - 1.0).abs())));
        }
        let jitter_sigma = if hardware.family == Family::Neuron { jitter(rows()) } else { JITTER_SIGMA };
        Ok(Self::new(Times::Roofline(roofline), calibration, jitter_sigma))
    }

    /// Fits the records of real steps.
    ///
    /// # Errors
    /// [`NoTimes::Records`] if they are too few.
    pub fn replay(steps: &[TimedStep], model: &str) -> Result<Self, NoTimes> {
        let (replay, calibration, jitter_sigma) = replay::fit(steps, model)?;
        Ok(Self::new(Times::Replay(replay), calibration, jitter_sigma))
    }

    fn new(times: Times, calibration: Calibration, jitter_sigma: f64) -> Self {
        let mut model = Self { calibration, times, jitter_sigma, best_rate: 0.0 };
        let lengths = std::iter::successors(Some(128u32), |tokens| Some(tokens * 2));
        let rates = lengths.take_while(|tokens| *tokens <= BEST_TOKENS_MAX).map(|tokens| {
            let tokens = f64::from(tokens);
            1e3 * tokens / model.prefill_ms(tokens).max(1e-9)
        });
        model.best_rate = rates.fold(0.0, f64::max);
        model
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
        let decode_ms = match shape.decode_slots {
            0 => 0.0,
            slots => self.decode_ms(f64::from(slots), f64::from(shape.context)),
        };
        let prefill_ms = match shape.prefill_tokens {
            0 => 0.0,
            tokens => self.prefill_ms(f64::from(tokens)),
        };
        // What a recorded step takes whatever is in it is in both parts.
        let twice_ms = if decode_ms > 0.0 && prefill_ms > 0.0 { self.fixed_ms() } else { 0.0 };
        StepParts { prefill_ns: nanos(prefill_ms - twice_ms), decode_ns: nanos(decode_ms) }
    }

    /// How hard the tensor engines work in a step, 0 to 1: its tokens per second as a share of the
    /// best prefill rate up to 8,192 tokens. Input of [`PowerCurve::watts`].
    pub fn load(&self, shape: StepShape) -> f64 {
        let parts = self.time(shape);
        if parts.total_ns() == 0 {
            return 0.0;
        }
        let tokens = f64::from(shape.prefill_tokens) + f64::from(shape.decode_slots);
        let rate = tokens / (parts.total_ns() as f64 / 1e9);
        (rate / self.best_rate).clamp(0.0, 1.0)
    }

    fn fixed_ms(&self) -> f64 {
        match &self.times {
            Times::Replay(replay) => replay.fixed_ms(),
            Times::Table(_) | Times::Roofline(_) => 0.0,
        }
    }

    fn decode_ms(&self, slots: f64, context: f64) -> f64 {
        match &self.times {
            Times::Table(table) => table.decode_ms(slots, context),
            Times::Roofline(roofline) => {
                least::value(&roofline.deployment().decode(slots, context), &roofline.fit.decode)
            }
            Times::Replay(replay) => replay.decode_ms(slots, context),
        }
    }

    fn prefill_ms(&self, tokens: f64) -> f64 {
        match &self.times {
            Times::Table(table) => table.prefill_ms(tokens),
            Times::Roofline(roofline) => {
                roofline.prefill_scale * least::value(&roofline.deployment().prefill(tokens), &roofline.fit.prefill)
            }
            Times::Replay(replay) => replay.prefill_ms(tokens),
        }
    }
}

impl Target<'_> {
    fn unpublished(&self) -> NoTimes {
        NoTimes::Unpublished { model: self.model.to_owned(), hardware: self.hardware.to_owned() }
    }
}

impl Roofline {
    /// Published prompts of just this deployment. Their software is years younger than that of the decoder benchmarks.
    fn published_prompts(&self, target: &Target<'_>) -> Vec<&'static ServingRow> {
        let same = |row: &&ServingRow| {
            row.instance_type == target.hardware
                && row.model == target.model
                && row.tensor_parallel == self.degree
                && row.weight_type == self.weight_type
        };
        serving_rows().iter().filter(same).collect()
    }
}

impl ServingRow {
    /// Milliseconds of one prompt, since they come one after another.
    pub fn prompt_ms(&self) -> f64 {
        1e3 * self.ttft_full_s / f64::from(self.slots)
    }
}

/// Mean spread between the median and the 99th percentile of rows, as a standard deviation of logarithms.
fn jitter<'a>(rows: impl IntoIterator<Item = &'a BenchmarkRow>) -> f64 {
    least::mean(rows.into_iter().map(|row| (row.tpot_p99_ms / row.tpot_p50_ms).ln().max(0.0) / NORMAL_P99))
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
