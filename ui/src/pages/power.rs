//! Power: what the fleet draws, how many tokens a joule makes, and how far the watts can be trusted.

use leptos::prelude::*;
use viz::format::{self, Unit};

use crate::ask::{Answer, Asked, Row};
use crate::frame::{self, Place, Sheet};
use crate::panel::plot::{Axis, line_chart, series_by};
use crate::panel::{Tile, answered, empty, heads, hint, number, panel, table, text};
use crate::server::{App, Visit};
use crate::sql::{PLACE, Where, bucket, hours, minute_step, minutes};
use crate::urlstate::{Dimension, Scope, path};

struct Asks {
    total: Asked,
    course: Asked,
    hosts: Asked,
    models: Asked,
    carbon: Asked,
}

pub(crate) async fn page(app: &App, visit: &Visit) -> String {
    let scope = Scope::parse(&visit.query);
    let span = minutes(scope.resolve(visit.now_us));
    let key = Scope { tenant: None, engine: None, hardware: None, ..scope.clone() }.link("");
    let ask = |name, sql| app.asker.kept(name, &key, visit.now_us, sql);
    let clause = Where::place(&scope, span);
    let hosts = Where::of(&scope, span, &[Dimension::Region]);
    let (choices, total, course, hosts, models, carbon) = tokio::join!(
        frame::choices(app, visit, &scope),
        ask("power.efficiency", total_sql(&clause)),
        ask("power.over time", course_sql(&clause, minute_step(span))),
        ask("power.hosts", hosts_sql(&hosts)),
        ask("power.figures", models_sql(&hosts)),
        app.asker.later("power.carbon", &key, visit.now_us, carbon_sql(&Where::place(&scope, hours(span)))),
    );
    let asks = Asks { total, course, hosts, models, carbon };
    frame::render(app, visit, || {
        let nothing = matches!((&asks.total.outcome, &asks.hosts.outcome), (Ok(total), Ok(hosts)) if whole(total).is_none() && hosts.first().is_none());
        let body = if nothing { silent(app, &scope, &choices) } else { panels(visit, &scope, span, &asks) };
        Sheet {
            filters: &PLACE,
            renews: true,
            body,
            choices: Some(choices),
            ..Sheet::new("Power and efficiency", Place::Power, scope.clone()).told_by(&[
                &asks.total,
                &asks.course,
                &asks.hosts,
            ])
        }
    })
}

fn silent(app: &App, scope: &Scope, choices: &Asked) -> AnyView {
    view! {
        <div class="card"><p>"No device told its power or energy in this range. "<code>"hw.power"</code>" and "<code>"hw.energy"</code>" of any exporter are read, and so are DCGM, neuron-monitor, RAPL and IPMI; see docs/wire.md."</p></div>
        {empty(app, scope, choices, "power samples")}
    }
    .into_any()
}

/// What a row of efficiency says. Sums are divided, ratios never averaged.
const RATIOS: &str = "sum(output_tokens) AS output_tokens, sum(joules) AS joules,\n  \
     CAST(sum(output_tokens) AS DOUBLE) / nullif(sum(joules), 0) AS tokens_per_joule,\n  \
     sum(power_w) / count(DISTINCT time) AS power_w";

/// Hosts of a minute as the mean of the range's minutes, to the next whole one: the view has a row for each of a minute's host types.
const HOSTS: &str = "CAST(round(CAST(sum(hosts) AS DOUBLE) / count(DISTINCT time)) AS BIGINT)";

/// One row per place, model and boundary, and one per boundary.
fn total_sql(clause: &Where) -> String {
    format!(
        "SELECT region, model, boundary, grouping(region) AS total,\n  {RATIOS}, {HOSTS} AS hosts,\n  string_agg(DISTINCT method, ', ') AS method, string_agg(DISTINCT confidence, ', ') AS confidence\nFROM perf_per_watt\n{}\nGROUP BY GROUPING SETS ((boundary), (region, model, boundary))\nORDER BY total DESC, joules DESC",
        clause.clause()
    )
}

fn course_sql(clause: &Where, step_s: i64) -> String {
    format!(
        "SELECT {}, coalesce(region, 'no region') || ', ' || coalesce(boundary, 'unknown boundary') AS place,\n  {RATIOS}\nFROM perf_per_watt\n{}\nGROUP BY bucket, place\nORDER BY bucket, place",
        bucket(step_s),
        clause.clause()
    )
}

fn hosts_sql(clause: &Where) -> String {
    format!(
        "SELECT region, host_id, host_type, sum(joules) AS joules,\n  sum(joules) / nullif(sum(to_us - from_us) / 1000000.0, 0) AS power_w,\n  max(joules / nullif((to_us - from_us) / 1000000.0, 0)) AS power_w_max, min(joules / nullif((to_us - from_us) / 1000000.0, 0)) AS power_w_min,\n  string_agg(DISTINCT boundary, ', ') AS boundary, string_agg(DISTINCT method, ', ') AS method, string_agg(DISTINCT confidence, ', ') AS confidence\nFROM host_energy\n{}\nGROUP BY region, host_id, host_type\nORDER BY joules DESC\nLIMIT 200",
        clause.clause()
    )
}

