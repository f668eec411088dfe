//! Budgets against what their keys cost.

use telemetry::table::{BUDGETS, COSTS_1H};

use super::{Around, View, around, column};

/// What it looks back over: the last period of the longest budget, whatever stretch of `time` is asked for.
const ALL: Around = around(92 * 86_400, 92 * 86_400);

pub(super) const BUDGET_STATUS: View = View {
    name: "budget_status",
    doc: "Each budget in force (`[[budget]]`) and how it stands now: spent in its period, last period, burn, forecast and when it is \
          exhausted. Spent is the effective cost, of the bill or at a negotiated discount, where there is one, else the estimate. A tenant's or namespace's cost is \
          that of its requests, a configured key's that and whatever is on nodes which name its value; a region's, model's or pool's has idle, padding and the rest in it. `burn_usd_per_day` is the cost \
          of the last 24 hours. The forecast takes for each day that is left the mean of its weekday in the last four weeks, days counted back from now; a day on which \
          telemetry was heard and nothing was spent is 0, days of which nothing was heard, and those before the first cost, are none. Its band is two standard deviations \
          wide on each side. What a list or a bill says of hosts that nobody hears of is no sign of life: `newest_cost` leaves it out. \
          Nothing is stopped by a hard budget.",
    sql: include_str!("budget_status.sql"),
    columns: &[
        column("time", "", "start of the budget's period, UTC"),
        column("region", "", "unknown: see allocation_key"),
        column("model", "", "unknown: see allocation_key"),
        column("period_end", "", "end of the calendar period, unknown for a rolling one"),
        column("budget_usd", "USD", "limit per period"),
        column("spent_usd", "USD", "cost in the period so far"),
        column("estimated_usd", "USD", "the same at the prices that `basis` names, without any bill"),
        column(
            "effective_usd",
            "USD",
            "amortised cost of it, by bills or at a negotiated discount; unknown without either",
        ),
        column("share", "1", "spent over the limit"),
        column("last_period_usd", "USD", "cost of the calendar period before, whole"),
        column(
            "burn_usd_per_day",
            "USD/d",
            "cost of the last 24 hours, 0 where telemetry was heard and nothing spent; unknown where none was heard",
        ),
        column(
            "forecast_usd",
            "USD",
            "spent, and for each day that is left the mean of its weekday in the last four weeks",
        ),
        column(
            "forecast_low_usd",
            "USD",
            "the same less two standard deviations of a day times the root of the days left, at least what is spent",
        ),
        column("forecast_high_usd", "USD", "the same and as much more"),
        column(
            "day_ratio",
            "1",
            "cost of the last 24 hours over the mean of the seven days before, or of the same weekday in three weeks, whichever is more",
        ),
        column(
            "exhausted_at",
            "",
            "when the limit is reached at the mean day of such a week, unknown where that is after the period or a century away",
        ),
        column(
            "status",
            "",
            "over, will be over, twice the week's mean (and 10 USD more), above 80 %, within, silent or nothing known",
        ),
        column("unpriced_hours", "h", "hours of the period in which some of it has no price"),
        column("basis", "", "which prices"),
        column("method", "", "how cost was split"),
        column("price_as_of", "", "as-of date of the oldest price used"),
        column("newest_cost", "", "newest hour with a cost in which something was heard of its hosts"),
        column("as_of", "", "when the question was asked"),
        column(
            "idle_policy",
            "",
            "what became of idle time: hide (left out) of a tenant's or namespace's budget, else show (it is in what is spent: of a configured key \
             that of nodes which name its value)",
        ),
        column("billed_usd", "USD", "what of it is invoiced so far; unknown without a bill"),
    ],
    passes: &[&BUDGETS, &COSTS_1H],
    tables: ALL,
    views: ALL,
    keys: &[],
};
