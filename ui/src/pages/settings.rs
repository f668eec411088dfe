//! Data health and settings: how fresh each table is, what collectors do, what was dropped, who sends what, and which reference
//! data the figures rest on.

use leptos::prelude::*;
use viz::format::Unit;

use super::requests::stamp;
use crate::ask::{Answer, Asked, Row};
use crate::frame::{self, Place, Sheet, keys};
use crate::panel::{answered, heads, hint, number, panel, panel_of_now, table, text, words};
use crate::server::{App, Visit};
use crate::sql::Where;
use crate::urlstate::Scope;
use crate::zone;

/// How one column of an answer is shown.
#[derive(Clone, Copy)]
enum As {
    Text,
    /// Text that may be long, in lines.
    Words,
    Moment,
    Number(Unit),
}

/// Columns of a list: name in the answer, heading, form.
type Columns = &'static [(&'static str, &'static str, As)];

const FRESHNESS: Columns = &[
    ("table", "table", As::Text),
    ("newest_time", "newest event (UTC)", As::Moment),
    ("lag_s", "#age of it", As::Number(Unit::Seconds)),
    ("commit_age_s", "#last commit ago", As::Number(Unit::Seconds)),
    ("version", "#version", As::Number(Unit::Count)),
    ("files", "#files", As::Number(Unit::Count)),
    ("rows", "#rows", As::Number(Unit::Count)),
    ("bytes", "#size", As::Number(Unit::Bytes)),
];

const COLLECTORS: Columns = &[
    ("collector", "collector", As::Text),
    ("version", "version", As::Text),
    ("sample_age_s", "#seen ago", As::Number(Unit::Seconds)),
    ("spans_per_s", "#spans/s", As::Number(Unit::Plain)),
    ("cpus", "#CPU cores", As::Number(Unit::Plain)),
    ("rss_bytes", "#memory", As::Number(Unit::Bytes)),
    ("committed_rows", "#rows committed", As::Number(Unit::Count)),
    ("journal_bytes", "#journal", As::Number(Unit::Bytes)),
    ("oldest_unflushed_s", "#oldest not committed", As::Number(Unit::Seconds)),
    ("disk_free_bytes", "#disk free", As::Number(Unit::Bytes)),
];

const DROPS: Columns = &[
    ("reason", "reason", As::Text),
    ("unit", "of", As::Text),
    ("count", "#how many", As::Number(Unit::Count)),
    ("lost", "gone", As::Text),
    ("last", "last (UTC)", As::Moment),
];

const ROLLUPS: Columns = &[
    ("table", "table", As::Text),
    ("view", "view", As::Text),
    ("through", "built through (UTC)", As::Moment),
    ("lag_s", "#behind", As::Number(Unit::Seconds)),
    ("files", "#files", As::Number(Unit::Count)),
    ("rebuilt_windows", "#built again", As::Number(Unit::Count)),
    ("folded_keys", "#keys folded", As::Number(Unit::Count)),
];

const SENDERS: Columns = &[
    ("service", "service", As::Text),
    ("service_version", "version", As::Text),
    ("engine", "engine", As::Text),
    ("measured_at", "measures at the", As::Text),
    ("ttft_definition", "what it calls its first token", As::Text),
    ("calls", "#calls", As::Number(Unit::Count)),
    ("tells", "what it tells", As::Words),
    ("last", "last seen (UTC)", As::Moment),
];

const REFERENCE: Columns = &[
    ("what", "what", As::Text),
    ("confidence", "confidence", As::Text),
    ("rows", "#rows", As::Number(Unit::Count)),
    ("about", "#things", As::Number(Unit::Count)),
    ("as_of", "newest as of", As::Text),
];

