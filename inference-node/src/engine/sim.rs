//! A node without the hardware: published step times, made-up text.
//!
//! ```text
//! plan -> step shape -> telemetry::step (fit of published rows) -> jitter -> device time
//!      -> text::next_token                                             -> tokens
//! ```
//!
//! Everything is drawn from seeds: the same settings and the same plans give the same tokens and times.

mod text;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use service::config::range::within;
use telemetry::step::{self, Architecture, Family, StepModel, StepParts, StepShape, Target, bucket};

use super::{
    Devices, Engine, EngineDescription, EngineError, LEN_MAX, NewToken, SLOTS_MAX, SeqId, SequenceInput, StepResult,
    StepTime, Text,
};
use crate::schedule::{Phase, Policy, StepKind, StepPlan, Work};

/// Where step times come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Times {
    /// The published rows of this model on this machine.
    #[default]
    Table,
    /// The figures of machine and model, with coefficients of all rows of the family.
    Roofline,
    /// Records of real steps.
    Replay,
}

/// Settings of the `sim` engine.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Whose step times: `inf2.48xlarge`, `trn1.32xlarge`, `h100` or `b200`.
    pub like: String,
    /// Model, as the rows name it: `Llama-3-8B` (INT8 weights on Neuron), `Llama-3-70B`,
    /// `meta-llama/Llama-3.1-8B-Instruct` (GPUs), …
    pub model: String,
    /// Where step times come from: rows of just this model and machine, the figures of machine and model, or records of
    /// real steps.
    pub step_model: Times,
    /// Records of real steps, a CSV file; `docs/calibration.md` says how to get one. Needed by `replay`.
    pub step_records: Option<PathBuf>,
    /// How the weights are stored, `int8` or `bf16`; `None` takes what the rows have.
    pub weight_type: Option<String>,
    /// Accelerator to report; `None` takes the one of `like`. Set it together with the node's
    /// host type to stand for hardware that nobody has published rows of.
    pub accelerator: Option<String>,
    /// Chips of the replica; `None` takes those of the rows. A table has times for these alone, unless `accelerator` says
    /// that other hardware is meant.
    pub chips: Option<u32>,
    /// Compiled decode slots. More than the rows' largest batch is an extrapolation.
    pub slots: u32,
    /// Longest sequence in tokens.
    pub max_len: u32,
    /// Median length of an answer in tokens, where the client sets no lower limit.
    pub output_tokens_median: u32,
    /// Fault: prefill takes this many times as long. 1 is healthy.
    pub prefill_slowdown: f64,
    /// Seed of jitter.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            like: "inf2.48xlarge".to_owned(),
            model: "Llama-3-8B".to_owned(),
            step_model: Times::Table,
            step_records: None,
            weight_type: None,
            accelerator: None,
            chips: None,
            slots: 8,
            max_len: 4096,
            output_tokens_median: 160,
            prefill_slowdown: 1.0,
            seed: 1,
        }
    }
}

impl Config {
    /// Adds one line for every rule broken.
    pub fn validate(&self, faults: &mut Vec<String>) {
        within("node.engine.sim.prefill_slowdown", self.prefill_slowdown, SLOWDOWN_MIN..=SLOWDOWN_MAX, faults);
        within("node.engine.sim.slots", self.slots, 1..=SLOTS_MAX, faults);
        within("node.engine.sim.max_len", self.max_len, 128..=LEN_MAX, faults);
        if self.step_model == Times::Replay && self.step_records.is_none() {
            faults.push("node.engine.sim.step_records must name a file where step_model is replay".to_owned());
        }
        within("node.engine.sim.output_tokens_median", self.output_tokens_median, 1..=LEN_MAX, faults);
    }
}

/// Least and most that prefill can be slowed down; below 1 it is faster.
const SLOWDOWN_MIN: f64 = 0.001;
const SLOWDOWN_MAX: f64 = 10_000.0;

/// Spread of answer lengths: standard deviation of their natural logarithm.
const LENGTH_SIGMA: f64 = 0.6;

