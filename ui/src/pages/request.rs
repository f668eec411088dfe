//! One request from the inside: its phases, its trace, each of its tokens, its cost.

mod facts;
mod lanes;
mod rank;
mod tokens;

use leptos::prelude::*;
use viz::format::{self, Unit};

use crate::ask::{Answer, Asked, Row};
use crate::frame::{self, Place, Sheet};
use crate::panel::{answered, panel};
use crate::server::{App, Visit};
use crate::sql::{Where, literal};
use crate::urlstate::{Fields, Scope, path};

/// Which request, and where in time to look for it.
struct Key<'a> {
    trace: &'a str,
    span: &'a str,
    /// Instants between which everything of the trace lies, µs.
    window: (i64, i64),
    /// Instants between which it ran itself, µs, once that is known.
    own: (i64, i64),
    /// Where it ran, once that is known: what others did on other hosts need not be read.
    host: Option<String>,
    /// Which of the host's engines served it.
    instance: Option<String>,
}

/// Time around a known start in which the rest of a trace is sought, µs.
const AROUND_US: i64 = 1_800_000_000;
/// Without a known start: as long as tokens are kept, µs.
const KEPT_US: i64 = 7 * 86_400_000_000;

pub(crate) async fn page(app: &App, visit: &Visit, trace: &str, span: &str) -> String {
    let fields = Fields::parse(&visit.query);
    let start_us = fields.text("t").as_deref().and_then(crate::urlstate::parse_instant);
    let window = match start_us {
        Some(at) => (at.saturating_sub(AROUND_US), at.saturating_add(AROUND_US)),
        None => (visit.now_us - KEPT_US, visit.now_us + 600_000_000),
    };
    let ask = |name, sql| app.asker.in_time(visit, name, sql);
    let request =
        ask("request.row", request_sql(&Key { trace, span, window, own: window, host: None, instance: None })).await;
    // The rest of a request is found faster once it is known when it ran.
    let own = ran(&request);
    let around = own.map(|(from, to)| (from - 300_000_000, to + 300_000_000));
    let (host, instance) = (of(&request, "host_id"), of(&request, "instance"));
    let key = Key { trace, span, window: around.unwrap_or(window), own: own.unwrap_or(window), host, instance };
    let rank = async {
        let row = request.outcome.as_ref().ok().and_then(Answer::first);
        match rank::sql(row.as_ref()) {
            Some(sql) => Some(ask("request.rank", sql).await),
            None => None,
        }
    };
    let (rank, engine, spans, tokens, cost, energy) = tokio::join!(
        rank,
        ask("request.engine", tokens::context_sql(&key)),
        ask("request.spans", lanes::sql(&key)),
        ask("request.tokens", tokens::sql(&key)),
        ask("request.cost", facts::cost_sql(&key)),
        ask("request.energy", facts::energy_sql(&key)),
    );
    frame::render(app, visit, || {
        let scope = Scope::parse(&visit.query);
        let body = answered(visit, &request, |answer| match answer.first() {
            Some(row) => found(visit, &row, &Parts { request: &request, rank, engine, spans, tokens, cost, energy }),
            None => not_found(&key, start_us.is_some()),
        });
        let mut trail = vec![("Requests".to_owned(), scope.link("/requests"))];
        trail.extend(key.host.clone().map(|host| (host.clone(), scope.link(&path(&["node", &host])))));
        Sheet {
            trail,
            body,
            ..Sheet::new(format!("Request {}", span.get(..8).unwrap_or(span)), Place::Requests, scope)
                .told_by(&[&request])
        }
    })
}

/// The answers of a page.
struct Parts<'a> {
    request: &'a Asked,
    rank: Option<Asked>,
    engine: Asked,
    spans: Asked,
    tokens: Asked,
    cost: Asked,
    energy: Asked,
}

fn of(request: &Asked, column: &str) -> Option<String> {
    request.outcome.as_ref().ok()?.first()?.text(column).map(str::to_owned)
}

