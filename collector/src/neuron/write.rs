//! A document of neuron-monitor, or the power of the devices, as one OTLP request.
//!
//! A NeuronCore is a device (`nc3`) of the chip it sits on (`neuron1`). Counts are those of the document's period, so
//! they are delta sums; percentiles cannot be merged, so they stay gauges that name their percentile.

use std::collections::BTreeMap;

use bytes::Bytes;
use telemetry::names;
use telemetry::neuron::ls::Device;
use telemetry::neuron::{Activity, Hardware, Instance, Report};

use super::power::Watts;
use crate::encode::metric::{self, Data, Head, Interval};
use crate::encode::{attribute, group, integer};

const SCOPE: &str = "tokenwatt.neuron";
/// Service of the samples where no label names another.
const SERVICE: &str = "neuron-monitor";
const VENDOR: &str = "AWS";

/// What is known of the host.
#[derive(Default)]
pub(super) struct Host {
    labels: BTreeMap<String, String>,
    /// Name of the machine, for hosts without an instance id.
    name: Option<String>,
    instance: Instance,
    hardware: Hardware,
}

impl Host {
    pub(super) fn new(labels: &BTreeMap<String, String>) -> Self {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
        Self { labels: labels.clone(), name, ..Self::default() }
    }

    /// Remembers who the host is, for samples that do not say it.
    pub(super) fn learn(&mut self, report: &Report) {
        if report.instance_info != Instance::default() {
            self.instance = report.instance_info.clone();
        }
        if report.neuron_hardware_info != Hardware::default() {
            self.hardware = report.neuron_hardware_info.clone();
        }
    }

    /// Takes from a list of devices what the monitor does not say.
    pub(super) fn count(&mut self, devices: &[Device]) {
        let Some(first) = devices.first() else { return };
        let hardware = &mut self.hardware;
        hardware.neuron_device_count = hardware.neuron_device_count.or(u32::try_from(devices.len()).ok());
        let cores = first.nc_count.filter(|_| devices.iter().all(|device| device.nc_count == first.nc_count));
        hardware.neuroncore_per_device_count = hardware.neuroncore_per_device_count.or(cores);
    }

    fn resource(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let of = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let told = [
            (names::SERVICE_NAME, Some(SERVICE.to_owned())),
            (names::CLOUD_PROVIDER, of(&self.instance.instance_id).map(|_| "aws".to_owned())),
            (names::HOST_ID, of(&self.instance.instance_id)),
            (names::HOST_TYPE, of(&self.instance.instance_type)),
            ("host.name", of(&self.instance.instance_name).or_else(|| self.name.clone())),
            ("host.image.id", of(&self.instance.ami_id)),
            (names::CLOUD_REGION, of(&self.instance.instance_region)),
            (names::CLOUD_ZONE, of(&self.instance.instance_availability_zone)),
        ];
        for (key, value) in told {
            if let Some(value) = value.filter(|_| !self.labels.contains_key(key)) {
                attribute(1, key, &value, &mut out);
            }
        }
        if let Some(chips) = self.hardware.neuron_device_count.filter(|_| !self.labels.contains_key(names::CHIPS)) {
            integer(1, names::CHIPS, i64::from(chips), &mut out);
        }
        self.labels.iter().for_each(|(key, value)| attribute(1, key, value, &mut out));
        out
    }

    /// Attributes of a device: a core, or a chip.
    fn device(&self, id: String) -> Pairs {
        let mut pairs = vec![
            (names::HW_ID, id),
            // OpenTelemetry has no other type for an accelerator; vendor and model tell it from a GPU.
            (names::HW_TYPE, "gpu".to_owned()),
            (names::HW_VENDOR, VENDOR.to_owned()),
        ];
        pairs.extend(self.hardware.neuron_device_type.clone().map(|model| (names::HW_MODEL, model)));
        pairs
    }
}

