//! Pages as a browser gets them, over the router, from a query service with known answers.

mod access;
mod canned;
mod hostile;
mod late;

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

/// Every page in each of its forms.
fn paths() -> Vec<String> {
    let plain = [
        "/",
        "/slo",
        "/slo/ttft-eu",
        "/slo/availability",
        "/slo/no-such-objective",
        "/latency",
        "/latency?metric=itl&by=region",
        "/latency?metric=e2e&at=gateway&by=tenant&range=24h",
        "/fleet",
        "/region/eu-west-1",
        "/node/node-a",
        "/node/%3Cscript%3E",
        "/requests",
        "/cost",
        "/cost?by=tenant&idle=share",
        "/cost?by=hardware&idle=hide",
        "/power",
        "/alerts",
        "/logs",
        "/logs?words=memory&severity=warn",
        "/settings",
        "/go",
        "/go?q=node",
        "/go?q=4bf92f3577b34da6a3ce929d0e0e4736",
        "/sql",
        "/sql?q=SELECT+1",
    ];
    let request = format!("/request/{TRACE}/{SPAN}?t=1795953600000");
    plain.into_iter().map(str::to_owned).chain([request]).collect()
}

/// A page without its frame, which names filters, places to go to, and the address.
fn main(html: &str) -> &str {
    html.split_once("<main").and_then(|(_, rest)| rest.split("</main>").next()).unwrap_or_default()
}

