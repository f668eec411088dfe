//! `neuron.json`: what lies in a folder of compiled graphs.
//!
//! ```text
//! neuron.json            this
//! prefill-128.neff …     one compiled graph for each bucket
//! weights/tp0_sharded_checkpoint.safetensors …   one file for each rank
//! tokenizer.json, tokenizer_config.json
//! ```

use std::path::{Component, Path};

use serde::Deserialize;

use crate::schedule::{StepKind, StepPlan};

/// What was compiled, and how.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// Model name that clients send.
    pub(super) name: String,
    /// NeuronCores that one step spans, each a rank.
    pub(super) tensor_parallel: u32,
    /// Sequences of a decode step.
    pub(super) slots: u32,
    /// How the weights are stored.
    pub(super) weights: Weights,
    /// Token ids that end a text.
    pub(super) end_tokens: Vec<u32>,
    /// One for each bucket.
    pub(super) graphs: Vec<Graph>,
    /// Tensors that keep their content from step to step, such as the KV cache.
    #[serde(default)]
    pub(super) state: Vec<State>,
    /// What the graphs call what they are given.
    #[serde(default)]
    pub(super) tensors: Names,
}

/// How the weights are stored on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Weights {
    Float32,
    Bfloat16,
    /// Weight-only quantisation: the matrices in 8 bits, their scales and everything computed in a float type.
    Int8,
}

impl Weights {
    pub(super) fn name(self) -> &'static str {
        match self {
            Weights::Float32 => "f32",
            Weights::Bfloat16 => "bf16",
            Weights::Int8 => "int8",
        }
    }
}

/// What a graph computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// One whole prompt.
    Prefill,
    /// The next token of every slot.
    Decode,
}

/// One compiled graph.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Graph {
    pub(super) phase: Phase,
    /// Bucket in tokens: of the prompt, or of the context.
    pub(super) length: u32,
    /// File below the folder.
    pub(super) neff: String,
}

/// A tensor that a graph reads under one name and writes under another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    pub(super) input: String,
    pub(super) output: String,
}

/// Names of the tensors that change with every step. The defaults are those of NxD Inference.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Names {
    pub(super) tokens: String,
    pub(super) positions: String,
    pub(super) mask: String,
    pub(super) slots: String,
    pub(super) sampling: String,
    pub(super) output: String,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            tokens: "input_ids".to_owned(),
            positions: "position_ids".to_owned(),
            mask: "attention_mask".to_owned(),
            slots: "seq_ids".to_owned(),
            sampling: "sampling_params".to_owned(),
            output: "tokens".to_owned(),
        }
    }
}

/// Tensor parallel degrees of an instance family: the collectives of its chips know no others.
/// Source: Neuron SDK 2.32, guide of generative models; family codes of `nrt/nrt.h`.
const DEGREES: &[(u32, &str, &[u32])] =
    &[(2, "Trn1", &[1, 2, 8, 16, 32]), (3, "Trn1n", &[1, 2, 8, 16, 32]), (4, "Inf2", &[1, 2, 4, 8, 12, 24])];

/// More graphs, and more slots, than anybody compiles.
const GRAPHS_MAX: usize = 1_024;
const SLOTS_MAX: u32 = 4_096;
const LENGTH_MAX: u32 = 16_777_216;
const RANKS_MAX: u32 = 256;

impl Manifest {
    /// Reads the file of a folder.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn load(folder: &Path) -> Result<Self, String> {
        let path = folder.join("neuron.json");
        let text = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let manifest: Self = serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        manifest.check().map_err(|fault| format!("{}: {fault}", path.display()))?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        for (name, value, most) in
            [("tensor_parallel", self.tensor_parallel, RANKS_MAX), ("slots", self.slots, SLOTS_MAX)]
        {
            if !(1..=most).contains(&value) {
                return Err(format!("`{name}` is {value}, it must be from 1 to {most}"));
            }
        }
        if self.graphs.len() > GRAPHS_MAX {
            return Err(format!("more than {GRAPHS_MAX} graphs"));
        }
        if let Some(graph) = self.graphs.iter().find(|graph| !(2..=LENGTH_MAX).contains(&graph.length)) {
            return Err(format!("{} has the length {}", graph.neff, graph.length));
        }
        let is_inside = |file: &str| Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
        if let Some(graph) = self.graphs.iter().find(|graph| !is_inside(&graph.neff)) {
            return Err(format!("`{}` is no file below the folder", graph.neff));
        }
        let longest = |phase| self.lengths(phase).max();
        match (longest(Phase::Prefill), longest(Phase::Decode)) {
            (Some(_), Some(_)) => Ok(()),
            _ => Err("a prefill graph and a decode graph are needed at least".to_owned()),
        }
    }

    /// Refuses a machine that cannot run it.
    pub(super) fn fits(&self, family: u32, first_core: u32, cores: u32) -> Result<(), String> {
        let needed = first_core.saturating_add(self.tensor_parallel);
        if needed > cores {
            return Err(format!(
                "{} needs {} NeuronCores from core {first_core} on, and {cores} are visible here",
                self.name, self.tensor_parallel
            ));
        }
        match DEGREES.iter().find(|(known, ..)| *known == family) {
            Some((_, name, degrees)) if !degrees.contains(&self.tensor_parallel) => {
                Err(format!("{name} has no tensor parallel degree {}; it has {degrees:?}", self.tensor_parallel))
            }
            _ => Ok(()),
        }
    }

    fn lengths(&self, phase: Phase) -> impl Iterator<Item = u32> {
        self.graphs.iter().filter(move |graph| graph.phase == phase).map(|graph| graph.length)
    }

    /// Longest sequence: that of the longest decode graph.
    pub(super) fn max_len(&self) -> u32 {
        self.lengths(Phase::Decode).max().unwrap_or(0)
    }

    /// Longest prompt that a graph takes.
    pub(super) fn prompt_max(&self) -> u32 {
        self.lengths(Phase::Prefill).max().unwrap_or(0)
    }

    /// The smallest graph that holds a plan.
    ///
    /// # Errors
    /// If the plan is none that was compiled for.
    pub(super) fn graph(&self, plan: &StepPlan) -> Result<usize, String> {
        let phase = match (plan.kind, plan.work.as_slice()) {
            (StepKind::Prefill, [only]) if only.start == 0 && only.yields => Phase::Prefill,
            (StepKind::Decode, _) => Phase::Decode,
            _ => return Err("compiled graphs take one whole prompt, or the next token of every slot".to_owned()),
        };
        let length = plan.work.iter().map(|work| work.start + work.tokens).max().unwrap_or(0);
        let fitting =
            self.graphs.iter().enumerate().filter(|(_, graph)| graph.phase == phase && graph.length >= length);
        let smallest = fitting.min_by_key(|(_, graph)| graph.length).map(|(at, _)| at);
        smallest.ok_or_else(|| format!("no compiled graph holds {length} tokens"))
    }
}
