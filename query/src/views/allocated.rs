//! What was spent for whom, what was spent on nothing, and how that goes.

use telemetry::table::{COSTS_1H, DEVICES, REQUESTS};

use super::{
    A_CALL, A_WEEK, A_WINDOW, AN_HOUR, NOTHING, SUM_OF_BILLED, SUM_OF_EFFECTIVE, SUM_OF_LIST, View, ViewColumn, column,
};

const HOUR: ViewColumn = column("time", "", "start of the hour");
const BASIS: ViewColumn =
    column("basis", "", "which price: list with its purchase option, `list, assumed on-demand`, or `no price`");
const METHOD: ViewColumn =
    column("method", "", "how cost was split: by device time, by calls in flight, or the whole host");
const AS_OF: ViewColumn =
    column("oldest_price_as_of", "", "when the oldest price used was current, as its source says");
const PART: ViewColumn = column("part", "", "requests, padding, idle, unattributed or shared");
const COST: ViewColumn = column("cost_usd", "USD", "cost at the price that `basis` names");
const DEVICE: ViewColumn = column("device_us", "us", "device time");
const OUTPUT: ViewColumn = column("output_tokens", "{token}", "tokens that left in the hour");
const POLICY: ViewColumn = column(
    "idle_policy",
    "",
    "what becomes of idle and padding: `show` (lines of their own), `share` (borne by those served, by what they used), `hide` (left out)",
);

pub(super) const CALL_MINUTES: View = View {
    name: "call_minutes",
    doc: "One row per call measured at its server and minute in which it was in flight: from the end of its queue to its end, at most a \
          quarter of an hour. Its device time and tokens are spread evenly over that time. Calls bear the cost of device time that no token \
          accounts for, and of engines that count no device time.",
    sql: include_str!("call_minutes.sql"),
    columns: &[
        column("time", "", "start of the minute"),
        column("from_us", "us", "start of the flight in the minute, microseconds since 1970-01-01 UTC"),
        column("to_us", "us", "its end"),
        column("flight_us", "us", "time in flight in the minute"),
        column("device_us", "us", "device time that the call reports, its part of the minute"),
        column("output_tokens", "{token}", "generated tokens, their part of the minute"),
        column(
            "sends_tokens",
            "",
            "whether every call's tokens are sent, and this one has some: then they say what it used",
        ),
    ],
    passes: &[&REQUESTS],
    tables: A_CALL,
    views: NOTHING,
    keys: &["host_id", "trace_id"],
};

pub(super) const ALLOCATED_COST: View = View {
    name: "allocated_cost",
    doc: "Cost per hour, region, model and tenant under each of three policies for idle and padding. Name one `idle_policy`: rows of \
          different policies are the same money. Under `show` and `share` all rows together are the nodes' cost, to the last decimal; under \
          `hide` they are that less idle and padding. Shared is within hour, region and model, in proportion to what was used; where nobody was \
          served, idle stays a line of its own, and so does idle of unknown cost.",
    sql: include_str!("allocated_cost.sql"),
    columns: &[
        HOUR,
        POLICY,
        PART,
        COST,
        column("shared_idle_usd", "USD", "idle and padding in it, under `share`"),
        DEVICE,
        OUTPUT,
        BASIS,
        METHOD,
        AS_OF,
        SUM_OF_LIST,
        SUM_OF_EFFECTIVE,
        SUM_OF_BILLED,
    ],
    passes: &[&COSTS_1H],
    tables: NOTHING,
    views: NOTHING,
    keys: &[],
};

pub(super) const COST_PER_KEY: View = View {
    name: "cost_per_key",
    doc: "Cost per hour, region, model and value of each configured allocation key (`cost.allocation_keys`), under each of three policies for idle \
          and padding. Name one `allocation_key` and one `idle_policy`: rows of different keys, and of different policies, are the same money, and \
          of each all rows together are the nodes' cost to the last decimal, under `hide` less idle and padding. A call's value is its \
          own, else its replica's, else its node's. Idle of a node that names a value is that value's; the rest is shared as in `allocated_cost`.",
    sql: include_str!("cost_per_key.sql"),
    columns: &[
        HOUR,
        column("allocation_key", "", "attribute that the cost is split by"),
        column(
            "allocation_value",
            "",
            "its value; `__unattributed__` where neither call nor node names one, `__other__` for those beyond `cost.allocation_values_max`, \
             unknown in hours that were split before the key was configured",
        ),
        POLICY,
        PART,
        COST,
        column("shared_idle_usd", "USD", "idle and padding in it that were nobody's, under `share`"),
        DEVICE,
        OUTPUT,
        BASIS,
        METHOD,
        AS_OF,
        SUM_OF_LIST,
        SUM_OF_EFFECTIVE,
        SUM_OF_BILLED,
    ],
    passes: &[&COSTS_1H],
    tables: NOTHING,
    views: NOTHING,
    keys: &[],
};

