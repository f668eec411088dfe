//! Steps that fail: what is lost with them, and what goes on.

use std::time::Duration;

use crate::engine::{EngineError, SeqId, StepResult, StepTime};
use crate::record::Outcome;
use crate::schedule::StepPlan;

use super::Driver;

impl Driver {
    /// Ends what a failed step takes with it.
    ///
    /// # Errors
    /// The engine's, if it cannot start again.
    pub(super) fn failed(&mut self, plan: &StepPlan, error: &EngineError) -> Result<(), EngineError> {
        match error {
            EngineError::Lost { .. } => self.start_again(error),
            _ => {
                self.fail(plan, error);
                Ok(())
            }
        }
    }

    /// What a failed step ran is paid by those with work in it, by their tokens: it is in their totals, and on no token.
    pub(super) fn book_failed(&mut self, plan: &StepPlan, start_ns: i64, ran: Duration) {
        let time = StepTime::Measured { device: ran, load: None };
        let (end_ns, device_us) = self.timeline.finish(start_ns, time);
        if let Some(meter) = &mut self.meter {
            meter.step(start_ns, end_ns, time.load());
        }
        let weights: Vec<u64> = plan.work.iter().map(|work| u64::from(work.tokens)).collect();
        let shares = self.account.book(device_us, &weights, 0);
        for (work, share) in plan.work.iter().zip(shares) {
            if let Some((_, call)) = self.calls.choice(work.seq) {
                call.record.add_device(work.phase, share);
            }
        }
    }

    /// The step's sequences are lost; the engine goes on.
    fn fail(&mut self, plan: &StepPlan, error: &EngineError) {
        tracing::error!(%error, "engine step failed");
        let mut keys: Vec<u64> = plan.work.iter().filter_map(|work| self.calls.call_of(work.seq)).collect();
        keys.dedup();
        for key in keys {
            self.abort(key, Outcome::Failed(error.to_string()));
        }
    }

    /// Single sequences of a step cannot go on; all others do.
    pub(super) fn fail_some(&mut self, failed: &[(SeqId, String)]) {
        for (id, reason) in failed {
            if let Some(key) = self.calls.call_of(*id) {
                tracing::error!(reason, "a sequence failed");
                self.abort(key, Outcome::Failed(reason.clone()));
            }
        }
    }

    /// The device is gone and every sequence with it: all calls end, and the engine begins anew without any.
    fn start_again(&mut self, error: &EngineError) -> Result<(), EngineError> {
        tracing::error!(%error, "all running calls are lost; the engine starts again");
        for key in self.calls.keys() {
            self.abort(key, Outcome::Failed(error.to_string()));
        }
        self.component.waiting(error.to_string());
        self.engine.recover()?;
        tracing::warn!("the engine has started again");
        self.component.ready();
        Ok(())
    }
}

/// Holds an engine to its contract: one token for each work that yields and has not failed, in order, and a weight for each.
pub(super) fn sound(plan: &StepPlan, result: StepResult) -> Result<StepResult, EngineError> {
    let failed = |seq| result.failed.iter().any(|(id, _)| *id == seq);
    let expected = plan.work.iter().filter(|work| work.yields && !failed(work.seq)).map(|work| work.seq);
    if result.weights.len() == plan.work.len() && result.tokens.iter().map(|token| token.seq).eq(expected) {
        Ok(result)
    } else {
        Err(EngineError::Step { reason: "the engine did not do what the plan says".to_owned() })
    }
}