/// The figures behind watts that were not measured, of the devices seen in the range.
fn models_sql(clause: &Where) -> String {
    format!(
        "SELECT device, boundary, idle_w, max_w, method, source, as_of, confidence, note\nFROM power_models\nWHERE device IN (SELECT DISTINCT accelerator FROM devices {0}) OR device IN (SELECT DISTINCT host_type FROM devices {0})\nORDER BY device, boundary",
        clause.clause()
    )
}

/// Grams of each region, one row for each way of counting the grid: they are the same joules.
fn carbon_sql(clause: &Where) -> String {
    format!(
        "SELECT region, grid_method, boundary, sum(joules) AS joules, max(pue) AS pue, sum(facility_joules) AS facility_joules,\n  max(gco2e_per_kwh) AS gco2e_per_kwh, sum(gco2e) AS gco2e, max(grid_as_of) AS grid_as_of,\n  string_agg(DISTINCT grid_confidence, ', ') AS grid_confidence, string_agg(DISTINCT confidence, ', ') AS confidence\nFROM carbon\n{}\nGROUP BY region, grid_method, boundary\nORDER BY region, grid_method, boundary",
        clause.clause()
    )
}

/// The row of all places together, of the boundary that most joules are known of.
fn whole(answer: &Answer) -> Option<Row<'_>> {
    answer.rows().find(|row| row.number("total") == Some(1.0) && row.number("joules").is_some())
}

fn panels(visit: &Visit, scope: &Scope, span: (i64, i64), asks: &Asks) -> AnyView {
    let axis = Axis { span_us: span, step_s: minute_step(span) };
    let chart = |column: &'static str, title: &'static str, unit| {
        answered(visit, &asks.course, |answer| {
            line_chart(&axis.chart(title, unit, answer, series_by(answer, "place", column)))
        })
    };
    let efficiency = answered(visit, &asks.total, |answer| efficiency(answer, scope));
    let hosts = answered(visit, &asks.hosts, |answer| hosts(answer, scope));
    let models = answered(visit, &asks.models, models);
    let carbon = answered(visit, &asks.carbon, carbon);
    let note = format!("{} s buckets, by region and boundary", axis.step_s);
    view! {
        <section id="tiles" class="tiles" data-refresh="" aria-label="Power and efficiency">{tiles(asks)}</section>
        <div class="pair">
            {panel("watts", "Power", &note, &[&asks.course], chart("power_w", "Power by region", Unit::Watts))}
            {panel("ratio", "Output tokens per joule", "which is tokens a second per watt", &[&asks.course], chart("tokens_per_joule", "Output tokens per joule by region", Unit::TokensPerJoule))}
        </div>
        {panel("efficiency", "By region and model", "boundaries are never added: joules of chips and joules at the wall are different numbers", &[&asks.total], efficiency)}
        {panel("hosts", "By node", "energy of the range, mean power and the least and most of a minute", &[&asks.hosts], hosts)}
        {panel("carbon", "Carbon", "whole hours that the range touches: energy × PUE × grams a kilowatt hour of the region's grid; a row per way of counting the grid", &[&asks.carbon], carbon)}
        {panel("figures", "What watts rest on that nobody measured", "power models of the devices seen", &[&asks.models], models)}
    }
    .into_any()
}

fn tiles(asks: &Asks) -> AnyView {
    let row = asks.total.outcome.as_ref().ok().and_then(whole);
    let of = |column: &str| row.as_ref().and_then(|row| row.number(column));
    let words = |column: &str| row.as_ref().and_then(|row| row.text(column)).unwrap_or(format::UNKNOWN).to_owned();
    let assumed = row.is_some_and(|row| row.text("confidence").is_some_and(|confidence| confidence != "measured"));
    let flag = assumed.then(|| words("confidence"));
    let basis = format!("at the {}, {}", words("boundary"), words("method"));
    let per_token = of("tokens_per_joule").filter(|ratio| *ratio > 0.0).map(|ratio| 1.0 / ratio);
    let tile = |label, value, unit, note: String| {
        Tile { label, value, unit, note, flag: flag.clone(), before: None, course: Vec::new(), asked: &asks.total }
            .view()
    };
    let tokens = format::text(of("output_tokens"), Unit::Tokens);
    view! {
        {tile("Tokens per joule", of("tokens_per_joule"), Unit::TokensPerJoule, format!("tokens a second per watt, {basis}"))}
        {tile("Joules per output token", per_token, Unit::JoulesPerToken, "idle joules included".to_owned())}
        {tile("Power", of("power_w"), Unit::Watts, format!("mean of the range, {basis}"))}
        {tile("Energy", of("joules"), Unit::KilowattHours, format!("for {tokens}"))}
    }
    .into_any()
}

