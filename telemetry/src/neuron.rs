//! What AWS Neuron says of its devices: one JSON document of `neuron-monitor`, and the power line of the driver's sysfs.
//!
//! Everything may be missing: a process that ended and a group that failed just disappear, and what is not there is
//! unknown, never 0. All counts of `neuron-monitor` are those of one period. Source of names and units: the Neuron SDK
//! 2.32 user guide of `neuron-monitor`, and the driver's `neuron_power.c`.

pub mod ls;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// One document: the state of a host in one period.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Processes that use the devices.
    #[serde(deserialize_with = "or_default")]
    pub neuron_runtime_data: Vec<Runtime>,
    /// The host.
    #[serde(deserialize_with = "or_default")]
    pub system_data: System,
    /// The EC2 instance.
    #[serde(deserialize_with = "or_default")]
    pub instance_info: Instance,
    /// The devices.
    #[serde(deserialize_with = "or_default")]
    pub neuron_hardware_info: Hardware,
    /// Which pod holds which core, where the monitor is asked for it.
    #[serde(deserialize_with = "or_default")]
    pub neuron_k8s_info: Kubernetes,
}

/// One process that uses the devices.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Runtime {
    /// Process id.
    pub pid: Option<i64>,
    /// Tag of the process, its id if it has none.
    pub neuron_runtime_tag: Option<String>,
    /// Why there is no report, empty if there is one.
    pub error: Option<String>,
    /// What it did in the period.
    #[serde(deserialize_with = "or_default")]
    pub report: Activity,
}

/// What a process did in the period.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// NeuronCores in use.
    #[serde(deserialize_with = "or_default")]
    pub neuroncore_counters: Cores,
    /// Executions.
    #[serde(deserialize_with = "or_default")]
    pub execution_stats: Executions,
    /// Memory.
    #[serde(deserialize_with = "or_default")]
    pub memory_used: Memory,
    /// CPU.
    #[serde(deserialize_with = "or_default")]
    pub neuron_runtime_vcpu_usage: Vcpu,
}

/// NeuronCores in use; a core that is not in use is not here.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Cores {
    /// Length of the period, seconds.
    pub period: Option<f64>,
    /// By index on the host.
    #[serde(deserialize_with = "or_default")]
    pub neuroncores_in_use: BTreeMap<String, Core>,
}

/// One NeuronCore.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Core {
    /// Share of the period in which it executed, percent.
    pub neuroncore_utilization: Option<f64>,
    /// Floating point operations per second, those of padding included.
    pub flops: Option<f64>,
}

/// Executions of compiled models in the period.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Executions {
    /// Length of the period, seconds.
    pub period: Option<f64>,
    /// Failed executions by kind.
    #[serde(deserialize_with = "or_default")]
    pub error_summary: BTreeMap<String, Option<f64>>,
    /// Executions by outcome.
    #[serde(deserialize_with = "or_default")]
    pub execution_summary: BTreeMap<String, Option<f64>>,
    /// Latency of executions.
    #[serde(deserialize_with = "or_default")]
    pub latency_stats: Latencies,
}

/// Latency of executions, not of requests: seconds by percentile (`p50`). `null` when nothing ran.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Latencies {
    /// As the process saw it.
    pub total_latency: Option<BTreeMap<String, Option<f64>>>,
    /// On the device alone.
    pub device_latency: Option<BTreeMap<String, Option<f64>>>,
}

/// Memory of a process.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Bytes.
    #[serde(deserialize_with = "or_default")]
    pub neuron_runtime_used_bytes: UsedBytes,
}

/// Bytes in use by a process.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct UsedBytes {
    /// On the host.
    pub host: Option<f64>,
    /// On all its devices.
    pub neuron_device: Option<f64>,
    /// By place.
    #[serde(deserialize_with = "or_default")]
    pub usage_breakdown: Breakdown,
}

/// Bytes in use by place.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Breakdown {
    /// Per NeuronCore, by what they hold.
    #[serde(deserialize_with = "or_default")]
    pub neuroncore_memory_usage: BTreeMap<String, BTreeMap<String, Option<f64>>>,
}

/// CPU of a process or host.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Vcpu {
    /// Percent by mode, of a process.
    #[serde(deserialize_with = "or_default")]
    pub vcpu_usage: BTreeMap<String, Option<f64>>,
    /// Percent by mode, of a host.
    #[serde(deserialize_with = "or_default")]
    pub average_usage: BTreeMap<String, Option<f64>>,
}

