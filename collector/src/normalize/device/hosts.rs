//! Whole machines: OpenTelemetry's host metrics, Kepler, IPMI.

use super::source::{Family, Figure, Kind, Source, When, source, when};

pub(super) const HARDWARE: Family = Family {
    boundary: Some("node"),
    ..Family::new(
        "OpenTelemetry hardware metrics, hosts",
        Kind::Host,
        &[source("hw.host.power", Figure::Power), source("hw.host.energy", Figure::Energy)],
    )
};

/// What a baseboard controller meters, through Kepler or ipmi_exporter.
pub(super) const CONTROLLER: Family = Family {
    device: &["chassis_id", "bmc_id"],
    boundary: Some("node"),
    ..Family::new(
        "Kepler, platform; ipmi_exporter",
        Kind::Host,
        &[
            source("kepler_platform_watts", Figure::Power),
            source("ipmi_dcmi_power_consumption_current_watts", Figure::Power),
        ],
    )
};

/// Kepler's RAPL zones overlap: cores and memory are inside the package, everything inside the platform. Packages are the
/// host's chips, the platform is the host; the zones inside them stay metrics.
pub(super) const PACKAGES: Family = Family {
    device: &["path", "zone"],
    boundary: Some("chip"),
    energy_method: Some("energy_counter"),
    ..Family::new("Kepler, processors", Kind::Host, PACKAGE_SOURCES)
};

pub(super) const PLATFORM: Family = Family {
    device: &["path", "zone"],
    boundary: Some("node"),
    energy_method: Some("energy_counter"),
    ..Family::new("Kepler, whole system", Kind::Host, PLATFORM_SOURCES)
};

const PACKAGE_SOURCES: &[Source] = &[
    when("kepler_node_cpu_watts", Figure::Power, When::Is("zone", "package")),
    when("kepler_node_cpu_joules_total", Figure::Energy, When::Is("zone", "package")),
];

const PLATFORM_SOURCES: &[Source] = &[
    when("kepler_node_cpu_watts", Figure::Power, When::Is("zone", "psys")),
    when("kepler_node_cpu_joules_total", Figure::Energy, When::Is("zone", "psys")),
];
