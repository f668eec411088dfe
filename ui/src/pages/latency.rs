//! Latency: how often how long, percentiles, where the first token's time goes, and who is slow.

pub(crate) mod questions;

use leptos::prelude::*;
use questions::{Metric, Questions};
use viz::bar::Part;
use viz::format::{self, Unit};
use viz::heat::{Cell, HeatMap};

use super::TTFT_LIMIT_S;
use super::different::chosen::{Chosen, Compared, Otherwise};
use super::different::view as ranked;
use crate::ask::{Answer, Asked, Row};
use crate::frame::{self, Place, Sheet};
use crate::panel::plot::{Axis, P50, P90, P99, heat_map, line_chart, series_of, stack_chart};
use crate::panel::{answered, choices, empty, heads, hint, number, panel, shares, table};
use crate::server::{App, Visit};
use crate::sql::PLACES;
use crate::urlstate::{Dimension, Fields, Scope};

/// Groups in the table.
const SHOWN: usize = 12;

/// What the page groups by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum By {
    #[default]
    Host,
    One(Dimension),
}

impl By {
    fn all(metric: Metric) -> Vec<By> {
        let dimensions = metric.filters().iter().copied().map(By::One);
        // Roll-ups of tokens do not tell hosts.
        let host = (metric != Metric::Itl).then_some(By::Host);
        host.into_iter().chain(dimensions).collect()
    }

    fn name(self) -> &'static str {
        match self {
            By::Host => "host",
            By::One(dimension) => dimension.name(),
        }
    }

    pub(crate) fn column(self) -> &'static str {
        match self {
            By::Host => "host_id",
            By::One(dimension) => dimension.column(),
        }
    }
}

/// What of latency is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct View {
    pub(crate) metric: Metric,
    at: &'static str,
    pub(crate) by: By,
    /// Calls to be compared with all others; else they are the slowest.
    pub(crate) chosen: Option<Chosen>,
}

impl View {
    /// Reads it out of a query string.
    pub(crate) fn parse(query: &str) -> Self {
        let fields = Fields::parse(query);
        let named = |field| fields.text(field);
        let metric = Metric::ALL.into_iter().find(|metric| named("metric").as_deref() == Some(metric.name()));
        let metric = metric.unwrap_or_default();
        let by = By::all(metric);
        let chosen = by.iter().copied().find(|by| named("by").as_deref() == Some(by.name()));
        Self {
            metric,
            at: PLACES.into_iter().find(|place| named("at").as_deref() == Some(place)).unwrap_or(PLACES[0]),
            by: chosen.or_else(|| by.first().copied()).unwrap_or_default(),
            chosen: Chosen::parse(&fields),
        }
    }

    /// Where it is measured; tokens leave engines alone.
    pub(crate) fn place(&self) -> &'static str {
        if self.metric == Metric::Itl { PLACES[0] } else { self.at }
    }

    fn fields(&self) -> Fields {
        let mut fields = Fields::default();
        for (name, value, default) in [
            ("metric", self.metric.name(), Metric::default().name()),
            ("at", self.at, PLACES[0]),
            ("by", self.by.name(), By::default().name()),
        ] {
            if value != default {
                fields.set(name, value.to_owned());
            }
        }
        if let Some(chosen) = &self.chosen {
            chosen.write(&mut fields);
        }
        fields
    }

    fn link(&self, scope: &Scope) -> String {
        let mut fields = scope.fields();
        self.fields().iter().for_each(|(name, value)| fields.set(name, value.to_owned()));
        fields.link("/latency")
    }
}

struct Asks {
    course: Asked,
    heat: Asked,
    split: Asked,
    groups: Asked,
    different: Option<Asked>,
}

