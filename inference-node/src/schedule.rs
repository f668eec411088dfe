//! Decides what the engine does next: a pure, deterministic core without clock or I/O.
//!
//! The same offers and completions give the same plans, so a fleet can be simulated faster than
//! real time and every rule can be tested exactly.

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