/// The simulated engine.
pub struct Sim {
    config: Config,
    description: EngineDescription,
    model: StepModel,
    jitter: StdRng,
    sequences: HashMap<SeqId, Sequence>,
}

struct Sequence {
    writer: text::Writer,
    produced: u32,
    /// The end-of-sequence token comes as this output token; `None` goes on.
    ends_at: Option<u32>,
}

impl Sim {
    /// Fits the step times.
    ///
    /// # Errors
    /// [`EngineError::Load`] if no rows are published for this model and machine, or the records cannot be read.
    pub fn load(config: &Config) -> Result<Self, EngineError> {
        let model = times(config)?;
        let calibration = model.calibration();
        let machine = step::hardware(&config.like);
        let mut note = calibration.note();
        if config.accelerator.is_some() {
            note.push_str(&format!(", step times of {}", config.like));
        }
        let compiled = machine.is_none_or(|machine| machine.family == Family::Neuron);
        let description = EngineDescription {
            engine: "sim".to_owned(),
            model: config.model.clone(),
            quantization: Some(calibration.weight_type.clone()),
            tensor_parallel: Some(calibration.tensor_parallel),
            accelerator: config.accelerator.clone().or(machine.map(|machine| machine.accelerator.to_owned())),
            chips: config.chips.or(Some(calibration.chips)),
            slots: config.slots.max(1),
            max_len: config.max_len.max(2),
            prompt_max: config.max_len.max(2),
            policy: if compiled { Policy::NeuronSlots } else { Policy::TokenBudget },
            prefix_cache: true,
            calibration_error: Some(calibration.mean_error_percent() / 100.0),
            likelihoods: false,
            simulated: Some(note),
        };
        let jitter = StdRng::seed_from_u64(config.seed);
        Ok(Self { config: config.clone(), description, model, jitter, sequences: HashMap::new() })
    }

    /// The chips it stands for.
    pub fn devices(&self) -> Option<Devices> {
        let known = step::hardware(&self.config.like).filter(|_| self.config.accelerator.is_none());
        Some(Devices {
            count: self.description.chips?,
            name: if known.is_some_and(|machine| machine.family == Family::Neuron) { "neuron" } else { "chip" },
            first: 0,
            vendor: known.map_or("unknown", |machine| machine.vendor).to_owned(),
            model: self.description.accelerator.clone()?,
            memory_total_bytes: known.map(|machine| machine.memory_bytes),
            memory_used_bytes: known.and_then(|_| self.memory_used()),
        })
    }

    /// Memory of one chip that weights and the KV cache of every slot take: fixed, since it is laid out at the start.
    fn memory_used(&self) -> Option<u64> {
        let about = &self.description;
        let model = Architecture::of(&about.model)?;
        let weights = model.weight_bytes(about.quantization.as_deref().unwrap_or("bf16"));
        let token = model.token_bytes(about.tensor_parallel.unwrap_or(1));
        let cache = token * f64::from(about.slots) * f64::from(about.max_len);
        Some(((weights + cache) / f64::from(about.chips?)) as u64)
    }

    /// Prompts are padded to their bucket, where there are buckets.
    fn shape(plan: &StepPlan) -> StepShape {
        let prefill: Vec<&Work> = plan.work.iter().filter(|work| work.phase == Phase::Prefill).collect();
        let decoders = u32::try_from(plan.work.len() - prefill.len()).unwrap_or(u32::MAX);
        StepShape {
            prefill_tokens: prefill.iter().map(|work| work.tokens).sum::<u32>()
                + if decoders == 0 { plan.padding } else { 0 },
            decode_slots: if plan.kind == StepKind::Decode { plan.compiled } else { decoders },
            context: if decoders == 0 { 0 } else { bucket(plan.bucket, u32::MAX) },
        }
    }

