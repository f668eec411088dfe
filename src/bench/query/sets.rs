//! The statements: one file each, so that each can be run by hand.

/// One statement and what it is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement {
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
}

macro_rules! statements {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(Statement { name: $name, sql: include_str!(concat!($folder, "/", $name, ".sql")) }),*]
    };
}

/// What the pages ask: one for each panel, by page.
pub(super) const DASHBOARD: &[Statement] = statements!(
    "dashboard":
    "overview_slo",
    "overview_tiles",
    "overview_sparks",
    "overview_economy",
    "overview_throughput",
    "overview_regions_by_models",
    "overview_changes",
    "overview_movers",
    "slo_table",
    "slo_budget",
    "slo_burn",
    "slo_heatmap",
    "slo_differences",
    "slo_requests",
    "latency_ttft_percentiles",
    "latency_ttft_heatmap",
    "latency_small_multiples",
    "latency_by_version",
    "latency_gap_percentiles",
    "latency_goodput",
    "fleet_regions",
    "fleet_utilization",
    "fleet_power",
    "fleet_nodes",
    "fleet_strip",
    "fleet_demand",
    "fleet_rollout",
    "node_detail",
    "node_peers",
    "node_ttft",
    "node_requests",
    "node_cost",
    "requests_facets",
    "requests_histogram",
    "requests_list",
    "request_row",
    "request_cohort",
    "request_neighbours",
    "cost_run_rate",
    "cost_pivot",
    "cost_by_tenant",
    "cost_by_part",
    "cost_unpriced",
    "power_tokens_per_joule",
    "power_against_load",
    "power_pareto",
    "power_idle",
    "alerts_firing",
    "sql_schema",
    "health_freshness",
);

/// The timeline of one request, by `$trace_id`.
pub(super) const TIMELINE: Statement =
    Statement { name: "request_timeline", sql: include_str!("dashboard/request_timeline.sql") };

/// What people ask by hand. Runs unchanged in DuckDB and ClickHouse.
pub(super) const ADHOC: &[Statement] = statements!(
    "adhoc":
    "tokens_by_model",
    "tokens_by_minute",
    "tokens_by_tenant",
    "stalls",
    "batch_sizes",
    "busiest_hosts",
    "tokens_of_one_trace",
    "longest_traces",
    "traces_by_model",
    "device_time_steps",
    "requests_by_status",
    "ttft_by_minute",
    "heavy_tenants",
    "tenant_in_five_minutes",
    "slowest_requests",
    "text_search",
    "tokens_of_queued_calls",
    "gateway_overhead",
    "power_by_region",
    "utilization_spread",
    "idle_hosts",
    "hosts_by_region",
);
