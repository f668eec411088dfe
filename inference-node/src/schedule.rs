//! Decides what the engine does next: a pure, deterministic core without clock or I/O.
//!
//! ```text
//! offer -> waiting -> plan (admit, preempt, batch) -> engine -> complete -> remove
//! ```
//!
//! The same offers and completions give the same plans, so a fleet can be simulated faster than
//! real time and every rule can be tested exactly.
//!
//! Invariants (each a property test):
//! 1. A slot belongs to at most one sequence, and is free again when the sequence is gone.
//! 2. Blocks held plus blocks free are the blocks of the pool.
//! 3. A step never computes more tokens than the budget (`token_budget`).
//! 4. Whoever is offered is finished after finitely many steps, whatever arrives meanwhile.

mod block;
mod neuron_slots;
mod token_budget;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use service::config::range::within;

use crate::engine::SeqId;

use block::BlockPool;

/// Rules by which steps are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// As Inf2 and Trn1 really work: a prompt first, one prompt a step, all decoders stalled
    /// meanwhile; compiled slots and power-of-two buckets.
    NeuronSlots,
    /// As vLLM V1: one token budget a step, running sequences first, prompts in chunks,
    /// preemption by recompute when KV blocks run out.
    TokenBudget,
}

/// Settings of the scheduler.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `neuron_slots` or `token_budget`.
    pub policy: Policy,
    /// Most tokens a step computes (`token_budget`).
    pub step_tokens_max: u32,
    /// Cut long prompts into chunks that fit the budget (`token_budget`).
    pub chunked_prefill: bool,
    /// Tokens of a KV block (`token_budget`).
    pub block_tokens: u32,
    /// KV blocks of the pool (`token_budget`); 0 makes enough for every slot at full length.
    pub blocks: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { policy: Policy::NeuronSlots, step_tokens_max: 2048, chunked_prefill: true, block_tokens: 16, blocks: 0 }
    }
}

impl Config {
    /// Adds one line for every rule broken.
    pub fn validate(&self, faults: &mut Vec<String>) {
        within("node.schedule.step_tokens_max", self.step_tokens_max, 1..=STEP_TOKENS_MAX, faults);
        within("node.schedule.block_tokens", self.block_tokens, 1..=BLOCK_TOKENS_MAX, faults);
        within("node.schedule.blocks", self.blocks, 0..=BLOCKS_MAX, faults);
    }
}

/// Bounds of what a step and its pool may hold; far above any engine's.
const STEP_TOKENS_MAX: u32 = 16_777_216;
const BLOCK_TOKENS_MAX: u32 = 65_536;
const BLOCKS_MAX: u32 = 100_000_000;

/// What kind of work a step holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Only prompt tokens.
    Prefill,
    /// Only the next token of running sequences.
    Decode,
    /// Both in one step.
    Mixed,
}

/// Which phase a sequence is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Computing tokens that are already known: the prompt, or everything again after a preemption.
    Prefill,
    /// Computing the one newest token.
    Decode,
}

/// One sequence's part in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Whose work.
    pub seq: SeqId,
    /// The slot it holds from admission to its end, below the engine's `slots`.
    pub slot: u32,
    /// Prefill or decode.
    pub phase: Phase,
    /// Tokens of this sequence already computed before the step.
    pub start: u32,
    /// Tokens to compute in this step, at least 1: `start .. start + tokens` of prompt plus output.
    pub tokens: u32,
    /// Whether the step yields a new token for it (false for a prompt chunk that is not the last).
    pub yields: bool,
}

/// What the engine does in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPlan {
    /// Kind of the step.
    pub kind: StepKind,
    /// The work, never empty.
    pub work: Vec<Work>,
    /// Sequences whose memory was taken away for this step; they are computed again later.
    pub preempted: Vec<SeqId>,
    /// Sequences that the compiled graph computes, empty slots included; equals the number of
    /// work items where nothing is compiled.
    pub compiled: u32,
    /// Length in tokens that the compiled graph computes: prompt bucket of a prefill step, context
    /// bucket of a decode step; the exact maximum where nothing is compiled.
    pub bucket: u32,
}

/// What is going on, for gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Sequences admitted.
    pub running: u32,
    /// Sequences waiting.
    pub waiting: u32,
    /// Share of the KV memory in use, 0 to 1.
    pub kv_usage: f64,
}

/// A sequence that can never run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Prompt and one output token are longer than the engine's longest sequence.
    #[error("{tokens} tokens are longer than the model's {longest}")]
    TooLong {
        /// Tokens of prompt plus one.
        tokens: u32,
        /// Longest sequence.
        longest: u32,
    },
    /// The whole pool of KV blocks could not hold it.
    #[error("{needed} blocks are more than the pool's {pool}")]
    TooBig {
        /// Blocks needed at its longest.
        needed: u32,
        /// Blocks of the pool.
        pool: u32,
    },
}

/// One sequence, as the scheduler sees it.
#[derive(Clone, Debug)]
struct Sequence {
    id: SeqId,
    prompt: u32,
    /// Tokens generated so far.
    output: u32,
    /// Tokens whose state is in the engine.
    computed: u32,
    slot: u32,
    blocks: Vec<u32>,
}

