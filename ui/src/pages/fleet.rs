//! The fleet: every region with its nodes, what each model does where, and every node. A region's page is the same of one region,
//! with the course of its queues.

pub(crate) mod nodes;

use leptos::prelude::*;
use nodes::{FILTERS, Level, Node};
use viz::format::{self, Unit};

use super::{TTFT_LIMIT_S, silence};
use crate::ask::{Answer, Asked, Row};
use crate::frame::{self, Place, Sheet};
use crate::panel::plot::{Axis, line_chart, series_by};
use crate::panel::{answered, empty, failed, panel};
use crate::server::{App, Visit};
use crate::sql::{Where, bucket, minute_step, minutes, present_note};
use crate::urlstate::{Dimension, Scope, path};

pub(crate) async fn page(app: &App, visit: &Visit) -> String {
    let scope = Scope::parse(&visit.query);
    let (choices, asks) = tokio::join!(frame::choices(app, visit, &scope), nodes::ask(app, visit, &scope));
    frame::render(app, visit, || {
        let known = asks.nodes();
        let body = if known.is_empty() && asks.work.outcome.is_ok() {
            empty(app, &scope, &choices, "nodes")
        } else {
            let (note, work) = (present_note(&scope), [&asks.work]);
            let grid = answered(visit, &asks.work, |answer| models(answer, &asks, &scope));
            view! {
                {failures(visit, &asks.asked())}
                {panel("map", "Regions", note, &work, regions(&asks, &known, &scope))}
                {panel("models", "Models by region", "TTFT p99 at the engine, output tokens a second", &work, grid)}
                {panel("nodes", "Nodes", &format!("slowest first; {note}; engine time: requests, padding, idle"), &asks.asked(), nodes::list(&known, &scope))}
            }
            .into_any()
        };
        Sheet {
            filters: FILTERS,
            renews: true,
            body,
            choices: Some(choices),
            ..Sheet::new("Fleet", Place::Fleet, scope.clone()).told_by(&asks.asked())
        }
    })
}

/// The page of one region.
pub(crate) async fn region(app: &App, visit: &Visit, region: &str) -> String {
    // The path names the region; links carry no second one.
    let links = Scope::parse(&visit.query).with(Dimension::Region, None);
    let scope = links.with(Dimension::Region, Some(region));
    let span = scope.resolve(visit.now_us);
    let ask = |name, sql| app.asker.panel(name, visit.now_us, sql);
    let (choices, asks, queues, slow) = tokio::join!(
        frame::choices(app, visit, &scope),
        nodes::ask(app, visit, &scope),
        ask("region.queues", queues_sql(&scope, span)),
        ask("region.ttft", ttft_sql(&scope, span)),
    );
    frame::render(app, visit, || {
        let known = asks.nodes();
        let axis = Axis { span_us: span, step_s: minute_step(span) };
        let chart = |asked: &Asked, column: &'static str, title: &'static str, unit, limit: Option<f64>| {
            answered(visit, asked, |answer| {
                let mut chart = axis.chart(title, unit, answer, series_by(answer, "host_id", column));
                chart.limit =
                    limit.map(|limit| (limit, format!("alert at {}", format::text(Some(limit), Unit::Seconds))));
                line_chart(&chart)
            })
        };
        let body = if known.is_empty() && asks.work.outcome.is_ok() {
            empty(app, &scope, &choices, "nodes")
        } else {
            let note = format!("{} s buckets, a line per node", axis.step_s);
            view! {
                {failures(visit, &asks.asked())}
                {panel("map", "Nodes", present_note(&scope), &[&asks.work], regions(&asks, &known, &links))}
                <div class="pair">
                    {panel("ttft", "TTFT p99 by node", &note, &[&slow], chart(&slow, "ttft_p99", "TTFT p99 by node", Unit::Seconds, Some(TTFT_LIMIT_S)))}
                    {panel("queues", "Requests that wait, by node", &note, &[&queues], chart(&queues, "waiting", "Waiting requests by node", Unit::Plain, None))}
                </div>
                {panel("nodes", "Figures by node", &format!("slowest first; {}; engine time: requests, padding, idle", present_note(&scope)), &asks.asked(), nodes::list(&known, &links))}
            }
            .into_any()
        };
        Sheet {
            filters: &[Dimension::Hardware],
            trail: vec![("Fleet".to_owned(), links.link("/fleet"))],
            renews: true,
            body,
            choices: Some(choices),
            ..Sheet::new(region, Place::Fleet, links.clone()).told_by(&asks.asked())
        }
    })
}

