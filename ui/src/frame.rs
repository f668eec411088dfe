//! What stands around every page: the rail, the scope and the freshness of what is shown.

mod alone;
pub(crate) mod keys;
mod reader;
mod scope;

use axum::http::HeaderMap;
use leptos::prelude::*;
use telemetry::contract::Freshness;
use viz::format::{self, Unit};

use crate::ask::Asked;
use crate::assets;
use crate::islands::{Cursor, Keys, Live, ThemeSwitch};
use crate::panel::StandsStill;
use crate::panel::links::HasApi;
use crate::panel::picture::Here;
use crate::server::{App, REST, Visit, cookies};
use crate::sql;
use crate::urlstate::{Dimension, Fields, Scope, rfc3339};
use crate::zone::{self, Local};

/// Seconds between renewals of a live page; islands renew the panels, without them the browser
/// loads the page again.
const RENEW_S: u32 = 5;
/// The same of pages that are read rather than watched: their panels ask more.
const RENEW_READ_S: u32 = 15;
const RELOAD_S: u32 = 15;

/// Lag beyond which the page says that it is behind.
const STALE_S: f64 = 30.0;

/// Colours the reader chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
        Self::named(cookies::find(headers, COOKIE))
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
    Slo,
    Latency,
    Fleet,
    Requests,
    Cost,
    Power,
    Alerts,
    Logs,
    Sql,
    Settings,
    Elsewhere,
}

/// One entry of the rail.
pub(crate) struct Entry {
    place: Place,
    pub(crate) path: &'static str,
    pub(crate) name: &'static str,
    /// Keys that lead there.
    pub(crate) key: &'static str,
    /// Paths of its icon, 16 by 16.
    drawing: &'static str,
}

const fn entry(
    place: Place,
    path: &'static str,
    name: &'static str,
    key: &'static str,
    drawing: &'static str,
) -> Entry {
    Entry { place, path, name, key, drawing }
}

