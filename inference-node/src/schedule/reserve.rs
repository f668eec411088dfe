//! Memory for the longest possible output is set aside at admission, so nobody is ever preempted: the rules of
//! TensorRT-LLM (`GUARANTEED_NO_EVICT`, prompts in chunks beside the decoders) and, without chunks, of Text Generation
//! Inference: new prompts make a step of their own, once enough of them wait or the decoders had their turns.

use super::token_budget::Room;
use super::{Scheduler, StepPlan};

impl Scheduler {
    pub(super) fn plan_reserve(&mut self) -> Option<StepPlan> {
        let mut budget = self.config.step_tokens_max;
        let mut work = Vec::with_capacity(self.running.len());
        let mut none = Vec::new();
        if !self.config.chunked_prefill && self.joins() {
            self.admit_waiting(&mut budget, &mut work, Room::Whole);
        }
        if work.is_empty() {
            self.continue_running(&mut budget, &mut work, &mut none);
            self.decodes_in_a_row += 1;
            if self.config.chunked_prefill {
                self.admit_waiting(&mut budget, &mut work, Room::Whole);
            }
        } else {
            self.decodes_in_a_row = 0;
        }
        (!work.is_empty()).then(|| StepPlan::exact(work, none))
    }

    /// Whether those who wait may interrupt the decoders.
    fn joins(&self) -> bool {
        let enough = (self.running.len() as f64 * self.config.waiting_served_ratio).floor();
        self.running.is_empty()
            || self.waiting.len() as f64 >= enough
            || self.decodes_in_a_row >= self.config.waiting_steps_max
    }
}
