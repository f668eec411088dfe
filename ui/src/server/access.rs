//! Who may see the pages, and with whose eyes.
//!
//! ```text
//! request ─► token, session or certificate ─► principal ─► pages of its own: every question is asked with its rights
//!                └► none of them ─► the login;  a link that grants one page ─► that page, with the rights of whoever made it
//! ```
//!
//! Each principal has an [`App`] of its own. What one was answered is in no memory that another is answered from.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use service::metrics::Registry;
use service::origin::{self, Origin};
use service::principal::{Attempts, Principal, Principals, Refused, Role, Sessions, Shares, Token};
use service::tls::Peer;
use service::{Deps, Error, Kind};
use telemetry::contract::{Answering, ApiError, QueryApi, SqlRequest};
use tower::ServiceExt;
use tower_http::set_header::SetResponseHeaderLayer;

use super::{App, cookies, is_local, login, share};
use crate::urlstate::Fields;

/// Name of the cookie that holds a session.
const COOKIE: &str = "tokenwatt_session";
/// Its name over TLS: browsers take such a name from this very host alone, not from one beside it (RFC 6265bis, `__Host-`).
const COOKIE_SECURE: &str = "__Host-tokenwatt_session";
/// What is said of everything that only some may see.
const KEPT_NOWHERE: HeaderValue = HeaderValue::from_static("private, no-store");
/// Longest body of a login.
const BODY_MAX: usize = 16 << 10;

/// Who answers a reader; nobody in particular where nobody has to prove anything.
pub type Answers = Arc<dyn Fn(Option<&Arc<Principal>>) -> Arc<dyn QueryApi> + Send + Sync>;

/// Who may see the pages, and how they prove it.
#[derive(Clone)]
pub struct Access {
    principals: Principals,
    pub(super) sessions: Sessions,
    pub(super) attempts: Attempts,
    pub(super) shares: Option<Shares>,
    /// Whether the port speaks TLS itself.
    tls: bool,
    metrics: Registry,
}

impl Access {
    /// The principals of `deps`, whose sessions last `session`; without `shares` no links are made.
    #[must_use]
    pub fn new(deps: &Deps, session: Duration, shares: Option<Shares>) -> Self {
        let sessions = Sessions::new(&deps.principals, &deps.clock, session);
        if !deps.principals.is_open() {
            let counted = sessions.clone();
            let help = "Sessions of browsers that are held.";
            deps.metrics.observe("tokenwatt_ui_sessions", help, &[], move || Some(counted.count() as f64));
        }
        Self {
            attempts: Attempts::new(&deps.clock),
            principals: deps.principals.clone(),
            sessions,
            shares,
            tls: deps.tls.is_secure(),
            metrics: deps.metrics.clone(),
        }
    }

    /// Whoever reaches the port.
    #[must_use]
    pub fn open() -> Self {
        Self::new(&Deps::system(), Duration::ZERO, None)
    }

    pub(super) fn is_open(&self) -> bool {
        self.principals.is_open()
    }

    /// The longest that a link may last; nothing where none are made.
    pub(crate) fn share_lifetime(&self) -> Duration {
        self.shares.as_ref().map_or(Duration::ZERO, Shares::lifetime_max)
    }

    /// Counts an attempt to sign in, or to open a link.
    pub(super) fn count(&self, what: &'static str, outcome: &str) {
        let (name, help) = match what {
            "login" => ("tokenwatt_ui_logins_total", "Attempts to sign in to the dashboard, by how they ended."),
            _ => ("tokenwatt_ui_shares_total", "Links that show one page: made, opened, refused."),
        };
        self.metrics.counter(name, help, &[("outcome", outcome.to_owned())]).inc();
    }

    /// Notes how long a step of making a page took. `page` is the first word of a path that there is.
    pub(crate) fn took(&self, page: &str, step: &'static str, took: Duration) {
        let help = "How long a page of the dashboard took: until its answers were there (asked), and to write it from them (drawn).";
        let labels = [("page", page.to_owned()), ("step", step.to_owned())];
        self.metrics.histogram("tokenwatt_ui_page_seconds", help, &labels).observe(took);
    }

