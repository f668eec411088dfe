//! The seam between the node and whatever computes tokens.
//!
//! ```text
//! queue -> schedule (plan) -> engine (step) -> stream, record
//! ```
//!
//! An engine knows the model: it tokenises, keeps the state of every open sequence, and carries
//! out the step plans of the scheduler. It decides nothing about order, batching or admission.
//! One thread owns the engine and calls `open`, `step`, `close`; [`Text`] is shared with the
//! request handlers.

mod config;
pub mod cpu;
pub mod neuron;
mod least;
mod plain;
pub mod sim;

pub use config::{Config, EngineKind};

use std::sync::Arc;
use std::time::Duration;

use crate::schedule::{Policy, StepPlan};

/// Names one sequence (one choice of one request) for the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqId(pub u64);

/// What an engine is; it goes into telemetry and `/v1/models`, and sizes the scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineDescription {
    /// Short name of the engine, such as `sim` or `cpu`.
    pub engine: String,
    /// Model name that clients send and telemetry carries.
    pub model: String,
    /// How the weights are stored, such as `int8` or `q4_1`.
    pub quantization: Option<String>,
    /// Devices or cores that one step of the model spans.
    pub tensor_parallel: Option<u32>,
    /// Accelerator product name, such as `Inferentia2`; `None` when the engine runs on no known one.
    pub accelerator: Option<String>,
    /// Accelerator chips of this replica; `None` when there are none.
    pub chips: Option<u32>,
    /// Sequences that a decode step can hold at most (compiled slots, or state the engine can keep).
    pub slots: u32,
    /// Longest sequence, prompt and output together, in tokens.
    pub max_len: u32,
    /// Longest prompt, in tokens; no more than `max_len`.
    pub prompt_max: u32,
    /// Rules that its steps are made for, where the settings name none.
    pub policy: Policy,
    /// Whether a sequence may begin with KV blocks that another one computed, as [`Work::blocks`] names them.
    ///
    /// [`Work::blocks`]: crate::schedule::Work::blocks
    pub prefix_cache: bool,
    /// Mean error of simulated step times against the rows they were fitted on, as a share; `None` for a real engine.
    pub calibration_error: Option<f64>,
    /// Whether it has the model's logits: it can say how likely its tokens were ([`Sampling::likelihoods`]) and move them
    /// ([`Sampling::bias`]).
    pub likelihoods: bool,
    /// Whether device times and texts are made up by a model, and by which and how well:
    /// `simulated, calibrated on SDK 2.18 rows, mean error 3.1 %`. `None` for a real engine.
    pub simulated: Option<String>,
}

/// How the next token is picked.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f32,
    /// Nucleus share in (0, 1]; 1 keeps every token.
    pub top_p: f32,
    /// Keep the k likeliest tokens; 0 keeps every token.
    pub top_k: u32,
    /// Keep tokens at least this likely, as a share of the likeliest one's probability, 0 to 1; 0 keeps every token.
    pub min_p: f32,
    /// Divides the positive logits of tokens that prompt or output hold, and multiplies the negative ones, as the CTRL paper has
    /// it (Keskar et al. 2019); above 0, 1 changes nothing.
    pub repetition_penalty: f32,
    /// Taken from the logit of a token that the output holds, -2 to 2.
    pub presence_penalty: f32,
    /// Taken from the logit of a token for each time that the output holds it, -2 to 2.
    pub frequency_penalty: f32,
    /// Added to the logits of these tokens before everything else, -100 to 100; ids that the model lacks change nothing.
    pub bias: Arc<[(u32, f32)]>,
    /// Seed of this sequence's own random numbers, so that its neighbours never change its text.
    pub seed: u64,
    /// Go on past the end-of-sequence token.
    pub ignore_eos: bool,
    /// Say how likely each token was, and name so many of the likeliest beside it; `None` says nothing.
    pub likelihoods: Option<u32>,
}

impl Default for Sampling {
    /// Every token with its own probability.
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            bias: Arc::default(),
            seed: 0,
            ignore_eos: false,
            likelihoods: None,
        }
    }
}