type Pairs = Vec<(&'static str, String)>;

/// Metrics as they grow.
struct Metrics {
    items: Vec<u8>,
    when: Interval,
}

impl Metrics {
    /// Appends a metric with the points that have a value.
    fn push(&mut self, name: &str, unit: &str, data: Data, points: impl IntoIterator<Item = (Pairs, Option<f64>)>) {
        let mut encoded = Vec::new();
        for (pairs, value) in points {
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            let mut attributes = Vec::new();
            let pairs = pairs.iter().map(|(key, value)| (*key, value.as_str()));
            metric::attributes(data, pairs, &mut attributes);
            metric::number(self.when, value, &attributes, &[], &mut encoded);
        }
        if !encoded.is_empty() {
            metric::metric(Head { name, unit, ..Head::default() }, data, &encoded, &mut self.items);
        }
    }

    fn finish(self, host: &Host) -> Option<Bytes> {
        if self.items.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        group(&host.resource(), SCOPE, &self.items, &mut out);
        Some(Bytes::from(out))
    }
}

/// Writes the power of devices; the minutes of several devices need not be the same.
pub(super) fn power(host: &Host, watts: &[Watts]) -> Option<Bytes> {
    let mut metrics = Metrics { items: Vec::new(), when: Interval::default() };
    for Watts { device, time_ns, watts } in watts {
        metrics.when = Interval { start_ns: 0, time_ns: *time_ns };
        let mut pairs = host.device(device.clone());
        pairs.push((names::ENERGY_METHOD, "percent_of_max".to_owned()));
        pairs.push((names::BOUNDARY, "chip".to_owned()));
        // The watts are somebody's figures, not the maker's.
        pairs.push((names::CONFIDENCE, "assumed".to_owned()));
        metrics.push(names::HW_POWER, "W", Data::Gauge, [(pairs, Some(*watts))]);
    }
    metrics.finish(host)
}

/// Writes which devices there are; `None` if there is none.
pub(super) fn inventory(host: &Host, devices: &[Device], now_ns: u64) -> Option<Bytes> {
    let mut metrics = Metrics { items: Vec::new(), when: Interval { start_ns: 0, time_ns: now_ns } };
    let of = |value: fn(&Device) -> Option<f64>| {
        let points = devices.iter().map(move |device| {
            let id = format!("neuron{}", device.neuron_device.unwrap_or_default());
            (host.device(id), value(device))
        });
        points.collect::<Vec<_>>()
    };
    metrics.push(names::HW_MEMORY_LIMIT, "By", Data::Gauge, of(|device| device.memory_size));
    metrics.push("neuron.device.cores", "{core}", Data::Gauge, of(|device| device.nc_count.map(f64::from)));
    let users = of(|device| Some(device.neuron_processes.len() as f64));
    metrics.push("neuron.device.processes", "{process}", Data::Gauge, users);
    metrics.finish(host)
}

/// Writes a document; `None` if it says nothing.
pub(super) fn report(host: &Host, report: &Report, now_ns: u64) -> Option<Bytes> {
    let gauge = Interval { start_ns: 0, time_ns: now_ns };
    let mut metrics = Metrics { items: Vec::new(), when: gauge };
    cores(host, report, &mut metrics);
    for runtime in &report.neuron_runtime_data {
        let mut tag: Pairs = Vec::new();
        tag.extend(runtime.neuron_runtime_tag.clone().map(|tag| ("neuron.runtime.tag", tag)));
        tag.extend(runtime.pid.map(|pid| ("process.pid", pid.to_string())));
        metrics.when = gauge;
        gauges_of_runtime(&runtime.report, &tag, &mut metrics);
        metrics.when = period(now_ns, runtime.report.execution_stats.period);
        counts_of_runtime(&runtime.report, &tag, &mut metrics);
    }
    metrics.when = period(now_ns, report.system_data.neuron_hw_counters.period);
    errors(host, report, &mut metrics);
    metrics.when = gauge;
    system(report, &mut metrics);
    metrics.finish(host)
}

/// The interval that counts of one period are of.
fn period(now_ns: u64, period_s: Option<f64>) -> Interval {
    let length = period_s.filter(|period| (0.0..=86_400.0).contains(period)).map(|period| (period * 1e9) as u64);
    Interval { start_ns: length.map_or(0, |length| now_ns.saturating_sub(length)), time_ns: now_ns }
}

/// What all processes together make of one core.
#[derive(Default)]
struct Core {
    utilization: Option<f64>,
    flops: Option<f64>,
    memory: Option<f64>,
}

fn add(sum: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or_default() + more);
    }
}

fn cores(host: &Host, report: &Report, metrics: &mut Metrics) {
    let mut cores: BTreeMap<u32, Core> = BTreeMap::new();
    for runtime in &report.neuron_runtime_data {
        let activity = &runtime.report;
        for (index, used) in &activity.neuroncore_counters.neuroncores_in_use {
            let Ok(index) = index.parse() else { continue };
            let core: &mut Core = cores.entry(index).or_default();
            add(&mut core.utilization, used.neuroncore_utilization);
            add(&mut core.flops, used.flops);
        }
        let breakdown = &activity.memory_used.neuron_runtime_used_bytes.usage_breakdown;
        for (index, held) in &breakdown.neuroncore_memory_usage {
            let Ok(index) = index.parse() else { continue };
            let core: &mut Core = cores.entry(index).or_default();
            held.values().for_each(|bytes| add(&mut core.memory, *bytes));
        }
    }
    let hardware = &report.neuron_hardware_info;
    let per_device = hardware.neuroncore_per_device_count.filter(|count| *count > 0);
    let attributes = |index: u32| {
        let mut pairs = host.device(format!("nc{index}"));
        pairs.extend(per_device.map(|count| ("hw.parent", format!("neuron{}", index / count))));
        if let Some(pod) = report.neuron_k8s_info.neuroncores_k8s_info.get(&index.to_string()) {
            pairs.extend(pod.namespace.clone().map(|namespace| (names::K8S_NAMESPACE, namespace)));
            pairs.extend(pod.pod_name.clone().map(|name| ("k8s.pod.name", name)));
        }
        pairs
    };
    let executing = |index: u32| {
        let mut pairs = attributes(index);
        pairs.push((names::UTILIZATION_KIND, "executing".to_owned()));
        pairs
    };
    // Percent here, a share there; processes that share a core cannot use more than all of it.
    let share = |core: &Core| core.utilization.map(|percent| (percent / 100.0).min(1.0));
    let shares = cores.iter().map(|(index, core)| (executing(*index), share(core)));
    metrics.push(names::HW_UTILIZATION, "1", Data::Gauge, shares);
    let flops = cores.iter().map(|(index, core)| (attributes(*index), core.flops));
    metrics.push("neuron.core.flops", "{operation}/s", Data::Gauge, flops);
    let memory = cores.iter().map(|(index, core)| (attributes(*index), core.memory));
    metrics.push(names::HW_MEMORY_USAGE, "By", Data::Gauge, memory);
    let limit = hardware.neuron_device_memory_size.zip(per_device).map(|(bytes, count)| bytes / f64::from(count));
    let limits = cores.keys().map(|index| (attributes(*index), limit));
    metrics.push(names::HW_MEMORY_LIMIT, "By", Data::Gauge, limits);
}