    /// Whether the browser spoke TLS, to this port or to a proxy before it. A browser that lies about it only fools itself.
    pub(super) fn is_secure(&self, headers: &HeaderMap) -> bool {
        self.tls || headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https")
    }

    /// The id of the session that a browser brings along.
    pub(super) fn session<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let name = if self.is_secure(headers) { COOKIE_SECURE } else { COOKIE };
        cookies::find(headers, name).filter(|id| !id.is_empty())
    }

    /// The cookie that a browser keeps its session in; none ends it.
    pub(super) fn cookie(&self, headers: &HeaderMap, id: Option<&str>) -> String {
        let (name, secure) = if self.is_secure(headers) { (COOKIE_SECURE, "; Secure") } else { (COOKIE, "") };
        let lasts_s = id.map_or(0, |_| self.sessions.lifetime().as_secs());
        let id = id.unwrap_or_default();
        format!("{name}={id}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}")
    }

    /// Whose token this is, if it may read.
    pub(super) fn admit(&self, token: &str) -> Result<Arc<Principal>, Refused> {
        self.principals.admit(Role::Reader, &Token::typed(token))
    }

    /// Who asks. What a program shows decides, then a browser's session, then a certificate.
    ///
    /// # Errors
    /// `Unauthenticated` for nobody, `Denied` for one who may not read, or whose browser was sent by a page elsewhere.
    pub(super) fn who(&self, request: &Request) -> service::Result<Arc<Principal>> {
        let (headers, peer) = (request.headers(), peer(request));
        let session = self.session(headers);
        if Token::of(headers).is_some() || session.is_none() {
            let found = self.principals.identify(Role::Reader, headers, peer)?;
            return found.ok_or_else(|| Error::internal("nobody is named, and nobody has to be"));
        }
        let found = self.sessions.find(session.unwrap_or_default());
        match found {
            Ok(_) if !origin::only_asks(request.method()) && Origin::of(request) == Origin::Unsaid => {
                Err(origin::refusal())
            }
            Ok(principal) => Ok(principal),
            Err(ended) => match self.principals.identify(Role::Reader, headers, peer) {
                Ok(Some(principal)) => Ok(principal),
                _ => Err(ended),
            },
        }
    }
}

/// Opens one path of `routes`, which ask who calls by themselves once they are `guarded`, to browsers that have signed in: for files
/// that pages link to.
pub fn open_to_sessions(access: &Access, path: &'static str, routes: &Router, guarded: Router) -> Router {
    let state = (access.clone(), path, routes.clone());
    guarded.layer(axum::middleware::from_fn_with_state(state, by_session))
}

async fn by_session(
    State((access, path, routes)): State<(Access, &'static str, Router)>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_file = request.uri().path() == path && origin::only_asks(request.method());
    if access.is_open() || !is_file {
        return next.run(request).await;
    }
    match access.who(&request) {
        Ok(principal) if Origin::of(&request) != Origin::Elsewhere => {
            request.extensions_mut().insert(principal);
            let mut response = answer(routes, request).await;
            response.headers_mut().insert(header::CACHE_CONTROL, KEPT_NOWHERE);
            response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            response
        }
        // The guard would have a browser ask for a password, and keep it beyond every sign-out.
        Err(error) if wants_page(&request) || access.session(request.headers()).is_some() => {
            turned_away(&access, &request, error)
        }
        _ => next.run(request).await,
    }
}

impl Default for Access {
    fn default() -> Self {
        Self::open()
    }
}

/// The peer at the other end of the connection.
pub(super) fn peer(request: &Request) -> Option<&Peer> {
    request.extensions().get::<ConnectInfo<Peer>>().map(|info| &info.0)
}

/// Its address.
pub(super) fn address(request: &Request) -> Option<IpAddr> {
    Some(peer(request)?.addr()?.ip())
}

/// Answers nobody: what the login asks with.
pub(super) struct Nobody;

impl QueryApi for Nobody {
    fn sql(&self, _: SqlRequest) -> Answering<'_> {
        let denied = ApiError { kind: "denied".to_owned(), message: "nobody has signed in".to_owned(), hint: None };
        Box::pin(async move { Err(denied) })
    }
}