pub(crate) async fn page(app: &App, visit: &Visit) -> String {
    let (scope, view) = (Scope::parse(&visit.query), View::parse(&visit.query));
    let span = scope.resolve(visit.now_us);
    let questions = Questions::new(&view, &scope, span);
    let ask = |name, sql| app.asker.panel(name, visit.now_us, sql);
    let different = async {
        match questions.different() {
            Some(sql) => Some(ask("latency.different", sql).await),
            None => None,
        }
    };
    let (choices, course, heat, split, groups, different) = tokio::join!(
        frame::choices(app, visit, &scope),
        ask("latency.percentiles", questions.course()),
        ask("latency.heat", questions.heat()),
        ask("latency.split", questions.split()),
        ask("latency.groups", questions.groups()),
        different,
    );
    let asks = Asks { course, heat, split, groups, different };
    frame::render(app, visit, || {
        let nothing = matches!(&asks.course.outcome, Ok(answer) if answer.first().is_none());
        let shown = if nothing {
            nothing_measured(app, &scope, &view, &choices)
        } else {
            panels(visit, &view, &scope, &questions, &asks)
        };
        let body = view! { {controls(&view, &scope)}{shown} }.into_any();
        Sheet {
            filters: view.metric.filters(),
            keep: view.fields(),
            renews: true,
            body,
            choices: Some(choices),
            ..Sheet::new("Latency", Place::Latency, scope.clone()).told_by(&[&asks.course, &asks.heat, &asks.groups])
        }
    })
}

/// Calls there may be, only not measured there.
fn nothing_measured(app: &App, scope: &Scope, view: &View, choices: &Asked) -> AnyView {
    let other = PLACES.into_iter().filter(|place| *place != view.place());
    let links: Vec<_> = other
        .map(|at| {
            let link = View { at, ..*view }.link(scope);
            view! { <a href=link>{format!("as measured at the {at}")}</a> }
        })
        .collect();
    let words = format!("No {} was measured at the {} in this range.", view.metric.title(), view.place());
    view! {
        <div class="card"><p>{words}</p><p class="links">{links}</p></div>
        {empty(app, scope, choices, "calls")}
    }
    .into_any()
}

fn controls(view: &View, scope: &Scope) -> AnyView {
    let metrics = Metric::ALL.map(|metric| {
        let by = if By::all(metric).contains(&view.by) { view.by } else { By::One(Dimension::Region) };
        (metric.name().to_owned(), metric.title().to_owned(), View { metric, by, ..*view }.link(scope))
    });
    let places = PLACES.map(|at| (at.to_owned(), format!("at the {at}"), View { at, ..*view }.link(scope)));
    view! {
        <div class="controls">
            {choices("What is measured", view.metric.name(), metrics.to_vec())}
            {(view.metric != Metric::Itl).then(|| choices("Where it is measured", view.at, places.to_vec()))}
        </div>
    }
    .into_any()
}

fn panels(visit: &Visit, view: &View, scope: &Scope, questions: &Questions<'_>, asks: &Asks) -> AnyView {
    let axis = Axis { span_us: scope.resolve(visit.now_us), step_s: questions.step_s() };
    let title = view.metric.title();
    let what = if view.metric == Metric::Itl { "gaps between tokens" } else { "calls" };
    let limit = (view.metric == Metric::Ttft).then_some(TTFT_LIMIT_S);
    let marked = questions.chosen();
    let heat = answered(visit, &asks.heat, |answer| heat(answer, axis, title, limit, marked));
    let course = answered(visit, &asks.course, |answer| percentiles(answer, axis, title, limit));
    let split = answered(visit, &asks.split, |answer| split(answer, axis, questions.splits_fully()));
    let groups = answered(visit, &asks.groups, |answer| groups(answer, view, scope));
    let different = compared(visit, view, scope, questions, asks);
    let by = By::all(view.metric)
        .into_iter()
        .map(|by| (by.name().to_owned(), by.name().to_owned(), View { by, ..*view }.link(scope)))
        .collect();
    let place = format!("{}, measured at the {}", view.metric.definition(), view.place());
    let split_note = if questions.splits_fully() {
        "means, which add up; prefill is from first scheduled to first token; at the engine"
    } else {
        "means, which add up; over long ranges prefill is all that follows the queue; at the engine"
    };
    view! {
        <div class="pair">
            {panel("heat", &format!("{title}, how often"), &format!("{what} per cell, {} s wide", axis.step_s), &[&asks.heat], heat)}
            {panel("percentiles", &format!("{title} percentiles"), &place, &[&asks.course], course)}
        </div>
        {(view.metric != Metric::Itl).then(|| panel("split", "Where the time to the first token goes", split_note, &[&asks.split], split))}
        {panel("groups", "Who is slow", "slowest p99 first; percentiles are of all calls of the row, never averaged", &[&asks.groups], view! { {choices("Grouped by", view.by.name(), by)}{groups} }.into_any())}
        {different}
    }
    .into_any()
}

