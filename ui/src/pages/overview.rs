//! The overview: what the fleet does now, per region, and what that costs.

mod economy;
mod grid;
mod hosts;

use leptos::prelude::*;
use viz::chart::LineChart;
use viz::format::{self, Unit};

use super::{TTFT_LIMIT_S, silence, slo};
use crate::ask::{Answer, Asked, Row};
use crate::frame::{self, Place, Sheet};
use crate::panel::plot::{line_chart, series_by};
use crate::panel::{Before, Tile, answered, empty, panel};
use crate::server::{App, Visit};
use crate::sql;
use crate::urlstate::{Dimension, Scope};

/// A page's answers.
struct Asks {
    choices: Asked,
    traffic: Asked,
    /// The same of the stretch before the page's.
    earlier: Asked,
    course: Asked,
    economy: economy::Asks,
    objectives: slo::Objectives,
    seen: silence::Seen,
}

pub(crate) async fn page(app: &App, visit: &Visit) -> String {
    let scope = Scope::parse(&visit.query);
    let span = scope.resolve(visit.now_us);
    let step_s = sql::step(span);
    let ask = |name, sql| app.asker.panel(name, visit.now_us, sql);
    let key = scope.link("");
    let (choices, traffic, earlier, course, economy, objectives, seen) = tokio::join!(
        frame::choices(app, visit, &scope),
        ask("overview.traffic", sql::traffic(&scope, span)),
        app.asker.kept("overview.earlier", &key, visit.now_us, sql::traffic(&scope, before(span))),
        ask("overview.course", sql::traffic_over_time(&scope, span, step_s)),
        economy::ask(app, visit, &scope, span),
        slo::ask(app, visit, &scope),
        silence::ask(app, visit, &scope),
    );
    let asks = Asks { choices, traffic, earlier, course, economy, objectives, seen };
    frame::render(app, visit, || {
        let body = body(app, visit, &scope, span, &asks);
        let sheet = Sheet::new("Overview", Place::Overview, scope.clone()).told_by(&[&asks.traffic, &asks.choices]);
        Sheet { filters: &Dimension::ALL, renews: true, body, choices: Some(asks.choices), ..sheet }
    })
}

fn body(app: &App, visit: &Visit, scope: &Scope, span: (i64, i64), asks: &Asks) -> AnyView {
    let nothing = matches!(&asks.traffic.outcome, Ok(answer) if !has_traffic(answer));
    if nothing && !asks.economy.has_rows() {
        return view! { <div id="overview" data-refresh="">{empty(app, scope, &asks.choices, "requests")}</div> }
            .into_any();
    }
    let chart = |column: &str, title: &'static str, unit: Unit, limit: Option<f64>| {
        answered(visit, &asks.course, |answer| {
            let (at_us, series) = series_by(answer, "region", column);
            line_chart(&LineChart {
                title: title.to_owned(),
                unit,
                span_us: span,
                zone: crate::zone::over(span),
                step_us: sql::step(span) * 1_000_000,
                at_us,
                series,
                limit: limit.map(|limit| (limit, format!("alert at {}", format::text(Some(limit), unit)))),
                complete_until_us: answer.raw().freshness.map_or(span.1, |fresh| fresh.newest_time_us),
            })
        })
    };
    let note = format!("{} s buckets", sql::step(span));
    let ttft = asks.first_token();
    let ttft_note = format!("{note}, {}", ttft.note());
    let hosts = answered(visit, &asks.economy.hosts, hosts::view);
    view! {
        {asks.objectives.strip(scope)}
        <section id="tiles" class="tiles" data-refresh="" aria-label="Fleet">{tiles(asks)}</section>
        {panel("regions", "Regions", &economy::note(scope), &asks.all(), grid::view(visit, scope, asks))}
        <div class="pair">
            {panel("ttft", "TTFT p99 by region", &ttft_note, &[&asks.course], chart(&ttft.column("p99"), "TTFT p99 by region", Unit::Seconds, Some(TTFT_LIMIT_S)))}
            {panel("rate", "Output tokens/s by region", &note, &[&asks.course], chart("output_tokens_per_s", "Output tokens per second by region", Unit::TokensPerSecond, None))}
        </div>
        {panel("hosts", "Hosts", "what each kind of host costs, and on what that rests", &[&asks.economy.hosts], hosts)}
    }
    .into_any()
}

/// As long a stretch before.
fn before((from, to): (i64, i64)) -> (i64, i64) {
    (from.saturating_sub(to.saturating_sub(from)), from)
}

/// A total over nothing is a row too, of zero requests.
fn has_traffic(answer: &Answer) -> bool {
    answer.rows().any(|row| row.number("total") == Some(0.0))
}

