//! A model compiled for AWS Neuron devices (Inf2, Trn1), run through libnrt.
//!
//! ```text
//! neuron.json -> manifest        which graphs, for which buckets, over how many cores
//! libnrt.so   -> ffi             opened at run time; the only unsafe code
//! plan -> graph (smallest bucket) -> gang -> rank 0..n (write, execute, read) -> tokens
//! ```
//!
//! Slots are compiled: row `i` of a decode graph is slot `i`, whoever holds it, and empty rows are computed too. Tokens are
//! picked on the device. It has never met a device: it is proven against a library of the same interface that the tests build,
//! which checks the order of calls, their arguments, and that everything is given back.

mod ffi;
mod gang;
mod language;
mod manifest;
mod neff;
mod rank;
mod status;
mod weights;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use service::config::range::span;

use self::gang::{Gang, Plan};
use self::language::Language;
use self::manifest::{Manifest, Phase};
use self::rank::{Feed, Order};
use super::{
    Devices, Engine, EngineDescription, EngineError, NewToken, Sampling, SeqId, SequenceInput, StepResult, StepTime,
    Text,
};
use crate::schedule::{Policy, StepKind, StepPlan};

/// Settings of the `neuron` engine.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Folder of the compiled model: `neuron.json`, the graphs, the weights, the tokeniser.
    pub model_dir: PathBuf,
    /// The runtime's library.
    pub library: PathBuf,
    /// First NeuronCore of the replica; it takes as many from there on as its tensor parallel degree.
    pub first_core: u32,
    /// Longest time that loading may take, weights included.
    #[serde(with = "service::config::duration")]
    pub load_timeout: Duration,
    /// Longest time that a step may take; after it the device counts as lost.
    #[serde(with = "service::config::duration")]
    pub step_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model_dir: PathBuf::new(),
            library: PathBuf::from("/opt/aws/neuron/lib/libnrt.so.1"),
            first_core: 0,
            load_timeout: Duration::from_secs(30 * 60),
            step_timeout: Duration::from_secs(60),
        }
    }
}

impl Config {
    /// Adds one line for every rule broken.
    pub fn validate(&self, faults: &mut Vec<String>) {
        for (name, value) in [("load_timeout", self.load_timeout), ("step_timeout", self.step_timeout)] {
            let name = format!("node.engine.neuron.{name}");
            span(&name, value, Duration::from_millis(1)..=Duration::from_secs(86_400), faults);
        }
    }
}

/// NeuronCores of a chip, of both families that the engine knows (NeuronCore v2).
const CORES_PER_CHIP: u32 = 2;

/// The engine.
pub struct Neuron {
    config: Config,
    manifest: Arc<Manifest>,
    language: Arc<Language>,
    description: EngineDescription,
    /// `None` between the loss of the device and its return.
    gang: Option<Gang>,
    sequences: HashMap<SeqId, Sequence>,
    pace: Pace,
}

/// The highest rate at which positions were computed so far, positions a second.
#[derive(Default)]
struct Pace {
    best: f64,
}

impl Pace {
    /// Rate of a step as a share of the highest, above 0 to 1: how hard the tensor engines worked, since they do the same work for
    /// every position of a graph, whether somebody holds it or not. The first prompt of an engine counts as all that it can, so
    /// until a longer one has come it says too much rather than too little.
    fn load(&mut self, positions: usize, device: Duration) -> Option<f64> {
        let rate = positions as f64 / device.as_secs_f64();
        let known = rate.is_finite() && rate > 0.0;
        known.then(|| {
            self.best = self.best.max(rate);
            rate / self.best
        })
    }
}

struct Sequence {
    /// Prompt, then what was generated.
    tokens: Vec<u32>,
    sampling: Sampling,
}

