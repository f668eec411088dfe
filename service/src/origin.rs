//! Which page a browser's request comes from.
//!
//! A browser sends along what it keeps for a server (cookies, a password it was told) whoever made it ask. So what changes
//! something, or makes the server work, is only done for pages of this very server.

use axum::Router;
use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};

use crate::error::{Error, Kind};

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A page of this server, or somebody who typed the address.
    Own,
    /// A page of another site, or of another name of this one.
    Elsewhere,
    /// It does not say: no browser, or one that came over plain HTTP by a link.
    Unsaid,
}

impl Origin {
    /// What a browser says of it: `Sec-Fetch-Site` (Fetch Metadata, W3C), or where that is not sent, which is over plain HTTP beyond
    /// this machine, `Origin` (RFC 6454) beside `Host`.
    #[must_use]
    pub fn of(request: &Request) -> Self {
        let headers = request.headers();
        if let Some(site) = headers.get("sec-fetch-site") {
            return if site == "same-origin" || site == "none" { Self::Own } else { Self::Elsewhere };
        }
        let Some(origin) = headers.get(ORIGIN) else { return Self::Unsaid };
        // HTTP/2 has the host in its address.
        let host = request.uri().authority().map(|host| host.as_str()).or_else(|| text(headers, HOST));
        let named = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, name)| name);
        match (named, host) {
            (Some(named), Some(host)) if named.eq_ignore_ascii_case(host) => Self::Own,
            _ => Self::Elsewhere,
        }
    }
}

fn text(headers: &HeaderMap, name: axum::http::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Whether a method only asks (RFC 9110, section 9.2.1).
#[must_use]
pub fn only_asks(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Whether somebody goes to the address, rather than a page that fetches it (Fetch Metadata, `Sec-Fetch-Mode`).
fn is_visit(request: &Request) -> bool {
    only_asks(request.method()) && request.headers().get("sec-fetch-mode").is_some_and(|mode| mode == "navigate")
}

/// Refuses whatever comes from a page elsewhere on all routes of `router`, but for a link that somebody follows.
pub fn refuse_elsewhere(router: Router) -> Router {
    router.layer(from_fn(async |request: Request, next: Next| {
        if Origin::of(&request) == Origin::Elsewhere && !is_visit(&request) {
            return refusal().into_response();
        }
        next.run(request).await as Response
    }))
}

/// What such a request is told.
#[must_use]
pub fn refusal() -> Error {
    Error::new(Kind::Denied, "this was sent by a page of another site")
        .with_hint("open the dashboard itself and do it there; programs send neither `origin` nor `sec-fetch-site`")
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::{get, post};
    use tower::ServiceExt;

    use super::*;

    fn request(method: &str, headers: &[(&str, &str)]) -> Request {
        let built = Request::builder().method(method).uri("/");
        headers.iter().fold(built, |built, (name, value)| built.header(*name, *value)).body(Body::empty()).unwrap()
    }

    #[test]
    fn a_request_comes_from_where_its_browser_says() {
        let own = [("host", "Tokens.example:8080"), ("origin", "http://tokens.example:8080")];
        for (headers, expected) in [
            (&[("sec-fetch-site", "same-origin")][..], Origin::Own),
            (&[("sec-fetch-site", "none")], Origin::Own),
            (&[("sec-fetch-site", "same-site")], Origin::Elsewhere),
            (&[("sec-fetch-site", "cross-site")], Origin::Elsewhere),
            (&own, Origin::Own),
            (&[("host", "tokens.example"), ("origin", "https://tokens.example.evil.example")], Origin::Elsewhere),
            (&[("host", "tokens.example:8080"), ("origin", "http://tokens.example:9090")], Origin::Elsewhere),
            (&[("host", "tokens.example"), ("origin", "null")], Origin::Elsewhere),
            (&[("host", "tokens.example")], Origin::Unsaid),
        ] {
            assert_eq!(Origin::of(&request("POST", headers)), expected, "{headers:?}");
        }
    }

    #[tokio::test]
    async fn of_what_comes_from_elsewhere_only_a_visit_passes() {
        let router = Router::new().route("/", get(|| async { "seen" }).merge(post(|| async { "done" })));
        let router = refuse_elsewhere(router);
        for (method, site, mode, status) in [
            ("GET", "cross-site", "navigate", 200),
            ("GET", "cross-site", "no-cors", 403),
            ("GET", "same-site", "cors", 403),
            ("GET", "same-origin", "cors", 200),
            ("POST", "cross-site", "navigate", 403),
            ("POST", "same-origin", "navigate", 200),
        ] {
            let headers = [("sec-fetch-site", site), ("sec-fetch-mode", mode)];
            let sent = router.clone().oneshot(request(method, &headers)).await.unwrap();
            assert_eq!(sent.status(), status, "{method} {site} {mode}");
        }
        assert_eq!(router.oneshot(request("POST", &[])).await.unwrap().status(), 200, "a program");
    }
}
