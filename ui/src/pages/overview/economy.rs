//! Use, energy and money: the numbers that stand on devices and prices, each with its basis.

use leptos::prelude::*;
use viz::format::{self, Unit};

use crate::ask::{Asked, Row};
use crate::panel::Tile;
use crate::server::{App, Visit};
use crate::sql::{PLACE, Where, present, present_note};
use crate::urlstate::{Dimension, Scope};

/// Each answer has one row per region, and one with `total` = 1 for the fleet.
pub(super) struct Asks {
    utilization: Asked,
    efficiency: Asked,
    cost: Asked,
    per_million: Asked,
    /// One row per region and host type.
    pub(super) hosts: Asked,
}

/// What is known of one region, or of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) utilization: Option<f64>,
    /// Shares of the time given to requests, and to compiled but empty slots.
    pub(super) split: Option<(f64, f64)>,
    pub(super) tokens_per_joule: Option<f64>,
    /// Whether the watts are measured, or else what they are ("assumed").
    pub(super) watts: Option<String>,
    /// What the watts cover (chip, board, node, …).
    pub(super) boundary: Option<String>,
    pub(super) usd_per_hour: Option<f64>,
    pub(super) usd_per_million: Option<f64>,
    /// Host types without a price, comma separated.
    pub(super) unpriced: Option<String>,
    /// Which price is meant ("list, assumed on-demand").
    pub(super) basis: Option<String>,
}

/// What the page says of the stretch that these numbers are about, and of what they cannot be narrowed to.
pub(super) fn note(scope: &Scope) -> String {
    let others = Dimension::ALL.into_iter().filter(|dimension| !PLACE.contains(dimension));
    let wide: Vec<_> = others.filter(|dimension| scope.get(*dimension).is_some()).map(|other| other.name()).collect();
    let wide = if wide.is_empty() { String::new() } else { format!(", whatever {}", wide.join(" and ")) };
    format!("use, energy and cost: {}{wide}", present_note(scope))
}

pub(super) async fn ask(app: &App, visit: &Visit, scope: &Scope, span: (i64, i64)) -> Asks {
    let key = scope.link("");
    let ask = |name, sql| app.asker.kept(name, &key, visit.now_us, sql);
    let clause = Where::place(scope, present(scope, span)).clause();
    let (utilization, efficiency, cost, per_million, hosts) = tokio::join!(
        ask("overview.utilization", utilization_sql(&clause)),
        ask("overview.efficiency", efficiency_sql(&clause)),
        ask("overview.cost", cost_sql(&clause)),
        ask("overview.per million", per_million_sql(&clause)),
        ask("overview.hosts", hosts_sql(&clause)),
    );
    Asks { utilization, efficiency, cost, per_million, hosts }
}

/// Weighted by the time that engines were watched; a host without an engine counts by its samples.
fn utilization_sql(clause: &str) -> String {
    let weight = "coalesce(wall_us, 60000000)";
    let columns = format!(
        "sum(executing * {weight}) / sum(CASE WHEN executing IS NOT NULL THEN {weight} END) AS utilization,\n  \
         CAST(sum(busy_us) AS DOUBLE) / nullif(sum(wall_us), 0) AS requests,\n  \
         CAST(sum(padding_us) AS DOUBLE) / nullif(sum(wall_us), 0) AS padding"
    );
    by_region(&columns, "utilization", clause)
}

fn efficiency_sql(clause: &str) -> String {
    let columns = "CAST(sum(output_tokens) AS DOUBLE) / nullif(sum(joules), 0) AS tokens_per_joule,\n  \
                   string_agg(DISTINCT confidence, ', ') AS watts,\n  \
                   string_agg(DISTINCT boundary, ', ') AS boundary";
    by_region(columns, "perf_per_watt", clause)
}

/// A view's row is a minute: the mean over minutes of what the hosts of that minute cost per hour.
fn cost_sql(clause: &str) -> String {
    let columns = "CAST(sum(usd_per_hour) AS DOUBLE) / count(DISTINCT time) AS usd_per_hour,\n  \
                   string_agg(DISTINCT basis, ', ') AS basis,\n  \
                   string_agg(DISTINCT unpriced, ', ') AS unpriced";
    by_region(columns, "cost_per_region", clause)
}

fn per_million_sql(clause: &str) -> String {
    let columns = "CAST(sum(cost_usd) AS DOUBLE) / nullif(sum(output_tokens), 0) * 1000000 AS usd_per_million";
    by_region(columns, "cost_per_million_tokens", &format!("{clause}\n  AND basis = 'allocation'"))
}

fn hosts_sql(clause: &str) -> String {
    format!(
        "SELECT region, host_type, count(DISTINCT host_id) AS hosts, max(usd_per_hour) AS usd_per_hour,\n  \
         string_agg(DISTINCT basis, ', ') AS basis, max(price_as_of) AS price_as_of\n\
         FROM node_cost\n{clause}\nGROUP BY region, host_type\nORDER BY region, host_type"
    )
}

