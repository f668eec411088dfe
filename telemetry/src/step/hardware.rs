//! What the machines and the models consist of: the figures from which step times are reckoned.

/// One kind of accelerator in its machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Instance type, or accelerator where replicas take single ones of a machine.
    pub name: &'static str,
    /// Product name of the accelerator.
    pub accelerator: &'static str,
    /// Maker.
    pub vendor: &'static str,
    /// Chips that one replica takes unless told otherwise.
    pub chips: u32,
    /// Cores of a chip over which a model is spread; 1 where a chip is one device.
    pub cores: u32,
    /// Memory of one chip, bytes.
    pub memory_bytes: u64,
    /// Memory bandwidth of one chip, bytes a second.
    pub memory_rate: f64,
    /// Peak of dense 16-bit floating point of one chip, operations a second.
    pub compute_rate: f64,
    /// Bandwidth between chips, bytes a second of one chip.
    pub link_rate: f64,
    /// Thermal design power of one chip, where its maker publishes it, watts.
    pub full_w: Option<f64>,
    /// Machines that share coefficients with it.
    pub family: Family,
    /// Where the figures stand.
    pub source: &'static str,
}

/// Machines whose software is alike, so that one set of coefficients holds for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Inferentia2 and Trainium1: the same core, other numbers of chips and links.
    Neuron,
    /// NVIDIA data-centre GPUs.
    Gpu,
}

const GIB: u64 = 1 << 30;
const GIB_S: f64 = GIB as f64;
const GB_S: f64 = 1e9;
const TERA: f64 = 1e12;

const NEURON: &str = "AWS Neuron documentation, architecture pages of Inf2, Trn1 and NeuronCore-v2";
const DATASHEET: &str = "NVIDIA's data sheet of the SXM part, dense rates";

/// All machines with published rows.
pub const HARDWARE: &[Hardware] = &[
    Hardware {
        name: "inf2.48xlarge",
        accelerator: "inferentia2",
        vendor: "AWS",
        chips: 12,
        cores: 2,
        memory_bytes: 32 * GIB,
        memory_rate: 820.0 * GIB_S,
        compute_rate: 190.0 * TERA,
        link_rate: 192.0 * GIB_S,
        full_w: None,
        family: Family::Neuron,
        source: NEURON,
    },
    Hardware {
        name: "trn1.32xlarge",
        accelerator: "trainium1",
        vendor: "AWS",
        chips: 16,
        cores: 2,
        memory_bytes: 32 * GIB,
        memory_rate: 820.0 * GIB_S,
        compute_rate: 190.0 * TERA,
        link_rate: 384.0 * GIB_S,
        full_w: None,
        family: Family::Neuron,
        source: NEURON,
    },
    Hardware {
        name: "h100",
        accelerator: "h100",
        vendor: "NVIDIA",
        chips: 1,
        cores: 1,
        memory_bytes: 80 * GIB,
        memory_rate: 3_350.0 * GB_S,
        compute_rate: 989.0 * TERA,
        link_rate: 900.0 * GB_S,
        full_w: Some(700.0),
        family: Family::Gpu,
        source: DATASHEET,
    },
    Hardware {
        name: "b200",
        accelerator: "b200",
        vendor: "NVIDIA",
        chips: 1,
        cores: 1,
        memory_bytes: 180 * GIB,
        memory_rate: 8_000.0 * GB_S,
        compute_rate: 2_250.0 * TERA,
        link_rate: 1_800.0 * GB_S,
        full_w: Some(1_000.0),
        family: Family::Gpu,
        source: DATASHEET,
    },
];

/// The machine of that name.
pub fn hardware(name: &str) -> Option<&'static Hardware> {
    HARDWARE.iter().find(|hardware| hardware.name == name)
}

/// A decoder of the Llama kind. Head size is 128 in all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Architecture {
    /// Name in the published rows.
    pub name: &'static str,
    /// All parameters.
    pub parameters: f64,
    /// Those of the input and output tables, which stay in 2 bytes where the rest is INT8.
    pub embedding: f64,
    /// Layers.
    pub layers: u32,
    /// Hidden size.
    pub hidden: u32,
    /// Attention heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
}

/// Size of a head.
pub(super) const HEAD: f64 = 128.0;

const fn architecture(
    name: &'static str,
    parameters: f64,
    embedding: f64,
    (layers, hidden, heads, kv_heads): (u32, u32, u32, u32),
) -> Architecture {
    Architecture { name, parameters, embedding, layers, hidden, heads, kv_heads }
}

/// The models of the published rows, from their configuration files on Hugging Face.
pub const ARCHITECTURES: &[Architecture] = &[
    architecture("Llama-3-8B", 8.03e9, 1.05e9, (32, 4096, 32, 8)),
    architecture("Llama-3-70B", 70.55e9, 2.10e9, (80, 8192, 64, 8)),
    architecture("Llama-2-7b", 6.74e9, 0.262e9, (32, 4096, 32, 32)),
    architecture("Llama-2-13b", 13.02e9, 0.328e9, (40, 5120, 40, 40)),
    architecture("Llama-2-70b", 68.98e9, 0.524e9, (80, 8192, 64, 8)),
    architecture("Mistral-7B-Instruct-v0.2", 7.24e9, 0.262e9, (32, 4096, 32, 8)),
    architecture("CodeLlama-13b-hf", 13.02e9, 0.328e9, (40, 5120, 40, 40)),
    architecture("Llama-3.1-8B", 8.03e9, 1.05e9, (32, 4096, 32, 8)),
    architecture("meta-llama/Llama-3.1-8B-Instruct", 8.03e9, 1.05e9, (32, 4096, 32, 8)),
    architecture("meta-llama/Llama-3.1-70B-Instruct", 70.55e9, 2.10e9, (80, 8192, 64, 8)),
    architecture("meta-llama/Llama-3.3-70B-Instruct", 70.55e9, 2.10e9, (80, 8192, 64, 8)),
    architecture("Qwen/Qwen3-8B", 8.19e9, 1.24e9, (36, 4096, 32, 8)),
    architecture("Qwen/Qwen3-14B", 14.77e9, 1.56e9, (40, 5120, 40, 8)),
    architecture("Qwen/Qwen3-32B", 32.76e9, 1.56e9, (64, 5120, 64, 8)),
];

impl Architecture {
    /// The model of that name.
    pub fn of(name: &str) -> Option<&'static Architecture> {
        ARCHITECTURES.iter().find(|architecture| architecture.name == name)
    }

    /// Bytes of the weights.
    pub fn weight_bytes(&self, weight_type: &str) -> f64 {
        let bytes = if weight_type == "int8" { 1.0 } else { 2.0 };
        (self.parameters - self.embedding) * bytes + self.embedding * 2.0
    }

    /// Bytes of keys and values of one token, in 2 bytes each. Heads are repeated or padded until every one of
    /// `tensor_parallel` cores has the same number.
    pub fn token_bytes(&self, tensor_parallel: u32) -> f64 {
        let degree = tensor_parallel.max(1);
        let heads = self.kv_heads.max(degree).div_ceil(degree) * degree;
        2.0 * f64::from(self.layers) * f64::from(heads) * HEAD * 2.0
    }
}
