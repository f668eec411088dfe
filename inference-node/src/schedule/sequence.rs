//! One sequence, as the scheduler sees it.

use std::sync::Arc;

use super::plan::{Phase, Work};
use super::waiting::Tenant;
use crate::engine::SeqId;

/// A sequence that waits or runs.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) id: SeqId,
    pub(super) tokens: Arc<[u32]>,
    pub(super) prompt: u32,
    /// Prompt and longest output.
    pub(super) longest: u32,
    pub(super) tenant: Tenant,
    pub(super) priority: i32,
    pub(super) deadline_ns: Option<i64>,
    /// Order of arrival.
    pub(super) arrival: u64,
    /// Number of admissions after which it goes before all.
    pub(super) turn: u64,
    /// It was passed over or preempted too often.
    pub(super) overdue: bool,
    /// Order of first admission.
    pub(super) admission: u64,
    pub(super) preemptions: u32,
    /// It has had no work since it was admitted.
    pub(super) fresh: bool,
    /// Tokens generated so far.
    pub(super) output: u32,
    /// Tokens whose state is in the engine.
    pub(super) computed: u32,
    pub(super) slot: u32,
    pub(super) blocks: Arc<Vec<u32>>,
}

impl Sequence {
    /// Tokens that are known: prompt and output.
    pub(super) fn known(&self) -> u32 {
        self.prompt + self.output
    }

    /// Lower ranks are served first, and give way last.
    pub(super) fn rank(&self) -> (bool, i32, u64) {
        (!self.overdue, if self.overdue { 0 } else { self.priority }, self.admission)
    }

    pub(super) fn work(&mut self, tokens: u32) -> Work {
        let decode = self.output > 0 && self.computed + 1 == self.known();
        Work {
            seq: self.id,
            slot: self.slot,
            phase: if decode { Phase::Decode } else { Phase::Prefill },
            start: self.computed,
            tokens,
            yields: self.computed + tokens == self.known(),
            first: std::mem::take(&mut self.fresh),
            blocks: Arc::clone(&self.blocks),
        }
    }
}