impl Asks {
    /// The questions behind the table of regions.
    fn all(&self) -> Vec<&Asked> {
        let mut all = vec![&self.traffic];
        all.extend(self.economy.all());
        all.push(&self.seen.asked);
        all
    }

    /// The row of all regions together.
    fn fleet(&self) -> Option<Row<'_>> {
        self.traffic.outcome.as_ref().ok()?.rows().find(|row| row.number("total") == Some(1.0))
    }

    /// A number of the stretch before, where there was one as long.
    fn before(&self, column: &str, more_is_worse: bool) -> Option<Before> {
        let row = self.earlier.outcome.as_ref().ok()?.rows().find(|row| row.number("total") == Some(1.0))?;
        Some(Before { value: row.number(column)?, when: "as long a stretch before".to_owned(), more_is_worse })
    }

    /// Where the page's TTFT was measured: one place for all of it, the nearest to the engine that measured any call.
    fn first_token(&self) -> FirstToken {
        let fleet = self.fleet();
        let calls =
            |place: &str| fleet.as_ref().and_then(|row| row.number(&format!("ttft_calls_{place}"))).unwrap_or(0.0);
        let place = sql::PLACES.into_iter().find(|place| calls(place) > 0.0);
        let elsewhere = sql::PLACES.into_iter().filter(|other| Some(*other) != place).map(calls).sum();
        FirstToken { place, elsewhere }
    }

    /// A number per bucket, all regions together; only for what may be added up.
    fn sum_over_time(&self, column: &str) -> Vec<Option<f64>> {
        let Ok(answer) = &self.course.outcome else { return Vec::new() };
        let (at_us, lines) = series_by(answer, "region", column);
        (0..drawn(&at_us))
            .map(|index| lines.iter().filter_map(|line| *line.values.get(index)?).reduce(|a, b| a + b))
            .collect()
    }

    /// The worst region per bucket.
    fn worst_over_time(&self, column: &str) -> Vec<Option<f64>> {
        let Ok(answer) = &self.course.outcome else { return Vec::new() };
        let (at_us, lines) = series_by(answer, "region", column);
        (0..drawn(&at_us))
            .map(|index| lines.iter().filter_map(|line| *line.values.get(index)?).reduce(f64::max))
            .collect()
    }
}

/// Buckets that a line in a tile has: it cannot say of the newest that it may still grow, so it ends before.
fn drawn(at_us: &[i64]) -> usize {
    at_us.len().saturating_sub(1)
}

/// Whose TTFT the page shows.
struct FirstToken {
    /// `None` while no call has one.
    place: Option<&'static str>,
    /// Calls that only other places measured, which are in no figure.
    elsewhere: f64,
}

impl FirstToken {
    /// The column of a percentile, `p50` or `p99`.
    fn column(&self, percentile: &str) -> String {
        format!("ttft_{percentile}_{}", self.place.unwrap_or(sql::PLACES[0]))
    }

    fn note(&self) -> String {
        let place = match self.place {
            None => return "not measured".to_owned(),
            Some("server") => "measured at the engine".to_owned(),
            Some(place) => format!("measured at the {place}"),
        };
        match self.elsewhere {
            none if none <= 0.0 => place,
            1.0 => format!("{place}; a call that only others measured is left out"),
            calls => format!("{place}; {calls} calls that only others measured are left out"),
        }
    }
}

fn tiles(asks: &Asks) -> AnyView {
    let ttft = asks.first_token();
    let (median, slow) = (ttft.column("p50"), ttft.column("p99"));
    let fleet = asks.fleet();
    let number = |column: &str| fleet.as_ref().and_then(|row| row.number(column));
    let traffic = |label, column: &str, unit, note: String, course| {
        let before = asks.before(column, unit == Unit::Seconds);
        Tile { label, value: number(column), unit, note, flag: None, before, course, asked: &asks.traffic }.view()
    };
    view! {
        {traffic("TTFT p50", &median, Unit::Seconds, format!("arrival to first token, {}", ttft.note()), asks.worst_over_time(&median))}
        {traffic("TTFT p99", &slow, Unit::Seconds, format!("line: the slowest region, {}", ttft.note()), asks.worst_over_time(&slow))}
        {traffic("Output tokens", "output_tokens_per_s", Unit::TokensPerSecond, "mean since the range's first request".to_owned(), asks.sum_over_time("output_tokens_per_s"))}
        {traffic("Requests", "requests_per_s", Unit::RequestsPerSecond, format!("{} failed", format::text(number("error_ratio"), Unit::Ratio)), asks.sum_over_time("requests_per_s"))}
        {asks.economy.tiles()}
    }
    .into_any()
}