/// A sequence as the engine gets it.
#[derive(Clone, Debug)]
pub struct SequenceInput {
    /// Prompt token ids, never empty.
    pub prompt: Arc<[u32]>,
    /// Most tokens it will be asked to generate.
    pub max_tokens: u32,
    /// How to pick tokens.
    pub sampling: Sampling,
}

/// How likely a token was, before temperature, penalties and cuts.
#[derive(Clone, Debug, PartialEq)]
pub struct Likelihood {
    /// The token's bytes; those of a character may be spread over several tokens.
    pub bytes: Box<[u8]>,
    /// Natural logarithm of its probability, at most 0.
    pub ln: f32,
}

/// How likely a token and its rivals were.
#[derive(Clone, Debug, PartialEq)]
pub struct Likelihoods {
    /// The token that was picked.
    pub picked: Likelihood,
    /// The likeliest tokens in falling order, as many as were asked for; the picked one may be among them.
    pub likeliest: Vec<Likelihood>,
}

/// The token that one work item of a plan produced.
#[derive(Clone, Debug, PartialEq)]
pub struct NewToken {
    /// Whose token.
    pub seq: SeqId,
    /// Token id. The end-of-sequence token itself is reported too, with `end` set.
    pub token: u32,
    /// The model ended the sequence with this token; its id has no text and is not shown, but it
    /// was computed, so it counts as one output token.
    pub end: bool,
    /// How likely it was, if that was asked for and it has text.
    pub likelihoods: Option<Box<Likelihoods>>,
}

/// How long a step took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepTime {
    /// A model says so; the node waits until this much time has passed before it hands out tokens.
    Modelled {
        /// Time on the device.
        device: Duration,
        /// Time on the host around it.
        host: Duration,
        /// How hard the tensor engines worked meanwhile, 0 to 1; power is modelled from it.
        load: f64,
    },
    /// The step really ran for this long inside [`Engine::step`].
    Measured {
        /// Time spent computing, not longer than the call.
        device: Duration,
        /// How hard the tensor engines worked meanwhile, 0 to 1, where the engine can tell; power is modelled from it.
        load: Option<f64>,
    },
}

impl StepTime {
    /// How hard the tensor engines worked, 0 to 1. Of an engine that cannot tell it is all they can, which is an upper bound.
    pub(crate) fn load(self) -> f64 {
        match self {
            StepTime::Modelled { load, .. } => load,
            StepTime::Measured { load, .. } => load.unwrap_or(1.0),
        }
    }
}

/// What a step did.
#[derive(Clone, Debug, PartialEq)]
pub struct StepResult {
    /// One entry for every work item of the plan whose `yields` is set, in plan order; none for those that failed.
    pub tokens: Vec<NewToken>,
    /// Sequences of the plan that cannot go on, and why, lowercase; the caller closes them. The others do not notice.
    pub failed: Vec<(SeqId, String)>,
    /// Device and host time of the whole step.
    pub time: StepTime,
    /// One weight for every work item, in plan order: its part of the step's device time, in any
    /// unit. Decoders of one step weigh the same.
    pub weights: Vec<u64>,
    /// Weight, in the same unit, of compiled but empty slots.
    pub padding_weight: u64,
}

/// The accelerator chips under an engine, all alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Devices {
    /// Number of chips.
    pub count: u32,
    /// What a chip is called on its host, without its number: `neuron` as the driver has it and every reader of its files, else
    /// `chip`.
    pub name: &'static str,
    /// Number of the first chip on its host; the others follow it.
    pub first: u32,
    /// Maker, such as `AWS`.
    pub vendor: String,
    /// Product name, such as `inferentia2`.
    pub model: String,
    /// Memory of one chip.
    pub memory_total_bytes: Option<u64>,
    /// Memory of one chip in use, weights and KV together.
    pub memory_used_bytes: Option<u64>,
}

/// Most sequences that any engine holds at once.
const SLOTS_MAX: u32 = 65_536;
/// Longest sequence of any engine, tokens.
const LEN_MAX: u32 = 16_777_216;