fn efficiency(answer: &Answer, scope: &Scope) -> AnyView {
    let lines: Vec<_> = answer
        .rows()
        .filter(|row| row.number("total") == Some(0.0))
        .map(|row| {
            let ratio = row.number("tokens_per_joule");
            let per_token = ratio.filter(|ratio| *ratio > 0.0).map(|ratio| 1.0 / ratio);
            let region = row.text("region");
            let link = region.map(|region| scope.link(&path(&["region", region])));
            view! {
                <tr>
                    <th scope="row"><a href=link>{region.unwrap_or("no region").to_owned()}</a></th>
                    {text(row.text("model"))}
                    {number(row.number("hosts"), Unit::Count)}
                    {number(row.number("output_tokens"), Unit::Tokens)}
                    {number(row.number("joules"), Unit::KilowattHours)}
                    {number(ratio, Unit::TokensPerJoule)}
                    {number(per_token, Unit::JoulesPerToken)}
                    {number(row.number("power_w"), Unit::Watts)}
                    {basis(&row)}
                </tr>
            }
        })
        .collect();
    if lines.is_empty() {
        return hint("No host with a known energy made tokens in this range.");
    }
    let names = [
        "region",
        "model",
        "#hosts",
        "#output tokens",
        "#energy",
        "#tokens per joule",
        "#joules per token",
        "#power",
        "boundary",
        "method",
        "confidence",
    ];
    table("Efficiency by region and model", heads(&names), lines.into_any())
}

/// What a figure covers, how it was got, and how far it can be trusted.
fn basis(row: &Row<'_>) -> AnyView {
    let confidence = row.text("confidence").unwrap_or(format::UNKNOWN).to_owned();
    let doubtful = confidence != "measured";
    view! {
        {text(row.text("boundary"))}{text(row.text("method"))}
        <td class:warn=doubtful>{confidence}</td>
    }
    .into_any()
}

fn hosts(answer: &Answer, scope: &Scope) -> AnyView {
    let lines: Vec<_> = answer
        .rows()
        .map(|row| {
            let host = row.text("host_id");
            let link = host.map(|host| scope.link(&path(&["node", host])));
            view! {
                <tr>
                    <th scope="row"><a href=link>{host.unwrap_or(format::UNKNOWN).to_owned()}</a></th>
                    {text(row.text("region"))}
                    {text(row.text("host_type"))}
                    {number(row.number("joules"), Unit::KilowattHours)}
                    {number(row.number("power_w"), Unit::Watts)}
                    {number(row.number("power_w_min"), Unit::Watts)}
                    {number(row.number("power_w_max"), Unit::Watts)}
                    {basis(&row)}
                </tr>
            }
        })
        .collect();
    if lines.is_empty() {
        return hint("No host told its power or energy in this range.");
    }
    let names =
        ["node", "region", "hardware", "#energy", "#mean power", "#least", "#most", "boundary", "method", "confidence"];
    table("Energy by node", heads(&names), lines.into_any())
}

fn carbon(answer: &Answer) -> AnyView {
    let lines: Vec<_> = answer
        .rows()
        .map(|row| {
            let confidence = [row.text("confidence"), row.text("grid_confidence")];
            let confidence: Vec<&str> = confidence.into_iter().flatten().collect();
            view! {
                <tr>
                    <th scope="row">{row.text("region").unwrap_or("no region").to_owned()}</th>
                    {number(row.number("joules"), Unit::KilowattHours)}
                    {text(row.text("boundary"))}
                    {number(row.number("pue"), Unit::Plain)}
                    {number(row.number("facility_joules"), Unit::KilowattHours)}
                    {number(row.number("gco2e_per_kwh"), Unit::Plain)}
                    {number(row.number("gco2e"), Unit::Grams)}
                    {text(row.text("grid_method"))}
                    {text(row.text("grid_as_of"))}
                    <td class="say">{format!("energy and grid: {}", confidence.join(", "))}</td>
                </tr>
            }
        })
        .collect();
    if lines.is_empty() {
        return hint("No energy is known of any hour of this range.");
    }
    let names = [
        "region",
        "#energy",
        "boundary",
        "#PUE",
        "#with PUE",
        "#g CO2e a kWh",
        "#CO2e",
        "grid",
        "grid as of",
        "confidence",
    ];
    table("Carbon", heads(&names), lines.into_any())
}

fn models(answer: &Answer) -> AnyView {
    let lines: Vec<_> = answer
        .rows()
        .map(|row| {
            let confidence = row.text("confidence").unwrap_or(format::UNKNOWN).to_owned();
            let doubtful = confidence != "measured";
            let source = [row.text("source"), row.text("as_of"), row.text("note")];
            let source: Vec<&str> = source.into_iter().flatten().collect();
            view! {
                <tr>
                    <th scope="row">{row.text("device").unwrap_or(format::UNKNOWN).to_owned()}</th>
                    {text(row.text("boundary"))}
                    {number(row.number("idle_w"), Unit::Watts)}
                    {number(row.number("max_w"), Unit::Watts)}
                    {text(row.text("method"))}
                    <td class:warn=doubtful>{confidence}</td>
                    <td class="say">{source.join("; ")}</td>
                </tr>
            }
        })
        .collect();
    if lines.is_empty() {
        return hint("No power model is known of the devices seen: what they drew was measured, or is unknown.");
    }
    let names = ["device", "boundary", "#at rest", "#at full load", "method", "confidence", "source"];
    table("Power models", heads(&names), lines.into_any())
}
