//! Samples of devices and engines: points of several metrics taken at one instant, merged into one row.
//!
//! A figure that several points give for one device and instant is counted once, the larger of them: slices of a GPU repeat
//! its watts, and a process that ended goes on exporting zeros. Which metrics sample what is data, a file per kind of
//! exporter; every point is also kept as sent in `metrics`.

mod engines;
mod gpus;
mod hosts;
mod neuron;
mod source;

use std::borrow::Cow;
use std::collections::BTreeMap;

use telemetry::names;

use self::source::{FIGURES, Family, Figure, Kind, NEURON_MEMORY};
use super::Normalizer;
use super::metric::{Metric, Number};
use super::resource::{DIMENSIONS, HOST_ID, HOST_TYPE, REGION, Resource, ZONE, named_text};
use super::row::micros;
use crate::batch::rows::{Rows, columns};
use crate::batch::tables::Tables;
use crate::decode::print;
use crate::decode::view::{Attribute, Value};

pub(super) use source::Sources;

columns! {
    /// Columns of `devices` beyond the dimensions.
    pub(super) Columns of telemetry::table::DEVICES: time kind device vendor accelerator chips model utilization
        utilization_kind tensor_active memory_used_bytes memory_total_bytes power_w energy_j energy_start_time boundary
        energy_method running waiting kv_usage busy_us padding_us temperature_c confidence attributes
}

/// All exporters whose metrics sample devices. A point belongs to the first that it may come from.
const FAMILIES: &[&Family] = &[
    &gpus::HARDWARE,
    &gpus::OPENLIT,
    &gpus::DCGM,
    &gpus::TRITON,
    &gpus::KEPLER,
    &neuron::NEURON,
    &hosts::HARDWARE,
    &hosts::CONTROLLER,
    &hosts::PACKAGES,
    &hosts::PLATFORM,
    &engines::OURS,
    &engines::VLLM,
    &engines::SGLANG,
    &engines::TGI,
    &engines::TENSORRT_LLM,
    &engines::TRITON_TENSORRT_LLM,
    &engines::TRITON,
    &engines::DYNAMO,
    &engines::LLAMA_CPP,
    &engines::LMDEPLOY,
];

/// Metrics that sample devices: exporter, name, column of `devices`, and the factor from the metric's unit to the column's.
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str, &'static str, f64)> {
    let of = |family: &'static Family| {
        family.sources.iter().map(|source| (family.name, source.metric, source.figure.column(), source.factor))
    };
    FAMILIES.iter().copied().flat_map(of)
}

/// Attributes that name the model an engine serves.
const MODEL_KEYS: [&str; 3] = [names::REQUEST_MODEL, "model_name", "model"];
/// Attributes that name an accelerator's model.
const ACCELERATOR_KEYS: [&str; 4] = [names::HW_MODEL, names::ACCELERATOR, "modelName", "gpu_name"];
/// Attributes that name an accelerator's maker.
const VENDOR_KEYS: [&str; 2] = [names::HW_VENDOR, "vendor"];
/// Attribute of a slice of a shared GPU.
const SLICE: &str = "GPU_I_ID";
/// Ranks of one engine: each exports the engine's gauges, and the first speaks for all.
const RANK_KEYS: [&str; 2] = ["tp_rank", "pp_rank"];
/// What makes two samples of one device at one instant different ones.
const STATED: [&str; 4] = [names::BOUNDARY, names::ENERGY_METHOD, names::UTILIZATION_KIND, names::CONFIDENCE];
/// Different samples of one device at one instant: a few boundaries, a few kinds of utilization.
const STATED_MAX: usize = 16;
/// Labels that name the host.
const HOST_LABELS: &[&str] = &["Hostname", "node_name", "instance_id"];
/// Labels by which an exporter says on which host it is, where the resource does not.
const LABELS_OF_HOST: [(usize, &[&str]); 4] =
    [(REGION, &["region"]), (ZONE, &["availability_zone"]), (HOST_ID, HOST_LABELS), (HOST_TYPE, &["instance_type"])];