/// What stands before the pages where somebody has to be named.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) access: Access,
    /// What the login is made with.
    pub(super) app: App,
    /// What every principal's pages are made with, by its name.
    pub(super) apps: Arc<HashMap<String, App>>,
    /// The pages themselves, likewise.
    pages: Arc<HashMap<String, Router>>,
    /// Pages of links.
    pub(super) held: Arc<share::Held>,
}

impl Gate {
    /// Before the pages that `make` makes for each principal; `app` is for nobody.
    pub(super) fn new(access: &Access, app: App, make: impl Fn(&Arc<Principal>) -> App) -> Self {
        let readers = access.principals.iter().filter(|principal| principal.role == Role::Reader);
        let apps: HashMap<_, _> = readers.map(|reader| (reader.name.clone(), make(reader))).collect();
        let pages = apps.iter().map(|(name, app)| (name.clone(), super::pages(app.clone()))).collect();
        let held = Arc::new(share::Held::new(&app.options.clock));
        Self { access: access.clone(), app, apps: Arc::new(apps), pages: Arc::new(pages), held }
    }

    pub(super) fn router(self) -> Router {
        let bounded = axum::extract::DefaultBodyLimit::max(BODY_MAX);
        Router::new()
            .route("/login", get(login::page).post(login::enter).layer(bounded))
            .route("/logout", post(login::leave))
            .route("/shared/{link}", get(share::shown))
            .fallback(seen)
            .with_state(self)
            // Kept nowhere: browsers show no page again by the way back once the session's cookie is gone.
            .layer(SetResponseHeaderLayer::if_not_present(header::CACHE_CONTROL, KEPT_NOWHERE))
    }
}

/// All other addresses: the pages of whoever asks.
async fn seen(State(gate): State<Gate>, request: Request) -> Response {
    let pages = match gate.access.who(&request) {
        Ok(principal) => gate.pages.get(&principal.name).cloned().ok_or_else(|| Error::internal("find the pages")),
        Err(error) => return turned_away(&gate.access, &request, error),
    };
    match pages {
        Ok(pages) => answer(pages, request).await,
        Err(error) => error.into_response(),
    }
}

/// What these routes answer.
pub(super) async fn answer(pages: Router, request: Request) -> Response {
    match pages.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// A browser that wants a page is led to the login and back; others are told what is missing.
fn turned_away(access: &Access, request: &Request, error: Error) -> Response {
    if !wants_page(request) || error.kind() != Kind::Unauthenticated {
        let mut response = error.into_response();
        if response.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        return response;
    }
    let here = here(request.uri());
    let may_be_signed_in = origin::only_asks(request.method()) && Origin::of(request) == Origin::Elsewhere;
    if may_be_signed_in && access.session(request.headers()).is_none() {
        return again(&here);
    }
    let mut fields = Fields::default();
    if here != "/" {
        fields.set("next", here);
    }
    let mut response = StatusCode::SEE_OTHER.into_response();
    if access.session(request.headers()).is_some() {
        fields.set("why", "ended".to_owned());
        set(&mut response, header::SET_COOKIE, &access.cookie(request.headers(), None));
    }
    set(&mut response, header::LOCATION, &fields.link("/login"));
    response
}

/// A cookie that is strict about sites is not sent when somebody follows a link from elsewhere, such as a chat. One step from
/// here, and it is.
fn again(here: &str) -> Response {
    let here = viz::escape(here);
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Tokenwatt</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={here}\"></head><body><a href=\"{here}\">Open the page</a></body></html>"
    );
    Html(page).into_response()
}

/// Path and query, if they name a place on this server.
fn here(uri: &Uri) -> String {
    let here = uri.path_and_query().map_or("/", |both| both.as_str());
    (if is_local(here) { here } else { "/" }).to_owned()
}

/// Whether a browser asks for something to show.
fn wants_page(request: &Request) -> bool {
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// Sets a header; what no header can hold is left out.
pub(super) fn set(response: &mut Response, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().append(name, value);
    }
}
