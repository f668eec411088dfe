//! What months cost, and what costs more than it did.

use telemetry::table::COSTS_1H;

use super::{Around, NOTHING, View, around, column};

/// The days that the last one is held against, whatever stretch of `time` is asked for.
const WEEKS: Around = around(23 * 86_400, 23 * 86_400);
/// A month's rows lie at its start.
const A_MONTH: Around = around(0, 31 * 86_400);

pub(super) const COST_PER_MONTH: View = View {
    name: "cost_per_month",
    doc: "What each calendar month (UTC) cost, by region and model: `period` names the month to date and the last one. `cost_usd` is all of it at the \
          prices that `basis` names. List, effective and billed cost are sums of what is known of them, and `list_share`, `effective_share` and `billed_share` say of \
          which part of `cost_usd`: a month is billed as a whole only days after its end. `spent_usd` is effective cost where it is known, else the estimate, as \
          budgets count it.",
    sql: include_str!("cost_per_month.sql"),
    columns: &[
        column("time", "", "start of the month, UTC"),
        column("period", "", "`month to date`, `last month`, or unknown for those before"),
        column("known_until", "", "end of the newest hour in it"),
        column("cost_usd", "USD", "cost at the price that `basis` names"),
        column("spent_usd", "USD", "effective cost where it is known, else `cost_usd`"),
        column("idle_cost_usd", "USD", "of `cost_usd`, what idle and padding cost"),
        column("list_cost_usd", "USD", "cost at list price on demand, of `list_share` of it"),
        column("effective_cost_usd", "USD", "amortised cost, of `effective_share` of it"),
        column("billed_cost_usd", "USD", "invoiced cost, of `billed_share` of it"),
        column("list_share", "1", "share of `cost_usd` whose list cost is known"),
        column("effective_share", "1", "share of `cost_usd` whose effective cost is known"),
        column("billed_share", "1", "share of `cost_usd` that is in a bill"),
        column("unpriced_hosts", "{host}", "hosts without a price, whose cost is in no sum"),
        column("basis", "", "which prices"),
        column("method", "", "how cost was split"),
        column("oldest_price_as_of", "", "as-of date of the oldest price used"),
        column("idle_policy", "", "what became of idle time: show (it is in the sums)"),
    ],
    passes: &[&COSTS_1H],
    tables: NOTHING,
    views: A_MONTH,
    keys: &[],
};

pub(super) const ANOMALIES: View = View {
    name: "anomalies",
    doc: "What the last 24 hours cost beside the days before: of the fleet, each region, model and tenant, with or without a budget. It is held against the mean of the \
          seven days before or of the same weekday in the three weeks before, whichever is more, so that what is done each Monday is none; days are counted back \
          from now. An anomaly is twice as much, and 10 USD a day more. Cost is effective where it is known, else the estimate. A tenant's is that of its requests.",
    sql: include_str!("anomalies.sql"),
    columns: &[
        column("time", "", "start of the 24 hours"),
        column("region", "", "the region that it is of; unknown where it is of something else"),
        column("model", "", "the model that it is of; unknown where it is of something else"),
        column("dimension", "", "what it is of: fleet, region, model or tenant"),
        column("value", "", "which one; empty for the fleet"),
        column("day_usd", "USD", "cost of the last 24 hours"),
        column("before_usd", "USD", "cost of a day before, as above; unknown where nothing is known of those days"),
        column("more_usd", "USD", "the one less the other"),
        column("day_ratio", "1", "the one over the other; unknown where nothing was spent before"),
        column("is_anomaly", "", "whether it is twice as much, and 10 USD more"),
        column("basis", "", "which prices"),
        column("method", "", "how cost was split"),
        column("price_as_of", "", "as-of date of the oldest price used"),
        column("idle_policy", "", "what became of idle time: hide (left out) of a tenant, else show (it is in it)"),
    ],
    passes: &[&COSTS_1H],
    tables: WEEKS,
    views: WEEKS,
    keys: &[],
};