/// OpenTelemetry's types of hardware that are accelerators; it has no other word than the first.
const ACCELERATOR_TYPES: [&str; 4] = ["gpu", "npu", "tpu", "accelerator"];

/// Samples of one resource, merged by device and instant.
#[derive(Default)]
pub(super) struct Samples<'a> {
    merged: BTreeMap<Key<'a>, Vec<Sample<'a>>>,
}

/// What a sample is of: instant, kind, host by the point's own labels, device, and for an engine the model it serves.
type Key<'a> = (i64, Kind, Option<&'a str>, Option<Cow<'a, str>>, Option<&'a str>);

#[derive(Default)]
struct Sample<'a> {
    vendor: Option<&'static str>,
    is_second_hand: bool,
    /// The attribute that the device's name comes from.
    named_by: Option<&'static str>,
    figures: [Option<f64>; FIGURES],
    energy_start_us: Option<i64>,
    stated: [Option<&'a str>; STATED.len()],
    /// Attributes by key; of those that the merged points disagree about, nothing is known.
    attributes: BTreeMap<&'a str, Option<Value<'a>>>,
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
        let Some((family, source)) = self.sources.of(metric.name, attributes) else { return };
        let get = |keys: &[&str]| keys.iter().find_map(|key| named_text(attributes, key));
        let Some(kind) = kind(family, get(&[names::HW_TYPE])) else { return };
        if RANK_KEYS.iter().any(|key| named_text(attributes, key).is_some_and(|rank| rank != "0")) {
            return;
        }
        let model = get(&MODEL_KEYS).filter(|_| kind == Kind::Engine);
        if let Some(model) = model {
            self.models.learn(resource, model);
        }
        let slice = get(&[SLICE]).filter(|_| kind == Kind::Accelerator);
        // DCGM reports a busy share of 0 for every slice.
        if slice.is_some() && source.figure == Figure::Utilization {
            return;
        }
        let factor = source.figure.factor_of_unit(metric.unit).unwrap_or(source.factor);
        let value = number.value().map(|value| value * factor).filter(|value| source.figure.is_possible(*value));
        let Some(value) = value else { return };
        let named_by = family.device.iter().find(|key| attributes.iter().any(|attribute| attribute.key == **key));
        let slice = slice.filter(|_| !source.figure.is_of_whole_device());
        let device = named_by.and_then(|key| device(family, key, attributes, slice));
        let key = (micros(number.time), kind, get(HOST_LABELS), device, model);
        let Some(sample) = samples.of(key, family, stated(family, source.figure, attributes)) else { return };
        sample.named_by = named_by.copied();
        sample.add(source.figure, value, attributes);
        if source.figure == Figure::Energy && number.start != 0 {
            sample.energy_start_us = Some(micros(number.start));
        }
    }

    /// Writes the samples of a resource to `devices`.
    pub(super) fn write_samples<'a>(&self, resource: &Resource<'a>, samples: Samples<'a>, tables: &mut Tables) {
        let engine_speaks = |sample: &Sample<'_>| !sample.is_second_hand && sample.figure(Figure::Running).is_some();
        let engines = samples.merged.iter().filter(|(key, _)| key.1 == Kind::Engine);
        let at: Vec<i64> =
            engines.filter(|(_, all)| all.iter().any(engine_speaks)).map(|((time_us, ..), _)| *time_us).collect();
        for (key, all) in &samples.merged {
            for sample in all {
                if sample.is_second_hand && at.binary_search(&key.0).is_ok() {
                    continue;
                }
                let Some(rows) = tables.devices.rows(key.0) else { return };
                self.write_sample(resource, key, sample, rows);
            }
        }
    }

    fn write_sample<'a>(&self, resource: &Resource<'a>, key: &Key<'_>, sample: &Sample<'a>, rows: &mut Rows) {
        let columns = &self.columns.devices;
        let (time_us, kind, _, device, model) = key;
        rows.time(columns.time, *time_us);
        resource.write(rows);
        for (dimension, keys) in LABELS_OF_HOST {
            if resource.dimensions()[dimension].is_none() {
                rows.text_opt(DIMENSIONS.start + dimension, sample.text(keys));
            }
        }
        rows.text(columns.kind, ["accelerator", "host", "engine"][*kind as usize]);
        rows.text_opt(columns.device, device.as_deref());
        rows.text_opt(columns.vendor, sample.text(&VENDOR_KEYS).or(sample.vendor));
        let accelerator = sample.text(&ACCELERATOR_KEYS).or_else(|| resource.get(names::ACCELERATOR).text());
        rows.text_opt(columns.accelerator, accelerator);
        let own_chips = sample.value(names::CHIPS).and_then(Value::integer);
        rows.int_opt(columns.chips, own_chips.or_else(|| resource.chips().filter(|_| *kind != Kind::Accelerator)));
        let model = model.or_else(|| sample.text(&MODEL_KEYS)).or_else(|| self.models.of(resource, None).name());
        rows.text_opt(columns.model, model.filter(|_| *kind != Kind::Host));
        sample.write_figures(columns, rows);
        let stated_columns = [columns.boundary, columns.energy_method, columns.utilization_kind, columns.confidence];
        for (column, stated) in stated_columns.into_iter().zip(sample.stated) {
            rows.text_opt(column, stated);
        }
        rows.map(columns.attributes, self.rest(resource, sample));
        rows.end();
    }

    /// The attributes that went into no column, printed, and those of the resource by which costs are split.
    fn rest<'a>(&self, resource: &Resource<'a>, sample: &Sample<'a>) -> Vec<(&'a str, String)> {
        let mut entries = Vec::new();
        let own = sample.attributes.iter().map(|(key, value)| (*key, value.filter(|_| !sample.used(key))));
        let named = resource.named(&self.allocation_keys, |key| sample.attributes.contains_key(key));
        for (key, value) in own.chain(named.map(|named| (named.key, Some(named.value)))) {
            let Some(value) = value.filter(|_| !self.redaction.drops(key)) else { continue };
            let mut printed = String::new();
            // Sound bodies print; an attribute that does not is left out here and kept in `metrics`.
            if print::plain(value, &self.redaction, &mut printed).is_ok() {
                entries.push((key, printed));
            }
        }
        entries
    }
}

