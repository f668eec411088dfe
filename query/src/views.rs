//! The views analysts meet first: SQL text with a definition, and a unit and meaning for every column.
//!
//! Each starts with `time, region, model`. Windows are minutes, named by their start; a minute still running holds what
//! has been seen of it so far. `docs/metrics.md` is generated from this registry.

mod cost;
mod energy;
mod latency;
mod load;

use std::time::Duration;

use telemetry::table::Table;

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
    /// How far before and after the stretch asked for it must look to be right at the edges.
    pub(crate) looks_around: Duration,
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
    &load::UTILIZATION,
    &energy::PERF_PER_WATT,
    &energy::ENERGY_PER_TOKEN,
    &cost::COST_PER_REGION,
    &cost::COST_PER_TENANT,
    &cost::COST_PER_MILLION_TOKENS,
    &cost::REQUEST_COST,
    &load::REPLICA_MINUTES,
    &load::ENGINE_MINUTES,
    &energy::HOST_ENERGY,
    &cost::NODE_COST,
    &cost::REPLICA_COST,
    &cost::REQUEST_MINUTE_COST,
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

const fn column(name: &'static str, unit: &'static str, doc: &'static str) -> ViewColumn {
    ViewColumn { name, unit, doc }
}

/// Rows stand alone: nothing before or after them matters.
const NOTHING: Duration = Duration::ZERO;
/// Longest silence that a window bridges, and room for the sample before the first one asked for.
const A_FEW_MINUTES: Duration = Duration::from_secs(5 * 60);
/// Longest call whose rows at other places are looked for.
const A_LONG_CALL: Duration = Duration::from_secs(15 * 60);
