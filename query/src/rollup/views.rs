//! What the windows of each roll-up are: the query that computes them from raw rows, which is also what answers for the windows
//! that are not built. `raw.<name>` is that query alone.

use telemetry::table::{COSTS_1H, DEVICES_1M, HOSTS_1M, REQUESTS, REQUESTS_1M, TOKENS_1M, USAGE_1H};

use crate::views::{Around, NOTHING, View, ViewColumn, around, column};

const MINUTE: ViewColumn = column("time", "", "start of the minute");
/// A window's rows lie within it.
const A_MINUTE: Around = around(0, 60);
const AN_HOUR: Around = around(0, 3_600);
/// An hour's calls, in flight for a quarter of an hour at most, and the samples of its last minute.
const AN_HOUR_OF_CALLS: Around = around(20 * 60, 3_600 + 5 * 60);
/// Samples around a minute: the one before its first, and one that closes it exactly.
const SAMPLES: Around = around(180, 120);
/// The token before a minute's first.
const A_STREAM: Around = around(60, 60);
/// As `calls` looks: where the other rows of a call may lie.
const A_LONG_CALL: Around = around(2, 15 * 60);

pub(crate) const MEASURED_CALLS: View = View {
    name: "measured_calls",
    doc: "One row per call and measuring place. `counts` is 1 for the row that `calls` holds and 0 for those measured farther from \
          the engine: sums take rows with 1, latencies of one place take all of its rows. Each row is judged by the objectives of \
          `slos` that were in force when it arrived.",
    sql: include_str!("measured_calls.sql"),
    columns: &[
        column("counts", "{request}", "1 if the row is the one that stands for its call, else 0"),
        column(
            "slo_set",
            "",
            "objectives that the call counts for: those that cover it, if what they measure is known of it or it failed",
        ),
        column("slo_met", "", "those of them that it met"),
    ],
    passes: &[&REQUESTS],
    tables: A_LONG_CALL,
    views: NOTHING,
    keys: &["trace_id"],
};

pub(crate) const REQUESTS_MINUTES: View = View {
    name: "requests_minutes",
    doc: "Calls per minute of their arrival, by what served them and where they were measured. `requests`, tokens and device time count \
          a call once, at the row nearest the engine; `measured`, `good` and the distributions are of all calls measured at the place, so \
          name one `measured_at`. Minutes that are built come from `requests_1m`, the others are computed from `requests`.",
    sql: include_str!("requests_minutes.sql"),
    columns: &[MINUTE],
    passes: &[&REQUESTS_1M],
    tables: NOTHING,
    views: A_MINUTE,
    keys: &[],
};

pub(crate) const TOKENS_MINUTES: View = View {
    name: "tokens_minutes",
    doc: "Tokens per minute in which they left their engine, by what served them, with the distribution of the gaps between tokens of one \
          choice (ITL); a silence of more than a minute is no gap. Minutes that are built come from `tokens_1m`, the others are computed \
          from `tokens`.",
    sql: include_str!("tokens_minutes.sql"),
    columns: &[MINUTE],
    passes: &[&TOKENS_1M],
    tables: A_STREAM,
    views: NOTHING,
    keys: &[],
};

pub(crate) const HOSTS_MINUTES: View = View {
    name: "hosts_minutes",
    doc: "What each host did for each model, per minute: calls that arrived there with their TTFT, measured at the server, tokens that left it, device time, and the engine's \
          time with `idle_us` and `padding_us`. Minutes that are built come from `hosts_1m`, the others are computed from raw rows.",
    sql: include_str!("hosts_minutes.sql"),
    columns: &[MINUTE],
    passes: &[&HOSTS_1M],
    tables: SAMPLES,
    views: NOTHING,
    keys: &[],
};