pub(crate) const RAIL: [Entry; 11] = [
    entry(Place::Overview, "/", "Overview", "g o", r#"<path d="M3 12l3-5 3 3 4-7"/><path d="M2 14h12"/>"#),
    entry(Place::Slo, "/slo", "SLOs", "g s", r#"<circle cx="8" cy="8" r="5.5"/><circle cx="8" cy="8" r="2"/>"#),
    entry(Place::Latency, "/latency", "Latency", "g l", r#"<circle cx="8" cy="8" r="5.5"/><path d="M8 5v3l2 2"/>"#),
    entry(
        Place::Fleet,
        "/fleet",
        "Fleet",
        "g f",
        r#"<rect x="2.5" y="2.5" width="4.5" height="4.5" rx="1"/><rect x="9" y="2.5" width="4.5" height="4.5" rx="1"/><rect x="2.5" y="9" width="4.5" height="4.5" rx="1"/><rect x="9" y="9" width="4.5" height="4.5" rx="1"/>"#,
    ),
    entry(Place::Requests, "/requests", "Requests", "g r", r#"<path d="M2 4h12M2 8h8M2 12h5"/>"#),
    entry(
        Place::Cost,
        "/cost",
        "Cost",
        "g c",
        r#"<path d="M8 2v12M11 5c-.6-1-1.700-1.500-3-1.500-1.700 0-3 .8-3 2.200C5 9 11 7 11 10.300c0 1.400-1.300 2.200-3 2.200-1.300 0-2.400-.5-3-1.500"/>"#,
    ),
    entry(Place::Power, "/power", "Power", "g p", r#"<path d="M9 1.500L4 9h3.500L7 14.500 12 7H8.500z"/>"#),
    entry(Place::Alerts, "/alerts", "Alerts", "g a", r#"<path d="M4 11V7a4 4 0 018 0v4l1 1.500H3zM7 14.500h2"/>"#),
    entry(Place::Logs, "/logs", "Logs", "g n", r#"<path d="M3 3h10v10H3zM5.500 6h5M5.500 8.500h5M5.500 11h3"/>"#),
    entry(Place::Sql, "/sql", "SQL", "g q", r#"<path d="M3 4l4 4-4 4M8 13h5"/>"#),
    entry(Place::Settings, "/settings", "Data health", "g h", r#"<path d="M2 8h3l1.500-4 3 8L11 8h3"/>"#),
];

/// A page without its frame.
pub(crate) struct Sheet {
    /// Before the product's name in the title, and the heading.
    pub(crate) title: String,
    /// Which entry of the rail is current.
    pub(crate) place: Place,
    /// Pages above this one: name and link.
    pub(crate) trail: Vec<(String, String)>,
    /// Scope of its links.
    pub(crate) scope: Scope,
    /// What its figures can be narrowed to.
    pub(crate) filters: &'static [Dimension],
    /// Values to filter by; none on pages without a scope bar.
    pub(crate) choices: Option<Asked>,
    /// Fields of the URL that the scope form must keep.
    pub(crate) keep: Fields,
    /// How fresh the numbers are.
    pub(crate) freshness: Option<Freshness>,
    /// What is missing from its numbers, in the query service's words.
    pub(crate) notices: Vec<String>,
    /// Whether it can renew itself.
    pub(crate) renews: bool,
    /// Everything below the scope bar.
    pub(crate) body: AnyView,
}

impl Sheet {
    /// An empty page, to be filled in.
    pub(crate) fn new(title: impl Into<String>, place: Place, scope: Scope) -> Self {
        Self {
            title: title.into(),
            place,
            trail: Vec::new(),
            scope,
            filters: &[],
            choices: None,
            keep: Fields::default(),
            freshness: None,
            notices: Vec::new(),
            renews: false,
            body: ().into_any(),
        }
    }

    /// Takes freshness and notices from the page's answers: the freshness is that of the first that has one.
    pub(crate) fn told_by(mut self, asked: &[&Asked]) -> Self {
        let answers = || asked.iter().filter_map(|asked| asked.outcome.as_ref().ok());
        self.freshness = answers().find_map(|answer| answer.raw().freshness);
        let mut notices: Vec<String> = answers().filter_map(|answer| answer.raw().notice.clone()).collect();
        notices.sort_unstable();
        notices.dedup();
        self.notices = notices;
        self
    }
}

/// What can be filtered by in the page's range. Pages share the answer.
pub(crate) async fn choices(app: &App, visit: &Visit, scope: &Scope) -> Asked {
    let sql = sql::choices(scope.resolve(visit.now_us));
    app.asker.kept("frame.choices", &scope.all().link(""), visit.now_us, sql).await
}

/// Renders a page to HTML. `make` runs inside the reactive owner that its islands need.
pub(crate) fn render(app: &App, visit: &Visit, make: impl FnOnce() -> Sheet) -> String {
    let clock = &app.options.clock;
    let asked = clock.monotonic();
    let (place, html) = rendered(app, visit, make);
    // A page that is drawn for one of its charts is no visit, and one without a place in the rail asks little.
    if visit.pictures.is_none() && place != Place::Elsewhere {
        let page = visit.path().split('/').nth(1).filter(|page| !page.is_empty()).unwrap_or("overview");
        app.access.took(page, "asked", asked.saturating_sub(visit.begun));
        app.access.took(page, "drawn", clock.monotonic().saturating_sub(asked));
    }
    html
}

fn rendered(app: &App, visit: &Visit, make: impl FnOnce() -> Sheet) -> (Place, String) {
    Owner::new().with(|| {
        let scope = Scope::parse(&visit.query);
        provide_context(Local::of(&scope));
        if !scope.follows_now() {
            provide_context(StandsStill);
        }
        // Whoever was shown one page has no others, and no images of them.
        if app.shared.is_none() {
            provide_context(Here(visit.here.clone()));
            if app.options.has_api {
                provide_context(HasApi);
            }
        }
        if let Some(pictures) = &visit.pictures {
            provide_context(pictures.clone());
        }
        let sheet = make();
        let rest = app.asker.sent(visit);
        let (place, head) = (sheet.place, head(app, visit, &sheet, rest));
        let body = match &app.shared {
            Some(shared) => alone::shared(visit, sheet, shared).to_html(),
            None => body(app, visit, sheet, rest).to_html(),
        };
        (place, document(visit, &head, &body))
    })
}

/// Renders what stands alone, before anybody has signed in: no rail, no scope.
pub(crate) fn render_alone(app: &App, visit: &Visit, title: &str, make: impl FnOnce() -> AnyView) -> String {
    Owner::new().with(|| {
        let sheet = Sheet::new(title, Place::Elsewhere, Scope::default());
        let head = head(app, visit, &sheet, None);
        document(visit, &head, &alone::plain(visit, make()).to_html())
    })
}

fn document(visit: &Visit, head: &str, body: &str) -> String {
    format!("<!doctype html><html lang=\"en\" data-theme=\"{}\">{head}{body}</html>", visit.theme.name())
}

/// `rest` is the number of a page that is sent in part: a browser without scripts goes on with it at once.
fn head(app: &App, visit: &Visit, sheet: &Sheet, rest: Option<u64>) -> String {
    let is_live = sheet.renews && sheet.scope.live && sheet.scope.follows_now();
    let again = rest.map(|rest| {
        let sign = if visit.query.is_empty() { '?' } else { '&' };
        format!("0;url={}{sign}{REST}={rest}", visit.here)
    });
    let reload = again.or_else(|| is_live.then(|| RELOAD_S.to_string())).map(|again| {
        let meta = format!("<meta http-equiv=\"refresh\" content=\"{}\">", viz::escape(&again));
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

fn body(app: &App, visit: &Visit, sheet: Sheet, rest: Option<u64>) -> impl IntoView {
    let bar = sheet.choices.as_ref().map(|choices| scope::bar(visit, &sheet, choices));
    // Pages without a scope, such as a refused statement, have no data to be fresh or not.
    // Nor is a reader of a part told how fresh the whole is.
    let is_due = sheet.choices.is_some() && !app.is_bound();
    let fresh = (sheet.freshness.is_some() || is_due).then(|| freshness(sheet.freshness));
    let dialogs = keys::dialogs(&sheet.scope, sheet.choices.as_ref());
    let notices = notices(&sheet);
    let rest =
        rest.map(|rest| view! { <span class="chip rest" data-rest=rest role="status">"more is on its way"</span> });
    view! {
        <body>
            <a class="skip" href="#main">"Skip to the numbers"</a>
            {rail(app, visit, sheet.place, &sheet.scope)}
            <div class="page">
                <header class="top">
                    <div class="name">{trail(&sheet.trail)}<h1>{sheet.title.clone()}</h1></div>
                    {app.reader.as_deref().and_then(reader::bounds)}
                    <div id="rest" data-refresh="">{rest}</div>
                    <div id="freshness" class="fresh" data-refresh="">{fresh}</div>
                    {(sheet.renews && sheet.scope.follows_now()).then(|| live(visit, &sheet))}
                    {reader::share(app, visit, sheet.place)}
                    <a class="live" href="/go" data-dialog="palette">"Go to"<kbd>"Ctrl K"</kbd></a>
                </header>
                {bar}
                <div id="notices" data-refresh="">{notices}</div>
                <main id="main">{sheet.body}</main>
                <footer class="foot">{format!("{} · all times {} · ", visit.here, zone::name())}<a href="/settings#keyboard" data-dialog="keys">"keyboard ( ? )"</a></footer>
            </div>
            {dialogs}
            <Cursor/>
            <Keys/>
        </body>
    }
}

/// What is missing from the page's numbers.
fn notices(sheet: &Sheet) -> Vec<AnyView> {
    let notice = |notice: &String| view! { <p class="card partial" role="status">{notice.clone()}</p> }.into_any();
    sheet.notices.iter().map(notice).collect()
}

/// The pages above this one.
fn trail(trail: &[(String, String)]) -> Option<AnyView> {
    let links: Vec<_> =
        trail.iter().map(|(name, link)| view! { <li><a href=link.clone()>{name.clone()}</a></li> }).collect();
    (!links.is_empty()).then(|| view! { <nav class="trail" aria-label="Above"><ol>{links}</ol></nav> }.into_any())
}

fn rail(app: &App, visit: &Visit, place: Place, scope: &Scope) -> AnyView {
    let entries = RAIL.iter().map(|Entry { place: entry, path, name, key, drawing }| {
        let current = (*entry == place).then_some("page");
        let icon = format!(r#"<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">{drawing}</svg>"#);
        view! { <a href=scope.link(path) aria-current=current data-key=*key><span inner_html=icon></span>{*name}</a> }
    });
    view! {
        <nav class="rail" aria-label="Pages">
            <a class="brand" href="/">"tokenwatt"</a>
            <div class="pages">{entries.collect_view()}</div>
            <ThemeSwitch theme=visit.theme.name().to_owned() back=visit.here.clone()/>
            {app.reader.as_deref().map(reader::signed_in)}
        </nav>
    }
    .into_any()
}

fn live(visit: &Visit, sheet: &Sheet) -> AnyView {
    let (scope, keep) = (&sheet.scope, &sheet.keep);
    let every_s = if sheet.place == Place::Overview { RENEW_S } else { RENEW_READ_S };
    let path = visit.path();
    let with = |live| {
        let mut fields = Scope { live, ..scope.clone() }.fields();
        keep.iter().for_each(|(name, value)| fields.set(name, value.to_owned()));
        fields.link(path)
    };
    view! { <Live live=scope.live every_s=every_s resume=with(true) pause=with(false)/> }.into_any()
}

fn freshness(freshness: Option<Freshness>) -> AnyView {
    let Some(freshness) = freshness else {
        return view! { <span class="chip unknown">"no data yet"</span> }.into_any();
    };
    let clock = zone::clock(freshness.newest_time_us);
    let lag = format::text(Some(freshness.lag_s.max(0.0)), Unit::Seconds);
    let class = if freshness.lag_s > STALE_S { "chip stale" } else { "chip" };
    let word = if freshness.lag_s > STALE_S { "stale: " } else { "" };
    let title = format!("newest event {}", rfc3339(freshness.newest_time_us));
    view! { <span class=class title=title>{format!("{word}data to {clock}, lag {lag}")}</span> }.into_any()
}
