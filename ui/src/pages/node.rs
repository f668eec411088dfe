//! One node, in the order in which a request meets it: queue, prefill, decode, device, power, and which calls suffered.

mod questions;

use leptos::prelude::*;
use questions::Questions;
use viz::format::{self, Unit};

use super::{TTFT_LIMIT_S, latency, logs, requests};
use crate::ask::{Answer, Asked, Row};
use crate::frame::{self, Place, Sheet};
use crate::panel::plot::{Axis, P50, P90, P99, line_chart, series_of, stack_chart};
use crate::panel::{Tile, answered, empty, heads, hint, panel, table};
use crate::server::{App, Visit};
use crate::sql::{minute_step, step};
use crate::urlstate::{RequestFilter, Scope, Sort, path};

struct Asks {
    identity: Asked,
    course: Asked,
    peers: Asked,
    devices: Asked,
    power: Asked,
    work: Asked,
    cost: Asked,
    slowest: Asked,
    logs: Asked,
}

pub(crate) async fn page(app: &App, visit: &Visit, host: &str) -> String {
    let scope = Scope::parse(&visit.query);
    let questions = Questions { host, span: scope.resolve(visit.now_us) };
    let (choices, asks) = tokio::join!(frame::choices(app, visit, &scope), ask(app, visit, &scope, &questions));
    frame::render(app, visit, || {
        let known = asks.identity.outcome.as_ref().map(|answer| answer.first().is_some()).unwrap_or(true);
        let body = if known {
            panels(visit, &scope, host, &asks)
        } else {
            empty(app, &scope, &choices, "samples or calls of this node")
        };
        let region = first(&asks.identity).and_then(|row| row.text("region").map(str::to_owned));
        let mut trail = vec![("Fleet".to_owned(), scope.link("/fleet"))];
        trail.extend(region.map(|region| (region.clone(), scope.link(&path(&["region", &region])))));
        Sheet {
            trail,
            renews: true,
            body,
            choices: Some(choices),
            ..Sheet::new(host, Place::Fleet, scope.clone()).told_by(&[&asks.course, &asks.devices, &asks.identity])
        }
    })
}

async fn ask(app: &App, visit: &Visit, scope: &Scope, questions: &Questions<'_>) -> Asks {
    let key = scope.all().link(&path(&[questions.host]));
    let ask = |name, sql| app.asker.panel(name, visit.now_us, sql);
    // What rests on every token and every sample is dear, and changes by the minute.
    let kept = |name, sql| app.asker.kept(name, &key, visit.now_us, sql);
    let peers = async {
        let identity = ask("node.identity", questions.identity()).await;
        let host_type = first(&identity).and_then(|row| row.text("host_type").map(str::to_owned));
        let peers = ask("node.peers", questions.peers(host_type.as_deref())).await;
        (identity, peers)
    };
    let ((identity, peers), course, devices, power, work, cost, slowest, logs) = tokio::join!(
        peers,
        ask("node.ttft", questions.course()),
        kept("node.devices", questions.devices()),
        kept("node.power", questions.power()),
        kept("node.work", questions.work()),
        kept("node.cost", questions.cost()),
        ask("node.slowest", questions.slowest()),
        ask("node.logs", questions.logs()),
    );
    Asks { identity, course, peers, devices, power, work, cost, slowest, logs }
}

fn first(asked: &Asked) -> Option<Row<'_>> {
    asked.outcome.as_ref().ok()?.first()
}

fn panels(visit: &Visit, scope: &Scope, host: &str, asks: &Asks) -> AnyView {
    let span_us = scope.resolve(visit.now_us);
    let (fine, minutes) = (Axis { span_us, step_s: step(span_us) }, Axis { span_us, step_s: minute_step(span_us) });
    let split = answered(visit, &asks.course, |answer| latency::split(answer, fine, true));
    let slow = answered(visit, &asks.course, |answer| percentiles(answer, fine));
    let peers = answered(visit, &asks.peers, peers);
    let slowest = answered(visit, &asks.slowest, |answer| {
        requests::calls("Slowest calls", "It served no call in this range.", answer, scope)
    });
    let logs = answered(visit, &asks.logs, |answer| logs::list(answer, scope));
    let filter = RequestFilter { host: Some(host.to_owned()), sort: Sort::Ttft, ..RequestFilter::default() };
    let note = format!("means of {} s, which add up; prefill is from first scheduled to first token", fine.step_s);
    view! {
        {lead(asks)}
        <section id="tiles" class="tiles" data-refresh="" aria-label="Node">{tiles(asks)}</section>
        {panel("peers", "Beside its peers", "the other nodes of the same hardware, in the same time", &[&asks.peers], peers)}
        <div class="pair">
            {panel("split", "Where the time to the first token goes", &note, &[&asks.course], split)}
            {panel("ttft", "TTFT percentiles", "measured at the engine", &[&asks.course], slow)}
        </div>
        {panel("slowest", "Slowest calls here", "by time to the first token; a row leads to its tokens", &[&asks.slowest], slowest)}
        {engine(visit, asks, minutes)}
        {panel("logs", "Logs", "the newest 20", &[&asks.logs], logs)}
        <p class="pager"><a href=filter.link(&scope.all())>"All its calls"</a><a href=logs::link(scope, host)>"All its logs"</a></p>
    }
    .into_any()
}