pub(super) const IDLE_WASTE: View = View {
    name: "idle_waste",
    doc: "What each host spent on nothing, per hour and model: time without a step, and compiled but empty slots, in time, dollars and joules. \
          Hosts whose engines count no device time have idle dollars (minutes or parts of them without a call) and no time. A host of an \
          inventory that nobody hears of is idle as a whole; `method` says `listed and silent`.",
    sql: include_str!("idle_waste.sql"),
    columns: &[
        HOUR,
        column("idle_us", "us", "time without a step, or in which nothing was heard of a host that is paid for"),
        column("padding_us", "us", "device time of empty slots"),
        column("waste_share", "1", "both as a share of the engines' time"),
        column("idle_cost_usd", "USD", "cost of time without a step"),
        column("padding_cost_usd", "USD", "cost of empty slots"),
        column("idle_joules", "J", "energy drawn at rest"),
        column("boundary", "", "what the energy covers"),
        column("energy_method", "", "how the energy was obtained"),
        BASIS,
        METHOD,
        AS_OF,
        column(
            "list_cost_usd",
            "USD",
            "cost of idle and padding at list price on demand; unknown where that of a part is",
        ),
        column(
            "effective_cost_usd",
            "USD",
            "cost of idle and padding amortised, or at a negotiated discount; unknown where that of a part is",
        ),
        column(
            "billed_cost_usd",
            "USD",
            "cost of idle and padding as it is invoiced; unknown where a part is in no bill",
        ),
    ],
    passes: &[&COSTS_1H],
    tables: NOTHING,
    views: NOTHING,
    keys: &["host_id"],
};

pub(super) const UNIT_COST_TREND: View = View {
    name: "unit_cost_trend",
    doc: "What a million output tokens cost per UTC day, region and model, all idle and padding included, beside the day before and the seven days \
          before. Hosts without a price are left out with their tokens. A day without tokens has no unit cost.",
    sql: include_str!("unit_cost_trend.sql"),
    columns: &[
        column("time", "", "start of the UTC day"),
        column("basis", "", "allocation: idle and padding included"),
        POLICY,
        COST,
        OUTPUT,
        column("usd_per_million_output_tokens", "USD/M{token}", "cost divided by million output tokens"),
        column("change_since_day_before", "1", "unit cost over that of the day before, less 1"),
        column("change_since_week_before", "1", "unit cost over that of the seven days before together, less 1"),
        column("price_basis", "", "which prices"),
        METHOD,
        AS_OF,
        SUM_OF_LIST,
        SUM_OF_EFFECTIVE,
        SUM_OF_BILLED,
    ],
    passes: &[&COSTS_1H],
    tables: NOTHING,
    views: A_WEEK,
    keys: &[],
};

pub(super) const COMMITMENT_COVERAGE: View = View {
    name: "commitment_coverage",
    doc: "Host hours by purchase option, per hour, region and host type. `coverage` is committed hours (savings plan, reserved, capacity block) \
          divided by those and on-demand; spot is in neither, since no commitment covers it. A host whose option is unknown counts as on-demand, \
          apart.",
    sql: include_str!("commitment_coverage.sql"),
    columns: &[
        HOUR,
        column("model", "", "unknown: a commitment is for hosts, whatever they serve"),
        column("host_hours", "h", "hours charged"),
        column("committed_hours", "h", "of them under a commitment"),
        column("spot_hours", "h", "of them spot"),
        column("on_demand_hours", "h", "of them on-demand, as their nodes say"),
        column("assumed_on_demand_hours", "h", "of them of unknown option"),
        column("coverage", "1", "share of the hours that could be committed which are"),
        COST,
        column("committed_cost_usd", "USD", "of it for committed hours"),
        column("basis", "", "which prices"),
        column("method", "", "what is counted"),
        AS_OF,
        SUM_OF_LIST,
        SUM_OF_EFFECTIVE,
        SUM_OF_BILLED,
        column(
            "committed_effective_cost_usd",
            "USD",
            "amortised cost of committed hours; unknown where that of a part is",
        ),
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: AN_HOUR,
    keys: &[],
};
