//! Links that show others one page as it was seen, read-only, for a while.

mod held;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use service::config::duration;
use service::principal::Grant;
use service::{Error, Kind};

pub(super) use held::Held;
use held::Made;

use super::access::{Gate, answer, set};
use super::{App, is_local};
use crate::frame::Theme;
use crate::pages;
use crate::urlstate::{Fields, Scope};

/// What a page that was shared says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    /// Who shared it.
    pub(crate) by: String,
    /// When the link ends, seconds since the epoch.
    pub(crate) until_s: i64,
}

/// First segments of the pages that are about the fleet rather than the reader.
const SHARED: [&str; 14] = [
    "", "slo", "latency", "fleet", "region", "node", "requests", "request", "cost", "power", "alerts", "logs",
    "settings", "sql",
];

/// The form, for browsers without scripts.
pub(super) async fn form(State(app): State<App>, request: Request) -> Response {
    let fields = Fields::parse(request.uri().query().unwrap_or_default());
    let page = fields.long_text("page").filter(|page| may_be_shared(page)).unwrap_or_else(|| "/".to_owned());
    let visit = app.visit("/share", request.uri().query().map(str::to_owned), request.headers());
    Html(pages::share::form(&app, &visit, &page)).into_response()
}

/// Makes a link. It holds the times that the page shows at this moment, so that it goes on showing those.
pub(super) async fn make(State(app): State<App>, headers: HeaderMap, body: String) -> Response {
    let fields = Fields::parse(&body);
    let visit = app.visit("/share", None, &headers);
    match made(&app, &fields, visit.now_us) {
        Ok((link, until_s)) => {
            app.access.count("share", "made");
            let url = format!("{}/shared/{link}", base(&headers));
            let page = fields.long_text("page").unwrap_or_default();
            tracing::info!(by = app.name(), page, until_s, "page shared");
            let mut response = Html(pages::share::made(&app, &visit, &url, until_s, &page)).into_response();
            set(&mut response, header::CACHE_CONTROL, "no-store");
            response
        }
        Err(error) => {
            app.access.count("share", "refused");
            let status = error.kind().http_status();
            (status, Html(pages::share::refused(&app, &visit, &error))).into_response()
        }
    }
}

fn made(app: &App, fields: &Fields, now_us: i64) -> Result<(String, i64), Error> {
    let (Some(shares), Some(reader)) = (&app.access.shares, &app.reader) else {
        return Err(Error::invalid("no links are made here").with_hint("the address of a page is its link"));
    };
    let page = fields.long_text("page").filter(|page| may_be_shared(page));
    let page = page.ok_or_else(|| Error::invalid("the field `page` holds the path of a page of this dashboard"))?;
    let lifetime = fields.text("for").and_then(|text| duration::parse(&text).ok()).filter(|time| !time.is_zero());
    let (link, grant) = shares.make(reader, &pinned(&page, now_us), lifetime.unwrap_or(Duration::from_secs(86_400)))?;
    Ok((link, grant.until_s))
}

/// A page of this dashboard that is about the fleet.
fn may_be_shared(page: &str) -> bool {
    let path = page.split(['?', '#']).next().unwrap_or_default();
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    is_local(page) && SHARED.contains(&first)
}

/// The page with absolute times in place of "the last hour".
fn pinned(page: &str, now_us: i64) -> String {
    let page = page.split('#').next().unwrap_or_default();
    let (path, query) = page.split_once('?').unwrap_or((page, ""));
    Fields::parse(query).within(Scope::parse(query).resolve(now_us)).link(path)
}

/// Scheme and host as the browser has them; nothing where it does not say.
fn base(headers: &HeaderMap) -> String {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    origin.filter(|origin| origin.contains("://")).unwrap_or_default().to_owned()
}

/// The page of a link, with the rights of whoever shared it, as it was made within the last minute.
pub(super) async fn shown(State(gate): State<Gate>, Path(link): Path<String>, request: Request) -> Response {
    let theme = Theme::from_cookies(request.headers());
    let shares = gate.access.shares.as_ref().ok_or_else(|| Error::new(Kind::NotFound, "no links are made here"));
    let found = shares.and_then(|shares| shares.read(&link)).and_then(|(grant, by)| {
        let app = gate.apps.get(&by.name).ok_or_else(|| Error::internal("find the pages"))?;
        Ok((app, grant))
    });
    let (app, grant) = match found {
        Ok(found) => found,
        Err(error) => {
            gate.access.count("share", "refused");
            let visit = gate.app.visit("/", None, request.headers());
            let status = error.kind().http_status();
            return (status, Html(pages::share::ended(&gate.app, &visit, &error))).into_response();
        }
    };
    gate.access.count("share", "opened");
    let key = (grant.by.clone(), grant.page.clone(), grant.until_s, theme);
    let made = gate.held.page(key, page_of(app, grant, theme)).await;
    let mut response = (made.status, Html(made.html.to_string())).into_response();
    set(&mut response, HeaderName::from_static("x-robots-tag"), "noindex");
    set(&mut response, header::CACHE_CONTROL, "private, no-store");
    response
}

/// Makes the page of a link. Of whoever opens it nothing is known here but the colours, for the next one sees the same.
async fn page_of(app: &App, grant: Grant, theme: Theme) -> Made {
    let shared = Shared { by: grant.by, until_s: grant.until_s };
    let app = App { shared: Some(shared), asker: app.asker.apart(), ..app.clone() };
    let asker = app.asker.clone();
    let inner = Request::get(&grant.page).header(header::COOKIE, theme.cookie()).body(Body::empty());
    let Ok(inner) = inner else {
        return Made { status: StatusCode::BAD_REQUEST, html: Arc::from(""), is_whole: false };
    };
    let response = answer(super::pages(app), inner).await;
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap_or_default();
    Made { status, html: String::from_utf8_lossy(&body).into(), is_whole: status.is_success() && asker.has_answered() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON_US: i64 = 1_795_953_600_000_000;

    #[test]
    fn a_link_holds_the_times_that_were_seen() {
        let hour = "from=2026-11-29T11:00:00Z&to=2026-11-29T12:00:00Z";
        assert_eq!(
            pinned("/latency?range=1h&region=eu-west-1&metric=itl", NOON_US),
            format!("/latency?{hour}&region=eu-west-1&metric=itl")
        );
        let absolute = "/requests?from=2026-11-29T11:00:00Z&to=2026-11-29T12:00:00Z&status=ok";
        assert_eq!(pinned(absolute, 0), absolute, "what stands still is left so");
        let about = "/slo/ttft?time=2026-11-29T11:30:00Z&time.window=1h&live=off";
        assert_eq!(pinned(about, 0), format!("/slo/ttft?{hour}"));
    }

    #[test]
    fn only_pages_of_the_fleet_are_shared() {
        for page in ["/", "/latency?x=1", "/node/a", "/sql?q=SELECT+1"] {
            assert!(may_be_shared(page), "{page}");
        }
        assert_eq!(pinned("/sql#a?q=x", NOON_US), pinned("/sql", NOON_US));
        for page in [
            "/go",
            "/api/v1/sql",
            "/metrics",
            "//evil.example",
            "https://evil.example",
            "/\\evil",
            "/login",
            "/share?page=/",
            "/shared/x",
            "x",
            "/logout",
        ] {
            assert!(!may_be_shared(page), "{page}");
        }
    }
}
