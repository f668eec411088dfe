//! One token budget a step: the rules of vLLM V1.
//!
//! There is no prefill phase: every sequence has computed tokens that chase its known tokens.
//! Running sequences come first, in order of rank. Who finds no KV block takes those of the
//! running sequence of the lowest rank, which starts over. Waiting sequences are
//! admitted only in a step without preemption, and the first that does not fit stops the rest.

use std::sync::Arc;

use super::{Preempted, Scheduler, StepPlan, Work};

impl Scheduler {
    pub(super) fn plan_token_budget(&mut self) -> Option<StepPlan> {
        let mut budget = self.config.step_tokens_max;
        let mut work = Vec::with_capacity(self.running.len());
        let mut preempted = Vec::new();
        self.continue_running(&mut budget, &mut work, &mut preempted);
        if preempted.is_empty() {
            self.admit_waiting(&mut budget, &mut work, Room::Known);
        }
        (!work.is_empty()).then(|| StepPlan::exact(work, preempted))
    }

    /// Work of the running sequences, as far as the budget goes.
    pub(super) fn continue_running(&mut self, budget: &mut u32, work: &mut Vec<Work>, preempted: &mut Vec<Preempted>) {
        let mut at = 0;
        while at < self.running.len() && *budget > 0 {
            let sequence = &self.running[at];
            let tokens = (sequence.known() - sequence.computed).min(*budget);
            let needed = sequence.computed + tokens;
            while at < self.running.len() && !self.pool.grow(Arc::make_mut(&mut self.running[at].blocks), needed) {
                preempted.extend(self.preempt_last());
            }
            // The sequence may have been the last itself; then it waits like the others.
            let Some(sequence) = self.running.get_mut(at) else { return };
            work.push(sequence.work(tokens));
            *budget -= tokens;
            at += 1;
        }
    }

    /// Those after the current sequence have no work in this step yet, so none is undone.
    fn preempt_last(&mut self) -> Option<Preempted> {
        let mut victim = self.running.pop()?;
        self.release(&victim);
        victim.blocks = Arc::default();
        victim.preemptions += 1;
        victim.overdue |= victim.preemptions >= PREEMPTIONS_MAX;
        let lost = std::mem::take(&mut victim.computed);
        let preempted = Preempted { seq: victim.id, lost };
        self.counters.preemptions += 1;
        self.counters.lost_tokens += u64::from(lost);
        self.waiting.give_back(victim);
        Some(preempted)
    }

    /// Admits who waits, as far as budget, slots and blocks go.
    pub(super) fn admit_waiting(&mut self, budget: &mut u32, work: &mut Vec<Work>, room: Room) {
        while *budget > 0 && !self.slots_free.is_empty() {
            let Some(tokens) = self.make_room(*budget, room) else { return };
            let (Some(mut sequence), Some(slot)) = (self.waiting.admit(), self.slots_free.pop()) else { return };
            sequence.slot = slot;
            sequence.fresh = true;
            if sequence.preemptions == 0 {
                self.counters.prefix_queries += u64::from(sequence.prompt);
                self.counters.prefix_hits += u64::from(sequence.computed);
            }
            work.push(sequence.work(tokens));
            *budget -= tokens;
            self.run(sequence);
        }
    }

    /// Gives whoever is next its blocks, cached ones first. Returns how many tokens it computes in this step; `None`,
    /// and nothing taken, if it does not fit.
    fn make_room(&mut self, budget: u32, room: Room) -> Option<u32> {
        let cached = self.config.reads_prefixes();
        let sequence = self.waiting.next()?;
        let mut blocks = if cached { self.pool.find(&sequence.tokens) } else { Vec::new() };
        let found = u32::try_from(blocks.len()).unwrap_or(u32::MAX) * self.config.block_tokens.max(1);
        let missing = sequence.known() - found;
        let tokens = missing.min(budget);
        let wanted = match room {
            Room::Known => found + tokens,
            Room::Whole => sequence.longest,
        };
        let fits = missing <= budget || self.config.chunked_prefill;
        if !fits || !self.pool.grow(&mut blocks, wanted) {
            self.pool.free(&blocks);
            return None;
        }
        sequence.computed = found;
        sequence.blocks = Arc::new(blocks);
        Some(tokens)
    }
}

/// Who was preempted this often is not preempted for anybody who came later.
const PREEMPTIONS_MAX: u32 = 3;

/// Which memory a sequence must find to be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// That of the tokens it computes in its first step.
    Known,
    /// That of its longest possible output.
    Whole,
}