/// What is compared unless somebody draws a box.
const SLOWEST: Otherwise = Otherwise {
    title: "What is different about the slowest twentieth",
    words: "among the slowest",
    none: "No call is slower than others",
    note: "calls from the 95th percentile on against all calls; a node leads to its page, all else narrows this one",
    back: "Back to the slowest twentieth",
};

/// The calls that were chosen, or the slowest, against all.
fn compared(visit: &Visit, view: &View, scope: &Scope, questions: &Questions<'_>, asks: &Asks) -> AnyView {
    let mut rest = scope.fields();
    View { chosen: None, ..*view }.fields().iter().for_each(|(name, value)| rest.set(name, value.to_owned()));
    let compared = Compared { asked: view.chosen, chosen: questions.chosen(), otherwise: &SLOWEST };
    let Some(asked) = &asks.different else {
        let Some(back) = compared.back("/latency", &rest) else { return ().into_any() };
        let why = "Calls are told apart in shorter ranges, or where the page is narrowed to a tenant; gaps between tokens are not calls.";
        return panel("different", &compared.title(), "", &[], view! { {hint(why)}{back} }.into_any());
    };
    let narrowed = |scope: &Scope| view.link(scope);
    let body = answered(visit, asked, |answer| ranked(answer, compared.words(), scope, &narrowed));
    let controls = compared.controls("/latency", &rest);
    panel("different", &compared.title(), compared.note(), &[asked], view! { {controls}{body} }.into_any())
}

/// A heat map out of rows with `bucket`, `level` and `calls`.
///
/// Rows without a level are of values that a log scale has no place for; they are counted below it.
pub(crate) fn heat(answer: &Answer, axis: Axis, title: &str, limit: Option<f64>, marked: Option<Chosen>) -> AnyView {
    let nowhere = answer.rows().filter(|row| row.number("level").is_none());
    let nowhere: f64 = nowhere.filter_map(|row| row.number("calls")).sum();
    let nowhere = (nowhere > 0.0)
        .then(|| hint(format!("{} of zero have no place on a log scale", format::text(Some(nowhere), Unit::Count))));
    let cells = answer.rows().filter_map(|row| {
        Some(Cell { at_us: row.time("bucket")?, level: row.number("level")? as i64, count: row.number("calls")? })
    });
    let map = heat_map(&HeatMap {
        title: format!("{title} over time, how often"),
        unit: Unit::Seconds,
        span_us: axis.span_us,
        zone: crate::zone::over(axis.span_us),
        step_us: axis.step_s * 1_000_000,
        cells: cells.collect(),
        limit: limit.map(|limit| (limit, format!("limit {}", format::text(Some(limit), Unit::Seconds)))),
        complete_until_us: answer.raw().freshness.map_or(axis.span_us.1, |fresh| fresh.newest_time_us),
        chosen: marked.map(|chosen| chosen.drawn(axis.span_us)),
    });
    view! { {map}{nowhere} }.into_any()
}

fn percentiles(answer: &Answer, axis: Axis, title: &str, limit: Option<f64>) -> AnyView {
    let series = series_of(answer, &[("p99", "p99", P99), ("p90", "p90", P90), ("p50", "p50", P50)]);
    let mut chart = axis.chart(&format!("{title} percentiles"), Unit::Seconds, answer, series);
    chart.limit = limit.map(|limit| (limit, format!("alert at {}", format::text(Some(limit), Unit::Seconds))));
    line_chart(&chart)
}