impl Neuron {
    /// Opens the runtime and loads the model.
    ///
    /// # Errors
    /// [`EngineError::Load`] with what is missing: library, device, cores, a graph, weights.
    pub fn load(config: &Config) -> Result<Self, EngineError> {
        let failed = |reason| EngineError::Load { reason };
        let manifest = Arc::new(Manifest::load(&config.model_dir).map_err(failed)?);
        let language = Language::load(&config.model_dir, manifest.end_tokens.clone()).map_err(failed)?;
        let gang = Gang::load(&plan(config), &manifest).map_err(failed)?;
        let accelerator = match gang.machine().family {
            2 | 3 => Some("trainium1"),
            4 => Some("inferentia2"),
            _ => None,
        };
        let description = EngineDescription {
            engine: "neuron".to_owned(),
            model: manifest.name.clone(),
            quantization: Some(manifest.weights.name().to_owned()),
            tensor_parallel: Some(manifest.tensor_parallel),
            accelerator: accelerator.map(str::to_owned),
            chips: accelerator.map(|_| manifest.tensor_parallel.div_ceil(CORES_PER_CHIP)),
            slots: manifest.slots,
            max_len: manifest.max_len(),
            prompt_max: manifest.prompt_max().min(manifest.max_len()),
            policy: Policy::NeuronSlots,
            prefix_cache: false,
            calibration_error: None,
            likelihoods: false,
            simulated: None,
        };
        Ok(Self {
            config: config.clone(),
            manifest,
            language: Arc::new(language),
            description,
            gang: Some(gang),
            sequences: HashMap::new(),
            pace: Pace::default(),
        })
    }

    /// The chips it runs on; `None` where the family is unknown.
    pub fn devices(&self) -> Option<Devices> {
        let count = self.description.chips?;
        let memory = self.gang.as_ref().and_then(|gang| gang.memory(self.config.first_core));
        let share = |bytes: u64| bytes / u64::from(count.max(1));
        Some(Devices {
            count,
            name: "neuron",
            first: self.config.first_core / CORES_PER_CHIP,
            vendor: "AWS".to_owned(),
            model: self.description.accelerator.clone()?,
            memory_total_bytes: memory.map(|(_, limit)| share(limit)),
            memory_used_bytes: memory.map(|(used, _)| share(used)),
        })
    }

    /// What the graph is given: the prompt padded to its bucket, or one row for each compiled slot.
    fn feed(&self, plan: &StepPlan, graph: usize) -> Result<Feed, String> {
        let length = self.manifest.graphs.get(graph).map_or(0, |graph| graph.length as usize);
        let (mut feed, rows, columns) = match plan.kind {
            StepKind::Prefill => (Feed::empty(1, length, length), 1, length),
            _ => (Feed::empty(self.manifest.slots as usize, 1, length), self.manifest.slots as usize, 1),
        };
        for work in &plan.work {
            let sequence =
                self.sequences.get(&work.seq).ok_or_else(|| format!("sequence {} is not open", work.seq.0))?;
            let row = if plan.kind == StepKind::Prefill { 0 } else { work.slot as usize };
            let (from, to) = (work.start as usize, work.start as usize + work.tokens as usize);
            let tokens = sequence.tokens.get(from..to).filter(|tokens| tokens.len() <= columns && row < rows);
            let tokens = tokens.ok_or_else(|| format!("the plan does not fit sequence {}", work.seq.0))?;
            for (at, token) in tokens.iter().enumerate() {
                feed.tokens[row * columns + at] = i64::from(*token);
                feed.positions[row * columns + at] = i64::from(work.start) + at as i64;
            }
            feed.mask[row * length..row * length + to].fill(1);
            feed.slots[row] = i64::from(work.slot);
            feed.sample(row, &sequence.sampling);
        }
        Ok(feed)
    }

    /// Puts the new tokens into their sequences.
    fn take(&mut self, plan: &StepPlan, picked: &[i64]) -> Result<Vec<NewToken>, String> {
        let mut tokens = Vec::with_capacity(plan.work.len());
        for work in &plan.work {
            let row = if plan.kind == StepKind::Prefill { 0 } else { work.slot as usize };
            let token = picked.get(row).and_then(|token| u32::try_from(*token).ok());
            let known = token.filter(|token| (*token as usize) < self.language.len());
            let token = known.ok_or("the device gave a token that is not in the vocabulary")?;
            let Some(sequence) = self.sequences.get_mut(&work.seq) else { continue };
            sequence.tokens.push(token);
            let end = !sequence.sampling.ignore_eos && self.language.is_end(token);
            tokens.push(NewToken { seq: work.seq, token, end, likelihoods: None });
        }
        Ok(tokens)
    }
}

impl Feed {
    /// Rows that nobody uses: each its own slot, token 0 at position 0, which the next prompt of the slot overwrites.
    fn empty(rows: usize, columns: usize, length: usize) -> Self {
        let mut feed = Self {
            tokens: vec![0; rows * columns],
            positions: vec![0; rows * columns],
            mask: vec![0; rows * length],
            slots: (0..rows as i64).collect(),
            sampling: Vec::with_capacity(rows * 3),
        };
        for row in 0..rows {
            // A row without any visible position would divide by 0.
            feed.mask[row * length] = 1;
            feed.sampling.extend(GREEDY);
        }
        feed
    }

