//! Routes, headers and cookies: the part of the dashboard that speaks HTTP.

mod access;
mod chart;
pub(crate) mod cookies;
mod export;
mod login;
mod share;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use service::clock::SharedClock;
use service::principal::Principal;
use telemetry::contract::QueryApi;
use tokio::sync::OnceCell;
use tower_http::compression::CompressionLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use crate::ask::Asker;
use crate::ask::rest::Rest;
use crate::assets::{self, Bundle};
use crate::frame::Theme;
use crate::panel::picture::Pictures;
use crate::urlstate::{Fields, path};
use crate::{islands, pages};

pub use access::{Access, Answers, open_to_sessions};
use access::{Gate, Nobody};
pub(crate) use share::Shared;

/// Nothing but this server's own files; no inline script or style; WebAssembly may be compiled.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What the dashboard needs to know beside the query service.
#[derive(Clone)]
pub struct Options {
    /// Directory of the wasm bundle; pages work without one.
    pub bundle: Option<PathBuf>,
    /// Where OTLP/gRPC is received, shown when there is no data yet ("127.0.0.1:4317").
    pub otlp_grpc: Option<String>,
    /// Where OTLP/HTTP is received, shown likewise ("127.0.0.1:4318").
    pub otlp_http: Option<String>,
    /// Longest that a panel waits for its answer before the page is sent without it.
    pub panel_deadline: Duration,
    /// What "now" is.
    pub clock: SharedClock,
    /// Whether this port answers `/api/v1/sql` too: then panels link to their rows as Parquet, which the query service writes.
    pub has_api: bool,
    /// Attributes that costs are split by beside tenant and the like, as the query service has them.
    pub allocation_keys: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bundle: None,
            otlp_grpc: None,
            otlp_http: None,
            panel_deadline: Duration::from_secs(8),
            clock: service::clock::system(),
            has_api: false,
            allocation_keys: Vec::new(),
        }
    }
}

/// What every page is made with.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) asker: Asker,
    pub(crate) options: Arc<Options>,
    /// Tags that start the islands, if there is a bundle.
    pub(crate) scripts: Option<Arc<str>>,
    /// Who may see the pages.
    pub(crate) access: Access,
    /// Whose rights these pages are asked with; nobody's where nobody has to prove anything.
    pub(crate) reader: Option<Arc<Principal>>,
    /// Who shared the page, where it is shown by a link.
    pub(crate) shared: Option<Shared>,
}

/// What one request brings along.
pub(crate) struct Visit {
    /// Path and query, for links back to this very page.
    pub(crate) here: String,
    /// Query string without its question mark.
    pub(crate) query: String,
    /// Colours the reader chose.
    pub(crate) theme: Theme,
    /// One instant for the whole page, µs since the epoch.
    pub(crate) now_us: i64,
    /// When it was begun, by the clock that never goes back.
    pub(crate) begun: Duration,
    /// Whoever wants the page's charts by themselves.
    pub(crate) pictures: Option<Pictures>,
    /// What the page asks, from its first response to its last.
    pub(crate) rest: Arc<Rest>,
    /// Whether it waits for all of its answers: an image, a page by a link, a page that is renewed as a whole.
    pub(crate) is_patient: bool,
    /// Whether an answer is missing that is on its way.
    pub(crate) is_partial: AtomicBool,
    /// Done once the page has waited for more than was shown before.
    pub(crate) turn: OnceCell<()>,
}

impl Visit {
    /// The path alone.
    pub(crate) fn path(&self) -> &str {
        self.here.split('?').next().unwrap_or("/")
    }
}

/// The dashboard's routes, to be merged with those of the query service, for whoever reaches the port.
///
/// A bundle that is absent or was built from other sources is left out with a warning: pages are complete
/// without it.
pub fn router(api: Arc<dyn QueryApi>, options: Options) -> Router {
    let answers: Answers = Arc::new(move |_| Arc::clone(&api));
    guarded(&answers, &Access::open(), options)
}