/// The parts of TTFT as columns: answers with `queue_s`, `prefill_s` and, if it is told apart, `rest_s`.
pub(crate) fn split(answer: &Answer, axis: Axis, fully: bool) -> AnyView {
    if answer.first().is_none() {
        return hint("No call in this range tells its queue and its prefill.");
    }
    let mut columns = vec![("queue_s", "queue", 0), ("prefill_s", "prefill", 0)];
    if fully {
        columns.push(("rest_s", "not accounted for", 0));
    }
    let chart = axis.chart("Mean parts of the time to first token", Unit::Seconds, answer, series_of(answer, &columns));
    stack_chart(&chart, &["queue", "prefill", "rest"])
}

/// The mean parts of TTFT in one bar, as wide as `whole` is long.
pub(crate) fn parts(row: &Row<'_>, whole: f64) -> AnyView {
    if row.number("queue_s").is_none() && row.number("prefill_s").is_none() {
        return view! { <td>{format::UNKNOWN}</td> }.into_any();
    }
    let share = |column: &str| row.number(column).unwrap_or(0.0) / whole.max(f64::MIN_POSITIVE);
    shares(&[
        Part { name: "queue", share: share("queue_s"), style: "queue" },
        Part { name: "prefill", share: share("prefill_s"), style: "prefill" },
        Part { name: "not accounted for", share: share("rest_s"), style: "rest" },
    ])
}

fn groups(answer: &Answer, view: &View, scope: &Scope) -> AnyView {
    let count = answer.rows().count();
    if count == 0 {
        return hint("No group has a measurement.");
    }
    let with_parts = answer.raw().columns.iter().any(|column| column.name == "mean_s");
    let longest = answer.rows().take(SHOWN).filter_map(|row| row.number("mean_s")).fold(0.0, f64::max);
    let whole = with_parts.then_some(longest);
    let lines: Vec<_> = answer.rows().take(SHOWN).map(|row| group(&row, view, scope, whole)).collect();
    let rest = (count > SHOWN).then(|| {
        let all = if count == 200 { "at least 200".to_owned() } else { count.to_string() };
        hint(format!("the slowest {SHOWN} of {all}"))
    });
    let mut names =
        vec![view.by.name(), if view.metric == Metric::Itl { "#gaps" } else { "#calls" }, "#p50", "#p90", "#p99"];
    if with_parts {
        names.extend(["#mean TTFT", "queue · prefill · rest"]);
    }
    view! { {table("Latency by group", heads(&names), lines.into_any())}{rest} }.into_any()
}

fn group(row: &Row<'_>, view: &View, scope: &Scope, whole: Option<f64>) -> AnyView {
    let name = row.text("name");
    let link = name.map(|name| match view.by {
        By::Host => scope.link(&crate::urlstate::path(&["node", name])),
        By::One(Dimension::Region) => scope.link(&crate::urlstate::path(&["region", name])),
        By::One(dimension) => view.link(&scope.with(dimension, Some(name))),
    });
    let name = name.map_or_else(|| format!("no {}", view.by.name()), str::to_owned);
    let over = view.metric == Metric::Ttft && row.number("p99").is_some_and(|p99| p99 > TTFT_LIMIT_S);
    let sign = over.then(|| view! { <span class="sign" title="over 1 s">"▲ "</span> });
    let mean = whole.map(|whole| view! { {number(row.number("mean_s"), Unit::Seconds)}{parts(row, whole)} });
    view! {
        <tr>
            <th scope="row"><a href=link>{name}</a></th>
            {number(row.number("calls"), Unit::Count)}
            {number(row.number("p50"), Unit::Seconds)}
            {number(row.number("p90"), Unit::Seconds)}
            <td class="num" class:crit=over>{sign}{format::text(row.number("p99"), Unit::Seconds)}</td>
            {mean}
        </tr>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_survives_its_own_url() {
        for metric in Metric::ALL {
            for at in PLACES {
                for by in By::all(metric) {
                    let view = View { metric, at, by, chosen: Chosen::parse(&Fields::parse("box_low=0.5")) };
                    let link = view.link(&Scope::default());
                    let query = link.split_once('?').map_or("", |(_, query)| query);
                    let read = View::parse(query);
                    assert_eq!(read, view, "{link}");
                }
            }
        }
        assert_eq!(View::parse("metric=x&by=y&at=z"), View::parse(""));
    }
}