fn queues_sql(scope: &Scope, span: (i64, i64)) -> String {
    let clause = Where::of(scope, minutes(span), FILTERS).and_equal("kind", Some("engine"));
    let clause = clause.and("host_id IS NOT NULL".to_owned());
    format!(
        "SELECT {}, host_id, avg(waiting) AS waiting, avg(running) AS running\nFROM devices_minutes\n{}\nGROUP BY bucket, host_id\nORDER BY bucket, host_id",
        bucket(minute_step(span)),
        clause.clause()
    )
}

fn ttft_sql(scope: &Scope, span: (i64, i64)) -> String {
    let clause = Where::of(scope, span, FILTERS).and_equal("measured_at", Some("server"));
    let clause = clause.and("host_id IS NOT NULL AND ttft_s IS NOT NULL".to_owned());
    format!(
        "SELECT {}, host_id, exph_quantile(exph(ttft_s), 0.99) AS ttft_p99\nFROM latency\n{}\nGROUP BY bucket, host_id\nORDER BY bucket, host_id",
        bucket(minute_step(span)),
        clause.clause()
    )
}

/// What could not be asked; the rest stands.
fn failures(visit: &Visit, asked: &[&Asked]) -> AnyView {
    let cards: Vec<_> = asked
        .iter()
        .filter_map(|asked| asked.outcome.as_ref().err().map(|failure| failed(visit, failure, &asked.sql)))
        .collect();
    cards.into_any()
}