/// The same for those whom `access` names, each of whom is answered as `answers` says.
pub fn guarded(answers: &Answers, access: &Access, options: Options) -> Router {
    let bundle = options.bundle.as_deref().and_then(|dir| {
        let opened = Bundle::open(dir, &islands::names());
        opened
            .inspect_err(|reason| {
                tracing::warn!(reason, "serving pages without islands; build them with `cargo xtask web`")
            })
            .ok()
    });
    let options = Arc::new(options);
    let app = |api, reader: Option<&Arc<Principal>>| App {
        asker: Asker::new(api, options.panel_deadline),
        scripts: bundle.as_ref().map(|bundle| bundle.tags().into()),
        options: Arc::clone(&options),
        access: access.clone(),
        reader: reader.map(Arc::clone),
        shared: None,
    };
    let routes = match access.is_open() {
        true => pages(app(answers(None), None)),
        false => {
            Gate::new(access, app(Arc::new(Nobody), None), |reader| app(answers(Some(reader)), Some(reader))).router()
        }
    };
    with_headers(service::origin::refuse_elsewhere(routes))
        .merge(assets::router(bundle.as_ref()))
        .layer(CompressionLayer::new())
}

/// All pages, as one reader sees them.
fn pages(app: App) -> Router {
    Router::new()
        .route("/", get(overview))
        .route("/slo", get(slos))
        .route("/slo/{id}", get(slo))
        .route("/latency", get(latency))
        .route("/fleet", get(fleet))
        .route("/region/{region}", get(region))
        .route("/node/{host}", get(node))
        .route("/requests", get(requests))
        .route("/request/{trace}/{span}", get(request))
        .route("/cost", get(cost))
        .route("/power", get(power))
        .route("/alerts", get(alerts))
        .route("/logs", get(logs))
        .route("/settings", get(settings))
        .route("/go", get(find))
        .route("/sql", get(sql).post(sql_posted))
        .route("/sql.csv", get(export::csv))
        .route("/chart.svg", get(chart::svg))
        .route("/theme", post(theme))
        .route("/share", get(share::form).post(share::make))
        .fallback(not_found)
        .with_state(app)
}

