//! What `neuron-ls --json-output` says: which devices there are, and who uses them.
//!
//! Source of the names: the Neuron SDK 2.32 user guide of `neuron-ls`.

use serde::{Deserialize, Deserializer};

use super::{Fault, or_default};

/// One device, a chip.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Index on the host.
    pub neuron_device: Option<u32>,
    /// PCI address.
    pub bdf: Option<String>,
    /// NeuronCores.
    pub nc_count: Option<u32>,
    /// Memory, bytes.
    pub memory_size: Option<f64>,
    /// Devices that it has a link to.
    #[serde(deserialize_with = "or_default")]
    pub connected_to: Vec<u32>,
    /// NUMA node; neuron-ls writes it as a text.
    #[serde(deserialize_with = "text_or_number")]
    pub numa_node: Option<i64>,
    /// Processes that use it.
    #[serde(deserialize_with = "or_default")]
    pub neuron_processes: Vec<Process>,
}

/// A process that uses a device.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Process id.
    pub pid: Option<i64>,
    /// What it runs.
    pub command: Option<String>,
    /// Version of its runtime.
    pub neuron_runtime_version: Option<String>,
}

/// More devices than a host has.
const DEVICES_MAX: usize = 1_024;

/// Reads the document. A host without devices gives an empty list, or none at all where the driver is missing.
///
/// # Errors
/// If it is not such a document.
pub fn parse(document: &[u8]) -> Result<Vec<Device>, Fault> {
    let devices: Vec<Device> = serde_json::from_slice(document)?;
    if devices.len() > DEVICES_MAX || devices.iter().any(|device| device.neuron_device.is_none()) {
        return Err(Fault::Foreign);
    }
    Ok(devices)
}

fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_i64().or_else(|| value.as_str()?.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"[
      {"neuron_device": 0, "bdf": "00:1f.0", "cpu_affinity": "0-95", "numa_node": "0", "connected_to": [11, 1], "nc_count": 2,
       "logical_neuroncore_config": 1, "memory_size": 34359738368, "neuroncore_ids": [0, 1],
       "neuron_processes": [{"pid": 7, "command": "vllm serve", "neuron_runtime_version": "2.34.10"}]},
      {"neuron_device": 1, "nc_count": 2, "memory_size": 34359738368, "numa_node": -1, "connected_to": null}]"#;

    /// Devices, their memory and who uses them; what is missing or null is unknown.
    #[test]
    fn devices_are_read() {
        let devices = parse(TWO.as_bytes()).unwrap();
        assert_eq!((devices.len(), devices[0].memory_size, devices[0].numa_node), (2, Some(34_359_738_368.0), Some(0)));
        assert_eq!(devices[0].neuron_processes[0].command.as_deref(), Some("vllm serve"));
        assert_eq!(
            (devices[1].numa_node, devices[1].bdf.as_deref(), devices[1].connected_to.len()),
            (Some(-1), None, 0)
        );
        assert_eq!(parse(b"[]").unwrap(), []);
    }

    /// Documents cut short, of other programs, or changed at any byte are an error or devices, and nothing else.
    #[test]
    fn broken_documents_are_errors() {
        for length in 0..TWO.len() {
            assert!(parse(&TWO.as_bytes()[..length]).is_err(), "{length}");
        }
        assert!(matches!(parse(b"[{\"gpu\": 1}]"), Err(Fault::Foreign)));
        assert!(parse(b"{}").is_err());
        for at in 0..TWO.len() {
            for mark in [b'"', b'{', b'}', b'[', b'0', b'-', 0xff] {
                let mut bytes = TWO.as_bytes().to_vec();
                bytes[at] = mark;
                let _ = parse(&bytes);
            }
        }
    }
}
