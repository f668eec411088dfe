//! Step times from the figures of hardware and model: a handful of coefficients for a whole family of machines.
//!
//! Most terms are times that the hardware would need if nothing got in its way: bytes over memory bandwidth, operations
//! over peak, messages over the link. The others (a time for each layer, for the context, for a prompt) are the same on every
//! machine of a family. So the difference between two machines of a family comes out of their figures alone.

use std::sync::LazyLock;

use super::hardware::{Architecture, Family, HEAD, Hardware};
use super::rows::{BenchmarkRow, GpuRow};
use super::{bucket, least};

/// A model on chips.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deployment<'a> {
    pub(super) hardware: &'a Hardware,
    pub(super) model: &'a Architecture,
    pub(super) chips: u32,
    /// Cores that the model is spread over.
    pub(super) degree: u32,
    pub(super) weight_type: &'a str,
}

/// One term of a formula.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
}

/// Terms of a decode step, by family. Context of the GPU rows is not published; [`GPU_CONTEXT`] stands for it.
pub(super) fn decode_terms(family: Family) -> &'static [Term] {
    match family {
        Family::Neuron => NEURON_DECODE,
        Family::Gpu => GPU_DECODE,
    }
}

const NEURON_DECODE: &[Term] = &[
    Term { name: "weights", meaning: "bytes of all weights ÷ memory bandwidth of all chips" },
    Term {
        name: "kv",
        meaning: "bytes of keys and values of all slots, heads padded to the degree ÷ memory bandwidth",
    },
    Term { name: "layers", meaning: "milliseconds a layer: launches and the start of two all-reduces" },
    Term { name: "messages", meaning: "bytes of two all-reduces a layer ÷ bandwidth between chips" },
    Term {
        name: "context",
        meaning: "milliseconds for each layer and 100,000 tokens of the context bucket, whatever the batch",
    },
];
const GPU_DECODE: &[Term] = &[
    Term { name: "weights", meaning: "bytes of all weights ÷ memory bandwidth of all chips" },
    Term { name: "kv", meaning: "bytes of keys and values of all sequences ÷ memory bandwidth" },
    Term { name: "layers", meaning: "milliseconds a layer: launches" },
    Term { name: "sequences", meaning: "milliseconds for each layer and 1,000 sequences" },
];
/// Terms of a prompt.
pub(super) const PREFILL: &[Term] = &[
    Term { name: "fixed", meaning: "milliseconds a prompt" },
    Term { name: "weights", meaning: "bytes of all weights ÷ memory bandwidth of all chips" },
    Term { name: "products", meaning: "2 operations for each parameter and token ÷ peak" },
    Term { name: "attention", meaning: "4 operations for each layer, head, channel and pair of tokens ÷ peak" },
];

/// Tokens of context that the GPU rows are taken to have: short chats.
pub(super) const GPU_CONTEXT: f64 = 1024.0;
/// Share of its peak at which a GPU computes prompts. Assumed: the figure that inference-sim, a public simulator, carries
/// for the H100; the rows have no prompts.
pub(super) const GPU_PREFILL_SHARE: f64 = 0.45;

impl Deployment<'_> {
    fn memory_rate(&self) -> f64 {
        self.hardware.memory_rate * f64::from(self.chips)
    }

    fn compute_rate(&self) -> f64 {
        self.hardware.compute_rate * f64::from(self.chips)
    }

    fn weights_ms(&self) -> f64 {
        1e3 * self.model.weight_bytes(self.weight_type) / self.memory_rate()
    }

    /// Terms of a decode step in milliseconds, in the order of [`decode_terms`].
    pub(super) fn decode(&self, slots: f64, context: f64) -> Vec<f64> {
        let layers = f64::from(self.model.layers);
        let kv_ms = 1e3 * slots * context * self.model.token_bytes(self.degree) / self.memory_rate();
        match self.hardware.family {
            Family::Neuron => {
                let message_bytes = 2.0 * layers * slots * f64::from(self.model.hidden) * 2.0;
                let messages_ms = 1e3 * message_bytes / self.hardware.link_rate;
                vec![self.weights_ms(), kv_ms, layers, messages_ms, layers * context / 1e5]
            }
            Family::Gpu => vec![self.weights_ms(), kv_ms, layers, layers * slots / 1e3],
        }
    }

    /// Terms of a prompt in milliseconds, in the order of [`PREFILL`].
    pub(super) fn prefill(&self, tokens: f64) -> Vec<f64> {
        let (layers, heads) = (f64::from(self.model.layers), f64::from(self.model.heads));
        let products_ms = 1e3 * 2.0 * self.model.parameters * tokens / self.compute_rate();
        let attention_ms = 1e3 * 4.0 * layers * heads * HEAD * tokens * tokens / self.compute_rate();
        vec![1.0, self.weights_ms(), products_ms, attention_ms]
    }
}