fn with(pairs: &Pairs, key: &'static str, value: &str) -> Pairs {
    pairs.iter().cloned().chain([(key, value.to_owned())]).collect()
}

fn gauges_of_runtime(activity: &Activity, tag: &Pairs, metrics: &mut Metrics) {
    let used = &activity.memory_used.neuron_runtime_used_bytes;
    let places = [("host", used.host), ("neuron_device", used.neuron_device)];
    let memory = places.map(|(place, bytes)| (with(tag, "neuron.memory.location", place), bytes));
    metrics.push("neuron.runtime.memory.usage", "By", Data::Gauge, memory);
    let modes = activity.neuron_runtime_vcpu_usage.vcpu_usage.iter();
    let cpu = modes.map(|(mode, percent)| (with(tag, "cpu.mode", mode), percent.map(|percent| percent / 100.0)));
    metrics.push("neuron.runtime.cpu.utilization", "1", Data::Gauge, cpu);
    let latencies = &activity.execution_stats.latency_stats;
    for (name, percentiles) in [
        ("neuron.execution.latency.total", &latencies.total_latency),
        ("neuron.execution.latency.device", &latencies.device_latency),
    ] {
        let points = percentiles.iter().flatten();
        let points = points.map(|(percentile, seconds)| (with(tag, "percentile", percentile), *seconds));
        metrics.push(name, "s", Data::Gauge, points);
    }
}

fn counts_of_runtime(activity: &Activity, tag: &Pairs, metrics: &mut Metrics) {
    let stats = &activity.execution_stats;
    let outcomes = stats.execution_summary.iter();
    let outcomes = outcomes.map(|(outcome, count)| (with(tag, "neuron.execution.outcome", outcome), *count));
    metrics.push("neuron.executions", "{execution}", Data::Delta, outcomes);
    let kinds = stats.error_summary.iter().map(|(kind, count)| (with(tag, names::ERROR_TYPE, kind), *count));
    metrics.push("neuron.execution.errors", "{error}", Data::Delta, kinds);
}

fn errors(host: &Host, report: &Report, metrics: &mut Metrics) {
    let devices = &report.system_data.neuron_hw_counters.neuron_devices;
    let points = devices.iter().flat_map(|device| {
        let counts = [
            ("mem_ecc_corrected", device.mem_ecc_corrected),
            ("mem_ecc_uncorrected", device.mem_ecc_uncorrected),
            ("sram_ecc_corrected", device.sram_ecc_corrected),
            ("sram_ecc_uncorrected", device.sram_ecc_uncorrected),
        ];
        let id = device.neuron_device_index.map(|index| format!("neuron{index}"));
        id.into_iter().flat_map(move |id| {
            let pairs = host.device(id);
            counts.map(|(kind, count)| (with(&pairs, names::ERROR_TYPE, kind), count))
        })
    });
    metrics.push("hw.errors", "{error}", Data::Delta, points.collect::<Vec<_>>());
}

fn system(report: &Report, metrics: &mut Metrics) {
    let system = &report.system_data;
    let modes = system.vcpu_usage.average_usage.iter();
    let cpu = modes.map(|(mode, percent)| (vec![("cpu.mode", mode.clone())], percent.map(|percent| percent / 100.0)));
    metrics.push("system.cpu.utilization", "1", Data::Gauge, cpu);
    let memory = &system.memory_info;
    metrics.push("system.memory.usage", "By", Data::Gauge, [(Vec::new(), memory.memory_used_bytes)]);
    metrics.push("system.memory.limit", "By", Data::Gauge, [(Vec::new(), memory.memory_total_bytes)]);
}