/// Loads the engine, and says which chips it runs on, if any.
///
/// # Errors
/// [`EngineError::Load`] if its model cannot be loaded.
pub fn build(config: &Config) -> Result<(Box<dyn Engine>, Option<Devices>), EngineError> {
    match config.kind {
        EngineKind::Sim => {
            let engine = sim::Sim::load(&config.sim)?;
            let devices = engine.devices();
            Ok((Box::new(engine), devices))
        }
        EngineKind::Cpu => Ok((cpu::build(&config.cpu)?, None)),
        EngineKind::Neuron => {
            let engine = neuron::Neuron::load(&config.neuron)?;
            let devices = engine.devices();
            Ok((Box::new(engine), devices))
        }
        EngineKind::Proxy => Err(EngineError::Load { reason: "a proxy makes no steps".to_owned() }),
    }
}

/// Why an engine could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The model file or the settings cannot be used; the node cannot start.
    #[error("cannot load the model: {reason}")]
    Load {
        /// What is wrong with it, lowercase.
        reason: String,
    },
    /// The client's input cannot be used.
    #[error("{reason}")]
    Input {
        /// What is wrong with it, lowercase.
        reason: String,
    },
    /// A step failed; its sequences are lost, the engine goes on.
    #[error("step failed: {reason}")]
    Step {
        /// What happened, lowercase.
        reason: String,
    },
    /// The device is gone, and every open sequence with it; [`Engine::recover`] may bring it back.
    #[error("the device was lost: {reason}")]
    Lost {
        /// What happened, lowercase.
        reason: String,
    },
}

/// Computes tokens. Owned by the step thread.
pub trait Engine: Send {
    /// What this engine is. Does not change while it runs.
    fn describe(&self) -> &EngineDescription;

    /// Tokeniser and chat template, shared with request handlers.
    fn text(&self) -> Arc<dyn Text>;

    /// Takes in a sequence. No model work happens here.
    ///
    /// # Errors
    /// [`EngineError::Input`] if the engine cannot serve it.
    fn open(&mut self, seq: SeqId, input: SequenceInput) -> Result<(), EngineError>;

    /// Carries out one plan.
    ///
    /// The engine keeps each sequence's tokens (prompt, then what it generated) and its computed
    /// state. A work item with `first` set of a sequence that had state before means that the
    /// scheduler took its memory away: compute again from `start`, which is 0 unless the engine
    /// has a prefix cache.
    ///
    /// # Errors
    /// [`EngineError::Step`]; the caller then closes every sequence of the plan. After [`EngineError::Lost`] it closes all
    /// sequences there are and asks the engine to recover.
    fn step(&mut self, plan: &StepPlan) -> Result<StepResult, EngineError>;

    /// Forgets a sequence: finished, aborted, or failed. Unknown ids are ignored.
    fn close(&mut self, seq: SeqId);

    /// Starts again after [`EngineError::Lost`], without any sequence.
    ///
    /// # Errors
    /// Why it cannot; the node then ends.
    fn recover(&mut self) -> Result<(), EngineError> {
        Err(EngineError::Load { reason: "this engine cannot start again".to_owned() })
    }
}

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    /// `system`, `user`, `assistant`, …
    pub role: String,
    /// Plain text.
    pub content: String,
}

/// Turns text into tokens and back. Used from many threads.
pub trait Text: Send + Sync {
    /// Token ids of a prompt, with the special tokens that it spells.
    ///
    /// # Errors
    /// [`EngineError::Input`] if the text cannot be tokenised.
    fn tokenize(&self, prompt: &str) -> Result<Vec<u32>, EngineError>;

    /// Tokens that a prompt has at least, told from its length alone: 0 where that says nothing. Takes no time, so that what can
    /// never fit the model is not tokenised.
    fn tokens_min(&self, _prompt: &str) -> usize {
        0
    }

    /// The prompt that the model expects for these messages, ready for [`Text::tokenize`], ending
    /// where the assistant's answer begins.
    ///
    /// # Errors
    /// [`EngineError::Input`] if the template refuses the messages.
    fn chat_prompt(&self, messages: &[ChatMessage]) -> Result<String, EngineError>;

    /// A fresh decoder for one sequence's output.
    fn decoder(&self) -> Box<dyn TokenDecoder>;
}

/// Turns one sequence's tokens into text as they come.
pub trait TokenDecoder: Send {
    /// Appends the text of `token` to `text`; nothing while a character is incomplete.
    fn push(&mut self, token: u32, text: &mut String);

    /// Appends what is left at the end of the sequence.
    fn finish(&mut self, text: &mut String);
}
