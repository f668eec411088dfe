//! One objective: how its budget went, what is different about the calls that were not good, and which they were.

use leptos::prelude::*;
use viz::chart::Line;
use viz::format::{self, Unit};

use super::Objectives;
use super::terms::{self, FAST, SLOW, State, Terms};
use crate::ask::{Answer, Asked};
use crate::frame::{self, Place, Sheet};
use crate::pages::different::chosen::{Chosen, Compared, Otherwise};
use crate::pages::{different, latency, requests};
use crate::panel::plot::{Axis, line_chart, series_of};
use crate::panel::{answered, failed, hint, panel};
use crate::server::{App, Visit};
use crate::sql::{Where, bucket, literal, minute_step, minutes, step};
use crate::urlstate::{Dimension, Fields, Scope, path};

/// Calls in the list.
const CALLS: usize = 12;

struct Asks {
    compared: Compared<'static>,
    course: Asked,
    before: Asked,
    heat: Option<Asked>,
    different: Asked,
    measures: Asked,
    calls: Asked,
}

pub(crate) async fn page(app: &App, visit: &Visit, name: &str) -> String {
    let scope = Scope::parse(&visit.query);
    let (choices, objectives) = tokio::join!(frame::choices(app, visit, &scope), super::ask(app, visit, &scope));
    let known = objectives.terms.outcome.as_ref().map(terms::terms).unwrap_or_default();
    let terms = known.into_iter().find(|terms| terms.name == name);
    let asks = match &terms {
        Some(terms) => Some(ask(app, visit, &scope, terms).await),
        None => None,
    };
    frame::render(app, visit, || {
        let body = match (&terms, &asks) {
            (Some(terms), Some(asks)) => panels(visit, &scope, terms, &objectives, asks),
            _ => answered(visit, &objectives.terms, |_| unknown(name, &scope)),
        };
        let asked: Vec<&Asked> = asks.iter().flat_map(|asks| [&asks.course, &asks.different]).collect();
        Sheet {
            filters: &Dimension::ALL,
            trail: vec![("SLOs".to_owned(), scope.link("/slo"))],
            keep: asks.as_ref().map(|asks| boxed(Fields::default(), &asks.compared)).unwrap_or_default(),
            renews: true,
            body,
            choices: Some(choices),
            ..Sheet::new(name, Place::Slo, scope.clone()).told_by(&asked)
        }
    })
}

fn unknown(name: &str, scope: &Scope) -> AnyView {
    view! {
        <div class="card">
            <p>{format!("There is no objective {name} at the end of this range. It may have been renamed, or ended.")}</p>
            <p class="links"><a href=scope.link("/slo")>"All objectives"</a></p>
        </div>
    }
    .into_any()
}

/// What is compared unless somebody draws a box.
const NOT_GOOD: Otherwise = Otherwise {
    title: "What is different about them",
    words: "not good",
    none: "Every call was good",
    note: "share of the calls that were not good against share of all calls that count; a node leads to its page, all else narrows this one",
    back: "Back to the calls that were not good",
};

/// What the page's address compares; an objective whose calls have no place on a map has no box.
fn compared(visit: &Visit, terms: &Terms, span: (i64, i64)) -> Compared<'static> {
    let asked = Chosen::parse(&Fields::parse(&visit.query)).filter(|_| terms.column().is_some());
    Compared { asked, chosen: asked.map(|asked| asked.on_grid(step(span) * 1_000_000)), otherwise: &NOT_GOOD }
}

/// Fields with those of the box.
fn boxed(mut fields: Fields, compared: &Compared<'_>) -> Fields {
    if let Some(asked) = &compared.asked {
        asked.write(&mut fields);
    }
    fields
}

/// What holds of the calls that are compared with all that count.
fn meant(terms: &Terms, compared: &Compared<'_>) -> String {
    match compared.chosen.zip(terms.column()) {
        Some((chosen, column)) => chosen.condition(column),
        None => terms.is_bad(),
    }
}

