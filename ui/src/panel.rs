//! The pieces that pages are made of: panels, tiles, cards for what is missing, and charts.

pub(crate) mod links;
pub(crate) mod picture;
pub(crate) mod plot;

use leptos::prelude::*;
use links::sql_link;
use viz::bar::{Part, bar};
use viz::chart;
use viz::format::{self, Unit};

use crate::ask::{Answer, Asked, Failure, PENDING};
use crate::server::{App, Visit};
use crate::statement;
use crate::urlstate::Scope;
use crate::zone;

/// A titled part of a page that renews itself. `note` says how the numbers are defined.
pub(crate) fn panel(id: &'static str, title: &str, note: &str, asked: &[&Asked], body: AnyView) -> AnyView {
    let words =
        view! { <h2 id=format!("{id}-title")>{title.to_owned()}</h2><span class="note">{note.to_owned()}</span> };
    framed(id, "panel", words.into_any(), asked, body)
}

/// In the context of a page whose stretch of time stands still.
#[derive(Clone)]
pub(crate) struct StandsStill;

/// A panel whose figures are of now, whatever stretch of time its page shows. A page that stands still marks it, so that nobody
/// takes them for those of that stretch.
pub(crate) fn panel_of_now(id: &'static str, title: &str, note: &str, asked: &[&Asked], body: AnyView) -> AnyView {
    if use_context::<StandsStill>().is_none() {
        return panel(id, title, note, asked, body);
    }
    let words = view! {
        <h2 id=format!("{id}-title")>{title.to_owned()}</h2>
        <span class="chip stale">"of now, not of this range"</span>
        <span class="note">{note.to_owned()}</span>
    };
    framed(id, "panel now", words.into_any(), asked, body)
}

fn framed(id: &'static str, class: &'static str, words: AnyView, asked: &[&Asked], body: AnyView) -> AnyView {
    view! {
        <section class=class id=id data-refresh="" aria-labelledby=format!("{id}-title")>
            <header><div>{words}</div>{statements(asked)}</header>
            {cut(asked)}
            {body}
        </section>
    }
    .into_any()
}

/// An answer that was cut is not the whole, and says so.
fn cut(asked: &[&Asked]) -> Option<AnyView> {
    let is_cut = |asked: &&&Asked| matches!(&asked.outcome, Ok(answer) if answer.raw().truncated);
    let names: Vec<&str> = asked.iter().filter(is_cut).map(|asked| asked.name).collect();
    (!names.is_empty()).then(|| {
        let words =
            format!("Not all rows are shown: {} was cut. Choose a shorter range, or a filter.", names.join(", "));
        view! { <p class="hint warn" role="status">{words}</p> }.into_any()
    })
}

/// The statements behind a panel, folded away: to read, to copy, to open. Their times are absolute, so what they answer does
/// not move; the versions that they were answered from stand above them.
fn statements(asked: &[&Asked]) -> Option<AnyView> {
    let items: Vec<_> = asked
        .iter()
        .map(|asked| {
            let what = asked.name.rsplit('.').next().unwrap_or(asked.name);
            view! {
                <li>
                    <p>
                        <b>{what.to_owned()}</b>
                        <button type="button" class="copy" data-copy="">"Copy SQL"</button>
                        <a href=links::asked("/sql", asked)>"Open"</a>
                        <a href=links::asked("/sql.csv", asked) download="">"CSV"</a>
                        {links::parquet(&asked.sql, &links::of(asked))}
                    </p>
                    <pre inner_html=statement::coloured(&stated(asked))></pre>
                </li>
            }
        })
        .collect();
    (!items.is_empty())
        .then(|| view! { <details class="sql"><summary>"SQL"</summary><ul>{items}</ul></details> }.into_any())
}

