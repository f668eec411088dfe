//! What is known of each node in a stretch of time: what it did, how its engine stands, what it draws and what it costs. Five
//! answers, joined by host.

use std::collections::BTreeMap;

use leptos::prelude::*;
use viz::bar::Part;
use viz::format::{self, Unit};

use crate::ask::{Asked, Row};
use crate::pages::TTFT_LIMIT_S;
use crate::pages::silence::{self, Seen};
use crate::panel::{heads, number, shares, table};
use crate::server::{App, Visit};
use crate::sql::{Where, present};
use crate::urlstate::{Dimension, Scope, path};

/// What these figures can be narrowed to: all of them know where and on what.
pub(crate) const FILTERS: &[Dimension] = &[Dimension::Region, Dimension::Hardware];

/// The answers.
pub(crate) struct Asks {
    /// One row per node, per region, and per region and model; see [`Level`].
    pub(crate) work: Asked,
    calls: Asked,
    engines: Asked,
    cost: Asked,
    energy: Asked,
    pub(crate) seen: Seen,
    /// The end of the stretch, µs, and not after the newest row: answers are shared, and may be a while old.
    until_us: i64,
}

/// One node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) region: String,
    pub(crate) host_type: String,
    pub(crate) models: String,
    pub(crate) versions: String,
    pub(crate) requests_per_s: Option<f64>,
    pub(crate) tokens_per_s: Option<f64>,
    pub(crate) ttft_p99: Option<f64>,
    pub(crate) failed: Option<f64>,
    /// Shares of the engine's time: requests, padding, idle.
    pub(crate) split: Option<[f64; 3]>,
    pub(crate) running: Option<f64>,
    pub(crate) waiting: Option<f64>,
    pub(crate) kv_usage: Option<f64>,
    pub(crate) watts: Option<f64>,
    /// What the watts cover, and how far they can be trusted.
    pub(crate) energy_basis: String,
    pub(crate) usd_per_hour: Option<f64>,
    pub(crate) price_basis: String,
    /// Since when nothing was heard of it, µs.
    pub(crate) silent_us: Option<i64>,
}

pub(crate) async fn ask(app: &App, visit: &Visit, scope: &Scope) -> Asks {
    let span = present(scope, scope.resolve(visit.now_us));
    let key = Scope { tenant: None, engine: None, model: None, ..scope.clone() }.link("");
    let ask = |name, sql| app.asker.kept(name, &key, visit.now_us, sql);
    let clause = |span| Where::of(scope, span, FILTERS).and("host_id IS NOT NULL".to_owned());
    let (work, calls, engines, cost, energy, seen) = tokio::join!(
        ask("fleet.work", work_sql(&clause(span))),
        ask("fleet.calls", calls_sql(clause(span))),
        ask("fleet.engines", engines_sql(clause(span))),
        ask("fleet.cost", cost_sql(&clause(span))),
        ask("fleet.energy", energy_sql(&clause(span))),
        silence::ask(app, visit, scope),
    );
    let newest = work.outcome.as_ref().ok().and_then(|answer| answer.raw().freshness).map(|fresh| fresh.newest_time_us);
    let until_us = span.1.min(newest.unwrap_or(visit.now_us));
    Asks { work, calls, engines, cost, energy, seen, until_us }
}

fn work_sql(clause: &Where) -> String {
    let columns = ["scale", "zero", "idx", "cnt", "count", "sum", "min", "max"].map(|column| format!("ttft_{column}"));
    let histogram = format!("exph_merge(exph_of({}))", columns.join(", "));
    format!(
        "SELECT region, host_id, model, grouping(host_id) AS no_host, grouping(model) AS no_model, max(host_type) AS host_type,\n  string_agg(DISTINCT model, ', ') AS models, count(DISTINCT host_id) AS hosts, min(time) AS since,\n  sum(requests) AS requests, sum(tokens) AS tokens, sum(wall_us) AS wall_us, sum(padding_us) AS padding_us, sum(idle_us) AS idle_us,\n  exph_quantile({histogram}, 0.5) AS ttft_p50, exph_quantile({histogram}, 0.99) AS ttft_p99\nFROM hosts_minutes\n{}\nGROUP BY GROUPING SETS ((region, host_id), (region), (region, model))",
        clause.clause()
    )
}

