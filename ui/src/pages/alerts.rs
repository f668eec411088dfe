//! Alerts: what Alertmanager said, the newest word of each alert first. Nothing is evaluated here; rules live in Prometheus.

use leptos::prelude::*;
use viz::format::{self, Unit};

use super::requests::stamp;
use super::slo;
use crate::ask::{Answer, Row};
use crate::frame::{self, Place, Sheet};
use crate::panel::{answered, heads, hint, number, panel, table, text};
use crate::server::{App, Visit};
use crate::sql::{PLACE, Where, instant};
use crate::urlstate::{Scope, path};

/// An alert that nobody has repeated for so long is not taken for one that fires, µs.
const FORGOTTEN_US: i64 = 86_400_000_000;

pub(crate) async fn page(app: &App, visit: &Visit) -> String {
    let scope = Scope::parse(&visit.query);
    let span = scope.resolve(visit.now_us);
    let ask = |name, sql| app.asker.panel(name, visit.now_us, sql);
    let (choices, firing, history, objectives) = tokio::join!(
        frame::choices(app, visit, &scope),
        ask("alerts.firing", firing_sql(&scope, span.1)),
        ask("alerts.history", history_sql(&scope, span)),
        slo::ask(app, visit, &scope),
    );
    frame::render(app, visit, || {
        let now = answered(visit, &firing, |answer| match answer.first() {
            Some(_) => list(answer, &scope, span.1),
            None => none(),
        });
        let past = answered(visit, &history, |answer| match answer.first() {
            Some(_) => list(answer, &scope, span.1),
            None => hint("No notification in this range."),
        });
        let sheet = Sheet::new("Alerts", Place::Alerts, scope.clone()).told_by(&[&firing, &history, &choices]);
        let body = view! {
            {objectives.strip(&scope)}
            {panel("firing", "Firing", "the newest word of each alert, unless it is a day old", &[&firing], now)}
            {panel("history", "Notifications of the range", "newest first, at most 200", &[&history], past)}
        }
        .into_any();
        Sheet { filters: &PLACE, renews: true, body, choices: Some(choices), ..sheet }
    })
}

const COLUMNS: &str = "time, name, status, severity, region, model, starts_at, ends_at, summary, external_url, generator_url, fingerprint";

fn firing_sql(scope: &Scope, to_us: i64) -> String {
    let clause = Where::place(scope, (to_us - FORGOTTEN_US, to_us));
    format!(
        "SELECT {COLUMNS}\nFROM (\n  SELECT *, row_number() OVER (PARTITION BY fingerprint ORDER BY time DESC) AS age\n  FROM alerts\n  {}\n)\nWHERE age = 1 AND status = 'firing' AND (ends_at IS NULL OR ends_at > {} OR ends_at < starts_at)\nORDER BY severity, starts_at DESC\nLIMIT 200",
        clause.clause().replace('\n', "\n  "),
        instant(to_us)
    )
}

fn history_sql(scope: &Scope, span: (i64, i64)) -> String {
    format!("SELECT {COLUMNS}\nFROM alerts\n{}\nORDER BY time DESC\nLIMIT 200", Where::place(scope, span).clause())
}

/// Why nothing fires here, as far as this page can know.
fn none() -> AnyView {
    view! {
        <div class="card">
            <p><strong>"No alert is known to fire."</strong>" Rules are evaluated by Prometheus, over "<a href="/metrics">"/metrics"</a>": "<code>"tokenwatt export rules"</code>" writes them. This page shows what Alertmanager posts to "<code>"/api/v1/alerts"</code>" of a collector ("<code>"deploy/prometheus/alertmanager.yml"</code>" has the receiver), rows of table "<code>"alerts"</code>". Where it posts nothing, nothing is known here: what fires stands in Alertmanager."</p>
            <p>"How fast objectives burn is known here all the same: see "<a href="/slo">"SLOs"</a>"."</p>
        </div>
    }
    .into_any()
}

/// Alerts as they stand at `to_us`, the end of the range: what fires then has lasted until then.
fn list(answer: &Answer, scope: &Scope, to_us: i64) -> AnyView {
    let lines: Vec<_> = answer.rows().map(|row| line(&row, scope, to_us)).collect();
    let names = ["state", "alert", "severity", "region", "model", "since (UTC)", "#for", "what it says", ""];
    table("Alerts", heads(&names), lines.into_any())
}

fn line(row: &Row<'_>, scope: &Scope, to_us: i64) -> AnyView {
    let firing = row.text("status") == Some("firing");
    let class = if firing { "status error" } else { "status ok" };
    let since = row.time("starts_at");
    let until = row.time("ends_at").filter(|ends| since.is_some_and(|since| *ends > since) && !firing).unwrap_or(to_us);
    let lasted = since.map(|since| (until - since) as f64 / 1e6);
    let region = row.text("region");
    let place = region.map(|region| scope.link(&path(&["region", region])));
    view! {
        <tr>
            <td><span class=class>{row.text("status").unwrap_or(format::UNKNOWN).to_owned()}</span></td>
            <th scope="row">{row.text("name").unwrap_or(format::UNKNOWN).to_owned()}</th>
            {text(row.text("severity"))}
            <td><a href=place>{region.unwrap_or(format::UNKNOWN).to_owned()}</a></td>
            {text(row.text("model"))}
            {text(since.map(stamp).as_deref())}
            {number(lasted, Unit::Seconds)}
            <td class="say">{row.text("summary").unwrap_or(format::UNKNOWN).to_owned()}</td>
            <td>{elsewhere(row)}</td>
        </tr>
    }
    .into_any()
}

/// Links to Alertmanager and Prometheus, as the notification names them. Whoever posts alerts chooses these texts, so only
/// addresses of web pages become links.
fn elsewhere(row: &Row<'_>) -> AnyView {
    let web = |column: &str| row.text(column).filter(|url| is_web(url)).map(str::to_owned);
    let silence = web("external_url").map(|url| {
        let link = format!("{}/#/alerts", url.trim_end_matches('/'));
        view! { <a rel="noreferrer" href=link>"silence"</a>" " }
    });
    let query = web("generator_url").map(|url| view! { <a rel="noreferrer" href=url>"query"</a> });
    view! { {silence}{query} }.into_any()
}

fn is_web(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_pages_become_links() {
        assert!(is_web("https://alerts.example/"));
        for url in ["javascript:alert(1)", "data:text/html,x", " https://x", "//x"] {
            assert!(!is_web(url), "{url}");
        }
    }
}
