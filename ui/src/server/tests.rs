//! Pages as a browser gets them, over the router, from a query service with known answers.

mod canned;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use canned::{Fleet, NOON, SPAN, TRACE};
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;

/// Noon, always.
struct Noon;

impl service::clock::Clock for Noon {
    fn now_ns(&self) -> i64 {
        NOON * 1_000
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

fn app(fleet: Fleet) -> Router {
    let options = Options { otlp_http: Some("127.0.0.1:4318".into()), clock: Arc::new(Noon), ..Options::default() };
    router(Arc::new(fleet), options)
}

async fn send(fleet: Fleet, request: Request<Body>) -> Response<Body> {
    app(fleet).oneshot(request).await.unwrap()
}

async fn get_page(fleet: Fleet, path: &str) -> (StatusCode, String) {
    let response = send(fleet, Request::get(path).body(Body::empty()).unwrap()).await;
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

fn paths() -> [String; 5] {
    [
        "/".into(),
        "/requests".into(),
        format!("/request/{TRACE}/{SPAN}?t=1795953600000"),
        "/sql".into(),
        "/sql?q=SELECT+1".into(),
    ]
}

/// Every page has one heading, one main part, the rail, and tables that hydrate and reflow well.
#[tokio::test]
async fn every_page_has_its_landmarks_whatever_the_fleet_is_like() {
    for fleet in [Fleet::Busy, Fleet::New, Fleet::Down, Fleet::CostDown] {
        for path in paths() {
            let (status, html) = get_page(fleet, &path).await;
            assert_eq!(status, StatusCode::OK, "{path}");
            for (part, count) in [("<h1", 1), ("<main", 1), ("<nav", 1), ("<head>", 1), ("</html>", 1)] {
                assert_eq!(html.matches(part).count(), count, "{part} of {path}");
            }
            assert_eq!(html.matches("<table").count(), html.matches("<tbody").count(), "{path}");
            assert!(html.starts_with("<!doctype html><html lang=\"en\""), "{path}");
            assert!(
                !html.contains(" style=\"") && !html.contains("<script>"),
                "the policy forbids inline code: {path}"
            );
            assert!(!html.contains("NaN") && !html.contains("undefined"), "{path}");
        }
    }
}

#[tokio::test]
async fn the_overview_shows_every_number_with_its_statement() {
    let (_, html) = get_page(Fleet::Busy, "/").await;
    for part in [
        "TTFT p50",
        "TTFT p99",
        "Output tokens",
        "Requests",
        "Utilization",
        "Tokens per joule",
        "Cost per hour",
        "Per million output tokens",
    ] {
        assert!(html.contains(&format!("<h2>{part}")), "{part}");
    }
    assert!(html.contains("assumed"), "watts that are assumed say so");
    assert!(html.contains("no price for custom-npu.8x"), "an unpriced host is named");
    assert_eq!(html.matches("<svg class=\"chart\"").count(), 2);
    assert!(html.contains("/sql?q=SELECT+region"));
    assert!(html.contains("http-equiv=\"refresh\""), "without islands the page loads itself again");
    let (_, paused) = get_page(Fleet::Busy, "/?live=off").await;
    assert!(!paused.contains("http-equiv=\"refresh\""));
}

/// TTFT is that of one place, which is named, and who else measured is left out and counted.
#[tokio::test]
async fn the_overview_never_mixes_where_ttft_was_measured() {
    let (_, html) = get_page(Fleet::Busy, "/").await;
    assert!(html.contains("measured at the engine; 40 calls that only others measured are left out"), "{html}");
    for seconds in [77.0, 88.0] {
        let figure = viz::format::text(Some(seconds), viz::format::Unit::Seconds);
        assert!(!html.contains(&figure), "the gateway's {figure}");
    }
    let statement = crate::sql::traffic(&crate::urlstate::Scope::default(), (0, 1_000_000));
    for place in crate::sql::PLACES {
        assert!(statement.contains(&format!("WHEN measured_at = '{place}' THEN ttft_s END")), "{statement}");
    }
}

#[tokio::test]
async fn one_failing_panel_leaves_the_others() {
    let (_, html) = get_page(Fleet::CostDown, "/").await;
    assert!(html.contains("lake is &lt;away&gt;"), "what failed, escaped");
    assert!(html.contains("12:00:00 UTC"), "since when");
    assert!(html.contains("2\u{202f}841"), "the other numbers are there");
    assert!(html.contains('—'), "and the unknown ones are not zero");
}

#[tokio::test]
async fn a_new_lake_says_where_to_send_data() {
    let (_, html) = get_page(Fleet::New, "/").await;
    assert!(html.contains("Nothing has arrived yet."));
    assert!(html.contains("http://127.0.0.1:4318/v1/traces"));
}

#[tokio::test]
async fn a_request_page_tells_the_story_of_its_tokens() {
    let (_, html) = get_page(Fleet::Busy, &format!("/request/{TRACE}/{SPAN}?t=1795953600000")).await;
    assert!(html.contains("stall-prefill") && html.contains("stall-preempted"));
    assert!(html.contains("retrieval") && html.contains("POST /v1/chat/completions"));
    assert!(html.contains("96 tokens"));
    assert!(html.contains("$0.000412"));
    assert!(html.contains("gen_ai.request.temperature"));
}

#[tokio::test]
async fn the_list_pages_by_key_and_keeps_its_filters() {
    let (_, html) = get_page(Fleet::Busy, "/requests?status=ok&region=eu-west-1&min_ttft_ms=5").await;
    let next = html.split("rel=\"next\"").next().unwrap().len();
    assert!(next < html.len(), "fifty-one rows make a second page");
    assert!(html.contains("status=ok") && html.contains("region=eu-west-1") && html.contains("min_ttft_ms=5"));
    assert_eq!(html.matches("/request/4bf9").count(), 50);
}

#[tokio::test]
async fn a_refused_statement_shows_message_and_hint() {
    let (_, html) = get_page(Fleet::Down, "/sql?q=SELEC").await;
    assert!(html.contains("lake is &lt;away&gt;") && html.contains("wait a moment"));
    assert!(html.contains(">SELEC</textarea>"), "the statement stays");
    let (_, html) = get_page(Fleet::Busy, "/sql?q=%3C/textarea%3E%3Cscript%3E").await;
    assert!(!html.contains("<script>"), "and cannot leave its box");
    assert!(html.contains("requests version 412") && html.contains("served by raw rows, local"));
}

#[tokio::test]
async fn addresses_that_lead_nowhere_are_404() {
    for path in ["/nowhere", "/request/x/y", "/assets/none.css", "/request/%3Cscript%3E/1"] {
        assert_eq!(get_page(Fleet::Busy, path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn every_answer_carries_the_policy_and_files_are_cached_by_name() {
    let response = send(Fleet::Busy, Request::get("/").body(Body::empty()).unwrap()).await;
    let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe-inline"));
    let css = send(Fleet::Busy, Request::get(assets::style_url()).body(Body::empty()).unwrap()).await;
    assert_eq!(css.status(), StatusCode::OK);
    assert!(css.headers()[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
}

#[tokio::test]
async fn the_theme_is_kept_and_only_local_pages_are_gone_back_to() {
    let post = |body: &str| Request::post("/theme").body(Body::from(body.to_owned())).unwrap();
    let response = send(Fleet::Busy, post("theme=dark&back=%2Frequests%3Fregion%3Dx")).await;
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    assert_eq!(response.headers()[header::LOCATION], "/requests?region=x");
    assert!(response.headers()[header::SET_COOKIE].to_str().unwrap().starts_with("tokenwatt_theme=dark;"));
    for back in ["//evil.example", "https://evil.example", "/\\evil.example", "/%0d%0aset-cookie:x"] {
        let response = send(Fleet::Busy, post(&format!("theme=x&back={back}"))).await;
        assert_eq!(response.headers()[header::LOCATION], "/", "{back}");
    }
    let dark = Request::get("/").header(header::COOKIE, "a=b; tokenwatt_theme=dark").body(Body::empty()).unwrap();
    let bytes = send(Fleet::Busy, dark).await.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&bytes).contains("data-theme=\"dark\""));
}
