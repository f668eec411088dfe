//! Static batching, to compare with: a batch is taken from those who wait, computed until its last sequence is done,
//! and nobody joins meanwhile. Prompts are padded to the longest, and slots of finished sequences go on being computed.

use super::{Scheduler, StepKind, StepPlan, Work};

impl Scheduler {
    pub(super) fn plan_static_batch(&mut self) -> Option<StepPlan> {
        if self.running.is_empty() { self.collect() } else { self.decode(self.batch) }
    }

    fn collect(&mut self) -> Option<StepPlan> {
        while !self.slots_free.is_empty() {
            let Some(mut sequence) = self.waiting.admit() else { break };
            let Some(slot) = self.slots_free.pop() else { break };
            sequence.slot = slot;
            sequence.fresh = true;
            self.run(sequence);
        }
        let work: Vec<Work> = self.running.iter_mut().map(|sequence| sequence.work(sequence.prompt)).collect();
        let longest = work.iter().map(|work| work.tokens).max()?;
        self.batch = u32::try_from(work.len()).unwrap_or(u32::MAX);
        let bucket = self.bucket(longest);
        let padding = work.iter().map(|work| bucket - work.tokens).sum();
        Some(StepPlan { kind: StepKind::Prefill, work, preempted: Vec::new(), compiled: self.batch, bucket, padding })
    }
}
