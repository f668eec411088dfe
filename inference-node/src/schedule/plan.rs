//! What a step holds.

use std::sync::Arc;

use crate::engine::SeqId;

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

impl StepKind {
    /// As telemetry spells it.
    pub fn name(self) -> &'static str {
        match self {
            StepKind::Prefill => "prefill",
            StepKind::Decode => "decode",
            StepKind::Mixed => "mixed",
        }
    }

    pub(super) fn of(work: &[Work]) -> Self {
        let prefill = work.iter().any(|work| work.phase == Phase::Prefill);
        let decode = work.iter().any(|work| work.phase == Phase::Decode);
        match (prefill, decode) {
            (true, true) => StepKind::Mixed,
            (true, false) => StepKind::Prefill,
            (false, _) => StepKind::Decode,
        }
    }
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Whose work.
    pub seq: SeqId,
    /// The slot it holds from admission to its end, below the engine's `slots`.
    pub slot: u32,
    /// Prefill or decode.
    pub phase: Phase,
    /// Tokens of this sequence already computed before the step. More than 0 in its first work where the prefix
    /// cache had them; their keys and values lie in the first `blocks`.
    pub start: u32,
    /// Tokens to compute in this step, at least 1: `start .. start + tokens` of prompt plus output.
    pub tokens: u32,
    /// Whether the step yields a new token for it (false for a prompt chunk that is not the last).
    pub yields: bool,
    /// Whether this is its first work since it was admitted, or admitted again after a preemption.
    pub first: bool,
    /// KV blocks of the sequence in order, enough for `start + tokens` tokens; empty where a policy has no blocks.
    pub blocks: Arc<Vec<u32>>,
}

/// A sequence whose memory was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preempted {
    /// Whose memory.
    pub seq: SeqId,
    /// Tokens that were computed and are to be computed again, unless the prefix cache still has them.
    pub lost: u32,
}

/// What the engine does in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPlan {
    /// Kind of the step.
    pub kind: StepKind,
    /// The work, never empty.
    pub work: Vec<Work>,
    /// Sequences whose memory was taken away for this step; they are computed again later.
    pub preempted: Vec<Preempted>,
    /// Sequences that the compiled graph computes, empty slots included; equals the number of
    /// work items where nothing is compiled.
    pub compiled: u32,
    /// Length in tokens that the compiled graph computes: prompt bucket of a prefill step, context
    /// bucket of a decode step; the exact maximum where nothing is compiled.
    pub bucket: u32,
    /// Tokens that the compiled graph computes for nobody: the rest of a prompt's bucket, or one for each empty slot of
    /// a decode step; 0 where nothing is compiled.
    pub padding: u32,
}

impl StepPlan {
    /// A step without anything compiled: no padding, and the bucket is the longest sequence.
    pub fn exact(work: Vec<Work>, preempted: Vec<Preempted>) -> Self {
        let compiled = u32::try_from(work.len()).unwrap_or(u32::MAX);
        let bucket = work.iter().map(|work| work.start + work.tokens).max().unwrap_or(0);
        Self { kind: StepKind::of(&work), work, preempted, compiled, bucket, padding: 0 }
    }

    /// Tokens that the step computes for somebody.
    pub fn tokens(&self) -> u32 {
        self.work.iter().map(|work| work.tokens).sum()
    }
}
