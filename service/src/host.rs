//! By which name a server is asked.
//!
//! Where nobody has to prove who they are, being reachable is the only proof. A page of another site gets past that when its own name
//! leads here (DNS rebinding): its browser then takes this server for that site and lets the page read what it answers. Such a page
//! cannot choose the name that its browser sends, so a server that knows its names tells it apart.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::header::HOST;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};

use crate::error::{Error, Kind};

/// Refuses whatever is asked of `router` under a name that somebody elsewhere may have made up: any but addresses, `localhost`, names
/// without a dot, which no public registry gives away, and `names`.
pub fn only_own_names(router: Router, names: &[String]) -> Router {
    let names: Arc<[String]> = names.into();
    router.layer(from_fn(move |request: Request, next: Next| {
        let names = Arc::clone(&names);
        async move {
            match stranger(&request, &names) {
                Some(name) => refusal(&name).into_response(),
                None => next.run(request).await as Response,
            }
        }
    }))
}

/// Whether a text can be a name that a server is asked by: letters, digits, hyphens and dots, no port.
#[must_use]
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
}

/// The name that a request asks by, unless it is one of the server's own. Browsers always say one.
fn stranger(request: &Request, names: &[String]) -> Option<String> {
    // HTTP/2 has it in its address.
    let shown = match request.uri().authority() {
        Some(authority) => authority.as_str(),
        None => match request.headers().get(HOST)?.to_str() {
            Ok(shown) => shown,
            Err(_) => return Some("?".to_owned()),
        },
    };
    let name = without_port(shown);
    (!is_own(name, names)).then(|| name.to_owned())
}

/// `name:port`, `address:port` or `[address]:port` without the port.
fn without_port(shown: &str) -> &str {
    match shown.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => shown.rsplit_once(':').map_or(shown, |(name, _)| name),
    }
}

fn is_own(name: &str, names: &[String]) -> bool {
    // A dot at the end makes it no other name.
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_address = name.parse::<IpAddr>().is_ok() || name.parse::<Ipv6Addr>().is_ok();
    let is_local = !name.contains('.') || name.to_ascii_lowercase().ends_with(".localhost");
    is_address || (is_local && is_name(name)) || names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn refusal(name: &str) -> Error {
    let name: String = name.chars().filter(|letter| !letter.is_control()).take(253).collect();
    Error::new(Kind::Denied, format!("this server was asked as `{name}`, which is none of its names")).with_hint(
        "open it by its address or as localhost. If this is its name, list it in `ui.names`, or name readers ([[principal]]), who then \
         prove who they are",
    )
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    fn asked(host: Option<&str>) -> Request {
        let built = Request::builder().uri("/");
        host.map_or(Request::builder().uri("/"), |host| built.header("host", host)).body(Body::empty()).unwrap()
    }

    #[tokio::test]
    async fn a_server_answers_to_its_own_names_alone() {
        let names = ["tokens.example.com".to_owned()];
        let router = only_own_names(Router::new().route("/", get(|| async { "numbers" })), &names);
        for own in [
            "127.0.0.1:8080",
            "127.0.0.1",
            "[::1]:8080",
            "10.1.2.3:8080",
            "localhost:8080",
            "LOCALHOST",
            "dash.localhost:1",
            "localhost.:8080",
            "query:8080",
            "tokens.example.com",
            "Tokens.Example.com:443",
        ] {
            assert_eq!(router.clone().oneshot(asked(Some(own))).await.unwrap().status(), 200, "{own}");
        }
        assert_eq!(router.clone().oneshot(asked(None)).await.unwrap().status(), 200, "a program of HTTP/1.0");
        for other in [
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "tokens.example.com.evil.example",
            "evil.example.",
            "xtokens.example.com",
            "127.0.0.1.nip.io:8080",
            "",
            ":8080",
            "evil.example:127.0.0.1",
        ] {
            let refused = router.clone().oneshot(asked(Some(other))).await.unwrap();
            assert_eq!(refused.status(), 403, "{other}");
            let told = to_bytes(refused.into_body(), 1 << 16).await.unwrap();
            let told = String::from_utf8_lossy(&told);
            assert!(told.contains("none of its names") && told.contains("ui.names"), "{told}");
        }
        // Over HTTP/2 the name is in the address, whatever a header says.
        let smuggled = Request::builder().uri("http://evil.example/").header("host", "localhost").body(Body::empty());
        assert_eq!(router.oneshot(smuggled.unwrap()).await.unwrap().status(), 403);
    }
}