fn calls_sql(clause: Where) -> String {
    format!(
        "SELECT host_id, count(*) AS calls, string_agg(DISTINCT service_version, ', ') AS versions,\n  sum(CASE WHEN status = 'error' THEN 1.0 ELSE 0.0 END) / count(*) AS failed\nFROM latency\n{}\nGROUP BY host_id",
        clause.and_equal("measured_at", Some("server")).clause()
    )
}

fn engines_sql(clause: Where) -> String {
    format!(
        "SELECT host_id, max(region) AS region, max(host_type) AS host_type,\n  avg(running) AS running, avg(waiting) AS waiting, avg(kv_usage) AS kv_usage\nFROM devices_minutes\n{}\nGROUP BY host_id",
        clause.and_equal("kind", Some("engine")).clause()
    )
}

fn cost_sql(clause: &Where) -> String {
    format!(
        "SELECT host_id, max(region) AS region, max(host_type) AS host_type,\n  max(usd_per_hour) AS usd_per_hour, string_agg(DISTINCT basis, ', ') AS basis\nFROM node_cost\n{}\nGROUP BY host_id",
        clause.clause()
    )
}

fn energy_sql(clause: &Where) -> String {
    format!(
        "SELECT host_id, max(region) AS region, max(host_type) AS host_type,\n  sum(joules) / nullif(sum(to_us - from_us) / 1000000.0, 0) AS watts,\n  string_agg(DISTINCT boundary, ', ') AS boundary, string_agg(DISTINCT confidence, ', ') AS confidence\nFROM host_energy\n{}\nGROUP BY host_id",
        clause.clause()
    )
}

/// What a row of the answer about work is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Node,
    Region,
    RegionAndModel,
}

impl Level {
    /// Rows of other answers are of nodes.
    pub(crate) fn of(row: &Row<'_>) -> Self {
        let absent = |column: &str| row.number(column) == Some(1.0);
        match (absent("no_host"), absent("no_model")) {
            (false, _) => Self::Node,
            (true, true) => Self::Region,
            (true, false) => Self::RegionAndModel,
        }
    }
}

fn rows(asked: &Asked) -> Vec<Row<'_>> {
    asked.outcome.as_ref().map(|answer| answer.rows().collect()).unwrap_or_default()
}

impl Asks {
    pub(crate) fn asked(&self) -> [&Asked; 6] {
        [&self.work, &self.calls, &self.engines, &self.cost, &self.energy, &self.seen.asked]
    }

    /// Per second of a row's own stretch: a fleet that is younger than the window is not diluted.
    pub(crate) fn per_second(&self, row: &Row<'_>, column: &str) -> Option<f64> {
        let seconds = (self.until_us - row.time("since")?) as f64 / 1e6;
        Some(row.number(column)? / seconds.max(1.0))
    }

    /// Every node that any answer knows, by name, also those that were heard of before the stretch alone.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
        for asked in [&self.work, &self.calls, &self.engines, &self.cost, &self.energy] {
            for row in rows(asked) {
                if Level::of(&row) != Level::Node {
                    continue;
                }
                let Some(host) = row.text("host_id") else { continue };
                let node = nodes.entry(host.to_owned()).or_default();
                host.clone_into(&mut node.host);
                self.fill(node, &row, asked.name);
            }
        }
        for (row, since_us) in self.seen.silent() {
            let Some(host) = row.text("host_id") else { continue };
            let node = nodes.entry(host.to_owned()).or_default();
            host.clone_into(&mut node.host);
            node.silent_us = Some(since_us);
            for (place, column) in [(&mut node.region, "region"), (&mut node.host_type, "host_type")] {
                if let Some(text) = row.text(column) {
                    text.clone_into(place);
                }
            }
        }
        nodes.into_values().collect()
    }

    fn fill(&self, node: &mut Node, row: &Row<'_>, from: &str) {
        for (place, column) in [(&mut node.region, "region"), (&mut node.host_type, "host_type")] {
            if let Some(text) = row.text(column) {
                text.clone_into(place);
            }
        }
        let text = |column: &str| row.text(column).unwrap_or_default().to_owned();
        match from {
            "fleet.work" => {
                node.models = text("models");
                node.requests_per_s = self.per_second(row, "requests");
                node.tokens_per_s = self.per_second(row, "tokens");
                node.ttft_p99 = row.number("ttft_p99");
                node.split = split(row);
            }
            "fleet.calls" => {
                node.versions = text("versions");
                node.failed = row.number("failed");
            }
            "fleet.engines" => {
                node.running = row.number("running");
                node.waiting = row.number("waiting");
                node.kv_usage = row.number("kv_usage");
            }
            "fleet.cost" => {
                node.usd_per_hour = row.number("usd_per_hour");
                node.price_basis = text("basis");
            }
            _ => {
                node.watts = row.number("watts");
                node.energy_basis = [text("confidence"), text("boundary")].join(",\u{a0}");
            }
        }
    }
}