fn by_region(columns: &str, view: &str, clause: &str) -> String {
    format!(
        "SELECT region, grouping(region) AS total,\n  {columns}\nFROM {view}\n{clause}\nGROUP BY GROUPING SETS ((), (region))\nORDER BY total DESC, region"
    )
}

impl Asks {
    /// The questions, for their links and failures.
    pub(super) fn all(&self) -> [&Asked; 4] {
        [&self.utilization, &self.efficiency, &self.cost, &self.per_million]
    }

    /// Whether any of them knows a region.
    pub(super) fn has_rows(&self) -> bool {
        !self.regions().is_empty() || !rows(&self.hosts).is_empty()
    }

    /// Regions that have devices, in alphabetical order.
    pub(super) fn regions(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .all()
            .into_iter()
            .flat_map(rows)
            .filter(|row| !is_total(row))
            .filter_map(|row| row.text("region"))
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What is known of a region, or of the fleet when none is named.
    pub(super) fn of(&self, region: Option<&str>) -> Figures {
        let find = |asked| {
            rows(asked).into_iter().find(|row| match region {
                Some(region) => !is_total(row) && row.text("region") == Some(region),
                None => is_total(row),
            })
        };
        let number = |asked, column: &str| find(asked).and_then(|row| row.number(column));
        let text = |asked, column: &str| find(asked).and_then(|row| row.text(column)).map(str::to_owned);
        Figures {
            utilization: number(&self.utilization, "utilization"),
            split: number(&self.utilization, "requests").zip(number(&self.utilization, "padding")),
            tokens_per_joule: number(&self.efficiency, "tokens_per_joule"),
            watts: text(&self.efficiency, "watts"),
            boundary: text(&self.efficiency, "boundary"),
            usd_per_hour: number(&self.cost, "usd_per_hour"),
            usd_per_million: number(&self.per_million, "usd_per_million"),
            unpriced: text(&self.cost, "unpriced"),
            basis: text(&self.cost, "basis"),
        }
    }

    /// The fleet's four tiles.
    pub(super) fn tiles(&self) -> AnyView {
        let fleet = self.of(None);
        let tile = |label, value, unit, note: String, flag, asked: &Asked| {
            Tile { label, value, unit, note, flag, before: None, course: Vec::new(), asked }.view()
        };
        let assumed = fleet.assumed().then(|| "assumed".to_owned());
        let watts = match (&fleet.watts, fleet.tokens_per_joule) {
            (_, None) => "no energy is known".to_owned(),
            (basis, _) => format!(
                "watts {}, at the {}",
                basis.as_deref().unwrap_or("of unknown basis"),
                fleet.boundary.as_deref().unwrap_or("unknown boundary")
            ),
        };
        let percent = |share| format::text(Some(share), Unit::Ratio);
        let busy = match fleet.split {
            Some((requests, padding)) => {
                format!("device executing: requests {}, padding {}", percent(requests), percent(padding))
            }
            None => "device executing".to_owned(),
        };
        let basis = fleet.basis.clone().unwrap_or_else(|| "no price is known".to_owned());
        let without = fleet.unpriced.as_ref().map(|types| format!("; without {types}: no price")).unwrap_or_default();
        let (hourly, per_million) = (format!("{basis}{without}"), "idle time included".to_owned());
        view! {
            {tile("Utilization", fleet.utilization, Unit::Ratio, busy, None, &self.utilization)}
            {tile("Tokens per joule", fleet.tokens_per_joule, Unit::TokensPerJoule, watts, assumed, &self.efficiency)}
            {tile("Cost per hour", fleet.usd_per_hour, Unit::UsdPerHour, hourly, None, &self.cost)}
            {tile("Per million output tokens", fleet.usd_per_million, Unit::Usd, per_million, None, &self.per_million)}
        }
        .into_any()
    }
}

impl Figures {
    /// Whether the watts rest on an assumption, which the page must say.
    pub(super) fn assumed(&self) -> bool {
        self.watts.as_deref().is_some_and(|basis| basis.contains("assumed"))
    }

    /// Why there is no price, if there is none for some hosts. The view names the region too, which a row of that
    /// region need not repeat.
    pub(super) fn no_price(&self, region: &str) -> Option<String> {
        let types = self.unpriced.as_ref()?.replace(&format!(" in {region}"), "");
        Some(format!("no price for {types}"))
    }

    /// Tokens per joule with the word that qualifies it.
    pub(super) fn efficiency(&self) -> String {
        format::text(self.tokens_per_joule, Unit::TokensPerJoule)
    }
}

fn rows(asked: &Asked) -> Vec<Row<'_>> {
    match &asked.outcome {
        Ok(answer) => answer.rows().collect(),
        Err(_) => Vec::new(),
    }
}

fn is_total(row: &Row<'_>) -> bool {
    row.number("total") == Some(1.0)
}
