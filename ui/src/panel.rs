//! The pieces that pages are made of: panels, tiles, cards for what is missing, and charts.

use leptos::prelude::*;
use viz::chart::{self, Line, LineChart};
use viz::format::{self, Unit};
use viz::{colour, hover};

use crate::ask::{Answer, Asked, Failure};
use crate::server::{App, Visit};
use crate::urlstate::{Fields, Scope};

/// A link to the SQL page with a statement in it.
pub(crate) fn sql_link(sql: &str) -> String {
    let mut fields = Fields::default();
    fields.set("q", sql.to_owned());
    fields.link("/sql")
}

/// A titled part of a page that renews itself. `note` says how the numbers are defined.
pub(crate) fn panel(id: &'static str, title: &str, note: &str, asked: &[&Asked], body: AnyView) -> AnyView {
    let many = asked.len() > 1;
    let links = asked.iter().map(|asked| {
        let what = asked.name.rsplit('.').next().unwrap_or(asked.name);
        let name = if many { format!("SQL: {what}") } else { "SQL".to_owned() };
        view! { <a class="sql" href=sql_link(&asked.sql)>{name}</a> }
    });
    view! {
        <section class="panel" id=id data-refresh="" aria-labelledby=format!("{id}-title")>
            <header>
                <h2 id=format!("{id}-title")>{title.to_owned()}</h2>
                <span class="note">{note.to_owned()}</span>
                {links.collect_view()}
            </header>
            {body}
        </section>
    }
    .into_any()
}

/// The answer, or a card that says why there is none.
pub(crate) fn answered(visit: &Visit, asked: &Asked, show: impl FnOnce(&Answer) -> AnyView) -> AnyView {
    match &asked.outcome {
        Ok(answer) => show(answer),
        Err(failure) => failed(visit, failure, &asked.sql),
    }
}

/// What failed, since when, how to try again, and the statement.
pub(crate) fn failed(visit: &Visit, failure: &Failure, sql: &str) -> AnyView {
    let hint = failure.error.hint.clone().map(|hint| view! { <p class="hint">{hint}</p> });
    view! {
        <div class="card error" role="alert">
            <p><strong>{format!("No answer ({})", failure.error.kind)}</strong>" since "{hover::clock(failure.since_us)}</p>
            <p>{failure.error.message.clone()}</p>
            {hint}
            <p class="links"><a href=visit.here.clone()>"Try again"</a><a href=sql_link(sql)>"Open the statement"</a></p>
            <details><summary>"SQL"</summary><pre>{sql.to_owned()}</pre></details>
        </div>
    }
    .into_any()
}

/// Why there is nothing to show, and what to do: nothing ever came, the range is empty, or the
/// filters leave nothing over.
pub(crate) fn empty(app: &App, scope: &Scope, choices: &Asked, what: &str) -> AnyView {
    let Ok(answer) = &choices.outcome else {
        return view! { <div class="card"><p>{format!("No {what} in this range.")}</p></div> }.into_any();
    };
    if answer.first().is_some() {
        let cause = format!("No {what} match the filters in this range, though there are others.");
        let all = Scope { region: None, model: None, tenant: None, ..scope.clone() };
        return view! { <div class="card"><p>{cause}</p><p class="links"><a href=all.link("/requests")>"Show all requests of the range"</a></p></div> }
            .into_any();
    }
    match answer.raw().freshness {
        Some(freshness) => {
            let around = Scope {
                range: crate::urlstate::Range::Between(
                    freshness.newest_time_us - 900_000_000,
                    freshness.newest_time_us + 1_000_000,
                ),
                ..scope.clone()
            };
            let cause = format!(
                "No {what} in this range. The newest one came at {}.",
                crate::urlstate::rfc3339(freshness.newest_time_us)
            );
            view! { <div class="card"><p>{cause}</p><p class="links"><a href=around.link("/requests")>"Go there"</a></p></div> }.into_any()
        }
        None => first_run(app),
    }
}

/// A request as one OTLP span, to be sent from a shell.
const SAMPLE: &str = r#"now=$(date +%s)000000000; curl -sS -X POST http://ENDPOINT/v1/traces -H 'content-type: application/json' -d '{
  "resourceSpans": [{"resource": {"attributes": [
      {"key": "service.name", "value": {"stringValue": "hello"}},
      {"key": "cloud.region", "value": {"stringValue": "eu-west-1"}}]},
    "scopeSpans": [{"spans": [{"traceId": "'$(openssl rand -hex 16)'", "spanId": "'$(openssl rand -hex 8)'",
      "name": "llm_request", "kind": 2, "startTimeUnixNano": "'$now'", "endTimeUnixNano": "'$now'",
      "attributes": [
        {"key": "gen_ai.request.model", "value": {"stringValue": "llama-3-70b"}},
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "128"}},
        {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "64"}},
        {"key": "gen_ai.latency.time_to_first_token", "value": {"doubleValue": 0.18}}]}]}]}]}'"#;

fn first_run(app: &App) -> AnyView {
    let endpoint = |address: &Option<String>, kind: &str| {
        address.clone().map(|address| view! { <li>{kind.to_owned()}" "<code>{address}</code></li> })
    };
    let curl = app.options.otlp_http.as_ref().map(|address| {
        view! { <p>"or send one request by hand:"</p><pre>{SAMPLE.replace("ENDPOINT", address)}</pre> }
    });
    view! {
        <div class="card">
            <p><strong>"Nothing has arrived yet."</strong>" Point an engine's OpenTelemetry exporter at"</p>
            <ul>
                {endpoint(&app.options.otlp_grpc, "OTLP over gRPC:")}
                {endpoint(&app.options.otlp_http, "OTLP over HTTP:")}
            </ul>
            {curl}
        </div>
    }
    .into_any()
}

