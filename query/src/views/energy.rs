//! Joules and what they were spent on.

use telemetry::table::DEVICES;

use super::{A_WINDOW, NOTHING, View, ViewColumn, column};

const MINUTE: ViewColumn = column("time", "", "start of the minute");
const JOULES: ViewColumn = column("joules", "J", "energy of the hosts in the minute");
const BOUNDARY: ViewColumn = column("boundary", "", "what the energy covers: chip, board, node, wall or facility");
const METHOD: ViewColumn = column("method", "", "energy_counter, integrated_power, percent_of_max, load_curve or tdp");
const CONFIDENCE: ViewColumn =
    column("confidence", "", "weakest of the figures behind it: measured, published, estimated or assumed");
const TOKENS: ViewColumn = column(
    "output_tokens",
    "{token}",
    "tokens that left those hosts in the same windows; of engines that do not send every token, those of calls that arrived in the minute",
);

pub(super) const PERF_PER_WATT: View = View {
    name: "perf_per_watt",
    doc: "Output tokens divided by joules over the same hosts and the same windows, which is tokens per second per watt. One row per \
          minute, region, model, boundary, method and confidence; hosts that report no energy are in none. To sum up, divide \
          `sum(output_tokens)` by `sum(joules)`, and name the boundary.",
    sql: include_str!("perf_per_watt.sql"),
    columns: &[
        MINUTE,
        BOUNDARY,
        METHOD,
        CONFIDENCE,
        column("hosts", "{host}", "hosts in the row"),
        TOKENS,
        JOULES,
        column("tokens_per_joule", "{token}/J", "output tokens divided by joules"),
        column("power_w", "W", "mean power of those hosts"),
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &["host_id"],
};

pub(super) const ENERGY_PER_TOKEN: View = View {
    name: "energy_per_token",
    doc: "Joules per output token, idle joules included: the inverse of `perf_per_watt`, unknown where no token left.",
    sql: include_str!("energy_per_token.sql"),
    columns: &[
        MINUTE,
        BOUNDARY,
        METHOD,
        CONFIDENCE,
        JOULES,
        TOKENS,
        column("joules_per_output_token", "J/{token}", "joules divided by output tokens"),
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &[],
};

pub(super) const HOST_ENERGY: View = View {
    name: "host_energy",
    doc: "Joules of each host and minute, at the widest boundary it reports: the rise of its energy counter, else its power \
          integrated between samples. A counter that fell or started anew, and a silence of more than two minutes, count nothing.",
    sql: include_str!("host_energy.sql"),
    columns: &[
        MINUTE,
        JOULES,
        column("devices", "{device}", "devices summed"),
        BOUNDARY,
        METHOD,
        CONFIDENCE,
        column("minute", "min", "minutes since 1970-01-01 UTC"),
        column("from_us", "us", "sample that opens the window, microseconds since 1970-01-01 UTC"),
        column("to_us", "us", "sample that closes the window, microseconds since 1970-01-01 UTC"),
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &["host_id"],
};
