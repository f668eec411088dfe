//! One token budget a step: the rules of vLLM V1.
//!
//! There is no prefill phase: every sequence has computed tokens that chase its known tokens.
//! Running sequences come first, in order of admission. Who finds no KV block takes those of the
//! youngest running sequence, which starts over from the head of the queue. Waiting sequences are
//! admitted only in a step without preemption, and the first that does not fit stops the rest.

use super::{Scheduler, StepPlan, Work, kind};
use crate::engine::SeqId;

impl Scheduler {
    pub(super) fn plan_token_budget(&mut self) -> Option<StepPlan> {
        let mut budget = self.config.step_tokens_max;
        let mut work = Vec::with_capacity(self.running.len());
        let mut preempted = Vec::new();
        self.continue_running(&mut budget, &mut work, &mut preempted);
        if preempted.is_empty() {
            self.admit_waiting(&mut budget, &mut work);
        }
        if work.is_empty() {
            return None;
        }
        let compiled = u32::try_from(work.len()).unwrap_or(u32::MAX);
        let bucket = work.iter().map(|work: &Work| work.start + work.tokens).max().unwrap_or(0);
        Some(StepPlan { kind: kind(&work), work, preempted, compiled, bucket })
    }

    fn continue_running(&mut self, budget: &mut u32, work: &mut Vec<Work>, preempted: &mut Vec<SeqId>) {
        let mut at = 0;
        while at < self.running.len() && *budget > 0 {
            let sequence = &self.running[at];
            let tokens = (sequence.known() - sequence.computed).min(*budget);
            let needed = sequence.computed + tokens;
            while at < self.running.len() && !self.pool.grow(&mut self.running[at].blocks, needed) {
                preempted.extend(self.preempt_youngest());
            }
            // The sequence may have been the youngest itself; then it waits like the others.
            let Some(sequence) = self.running.get(at) else { return };
            work.push(sequence.work(tokens));
            *budget -= tokens;
            at += 1;
        }
    }

    /// Those after the current sequence have no work in this step yet, so none is undone.
    fn preempt_youngest(&mut self) -> Option<SeqId> {
        let mut victim = self.running.pop()?;
        self.release(&victim);
        victim.blocks.clear();
        victim.computed = 0;
        let id = victim.id;
        self.waiting.push_front(victim);
        Some(id)
    }

    fn admit_waiting(&mut self, budget: &mut u32, work: &mut Vec<Work>) {
        while *budget > 0 && !self.slots_free.is_empty() {
            let Some(sequence) = self.waiting.front_mut() else { return };
            let missing = sequence.known() - sequence.computed;
            if missing > *budget && !self.config.chunked_prefill {
                return;
            }
            let tokens = missing.min(*budget);
            if !self.pool.grow(&mut sequence.blocks, tokens) {
                return;
            }
            let (Some(mut sequence), Some(slot)) = (self.waiting.pop_front(), self.slots_free.pop()) else { return };
            sequence.slot = slot;
            work.push(sequence.work(tokens));
            *budget -= tokens;
            self.running.push(sequence);
        }
    }
}