/// The host.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct System {
    /// Memory errors.
    #[serde(deserialize_with = "or_default")]
    pub neuron_hw_counters: HardwareCounters,
    /// CPU.
    #[serde(deserialize_with = "or_default")]
    pub vcpu_usage: Vcpu,
    /// Memory.
    #[serde(deserialize_with = "or_default")]
    pub memory_info: MemoryInfo,
}

/// Errors that the hardware counted in the period.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HardwareCounters {
    /// Length of the period, seconds.
    pub period: Option<f64>,
    /// Per device; `null` inside a container.
    #[serde(deserialize_with = "or_default")]
    pub neuron_devices: Vec<DeviceErrors>,
}

/// Memory errors of one device.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DeviceErrors {
    /// Index on the host.
    pub neuron_device_index: Option<u32>,
    /// Corrected in device memory.
    pub mem_ecc_corrected: Option<f64>,
    /// Not corrected in device memory.
    pub mem_ecc_uncorrected: Option<f64>,
    /// Corrected on the chip.
    pub sram_ecc_corrected: Option<f64>,
    /// Not corrected on the chip.
    pub sram_ecc_uncorrected: Option<f64>,
}

/// Memory of the host, bytes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct MemoryInfo {
    /// There is.
    pub memory_total_bytes: Option<f64>,
    /// In use.
    pub memory_used_bytes: Option<f64>,
}

/// The EC2 instance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Instance {
    /// Name tag.
    pub instance_name: Option<String>,
    /// Instance id.
    pub instance_id: Option<String>,
    /// Instance type.
    pub instance_type: Option<String>,
    /// Availability zone.
    pub instance_availability_zone: Option<String>,
    /// Region.
    pub instance_region: Option<String>,
    /// Machine image.
    pub ami_id: Option<String>,
}

/// The devices of the host.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Hardware {
    /// Such as `inferentia2` or `trainium2`.
    pub neuron_device_type: Option<String>,
    /// Devices, each a chip.
    pub neuron_device_count: Option<u32>,
    /// Memory of one device, bytes.
    pub neuron_device_memory_size: Option<f64>,
    /// NeuronCores of one device.
    pub neuroncore_per_device_count: Option<u32>,
}

/// Which pod holds which core.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Kubernetes {
    /// By index of the core.
    #[serde(deserialize_with = "or_default")]
    pub neuroncores_k8s_info: BTreeMap<String, Pod>,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Its name.
    pub pod_name: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
}

/// `null` is as good as missing.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Why a line is no document of `neuron-monitor`.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Not JSON, or not of this shape.
    #[error("not a document of neuron-monitor")]
    Json(#[from] serde_json::Error),
    /// JSON, but nothing that neuron-monitor writes.
    #[error("none of neuron-monitor's groups is in the document")]
    Foreign,
}

/// Groups of which a document holds at least one.
const GROUPS: [&str; 4] = ["neuron_runtime_data", "system_data", "instance_info", "neuron_hardware_info"];

/// Reads one line of `neuron-monitor`'s output.
///
/// # Errors
/// If it is not such a document.
pub fn parse(line: &[u8]) -> Result<Report, Fault> {
    let groups: BTreeMap<String, serde::de::IgnoredAny> = serde_json::from_slice(line)?;
    if !GROUPS.iter().any(|group| groups.contains_key(*group)) {
        return Err(Fault::Foreign);
    }
    Ok(serde_json::from_slice(line)?)
}

/// One reading of `stats/power/utilization` below a device in sysfs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// When the minute ended that it sums up, seconds since 1970-01-01 UTC.
    pub epoch_s: i64,
    /// Mean share of the maximum power above the background, 0 to 1.
    pub average: f64,
}

/// Reads `status,epoch,min,max,average`. `None` if the device says that it has no data: that is unknown, not 0.
///
/// # Errors
/// What is wrong with the line.
pub fn power(line: &str) -> Result<Option<Power>, &'static str> {
    let fields: Vec<&str> = line.trim().split(',').map(str::trim).collect();
    match fields.as_slice() {
        ["POWER_STATUS_VALID", epoch, _, _, average] => {
            let epoch_s = epoch.parse().map_err(|_| "the time is no whole number of seconds")?;
            let percent: f64 = average.trim_end_matches('%').parse().map_err(|_| "the average is no number")?;
            if !(0.0..=100.0).contains(&percent) {
                return Err("the average is no percentage");
            }
            Ok(Some(Power { epoch_s, average: percent / 100.0 }))
        }
        ["POWER_STATUS_NO_DATA" | "POWER_STATUS_INVALID", ..] => Ok(None),
        _ => Err("not `status,epoch,min,max,average`"),
    }
}

#[cfg(test)]
mod tests;
