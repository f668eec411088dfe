//! Signing in and out.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use service::Error;
use service::principal::{Principal, Refusal};

use super::access::{Gate, address, set};
use super::is_local;
use crate::pages::login::{Form, Notice, page as written};
use crate::pages::share::sentence;
use crate::urlstate::Fields;

/// Longest token that is looked at; ours have 67 characters.
const TOKEN_MAX: usize = 512;

/// The form. Whoever is signed in is led on.
pub(super) async fn page(State(gate): State<Gate>, request: Request) -> Response {
    let fields = Fields::parse(request.uri().query().unwrap_or_default());
    let next = next(&fields);
    if gate.access.who(&request).is_ok() {
        return (StatusCode::SEE_OTHER, [(header::LOCATION, next)]).into_response();
    }
    let notice = match fields.text("why").as_deref() {
        Some("ended") => Some(Notice::told("Your session has ended. Sign in again to go on where you were.")),
        Some("left") => Some(Notice::told("You have signed out.")),
        _ => None,
    };
    let is_readable = is_readable(&gate, request.headers(), address(&request));
    shown(&gate, request.headers(), Form { next, notice, is_readable }, StatusCode::OK)
}

/// Whether what is typed travels so that others can read it.
fn is_readable(gate: &Gate, headers: &HeaderMap, from: Option<IpAddr>) -> bool {
    !gate.access.is_secure(headers) && from.is_some_and(|ip| !ip.is_loopback())
}

fn shown(gate: &Gate, headers: &HeaderMap, form: Form, status: StatusCode) -> Response {
    let mut fields = Fields::default();
    if form.next != "/" {
        fields.set("next", form.next.clone());
    }
    let visit = gate.app.visit("/login", Some(fields.link("").trim_start_matches('?').to_owned()), headers);
    let page = written(&gate.app, &visit, &form, gate.access.sessions.lifetime());
    let mut response = (status, Html(page)).into_response();
    set(&mut response, header::CACHE_CONTROL, "no-store");
    response
}

/// Exchanges a token for a session. The id is a new one, whatever the browser brought along.
pub(super) async fn enter(State(gate): State<Gate>, request: Request) -> Response {
    let from = address(&request);
    let headers = request.headers().clone();
    let body = Bytes::from_request(request, &()).await.unwrap_or_default();
    let fields = Fields::parse(std::str::from_utf8(&body).unwrap_or_default());
    let next = next(&fields);
    let token = fields.long_text("token").filter(|token| token.len() <= TOKEN_MAX).unwrap_or_default();
    let access = &gate.access;
    match access.admit(&token) {
        // Never refused for what others tried from the same address.
        Ok(principal) => entered(&gate, &headers, &principal, &next),
        Err(wrong) => {
            let (why, error) = match access.attempts.check(from) {
                Err(throttled) => (None, throttled),
                Ok(()) => (Some(wrong.why), wrong.error),
            };
            access.count("login", outcome(why));
            let address = from.map_or_else(String::new, |ip| ip.to_string());
            tracing::warn!(outcome = outcome(why), address, reason = error.message(), "login refused");
            if why.is_some() {
                access.attempts.failed(from);
            }
            let notice = notice(why, &error);
            let is_readable = is_readable(&gate, &headers, from);
            refused(&gate, &headers, Form { next, notice: Some(notice), is_readable }, &error)
        }
    }
}

fn entered(gate: &Gate, headers: &HeaderMap, principal: &Arc<Principal>, next: &str) -> Response {
    let access = &gate.access;
    if let Some(before) = access.session(headers) {
        access.sessions.end(before);
    }
    let id = match access.sessions.begin(principal) {
        Ok(id) => id,
        Err(error) => return error.into_response(),
    };
    access.count("login", "ok");
    tracing::info!(principal = principal.name, "login");
    let mut response = StatusCode::SEE_OTHER.into_response();
    set(&mut response, header::LOCATION, next);
    set(&mut response, header::SET_COOKIE, &access.cookie(headers, Some(id.expose())));
    set(&mut response, header::CACHE_CONTROL, "no-store");
    response
}

/// What an attempt came to, for counting: never the token, nor whose it is. None: there were too many before it.
fn outcome(why: Option<Refusal>) -> &'static str {
    match why {
        None => "throttled",
        Some(Refusal::Unknown) => "unknown",
        Some(Refusal::Expired) => "expired",
        Some(Refusal::Role) => "role",
    }
}

/// What is wrong, and what to do.
fn notice(why: Option<Refusal>, error: &Error) -> Notice {
    let said = sentence(error.message());
    match why {
        None => Notice::refused(said, None),
        Some(Refusal::Unknown) => {
            let words = "This token belongs to nobody here. Copy all of it: tw_ and 64 letters and digits.";
            Notice::refused(words.to_owned(), None)
        }
        Some(Refusal::Expired) => Notice::refused(said, error.hint()),
        Some(Refusal::Role) => Notice::refused(format!("{said} The dashboard is for readers."), None),
    }
}

/// The form again.
fn refused(gate: &Gate, headers: &HeaderMap, form: Form, error: &Error) -> Response {
    let mut response = shown(gate, headers, form, error.kind().http_status());
    if let Some(wait) = error.kind().retry_after() {
        set(&mut response, header::RETRY_AFTER, &wait.as_secs().max(1).to_string());
    }
    response
}

/// Ends the session, in this server and in the browser.
pub(super) async fn leave(State(gate): State<Gate>, headers: HeaderMap) -> Response {
    if let Some(id) = gate.access.session(&headers) {
        gate.access.sessions.end(id);
    }
    let mut response = StatusCode::SEE_OTHER.into_response();
    set(&mut response, header::LOCATION, "/login?why=left");
    set(&mut response, header::SET_COOKIE, &gate.access.cookie(&headers, None));
    // Pages that were seen are not shown again by the way back.
    set(&mut response, header::HeaderName::from_static("clear-site-data"), "\"cache\"");
    response
}

/// Where to go after the login: a page of this server, and not the login again.
fn next(fields: &Fields) -> String {
    let wanted = fields.long_text("next").filter(|next| is_local(next));
    let is_elsewhere = |next: &String| !["/login", "/logout"].iter().any(|own| next.starts_with(own));
    wanted.filter(is_elsewhere).unwrap_or_else(|| "/".to_owned())
}