/// Coefficients of a family, and how well they repeat its rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fit {
    pub(super) decode: Vec<f64>,
    pub(super) prefill: Vec<f64>,
}

static NEURON_FIT: LazyLock<Option<Fit>> = LazyLock::new(|| neuron(super::rows::neuron()));
static GPU_FIT: LazyLock<Option<Fit>> = LazyLock::new(|| gpu(super::rows::gpu()));

/// The coefficients of a family, from all its rows.
pub(super) fn of(family: Family) -> Option<&'static Fit> {
    match family {
        Family::Neuron => NEURON_FIT.as_ref(),
        Family::Gpu => GPU_FIT.as_ref(),
    }
}

/// Fits the rows of the Neuron family. Prompts come from rows of batch 1: larger batches were computed together.
pub(super) fn neuron<'a>(rows: impl IntoIterator<Item = &'a BenchmarkRow> + Clone) -> Option<Fit> {
    let decode: Vec<_> =
        rows.clone().into_iter().filter_map(|row| Some((row.decode_terms()?, row.tpot_p50_ms))).collect();
    let single = rows.into_iter().filter(|row| row.batch == 1);
    let prefill: Vec<_> = single.filter_map(|row| Some((row.prefill_terms()?, row.ttft_p50_ms))).collect();
    Some(Fit { decode: least::fit(&decode)?, prefill: least::fit(&prefill)? })
}

/// Fits the rows of the GPUs. The share of the peak that prompts reach is assumed.
pub(super) fn gpu<'a>(rows: impl IntoIterator<Item = &'a GpuRow>) -> Option<Fit> {
    let rows: Vec<_> = rows.into_iter().filter_map(|row| Some((row.decode_terms()?, row.itl_p50_ms))).collect();
    let share = 1.0 / GPU_PREFILL_SHARE;
    Some(Fit { decode: least::fit(&rows)?, prefill: vec![0.0, 0.0, share, share] })
}

impl BenchmarkRow {
    pub(super) fn deployment(&self) -> Option<Deployment<'_>> {
        let hardware = super::hardware(&self.instance_type)?;
        let chips = self.tensor_parallel.div_ceil(hardware.cores);
        let model = Architecture::of(&self.model)?;
        Some(Deployment { hardware, model, chips, degree: self.tensor_parallel, weight_type: &self.weight_type })
    }

    pub(super) fn decode_terms(&self) -> Option<Vec<f64>> {
        let context = bucket(self.sequence_length, u32::MAX);
        Some(self.deployment()?.decode(f64::from(self.batch), f64::from(context)))
    }

    pub(super) fn prefill_terms(&self) -> Option<Vec<f64>> {
        Some(self.deployment()?.prefill(f64::from(bucket(self.input_tokens, u32::MAX))))
    }
}

impl GpuRow {
    pub(super) fn deployment(&self) -> Option<Deployment<'_>> {
        let hardware = super::hardware(&self.gpu)?;
        let model = Architecture::of(&self.model)?;
        Some(Deployment { hardware, model, chips: self.gpus, degree: self.gpus, weight_type: "bf16" })
    }

    pub(super) fn decode_terms(&self) -> Option<Vec<f64>> {
        Some(self.deployment()?.decode(self.batch, GPU_CONTEXT))
    }
}