/// How engine and device stood, a chart for each.
fn engine(visit: &Visit, asks: &Asks, axis: Axis) -> AnyView {
    let lines = |asked: &Asked, columns: &[(&str, &str, usize)], title: &str, unit: Unit| {
        answered(visit, asked, |answer| line_chart(&axis.chart(title, unit, answer, series_of(answer, columns))))
    };
    let batch = lines(
        &asks.devices,
        &[("running", "running", 2), ("waiting", "waiting", 3)],
        "Requests in the engine",
        Unit::Plain,
    );
    let shares = [("kv_usage", "KV cache used", 0), ("utilization", "device executing", 2)];
    let shares = lines(&asks.devices, &shares, "KV cache and device", Unit::Ratio);
    let watts = lines(&asks.power, &[("watts", "power", 5)], "Power", Unit::Watts);
    let time = answered(visit, &asks.work, |answer| {
        let columns = [("requests", "requests", 0), ("padding", "padding", 0), ("idle", "idle", 0)];
        stack_chart(
            &axis.chart("Engine time", Unit::Ratio, answer, series_of(answer, &columns)),
            &["decode", "queue", "rest"],
        )
    });
    let power = first(&asks.power);
    let text = |column: &str| power.as_ref().and_then(|row| row.text(column)).unwrap_or(format::UNKNOWN).to_owned();
    let power_note = format!("at the {}; {}; {}", text("boundary"), text("method"), text("confidence"));
    let note = format!("means of {} s", axis.step_s);
    view! {
        <div class="pair">
            {panel("batch", "Batch and queue of the engine", &note, &[&asks.devices], batch)}
            {panel("kv", "KV cache and device", &note, &[&asks.devices], shares)}
            {panel("time", "What the engine's time went into", "requests + padding + idle = wall time", &[&asks.work], time)}
            {panel("power", "Power", &power_note, &[&asks.power], watts)}
        </div>
    }
    .into_any()
}

/// What it is, in words.
fn lead(asks: &Asks) -> AnyView {
    let Some(row) = first(&asks.identity) else { return ().into_any() };
    let text = |column: &str| row.text(column).map(str::to_owned);
    let mut words = vec![text("host_type").unwrap_or_else(|| "Unknown hardware".to_owned())];
    words.extend(row.number("chips").map(|chips| format!("{} chips", format::text(Some(chips), Unit::Count))));
    words.extend(text("accelerator"));
    words.extend(text("zone").or_else(|| text("region")).map(|zone| format!("in {zone}")));
    words.extend(text("pool").map(|pool| format!("pool {pool}")));
    words.extend(text("cluster").map(|cluster| format!("cluster {cluster}")));
    words.extend(text("model").map(|model| format!("serves {model}")));
    words.extend(text("service").map(|service| {
        let version = text("service_version").map(|version| format!(" {version}")).unwrap_or_default();
        format!("by {service}{version}")
    }));
    view! { <p class="lead">{words.join(" · ")}</p> }.into_any()
}

fn tiles(asks: &Asks) -> AnyView {
    let whose = |name: &str| {
        let answer = asks.peers.outcome.as_ref().ok()?;
        answer.rows().find(|row| row.text("whose") == Some(name))
    };
    let (own, peers) = (whose("this"), whose("peers"));
    let of = |row: &Option<Row<'_>>, column: &str| row.as_ref().and_then(|row| row.number(column));
    let peer = |column: &str, unit| format!("peers {}", format::text(of(&peers, column), unit));
    let course = |asked: &Asked, column: &str| -> Vec<Option<f64>> {
        asked.outcome.as_ref().map(|answer| answer.rows().map(|row| row.number(column)).collect()).unwrap_or_default()
    };
    let (made, minute) = newest_minute(&asks.work);
    let tile = |label, value, unit, note: String, asked: &Asked, course| {
        Tile { label, value, unit, note, flag: None, before: None, course, asked }.view()
    };
    let cost = first(&asks.cost);
    let basis = cost.as_ref().and_then(|row| row.text("basis")).unwrap_or("no price is known").to_owned();
    let spent = format::text(of(&cost, "cost_usd"), Unit::Usd);
    view! {
        {tile("TTFT p99", of(&own, "p99"), Unit::Seconds, peer("p99", Unit::Seconds), &asks.peers, course(&asks.course, "p99"))}
        {tile("Mean queue", of(&own, "queue_s"), Unit::Seconds, peer("queue_s", Unit::Seconds), &asks.peers, course(&asks.course, "queue_s"))}
        {tile("Output tokens", made, Unit::TokensPerSecond, minute, &asks.work, course(&asks.work, "tokens_per_s"))}
        {tile("Price", of(&cost, "usd_per_hour"), Unit::UsdPerHour, format!("{basis}; {spent} in this range"), &asks.cost, Vec::new())}
    }
    .into_any()
}

