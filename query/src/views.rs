//! The views analysts meet first: SQL text with a definition, and a unit and meaning for every column.
//!
//! Each starts with `time, region, model`. Windows are minutes, named by their start; a minute still running holds what
//! has been seen of it so far. `docs/metrics.md` is generated from this registry.

mod allocated;
mod bill;
mod budget;
mod cost;
mod energy;
mod latency;
mod load;
mod spend;

use std::time::Duration;

use telemetry::table::Table;

pub(crate) use bill::KEPT_HOURS;

use crate::rollup::views as rolled;

/// A named query.
#[derive(Debug)]
pub(crate) struct View {
    /// Name in SQL.
    pub(crate) name: &'static str,
    /// What a row is and how its numbers are defined.
    pub(crate) doc: &'static str,
    /// The query.
    pub(crate) sql: &'static str,
    /// Columns that it computes.
    pub(crate) columns: &'static [ViewColumn],
    /// Tables whose columns it passes on under their own name.
    pub(crate) passes: &'static [&'static Table],
    /// How far around the stretch asked for it must look in tables to be right at the edges.
    pub(crate) tables: Around,
    /// How far around it must look in other views: most of theirs have rows of the same `time`.
    pub(crate) views: Around,
    /// Columns that mean the same in every table below, so that a filter on them may be applied there.
    pub(crate) keys: &'static [&'static str],
}

/// A column of a view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ViewColumn {
    pub(crate) name: &'static str,
    /// UCUM unit, empty where none applies.
    pub(crate) unit: &'static str,
    pub(crate) doc: &'static str,
}

/// All views, `calls` first.
pub(crate) const VIEWS: &[&View] = &[
    &latency::CALLS,
    &latency::TTFT,
    &latency::LATENCY,
    &latency::TOKEN_GAPS,
    &rolled::REQUESTS_MINUTES,
    &rolled::TOKENS_MINUTES,
    &rolled::HOSTS_MINUTES,
    &rolled::DEVICES_MINUTES,
    &rolled::USAGE_HOURS,
    &rolled::SLO_BURN,
    &load::UTILIZATION,
    &energy::PERF_PER_WATT,
    &energy::ENERGY_PER_TOKEN,
    &cost::COST_PER_REGION,
    &cost::COST_PER_TENANT,
    &cost::COST_PER_MILLION_TOKENS,
    &cost::REQUEST_COST,
    &energy::CARBON,
    &allocated::ALLOCATED_COST,
    &allocated::COST_PER_KEY,
    &allocated::IDLE_WASTE,
    &allocated::UNIT_COST_TREND,
    &allocated::COMMITMENT_COVERAGE,
    &spend::COST_PER_MONTH,
    &spend::ANOMALIES,
    &rolled::COSTS_HOURS,
    &rolled::MEASURED_CALLS,
    &load::REPLICA_MINUTES,
    &load::ENGINE_MINUTES,
    &energy::HOST_ENERGY,
    &cost::NODE_COST,
    &cost::REPLICA_COST,
    &cost::REQUEST_MINUTE_COST,
    &bill::UNPRICED,
    &bill::UNNAMED_TENANTS,
    &bill::SILENT_HOSTS,
    &bill::PRICE_CHECK,
    &bill::BILL_BY_HOST,
    &bill::BILL_TOTALS,
    &bill::CHARGES_IN_USD,
    &bill::HOST_CHARGES,
    &bill::CHARGED_HOURS,
    &KEPT_HOURS,
    &budget::BUDGET_STATUS,
    &energy::REPLICA_ENERGY,
    &energy::REPLICA_ACCOUNT,
    &allocated::CALL_MINUTES,
];

/// The view of that name.
pub(crate) fn by_name(name: &str) -> Option<&'static View> {
    VIEWS.iter().copied().find(|view| view.name == name)
}

impl View {
    /// The column of that name, as the view or the table it comes from declares it.
    pub(crate) fn column(&self, name: &str) -> Option<ViewColumn> {
        let own = self.columns.iter().copied().find(|column| column.name == name);
        let passed = || self.passes.iter().find_map(|table| table.column(name));
        own.or_else(|| passed().map(|column| ViewColumn { name: column.name, unit: column.unit, doc: column.doc }))
    }
}

pub(crate) const fn column(name: &'static str, unit: &'static str, doc: &'static str) -> ViewColumn {
    ViewColumn { name, unit, doc }
}

/// The three costs that stand beside the estimate, in views that sum them.
const SUM_OF_LIST: ViewColumn = column(
    "list_cost_usd",
    "USD",
    "the same at list price on demand: the bill's, else the price book's; unknown where that of a part is",
);
const SUM_OF_EFFECTIVE: ViewColumn = column(
    "effective_cost_usd",
    "USD",
    "the same amortised: by the bill, else at the negotiated discount; unknown where that of a part is",
);
const SUM_OF_BILLED: ViewColumn =
    column("billed_cost_usd", "USD", "the same as it is invoiced; unknown where a part is in no bill");

/// How far a view looks before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Around {
    pub(crate) before: Duration,
    pub(crate) after: Duration,
    /// Whether all of an hour is looked at, whatever part of it is asked for, where there are bills: what one says of an hour is shared by all of
    /// the hour's minutes.
    pub(crate) billed_hours: bool,
}

/// Rows stand alone: nothing before or after them matters.
pub(crate) const NOTHING: Around = around(0, 0);
/// A minute's window begins with the sample before it, at most two minutes earlier, and `time` names its start.
const A_WINDOW: Around = around(3 * 60, 2 * 60);
/// As a window; and whether a sample lies within two minutes is asked of the sighting before, too.
const A_SIGHTING: Around = Around { billed_hours: true, ..around(6 * 60, 3 * 60) };
/// Engines' windows that reach into a minute: a step is at most two minutes long.
const AN_ENGINE_STEP: Around = Around { billed_hours: true, ..around(2 * 60, 2 * 60) };
/// The token before, at most.
const ONE_BEFORE: Around = around(5 * 60, 0);
/// Where the other rows of a call may lie: a second before by another clock, or until its longest end.
const A_LONG_CALL: Around = around(2, 15 * 60);
/// A call in flight in a minute came up to a quarter of an hour before; `time` names its start.
const A_CALL: Around = around(16 * 60, 60);
/// The minutes of an hour.
const AN_HOUR: Around = around(0, 3_600);
/// The days that a day is held against, and the rest of its own.
const A_WEEK: Around = around(8 * 24 * 3_600, 24 * 3_600);
/// All minutes of a request that began or ended outside.
const A_LONG_REQUEST: Around = around(15 * 60, 15 * 60);

pub(crate) const fn around(before_s: u64, after_s: u64) -> Around {
    Around { before: Duration::from_secs(before_s), after: Duration::from_secs(after_s), billed_hours: false }
}
