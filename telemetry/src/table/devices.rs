//! What the fleet is made of and how it is loaded.

use super::{ATTRIBUTES, DIMENSIONS, Role, Table, double, int, text, time};

/// Samples of accelerators, hosts and engines.
pub const DEVICES: Table = Table {
    name: "devices",
    doc: "one sample of one accelerator, host or engine",
    groups: &[
        DIMENSIONS,
        &[
            text("kind", "accelerator, host or engine"),
            text("device", "device id on its host"),
            text("vendor", "maker of the device"),
            text("accelerator", "device model, such as inferentia2"),
            int("chips", "{chip}", "chips that the sample stands for"),
            text("model", "model that the engine serves"),
            double("utilization", "1", "share of time in use, 0 to 1"),
            text("utilization_kind", "which utilization: allocated, executing, tensor or useful"),
            double("tensor_active", "1", "share of cycles with the tensor engine active, 0 to 1"),
            int("memory_used_bytes", "By", "device memory in use"),
            int("memory_total_bytes", "By", "device memory there is"),
            double("power_w", "W", "power drawn"),
            double("energy_j", "J", "energy since energy_start_time, cumulative"),
            time("energy_start_time", "when the energy counter was zero"),
            text("boundary", "what the power covers: chip, board, node, wall or facility"),
            text("energy_method", "energy_counter, integrated_power, percent_of_max, load_curve or tdp"),
            int("running", "{request}", "requests in the batch"),
            int("waiting", "{request}", "requests queued"),
            double("kv_usage", "1", "share of the KV cache in use, 0 to 1"),
            int("busy_us", "us", "device time given to requests since the engine started, cumulative"),
            int("padding_us", "us", "device time of compiled but empty slots since the engine started, cumulative"),
            double("temperature_c", "Cel", "device temperature"),
            text("throttle", "why the device is throttled, if it is"),
            text("confidence", "measured, or assumed where the figure comes from a model without a source"),
        ],
        ATTRIBUTES,
    ],
    order: &["host_id", "device", "time"],
    retention_days: Some(30),
    role: Role::Live,
};

/// Intervals in which nodes existed, and so were paid for.
pub const NODES: Table = Table {
    name: "nodes",
    doc: "an interval in which a node existed",
    groups: &[
        DIMENSIONS,
        &[
            text("capacity_type", "on_demand, spot, savings_plan, reserved, capacity_block or unknown"),
            text("account", "cloud account that pays"),
            int("chips", "{chip}", "accelerator chips in the node"),
            time("first_seen", "first event in the interval, start of it"),
            time("last_seen", "last event in the interval, end of it"),
            text("source", "telemetry, billing or inventory"),
        ],
        ATTRIBUTES,
    ],
    order: &["host_id", "first_seen"],
    retention_days: Some(400),
    role: Role::Live,
};