/// Shares of an engine's time: requests, padding, idle.
fn split(row: &Row<'_>) -> Option<[f64; 3]> {
    let wall = row.number("wall_us").filter(|wall| *wall > 0.0)?;
    let (padding, idle) = (row.number("padding_us")? / wall, row.number("idle_us")? / wall);
    Some([(1.0 - padding - idle).max(0.0), padding, idle])
}

impl Node {
    /// Class and word of how it stands: too slow, quiet or well.
    pub(crate) fn standing(&self) -> (&'static str, &'static str) {
        match (self.ttft_p99, self.requests_per_s.unwrap_or(0.0)) {
            _ if self.silent_us.is_some() => ("silent", "silent"),
            (Some(p99), _) if p99 > TTFT_LIMIT_S => ("hot", "TTFT p99 over 1 s"),
            (Some(_), _) => ("well", "TTFT p99 within 1 s"),
            (None, rate) if rate > 0.0 => ("quiet", "no TTFT is known"),
            _ => ("quiet", "no calls"),
        }
    }

    pub(crate) fn link(&self, scope: &Scope) -> String {
        scope.link(&path(&["node", &self.host]))
    }
}

/// The nodes as a table, the slowest first.
pub(crate) fn list(nodes: &[Node], scope: &Scope) -> AnyView {
    let mut order: Vec<&Node> = nodes.iter().collect();
    let slowness = |node: &Node| node.ttft_p99.unwrap_or(-1.0);
    order.sort_by(|a, b| slowness(b).total_cmp(&slowness(a)).then_with(|| a.host.cmp(&b.host)));
    let lines: Vec<_> = order.into_iter().map(|node| line(node, scope)).collect();
    let names = [
        "node",
        "region",
        "hardware",
        "#TTFT p99",
        "#req/s",
        "#out tok/s",
        "#failed",
        "#batch",
        "#waiting",
        "#KV",
        "engine time",
        "#power",
        "#per hour",
    ];
    table("Nodes", heads(&names), lines.into_any())
}

fn line(node: &Node, scope: &Scope) -> AnyView {
    let (class, word) = node.standing();
    let dot = format!("node-dot {class}");
    let over = class == "hot";
    let silent = node.silent_us.map(|since| view! { <small class="warn">{silence::words(since)}</small> });
    let time = match node.split {
        Some([requests, padding, idle]) => shares(&[
            Part { name: "requests", share: requests, style: "decode" },
            Part { name: "padding", share: padding, style: "queue" },
            Part { name: "idle", share: idle, style: "rest" },
        ]),
        None => view! { <td>{format::UNKNOWN}</td> }.into_any(),
    };
    let watts = node.watts.is_some().then(|| view! { <small>{node.energy_basis.clone()}</small> });
    let version = (!node.versions.is_empty()).then(|| view! { <small>{format!("version {}", node.versions)}</small> });
    let price = match node.usd_per_hour {
        None => view! { <small class="warn">"no price"</small> },
        Some(_) if node.price_basis.contains("assumed") => view! { <small class="warn">"assumed on-demand"</small> },
        Some(_) => view! { <small class="">""</small> },
    };
    view! {
        <tr>
            <th scope="row"><i class=dot title=word></i><a href=node.link(scope)>{node.host.clone()}</a><small>{node.models.clone()}</small>{silent}</th>
            <td>{node.region.clone()}</td>
            <td>{node.host_type.clone()}{version}</td>
            <td class="num" class:crit=over>{format::text(node.ttft_p99, Unit::Seconds)}</td>
            {number(node.requests_per_s, Unit::Plain)}
            {number(node.tokens_per_s, Unit::Plain)}
            {number(node.failed, Unit::Ratio)}
            {number(node.running, Unit::Plain)}
            {number(node.waiting, Unit::Plain)}
            {number(node.kv_usage, Unit::Ratio)}
            {time}
            <td class="num">{format::text(node.watts, Unit::Watts)}{watts}</td>
            <td class="num">{format::text(node.usd_per_hour, Unit::UsdPerHour)}{price}</td>
        </tr>
    }
    .into_any()
}