async fn ask(app: &App, visit: &Visit, scope: &Scope, terms: &Terms) -> Asks {
    let span = scope.resolve(visit.now_us);
    let compared = compared(visit, terms, span);
    let meant = meant(terms, &compared);
    let ask = |name, sql| app.asker.panel(name, visit.now_us, sql);
    let heat = async {
        match terms.column() {
            Some(column) => Some(ask("slo detail.heat", heat_sql(terms, scope, span, column)).await),
            None => None,
        }
    };
    let (course, before, heat, different, measures, calls) = tokio::join!(
        ask("slo detail.burn", course_sql(terms, span)),
        ask("slo detail.budget before", before_sql(terms, span)),
        heat,
        ask("slo detail.different", different::sql(&meant, &counting(terms, scope, span))),
        ask("slo detail.measures", different::measures_sql(&meant, &counting(terms, scope, span))),
        ask("slo detail.calls", calls_sql(terms, scope, span, &meant)),
    );
    Asks { compared, course, before, heat, different, measures, calls }
}

fn course_sql(terms: &Terms, span: (i64, i64)) -> String {
    let clause = Where::span(minutes(span)).and(format!("slo = {}", literal(&terms.name)));
    format!(
        "SELECT {}, sum(calls) AS calls, sum(good) AS good,\n  max(burn_5m) AS burn_5m, max(burn_1h) AS burn_1h, max(burn_6h) AS burn_6h\nFROM slo_burn\n{}\nGROUP BY bucket\nORDER BY bucket",
        bucket(minute_step(span)),
        clause.clause()
    )
}

/// Calls of the objective's window before the range.
fn before_sql(terms: &Terms, span: (i64, i64)) -> String {
    let (from, to) = minutes(span);
    let window = (to - terms.window_days * 86_400_000_000, from);
    let clause = Where::span(window).and(format!("slo = {}", literal(&terms.name)));
    format!("SELECT sum(calls) AS calls, sum(good) AS good\nFROM slo_burn\n{}", clause.clause())
}

fn heat_sql(terms: &Terms, scope: &Scope, span: (i64, i64), column: &str) -> String {
    // A call that failed before its first token has no place here; the list below has it.
    let clause = terms.counting(Where::scope(scope, span)).and(format!("{column} IS NOT NULL"));
    format!(
        "SELECT {}, {} AS level, count(*) AS calls\nFROM latency\n{}\nGROUP BY bucket, level",
        bucket(step(span)),
        latency::questions::level(column),
        clause.clause()
    )
}

/// The calls that count, as they follow FROM.
fn counting(terms: &Terms, scope: &Scope, span: (i64, i64)) -> String {
    format!("latency\n{}", terms.counting(Where::scope(scope, span)).clause())
}

fn calls_sql(terms: &Terms, scope: &Scope, span: (i64, i64), meant: &str) -> String {
    let clause = terms.counting(Where::scope(scope, span)).and(meant.to_owned());
    let order = terms.column().unwrap_or("time");
    format!(
        "SELECT time, trace_id, span_id, region, host_id, model, tenant, status, queue_s, prefill_s, ttft_s, tpot_s, itl_max_s, e2e_s, output_tokens\nFROM requests\n{}\nORDER BY {order} DESC NULLS LAST\nLIMIT {CALLS}",
        clause.clause()
    )
}

fn panels(visit: &Visit, scope: &Scope, terms: &Terms, objectives: &Objectives, asks: &Asks) -> AnyView {
    let span_us = scope.resolve(visit.now_us);
    let axis = Axis { span_us, step_s: minute_step(span_us) };
    let burn = answered(visit, &asks.course, |answer| burn(answer, axis));
    let budget = answered(visit, &asks.course, |answer| match &asks.before.outcome {
        Ok(before) => budget(answer, before, terms, axis),
        // Without what came before, what is left is not known.
        Err(failure) => failed(visit, failure, &asks.before.sql),
    });
    let of = format!("of the calls of the last {} days so far", terms.window_days);
    let alerts = format!("alerts: {FAST}× over 5 min and 1 h, {SLOW}× over 30 min and 6 h");
    view! {
        {state(terms, objectives)}
        <div class="pair">
            {panel("budget", "Budget left", &of, &[&asks.course, &asks.before], budget)}
            {panel("burn", "Burn rate", &alerts, &[&asks.course], burn)}
        </div>
        {comparison(visit, scope, terms, asks)}
    }
    .into_any()
}