/// A card per region with a square per node.
fn regions(asks: &nodes::Asks, known: &[Node], scope: &Scope) -> AnyView {
    let mut names: Vec<&str> = known.iter().map(|node| node.region.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let cards: Vec<_> = names.into_iter().map(|name| region_card(name, asks, known, scope)).collect();
    view! { <div class="region-cards">{cards}</div> }.into_any()
}

fn region_card(name: &str, asks: &nodes::Asks, known: &[Node], scope: &Scope) -> AnyView {
    let own: Vec<&Node> = known.iter().filter(|node| node.region == name).collect();
    let answer = asks.work.outcome.as_ref().ok();
    let row = answer.and_then(|answer| {
        answer.rows().find(|row| Level::of(row) == Level::Region && row.text("region").unwrap_or_default() == name)
    });
    let rate = |column: &str| row.as_ref().and_then(|row| asks.per_second(row, column));
    let p99 = row.as_ref().and_then(|row| row.number("ttft_p99"));
    let sum = |value: fn(&Node) -> Option<f64>| own.iter().filter_map(|node| value(node)).reduce(|a, b| a + b);
    // Of a silent node nothing is known, its price neither.
    let unpriced = own.iter().filter(|node| node.usd_per_hour.is_none() && node.silent_us.is_none()).count();
    let price_note =
        (unpriced > 0).then(|| view! { <small class="warn">{format!("{unpriced} without a price left out")}</small> });
    let dots: Vec<_> = own.iter().map(|node| dot(node, scope)).collect();
    // Nodes without a region have no page of their region.
    let page = (!name.is_empty()).then(|| scope.link(&path(&["region", name])));
    let title = if name.is_empty() { "no region".to_owned() } else { name.to_owned() };
    let silent = asks
        .seen
        .region(name)
        .map(|since| view! { <p class="hint warn">{format!("All its nodes are {}.", silence::words(since))}</p> });
    let figure = |label: &'static str, text: String| view! { <div><dt>{label}</dt><dd>{text}</dd></div> };
    view! {
        <article class="region">
            <h3><a href=page>{title}</a><span class="note">{format!("{} nodes", own.len())}</span></h3>
            <p class="dots">{dots}</p>
            {silent}
            <dl>
                <div><dt>"TTFT p99"</dt><dd class:crit=p99.is_some_and(|p99| p99 > TTFT_LIMIT_S)>{over(p99)}</dd></div>
                {figure("requests", format::text(rate("requests"), Unit::RequestsPerSecond))}
                {figure("output", format::text(rate("tokens"), Unit::TokensPerSecond))}
                {figure("waiting", format::text(sum(|node| node.waiting), Unit::Plain))}
                {figure("power", format::text(sum(|node| node.watts), Unit::Watts))}
                <div><dt>"price"</dt><dd>{format::text(sum(|node| node.usd_per_hour), Unit::UsdPerHour)}{price_note}</dd></div>
            </dl>
        </article>
    }
    .into_any()
}

/// Over the limit with a sign, since colour alone tells some readers nothing.
fn over(p99: Option<f64>) -> String {
    let sign = if p99.is_some_and(|p99| p99 > TTFT_LIMIT_S) { "▲ " } else { "" };
    format!("{sign}{}", format::text(p99, Unit::Seconds))
}

/// A node as a square that leads to its page.
fn dot(node: &Node, scope: &Scope) -> AnyView {
    let (class, word) = node.standing();
    let class = format!("node-dot {class}");
    let label = format!("{}, {}: {word}, {}", node.host, node.host_type, format::text(node.ttft_p99, Unit::Seconds));
    let name = node.host.clone();
    view! { <a class="node-link" href=node.link(scope) title=label><i class=class></i>{name}</a> }.into_any()
}

/// Regions down, models across.
fn models(answer: &Answer, asks: &nodes::Asks, scope: &Scope) -> AnyView {
    let cells: Vec<Row<'_>> = answer.rows().filter(|row| Level::of(row) == Level::RegionAndModel).collect();
    let names = |column: &str| {
        let mut names: Vec<String> = cells.iter().filter_map(|row| row.text(column)).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let (regions, models) = (names("region"), names("model"));
    let lines: Vec<_> = regions
        .iter()
        .map(|region| {
            let across: Vec<_> = models
                .iter()
                .map(|model| {
                    let of = |row: &&Row<'_>| row.text("region") == Some(region) && row.text("model") == Some(model);
                    let scope = scope.with(Dimension::Region, Some(region)).with(Dimension::Model, Some(model));
                    cell(cells.iter().find(of), asks, &scope)
                })
                .collect();
            view! { <tr><th scope="row">{region.clone()}</th>{across}</tr> }
        })
        .collect();
    let heads: Vec<_> = models.iter().map(|model| view! { <th scope="col" class="num">{model.clone()}</th> }).collect();
    let head = view! { <th scope="col">"region"</th>{heads} }.into_any();
    crate::panel::table("Models by region", head, lines.into_any())
}

fn cell(row: Option<&Row<'_>>, asks: &nodes::Asks, scope: &Scope) -> AnyView {
    let Some(row) = row else { return view! { <td class="num">{format::UNKNOWN}</td> }.into_any() };
    let p99 = row.number("ttft_p99");
    let hot = p99.is_some_and(|p99| p99 > TTFT_LIMIT_S);
    let tokens = format::text(asks.per_second(row, "tokens"), Unit::TokensPerSecond);
    view! { <td class="num" class:crit=hot><a href=scope.link("/latency")>{over(p99)}</a><small>{tokens}</small></td> }
        .into_any()
}