/// One number at the top of a page.
pub(crate) struct Tile {
    /// What it is.
    pub(crate) label: &'static str,
    /// The number.
    pub(crate) value: Option<f64>,
    /// Its unit.
    pub(crate) unit: Unit,
    /// Below it: the median, the basis, why it is unknown.
    pub(crate) note: String,
    /// The word that says the number rests on an assumption.
    pub(crate) flag: Option<String>,
    /// Its course over the range.
    pub(crate) course: Vec<Option<f64>>,
    /// Where it comes from.
    pub(crate) sql: String,
    /// Where to read on.
    pub(crate) failed: bool,
}

impl Tile {
    /// Renders it.
    pub(crate) fn view(self) -> AnyView {
        let shown = format::show(self.value, self.unit);
        let flag = self.flag.map(|flag| view! { <span class="flag">{flag}</span> });
        let note = if self.failed { "the query failed, see below".to_owned() } else { self.note };
        view! {
            <div class="tile">
                <h2>{self.label}{flag}</h2>
                <p class="value"><b>{shown.number}</b><span class="unit">{shown.unit}</span></p>
                <p class="note">{note}</p>
                <div class="course" inner_html=chart::spark(&self.course)></div>
                <a class="sql" href=sql_link(&self.sql) aria-label=format!("SQL of {}", self.label)>"SQL"</a>
            </div>
        }
        .into_any()
    }
}

/// A chart with its legend and its table.
pub(crate) fn line_chart(chart: &LineChart) -> AnyView {
    if chart.series.is_empty() {
        return view! { <p class="hint">"No buckets in this range."</p> }.into_any();
    }
    // A number that JSON cannot carry is never in a hover: values are finite.
    let samples = serde_json::to_string(&chart::hover(chart)).unwrap_or_default();
    let svg = chart::svg(chart, &samples);
    let legend = chart.series.iter().map(|line| {
        let swatch = format!(r#"<svg class="swatch" width="14" height="8" aria-hidden="true"><line class="line s{}" x1="0" x2="14" y1="4" y2="4"/></svg>"#, line.slot);
        let last = line.values.iter().rev().flatten().next().copied();
        view! { <li><span inner_html=swatch></span>{line.name.clone()}<b>{format::text(last, chart.unit)}</b></li> }
    });
    view! {
        <div class="figure" inner_html=svg></div>
        <ul class="legend">{legend.collect_view()}</ul>
        {table_of(chart)}
    }
    .into_any()
}

/// The same numbers for those who do not see lines. Only the newest buckets, newest first.
fn table_of(chart: &LineChart) -> AnyView {
    const ROWS: usize = 40;
    let heads = chart.series.iter().map(|line| view! { <th class="num">{line.name.clone()}</th> });
    let rows = chart.at_us.iter().enumerate().rev().take(ROWS).map(|(index, at)| {
        let cells = chart.series.iter().map(|line| {
            let value = line.values.get(index).copied().flatten();
            view! { <td class="num">{format::text(value, chart.unit)}</td> }
        });
        view! { <tr><th scope="row">{hover::clock(*at)}</th>{cells.collect_view()}</tr> }
    });
    let caption = format!("Buckets of {} s, newest first, at most {ROWS}", chart.step_us / 1_000_000);
    view! {
        <details class="data">
            <summary>"Table"</summary>
            <div class="scroll"><table>
                <caption>{caption}</caption>
                <thead><tr><th>"bucket"</th>{heads.collect_view()}</tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table></div>
        </details>
    }
    .into_any()
}

/// Series per region out of an answer with the columns `bucket`, `region` and `column`.
pub(crate) fn series_by_region(answer: &Answer, column: &str) -> (Vec<i64>, Vec<Line>) {
    let mut at_us: Vec<i64> = answer.rows().filter_map(|row| row.time("bucket")).collect();
    at_us.sort_unstable();
    at_us.dedup();
    let region_of = |row: &crate::ask::Row<'_>| row.text("region").unwrap_or(format::UNKNOWN).to_owned();
    let mut names: Vec<String> = answer.rows().map(|row| region_of(&row)).collect();
    names.sort_unstable();
    names.dedup();
    let slots = colour::slots(&names);
    let mut lines: Vec<Line> =
        names.into_iter().zip(slots).map(|(name, slot)| Line { name, slot, values: vec![None; at_us.len()] }).collect();
    for row in answer.rows() {
        let place = row.time("bucket").and_then(|at| at_us.binary_search(&at).ok());
        let name = region_of(&row);
        if let (Some(place), Some(line)) = (place, lines.iter_mut().find(|line| line.name == name))
            && let Some(value) = line.values.get_mut(place)
        {
            *value = row.number(column);
        }
    }
    (at_us, lines)
}

/// A cell of numbers; right-aligned, an em dash when unknown.
pub(crate) fn number(value: Option<f64>, unit: Unit) -> AnyView {
    view! { <td class="num">{format::text(value, unit)}</td> }.into_any()
}
