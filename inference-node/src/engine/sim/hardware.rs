//! What the simulated instance types consist of.

use super::EngineDescription;

/// One instance type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hardware {
    instance_type: &'static str,
    pub(super) accelerator: &'static str,
    pub(super) vendor: &'static str,
    pub(super) chips: u32,
    /// Device memory of one chip.
    pub(super) memory_bytes: u64,
}

const GIB: u64 = 1 << 30;

/// AWS Neuron documentation, pages of the Inf2 and Trn1 architecture: 384 GiB on 12 chips, 512 GiB on 16.
const HARDWARE: &[Hardware] = &[
    Hardware {
        instance_type: "inf2.48xlarge",
        accelerator: "inferentia2",
        vendor: "AWS",
        chips: 12,
        memory_bytes: 32 * GIB,
    },
    Hardware {
        instance_type: "trn1.32xlarge",
        accelerator: "trainium1",
        vendor: "AWS",
        chips: 16,
        memory_bytes: 32 * GIB,
    },
];

/// Sizes of the published Llama models: name, parameters, embedding parameters (input and output
/// table, kept in 2 bytes), layers, KV heads. Head size is 128 in all of them.
const MODELS: &[(&str, u64, u64, u64, u64)] = &[
    ("Llama-3-8B", 8_030_000_000, 1_050_000_000, 32, 8),
    ("Llama-3-70B", 70_550_000_000, 2_100_000_000, 80, 8),
    ("Llama-2-7b", 6_740_000_000, 262_000_000, 32, 32),
    ("Llama-2-13b", 13_020_000_000, 328_000_000, 40, 40),
    ("Llama-2-70b", 68_980_000_000, 524_000_000, 80, 8),
];

/// The instance type of that name.
pub(super) fn of(instance_type: &str) -> Option<Hardware> {
    HARDWARE.iter().find(|hardware| hardware.instance_type == instance_type).copied()
}

impl Hardware {
    /// Memory of one chip that weights and the compiled KV cache take: fixed, since the cache of
    /// every slot is laid out at compile time. KV heads are repeated to the tensor-parallel degree.
    pub(super) fn used(self, engine: &EngineDescription) -> Option<u64> {
        let (_, parameters, embedding, layers, kv_heads) =
            MODELS.iter().find(|(name, ..)| *name == engine.model).copied()?;
        let bytes = if engine.quantization.as_deref() == Some("int8") { 1 } else { 2 };
        let weights = (parameters - embedding) * bytes + embedding * 2;
        let heads = kv_heads.max(u64::from(engine.tensor_parallel.unwrap_or(1)));
        let token = 2 * layers * heads * 128 * 2;
        let cache = token * u64::from(engine.slots) * u64::from(engine.max_len);
        Some((weights + cache) / u64::from(self.chips))
    }
}
