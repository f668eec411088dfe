//! What the engine has to do, as far as the proxy knows: the calls it has from here, and those that wait here for their turn.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;

use super::turn::Turns;
use super::{Config, Front};
use crate::record::{ProxyCalls, ProxyLoad, Recorder};
use crate::serve::beats;
use crate::step::NodeClock;

/// Time between samples, as of nodes with an engine of their own.
const EVERY: Duration = Duration::from_secs(5);

impl Front {
    /// `running,waiting,kv,slots`, as the load header has it; empty what is unknown: the engine's memory, and how many calls it takes at
    /// once where that is not bounded here.
    pub(super) fn load(&self) -> String {
        let slots = Some(self.config.concurrency)
            .filter(|slots| *slots > 0)
            .map_or_else(String::new, |slots| slots.to_string());
        format!("{},{},,{slots}", self.turns.running(), self.turns.waiting())
    }
}

/// The heartbeat.
pub(super) async fn stream(State(front): State<Arc<Front>>) -> Response {
    let closing = front.closing.clone();
    beats(move || front.load(), closing)
}

/// Records a proxy's load, again and again.
pub(crate) struct Sampling {
    turns: Turns,
    /// Whether its calls are told here.
    tells_calls: bool,
    recorder: Recorder,
    clock: Arc<NodeClock>,
}

impl Sampling {
    pub(crate) fn new(config: &Config, turns: &Turns, recorder: &Recorder, clock: &Arc<NodeClock>) -> Self {
        let (turns, recorder, clock) = (turns.clone(), recorder.clone(), Arc::clone(clock));
        Self { turns, tells_calls: config.tells_calls(), recorder, clock }
    }

    /// Never ends.
    ///
    /// # Cancel safety
    /// Cancel safe: a sample is recorded or not.
    pub(crate) async fn run(self) {
        loop {
            let (running, waiting) = (self.turns.running(), self.turns.waiting());
            let calls = self.tells_calls.then_some(ProxyCalls { running, waiting });
            self.recorder.load(ProxyLoad { time_ns: self.clock.now_ns(), calls });
            tokio::time::sleep(EVERY).await;
        }
    }
}
