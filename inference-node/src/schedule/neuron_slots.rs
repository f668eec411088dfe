//! Fixed compiled slots: what the Neuron engines do.
//!
//! A prompt goes first whenever a slot is free, alone in its step and whole; all decoders wait
//! meanwhile. A decode step always computes every compiled slot. The published engine can hold
//! decoders off for ever under a stream of one-token requests; here a decode step comes at the
//! latest after as many prompts in a row as there are slots.

use super::{Scheduler, StepKind, StepPlan};

impl Scheduler {
    pub(super) fn plan_neuron_slots(&mut self) -> Option<StepPlan> {
        let decoders_wait = self.prefills_in_a_row >= self.slots && !self.running.is_empty();
        if !decoders_wait && !self.waiting.is_empty() && !self.slots_free.is_empty() {
            return self.prefill();
        }
        self.prefills_in_a_row = 0;
        self.decode(self.slots)
    }

    fn prefill(&mut self) -> Option<StepPlan> {
        let mut sequence = self.waiting.admit()?;
        sequence.slot = self.slots_free.pop()?;
        sequence.fresh = true;
        let work = sequence.work(sequence.prompt);
        let bucket = self.bucket(work.tokens).max(self.config.prompt_bucket_min.min(self.longest));
        let padding = bucket - work.tokens;
        self.run(sequence);
        self.prefills_in_a_row += 1;
        Some(StepPlan {
            kind: StepKind::Prefill,
            work: vec![work],
            preempted: Vec::new(),
            compiled: 1,
            bucket,
            padding,
        })
    }

    /// One token of every running sequence, in a graph of `compiled` slots.
    pub(super) fn decode(&mut self, compiled: u32) -> Option<StepPlan> {
        let context = self.running.iter().map(super::Sequence::known).max()?;
        let bucket = self.bucket(context);
        let work: Vec<_> = self.running.iter_mut().map(|sequence| sequence.work(1)).collect();
        let padding = compiled.saturating_sub(u32::try_from(work.len()).unwrap_or(u32::MAX));
        Some(StepPlan { kind: StepKind::Decode, work, preempted: Vec::new(), compiled, bucket, padding })
    }
}
