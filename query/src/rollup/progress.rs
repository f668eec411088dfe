//! What building windows says of itself on `/metrics`.

use std::time::Duration;

use service::metrics::Registry;

use super::Rollup;
use super::build::Done;

/// Counters of all roll-ups. Those of one appear once it has done something.
#[derive(Clone)]
pub(super) struct Progress {
    registry: Registry,
}

impl Progress {
    pub(super) fn new(registry: &Registry) -> Progress {
        Progress { registry: registry.clone() }
    }

    /// A round came to this, and took so long.
    pub(super) fn done(&self, rollup: &Rollup, done: &Done, took: Duration) {
        let labels = labels(rollup);
        let add = |name: &str, help: &str, count: i64| {
            self.registry.counter(name, help, &labels).add(u64::try_from(count).unwrap_or(0));
        };
        add("tokenwatt_rollup_windows_total", "Windows computed for the first time.", done.built);
        add("tokenwatt_rollup_rebuilt_windows_total", "Windows computed again because rows came late.", done.rebuilt);
        add(
            "tokenwatt_rollup_folded_keys_total",
            "Keys folded into __other__, beyond 10,000 in a window.",
            done.folded,
        );
        let help = "Time that one round of a roll-up took.";
        self.registry.histogram("tokenwatt_rollup_round_seconds", help, &labels).observe(took);
    }

    /// A round failed; the next one tries again.
    pub(super) fn failed(&self, rollup: &Rollup) {
        let help = "Rounds of a roll-up that failed and are tried again.";
        self.registry.counter("tokenwatt_rollup_failures_total", help, &labels(rollup)).inc();
    }

    /// How far the windows are behind the present.
    pub(super) fn lag(&self, rollup: &Rollup, seconds: f64) {
        let help = "Time since the end of the last window that is built.";
        self.registry.gauge("tokenwatt_rollup_lag_seconds", help, &labels(rollup)).set(seconds);
    }
}

fn labels(rollup: &Rollup) -> [(&'static str, String); 1] {
    [("table", rollup.table.name.to_owned())]
}
