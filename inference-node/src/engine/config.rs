//! Which engine a node runs, and the settings of each.

use serde::{Deserialize, Serialize};

use super::{cpu, neuron, sim};
use crate::proxy;

/// Which engine a node runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// A calibrated model of accelerators; its text is made up.
    #[default]
    Sim,
    /// A real model on the CPU.
    Cpu,
    /// A model compiled for AWS Neuron devices.
    Neuron,
    /// Another engine upstream; the node adds the telemetry that it lacks.
    Proxy,
}

impl EngineKind {
    /// As settings name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Cpu => "cpu",
            Self::Neuron => "neuron",
            Self::Proxy => "proxy",
        }
    }
}

/// Settings of the engine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `sim`, `cpu`, `neuron` or `proxy`.
    pub kind: EngineKind,
    /// Settings of the `sim` engine.
    pub sim: sim::Config,
    /// Settings of the `cpu` engine.
    pub cpu: cpu::Config,
    /// Settings of the `neuron` engine.
    pub neuron: neuron::Config,
    /// Settings of the `proxy` engine.
    pub proxy: proxy::Config,
}

impl Config {
    /// Adds one line for every rule broken.
    pub(crate) fn validate(&self, faults: &mut Vec<String>) {
        self.sim.validate(faults);
        self.cpu.validate(faults);
        self.neuron.validate(faults);
        self.proxy.validate(faults);
        if self.kind == EngineKind::Cpu && self.cpu.model_path.as_os_str().is_empty() {
            faults.push(
                "node.engine.cpu.model_path is not set; give a GGUF file, or a directory with config.json, safetensors and tokenizer.json"
                    .to_owned(),
            );
        }
        if self.kind == EngineKind::Neuron && self.neuron.model_dir.as_os_str().is_empty() {
            let what = "the compiled model's directory, with neuron.json, graphs, weights and tokenizer.json";
            faults.push(format!("node.engine.neuron.model_dir is not set; give {what}"));
        }
    }
}
