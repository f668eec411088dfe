//! The SQL page: a statement in the URL, its answer as a table, and what served it.

mod kept;
mod picture;
mod tables;

use leptos::prelude::*;
use serde_json::Value;
use telemetry::contract::{AnswerColumn, ApiError, SqlAnswer};
use viz::format::{self, Unit};

use crate::ask::Answer;
use crate::frame::{self, Place, Sheet};
use crate::panel::answered;
use crate::panel::links::{self, Versions, sql_link};
use crate::server::{App, Visit};
use crate::statement;
use crate::urlstate::{Fields, Scope};

/// Rows shown; more belong into a file.
const ROWS: usize = 500;

/// Lines of the box that a statement is typed into: as many as it has, within these.
const LINES: (usize, usize) = (7, 18);

/// Statements to start from.
const STARTS: [(&str, &str); 6] = [
    ("Tables and views", "SHOW TABLES"),
    ("Columns of calls", "DESCRIBE calls"),
    (
        "Slowest requests of the last hour",
        "SELECT time, region, model, ttft_s, queue_s, prefill_s, trace_id, span_id\nFROM calls\nWHERE time >= now() - INTERVAL '1 hour'\nORDER BY ttft_s DESC NULLS LAST\nLIMIT 20",
    ),
    (
        "TTFT p99 by region and model",
        "SELECT region, model, count(*) AS requests,\n  approx_percentile_cont(0.99) WITHIN GROUP (ORDER BY ttft_s) AS ttft_p99_s\nFROM calls\nWHERE time >= now() - INTERVAL '15 minutes'\nGROUP BY region, model\nORDER BY ttft_p99_s DESC",
    ),
    (
        "Why tokens waited",
        "SELECT region, stall, sum(count) AS tokens\nFROM tokens\nWHERE time >= now() - INTERVAL '15 minutes'\nGROUP BY region, stall\nORDER BY tokens DESC",
    ),
    ("Prices and where they come from", "SELECT * FROM prices LIMIT 50"),
];

pub(crate) async fn page(app: &App, visit: &Visit) -> String {
    let fields = Fields::parse(&visit.query);
    // A form sends the end of a line as two characters.
    let statement = fields.long_text("q").map(|statement| statement.replace("\r\n", "\n"));
    let versions = links::versions(&fields);
    let run = async {
        match &statement {
            Some(statement) => Some(app.asker.typed(statement, versions.clone(), ROWS).await),
            None => None,
        }
    };
    let tables = app.asker.kept("sql.tables", "", visit.now_us, tables::SQL.to_owned());
    let columns = app.asker.later("sql.columns", "", visit.now_us, tables::COLUMNS_SQL.to_owned());
    let (outcome, tables, columns) = tokio::join!(run, tables, columns);
    frame::render(app, visit, move || {
        let freshness =
            outcome.as_ref().and_then(|outcome| outcome.as_ref().ok()).and_then(|answer| answer.raw().freshness);
        let result = match &outcome {
            None => starts(),
            Some(Ok(answer)) => result(answer, statement.as_deref().unwrap_or_default(), &versions),
            Some(Err(error)) => refused(error, statement.as_deref().unwrap_or_default()),
        };
        let body = view! {
            {form(app, statement.as_deref(), &versions)}
            {pinned(statement.as_deref(), &versions)}
            <div class="bench">
                <div class="stack">{result}</div>
                {answered(visit, &tables, |answer| tables::view(answer, &columns))}
            </div>
        }
        .into_any();
        Sheet { freshness, body, ..Sheet::new("SQL", Place::Sql, Scope::parse(&visit.query)) }
    })
}

/// Where a statement is typed. The editor takes the text's place where scripts run, and belongs to whoever is named: what it keeps in the
/// browser is kept for each reader apart. Whoever was shown one page types nothing here.
fn form(app: &App, statement: Option<&str>, versions: &Versions) -> AnyView {
    let typed = statement.unwrap_or_default();
    let rows = typed.lines().count().clamp(LINES.0, LINES.1);
    let of = app.shared.is_none().then(|| app.name().to_owned());
    let (button, dialog) = of.as_deref().map(|of| (kept::button(), kept::dialog(of))).unzip();
    // The renderer leaves the text of a textarea as it is, so it is escaped here.
    let escaped = viz::escape(typed).into_owned();
    view! {
        <form class="query" method="get" action="/sql">
            <label for="q" data-key="e">"Statement"</label>
            <textarea id="q" name="q" rows=rows spellcheck="false" autocapitalize="off" autocomplete="off" data-editor=of
                placeholder="SELECT region, count(*) FROM calls GROUP BY region" inner_html=escaped></textarea>
            <p><button class="main">"Run"</button>{plan(statement, versions)}{button}<span class="hint">"read-only; PostgreSQL's dialect as far as DataFusion speaks it"</span></p>
        </form>
        {dialog}
    }
    .into_any()
}

/// The way to the plan of a statement, which is a statement too.
fn plan(statement: Option<&str>, versions: &Versions) -> Option<AnyView> {
    let statement = statement?.trim_start();
    let first = statement.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    matches!(first.as_str(), "SELECT" | "WITH")
        .then(|| view! { <a href=links::link("/sql", &format!("EXPLAIN {statement}"), versions)>"Plan"</a> }.into_any())
}

/// That the tables are read as they were, and the way to what they hold by now. What is typed and run is about now again.
fn pinned(statement: Option<&str>, versions: &Versions) -> Option<AnyView> {
    let statement = statement.filter(|_| !versions.is_empty())?;
    let tables: Vec<String> = versions.iter().map(|(table, version)| format!("{table} {version}")).collect();
    let words = format!("Read at the versions of then: {}. ", tables.join(", "));
    Some(view! { <p class="hint" id="pinned">{words}<a href=sql_link(statement)>"Read the newest"</a></p> }.into_any())
}