/// What every answer carries.
fn with_headers(router: Router) -> Router {
    router
        .layer(SetResponseHeaderLayer::if_not_present(
            header::CACHE_CONTROL,
            HeaderValue::from_static("private, no-cache"),
        ))
        // An image that carries its own colours has a policy of its own.
        .layer(SetResponseHeaderLayer::if_not_present(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(POLICY),
        ))
        .layer(SetResponseHeaderLayer::overriding(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
        .layer(SetResponseHeaderLayer::overriding(header::REFERRER_POLICY, HeaderValue::from_static("same-origin")))
        .layer(SetResponseHeaderLayer::overriding(
            HeaderName::from_static("x-frame-options"),
            HeaderValue::from_static("DENY"),
        ))
}

impl App {
    /// What its reader is called.
    pub(crate) fn name(&self) -> &str {
        self.reader.as_ref().map_or("everybody", |reader| &reader.name)
    }

    /// Whether its reader sees but a part of all rows.
    pub(crate) fn is_bound(&self) -> bool {
        self.reader.as_ref().is_some_and(|reader| !reader.sees_everything())
    }

    /// Whether its reader can make links that show others one page.
    pub(crate) fn can_share(&self) -> bool {
        self.reader.is_some() && self.shared.is_none() && !self.access.share_lifetime().is_zero()
    }

    fn visit(&self, path: &str, query: Option<String>, headers: &HeaderMap) -> Visit {
        let (query, rest) = without_rest(query.unwrap_or_default());
        let here = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let clock = &self.options.clock;
        let is_patient = self.shared.is_some() || rest.as_deref() == Some(ALL);
        let number = rest.and_then(|rest| rest.parse().ok());
        let rest = number.and_then(|number| self.asker.part(number, &here));
        let rest = rest.unwrap_or_else(|| Rest::new(&here, clock.now_us()));
        Visit {
            here,
            query,
            theme: Theme::from_cookies(headers),
            now_us: rest.now_us,
            begun: clock.monotonic(),
            pictures: None,
            rest,
            is_patient,
            is_partial: AtomicBool::new(false),
            turn: OnceCell::new(),
        }
    }
}

/// The field by which a page is gone on with ([`Rest`]), or renewed as a whole. It is no part of the page's address.
pub(crate) const REST: &str = "rest";
/// Its value where all answers are waited for.
const ALL: &str = "all";

/// A query without that field, and its value.
fn without_rest(query: String) -> (String, Option<String>) {
    let of = |pair: &str| pair.strip_prefix(REST).and_then(|value| value.strip_prefix('=')).map(str::to_owned);
    match query.split('&').find_map(of) {
        None => (query, None),
        Some(rest) => (query.split('&').filter(|pair| of(pair).is_none()).collect::<Vec<_>>().join("&"), Some(rest)),
    }
}

async fn overview(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Html<String> {
    let visit = app.visit("/", query, &headers);
    Html(pages::overview::page(&app, &visit).await)
}

async fn slos(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Html<String> {
    let visit = app.visit("/slo", query, &headers);
    Html(pages::slo::page(&app, &visit).await)
}

async fn latency(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Html<String> {
    let visit = app.visit("/latency", query, &headers);
    Html(pages::latency::page(&app, &visit).await)
}

async fn fleet(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Html<String> {
    let visit = app.visit("/fleet", query, &headers);
    Html(pages::fleet::page(&app, &visit).await)
}

async fn requests(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Html<String> {
    let visit = app.visit("/requests", query, &headers);
    Html(pages::requests::page(&app, &visit).await)
}

async fn cost(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Html<String> {
    let visit = app.visit("/cost", query, &headers);
    Html(pages::cost::page(&app, &visit).await)
}

async fn power(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Html<String> {
    let visit = app.visit("/power", query, &headers);
    Html(pages::power::page(&app, &visit).await)
}

async fn alerts(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Html<String> {
    let visit = app.visit("/alerts", query, &headers);
    Html(pages::alerts::page(&app, &visit).await)
}

async fn logs(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Html<String> {
    let visit = app.visit("/logs", query, &headers);
    Html(pages::logs::page(&app, &visit).await)
}

async fn settings(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Html<String> {
    let visit = app.visit("/settings", query, &headers);
    Html(pages::settings::page(&app, &visit).await)
}

async fn find(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Html<String> {
    let visit = app.visit("/go", query, &headers);
    Html(pages::find::page(&app, &visit).await)
}

async fn slo(
    State(app): State<App>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Html<String> {
    let visit = app.visit(&path(&["slo", &id]), query, &headers);
    Html(pages::slo::detail::page(&app, &visit, &id).await)
}

async fn region(
    State(app): State<App>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Html<String> {
    let visit = app.visit(&path(&["region", &name]), query, &headers);
    Html(pages::fleet::region(&app, &visit, &name).await)
}

async fn node(
    State(app): State<App>,
    Path(host): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Html<String> {
    let visit = app.visit(&path(&["node", &host]), query, &headers);
    Html(pages::node::page(&app, &visit, &host).await)
}

async fn request(
    State(app): State<App>,
    Path((trace, span)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let known = |id: &str, digits: usize| id.len() == digits && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !known(&trace, 32) || !known(&span, 16) {
        return not_found(State(app), headers).await;
    }
    let visit = app.visit(&format!("/request/{trace}/{span}"), query, &headers);
    Html(pages::request::page(&app, &visit, &trace.to_ascii_lowercase(), &span.to_ascii_lowercase()).await)
        .into_response()
}

async fn sql(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Html<String> {
    let visit = app.visit("/sql", query, &headers);
    Html(pages::sql::page(&app, &visit).await)
}

/// A statement too long for a URL.
async fn sql_posted(State(app): State<App>, headers: HeaderMap, body: String) -> Response {
    let visit = app.visit("/sql", Some(body), &headers);
    Html(pages::sql::page(&app, &visit).await).into_response()
}

async fn not_found(State(app): State<App>, headers: HeaderMap) -> Response {
    let visit = app.visit("/", None, &headers);
    (StatusCode::NOT_FOUND, Html(pages::missing::page(&app, &visit))).into_response()
}

/// Keeps the chosen colours in a cookie and goes back to the page.
async fn theme(body: String) -> Response {
    let fields = Fields::parse(&body);
    let theme = Theme::named(fields.text("theme").as_deref());
    let back = fields.long_text("back").filter(|path| is_local(path)).unwrap_or_else(|| "/".to_owned());
    let headers = [(header::SET_COOKIE, theme.cookie()), (header::LOCATION, back)];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// A path on this server: what could name another host is not followed.
fn is_local(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && !path.contains('\\')
        && path.bytes().all(|byte| (0x21..0x7f).contains(&byte))
}

#[cfg(test)]
mod tests;
