//! What stands around every page: the rail, the scope and the freshness of what is shown.

use axum::http::{HeaderMap, header};
use leptos::prelude::*;
use telemetry::contract::Freshness;
use viz::format::{self, Unit};

use crate::ask::Asked;
use crate::assets;
use crate::islands::{Cursor, Live, ThemeSwitch};
use crate::server::{App, Visit};
use crate::urlstate::{Fields, RANGES, Range, Scope, range_name, rfc3339};

/// Seconds between renewals of a live page; islands renew the panels, without them the browser
/// loads the page again.
const RENEW_S: u32 = 5;
const RELOAD_S: u32 = 15;

/// Lag beyond which the page says that it is behind.
const STALE_S: f64 = 30.0;

/// Colours the reader chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    /// As the system does.
    Auto,
    Light,
    Dark,
}

const COOKIE: &str = "tokenwatt_theme";

impl Theme {
    /// The theme of that name, else the system's.
    pub(crate) fn named(name: Option<&str>) -> Self {
        match name {
            Some("light") => Self::Light,
            Some("dark") => Self::Dark,
            _ => Self::Auto,
        }
    }

    /// The choice a browser brings along.
    pub(crate) fn from_cookies(headers: &HeaderMap) -> Self {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let found = cookies
            .flat_map(|line| line.split(';'))
            .find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='));
        Self::named(found)
    }

    /// The cookie that keeps the choice for a year.
    pub(crate) fn cookie(self) -> String {
        format!("{COOKIE}={}; Path=/; Max-Age=31536000; SameSite=Lax", self.name())
    }

    /// Name in the cookie and in the style sheet.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// Pages of the rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Overview,
    Requests,
    Sql,
    Elsewhere,
}

