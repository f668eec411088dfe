//! How the fleet is used.

use telemetry::table::DEVICES;

use super::{A_WINDOW, NOTHING, View, ViewColumn, column};

const MINUTE: ViewColumn = column("time", "", "start of the minute");
const WALL: ViewColumn = column("wall_us", "us", "time covered by the engine's samples in the minute");
const PADDING: ViewColumn = column("padding_us", "us", "device time of compiled but empty slots");
const IDLE: ViewColumn = column("idle_us", "us", "time in which the engine ran no step: wall - busy - padding");
pub(super) const PARTS: ViewColumn = column(
    "chip_parts",
    "{chip/28}",
    "what the replica holds, in 28ths of a chip: a slice of a GPU (MIG), told by its profile in `accelerator` such as `MIG 3g.40gb`, is so many \
     sevenths of one, of an A30 quarters; 28 for each chip else",
);
const FROM: ViewColumn =
    column("from_us", "us", "sample that opens the window, microseconds since 1970-01-01 UTC; not in it");
const TO: ViewColumn = column("to_us", "us", "sample that closes the window, microseconds since 1970-01-01 UTC; in it");

pub(super) const UTILIZATION: View = View {
    name: "utilization",
    doc: "One row per replica (or host without an engine) and minute with four series that are never one: `allocated`, chips given \
          to an engine; `executing`, share of time the device says it is busy, else from the engine's counters (`method` says \
          which); `tensor`, share of cycles with the tensor engine active; `useful`, token FLOPs over peak. Unknown is NULL.",
    sql: include_str!("utilization.sql"),
    columns: &[
        MINUTE,
        column("allocated", "1", "share of the node's chips that engines hold"),
        column("executing", "1", "share of time the device executes"),
        column("tensor", "1", "share of cycles with the tensor engine active"),
        column("useful", "1", "token FLOPs divided by the peak of the served data type"),
        WALL,
        column("busy_us", "us", "device time given to requests"),
        IDLE,
        column("method", "", "where `executing` comes from: device or engine counters"),
        column("chips_held", "{chip}", "chips that the replica holds; a slice of a GPU (MIG) is its part of one"),
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &["host_id"],
};

pub(super) const REPLICA_MINUTES: View = View {
    name: "replica_minutes",
    doc: "One row per engine replica and minute with its device time taken apart: \
          `requests_us + unattributed_us + padding_us + idle_us = wall_us`, to the microsecond. The window runs from the last step \
          that ended before the minute to the last that ended in it. `unattributed_us` is device time whose tokens were not sent \
          (unsampled or aborted requests).",
    sql: include_str!("replica_minutes.sql"),
    columns: &[
        MINUTE,
        FROM,
        TO,
        WALL,
        column("requests_us", "us", "sum of the device time of the tokens that left in the window"),
        column("unattributed_us", "us", "device time given to requests whose tokens are not here"),
        PADDING,
        IDLE,
        column("output_tokens", "{token}", "tokens that left in the window"),
        column("method", "", "how device time was attributed"),
        PARTS,
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &["host_id", "instance"],
};

pub(super) const ENGINE_MINUTES: View = View {
    name: "engine_minutes",
    doc: "One row per engine replica and minute from the engine's counters alone. Two samples more than two minutes apart, or \
          with a counter that fell, make no window.",
    sql: include_str!("engine_minutes.sql"),
    columns: &[
        MINUTE,
        column("minute", "min", "minutes since 1970-01-01 UTC"),
        FROM,
        TO,
        WALL,
        column("busy_us", "us", "device time given to requests in the window"),
        PADDING,
        PARTS,
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &["host_id", "instance"],
};