impl Sequence {
    /// Tokens that are known: prompt and output.
    fn known(&self) -> u32 {
        self.prompt + self.output
    }

    fn work(&self, tokens: u32) -> Work {
        let decode = self.output > 0 && self.computed + 1 == self.known();
        Work {
            seq: self.id,
            slot: self.slot,
            phase: if decode { Phase::Decode } else { Phase::Prefill },
            start: self.computed,
            tokens,
            yields: self.computed + tokens == self.known(),
        }
    }
}

/// The scheduler. Every method is deterministic.
#[derive(Debug)]
pub struct Scheduler {
    config: Config,
    slots: u32,
    longest: u32,
    waiting: VecDeque<Sequence>,
    /// In order of admission.
    running: Vec<Sequence>,
    /// Sorted descending: the lowest free slot is the last.
    slots_free: Vec<u32>,
    pool: BlockPool,
    prefills_in_a_row: u32,
}

impl Scheduler {
    /// A scheduler for an engine that holds `slots` sequences of at most `longest` tokens.
    pub fn new(config: Config, slots: u32, longest: u32) -> Self {
        let slots = slots.max(1);
        let per_slot = longest.div_ceil(config.block_tokens.max(1));
        let blocks = if config.blocks == 0 { slots.saturating_mul(per_slot) } else { config.blocks };
        let pool = match config.policy {
            Policy::TokenBudget => BlockPool::new(blocks, config.block_tokens.max(1)),
            Policy::NeuronSlots => BlockPool::new(0, 1),
        };
        Self {
            config,
            slots,
            longest,
            waiting: VecDeque::new(),
            running: Vec::new(),
            slots_free: (0..slots).rev().collect(),
            pool,
            prefills_in_a_row: 0,
        }
    }

    /// Puts a sequence of `prompt` tokens, which may grow by `output_max`, at the end of the queue.
    ///
    /// # Errors
    /// When it could never run.
    pub fn offer(&mut self, id: SeqId, prompt: u32, output_max: u32) -> Result<(), Refusal> {
        let prompt = prompt.max(1);
        if prompt >= self.longest {
            return Err(Refusal::TooLong { tokens: prompt.saturating_add(1), longest: self.longest });
        }
        if self.config.policy == Policy::TokenBudget {
            let longest = prompt.saturating_add(output_max).min(self.longest);
            let needed = self.pool.blocks_for(longest);
            if needed > self.pool.size() {
                return Err(Refusal::TooBig { needed, pool: self.pool.size() });
            }
            if !self.config.chunked_prefill && longest > self.config.step_tokens_max {
                return Err(Refusal::TooLong { tokens: longest, longest: self.config.step_tokens_max });
            }
        }
        self.waiting.push_back(Sequence { id, prompt, output: 0, computed: 0, slot: 0, blocks: Vec::new() });
        Ok(())
    }

    /// The next step, or `None` when nothing can be done. Admission and preemption happen here.
    pub fn plan(&mut self) -> Option<StepPlan> {
        match self.config.policy {
            Policy::NeuronSlots => self.plan_neuron_slots(),
            Policy::TokenBudget => self.plan_token_budget(),
        }
    }

    /// Takes note that a step was carried out.
    pub fn complete(&mut self, plan: &StepPlan) {
        for work in &plan.work {
            if let Some(sequence) = self.running.iter_mut().find(|sequence| sequence.id == work.seq) {
                sequence.computed += work.tokens;
                sequence.output += u32::from(work.yields);
            }
        }
    }

    /// Forgets a sequence, wherever it is; its slot and blocks are free at once. False if unknown.
    pub fn remove(&mut self, id: SeqId) -> bool {
        if let Some(at) = self.running.iter().position(|sequence| sequence.id == id) {
            let sequence = self.running.remove(at);
            self.release(&sequence);
            return true;
        }
        let before = self.waiting.len();
        self.waiting.retain(|sequence| sequence.id != id);
        before != self.waiting.len()
    }

    /// Whether nothing runs and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Gauges.
    pub fn load(&self) -> Load {
        let running = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
        let kv_usage = match self.config.policy {
            Policy::NeuronSlots => f64::from(running) / f64::from(self.slots),
            Policy::TokenBudget => self.pool.usage(),
        };
        Load { running, waiting: u32::try_from(self.waiting.len()).unwrap_or(u32::MAX), kv_usage }
    }

    fn take_slot(&mut self) -> Option<u32> {
        self.slots_free.pop()
    }

    /// Gives slot and blocks back.
    fn release(&mut self, sequence: &Sequence) {
        let at = self.slots_free.partition_point(|free| *free > sequence.slot);
        self.slots_free.insert(at, sequence.slot);
        self.pool.free(&sequence.blocks);
    }
}

fn kind(work: &[Work]) -> StepKind {
    let prefill = work.iter().any(|work| work.phase == Phase::Prefill);
    let decode = work.iter().any(|work| work.phase == Phase::Decode);
    match (prefill, decode) {
        (true, true) => StepKind::Mixed,
        (true, false) => StepKind::Prefill,
        (false, _) => StepKind::Decode,
    }
}

#[cfg(test)]
mod tests;