/// Tokens a second of the newest bucket that is over: one that still runs has not made all of its tokens.
fn newest_minute(work: &Asked) -> (Option<f64>, String) {
    let over = work.outcome.as_ref().ok().and_then(|answer| {
        let until_us = answer.raw().freshness?.newest_time_us;
        let starts: Vec<i64> = answer.rows().filter_map(|row| row.time("bucket")).collect();
        let step_us = starts.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(60_000_000);
        let is_over = |row: &Row<'_>| row.time("bucket").is_some_and(|start| start + step_us <= until_us);
        answer.rows().filter(is_over).last()
    });
    match over {
        Some(row) => {
            let start = row.time("bucket").map(crate::zone::clock).unwrap_or_default();
            (row.number("tokens_per_s"), format!("mean of the bucket from {start} on"))
        }
        None => (None, "no minute of this range is over yet".to_owned()),
    }
}

fn percentiles(answer: &Answer, axis: Axis) -> AnyView {
    let series = series_of(answer, &[("p99", "p99", P99), ("p90", "p90", P90), ("p50", "p50", P50)]);
    let mut chart = axis.chart("TTFT percentiles", Unit::Seconds, answer, series);
    chart.limit = Some((TTFT_LIMIT_S, format!("alert at {}", format::text(Some(TTFT_LIMIT_S), Unit::Seconds))));
    line_chart(&chart)
}

/// Figures that are compared: column, name, unit.
const COMPARED: [(&str, &str, Unit); 10] = [
    ("calls", "calls", Unit::Count),
    ("p50", "TTFT p50", Unit::Seconds),
    ("p99", "TTFT p99", Unit::Seconds),
    ("queue_s", "queue, mean", Unit::Seconds),
    ("queue_p99", "queue p99", Unit::Seconds),
    ("prefill_s", "prefill, mean", Unit::Seconds),
    ("prefill_p99", "prefill p99", Unit::Seconds),
    ("tpot_s", "TPOT, mean", Unit::Seconds),
    ("input_tokens", "input tokens a call", Unit::Plain),
    ("failed", "failed", Unit::Ratio),
];

/// Twice as much as the peers is told apart.
const APART: f64 = 2.0;

fn peers(answer: &Answer) -> AnyView {
    let whose = |name: &str| answer.rows().find(|row| row.text("whose") == Some(name));
    let (own, others) = (whose("this"), whose("peers"));
    let Some(own) = own else { return hint("It served no call in this range.") };
    let hosts = others.as_ref().and_then(|row| row.number("hosts"));
    let longest = [Some(own), others].into_iter().flatten().filter_map(|row| row.number("mean_s")).fold(0.0, f64::max);
    let lines: Vec<_> =
        [("this node".to_owned(), Some(own)), (format!("{} peers", format::text(hosts, Unit::Count)), others)]
            .into_iter()
            .map(|(name, row)| {
                let cells = COMPARED.map(|(column, _, unit)| {
                    let value = row.as_ref().and_then(|row| row.number(column));
                    let against = others.as_ref().and_then(|row| row.number(column));
                    let times = value
                        .zip(against)
                        .filter(|(_, against)| *against > 0.0)
                        .map(|(value, against)| value / against);
                    let apart = column != "calls" && times.is_some_and(|times| times >= APART);
                    let times = times
                        .filter(|_| apart)
                        .map(|times| view! { <small class="warn">{format!("▲ {times:.1}×")}</small> });
                    view! { <td class="num" class:crit=apart>{format::text(value, unit)}{times}</td> }
                });
                let bar = match row {
                    Some(row) => latency::parts(&row, longest),
                    None => view! { <td>{format::UNKNOWN}</td> }.into_any(),
                };
                view! { <tr><th scope="row">{name}</th>{bar}{cells.into_iter().collect_view()}</tr> }
            })
            .collect();
    let mut names = vec!["".to_owned(), "queue · prefill · rest".to_owned()];
    names.extend(COMPARED.iter().map(|(_, name, _)| format!("#{name}")));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    table("This node and its peers", heads(&names), lines.into_any())
}