/// The calls that are compared with all: what is different about them, how all lie, and which they are.
fn comparison(visit: &Visit, scope: &Scope, terms: &Terms, asks: &Asks) -> AnyView {
    let (here, compared) = (path(&["slo", &terms.name]), &asks.compared);
    let (words, none) = compared.words();
    let narrowed = |scope: &Scope| boxed(scope.fields(), compared).link(&here);
    let different = answered(visit, &asks.different, |answer| different::view(answer, (words, none), scope, &narrowed));
    let controls = asks.heat.as_ref().map(|_| compared.controls(&here, &scope.fields()));
    let measures = answered(visit, &asks.measures, |answer| different::measures(answer, words));
    let (list, order, none) = match compared.chosen {
        Some(_) => ("Calls in the box", "the longest first", "No call lies there."),
        None => ("Calls that were not good", "the worst first", "Every call that counts was good."),
    };
    let calls = answered(visit, &asks.calls, |answer| requests::calls(list, none, answer, scope));
    view! {
        {panel("different", &compared.title(), compared.note(), &[&asks.different], view! { {controls}{different} }.into_any())}
        <div class="pair">
            {panel("measures", "What they have more of", &format!("means of the calls {words} and of the others"), &[&asks.measures], measures)}
            {heat(visit, scope, terms, asks)}
        </div>
        {panel("calls", list, order, &[&asks.calls], calls)}
    }
    .into_any()
}

fn heat(visit: &Visit, scope: &Scope, terms: &Terms, asks: &Asks) -> Option<AnyView> {
    let asked = asks.heat.as_ref()?;
    let span_us = scope.resolve(visit.now_us);
    let axis = Axis { span_us, step_s: step(span_us) };
    let draw = |answer: &Answer| latency::heat(answer, axis, &terms.name, terms.threshold, asks.compared.chosen);
    let note = "calls that count, by what is measured; above the line is not good";
    Some(panel("heat", "How the calls lie", note, &[asked], answered(visit, asked, draw)))
}

fn state(terms: &Terms, objectives: &Objectives) -> AnyView {
    let burn = terms::burn(&objectives.burn, &terms.name, objectives.to_us);
    let left = terms::left(&objectives.budget, terms);
    let (word, class) = State::of(&burn, left).shown();
    let lasts = burn.over_1h.zip(left).filter(|(burn, left)| *burn > 0.0 && *left > 0.0).map(|(burn, left)| {
        let days = left * terms.window_days as f64 / burn;
        format!(" At the rate of the last hour it lasts {}.", format::text(Some(days * 86_400.0), Unit::Seconds))
    });
    let budget = format!(" Budget left: {}.{}", terms::left_words(left), lasts.unwrap_or_default());
    view! { <p class="lead" id="state" data-refresh=""><span class=class>{word}</span>" "{terms.sentence()}{budget}</p> }.into_any()
}

fn burn(answer: &Answer, axis: Axis) -> AnyView {
    let columns = [("burn_5m", "5 min", 0), ("burn_1h", "1 h", 1), ("burn_6h", "6 h", 2)];
    let mut chart = axis.chart("Burn rate", Unit::Times, answer, series_of(answer, &columns));
    chart.limit = Some((FAST, format!("fast burn {FAST}×")));
    line_chart(&chart)
}

/// What is left after each bucket, counted from the beginning of the objective's window.
fn budget(answer: &Answer, before: &Answer, terms: &Terms, axis: Axis) -> AnyView {
    let earlier = before.first();
    // A range that is longer than the window begins before it: those calls are in no budget any more.
    let begin_us = axis.span_us.1.saturating_sub(terms.window_days * 86_400_000_000);
    let number = |column: &str| earlier.as_ref().and_then(|row| row.number(column)).unwrap_or(0.0);
    let (mut calls, mut good) = (number("calls"), number("good"));
    let (mut at_us, mut values) = (Vec::new(), Vec::new());
    for row in answer.rows() {
        let Some(at) = row.time("bucket").filter(|at| *at >= begin_us) else { continue };
        calls += row.number("calls").unwrap_or(0.0);
        good += row.number("good").unwrap_or(0.0);
        at_us.push(at);
        // More than all of it cannot be drawn; the sentence above says how much more.
        values.push(terms::left_of(calls, good, terms.objective).map(|left| left.max(0.0)));
    }
    if at_us.is_empty() {
        return hint("No call that counts arrived in this range.");
    }
    let line = Line { name: "budget left".to_owned(), slot: 2, values };
    line_chart(&axis.chart("Budget left", Unit::Ratio, answer, (at_us, vec![line])))
}