fn starts() -> AnyView {
    let links = STARTS.map(|(name, sql)| view! { <li><a href=sql_link(sql)>{name}</a></li> });
    view! {
        <section class="panel"><header><div><h2>"Start from"</h2></div></header><ul class="starts">{links.into_iter().collect_view()}</ul></section>
    }
    .into_any()
}

fn refused(error: &ApiError, typed: &str) -> AnyView {
    let hint = error.hint.clone().map(|hint| view! { <p class="hint">{hint}</p> });
    // Only a statement that makes no sense has a place where it does not.
    let place = (error.kind == "invalid").then(|| statement::place(&error.message, typed)).flatten();
    view! {
        <div class="card error" role="alert" data-refused=error.kind.clone()>
            <p><strong>{error.kind.clone()}</strong>{place.map(|place| spot(&place))}</p>
            {place.map(|place| pointed(&place, typed))}
            <pre>{error.message.clone()}</pre>
            {hint}
        </div>
    }
    .into_any()
}

/// The place by its numbers; in the editor the link leads there.
fn spot(place: &statement::Place) -> AnyView {
    let words = format!("line {}, column {}", place.line, place.column);
    let (line, column, width) = (place.line.to_string(), place.column.to_string(), place.width.to_string());
    view! { " at "<a href="#q" data-line=line data-column=column data-width=width>{words}</a> }.into_any()
}

/// The line with what is wrong underlined; the editor marks the same place.
fn pointed(place: &statement::Place, typed: &str) -> AnyView {
    let line: Vec<char> = typed.lines().nth(place.line - 1).unwrap_or_default().chars().collect();
    let start = (place.column - 1).min(line.len());
    let end = (start + place.width).min(line.len());
    let part = |from: usize, to: usize| line.get(from..to).unwrap_or_default().iter().collect::<String>();
    let (before, there, after) = (part(0, start), part(start, end), part(end, line.len()));
    view! { <pre class="pointed">{before}<u>{there}</u>{after}</pre> }.into_any()
}

fn result(answer: &Answer, statement: &str, versions: &Versions) -> AnyView {
    let raw = answer.raw();
    let heads = raw.columns.iter().map(heading);
    let rows = raw.rows.iter().map(|row| {
        let cells = row.iter().zip(&raw.columns).map(|(value, column)| cell(value, column));
        view! { <tr>{cells.collect_view()}</tr> }
    });
    let parquet = links::parquet(statement, versions).map(|link| view! { " · "{link} });
    let none = raw.rows.is_empty().then(|| view! { <p class="hint">"The statement ran and returned no rows."</p> });
    view! {
        <section class="panel" aria-label="Result" data-rows=raw.rows.len() data-ms=format!("{:.1}", raw.elapsed_ms) data-cut=raw.truncated.then_some("")>
            <p class="served">{served(raw)}" · "<a href=links::link("/sql.csv", statement, versions) download="">"CSV"</a>{parquet}</p>
            {none}
            {picture::of(answer)}
            <div class="scroll" tabindex="0" role="region" aria-label="Rows">
                <table class="list">
                    <thead><tr>{heads.collect_view()}</tr></thead>
                    <tbody>{rows.collect_view()}</tbody>
                </table>
            </div>
        </section>
    }
    .into_any()
}

fn heading(column: &AnswerColumn) -> AnyView {
    let class = if is_number(column) { "num" } else { "" };
    let unit = column.unit.clone().filter(|unit| !unit.is_empty()).unwrap_or_else(|| column.kind.clone());
    view! { <th class=class title=column.comment.clone()>{column.name.clone()}<small>{unit}</small></th> }.into_any()
}

fn is_number(column: &AnswerColumn) -> bool {
    let kind = column.kind.to_ascii_lowercase();
    !kind.contains("interval") && ["int", "float", "double", "decimal", "real"].iter().any(|name| kind.contains(name))
}

/// A value in full: the page shows what the service said. NULL is not an empty text.
fn cell(value: &Value, column: &AnswerColumn) -> AnyView {
    let text = match value {
        Value::Null => return view! { <td class="null">"NULL"</td> }.into_any(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if is_number(column) {
        view! { <td class="num">{text}</td> }.into_any()
    } else if text.len() > 80 {
        view! { <td class="wide">{text}</td> }.into_any()
    } else {
        view! { <td>{text}</td> }.into_any()
    }
}

/// Rows, time, freshness, versions and what served them, as one line.
fn served(raw: &SqlAnswer) -> String {
    let mut parts = vec![format!("{} rows", format::text(Some(raw.rows.len() as f64), Unit::Count))];
    if raw.truncated {
        parts.push(format!("cut at {ROWS}"));
    }
    parts.push(format::text(Some(raw.elapsed_ms / 1e3), Unit::Seconds));
    if let Some(freshness) = raw.freshness {
        let lag = format::text(Some(freshness.lag_s.max(0.0)), Unit::Seconds);
        parts.push(format!("data to {}, lag {lag}", crate::zone::clock(freshness.newest_time_us)));
    }
    if !raw.version.is_empty() {
        let versions: Vec<String> =
            raw.version.iter().map(|(table, version)| format!("{table} version {version}")).collect();
        parts.push(versions.join(", "));
    }
    if !raw.served_by.is_empty() {
        parts.push(format!("served by {}", raw.served_by));
    }
    parts.extend(raw.notice.clone());
    parts.join(" · ")
}