    /// Weights of the work items and of the padding, in nanoseconds of the model.
    fn weights(plan: &StepPlan, shape: StepShape, parts: StepParts) -> (Vec<u64>, u64) {
        let prefill_tokens: u64 =
            plan.work.iter().filter(|work| work.phase == Phase::Prefill).map(|work| u64::from(work.tokens)).sum();
        let per_slot = parts.decode_ns / u64::from(shape.decode_slots.max(1));
        let mut decoders = 0;
        let weights = plan.work.iter().map(|work| match work.phase {
            Phase::Prefill => parts.prefill_ns * u64::from(work.tokens) / prefill_tokens.max(1),
            Phase::Decode => {
                decoders += 1;
                per_slot
            }
        });
        let weights = weights.collect();
        (weights, per_slot * u64::from(shape.decode_slots.saturating_sub(decoders)))
    }

    /// A factor around 1 with the spread of the published rows.
    fn jitter(&mut self) -> f64 {
        (self.model.jitter_sigma() * text::normal(&mut self.jitter)).exp()
    }

    fn next_token(&mut self, seq: SeqId) -> Result<NewToken, EngineError> {
        let sequence = self
            .sequences
            .get_mut(&seq)
            .ok_or_else(|| EngineError::Step { reason: format!("sequence {} is not open", seq.0) })?;
        sequence.produced += 1;
        let end = sequence.ends_at.is_some_and(|at| sequence.produced >= at);
        let token = if end { text::END } else { sequence.writer.next_token() };
        Ok(NewToken { seq, token, end, likelihoods: None })
    }
}

/// The step times that the settings ask for.
fn times(config: &Config) -> Result<StepModel, EngineError> {
    let load = |reason: String| EngineError::Load { reason };
    let target = Target {
        hardware: &config.like,
        model: &config.model,
        chips: config.chips.filter(|_| config.accelerator.is_none()),
        weight_type: config.weight_type.as_deref(),
    };
    let model = match config.step_model {
        Times::Table => StepModel::table(&target),
        Times::Roofline => StepModel::roofline(&target),
        Times::Replay => {
            let path = config.step_records.clone().unwrap_or_default();
            let text = std::fs::read_to_string(&path).map_err(|error| load(format!("{}: {error}", path.display())))?;
            step::timed_steps(&text).and_then(|steps| StepModel::replay(&steps, &config.model))
        }
    };
    model.map_err(|error| load(error.to_string()))
}

impl Engine for Sim {
    fn describe(&self) -> &EngineDescription {
        &self.description
    }

    fn text(&self) -> Arc<dyn Text> {
        Arc::new(text::Words)
    }

    fn open(&mut self, seq: SeqId, input: SequenceInput) -> Result<(), EngineError> {
        let mut rng = StdRng::seed_from_u64(input.sampling.seed);
        let length = f64::from(self.config.output_tokens_median) * (LENGTH_SIGMA * text::normal(&mut rng)).exp();
        let ends_at = (!input.sampling.ignore_eos).then_some(length.clamp(2.0, 1e6) as u32);
        let writer = text::Writer::new(rng.random());
        self.sequences.insert(seq, Sequence { writer, produced: 0, ends_at });
        Ok(())
    }

    fn step(&mut self, plan: &StepPlan) -> Result<StepResult, EngineError> {
        let mut tokens = Vec::with_capacity(plan.work.len());
        for work in plan.work.iter().filter(|work| work.yields) {
            tokens.push(self.next_token(work.seq)?);
        }
        let shape = Self::shape(plan);
        let mut parts = self.model.time(shape);
        let load = self.model.load(shape);
        parts.prefill_ns = (parts.prefill_ns as f64 * self.config.prefill_slowdown) as u64;
        let (weights, padding_weight) = Self::weights(plan, shape, parts);
        let device = Duration::from_nanos((parts.total_ns() as f64 * self.jitter()) as u64);
        // The published times were taken around the whole call: host time is inside them.
        let time = StepTime::Modelled { device, host: Duration::ZERO, load };
        Ok(StepResult { tokens, failed: Vec::new(), time, weights, padding_weight })
    }

    fn close(&mut self, seq: SeqId) {
        self.sequences.remove(&seq);
    }
}

#[cfg(test)]
mod tests;