/// A statement under the versions that answered it, as a comment.
fn stated(asked: &Asked) -> String {
    let versions = match &asked.outcome {
        Ok(answer) => answer.raw().version.iter().map(|(table, version)| format!("{table} {version}")).collect(),
        Err(_) => Vec::new(),
    };
    if versions.is_empty() {
        return asked.sql.clone();
    }
    format!("-- answered from versions: {}\n{}", versions.join(", "), asked.sql)
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
    if failure.error.kind == PENDING {
        return view! { <p class="hint pending">{failure.error.message.clone()}</p> }.into_any();
    }
    if failure.error.kind == "denied" {
        return hint(format!("Not shown here: {}.", failure.error.message));
    }
    let hint = failure.error.hint.clone().map(|hint| view! { <p class="hint">{hint}</p> });
    view! {
        <div class="card error" role="alert">
            <p><strong>{format!("No answer ({})", failure.error.kind)}</strong>" since "{zone::clock(failure.since_us)}</p>
            <p>{failure.error.message.clone()}</p>
            {hint}
            <p class="links"><a href=visit.here.clone()>"Try again"</a><a href=sql_link(sql)>"Open the statement"</a></p>
            <details><summary>"SQL"</summary><pre inner_html=statement::coloured(sql)></pre></details>
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
        let all = scope.all();
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
        None if app.is_bound() => {
            view! { <div class="card"><p>{format!("No {what} in this range that {} may see.", app.name())}</p></div> }
                .into_any()
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
pub(crate) struct Tile<'a> {
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
    /// What it was before, to tell how it changed.
    pub(crate) before: Option<Before>,
    /// Its course over the range.
    pub(crate) course: Vec<Option<f64>>,
    /// Where it comes from.
    pub(crate) asked: &'a Asked,
}

/// The same number of another stretch of time.
pub(crate) struct Before {
    pub(crate) value: f64,
    /// Which stretch, as it follows "against".
    pub(crate) when: String,
    /// Whether more of it is worse, as of a latency.
    pub(crate) more_is_worse: bool,
}

impl Before {
    /// The change in percent, with a sign and a colour where it is for the better or the worse; below one percent it is none.
    fn chip(&self, now: f64) -> Option<AnyView> {
        let change = (now - self.value) / self.value;
        if !change.is_finite() {
            return None;
        }
        let (sign, class) = match (change.abs() < 0.01, change > 0.0, self.more_is_worse) {
            (true, ..) => ("±", "change"),
            (_, true, true) => ("▲ ", "change worse"),
            (_, false, true) => ("▼ ", "change better"),
            (_, true, false) => ("▲ ", "change"),
            (_, false, false) => ("▼ ", "change"),
        };
        let size = if change.abs() > 9.99 { ">999%".to_owned() } else { format!("{:.0}%", change.abs() * 100.0) };
        let title = format!("against {}", self.when);
        Some(view! { <span class=class title=title>{sign}{size}</span> }.into_any())
    }
}

impl Tile<'_> {
    /// Renders it.
    pub(crate) fn view(self) -> AnyView {
        let shown = format::show(self.value, self.unit);
        let flag = self.flag.map(|flag| view! { <span class="flag">{flag}</span> });
        let change = self.value.zip(self.before).and_then(|(now, before)| before.chip(now));
        let note = match &self.asked.outcome {
            Ok(_) => self.note,
            Err(failure) if failure.error.kind == PENDING => "its query takes longer; it is on its way".to_owned(),
            Err(_) => "the query failed, see below".to_owned(),
        };
        view! {
            <div class="tile">
                <h2>{self.label}{flag}</h2>
                <p class="value"><b>{shown.number}</b><span class="unit">{shown.unit}</span>{change}</p>
                <p class="note">{note}</p>
                <div class="course" inner_html=chart::spark(&self.course)></div>
                <a class="sql" href=links::asked("/sql", self.asked) aria-label=format!("SQL of {}", self.label)>"SQL"</a>
            </div>
        }
        .into_any()
    }
}

/// A cell of numbers; right-aligned, an em dash when unknown.
pub(crate) fn number(value: Option<f64>, unit: Unit) -> AnyView {
    view! { <td class="num">{format::text(value, unit)}</td> }.into_any()
}

/// A cell whose bar is divided: shares of one, each with its name and style.
pub(crate) fn shares(parts: &[Part<'_>]) -> AnyView {
    view! { <td class="shares" inner_html=bar(parts)></td> }.into_any()
}

/// A cell of text, an em dash when there is none.
pub(crate) fn text(value: Option<&str>) -> AnyView {
    view! { <td>{value.unwrap_or(format::UNKNOWN).to_owned()}</td> }.into_any()
}

/// A cell of text that goes on in further lines, an em dash when there is none.
pub(crate) fn words(value: Option<&str>) -> AnyView {
    view! { <td class="say">{value.unwrap_or(format::UNKNOWN).to_owned()}</td> }.into_any()
}

/// A table that scrolls sideways by itself where the page is narrow.
pub(crate) fn table(label: &'static str, head: AnyView, body: AnyView) -> AnyView {
    view! {
        <div class="scroll" tabindex="0" role="region" aria-label=format!("{label}, table")>
            <table class="list"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>
        </div>
    }
    .into_any()
}

/// Headings of columns; one that begins with `#` is of numbers, one that ends in `(UTC)` is of instants and names the page's zone.
pub(crate) fn heads(names: &[&str]) -> AnyView {
    let heads: Vec<_> = names
        .iter()
        .map(|name| match name.strip_prefix('#') {
            Some(name) => view! { <th class="num" scope="col">{name.to_owned()}</th> }.into_any(),
            None if name.ends_with("(UTC)") => view! { <th scope="col">{zoned(name)}</th> }.into_any(),
            // A heading without words heads nothing.
            None if name.is_empty() => view! { <td></td> }.into_any(),
            None => view! { <th scope="col">{(*name).to_owned()}</th> }.into_any(),
        })
        .collect();
    heads.into_any()
}

/// A heading of instants with the page's zone.
pub(crate) fn zoned(name: &str) -> String {
    name.replace("UTC", &zone::name())
}

/// A word about why a panel is empty.
pub(crate) fn hint(words: impl Into<String>) -> AnyView {
    view! { <p class="hint">{words.into()}</p> }.into_any()
}

/// One way out of several, as links: the name in the URL, the name on the page, the link.
pub(crate) fn choices(label: &'static str, chosen: &str, links: Vec<(String, String, String)>) -> AnyView {
    let links: Vec<_> = links
        .into_iter()
        .map(|(value, name, link)| {
            let current = (value == chosen).then_some("true");
            view! { <a href=link aria-current=current>{name}</a> }
        })
        .collect();
    view! { <div class="ranges" role="group" aria-label=label>{links}</div> }.into_any()
}