const RAIL: [(Place, &str, &str, &str); 3] = [
    (Place::Overview, "/", "Overview", r#"<path d="M3 12l3-5 3 3 4-7"/><path d="M2 14h12"/>"#),
    (Place::Requests, "/requests", "Requests", r#"<path d="M2 4h12M2 8h8M2 12h5"/>"#),
    (Place::Sql, "/sql", "SQL", r#"<path d="M3 4l4 4-4 4M8 13h5"/>"#),
];

/// A page without its frame.
pub(crate) struct Sheet {
    /// Before the product's name in the title, and the heading.
    pub(crate) title: String,
    /// Which entry of the rail is current.
    pub(crate) place: Place,
    /// Scope of its links.
    pub(crate) scope: Scope,
    /// Values to filter by; none on pages without a scope bar.
    pub(crate) choices: Option<Asked>,
    /// Fields of the URL that the scope form must keep.
    pub(crate) keep: Fields,
    /// How fresh the numbers are.
    pub(crate) freshness: Option<Freshness>,
    /// Whether it can renew itself.
    pub(crate) renews: bool,
    /// Everything below the scope bar.
    pub(crate) body: AnyView,
}

/// Renders a page to HTML. `make` runs inside the reactive owner that its islands need.
pub(crate) fn render(app: &App, visit: &Visit, make: impl FnOnce() -> Sheet) -> String {
    Owner::new().with(|| {
        let sheet = make();
        let head = head(app, visit, &sheet);
        let body = body(visit, sheet).to_html();
        format!("<!doctype html><html lang=\"en\" data-theme=\"{}\">{head}{body}</html>", visit.theme.name())
    })
}

fn head(app: &App, visit: &Visit, sheet: &Sheet) -> String {
    let reload = (sheet.renews && sheet.scope.live && sheet.scope.follows_now()).then(|| {
        let meta = format!("<meta http-equiv=\"refresh\" content=\"{RELOAD_S}\">");
        // With islands on the page only a browser without scripts needs to load it again.
        if app.scripts.is_some() { format!("<noscript>{meta}</noscript>") } else { meta }
    });
    format!(
        "<head><meta charset=\"utf-8\"><title>{} · Tokenwatt</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"{}\">\
         <link rel=\"icon\" href=\"{}\"><link rel=\"stylesheet\" href=\"{}\">{}{}</head>",
        viz::escape(&sheet.title),
        match visit.theme {
            Theme::Auto => "light dark",
            other => other.name(),
        },
        assets::icon_url(),
        assets::style_url(),
        reload.unwrap_or_default(),
        app.scripts.as_deref().unwrap_or_default(),
    )
}

fn body(visit: &Visit, sheet: Sheet) -> impl IntoView {
    let bar = sheet.choices.as_ref().map(|choices| scope_bar(visit, &sheet, choices));
    // Pages without a scope, such as a refused statement, have no data to be fresh or not.
    let fresh = (sheet.freshness.is_some() || sheet.choices.is_some()).then(|| freshness(sheet.freshness));
    view! {
        <body>
            <a class="skip" href="#main">"Skip to the numbers"</a>
            {rail(visit, sheet.place, &sheet.scope)}
            <div class="page">
                <header class="top">
                    <h1>{sheet.title}</h1>
                    <div id="freshness" class="fresh" data-refresh="">{fresh}</div>
                    {(sheet.renews && sheet.scope.follows_now()).then(|| live(visit, &sheet.scope, &sheet.keep))}
                </header>
                {bar}
                <main id="main">{sheet.body}</main>
            </div>
            <Cursor/>
        </body>
    }
}

fn rail(visit: &Visit, place: Place, scope: &Scope) -> AnyView {
    let entries = RAIL.map(|(entry, path, name, drawing)| {
        let current = (entry == place).then_some("page");
        let icon = format!(r#"<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">{drawing}</svg>"#);
        view! { <a href=scope.link(path) aria-current=current><span inner_html=icon></span>{name}</a> }
    });
    view! {
        <nav class="rail" aria-label="Pages">
            <a class="brand" href="/">"tokenwatt"</a>
            {entries.into_iter().collect_view()}
            <ThemeSwitch theme=visit.theme.name().to_owned() back=visit.here.clone()/>
        </nav>
    }
    .into_any()
}

fn live(visit: &Visit, scope: &Scope, keep: &Fields) -> AnyView {
    let path = visit.here.split('?').next().unwrap_or("/").to_owned();
    let with = |live| {
        let mut fields = Scope { live, ..scope.clone() }.fields();
        keep.iter().for_each(|(name, value)| fields.set(name, value.to_owned()));
        fields.link(&path)
    };
    view! { <Live live=scope.live every_s=RENEW_S resume=with(true) pause=with(false)/> }.into_any()
}

fn freshness(freshness: Option<Freshness>) -> AnyView {
    let Some(freshness) = freshness else {
        return view! { <span class="chip unknown">"no data yet"</span> }.into_any();
    };
    let clock = viz::hover::clock(freshness.newest_time_us);
    let lag = format::text(Some(freshness.lag_s.max(0.0)), Unit::Seconds);
    let class = if freshness.lag_s > STALE_S { "chip stale" } else { "chip" };
    let word = if freshness.lag_s > STALE_S { "stale: " } else { "" };
    let title = format!("newest event {}", rfc3339(freshness.newest_time_us));
    view! { <span class=class title=title>{format!("{word}data to {clock}, lag {lag}")}</span> }.into_any()
}

fn scope_bar(visit: &Visit, sheet: &Sheet, choices: &Asked) -> AnyView {
    let scope = &sheet.scope;
    let path = visit.here.split('?').next().unwrap_or("/").to_owned();
    let ranges = RANGES.map(|(seconds, name)| {
        let mut fields = Scope { range: Range::Last(seconds), ..scope.clone() }.fields();
        sheet.keep.iter().for_each(|(name, value)| fields.set(name, value.to_owned()));
        let current = (scope.range == Range::Last(seconds)).then_some("true");
        view! { <a href=fields.link(&path) aria-current=current>{name}</a> }
    });
    // The form sends what it shows; the range and the page's own fields travel hidden.
    let mut hidden = Scope { region: None, model: None, tenant: None, ..scope.clone() }.fields();
    sheet.keep.iter().for_each(|(name, value)| hidden.set(name, value.to_owned()));
    let hidden: Vec<_> = hidden
        .iter()
        .map(|(name, value)| view! { <input type="hidden" name=name.to_owned() value=value.to_owned()/> })
        .collect();
    let selects = [("region", &scope.region), ("model", &scope.model), ("tenant", &scope.tenant)];
    let clear = selects.iter().any(|(_, chosen)| chosen.is_some()).then(|| {
        let mut fields = Scope { region: None, model: None, tenant: None, ..scope.clone() }.fields();
        sheet.keep.iter().for_each(|(name, value)| fields.set(name, value.to_owned()));
        view! { <a class="quiet" href=fields.link(&path)>"Clear"</a> }
    });
    view! {
        <div class="scope">
            <form method="get" action=path.clone()>
                {selects.map(|(name, chosen)| select(name, chosen.as_deref(), choices)).into_iter().collect_view()}
                {hidden}
                <button>"Apply"</button>
                {clear}
            </form>
            <div class="ranges" role="group" aria-label="Time range">{ranges.into_iter().collect_view()}{absolute(scope, visit, &path, sheet)}</div>
        </div>
    }
    .into_any()
}

/// Two fields for a stretch of time that does not end now.
fn absolute(scope: &Scope, visit: &Visit, path: &str, sheet: &Sheet) -> AnyView {
    let (from, to) = scope.resolve(visit.now_us);
    let field = |at: i64| rfc3339(at / 1_000_000 * 1_000_000).trim_end_matches('Z').to_owned();
    let name = match scope.range {
        Range::Between(from, to) => format!("{} – {}", short(from), short(to)),
        Range::Last(seconds) if RANGES.iter().any(|(span, _)| *span == seconds) => "from … to".to_owned(),
        Range::Last(seconds) => format!("last {}", range_name(seconds)),
    };
    let mut hidden = Scope { range: Range::Last(crate::urlstate::DEFAULT_RANGE_S), ..scope.clone() }.fields();
    sheet.keep.iter().for_each(|(name, value)| hidden.set(name, value.to_owned()));
    let hidden: Vec<_> = hidden
        .iter()
        .map(|(name, value)| view! { <input type="hidden" name=name.to_owned() value=value.to_owned()/> })
        .collect();
    view! {
        <details class="absolute">
            <summary aria-current=matches!(scope.range, Range::Between(..)).then_some("true")>{name}</summary>
            <form method="get" action=path.to_owned()>
                <label>"from (UTC)"<input type="datetime-local" step="1" name="from" value=field(from)/></label>
                <label>"to (UTC)"<input type="datetime-local" step="1" name="to" value=field(to)/></label>
                {hidden}
                <button>"Show"</button>
            </form>
        </details>
    }
    .into_any()
}

/// An instant as short as it can be told apart: day, hours and minutes, UTC.
fn short(at_us: i64) -> String {
    let text = rfc3339(at_us / 60_000_000 * 60_000_000);
    text.trim_end_matches(":00Z").replace('T', " ")
}

/// One filter. A value that is chosen stays in the list even if no row has it.
fn select(name: &'static str, chosen: Option<&str>, choices: &Asked) -> AnyView {
    let mut values: Vec<String> = match &choices.outcome {
        Ok(answer) => answer.rows().filter_map(|row| row.text(name)).map(str::to_owned).collect(),
        Err(_) => Vec::new(),
    };
    values.extend(chosen.map(str::to_owned));
    values.sort_unstable();
    values.dedup();
    let options: Vec<_> = values
        .into_iter()
        .map(|value| {
            let selected = chosen == Some(value.as_str());
            let name = value.clone();
            view! { <option value=value selected=selected>{name}</option> }
        })
        .collect();
    view! {
        <label>
            <span>{name}</span>
            <select name=name>
                <option value="">"all"</option>
                {options}
            </select>
        </label>
    }
    .into_any()
}
