//! A real Llama-family model on the CPU, loaded from GGUF.
//!
//! ```text
//! gguf -> matrix, model          (weights and the forward pass)
//! tokenizer, chat                (text in)
//! step: rows of all work -> model.forward -> sample -> tokens
//! tokenizer::Decoder             (text out)
//! ```
//!
//! All work of a step goes through the model in one pass. candle spreads the matrix products over the threads that the
//! environment variable `CANDLE_NUM_THREADS` allows (default: all cores; 1 is best on a machine that does other work too).

mod chat;
mod gguf;
mod kv;
mod matrix;
mod model;
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
use self::gguf::{Fault, Gguf};
use self::kv::Kv;
use self::model::{Llama, Row};
use self::sample::Sampler;
use self::tokenizer::Vocabulary;
use super::{
    ChatMessage, Engine, EngineDescription, EngineError, LEN_MAX, NewToken, SLOTS_MAX, SeqId, SequenceInput,
    StepResult, StepTime, Text, TokenDecoder,
};
use crate::schedule::{Policy, StepPlan};

/// Settings of the `cpu` engine.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Path of the GGUF file.
    pub model_path: PathBuf,
    /// Model name that clients send; `None` takes the one in the file.
    pub model: Option<String>,
    /// Sequences held at once.
    pub slots: u32,
    /// Longest sequence in tokens, at most what the model was trained for.
    pub max_len: u32,
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
        Self { model_path: PathBuf::new(), model: None, slots: 4, max_len: 2048 }
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

struct Cpu {
    description: EngineDescription,
    language: Arc<Language>,
    model: Llama,
    sequences: HashMap<SeqId, Sequence>,
}

/// Rows of a step, and the sequences that they belong to.
type Taken = (Vec<Row>, Vec<(SeqId, Sequence)>);

struct Sequence {
    /// Prompt, then what was generated.
    tokens: Vec<u32>,
    cache: Kv,
    sampler: Sampler,
    ignore_eos: bool,
}

struct Language {
    vocabulary: Vocabulary,
    template: Template,
}

impl Cpu {
    fn load(config: &Config) -> Result<Self, Fault> {
        let mut file = Gguf::open(&config.model_path)?;
        let language = Language { vocabulary: Vocabulary::load(&file)?, template: Template::load(&file)? };
        let model = Llama::load(&mut file)?;
        if language.vocabulary.len() > model.vocabulary() {
            return Err(file.fault("has more tokens than embeddings".to_owned()));
        }
        let trained = u32::try_from(model.shape().context).unwrap_or(u32::MAX);
        let name = config.model.clone().or_else(|| file.name().map(str::to_owned));
        let description = EngineDescription {
            engine: "cpu".to_owned(),
            model: name.unwrap_or_else(|| "llama".to_owned()),
            quantization: Some(if matrix::eight_bit_is_fast() { "q8_0" } else { "f32" }.to_owned()),
            tensor_parallel: None,
            accelerator: None,
            chips: None,
            slots: config.slots.max(1),
            max_len: config.max_len.clamp(2, trained.max(2)),
            policy: Policy::TokenBudget,
            prefix_cache: false,
            calibration_error: None,
            simulated: None,
        };
        Ok(Self { description, language: Arc::new(language), model, sequences: HashMap::new() })
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
            sequence.cache.truncate(from);
            for at in from..to {
                let sample = work.yields && at + 1 == to;
                rows.push(Row { token: sequence.tokens[at], sequence: taken.len(), sample });
            }
            taken.push((work.seq, sequence));
        }
        Ok((rows, taken))
    }

    /// Runs the rows and picks a token for every sequence that yields one.
    fn run(
        &self,
        plan: &StepPlan,
        rows: &[Row],
        taken: &mut [(SeqId, Sequence)],
    ) -> Result<Vec<NewToken>, EngineError> {
        let mut caches: Vec<&mut Kv> = taken.iter_mut().map(|(_, sequence)| &mut sequence.cache).collect();
        let logits = self.model.forward(rows, &mut caches);
        let logits = logits.map_err(|error| EngineError::Step { reason: error.to_string() })?;
        let mut tokens = Vec::with_capacity(logits.len());
        let yielding = plan.work.iter().zip(taken).filter(|(work, _)| work.yields);
        for ((work, (_, sequence)), logits) in yielding.zip(&logits) {
            let picked = sequence.sampler.pick(&logits[..self.language.vocabulary.len()]);
            let token = picked.ok_or_else(|| EngineError::Step { reason: "the model gave no number".to_owned() })?;
            sequence.tokens.push(token);
            let end = !sequence.ignore_eos && self.language.vocabulary.is_end(token);
            tokens.push(NewToken { seq: work.seq, token, end });
        }
        Ok(tokens)
    }
}

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
            ignore_eos: input.sampling.ignore_eos,
            sampler: Sampler::new(input.sampling),
        };
        self.sequences.insert(seq, sequence);
        Ok(())
    }

    fn step(&mut self, plan: &StepPlan) -> Result<StepResult, EngineError> {
        let started = Instant::now();
        for preempted in &plan.preempted {
            if let Some(sequence) = self.sequences.get_mut(&preempted.seq) {
                sequence.cache.clear();
            }
        }
        let (rows, mut taken) = self.take(plan)?;
        let tokens = self.run(plan, &rows, &mut taken);
        self.sequences.extend(taken);
        Ok(StepResult {
            tokens: tokens?,
            time: StepTime::Measured { device: started.elapsed() },
            // Every token takes the same products; what attention adds for a longer past is small beside them.
            weights: plan.work.iter().map(|work| u64::from(work.tokens)).collect(),
            padding_weight: 0,
        })
    }

    fn close(&mut self, seq: SeqId) {
        self.sequences.remove(&seq);
    }
}

impl Text for Language {
    fn tokenize(&self, prompt: &str) -> Result<Vec<u32>, EngineError> {
        self.vocabulary.encode(prompt)
    }

    fn chat_prompt(&self, messages: &[ChatMessage]) -> Result<String, EngineError> {
        self.template.render(messages)
    }

    fn decoder(&self) -> Box<dyn TokenDecoder> {
        Box::new(self.vocabulary.decoder())
    }
}

#[cfg(test)]
mod tests;
