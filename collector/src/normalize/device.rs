//! Samples of devices and engines: points of several metrics taken at one instant, merged into one row.

use std::collections::BTreeMap;

use telemetry::names;

use super::Normalizer;
use super::metric::{Metric, Number};
use super::resource::Resource;
use super::row::micros;
use crate::batch::rows::columns;
use crate::batch::tables::Tables;
use crate::decode::print;
use crate::decode::view::{Attribute, Value};

columns! {
    /// Columns of `devices` beyond the dimensions.
    pub(super) Columns of telemetry::table::DEVICES: time kind device vendor accelerator chips model utilization
        utilization_kind tensor_active memory_used_bytes memory_total_bytes power_w energy_j energy_start_time boundary
        energy_method running waiting kv_usage busy_us padding_us temperature_c confidence attributes
}

/// A figure of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Utilization,
    TensorActive,
    MemoryUsed,
    MemoryTotal,
    Power,
    Energy,
    Running,
    Waiting,
    KvUsage,
    BusyUs,
    PaddingUs,
    Temperature,
}

const FIGURES: usize = Figure::Temperature as usize + 1;

/// What is sampled, where no `hw.type` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Accelerator,
    Host,
    Engine,
}

/// A metric that samples a device.
struct Source {
    metric: &'static str,
    figure: Figure,
    kind: Kind,
    /// Turns the metric's unit into the column's.
    factor: f64,
}

const fn source(metric: &'static str, figure: Figure, kind: Kind, factor: f64) -> Source {
    Source { metric, figure, kind, factor }
}

/// Metrics that sample devices. DCGM's figures come through a scraper under their own names: percent, millijoules, MiB.
const SOURCES: &[Source] = &[
    source(names::HW_POWER, Figure::Power, Kind::Accelerator, 1.0),
    source(names::HW_ENERGY, Figure::Energy, Kind::Accelerator, 1.0),
    source(names::HW_UTILIZATION, Figure::Utilization, Kind::Accelerator, 1.0),
    source(names::HW_MEMORY_USAGE, Figure::MemoryUsed, Kind::Accelerator, 1.0),
    source(names::HW_MEMORY_LIMIT, Figure::MemoryTotal, Kind::Accelerator, 1.0),
    source(names::HW_TEMPERATURE, Figure::Temperature, Kind::Accelerator, 1.0),
    source("hw.host.power", Figure::Power, Kind::Host, 1.0),
    source("hw.host.energy", Figure::Energy, Kind::Host, 1.0),
    source("hw.gpu.power.draw", Figure::Power, Kind::Accelerator, 1.0),
    source("hw.gpu.energy.consumed", Figure::Energy, Kind::Accelerator, 1.0),
    source("hw.gpu.temperature", Figure::Temperature, Kind::Accelerator, 1.0),
    source("DCGM_FI_DEV_POWER_USAGE", Figure::Power, Kind::Accelerator, 1.0),
    source("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Figure::Energy, Kind::Accelerator, 0.001),
    source("DCGM_FI_DEV_GPU_UTIL", Figure::Utilization, Kind::Accelerator, 0.01),
    source("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Figure::TensorActive, Kind::Accelerator, 1.0),
    source("DCGM_FI_DEV_FB_USED", Figure::MemoryUsed, Kind::Accelerator, 1_048_576.0),
    source("DCGM_FI_DEV_GPU_TEMP", Figure::Temperature, Kind::Accelerator, 1.0),
    source("nv_gpu_utilization", Figure::Utilization, Kind::Accelerator, 1.0),
    source("nv_gpu_power_usage", Figure::Power, Kind::Accelerator, 1.0),
    source("nv_energy_consumption", Figure::Energy, Kind::Accelerator, 1.0),
    source("nv_gpu_memory_used_bytes", Figure::MemoryUsed, Kind::Accelerator, 1.0),
    source("nv_gpu_memory_total_bytes", Figure::MemoryTotal, Kind::Accelerator, 1.0),
    source("neuroncore_utilization_ratio", Figure::Utilization, Kind::Accelerator, 1.0),
    source(names::ENGINE_RUNNING, Figure::Running, Kind::Engine, 1.0),
    source(names::ENGINE_WAITING, Figure::Waiting, Kind::Engine, 1.0),
    source(names::ENGINE_KV_USAGE, Figure::KvUsage, Kind::Engine, 1.0),
    source("vllm:gpu_cache_usage_perc", Figure::KvUsage, Kind::Engine, 1.0),
    source("sglang:num_running_reqs", Figure::Running, Kind::Engine, 1.0),
    source("sglang:num_queue_reqs", Figure::Waiting, Kind::Engine, 1.0),
    source("sglang:token_usage", Figure::KvUsage, Kind::Engine, 1.0),
    source("trtllm_num_requests_running", Figure::Running, Kind::Engine, 1.0),
    source("trtllm_num_requests_waiting", Figure::Waiting, Kind::Engine, 1.0),
    source("trtllm_kv_cache_utilization", Figure::KvUsage, Kind::Engine, 1.0),
    source(names::ENGINE_BUSY_US, Figure::BusyUs, Kind::Engine, 1.0),
    source(names::ENGINE_PADDING_US, Figure::PaddingUs, Kind::Engine, 1.0),
];

impl Figure {
    fn column(self) -> &'static str {
        match self {
            Figure::Utilization => "utilization",
            Figure::TensorActive => "tensor_active",
            Figure::MemoryUsed => "memory_used_bytes",
            Figure::MemoryTotal => "memory_total_bytes",
            Figure::Power => "power_w",
            Figure::Energy => "energy_j",
            Figure::Running => "running",
            Figure::Waiting => "waiting",
            Figure::KvUsage => "kv_usage",
            Figure::BusyUs => "busy_us",
            Figure::PaddingUs => "padding_us",
            Figure::Temperature => "temperature_c",
        }
    }
}

/// Metrics that sample devices: name, column of `devices`, and the factor from the metric's unit to the column's.
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str, f64)> {
    SOURCES.iter().map(|source| (source.metric, source.figure.column(), source.factor))
}