/// Every page has one heading, one main part, the rail, and tables that hydrate and reflow well.
#[tokio::test]
async fn every_page_has_its_landmarks_whatever_the_fleet_is_like() {
    for fleet in [Fleet::Busy, Fleet::New, Fleet::Down, Fleet::CostDown] {
        for path in paths() {
            let (status, html) = get_page(fleet, &path).await;
            assert_eq!(status, StatusCode::OK, "{path}");
            for (part, count) in [("<h1", 1), ("<main", 1), ("class=\"rail\"", 1), ("<head>", 1), ("</html>", 1)] {
                assert_eq!(html.matches(part).count(), count, "{part} of {path}");
            }
            assert_eq!(html.matches("<table").count(), html.matches("<tbody").count(), "{path}");
            assert!(html.starts_with("<!doctype html><html lang=\"en\""), "{path}");
            assert!(
                !html.contains(" style=\"") && !html.contains("<script>"),
                "the policy forbids inline code: {path}"
            );
            assert!(!html.contains("NaN") && !html.contains("undefined") && !html.contains("inf%"), "{path}");
            assert!(
                !html.contains("<b>node</b>") && !html.contains("href=\"javascript:"),
                "{path} takes telemetry for markup"
            );
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
    let unknown = |html: &str| html.matches('—').count();
    let (_, busy) = get_page(Fleet::Busy, "/").await;
    assert!(unknown(&html) > unknown(&busy), "and the unknown ones are not zero");
}

/// A node that tells nothing any more has not done nothing: it is named, with since when, and no figure of it is zero.
#[tokio::test]
async fn what_is_silent_is_not_zero() {
    let (_, html) = get_page(Fleet::Busy, "/fleet").await;
    let row = html.split("<tr>").skip(1).find(|row| row.contains("node-far")).unwrap();
    assert!(row.contains("silent since 11:54:00 UTC") && row.contains('—') && !row.contains(">0"), "{row}");
    assert!(html.contains("All its nodes are silent since 11:54:00 UTC."), "its region has no other");
    assert!(html.contains("silent since 11:52:00 UTC"), "node-gone, whose region goes on");
    let (_, html) = get_page(Fleet::Busy, "/").await;
    let row = html.split("<tr>").skip(1).find(|row| row.contains("sa-east-1")).unwrap();
    assert!(row.contains("silent since 11:54:00 UTC") && !row.contains(">0"), "{row}");
    let row = html.split("<tr>").skip(1).find(|row| row.contains("/region/eu-west-1")).unwrap();
    assert!(!row.contains("silent"), "one of its nodes tells something");
}

/// What burns, what is different about it, who suffered: each number links to the next page of the way.
#[tokio::test]
async fn three_clicks_lead_from_an_objective_to_the_tokens_of_a_call() {
    let (_, list) = get_page(Fleet::Busy, "/slo?range=1h").await;
    assert!(list.contains("href=\"/slo/ttft-eu?range=1h\""), "the objective, in the same time");
    let (_, detail) = get_page(Fleet::Busy, "/slo/ttft-eu?range=1h").await;
    assert!(detail.contains("have a TTFT of at most 1.00"), "what it demands");
    assert!(detail.contains("href=\"/node/node-a?range=1h\""), "the node that is different");
    let (_, node) = get_page(Fleet::Busy, "/node/node-a?range=1h").await;
    assert!(node.contains(&format!("href=\"/request/{TRACE}/{SPAN}?range=1h&amp;t=")), "the call that waited");
    assert!(node.contains("this node") && node.contains("peers"));
}

#[tokio::test]
async fn a_page_says_what_its_figures_are_not_narrowed_to() {
    let (_, html) = get_page(Fleet::Busy, "/cost?tenant=acme&region=eu-west-1").await;
    assert!(html.contains("not narrowed to tenant acme"), "{html}");
    assert!(html.contains("name=\"tenant\" value=\"acme\""), "the form keeps it for the next page");
    let (_, html) = get_page(Fleet::Busy, "/requests?tenant=acme").await;
    assert!(!html.contains("not narrowed to"));
}

/// A statement as it is copied.
fn uncoloured(markup: &str) -> String {
    let parts = markup.split('<').enumerate();
    let text: String =
        parts.map(|(index, part)| if index == 0 { part } else { part.split_once('>').unwrap().1 }).collect();
    text.replace("&#39;", "'").replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// Statements are absolute: what is copied answers tomorrow what the page shows today.
#[tokio::test]
async fn every_statement_on_a_page_names_its_time_and_its_version() {
    for path in ["/latency", "/cost", "/power", "/logs", "/slo/ttft-eu"] {
        let (_, html) = get_page(Fleet::Busy, path).await;
        let statements: Vec<String> =
            html.split("<pre>").skip(1).filter_map(|rest| rest.split("</pre>").next()).map(uncoloured).collect();
        assert!(!statements.is_empty(), "{path}");
        assert!(html.contains("<i class=k>SELECT</i>"), "{path}: statements are in colours");
        // How budgets stand and what this month and the last one cost is asked of the present alone.
        let is_of_now =
            |statement: &str| ["FROM budget_status", "FROM cost_per_month"].iter().any(|of| statement.contains(of));
        for statement in statements.into_iter().filter(|statement| !is_of_now(statement)) {
            assert!(statement.starts_with("-- answered from versions: requests 412"), "{path}: {statement}");
            assert!(statement.contains("TIMESTAMP '2026-1"), "{path}: {statement}");
            assert!(!statement.contains("now()"), "{path}: {statement}");
        }
    }
}

/// With idle time shared out the tenants pay for all of it, and nobody is left.
#[tokio::test]
async fn the_policy_for_idle_time_is_named_wherever_cost_is() {
    for (idle, words) in [("show", "shown apart"), ("share", "given to what calls used"), ("hide", "left out")] {
        let (_, html) = get_page(Fleet::Busy, &format!("/cost?by=tenant&idle={idle}")).await;
        assert!(html.contains(&format!("Cost by tenant, padding, idle, not attributed and shared {words}")), "{idle}");
        assert_eq!(html.contains("nobody: padding, idle, not attributed, shared"), idle == "show", "{idle}");
    }
}

#[tokio::test]
async fn budgets_and_grams_stand_where_they_are_known() {
    let (_, html) = get_page(Fleet::Busy, "/cost").await;
    assert!(html.contains("id=\"budgets\"") && html.contains("allocation_value of 0"));
    let (_, html) = get_page(Fleet::New, "/cost").await;
    assert!(!html.contains("id=\"budgets\""), "without budgets there is no panel of them");
    let (_, html) = get_page(Fleet::Busy, "/power").await;
    assert!(html.contains("id=\"carbon\"") && html.contains("grid_method of 0"));
}

#[tokio::test]
async fn what_is_missing_from_the_numbers_is_said_once_and_above_them() {
    for path in ["/", "/latency", "/fleet", "/cost", "/slo/ttft-eu", "/node/node-a"] {
        let (_, html) = get_page(Fleet::Partial, path).await;
        assert_eq!(html.matches("lake dublin did not answer: eu-west-1 is missing").count(), 1, "{path}");
        let (before, after) = html.split_once("lake dublin").unwrap();
        assert!(!before.contains("<main") && after.contains("<main"), "{path}");
        let shown = main(after);
        assert!(shown.contains("</td>") && !shown.contains("No answer"), "what answered is shown: {path}");
        assert!(after.contains("Not all rows are shown"), "an answer that was cut says so: {path}");
    }
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
    // The answer began 190 ms before the engine's call, whose first token took 182 ms more; the search ran 156 ms of that.
    assert!(html.contains("of the wait") && html.contains("41.9%"), "what the user waited for");
    assert!(html.contains("KV cache used, up to"), "how the engine stood");
}

#[tokio::test]
async fn the_list_pages_by_key_and_keeps_its_filters() {
    let (_, html) = get_page(Fleet::Busy, "/requests?status=ok&region=eu-west-1&min_ttft_ms=5").await;
    let next = html.split_once("rel=\"next\" href=\"").expect("fifty-one rows make a second page").1;
    let next = next.split('"').next().unwrap();
    for field in ["status=ok", "region=eu-west-1", "min_ttft_ms=5", "after="] {
        assert!(next.contains(field), "{field}: {next}");
    }
    assert_eq!(html.matches("/request/4bf9").count(), 50);
}

#[tokio::test]
async fn a_refused_statement_shows_message_and_hint() {
    let (_, html) = get_page(Fleet::Down, "/sql?q=SELEC").await;
    assert!(html.contains("lake is &lt;away&gt;") && html.contains("wait a moment"));
    assert!(html.contains(">SELEC</textarea>"), "the statement stays");
    assert!(!html.contains("data-line"), "what is not about the text points nowhere in it");
    let (_, html) = get_page(Fleet::Busy, "/sql?q=SELECT+%3Cregion%3E%0D%0AFROM+calls%0D%0AWHERE+REFUSE").await;
    assert!(html.contains(">line 3, column 7</a>") && html.contains("data-width=\"6\""), "{html}");
    assert!(html.contains("WHERE <u>REFUSE</u>") && html.contains("data-refused=\"invalid\""), "{html}");
    assert!(html.contains(">SELECT &lt;region&gt;\nFROM calls\nWHERE REFUSE</textarea>"), "{html}");
    let (_, html) = get_page(Fleet::Busy, "/sql?q=%3C/textarea%3E%3Cscript%3E").await;
    assert!(!html.contains("<script>"), "and cannot leave its box");
    assert!(html.contains("requests version 412") && html.contains("served by raw rows, local"));
}

/// The page is a text area and a form; what scripts put in its place is marked, and what the browser keeps has its empty frame.
#[tokio::test]
async fn the_sql_page_is_a_form_that_an_editor_may_take_over() {
    let (_, html) = get_page(Fleet::Busy, "/sql?q=SELECT+1").await;
    assert!(
        html.contains("rows=\"7\"") && html.contains("data-editor=\"everybody\"") && html.contains("name=\"q\""),
        "{html}"
    );
    assert!(html.contains("<dialog id=\"kept\"") && html.contains("data-key=\"h\"") && html.contains("data-key=\"e\""));
    assert!(html.contains("data-rows=\"51\"") && html.contains("data-ms=\"12.5\"") && !html.contains("data-cut"));
    let (_, long) = get_page(Fleet::Busy, &format!("/sql?q=SELECT+1{}", "%0A--".repeat(40))).await;
    assert!(long.contains("rows=\"18\""), "a long statement has more room, within bounds");
    assert!(get_page(Fleet::Partial, "/sql?q=SELECT+1").await.1.contains("data-cut"));
    let (_, other) = get_page(Fleet::Busy, "/latency").await;
    assert!(!other.contains("data-editor") && !other.contains("id=\"kept\""), "no other page has an editor");
}

#[tokio::test]
async fn an_answer_over_time_is_drawn_and_any_answer_is_a_file() {
    let sql = "/sql?q=SELECT+date_bin(INTERVAL+'60+seconds',+time)+AS+bucket,+region,+sum(x)+AS+x%0AFROM+calls";
    let (_, html) = get_page(Fleet::Busy, sql).await;
    assert!(html.contains("<svg class=\"chart\"") && html.contains(">Plan</a>"));
    let (_, html) = get_page(Fleet::Busy, "/sql?q=SELECT+1").await;
    assert!(!html.contains("<svg class=\"chart\""), "a list of requests has no single number over time");
    let (status, csv) = get_page(Fleet::Busy, "/sql.csv?q=SELECT+1").await;
    assert_eq!((status, csv.lines().count()), (StatusCode::OK, 52), "a heading and every row");
    assert_eq!(get_page(Fleet::Partial, "/sql.csv?q=SELECT+1").await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(get_page(Fleet::Busy, "/sql.csv").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(get_page(Fleet::Down, "/sql.csv?q=SELECT+1").await.0, StatusCode::SERVICE_UNAVAILABLE);
}

/// Rows are offered as Parquet where the query service answers on the same port, and nowhere else.
#[tokio::test]
async fn parquet_is_linked_where_somebody_writes_it() {
    for has_api in [true, false] {
        let options = Options { clock: Arc::new(Noon), has_api, ..Options::default() };
        for path in ["/latency", "/sql?q=SELECT+1"] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = router(Arc::new(Fleet::Busy), options.clone()).oneshot(request).await.unwrap();
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            let html = String::from_utf8_lossy(&bytes);
            assert_eq!(html.contains("/api/v1/sql?q="), has_api, "{path}");
            assert_eq!(html.contains("format=parquet"), has_api, "{path}");
        }
    }
}

/// Each chart of each page is an image of its own, the very drawing of the page.
#[tokio::test]
async fn every_chart_is_an_image_by_itself() {
    let mut seen = 0;
    for path in [
        "/",
        "/slo/ttft-eu",
        "/latency?metric=e2e",
        "/region/eu-west-1",
        "/node/node-a",
        "/requests",
        "/cost",
        "/power",
        "/logs",
    ] {
        let (_, html) = get_page(Fleet::Busy, path).await;
        let links: Vec<String> = html
            .split("href=\"")
            .skip(1)
            .filter(|rest| rest.starts_with("/chart.svg?"))
            .filter_map(|rest| Some(rest.split('"').next()?.replace("&amp;", "&")))
            .collect();
        assert_eq!(links.len(), html.matches("<svg class=\"chart\"").count(), "{path}");
        let mut titles: Vec<Option<String>> =
            links.iter().map(|link| Fields::parse(link.split_once('?').unwrap().1).text("chart")).collect();
        titles.sort_unstable();
        titles.dedup();
        assert_eq!(titles.len(), links.len(), "two charts of {path} have one title");
        assert_eq!(html.matches("data-png").count(), links.len(), "each is a picture too: {path}");
        for link in links {
            let (status, svg) = get_page(Fleet::Busy, &link).await;
            assert_eq!(status, StatusCode::OK, "{link}: {svg}");
            assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{svg}");
            assert!(svg.contains(" UTC · buckets of ") && svg.contains("Tokenwatt · /"), "{svg}");
            assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count(), "{link}");
            assert!(!svg.contains("data-hover") && !svg.contains("var(--"), "{link}");
            seen += 1;
        }
    }
    assert!(seen > 12, "only {seen} charts");
    let (dark, light) = (
        "/chart.svg?page=/latency&chart=TTFT+percentiles&theme=dark",
        "/chart.svg?page=/latency&chart=TTFT+percentiles",
    );
    assert_ne!(get_page(Fleet::Busy, dark).await.1, get_page(Fleet::Busy, light).await.1);
    let (status, words) = get_page(Fleet::Busy, "/chart.svg?page=/latency&chart=Nothing").await;
    assert!(status == StatusCode::NOT_FOUND && words.contains("TTFT percentiles"), "what there is: {words}");
    for (path, expected) in [
        ("/chart.svg", StatusCode::BAD_REQUEST),
        ("/chart.svg?page=//evil.example/&chart=x", StatusCode::BAD_REQUEST),
        ("/chart.svg?page=/settings&chart=x", StatusCode::NOT_FOUND),
    ] {
        assert_eq!(get_page(Fleet::Busy, path).await.0, expected, "{path}");
    }
}

/// A page in another zone says its times there, and its links keep the zone.
#[tokio::test]
async fn a_page_is_told_in_the_zone_that_its_url_names() {
    let (_, html) = get_page(Fleet::Busy, "/requests?tz=Asia/Kolkata").await;
    assert!(html.contains("started (Asia/Kolkata)") && html.contains("11-29 17:30:00.000"), "noon in UTC");
    assert!(html.contains("href=\"/cost?tz=Asia/Kolkata\"") && html.contains("all times Asia/Kolkata"));
    assert!(html.contains("data to 17:29:58 IST"), "how fresh it is");
    let (_, chart) = get_page(Fleet::Busy, "/latency?tz=Asia/Kolkata").await;
    assert!(chart.contains("&quot;name&quot;:&quot;IST&quot;") && chart.contains(">17:20</text>"), "axis and pointer");
    assert!(uncoloured(&chart).contains("TIMESTAMP '2026-11-29T11:45:00Z'"), "statements stay in UTC");
    let (_, plain) = get_page(Fleet::Busy, "/requests?tz=Nowhere").await;
    assert!(plain.contains("started (UTC)"));
}

/// The calls of a box over the heat map are compared with all others, and the box stays on the map.
#[tokio::test]
async fn a_box_over_the_heat_map_is_compared_with_the_rest() {
    let path = "/latency?box_from=1795953300000&box_to=1795953500000&box_low=0.4&box_high=2";
    let (_, html) = get_page(Fleet::Busy, path).await;
    assert!(
        html.contains(
            "What is different about the calls between 354\u{202f}ms and 2.00\u{202f}s, 11:55:00 UTC to 11:58:20 UTC"
        ),
        "{html}"
    );
    assert!(html.contains("<rect class=\"chosen\"") && html.contains("of those in the box"));
    assert!(html.contains("Back to the slowest twentieth"));
    let (_, long) = get_page(Fleet::Busy, &format!("{path}&range=7d")).await;
    assert!(long.contains("Calls are told apart in shorter ranges"));
}

/// So they are on an objective, where the calls that were not good are compared without a box.
#[tokio::test]
async fn a_box_over_an_objective_is_compared_with_the_rest() {
    let (_, plain) = get_page(Fleet::Busy, "/slo/ttft-eu").await;
    assert!(plain.contains("of those not good") && plain.contains("Calls that were not good"), "{plain}");
    assert!(!plain.contains("class=\"chosen\"") && plain.contains("name=\"box_low\""), "bounds can be typed");
    let boxed = "box_from=1795953300000&box_to=1795953500000&box_low=0.4&box_high=2";
    let (_, html) = get_page(Fleet::Busy, &format!("/slo/ttft-eu?{boxed}")).await;
    let words =
        "What is different about the calls between 354\u{202f}ms and 2.00\u{202f}s, 11:55:00 UTC to 11:58:20 UTC";
    assert!(html.contains(words), "{html}");
    assert!(html.contains("<rect class=\"chosen\"") && html.contains("of those in the box"));
    assert!(
        html.contains("Calls in the box") && html.contains("ttft_s &lt;= <i class=n>2.0</i>)"),
        "the list is of the box"
    );
    assert!(html.contains("Back to the calls that were not good"));
    assert!(html.contains("type=\"hidden\" name=\"box_low\" value=\"0.4\""), "narrowing the page keeps the box");
}

#[tokio::test]
async fn statements_of_other_sites_are_refused() {
    let from = |site: &str, method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).header("sec-fetch-site", site);
        request.body(Body::from("q=SELECT+1")).unwrap()
    };
    for (method, path) in
        [("POST", "/sql"), ("GET", "/sql.csv?q=SELECT+1"), ("GET", "/chart.svg?page=/latency&chart=TTFT+percentiles")]
    {
        for (site, status) in
            [("cross-site", StatusCode::FORBIDDEN), ("same-origin", StatusCode::OK), ("none", StatusCode::OK)]
        {
            assert_eq!(
                send(Fleet::Busy, from(site, method, path)).await.status(),
                status,
                "{method} {path} from {site}"
            );
        }
    }
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
    // An image opened by itself keeps its colours, and that is all it may do.
    let chart = Request::get("/chart.svg?page=/latency&chart=TTFT+percentiles").body(Body::empty()).unwrap();
    let chart = send(Fleet::Busy, chart).await;
    let policy = chart.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'unsafe-inline';") && policy.ends_with("sandbox"),
        "{policy}"
    );
    assert_eq!(chart.headers().get_all(header::CONTENT_SECURITY_POLICY).iter().count(), 1);
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