pub(crate) const DEVICES_MINUTES: View = View {
    name: "devices_minutes",
    doc: "The devices of each host per minute, by kind, by which utilization and by what the power covers: means over samples, then \
          over devices, power and energy summed over devices. A device that two exporters watch is counted once. Boundaries are never \
          added. Minutes that are built come from `devices_1m`, the others are computed from `devices`.",
    sql: include_str!("devices_minutes.sql"),
    columns: &[MINUTE, column("model", "", "unknown: a device belongs to its host, whatever model it serves")],
    passes: &[&DEVICES_1M],
    tables: SAMPLES,
    views: NOTHING,
    keys: &["host_id"],
};

pub(crate) const USAGE_HOURS: View = View {
    name: "usage_hours",
    doc: "Calls and tokens per hour of arrival, by what served them and for whom. Every call counts once, at the row nearest the engine; \
          `good` is of all calls measured at the place. Hours that are built come from `usage_1h`, the others are computed from `requests`.",
    sql: include_str!("usage_hours.sql"),
    columns: &[column("time", "", "start of the hour")],
    passes: &[&USAGE_1H],
    tables: NOTHING,
    views: AN_HOUR,
    keys: &[],
};

pub(crate) const COSTS_HOURS: View = View {
    name: "costs_hours",
    doc: "What each hour cost and drew, by host, model and tenant. Rows with `part = 'requests'` belong to a tenant (NULL where it is \
          unknown); padding, idle, unattributed and shared are rows of their own, and all together they are the nodes' cost to the last of \
          its 12 decimals. The split is made minute by minute with largest remainders (`replica_cost`, `request_minute_cost`), so whoever \
          reads this only sums. Effective and billed cost are split the same way, and unknown until a bill says them. Hours that are built come from `costs_1h`, \
          the others are computed from raw rows. `allocation` has the values of the keys in `cost.allocation_keys`; an hour that was split before a \
          key was configured has none of it.",
    sql: include_str!("costs_hours.sql"),
    columns: &[column("time", "", "start of the hour")],
    passes: &[&COSTS_1H],
    // With allocation keys: what calls of an hour say of themselves, the longest of which came before it.
    tables: AN_HOUR_OF_CALLS,
    views: AN_HOUR,
    keys: &["host_id"],
};

/// A burn rate looks back as far as its longest stretch.
const THREE_DAYS: Around = around(3 * 24 * 3_600, 60);

pub(crate) const SLO_BURN: View = View {
    name: "slo_burn",
    doc: "One row per objective and minute with calls that it covers: how fast its error budget is spent over the last 5 and 30 minutes, \
          1 and 6 hours and 3 days. A burn rate is the share of calls that were not good, divided by the share that may be (1 - objective): \
          at 1 the budget lasts exactly the objective's window, at 14.4 a budget of 30 days lasts two. `region` and `model` are the \
          objective's scope, unknown where it covers all. A minute's calls are all there once the longest of them has ended.",
    sql: include_str!("slo_burn.sql"),
    columns: &[
        MINUTE,
        column("region", "", "region that the objective is of; unknown for all"),
        column("model", "", "model that the objective is of; unknown for all"),
        column("slo", "", "name of the objective"),
        column("indicator", "", "what is measured"),
        column("measured_at", "", "where it is measured"),
        column("threshold", "s", "largest value of a good call; unknown for availability"),
        column("objective", "1", "share of calls that must be good"),
        column("window", "", "period over which it holds"),
        column("calls", "{request}", "calls that arrived in the minute and count"),
        column("good", "{request}", "those of them that were good"),
        column("burn_5m", "1", "burn rate over 5 minutes"),
        column("burn_30m", "1", "burn rate over 30 minutes"),
        column("burn_1h", "1", "burn rate over an hour"),
        column("burn_6h", "1", "burn rate over 6 hours"),
        column("burn_3d", "1", "burn rate over 3 days"),
    ],
    passes: &[],
    tables: NOTHING,
    views: THREE_DAYS,
    keys: &[],
};
