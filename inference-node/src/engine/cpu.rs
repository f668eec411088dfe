//! A real Llama-family model on the CPU, loaded from GGUF or from safetensors.
//!
//! ```text
//! gguf, safetensors -> checkpoint -> matrix, model   (weights and the forward pass)
//! tokenizer, chat                                    (text in)
//! step: rows of all work -> model.forward -> sample -> tokens
//! tokenizer::Decoder                                 (text out)
//! ```
//!
//! All work of a step goes through the model in one pass. candle spreads the matrix products over the threads that the
//! environment variable `CANDLE_NUM_THREADS` allows (default: all cores; 1 is best on a machine that does other work too).

mod chat;
mod checkpoint;
mod gguf;
mod kv;
mod matrix;
mod model;
mod packed;
mod safetensors;
mod sample;
mod tokenizer;
mod vector;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use service::config::range::within;

use self::chat::Template;
use self::checkpoint::Checkpoint;
use self::gguf::Fault;
use self::kv::{Kv, Pool};
pub use self::matrix::Weights;
use self::model::{Llama, Row};
use self::sample::Sampler;
use self::tokenizer::Vocabulary;
use super::{
    ChatMessage, Engine, EngineDescription, EngineError, LEN_MAX, Likelihood, Likelihoods, NewToken, SLOTS_MAX, SeqId,
    SequenceInput, StepResult, StepTime, Text, TokenDecoder,
};
use crate::schedule::{Policy, StepPlan};

/// Settings of the `cpu` engine.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Path of the GGUF file, or of a directory with `config.json`, safetensors and `tokenizer.json`.
    pub model_path: PathBuf,
    /// Model name that clients send; `None` takes the one in the file.
    pub model: Option<String>,
    /// Sequences held at once.
    pub slots: u32,
    /// Longest sequence in tokens, at most what the model was trained for.
    pub max_len: u32,
    /// How weights are kept: `auto`, `packed` (4 or 8 bit, as the file has them) or `f32`.
    pub weights: Weights,
}

impl Config {
    /// Adds one line for every rule broken.
    pub fn validate(&self, faults: &mut Vec<String>) {
        within("node.engine.cpu.slots", self.slots, 1..=SLOTS_MAX, faults);
        within("node.engine.cpu.max_len", self.max_len, 2..=LEN_MAX, faults);
    }
}

impl Default for Config {
    fn default() -> Self {
        Self { model_path: PathBuf::new(), model: None, slots: 4, max_len: 2048, weights: Weights::Auto }
    }
}

/// Loads the model.
///
/// # Errors
/// [`EngineError::Load`] if the file cannot be read or is of another family.
pub fn build(config: &Config) -> Result<Box<dyn Engine>, EngineError> {
    let engine = Cpu::load(config).map_err(|fault| EngineError::Load { reason: fault.to_string() })?;
    Ok(Box::new(engine))
}

/// Threads that the matrix products are spread over: `CANDLE_NUM_THREADS`, else `RAYON_NUM_THREADS`, else all cores, as candle has it.
pub fn threads() -> usize {
    let named = std::env::var("CANDLE_NUM_THREADS").ok().and_then(|text| text.parse().ok());
    named.filter(|threads| *threads > 0).unwrap_or_else(candle_core::utils::get_num_threads)
}

struct Cpu {
    description: EngineDescription,
    language: Arc<Language>,
    model: Llama,
    sequences: HashMap<SeqId, Sequence>,
    pool: Pool,
}

/// Rows of a step, and the sequences that they belong to.
type Taken = (Vec<Row>, Vec<(SeqId, Sequence)>);
/// New tokens, and who cannot go on and why.
type Picked = (Vec<NewToken>, Vec<(SeqId, String)>);

struct Sequence {
    /// Prompt, then what was generated.
    tokens: Vec<u32>,
    cache: Kv,
    sampler: Sampler,
}

struct Language {
    vocabulary: Vocabulary,
    template: Template,
}

impl Cpu {
    fn load(config: &Config) -> Result<Self, Fault> {
        let mut file = Checkpoint::open(&config.model_path)?;
        let language = Language { vocabulary: Vocabulary::load(&file)?, template: Template::load(&file)? };
        let model = Llama::load(&mut file, config.weights)?;
        if language.vocabulary.len() > model.vocabulary() {
            return Err(file.fault("has more tokens than embeddings".to_owned()));
        }
        let trained = u32::try_from(model.shape().context).unwrap_or(u32::MAX);
        let name = config.model.clone().or_else(|| file.name().map(str::to_owned));
        let description = EngineDescription {
            engine: "cpu".to_owned(),
            model: name.unwrap_or_else(|| "llama".to_owned()),
            quantization: Some(model.form().to_owned()),
            tensor_parallel: None,
            accelerator: None,
            chips: None,
            slots: config.slots.max(1),
            max_len: config.max_len.clamp(2, trained.max(2)),
            prompt_max: config.max_len.clamp(2, trained.max(2)),
            policy: Policy::TokenBudget,
            prefix_cache: false,
            calibration_error: None,
            likelihoods: true,
            simulated: None,
        };
        Ok(Self { description, language: Arc::new(language), model, sequences: HashMap::new(), pool: Pool::default() })
    }

