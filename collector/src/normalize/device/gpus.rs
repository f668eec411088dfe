//! GPUs: OpenTelemetry's hardware metrics, which our own nodes send too, dcgm-exporter, Triton, OpenLIT, Kepler.
//!
//! DCGM counts millijoules and MiB, and percent in `GPU_UTIL` but ratios in `PROF_*`. Each of its MIG slices, and each pod of
//! a shared GPU, repeats the whole GPU's watts: they are one device here.

use telemetry::names;

use super::source::{Family, Figure, Kind, Source, When, scaled, source, when};

/// Ours and OpenTelemetry's. A GPU's video encoders have a utilization of their own, which is not this one.
pub(super) const HARDWARE: Family = Family {
    device: &[names::HW_ID, "gpu.index"],
    ..Family::new("OpenTelemetry hardware metrics, Tokenwatt", Kind::Accelerator, HARDWARE_SOURCES)
};

const HARDWARE_SOURCES: &[Source] = &[
    source(names::HW_POWER, Figure::Power),
    source(names::HW_ENERGY, Figure::Energy),
    when(names::HW_UTILIZATION, Figure::Utilization, When::IsOrAbsent("hw.gpu.task", "general")),
    source(names::HW_MEMORY_USAGE, Figure::MemoryUsed),
    source(names::HW_MEMORY_LIMIT, Figure::MemoryTotal),
    source(names::HW_TEMPERATURE, Figure::Temperature),
];

/// OpenLIT's own names beside OpenTelemetry's.
pub(super) const OPENLIT: Family = Family {
    device: &[names::HW_ID, "gpu.index"],
    boundary: Some("board"),
    ..Family::new(
        "OpenLIT",
        Kind::Accelerator,
        &[
            source("hw.gpu.power.draw", Figure::Power),
            source("hw.gpu.energy.consumed", Figure::Energy),
            source("hw.gpu.temperature", Figure::Temperature),
        ],
    )
};

pub(super) const DCGM: Family = Family {
    device: &["UUID", "gpu"],
    vendor: Some("NVIDIA"),
    boundary: Some("board"),
    energy_method: Some("energy_counter"),
    utilization_kind: Some("executing"),
    ..Family::new(
        "dcgm-exporter",
        Kind::Accelerator,
        &[
            source("DCGM_FI_DEV_POWER_USAGE", Figure::Power),
            scaled("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Figure::Energy, 0.001),
            scaled("DCGM_FI_DEV_GPU_UTIL", Figure::Utilization, 0.01),
            source("DCGM_FI_PROF_GR_ENGINE_ACTIVE", Figure::EngineActive),
            source("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Figure::TensorActive),
            scaled("DCGM_FI_DEV_FB_USED", Figure::MemoryUsed, 1_048_576.0),
            scaled("DCGM_FI_DEV_FB_FREE", Figure::MemoryFree, 1_048_576.0),
            scaled("DCGM_FI_DEV_FB_RESERVED", Figure::MemoryReserved, 1_048_576.0),
            source("DCGM_FI_DEV_GPU_TEMP", Figure::Temperature),
        ],
    )
};

/// Triton counts joules, unlike DCGM, from which it has them.
pub(super) const TRITON: Family = Family {
    device: &["gpu_uuid"],
    vendor: Some("NVIDIA"),
    boundary: Some("board"),
    energy_method: Some("energy_counter"),
    utilization_kind: Some("executing"),
    ..Family::new(
        "Triton",
        Kind::Accelerator,
        &[
            source("nv_gpu_utilization", Figure::Utilization),
            source("nv_gpu_power_usage", Figure::Power),
            source("nv_energy_consumption", Figure::Energy),
            source("nv_gpu_memory_used_bytes", Figure::MemoryUsed),
            source("nv_gpu_memory_total_bytes", Figure::MemoryTotal),
        ],
    )
};

/// Of Kepler's figures those of whole GPUs: its shares of containers, processes and pods would count the same joules again.
pub(super) const KEPLER: Family = Family {
    device: &["gpu_uuid", "gpu"],
    boundary: Some("board"),
    ..Family::new(
        "Kepler, GPUs",
        Kind::Accelerator,
        &[source("kepler_node_gpu_watts", Figure::Power), source("kepler_node_gpu_joules_total", Figure::Energy)],
    )
};
