//! The node's own `/metrics`, under the names that vLLM's dashboards know.

use std::sync::Arc;

use service::metrics::Registry;
use telemetry::names;

use crate::engine::EngineDescription;
use crate::queue::Gauges;

/// Registers the live gauges.
pub(crate) fn register(registry: &Registry, engine: &EngineDescription, gauges: &Arc<Gauges>) {
    let labels = [("model_name", engine.model.clone()), ("engine", engine.engine.clone())];
    let observe = |name: &str, help: &str, read: fn(&Gauges) -> f64| {
        let gauges = Arc::clone(gauges);
        registry.observe(name, help, &labels, move || Some(read(&gauges)));
    };
    observe(names::ENGINE_RUNNING, "Sequences in the batch.", |gauges| f64::from(gauges.load().running));
    observe(names::ENGINE_WAITING, "Sequences that wait for a slot.", |gauges| f64::from(gauges.load().waiting));
    observe(names::ENGINE_KV_USAGE, "Share of the KV memory in use, 0 to 1.", |gauges| gauges.load().kv_usage);
    let slots = f64::from(engine.slots);
    if let Some(error) = engine.calibration_error {
        let help = "Mean error of the simulated step times against the rows they were fitted on; docs/calibration.md.";
        registry.observe("tokenwatt_node_calibration_error_ratio", help, &labels, move || Some(error));
    }
    registry.observe("tokenwatt_node_slots", "Sequences that a step can hold.", &labels, move || Some(slots));
}
