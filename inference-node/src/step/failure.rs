//! Steps that fail: what is lost with them, and what goes on.

use crate::engine::EngineError;
use crate::record::Outcome;
use crate::schedule::StepPlan;

use super::Driver;

impl Driver {
    /// The step's sequences are lost; the engine goes on.
    pub(super) fn fail(&mut self, plan: &StepPlan, error: &EngineError) {
        tracing::error!(%error, "engine step failed");
        let mut keys: Vec<u64> = plan.work.iter().filter_map(|work| self.calls.call_of(work.seq)).collect();
        keys.dedup();
        for key in keys {
            self.abort(key, Outcome::Failed(error.to_string()));
        }
    }

    /// The device is gone and every sequence with it: all calls end, and the engine begins anew without any.
    pub(super) fn start_again(&mut self, error: &EngineError) -> Result<(), EngineError> {
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
