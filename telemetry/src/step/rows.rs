//! The published rows.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::dated;

/// One published measurement of a static batch on Inferentia2 or Trainium1.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct BenchmarkRow {
    /// Such as `inf2.48xlarge`.
    pub instance_type: String,
    /// Such as `Llama-3-8B`.
    pub model: String,
    /// Tensor-parallel degree: cores.
    #[serde(rename = "tp_degree")]
    pub tensor_parallel: u32,
    /// Sequences in the batch.
    #[serde(rename = "batch_size")]
    pub batch: u32,
    /// Longest sequence that was compiled, in tokens.
    pub sequence_length: u32,
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Such as `int8`.
    pub weight_type: String,
    /// Median time to first token, milliseconds.
    pub ttft_p50_ms: f64,
    /// Median time per output token, milliseconds.
    pub tpot_p50_ms: f64,
    /// 99th percentile of it, milliseconds.
    pub tpot_p99_ms: f64,
    /// Such as `2.18.1`.
    #[serde(rename = "neuron_version")]
    pub sdk: String,
}

/// One published measurement of a server that keeps a batch of chats running on GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuRow {
    /// `h100` or `b200`.
    pub gpu: String,
    /// GPUs that the model is spread over.
    pub gpus: u32,
    /// Such as `Qwen/Qwen3-8B`.
    pub model: String,
    /// Mean number of sequences in a step.
    pub batch: f64,
    /// Median gap between tokens, milliseconds.
    pub itl_p50_ms: f64,
    /// Mean watts of one GPU.
    pub watts: f64,
    /// Output tokens a second of all GPUs.
    pub tokens_per_s: f64,
}

/// What a serving stack on Inferentia2 published: an unloaded step, and prompts one after another.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ServingRow {
    /// Such as `inf2.48xlarge`.
    pub instance_type: String,
    /// Such as `Llama-3.1-8B`.
    pub model: String,
    /// Such as `bf16`.
    pub weight_type: String,
    /// Cores.
    #[serde(rename = "tp_degree")]
    pub tensor_parallel: u32,
    /// Compiled slots.
    pub slots: u32,
    /// The one compiled prompt length, tokens.
    pub prompt_bucket: u32,
    /// Gap between tokens with short contexts, milliseconds.
    pub itl_low_ms: f64,
    /// The same with long ones.
    pub itl_high_ms: f64,
    /// Time to first token of the last of `slots` prompts that came together, seconds.
    pub ttft_full_s: f64,
    /// Where it was published.
    pub source: String,
}

const NEURON: &str = include_str!("../../../data/neuron_decoder_benchmarks.csv");
const SERVING: &str = include_str!("../../../data/neuron_serving_benchmarks.csv");
const GPU: &str = include_str!("../../../data/mlenergy_extract.csv");

static NEURON_ROWS: LazyLock<Vec<BenchmarkRow>> = LazyLock::new(|| dated::rows(NEURON).collect());
static SERVING_ROWS: LazyLock<Vec<ServingRow>> = LazyLock::new(|| dated::rows(SERVING).collect());
static GPU_ROWS: LazyLock<Vec<GpuRow>> = LazyLock::new(|| dated::rows(GPU).filter_map(EnergyRow::gpu).collect());

/// The decoder benchmarks that AWS publishes; source and licence stand in `data/NOTICE`.
pub fn neuron() -> &'static [BenchmarkRow] {
    &NEURON_ROWS
}

/// The serving benchmarks of optimum-neuron.
pub fn serving() -> &'static [ServingRow] {
    &SERVING_ROWS
}

/// The chat rows of ML.ENERGY's leaderboard for dense models in bfloat16 that [`super::ARCHITECTURES`] knows.
pub fn gpu() -> &'static [GpuRow] {
    &GPU_ROWS
}

#[derive(Deserialize)]
struct EnergyRow {
    model: String,
    task: String,
    weight_precision: String,
    gpu_model: String,
    num_gpus: u32,
    avg_batch_size: f64,
    avg_power_w_per_gpu: f64,
    output_tok_per_s: f64,
    median_itl_ms: f64,
}

impl EnergyRow {
    fn gpu(self) -> Option<GpuRow> {
        let known = super::Architecture::of(&self.model).is_some();
        let wanted = known && self.task == "lm-arena-chat" && self.weight_precision == "bfloat16";
        wanted.then(|| GpuRow {
            gpu: self.gpu_model.to_lowercase(),
            gpus: self.num_gpus,
            model: self.model,
            batch: self.avg_batch_size,
            itl_p50_ms: self.median_itl_ms,
            watts: self.avg_power_w_per_gpu,
            tokens_per_s: self.output_tok_per_s,
        })
    }
}

/// Lines of a file that should be rows.
#[cfg(test)]
pub(crate) fn lines() -> usize {
    NEURON.lines().skip(1).filter(|line| !line.is_empty()).count()
}
