//! What a metric that samples a device is made of: its figure, its unit, and the word of its exporter for what it covers.

use std::collections::HashMap;

use super::super::resource::named_text;
use crate::decode::view::Attribute;

/// A figure of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Figure {
    /// Share of time in use.
    Utilization,
    /// Share of time in which the compute engine was active; the utilization where nothing else gives it.
    EngineActive,
    /// Share of cycles with the tensor engine active.
    TensorActive,
    /// Memory in use.
    MemoryUsed,
    /// Memory there is.
    MemoryTotal,
    /// Memory not in use; with the memory in use and the reserved it is the total.
    MemoryFree,
    /// Memory that the driver holds back.
    MemoryReserved,
    /// Weights on a NeuronCore. This and the next four are parts of the memory in use.
    Constants,
    /// Compiled model on a NeuronCore.
    ModelCode,
    /// Scratchpad of a model on a NeuronCore.
    Scratchpad,
    /// The runtime's own memory on a NeuronCore.
    RuntimeMemory,
    /// Tensors on a NeuronCore.
    Tensors,
    /// Power drawn.
    Power,
    /// Energy, cumulative.
    Energy,
    /// Requests in the batch.
    Running,
    /// Requests queued.
    Waiting,
    /// Share of the KV cache in use.
    KvUsage,
    /// Device time given to requests, cumulative.
    BusyUs,
    /// Device time of empty slots, cumulative.
    PaddingUs,
    /// Temperature.
    Temperature,
}

/// How many figures there are.
pub(super) const FIGURES: usize = Figure::Temperature as usize + 1;

/// Parts of the memory in use of a NeuronCore.
pub(super) const NEURON_MEMORY: [Figure; 5] =
    [Figure::Constants, Figure::ModelCode, Figure::Scratchpad, Figure::RuntimeMemory, Figure::Tensors];

impl Figure {
    /// The column of `devices` that it ends in.
    pub(super) fn column(self) -> &'static str {
        match self {
            Figure::Utilization | Figure::EngineActive => "utilization",
            Figure::TensorActive => "tensor_active",
            Figure::MemoryUsed
            | Figure::Constants
            | Figure::ModelCode
            | Figure::Scratchpad
            | Figure::RuntimeMemory
            | Figure::Tensors => "memory_used_bytes",
            Figure::MemoryTotal | Figure::MemoryFree | Figure::MemoryReserved => "memory_total_bytes",
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

    /// Whether a slice of a shared device repeats the whole device's value.
    pub(super) fn is_of_whole_device(self) -> bool {
        matches!(self, Figure::Power | Figure::Energy | Figure::Temperature)
    }

    /// Whether a value can be true at all; one that cannot is unknown here and kept as sent in `metrics`.
    pub(super) fn is_possible(self, value: f64) -> bool {
        match self.column() {
            "utilization" | "tensor_active" | "kv_usage" => (0.0..=1.0).contains(&value),
            // 4,294,967,295 and its like are readings of a sensor that is not there.
            "power_w" => (0.0..=1e6).contains(&value),
            "temperature_c" => (-273.15..=1e3).contains(&value),
            "running" | "waiting" => (0.0..=1e9).contains(&value),
            // Petabytes, petajoules, thirty years.
            _ => (0.0..=1e15).contains(&value),
        }
    }

    /// The factor from a unit that the sender declares to the column's unit; `None` for a unit that says nothing here.
    pub(super) fn factor_of_unit(self, unit: &str) -> Option<f64> {
        let units: &[(&str, f64)] = match self.column() {
            "utilization" | "tensor_active" | "kv_usage" => &[("%", 0.01), ("percent", 0.01), ("ratio", 1.0)],
            "memory_used_bytes" | "memory_total_bytes" => &[
                ("By", 1.0),
                ("bytes", 1.0),
                ("KiBy", 1_024.0),
                ("MiBy", 1_048_576.0),
                ("MiB", 1_048_576.0),
                ("GiBy", 1_073_741_824.0),
                ("MBy", 1e6),
                ("GBy", 1e9),
            ],
            "power_w" => &[("W", 1.0), ("watts", 1.0), ("mW", 0.001), ("kW", 1_000.0)],
            "energy_j" => &[
                ("J", 1.0),
                ("joules", 1.0),
                ("mJ", 0.001),
                ("kJ", 1_000.0),
                ("W.h", 3_600.0),
                ("Wh", 3_600.0),
                ("kW.h", 3_600_000.0),
                ("kWh", 3_600_000.0),
            ],
            _ => &[],
        };
        units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
    }
}

/// What is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A chip, or a part of one.
    Accelerator,
    /// A whole machine, or what of it is no accelerator.
    Host,
    /// An inference engine.
    Engine,
}