    fn sample(&mut self, row: usize, sampling: &Sampling) {
        let values = match sampling.temperature {
            temperature if temperature > 0.0 => [sampling.top_k as f32, sampling.top_p, temperature],
            _ => GREEDY,
        };
        self.sampling[row * 3..row * 3 + 3].copy_from_slice(&values);
    }
}

/// What the device cannot do when it picks a token.
fn penalties(sampling: &Sampling) -> [f32; 4] {
    [sampling.min_p, sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty]
}

/// Top-k 1 picks the likeliest token.
const GREEDY: [f32; 3] = [1.0, 1.0, 1.0];

fn plan(config: &Config) -> Plan<'_> {
    Plan {
        library: &config.library,
        folder: &config.model_dir,
        first_core: config.first_core,
        load_patience: config.load_timeout,
        step_patience: config.step_timeout,
    }
}

impl Engine for Neuron {
    fn describe(&self) -> &EngineDescription {
        &self.description
    }

    fn text(&self) -> Arc<dyn Text> {
        Arc::clone(&self.language) as Arc<dyn Text>
    }

    fn open(&mut self, seq: SeqId, input: SequenceInput) -> Result<(), EngineError> {
        let (length, most) = (input.prompt.len(), self.description.prompt_max as usize);
        if length == 0 || length > most {
            let reason = format!("prompt has {length} tokens, the compiled graphs take 1 to {most}");
            return Err(EngineError::Input { reason });
        }
        if input.sampling.temperature > 0.0 && self.gang.as_ref().is_some_and(|gang| !gang.samples()) {
            let reason = "the model was compiled for greedy decoding; set temperature to 0".to_owned();
            return Err(EngineError::Input { reason });
        }
        if penalties(&input.sampling) != penalties(&Sampling::default()) {
            let reason = "the compiled graphs pick by temperature, top_p and top_k alone".to_owned();
            return Err(EngineError::Input { reason });
        }
        if let Some(id) = input.prompt.iter().find(|id| **id as usize >= self.language.len()) {
            return Err(EngineError::Input { reason: format!("token {id} is not in the vocabulary") });
        }
        self.sequences.insert(seq, Sequence { tokens: input.prompt.to_vec(), sampling: input.sampling });
        Ok(())
    }

    fn step(&mut self, plan: &StepPlan) -> Result<StepResult, EngineError> {
        let failed = |reason| EngineError::Step { reason };
        let graph = self.manifest.graph(plan).map_err(failed)?;
        let feed = self.feed(plan, graph).map_err(failed)?;
        let positions = feed.tokens.len();
        let Some(gang) = &self.gang else {
            return Err(EngineError::Lost { reason: "it has not come back".to_owned() });
        };
        let done = match gang.run(Order { graph, feed }) {
            Ok(done) => done,
            Err(failure) if failure.is_loss => {
                self.sequences.clear();
                return Err(EngineError::Lost { reason: failure.reason });
            }
            Err(failure) => return Err(EngineError::Step { reason: failure.reason }),
        };
        let tokens = self.take(plan, &done.tokens).map_err(failed)?;
        let empty = match self.manifest.graphs.get(graph).map(|graph| graph.phase) {
            Some(Phase::Decode) => u64::from(self.manifest.slots) - plan.work.len() as u64,
            _ => 0,
        };
        Ok(StepResult {
            tokens,
            failed: Vec::new(),
            time: StepTime::Measured { device: done.device, load: self.pace.load(positions, done.device) },
            // A decode graph takes as long for every row, whether somebody holds its slot or not.
            weights: vec![1; plan.work.len()],
            padding_weight: empty,
        })
    }

    fn close(&mut self, seq: SeqId) {
        self.sequences.remove(&seq);
    }

    fn recover(&mut self) -> Result<(), EngineError> {
        self.sequences.clear();
        // Unloads, frees and closes first: a runtime is initialised once.
        if self.gang.take().is_some_and(|gang| !gang.leave()) {
            let reason = "a NeuronCore hangs and still holds the runtime; only a new process is free of it".to_owned();
            return Err(EngineError::Load { reason });
        }
        let gang = Gang::load(&plan(&self.config), &self.manifest);
        self.gang = Some(gang.map_err(|reason| EngineError::Load { reason })?);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
