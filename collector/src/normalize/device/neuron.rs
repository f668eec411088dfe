//! AWS Neuron, as neuron-monitor counts it: per NeuronCore, without power, energy or temperature.
//!
//! Its JSON has percent and its Prometheus companion ratios; which is which is told by the name, never by the value. The
//! memory in use is given in five parts.

use super::source::{Family, Figure, Kind, scaled, source};

pub(super) const NEURON: Family = Family {
    device: &["neuroncore"],
    // A core and a chip are both numbered from 0.
    device_prefix: "nc",
    vendor: Some("AWS"),
    utilization_kind: Some("executing"),
    ..Family::new(
        "neuron-monitor",
        Kind::Accelerator,
        &[
            source("neuroncore_utilization_ratio", Figure::Utilization),
            scaled("neuroncore_utilization", Figure::Utilization, 0.01),
            source("neuroncore_memory_usage_constants", Figure::Constants),
            source("neuroncore_memory_usage_model_code", Figure::ModelCode),
            source("neuroncore_memory_usage_model_shared_scratchpad", Figure::Scratchpad),
            source("neuroncore_memory_usage_runtime_memory", Figure::RuntimeMemory),
            source("neuroncore_memory_usage_tensors", Figure::Tensors),
        ],
    )
};