/// What a point samples: as its `hw.type` says, else what its exporter does. A fan or a power supply is no device of ours.
fn kind(family: &Family, hardware: Option<&str>) -> Option<Kind> {
    match hardware {
        None => Some(family.kind),
        Some("host") => Some(Kind::Host),
        Some("engine") => Some(Kind::Engine),
        Some(hardware) => ACCELERATOR_TYPES.contains(&hardware).then_some(Kind::Accelerator),
    }
}

/// The device's name: the exporter's, and which slice of it.
fn device<'a>(family: &Family, key: &str, attributes: &[Attribute<'a>], slice: Option<&str>) -> Option<Cow<'a, str>> {
    let name = match attributes.iter().find(|attribute| attribute.key == key)?.value {
        Value::Text(text) if !text.is_empty() => Cow::Borrowed(text),
        Value::Int(number) => Cow::Owned(number.to_string()),
        _ => return None,
    };
    Some(match slice {
        Some(slice) => Cow::Owned(format!("{name}/{slice}")),
        None if family.device_prefix.is_empty() => name,
        None => Cow::Owned(format!("{}{name}", family.device_prefix)),
    })
}

/// What is said of a figure, in the order of [`STATED`]: by the point itself, else by what is known of the exporter.
fn stated<'a>(family: &Family, figure: Figure, attributes: &[Attribute<'a>]) -> [Option<&'a str>; STATED.len()] {
    let is_power = matches!(figure, Figure::Power | Figure::Energy);
    let known = [
        family.boundary.filter(|_| is_power),
        family.energy_method.filter(|_| figure == Figure::Energy),
        family.utilization_kind.filter(|_| figure.column() == "utilization"),
        None,
    ];
    let mut stated = known;
    for (key, slot) in STATED.iter().zip(&mut stated) {
        *slot = named_text(attributes, key).or(*slot);
    }
    stated
}