/// Attributes that name the device, the first one present wins.
const DEVICE_KEYS: [&str; 7] = [names::HW_ID, "gpu_uuid", "UUID", "gpu", "gpu.index", "neuroncore", "neuron_device"];
/// Attributes that name the model an engine serves.
const MODEL_KEYS: [&str; 3] = [names::REQUEST_MODEL, "model_name", "model"];

/// Samples of one resource, merged by device and instant.
#[derive(Default)]
pub(super) struct Samples<'a> {
    merged: BTreeMap<(i64, Kind, Option<&'a str>), Sample<'a>>,
}

#[derive(Default)]
struct Sample<'a> {
    figures: [Option<f64>; FIGURES],
    energy_start_us: Option<i64>,
    attributes: BTreeMap<&'a str, Value<'a>>,
}

impl Normalizer {
    /// Takes a data point into the samples, if its metric samples a device.
    pub(super) fn sample<'a>(
        &mut self,
        resource: &Resource<'a>,
        metric: &Metric<'a>,
        number: &Number,
        attributes: &[Attribute<'a>],
        samples: &mut Samples<'a>,
    ) {
        let Some(source) = SOURCES.iter().find(|source| source.metric == metric.name) else { return };
        let get = |keys: &[&str]| {
            keys.iter().find_map(|key| attributes.iter().find(|attribute| attribute.key == *key)?.value.text())
        };
        if source.kind == Kind::Engine
            && let Some(model) = get(&MODEL_KEYS)
        {
            self.models.learn(resource, model);
        }
        let kind = match get(&[names::HW_TYPE]) {
            Some("host") => Kind::Host,
            Some("engine") => Kind::Engine,
            Some(_) => Kind::Accelerator,
            None => source.kind,
        };
        let sample = samples.merged.entry((micros(number.time), kind, get(&DEVICE_KEYS))).or_default();
        let percent = if metric.unit == "%" && source.factor == 1.0 { 0.01 } else { 1.0 };
        if let Some(slot) = sample.figures.get_mut(source.figure as usize) {
            *slot = number
                .value()
                .map(|value| value * source.factor * percent)
                .filter(|value| possible(source.figure, *value));
        }
        if source.figure == Figure::Energy && number.start != 0 {
            sample.energy_start_us = Some(micros(number.start));
        }
        for attribute in attributes {
            sample.attributes.entry(attribute.key).or_insert(attribute.value);
        }
    }

