//! Which rules, and their settings.

use serde::{Deserialize, Serialize};
use service::config::range::within;

use crate::engine::EngineDescription;

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
    /// As TensorRT-LLM and Text Generation Inference: memory for the longest output is set aside at admission.
    Reserve,
    /// As servers without continuous batching: nobody joins a batch before its last sequence is done.
    StaticBatch,
}

impl Policy {
    /// Whether KV memory is in blocks.
    pub(super) fn has_blocks(self) -> bool {
        matches!(self, Policy::TokenBudget | Policy::Reserve)
    }
}

/// Settings of the scheduler.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `neuron_slots`, `token_budget`, `reserve` or `static_batch`; unset takes the one that the engine is made for.
    pub policy: Option<Policy>,
    /// Most tokens a step computes (`token_budget`, `reserve`).
    pub step_tokens_max: u32,
    /// Cut long prompts into chunks that fit the budget (`token_budget`, `reserve`).
    pub chunked_prefill: bool,
    /// Tokens of a KV block (`token_budget`, `reserve`).
    pub block_tokens: u32,
    /// KV blocks of the pool (`token_budget`, `reserve`); 0 makes enough for every slot at full length.
    pub blocks: u32,
    /// Read the KV blocks of a prompt's beginning that another sequence computed; unset does where the engine can.
    pub prefix_cache: Option<bool>,
    /// Shortest compiled prompt in tokens (`neuron_slots`); the longest sequence makes one bucket for all prompts.
    pub prompt_bucket_min: u32,
    /// Waiting sequences, as a share of the running ones, that may interrupt the decoders (`reserve` without chunks).
    pub waiting_served_ratio: f64,
    /// Decode steps after which those who wait may interrupt anyway (`reserve` without chunks).
    pub waiting_steps_max: u32,
    /// Sequences that came later and may be admitted first, for their priority or their tenant's share, before one
    /// that waits goes before all.
    pub patience: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: None,
            step_tokens_max: 2048,
            chunked_prefill: true,
            block_tokens: 16,
            blocks: 0,
            prefix_cache: None,
            prompt_bucket_min: 128,
            // The two defaults of Text Generation Inference.
            waiting_served_ratio: 0.3,
            waiting_steps_max: 20,
            patience: 256,
        }
    }
}

impl Config {
    /// Adds one line for every rule broken.
    pub fn validate(&self, faults: &mut Vec<String>) {
        within("node.schedule.step_tokens_max", self.step_tokens_max, 1..=STEP_TOKENS_MAX, faults);
        within("node.schedule.block_tokens", self.block_tokens, 1..=BLOCK_TOKENS_MAX, faults);
        within("node.schedule.blocks", self.blocks, 0..=BLOCKS_MAX, faults);
        within("node.schedule.prompt_bucket_min", self.prompt_bucket_min, 1..=STEP_TOKENS_MAX, faults);
        within("node.schedule.waiting_served_ratio", self.waiting_served_ratio, 0.0..=RATIO_MAX, faults);
    }

    /// With what is unset as this engine is made for.
    #[must_use]
    pub(crate) fn resolved(self, engine: &EngineDescription) -> Self {
        Self {
            policy: Some(self.policy.unwrap_or(engine.policy)),
            prefix_cache: Some(self.reads_prefixes() && engine.prefix_cache),
            ..self
        }
    }

    /// Whether blocks of a prompt's beginning are read, where that is not ruled out.
    pub(super) fn reads_prefixes(&self) -> bool {
        self.prefix_cache.unwrap_or(true)
    }

    /// KV blocks of the pool for an engine that holds `slots` sequences of at most `longest` tokens.
    pub fn pool_blocks(&self, slots: u32, longest: u32) -> u32 {
        let per_slot = longest.div_ceil(self.block_tokens.max(1));
        if self.blocks == 0 { slots.max(1).saturating_mul(per_slot).min(BLOCKS_MAX) } else { self.blocks }
    }
}

/// Bounds of what a step and its pool may hold; far above any engine's.
const STEP_TOKENS_MAX: u32 = 16_777_216;
const BLOCK_TOKENS_MAX: u32 = 65_536;
const BLOCKS_MAX: u32 = 100_000_000;
const RATIO_MAX: f64 = 1_000.0;