impl<'a> Samples<'a> {
    /// The sample of that key of which nothing else is stated; a new one if there is none yet. `None` if the sender states
    /// more about one device and instant than there is to state.
    fn of(
        &mut self,
        key: Key<'a>,
        family: &Family,
        stated: [Option<&'a str>; STATED.len()],
    ) -> Option<&mut Sample<'a>> {
        let all = self.merged.entry(key).or_default();
        let agrees = |sample: &Sample<'_>| {
            sample.stated.iter().zip(&stated).all(|(held, said)| held.is_none() || said.is_none() || held == said)
        };
        let place = all.iter().position(agrees).unwrap_or(all.len());
        if place == all.len() && place < STATED_MAX {
            all.push(Sample::default());
        }
        let sample = all.get_mut(place)?;
        sample.vendor = sample.vendor.or(family.vendor);
        sample.is_second_hand = family.is_second_hand;
        for (held, said) in sample.stated.iter_mut().zip(stated) {
            *held = held.or(said);
        }
        Some(sample)
    }
}

impl<'a> Sample<'a> {
    fn add(&mut self, figure: Figure, value: f64, attributes: &[Attribute<'a>]) {
        if let Some(slot) = self.figures.get_mut(figure as usize) {
            *slot = Some(slot.map_or(value, |held| held.max(value)));
        }
        for attribute in attributes {
            let held = self.attributes.entry(attribute.key).or_insert(Some(attribute.value));
            if *held != Some(attribute.value) {
                *held = None;
            }
        }
    }

    fn figure(&self, figure: Figure) -> Option<f64> {
        self.figures.get(figure as usize).copied().flatten()
    }

    fn value(&self, key: &str) -> Option<Value<'a>> {
        self.attributes.get(key).copied().flatten()
    }

    fn text(&self, keys: &[&str]) -> Option<&'a str> {
        keys.iter().find_map(|key| self.value(key)?.text())
    }

    /// Memory in use: as given, else the sum of its parts.
    fn memory_used(&self) -> Option<f64> {
        let parts = NEURON_MEMORY.iter().filter_map(|part| self.figure(*part));
        self.figure(Figure::MemoryUsed).or_else(|| parts.reduce(|sum, part| sum + part))
    }

    /// Memory there is: as given, else what is used, free and reserved; an exporter that names no reserve counts it as used.
    fn memory_total(&self) -> Option<f64> {
        let sum = || {
            let reserved = self.figure(Figure::MemoryReserved).unwrap_or_default();
            Some(self.figure(Figure::MemoryUsed)? + self.figure(Figure::MemoryFree)? + reserved)
        };
        self.figure(Figure::MemoryTotal).or_else(sum)
    }

    fn write_figures(&self, columns: &Columns, rows: &mut Rows) {
        let int = |value: Option<f64>| value.map(|value| value.round() as i64);
        let utilization = self.figure(Figure::Utilization).or(self.figure(Figure::EngineActive));
        rows.double_opt(columns.utilization, utilization);
        for (column, figure) in [
            (columns.tensor_active, Figure::TensorActive),
            (columns.power_w, Figure::Power),
            (columns.energy_j, Figure::Energy),
            (columns.kv_usage, Figure::KvUsage),
            (columns.temperature_c, Figure::Temperature),
        ] {
            rows.double_opt(column, self.figure(figure));
        }
        rows.int_opt(columns.memory_used_bytes, int(self.memory_used()));
        rows.int_opt(columns.memory_total_bytes, int(self.memory_total()));
        for (column, figure) in [
            (columns.running, Figure::Running),
            (columns.waiting, Figure::Waiting),
            (columns.busy_us, Figure::BusyUs),
            (columns.padding_us, Figure::PaddingUs),
        ] {
            rows.int_opt(column, int(self.figure(figure)));
        }
        if let Some(start_us) = self.energy_start_us {
            rows.time(columns.energy_start_time, start_us);
        }
    }

    /// Whether an attribute went into a column.
    fn used(&self, key: &str) -> bool {
        self.named_by == Some(key)
            || [names::HW_TYPE, names::CHIPS].contains(&key)
            || STATED.contains(&key)
            || MODEL_KEYS.contains(&key)
            || ACCELERATOR_KEYS.contains(&key)
            || VENDOR_KEYS.contains(&key)
    }
}