/// The metrics of one exporter.
pub(super) struct Family {
    /// Who exports them.
    pub(super) name: &'static str,
    /// What they sample, where no `hw.type` says it.
    pub(super) kind: Kind,
    /// Attributes that name the device, the first one present wins.
    pub(super) device: &'static [&'static str],
    /// Stands before the device's name where the names of another kind of part would be the same.
    pub(super) device_prefix: &'static str,
    /// Maker of the devices.
    pub(super) vendor: Option<&'static str>,
    /// What power and energy cover, where no attribute says it.
    pub(super) boundary: Option<&'static str>,
    /// Where the joules come from, where no attribute says it.
    pub(super) energy_method: Option<&'static str>,
    /// Which utilization it is, where no attribute says it.
    pub(super) utilization_kind: Option<&'static str>,
    /// Attributes of which a point has at least one, or else comes from somebody who repeats others' figures.
    pub(super) needs: &'static [&'static str],
    /// An attribute that only such a repeater's points have.
    pub(super) lacks: Option<&'static str>,
    /// Whether it counts only where no engine speaks for itself in the same body.
    pub(super) is_second_hand: bool,
    /// The metrics.
    pub(super) sources: &'static [Source],
}

impl Family {
    /// A family of that kind about which nothing else is known.
    pub(super) const fn new(name: &'static str, kind: Kind, sources: &'static [Source]) -> Self {
        Self {
            name,
            kind,
            device: &[],
            device_prefix: "",
            vendor: None,
            boundary: None,
            energy_method: None,
            utilization_kind: None,
            needs: &[],
            lacks: None,
            is_second_hand: false,
            sources,
        }
    }

    /// Whether a point of these attributes is the exporter's own figure.
    fn owns(&self, attributes: &[Attribute<'_>]) -> bool {
        let has = |key: &&str| attributes.iter().any(|attribute| attribute.key == *key);
        (self.needs.is_empty() || self.needs.iter().any(has)) && !self.lacks.iter().any(has)
    }
}

/// A metric that samples a device.
pub(super) struct Source {
    /// Its name.
    pub(super) metric: &'static str,
    /// What it gives.
    pub(super) figure: Figure,
    /// Turns the metric's unit into the column's, where the sender declares none.
    pub(super) factor: f64,
    /// Which of its points count.
    pub(super) when: When,
}

/// Which points of a metric count.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    /// All.
    Always,
    /// Those with that attribute.
    Is(&'static str, &'static str),
    /// Those with that attribute, or without one of its key.
    IsOrAbsent(&'static str, &'static str),
}

impl When {
    fn holds(self, attributes: &[Attribute<'_>]) -> bool {
        match self {
            When::Always => true,
            When::Is(key, value) => named_text(attributes, key) == Some(value),
            When::IsOrAbsent(key, value) => named_text(attributes, key).is_none_or(|found| found == value),
        }
    }
}

/// A metric in the column's own unit.
pub(super) const fn source(metric: &'static str, figure: Figure) -> Source {
    scaled(metric, figure, 1.0)
}

/// A metric in another unit.
pub(super) const fn scaled(metric: &'static str, figure: Figure, factor: f64) -> Source {
    Source { metric, figure, factor, when: When::Always }
}

/// A metric in the column's own unit of which some points count.
pub(super) const fn when(metric: &'static str, figure: Figure, when: When) -> Source {
    Source { metric, figure, factor: 1.0, when }
}

/// All metrics that sample devices, by every name under which they come.
pub(in crate::normalize) struct Sources {
    by_name: HashMap<String, Vec<Found>>,
}

/// A metric and whose it is.
pub(super) type Found = (&'static Family, &'static Source);

impl Sources {
    /// Gathers the families.
    pub(in crate::normalize) fn new() -> Self {
        let mut by_name: HashMap<String, Vec<Found>> = HashMap::new();
        for family in super::FAMILIES.iter().copied() {
            for source in family.sources {
                for name in spellings(source.metric) {
                    by_name.entry(name).or_default().push((family, source));
                }
            }
        }
        Self { by_name }
    }

    /// What a point of that metric samples, if it samples anything.
    pub(super) fn of(&self, metric: &str, attributes: &[Attribute<'_>]) -> Option<Found> {
        let found = self.by_name.get(metric)?;
        found.iter().copied().find(|(family, source)| source.when.holds(attributes) && family.owns(attributes))
    }
}

/// A name as its exporter spells it; as pipelines respell it that know no colon or trim `_total`; and as Ray Serve does.
fn spellings(metric: &str) -> Vec<String> {
    let mut names = vec![metric.to_owned()];
    if metric.contains(':') {
        let plain = metric.replace(':', "_");
        names.extend([format!("ray_{plain}"), plain]);
    }
    names.extend(metric.strip_suffix("_total").map(str::to_owned));
    names
}