/// When a request ran, with a second on each side.
fn ran(request: &Asked) -> Option<(i64, i64)> {
    let row = request.outcome.as_ref().ok()?.first()?;
    let start = row.time("time")?;
    let wide = (row.number("e2e_s").unwrap_or(900.0).clamp(0.0, 86_400.0) * 1e6) as i64;
    Some((start - 1_000_000, start + wide + 1_000_000))
}

/// The row of the request as every place saw it would be `requests`; one place is one span.
fn request_sql(key: &Key<'_>) -> String {
    let filter = Where::span(key.window)
        .and(format!("trace_id = {}", literal(key.trace)))
        .and(format!("span_id = {}", literal(key.span)));
    format!("SELECT *\nFROM requests\n{}\nLIMIT 1", filter.clause())
}

fn not_found(key: &Key<'_>, dated: bool) -> AnyView {
    let hint = if dated {
        "The link names a time, and no such request is within half an hour of it."
    } else {
        "No such request in the last seven days. A link with ?t=<milliseconds> finds older ones."
    };
    view! {
        <div class="card">
            <p><strong>"This request is not in the tables."</strong></p>
            <p>{hint}" It may also not have arrived yet: its span is sent when it ends."</p>
            <p><code>{format!("{}/{}", key.trace, key.span)}</code></p>
        </div>
    }
    .into_any()
}

fn found(visit: &Visit, row: &Row<'_>, parts: &Parts<'_>) -> AnyView {
    let start_us = row.time("time").unwrap_or(visit.now_us);
    let width_s = row.number("e2e_s").filter(|width| *width > 0.0).unwrap_or(1e-3);
    let lanes = answered(visit, &parts.spans, |answer| lanes::view(answer, row));
    let timeline = answered(visit, &parts.tokens, |answer| tokens::view(answer, &parts.engine, start_us, width_s));
    let cost = answered(visit, &parts.cost, |answer| facts::cost(answer, row));
    let energy = answered(visit, &parts.energy, facts::energy);
    view! {
        <p class="lead" id="lead" data-refresh="">{sentence(row)}" "{rank::sentence(parts.rank.as_ref(), row)}</p>
        {panel("phases", "Phases", "where its time went, as the place that measured it says", &[Some(parts.request), parts.rank.as_ref()].into_iter().flatten().collect::<Vec<_>>(), lanes::phases(row))}
        {panel("tokens", "Tokens", "a stroke per token when it left the engine; height is the gap before it, log scale; below, how the engine stood", &[&parts.tokens, &parts.engine], timeline)}
        {panel("trace", "Trace", "all spans on one axis; of the wait: the share of the time to the user's first token that a span ran in", &[&parts.spans], lanes)}
        <div class="pair">
            <div class="stack">
                {panel("cost", "Cost", "device time × price of the chips at that time", &[&parts.cost], cost)}
                {panel("energy", "Energy", "joules of the host × share of its device time", &[&parts.energy], energy)}
            </div>
            {panel("facts", "Attributes", "", &[parts.request], facts::table(row))}
        </div>
    }
    .into_any()
}

/// What happened, in words: model, place, tokens, times, end.
fn sentence(row: &Row<'_>) -> String {
    let text = |column: &str, otherwise: &str| row.text(column).unwrap_or(otherwise).to_owned();
    let seconds = |column: &str| format::text(row.number(column), Unit::Seconds);
    let count = |column: &str| format::text(row.number(column), Unit::Count);
    let tenant = row.text("tenant").map(|tenant| format!(" for {tenant}")).unwrap_or_default();
    let verb = match row.text("status") {
        Some("error") => "failed after",
        Some("cancelled") => "was cancelled after",
        _ => "made",
    };
    let reason = row.text("finish_reason").map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!(
        "{} in {} on {} {verb} {} output tokens from {} input tokens{tenant} in {}{reason}: first token after {}, of which {} in the queue; longest gap {}.",
        text("model", "An unnamed model"),
        text("region", "an unknown region"),
        text("host_type", "an unknown host"),
        count("output_tokens"),
        count("input_tokens"),
        seconds("e2e_s"),
        seconds("ttft_s"),
        seconds("queue_s"),
        seconds("itl_max_s"),
    )
}
