//! Joules and what they were spent on.

use telemetry::table::{COSTS_1H, DEVICES};

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

const COVERAGE: ViewColumn = column(
    "coverage",
    "1",
    "share of the minute between samples that belong together, of the device that was watched least; 0 where one of the host's devices was not metered",
);
const VALID: ViewColumn = column(
    "is_valid",
    "",
    "whether the samples cover at least 0.9 of the minute, no counter started anew, no device of the host is missing, and there is a meter at all",
);

pub(super) const PERF_PER_WATT: View = View {
    name: "perf_per_watt",
    doc: "Output tokens divided by joules over the same hosts and the same windows, which is tokens per second per watt. One row per \
          minute, region, model, host type, boundary, method and confidence; hosts that report no energy are in none. To sum up, divide \
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
        COVERAGE,
        VALID,
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
        COVERAGE,
        VALID,
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &[],
};

pub(super) const HOST_ENERGY: View = View {
    name: "host_energy",
    doc: "Joules of each host and minute, at the widest boundary at which it is measured: the rise of its energy counter, else its power \
          integrated between samples; what is modelled counts where nothing is measured, and a device counts once, whoever meters it. A counter \
          that fell or started anew, and a silence of more than two minutes, count nothing, and nothing is filled in: `coverage`, `largest_gap_s` and \
          `is_valid` say what is missing, devices that were heard of in the minute before or that `nodes.chips` counts among it. A host with an engine and \
          no meter has what the power model of its type says (`load_curve`, or `tdp`: full watts while it ran, watts at rest else), never valid.",
    sql: include_str!("host_energy.sql"),
    columns: &[
        MINUTE,
        JOULES,
        column("devices", "{device}", "devices whose joules are summed"),
        BOUNDARY,
        METHOD,
        CONFIDENCE,
        column("minute", "min", "minutes since 1970-01-01 UTC"),
        column("from_us", "us", "sample that opens the window, microseconds since 1970-01-01 UTC"),
        column("to_us", "us", "sample that closes the window, microseconds since 1970-01-01 UTC"),
        COVERAGE,
        column(
            "largest_gap_s",
            "s",
            "longest time without a sample, also before the first and after the last; unknown without a meter",
        ),
        VALID,
        column("flaw", "", "why it is not valid"),
        column("idle_w", "W", "power at rest of the power model of the same boundary, where there is one"),
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &["host_id"],
};

pub(super) const REPLICA_ENERGY: View = View {
    name: "replica_energy",
    doc: "Joules per replica, minute and part of its time, as in `replica_cost`; the parts of a host sum to its joules. A host's are shared over its \
          replicas by chips. `idle` draws the power model's watts at rest, where it has them for the same boundary, and never more than the \
          average; the rest follows time.",
    sql: include_str!("replica_energy.sql"),
    columns: &[
        MINUTE,
        column("part", "", "requests, padding, idle, unattributed or shared"),
        JOULES,
        BOUNDARY,
        METHOD,
        CONFIDENCE,
        COVERAGE,
        VALID,
        column("split", "", "how joules were taken apart"),
        column("replica", "", "the instance, empty for a whole host"),
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &["host_id"],
};

pub(super) const REPLICA_ACCOUNT: View = View {
    name: "replica_account",
    doc: "Money and joules of each replica, minute and part of its time side by side: `replica_cost` with what `host_energy` says, split as in \
          `replica_energy`. `costs_hours` sums it, so that a host's minutes are looked at once for both.",
    sql: include_str!("replica_account.sql"),
    columns: &[
        MINUTE,
        column("part", "", "requests, padding, idle, unattributed or shared"),
        column("weight", "us", "what the split goes by: device time, else time in flight"),
        column("device_us", "us", "device time of that part"),
        column("cost_usd", "USD", "cost at the price that `basis` names"),
        column("effective_cost_usd", "USD", "amortised cost, by the bill's rate; unknown without a bill"),
        column("billed_cost_usd", "USD", "invoiced cost, by the bill's rate; unknown without a bill"),
        column("basis", "", "which price"),
        column("method", "", "how cost was split"),
        column("price_as_of", "", "when the price's source was current"),
        column("price_confidence", "", "how far the price can be trusted"),
        JOULES,
        BOUNDARY,
        column("energy_method", "", "how the energy was obtained"),
        column("energy_confidence", "", "how far the energy can be trusted"),
        COVERAGE,
        VALID,
        column("split", "", "how joules were taken apart"),
        column("replica", "", "the instance, empty for a whole host"),
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &["host_id"],
};

pub(super) const CARBON: View = View {
    name: "carbon",
    doc: "Grams of CO2e per hour, region, model and part: joules × PUE × grams a kilowatt hour, each factor of its own date beside it. One row \
          for each `grid_method` (average, marginal, market based): name one, they are the same joules. A region without PUE or grams has none. \
          Joules of chips are not those of their hosts: name the `boundary`.",
    sql: include_str!("carbon.sql"),
    columns: &[
        column("time", "", "start of the hour"),
        column("part", "", "requests, padding, idle, unattributed or shared"),
        BOUNDARY,
        METHOD,
        CONFIDENCE,
        column("joules", "J", "energy of the hosts in the hour, within the boundary"),
        column("pue", "1", "facility energy divided by that of the machines; 1 where the boundary is the facility"),
        column("pue_as_of", "", "when the PUE's source was current"),
        column("facility_joules", "J", "joules times PUE"),
        column("gco2e_per_kwh", "g/kWh", "grams of CO2e a kilowatt hour"),
        column("grid_method", "", "location or market based, average or marginal"),
        column("grid_as_of", "", "when the source of the grams was current"),
        column("grid_confidence", "", "how far the grams can be trusted"),
        column("gco2e", "g", "grams of CO2e"),
    ],
    passes: &[&COSTS_1H],
    tables: NOTHING,
    views: NOTHING,
    keys: &[],
};