    /// The tokens that the plan runs, in plan order, and the sequences they belong to, out of the map so that the model can
    /// write to their caches.
    fn take(&mut self, plan: &StepPlan) -> Result<Taken, EngineError> {
        let (mut rows, mut taken) = (Vec::new(), Vec::new());
        for work in &plan.work {
            let (from, to) = (work.start as usize, work.start as usize + work.tokens as usize);
            let sound = match self.sequences.get(&work.seq) {
                Some(sequence) => from <= sequence.cache.len() && from < to && to <= sequence.tokens.len(),
                None => false,
            };
            let Some(mut sequence) = sound.then(|| self.sequences.remove(&work.seq)).flatten() else {
                self.sequences.extend(taken);
                return Err(EngineError::Step { reason: format!("plan does not fit sequence {}", work.seq.0) });
            };
            sequence.cache.truncate(from, &mut self.pool);
            sequence.cache.reserve(to, &mut self.pool);
            for at in from..to {
                let sample = work.yields && at + 1 == to;
                rows.push(Row { token: sequence.tokens[at], sequence: taken.len(), sample });
            }
            taken.push((work.seq, sequence));
        }
        Ok((rows, taken))
    }

    /// Runs the rows and picks a token for every sequence that yields one. A sequence of whose logits none is a number fails, and
    /// no other with it.
    fn run(&self, plan: &StepPlan, rows: &[Row], taken: &mut [(SeqId, Sequence)]) -> Result<Picked, EngineError> {
        let mut caches: Vec<&mut Kv> = taken.iter_mut().map(|(_, sequence)| &mut sequence.cache).collect();
        let logits = self.model.forward(rows, &mut caches);
        let logits = logits.map_err(|error| EngineError::Step { reason: error.to_string() })?;
        let (mut tokens, mut failed) = (Vec::with_capacity(logits.len()), Vec::new());
        let yielding = plan.work.iter().zip(taken).filter(|(work, _)| work.yields);
        for ((work, (_, sequence)), logits) in yielding.zip(&logits) {
            let logits = &logits[..self.language.vocabulary.len()];
            let Some(token) = sequence.sampler.pick(logits) else {
                failed.push((work.seq, NO_NUMBER.to_owned()));
                continue;
            };
            sequence.tokens.push(token);
            let end = !sequence.sampler.rules().ignore_eos && self.language.vocabulary.is_end(token);
            let likelihoods = sequence.sampler.rules().likelihoods.filter(|_| !end);
            let likelihoods = likelihoods.map(|count| Box::new(self.language.likelihoods(logits, token, count)));
            tokens.push(NewToken { seq: work.seq, token, end, likelihoods });
        }
        Ok((tokens, failed))
    }
}

/// Why a sequence fails whose activations or weights are no numbers any more.
const NO_NUMBER: &str = "the model's numbers overflowed: none of its logits is a number";

impl Engine for Cpu {
    fn describe(&self) -> &EngineDescription {
        &self.description
    }

    fn text(&self) -> Arc<dyn Text> {
        Arc::clone(&self.language) as Arc<dyn Text>
    }

    fn open(&mut self, seq: SeqId, input: SequenceInput) -> Result<(), EngineError> {
        let (length, limit) = (input.prompt.len(), self.description.max_len as usize);
        if length == 0 || length >= limit {
            return Err(EngineError::Input {
                reason: format!("prompt has {length} tokens, the model takes 1 to {}", limit - 1),
            });
        }
        if let Some(id) = input.prompt.iter().find(|id| **id as usize >= self.model.vocabulary()) {
            return Err(EngineError::Input { reason: format!("token {id} is not in the vocabulary") });
        }
        let sequence = Sequence {
            tokens: input.prompt.to_vec(),
            cache: Kv::new(self.model.shape()),
            sampler: Sampler::new(input.sampling, &input.prompt),
        };
        self.sequences.insert(seq, sequence);
        Ok(())
    }

    fn step(&mut self, plan: &StepPlan) -> Result<StepResult, EngineError> {
        let started = Instant::now();
        for preempted in &plan.preempted {
            if let Some(sequence) = self.sequences.get_mut(&preempted.seq) {
                sequence.cache.truncate(0, &mut self.pool);
            }
        }
        let (rows, mut taken) = self.take(plan)?;
        let ran = self.run(plan, &rows, &mut taken);
        self.sequences.extend(taken);
        let (tokens, failed) = ran?;
        Ok(StepResult {
            tokens,
            failed,
            time: StepTime::Measured { device: started.elapsed(), load: None },
            // Every token takes the same products; what attention adds for a longer past is small beside them.
            weights: plan.work.iter().map(|work| u64::from(work.tokens)).collect(),
            padding_weight: 0,
        })
    }

    fn close(&mut self, seq: SeqId) {
        if let Some(mut sequence) = self.sequences.remove(&seq) {
            sequence.cache.truncate(0, &mut self.pool);
        }
    }
}

impl Language {
    fn likelihoods(&self, logits: &[f32], picked: u32, count: u32) -> Likelihoods {
        let (ln, likeliest) = sample::likeliest(logits, picked, count);
        let named = |token, ln| Likelihood { bytes: self.vocabulary.piece(token), ln };
        let likeliest = likeliest.into_iter().map(|(token, ln)| named(token, ln)).collect();
        Likelihoods { picked: named(picked, ln), likeliest }
    }
}

impl Text for Language {
    fn tokenize(&self, prompt: &str) -> Result<Vec<u32>, EngineError> {
        self.vocabulary.encode(prompt)
    }

    fn tokens_min(&self, prompt: &str) -> usize {
        self.vocabulary.tokens_min(prompt)
    }

    fn chat_prompt(&self, messages: &[ChatMessage]) -> Result<String, EngineError> {
        let plain = self.vocabulary.plain();
        let hide = |message: &ChatMessage| ChatMessage {
            role: plain.hide(&message.role),
            content: plain.hide(&message.content),
        };
        self.template.render(&messages.iter().map(hide).collect::<Vec<_>>())
    }

    fn decoder(&self) -> Box<dyn TokenDecoder> {
        Box::new(self.vocabulary.decoder())
    }
}

#[cfg(test)]
mod tests;
