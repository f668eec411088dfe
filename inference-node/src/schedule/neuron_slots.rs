//! Fixed compiled slots: what the Neuron engines do.
//!
//! A prompt goes first whenever a slot is free, alone in its step and whole; all decoders wait
//! meanwhile. A decode step always computes every compiled slot. The published engine can hold
//! decoders off for ever under a stream of one-token requests; here a decode step comes at the
//! latest after as many prompts in a row as there are slots.

use telemetry::step::bucket;

use super::{Scheduler, StepKind, StepPlan};

impl Scheduler {
    pub(super) fn plan_neuron_slots(&mut self) -> Option<StepPlan> {
        let decoders_wait = self.prefills_in_a_row >= self.slots && !self.running.is_empty();
        if !decoders_wait
            && !self.waiting.is_empty()
            && let Some(slot) = self.take_slot()
        {
            return self.prefill(slot);
        }
        self.decode()
    }

    fn prefill(&mut self, slot: u32) -> Option<StepPlan> {
        let mut sequence = self.waiting.pop_front()?;
        sequence.slot = slot;
        let work = sequence.work(sequence.prompt);
        let bucket = bucket(sequence.prompt, self.longest);
        self.running.push(sequence);
        self.prefills_in_a_row += 1;
        Some(StepPlan { kind: StepKind::Prefill, work: vec![work], preempted: Vec::new(), compiled: 1, bucket })
    }

    fn decode(&mut self) -> Option<StepPlan> {
        self.prefills_in_a_row = 0;
        let work: Vec<_> = self.running.iter().map(|sequence| sequence.work(1)).collect();
        let context = self.running.iter().map(super::Sequence::known).max()?;
        Some(StepPlan {
            kind: StepKind::Decode,
            work,
            preempted: Vec::new(),
            compiled: self.slots,
            bucket: bucket(context, self.longest),
        })
    }
}