    /// Writes the samples of a resource to `devices`.
    pub(super) fn write_samples(&self, resource: &Resource<'_>, samples: Samples<'_>, tables: &mut Tables) {
        let columns = &self.columns.devices;
        for ((time_us, kind, device), sample) in samples.merged {
            let Some(rows) = tables.devices.rows(time_us) else { return };
            let text = |keys: &[&str]| keys.iter().find_map(|key| sample.attributes.get(key)?.text());
            let of_resource = |key| resource.get(key).text();
            rows.time(columns.time, time_us);
            resource.write(rows);
            rows.text(columns.kind, ["accelerator", "host", "engine"][kind as usize]);
            rows.text_opt(columns.device, device);
            rows.text_opt(columns.vendor, text(&[names::HW_VENDOR]));
            let accelerator = text(&[names::HW_MODEL, names::ACCELERATOR]).or_else(|| of_resource(names::ACCELERATOR));
            rows.text_opt(columns.accelerator, accelerator);
            let own_chips = sample.attributes.get(names::CHIPS).and_then(|value| value.integer());
            let chips = own_chips.or_else(|| resource.chips().filter(|_| kind != Kind::Accelerator));
            rows.int_opt(columns.chips, chips);
            let model = text(&MODEL_KEYS).or_else(|| self.models.of(resource, None).name());
            rows.text_opt(columns.model, model.filter(|_| kind != Kind::Host));
            rows.text_opt(columns.utilization_kind, text(&[names::UTILIZATION_KIND]));
            rows.text_opt(columns.boundary, text(&[names::BOUNDARY]));
            rows.text_opt(columns.energy_method, text(&[names::ENERGY_METHOD]));
            rows.text_opt(columns.confidence, text(&[names::CONFIDENCE]));
            write_figures(columns, &sample, rows);
            let rest = sample.attributes.iter().filter(|(key, _)| !has_column(key) && !self.redaction.drops(key));
            let mut entries = Vec::new();
            for (key, value) in rest {
                let mut printed = String::new();
                // Sound bodies print; an attribute that does not is left out here and kept in `metrics`.
                if print::plain(*value, &self.redaction, &mut printed).is_ok() {
                    entries.push((*key, printed));
                }
            }
            rows.map(columns.attributes, entries);
            rows.end();
        }
    }
}

fn write_figures(columns: &Columns, sample: &Sample<'_>, rows: &mut crate::batch::rows::Rows) {
    let double = |figure: Figure| sample.figures.get(figure as usize).copied().flatten();
    let int = |figure: Figure| double(figure).map(|value| value.round() as i64);
    rows.double_opt(columns.utilization, double(Figure::Utilization));
    rows.double_opt(columns.tensor_active, double(Figure::TensorActive));
    rows.int_opt(columns.memory_used_bytes, int(Figure::MemoryUsed));
    rows.int_opt(columns.memory_total_bytes, int(Figure::MemoryTotal));
    rows.double_opt(columns.power_w, double(Figure::Power));
    rows.double_opt(columns.energy_j, double(Figure::Energy));
    if let Some(start_us) = sample.energy_start_us {
        rows.time(columns.energy_start_time, start_us);
    }
    rows.int_opt(columns.running, int(Figure::Running));
    rows.int_opt(columns.waiting, int(Figure::Waiting));
    rows.double_opt(columns.kv_usage, double(Figure::KvUsage));
    rows.int_opt(columns.busy_us, int(Figure::BusyUs));
    rows.int_opt(columns.padding_us, int(Figure::PaddingUs));
    rows.double_opt(columns.temperature_c, double(Figure::Temperature));
}

/// Whether a figure can be true at all; one that cannot is unknown here and kept as sent in `metrics`.
fn possible(figure: Figure, value: f64) -> bool {
    match figure {
        Figure::Utilization | Figure::TensorActive | Figure::KvUsage => (0.0..=1.0).contains(&value),
        // 4,294,967,295 and its like are readings of a sensor that is not there.
        Figure::Power => (0.0..=1e6).contains(&value),
        Figure::Temperature => (-273.15..=1e3).contains(&value),
        _ => (0.0..=9e18).contains(&value),
    }
}

fn has_column(key: &str) -> bool {
    let named = [names::HW_ID, names::HW_TYPE, names::HW_VENDOR, names::HW_MODEL, names::ACCELERATOR, names::CHIPS];
    let said = [names::UTILIZATION_KIND, names::BOUNDARY, names::ENERGY_METHOD, names::CONFIDENCE];
    named.contains(&key) || said.contains(&key) || MODEL_KEYS.contains(&key) || DEVICE_KEYS.contains(&key)
}