pub(crate) async fn page(app: &App, visit: &Visit) -> String {
    let scope = Scope::parse(&visit.query);
    let span = scope.resolve(visit.now_us);
    let ask = |name, sql: String| app.asker.panel(name, visit.now_us, sql);
    let (choices, fresh, collectors, drops, rollups, senders, reference) = tokio::join!(
        frame::choices(app, visit, &scope),
        ask("settings.freshness", "SELECT * FROM system.freshness ORDER BY \"table\"".to_owned()),
        ask("settings.collectors", "SELECT * FROM system.collectors ORDER BY collector".to_owned()),
        ask("settings.drops", drops_sql(span)),
        ask("settings.rollups", "SELECT * FROM system.rollups ORDER BY \"table\"".to_owned()),
        ask("settings.senders", senders_sql(span)),
        ask("settings.reference", REFERENCE_SQL.to_owned()),
    );
    frame::render(app, visit, || {
        let list = |asked: &Asked, label, columns, none: &'static str| {
            answered(visit, asked, |answer| list(answer, label, columns, none, visit.now_us))
        };
        let body = view! {
            {panel("senders", "Who sends calls", "in this range", &[&senders], list(&senders, "Who sends calls", SENDERS, "Nobody sent a call in this range."))}
            {panel("drops", "What was not stored as it was meant", "in this range", &[&drops], list(&drops, "What was not stored", DROPS, "Nothing was dropped, refused or set aside in this range."))}
            {panel_of_now("collectors", "Collectors", "rates between the last two samples", &[&collectors], list(&collectors, "Collectors", COLLECTORS, "No collector has written a sample yet: they do every ten seconds."))}
            {panel_of_now("tables", "Tables", "what readers see now", &[&fresh], list(&fresh, "Tables", FRESHNESS, "There is no table yet."))}
            {panel_of_now("rollups", "Roll-ups", "windows that pages read instead of rows", &[&rollups], list(&rollups, "Roll-ups", ROLLUPS, "No window is built yet: the first is a minute after its end."))}
            {panel_of_now("reference", "Prices, power models and grids", "what money, watts and grams rest on", &[&reference], list(&reference, "Reference data", REFERENCE, "There is no reference data."))}
            <section class="panel" id="keyboard"><header><div><h2>"Keyboard"</h2><span class="note">"where the web bundle is served"</span></div></header>{keys::map()}</section>
        }
        .into_any();
        Sheet {
            renews: true,
            body,
            choices: Some(choices),
            ..Sheet::new("Data health", Place::Settings, scope.clone()).told_by(&[&senders])
        }
    })
}

fn drops_sql(span: (i64, i64)) -> String {
    format!(
        "SELECT reason, unit, CASE WHEN lost THEN 'gone' ELSE 'kept or asked for again' END AS lost, sum(\"count\") AS \"count\", max(time) AS last\nFROM system.drops\n{}\nGROUP BY 1, 2, 3\nORDER BY \"count\" DESC",
        Where::span(span).clause()
    )
}

fn senders_sql(span: (i64, i64)) -> String {
    let tells = [
        ("ttft_s", "TTFT"),
        ("queue_s", "queue"),
        ("prefill_s", "prefill"),
        ("output_tokens", "tokens"),
        ("device_us_decode", "device time"),
        ("tenant", "tenant"),
    ];
    let tells = tells.map(|(column, name)| format!("CASE WHEN count({column}) > 0 THEN '{name}' END")).join(", ");
    format!(
        "SELECT service, service_version, engine, measured_at, string_agg(DISTINCT ttft_definition, ', ') AS ttft_definition,\n  count(*) AS calls, concat_ws(', ', {tells}) AS tells, max(time) AS last\nFROM requests\n{}\nGROUP BY service, service_version, engine, measured_at\nORDER BY calls DESC\nLIMIT 100",
        Where::span(span).clause()
    )
}

const REFERENCE_SQL: &str = "SELECT 'prices' AS what, confidence, count(*) AS rows, count(DISTINCT host_type) AS about, max(as_of) AS as_of FROM prices GROUP BY confidence\nUNION ALL\nSELECT 'power models', confidence, count(*), count(DISTINCT device), max(as_of) FROM power_models GROUP BY confidence\nUNION ALL\nSELECT 'grids', confidence, count(*), count(DISTINCT region), max(as_of) FROM grid GROUP BY confidence\nORDER BY what DESC, rows DESC";

fn list(answer: &Answer, label: &'static str, columns: Columns, none: &'static str, now_us: i64) -> AnyView {
    if answer.first().is_none() {
        return hint(none);
    }
    let lines: Vec<_> = answer
        .rows()
        .map(|row| {
            let cells: Vec<_> = columns.iter().map(|(name, _, form)| cell(&row, name, *form, now_us)).collect();
            view! { <tr>{cells}</tr> }
        })
        .collect();
    let names: Vec<&str> = columns.iter().map(|(_, heading, _)| *heading).collect();
    table(label, heads(&names), lines.into_any())
}

fn cell(row: &Row<'_>, column: &str, form: As, now_us: i64) -> AnyView {
    match form {
        As::Text => text(row.text(column)),
        As::Words => words(row.text(column)),
        As::Moment => text(row.time(column).map(|at| moment(at, now_us)).as_deref()),
        As::Number(unit) => number(row.number(column), unit),
    }
}

/// What lies longer back than this has its year, µs.
const LONG_AGO_US: i64 = 300 * 86_400_000_000;

/// Day and time of day; of what is long ago the day with its year, for its month alone could be any year's.
fn moment(at_us: i64, now_us: i64) -> String {
    match now_us - at_us > LONG_AGO_US {
        true => zone::local(at_us).chars().take(10).collect(),
        false => stamp(at_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_ago_has_its_year() {
        let noon = 1_795_953_600_000_000;
        assert_eq!(moment(noon, noon + 1), "11-29 12:00:00.000");
        assert_eq!(moment(1_577_836_800_000_000, noon), "2020-01-01");
    }
}
