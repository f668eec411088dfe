//! Who gets in, what each one sees, and what nobody gets: over the routes, as a browser and as somebody who means harm.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use axum::http::request::Builder;
use service::Deps;
use service::principal::{Principal, Principals, Role, Shares, new_token};
use telemetry::contract::{Answering, ApiError, SqlRequest};

use super::*;

/// Says who asked, in place of an answer, and counts.
struct Named(String, Arc<AtomicUsize>);

impl QueryApi for Named {
    fn sql(&self, _: SqlRequest) -> Answering<'_> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let message = format!("asked by {}", self.0);
        Box::pin(async move { Err(ApiError { kind: "denied".into(), message, hint: None }) })
    }
}

/// A clock that a test sets, seconds since noon.
struct Hand(AtomicI64);

impl service::clock::Clock for Hand {
    fn now_ns(&self) -> i64 {
        NOON * 1_000 + self.0.load(Ordering::SeqCst) * 1_000_000_000
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst).unsigned_abs())
    }
}

/// A dashboard with readers, and their tokens.
pub(super) struct House {
    router: Router,
    access: Access,
    deps: Deps,
    hand: Arc<Hand>,
    state: tempfile::TempDir,
    readers: Vec<Principal>,
    /// Statements that were asked.
    asked: Arc<AtomicUsize>,
    /// Of `ann`, who sees everything.
    ann: String,
    /// Of `acme`, who sees one tenant.
    acme: String,
    /// Of `agent`, who sends telemetry.
    agent: String,
    /// Of `temp`, whose token ends an hour after noon.
    temp: String,
}

fn named(name: &str, role: Role, tenants: &[&str]) -> (Principal, String) {
    let (token, hash) = new_token().unwrap();
    let principal = Principal {
        name: name.to_owned(),
        role,
        token_sha256: Some(hash),
        scram: None,
        expires: None,
        certificate: None,
        tenants: tenants.iter().map(|tenant| (*tenant).to_owned()).collect(),
        regions: vec!["*".to_owned()],
        infrastructure: None,
        items_per_s: None,
        bytes_per_s: None,
        burst_s: 10,
    };
    (principal, token.expose().to_owned())
}

impl House {
    fn new() -> Self {
        let (ann, ann_token) = named("ann", Role::Reader, &["*"]);
        let (acme, acme_token) = named("acme", Role::Reader, &["acme", "acme-dev"]);
        let (agent, agent_token) = named("agent", Role::Writer, &["*"]);
        let (temp, temp_token) = named("temp", Role::Reader, &["*"]);
        let expires = "2026-11-29T13:00:00Z".parse().ok();
        let readers = vec![ann, acme, agent, Principal { expires, ..temp }];
        let state = tempfile::tempdir().unwrap();
        let hand = Arc::new(Hand(AtomicI64::new(0)));
        let asked = Arc::default();
        let (router, access, deps) = open(&readers, &hand, state.path(), &asked);
        Self {
            router,
            access,
            deps,
            hand,
            state,
            readers,
            asked,
            ann: ann_token,
            acme: acme_token,
            agent: agent_token,
            temp: temp_token,
        }
    }

    /// The same after a restart with other settings.
    fn restarted(&self, readers: &[Principal]) -> Router {
        open(readers, &self.hand, self.state.path(), &self.asked).0
    }

    async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn enter(&self, token: &str, more: &[(&str, &str)]) -> Response<Body> {
        self.send(with(post("/login"), more).body(Body::from(format!("token={token}&next=%2Fcost"))).unwrap()).await
    }

    /// A session: what a browser sends from then on.
    async fn signed_in(&self, token: &str) -> String {
        let response = self.enter(token, &[]).await;
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
        cookie(&response)
    }

    async fn see(&self, path: &str, cookie: &str) -> (StatusCode, String) {
        read(self.send(browse(path).header("cookie", cookie).body(Body::empty()).unwrap()).await).await
    }

    fn counted(&self, line: &str) -> bool {
        self.deps.metrics.render().lines().any(|own| own == line)
    }
}

fn open(
    readers: &[Principal],
    hand: &Arc<Hand>,
    state: &std::path::Path,
    asked: &Arc<AtomicUsize>,
) -> (Router, Access, Deps) {
    let mut deps = Deps::new(Arc::clone(hand) as SharedClock);
    deps.principals = Principals::new(readers, &deps.clock);
    let month = Duration::from_secs(30 * 86_400);
    let shares = Shares::open(&deps.principals, &deps.clock, state, month).unwrap();
    let access = Access::new(&deps, Duration::from_secs(12 * 3_600), Some(shares));
    let asked = Arc::clone(asked);
    let answers: Answers = Arc::new(move |reader| {
        let name = reader.map_or_else(|| "nobody".to_owned(), |reader| reader.name.clone());
        Arc::new(Named(name, Arc::clone(&asked)))
    });
    let options = Options { clock: deps.clock.clone(), ..Options::default() };
    (guarded(&answers, &access, options), access, deps)
}

fn with(builder: Builder, more: &[(&str, &str)]) -> Builder {
    more.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value))
}

/// A form of the dashboard itself.
fn post(path: &str) -> Builder {
    Request::post(path).header("sec-fetch-site", "same-origin").header("accept", "text/html,*/*")
}

/// A browser that goes to a page.
fn browse(path: &str) -> Builder {
    Request::get(path).header("accept", "text/html,*/*").header("sec-fetch-site", "none")
}

async fn read(response: Response<Body>) -> (StatusCode, String) {
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

fn header_of<'r>(response: &'r Response<Body>, name: &str) -> &'r str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Name and value of the cookie that a response sets.
fn cookie(response: &Response<Body>) -> String {
    header_of(response, "set-cookie").split(';').next().unwrap_or_default().to_owned()
}

/// Every path that answers anything.
fn everything() -> Vec<String> {
    let more = ["/sql.csv?q=SELECT+1", "/share?page=/cost", "/nowhere", "/request/x/y"];
    paths().into_iter().chain(more.map(str::to_owned)).collect()
}

#[tokio::test]
async fn nobody_sees_anything_but_the_login() {
    let house = House::new();
    for path in everything() {
        let response = house.send(browse(&path).body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::SEE_OTHER, "{path}");
        let place = header_of(&response, "location").to_owned();
        assert!(
            place == "/login" && path == "/"
                || place.starts_with("/login?next=%2F")
                || place.starts_with("/login?next=/"),
            "{path}: {place}"
        );
        let (status, said) = read(house.send(Request::get(&path).body(Body::empty()).unwrap()).await).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "a program is told: {path}");
        assert!(said.contains("unauthenticated") && !said.contains("asked by"), "{said}");
    }
    let (status, html) = read(house.send(browse("/login?next=%2Fcost").body(Body::empty()).unwrap()).await).await;
    assert_eq!(status, StatusCode::OK);
    for part in ["<h1>Sign in</h1>", "type=\"password\"", "name=\"next\" value=\"/cost\"", "for 12 hours at most"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(!html.contains("asked by") && !html.contains("class=\"rail\"") && !html.contains("acme"), "{html}");
    let style = house.send(Request::get(assets::style_url()).body(Body::empty()).unwrap()).await;
    assert_eq!(style.status(), StatusCode::OK, "the login has its colours");
}

#[tokio::test]
async fn a_token_is_exchanged_for_a_session_that_scripts_and_other_sites_do_not_get() {
    let house = House::new();
    let response = house.enter(&house.ann, &[]).await;
    assert_eq!((response.status(), header_of(&response, "location")), (StatusCode::SEE_OTHER, "/cost"));
    let set = header_of(&response, "set-cookie");
    assert!(set.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"), "{set}");
    let session = cookie(&response);
    assert!(session.starts_with("tokenwatt_session=") && session.len() == 18 + 64, "{session}");
    assert!(!set.contains(&house.ann), "it is not the token");
    let (status, html) = house.see("/cost", &session).await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        html.contains("asked by ann") && html.contains("signed in as ann") && html.contains(">Sign out<"),
        "{html}"
    );
    assert!(!html.contains("chip bounds"), "she sees everything");
    let (_, html) = house.see("/cost", &house.signed_in(&house.acme).await).await;
    assert!(html.contains("only acme, acme-dev") && html.contains("asked by acme"), "{html}");
    assert!(
        !html.contains("no data yet"),
        "how fresh the whole is, is not told, which does not mean that there is nothing"
    );
    // Over TLS, here or at a proxy, the cookie is one that no other name of the site can set.
    let secure = house.enter(&house.ann, &[("x-forwarded-proto", "https")]).await;
    let set = header_of(&secure, "set-cookie");
    assert!(set.starts_with("__Host-tokenwatt_session=") && set.ends_with("; Secure"), "{set}");
    let plain = browse("/").header("x-forwarded-proto", "https").header("cookie", session).body(Body::empty()).unwrap();
    assert_eq!(house.send(plain).await.status(), StatusCode::SEE_OTHER, "one that came without TLS is none there");
    assert!(house.counted("tokenwatt_ui_logins_total{outcome=\"ok\"} 3"), "{}", house.deps.metrics.render());
    assert!(house.counted("tokenwatt_ui_sessions 3"), "{}", house.deps.metrics.render());
}

#[tokio::test]
async fn refusals_say_what_to_do_and_are_counted_without_the_token() {
    let house = House::new();
    house.hand.0.store(3_600, Ordering::SeqCst);
    for (token, status, words, outcome) in [
        ("tw_wrong", 401, "This token belongs to nobody here", "unknown"),
        ("", 401, "This token belongs to nobody here", "unknown"),
        (&house.agent, 403, "`agent` is a writer and may not read. The dashboard is for readers", "role"),
        (&house.temp, 401, "The token of `temp` expired at 2026-11-29T13:00:00Z", "expired"),
    ] {
        let response = house.enter(token, &[]).await;
        assert_eq!(header_of(&response, "set-cookie"), "");
        let (got, html) = read(response).await;
        assert_eq!(got.as_u16(), status, "{words}");
        assert!(html.contains("role=\"alert\"") && html.contains(words), "{words}: {html}");
        assert!(html.contains("name=\"next\" value=\"/cost\""), "where it was going is kept");
        assert!(token.is_empty() || !html.contains(token), "the token is not shown");
        let page = house.deps.metrics.render();
        assert!(page.contains(&format!("tokenwatt_ui_logins_total{{outcome=\"{outcome}\"}}")), "{page}");
        assert!(token.is_empty() || !page.contains(token));
    }
    assert!(house.counted("tokenwatt_ui_logins_total{outcome=\"unknown\"} 2"));
}

#[tokio::test]
async fn too_many_wrong_tokens_close_the_login_for_a_while() {
    let house = House::new();
    for _ in 0..10 {
        assert_eq!(house.enter("tw_guess", &[]).await.status(), StatusCode::UNAUTHORIZED);
    }
    let shut = house.enter("tw_guess", &[]).await;
    assert_eq!((shut.status(), header_of(&shut, "retry-after")), (StatusCode::TOO_MANY_REQUESTS, "6"));
    let (_, html) = read(shut).await;
    assert!(html.contains("Too many wrong tokens from this address; try again in 6 s."), "{html}");
    assert_eq!(house.enter(&house.ann, &[]).await.status(), StatusCode::SEE_OTHER, "nobody is locked out by others");
    house.hand.0.store(6, Ordering::SeqCst);
    assert_eq!(house.enter("tw_guess", &[]).await.status(), StatusCode::UNAUTHORIZED);
    assert!(house.counted("tokenwatt_ui_logins_total{outcome=\"throttled\"} 1"));
}

/// What an attacker put into the browser before the login is worth nothing after it, and neither is what was there before.
#[tokio::test]
async fn a_session_is_never_one_that_the_browser_brought_along() {
    let house = House::new();
    let planted = format!("tokenwatt_session={}", "a".repeat(64));
    let response = house.enter(&house.ann, &[("cookie", &planted)]).await;
    let session = cookie(&response);
    assert_ne!(session, planted);
    assert_eq!(house.see("/", &planted).await.0, StatusCode::SEE_OTHER);
    assert_eq!(house.see("/", &session).await.0, StatusCode::OK);
    // Somebody else signs in with the same browser.
    let next = cookie(&house.enter(&house.acme, &[("cookie", &session)]).await);
    assert_ne!(next, session);
    assert_eq!(house.see("/", &session).await.0, StatusCode::SEE_OTHER, "the one before has ended");
    assert!(house.see("/", &next).await.1.contains("asked by acme"));
}

#[tokio::test]
async fn sessions_end_by_sign_out_by_time_and_with_the_token() {
    let house = House::new();
    let session = house.signed_in(&house.ann).await;
    let left = house.send(post("/logout").header("cookie", &session).body(Body::empty()).unwrap()).await;
    assert_eq!(header_of(&left, "location"), "/login?why=left");
    assert!(header_of(&left, "set-cookie").starts_with("tokenwatt_session=; Path=/; Max-Age=0; HttpOnly"));
    assert_eq!(header_of(&left, "clear-site-data"), "\"cache\"");
    let again = house.send(browse("/power").header("cookie", &session).body(Body::empty()).unwrap()).await;
    assert_eq!(header_of(&again, "location"), "/login?next=/power&why=ended");
    assert!(header_of(&again, "set-cookie").contains("Max-Age=0"));
    let told = read(house.send(browse("/login?next=/power&why=ended").body(Body::empty()).unwrap()).await).await.1;
    assert!(told.contains("Your session has ended") && told.contains("value=\"/power\""), "{told}");
    let (ann, temp) = (house.signed_in(&house.ann).await, house.signed_in(&house.temp).await);
    house.hand.0.store(3_600, Ordering::SeqCst);
    assert_eq!(house.see("/", &temp).await.0, StatusCode::SEE_OTHER, "its token has expired");
    assert_eq!(house.see("/", &ann).await.0, StatusCode::OK);
    house.hand.0.store(12 * 3_600, Ordering::SeqCst);
    assert_eq!(house.see("/", &ann).await.0, StatusCode::SEE_OTHER);
}

/// A way out of the login leads to a page of this server and nowhere else.
#[tokio::test]
async fn the_login_leads_to_no_other_site() {
    let house = House::new();
    let session = house.signed_in(&house.ann).await;
    for next in [
        "//evil.example",
        "///evil.example",
        "https://evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/%5Cevil.example%0d%0ax:y",
        "javascript:alert(1)",
        "%2F%2Fevil.example",
        "/\t/evil.example",
        " //evil.example",
        "/login?next=/",
        "/logout",
        "",
    ] {
        let mut fields = Fields::default();
        fields.set("next", next.to_owned());
        fields.set("token", house.ann.clone());
        let body = fields.link("").trim_start_matches('?').to_owned();
        let response = house.send(post("/login").body(Body::from(body)).unwrap()).await;
        let place = header_of(&response, "location");
        assert!(place == "/" || place.starts_with("/%5Cevil"), "{next:?} leads to {place}");
        let led = browse(&fields.link("/login")).header("cookie", &session).body(Body::empty()).unwrap();
        let response = house.send(led).await;
        let place = header_of(&response, "location");
        assert!(place == "/" || place.starts_with("/%5Cevil"), "{next:?} leads to {place} who is signed in");
    }
    for path in ["//evil.example/", "//evil.example/%2e%2e"] {
        for site in ["none", "cross-site"] {
            let request = Request::get(path).header("accept", "text/html").header("sec-fetch-site", site);
            let request = request.header("sec-fetch-mode", "navigate");
            let (place, html) = {
                let response = house.send(request.body(Body::empty()).unwrap()).await;
                (header_of(&response, "location").to_owned(), read(response).await.1)
            };
            assert!(!place.contains("evil") && !html.contains("evil"), "{path}: {place} {html}");
        }
    }
}

/// No page of another site makes a signed-in browser do anything, and a session alone is no proof of the page it comes from.
#[tokio::test]
async fn other_sites_change_nothing() {
    let house = House::new();
    let session = house.signed_in(&house.ann).await;
    let bodies = [
        ("/login", format!("token={}", house.ann)),
        ("/logout", String::new()),
        ("/theme", "theme=dark&back=/".to_owned()),
        ("/sql", "q=SELECT+1".to_owned()),
        ("/share", "page=/cost&for=1h".to_owned()),
    ];
    let elsewhere: [&[(&str, &str)]; 5] = [
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "https://evil.example"), ("host", "tokens.example")],
        &[("origin", "null"), ("host", "tokens.example")],
        &[("origin", "http://tokens.example.evil.example"), ("host", "tokens.example")],
    ];
    for (path, body) in &bodies {
        for from in elsewhere {
            let request =
                with(Request::post(*path).header("cookie", &session), from).body(Body::from(body.clone())).unwrap();
            let response = house.send(request).await;
            assert_eq!(response.status(), StatusCode::FORBIDDEN, "{path} from {from:?}");
            assert_eq!(header_of(&response, "set-cookie"), "", "{path}");
        }
        let own = [("origin", "https://tokens.example"), ("host", "tokens.example"), ("cookie", session.as_str())];
        if *path != "/logout" && *path != "/login" {
            let silent = Request::post(*path).header("cookie", &session).body(Body::from(body.clone())).unwrap();
            assert_eq!(house.send(silent).await.status(), StatusCode::FORBIDDEN, "{path} from nowhere");
            let request = with(Request::post(*path), &own).body(Body::from(body.clone())).unwrap();
            assert!(house.send(request).await.status().as_u16() < 400, "{path} from here");
        }
    }
    assert_eq!(house.see("/", &session).await.0, StatusCode::OK, "nobody was signed out");
    assert!(house.counted("tokenwatt_ui_logins_total{outcome=\"ok\"} 1"), "nor in");
}

/// Each path asks with the rights of whoever looks, also when another was answered just before.
#[tokio::test]
async fn every_path_asks_for_its_own_reader_and_keeps_answers_apart() {
    let house = House::new();
    let (ann, acme) = (house.signed_in(&house.ann).await, house.signed_in(&house.acme).await);
    let mut asked = 0;
    for path in everything() {
        for (session, own, other) in [(&ann, "asked by ann", "asked by acme"), (&acme, "asked by acme", "asked by ann")]
        {
            let (_, html) = house.see(&path, session).await;
            assert!(!html.contains(other) && !html.contains("asked by nobody"), "{path} as {own}: {html}");
            asked += usize::from(html.contains(own));
        }
    }
    assert!(asked > 40, "{asked} pages showed who asked");
    // Nor does a header, a field or another's name in the cookie make one somebody else.
    for (name, value) in [("x-tokenwatt-reader", "ann"), ("authorization", "Bearer ann"), ("x-forwarded-user", "ann")] {
        let request = browse("/cost?reader=ann&principal=ann").header("cookie", &acme).header(name, value);
        let (_, html) = read(house.send(request.body(Body::empty()).unwrap()).await).await;
        assert!(!html.contains("asked by ann"), "{name}: {html}");
    }
    for (token, status) in [(&house.agent, 403), (&"tw_wrong".to_owned(), 401)] {
        let request = Request::get("/cost").header("authorization", format!("Bearer {token}"));
        assert_eq!(house.send(request.body(Body::empty()).unwrap()).await.status(), status);
    }
    let program = Request::get("/cost").header("authorization", format!("Bearer {}", house.acme));
    assert!(read(house.send(program.body(Body::empty()).unwrap()).await).await.1.contains("asked by acme"));
}

/// A strict cookie is not sent along a link in a chat: one step on this server, and it is. Files are not fetched for others.
#[tokio::test]
async fn a_link_from_elsewhere_takes_one_step_here_first() {
    let house = House::new();
    let from = |path: &str| {
        let request = Request::get(path).header("accept", "text/html").header("sec-fetch-mode", "navigate");
        request.header("sec-fetch-site", "cross-site").body(Body::empty()).unwrap()
    };
    let (status, html) = read(house.send(from("/node/a?region=%22%3E%3Cscript%3E")).await).await;
    assert_eq!(status, StatusCode::OK);
    assert!(html.contains("content=\"0;url=/node/a?region=%22%3E%3Cscript%3E\""), "{html}");
    let (_, html) = read(house.send(from("/go?q=a&x='b'")).await).await;
    assert!(html.contains("/go?q=a&amp;x=") && !html.contains("x='b'"), "{html}");
    let fetched =
        Request::get("/sql.csv?q=SELECT+1").header("sec-fetch-mode", "no-cors").header("sec-fetch-site", "cross-site");
    assert_eq!(house.send(fetched.body(Body::empty()).unwrap()).await.status(), StatusCode::FORBIDDEN);
}

async fn shared(house: &House, session: &str, body: &str) -> (StatusCode, String) {
    let request = post("/share").header("cookie", session).header("origin", "https://tokens.example");
    read(house.send(request.body(Body::from(body.to_owned())).unwrap()).await).await
}

fn link_in(html: &str) -> String {
    let url = html.split("<pre id=\"link\">").nth(1).and_then(|rest| rest.split("</pre>").next()).unwrap();
    url.strip_prefix("https://tokens.example").unwrap().to_owned()
}

#[tokio::test]
async fn a_link_shows_one_page_with_the_rights_of_whoever_made_it() {
    let house = House::new();
    let acme = house.signed_in(&house.acme).await;
    let (_, page) = house.see("/latency?range=1h", &acme).await;
    assert!(page.contains("data-dialog=\"share\"") && page.contains("href=\"/share?page=/latency"), "{page}");
    let (status, html) = shared(&house, &acme, "page=%2Flatency%3Frange%3D1h%26metric%3Ditl&for=1h").await;
    assert_eq!(status, StatusCode::OK);
    assert!(html.contains("2026-11-29 13:00 UTC"), "{html}");
    let link = link_in(&html);
    // Nobody has signed in here.
    let (status, html) = read(house.send(browse(&link).body(Body::empty()).unwrap()).await).await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        html.contains("asked by acme") && html.contains("read-only, until ") && html.contains("2026-11-29 13:00 UTC"),
        "{html}"
    );
    assert!(html.contains("from=2026-11-29T11:00:00Z"), "the times are those that were seen");
    for part in ["class=\"rail\"", "class=\"scope\"", "id=\"palette\"", "/logout", "data-dialog=\"share\""] {
        assert!(!html.contains(part), "{part}");
    }
    // Statements are typed, and kept by the browser, by those who have signed in.
    let (_, html) = shared(&house, &acme, "page=%2Fsql%3Fq%3DSELECT%2B1&for=1h").await;
    let (status, html) = read(house.send(browse(&link_in(&html)).body(Body::empty()).unwrap()).await).await;
    assert!(status == StatusCode::OK && html.contains(">SELECT 1</textarea>"), "{html}");
    for part in ["data-editor", "id=\"kept\"", "data-key=\"h\"", "data-png"] {
        assert!(!html.contains(part), "{part}");
    }
    let (_, own) = house.see("/sql?q=SELECT+1", &acme).await;
    assert!(own.contains("data-editor=\"acme\""), "for each reader apart");
    assert!(own.contains("action=\"/logout\"") && own.contains("data-of=\"acme\""), "signing out forgets them");
    // It is not a session, whoever looks at it: with one's own session the page has the sharer's rights.
    let ann = house.signed_in(&house.ann).await;
    let (_, seen) = house.see(&link, &ann).await;
    assert!(seen.contains("asked by acme") && !seen.contains("asked by ann"));
    for path in ["/latency", "/shared/", "/shared/x/y"] {
        assert_ne!(house.send(browse(path).body(Body::empty()).unwrap()).await.status(), StatusCode::OK, "{path}");
    }
    let posted = post(&link).body(Body::empty()).unwrap();
    assert_eq!(house.send(posted).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(house.counted("tokenwatt_ui_shares_total{outcome=\"opened\"} 3"));
    // Later, cut, changed, or after its maker left.
    let gone = |router: Router, link: String| async move {
        read(router.oneshot(browse(&link).body(Body::empty()).unwrap()).await.unwrap()).await
    };
    let (status, html) = gone(house.router.clone(), format!("{}x", link)).await;
    assert!(status == StatusCode::NOT_FOUND && html.contains("not made here") && !html.contains("asked by"), "{html}");
    let without: Vec<Principal> = house.readers.iter().filter(|reader| reader.name != "acme").cloned().collect();
    let (status, html) = gone(house.restarted(&without), link.clone()).await;
    assert!(status == StatusCode::FORBIDDEN && html.contains("ended with the access of whoever made it"), "{html}");
    assert_eq!(gone(house.restarted(&house.readers), link.clone()).await.0, StatusCode::OK, "a restart ends no link");
    house.hand.0.store(3_600, Ordering::SeqCst);
    let (status, html) = gone(house.router.clone(), link).await;
    assert!(status == StatusCode::FORBIDDEN && html.contains("This link has ended"), "{html}");
}

/// However often a link is opened, its statements are asked once a minute; nothing of one who looks is shown to the next.
#[tokio::test]
async fn a_link_is_no_way_to_keep_the_server_busy() {
    let house = House::new();
    let acme = house.signed_in(&house.acme).await;
    let (_, html) = shared(&house, &acme, "page=%2Fcost%3Frange%3D24h&for=1h").await;
    let link = link_in(&html);
    let open = async |cookie: &str| {
        let request = browse(&link).header("cookie", cookie).header("user-agent", "<b>somebody</b>");
        read(house.send(request.body(Body::empty()).unwrap()).await).await.1
    };
    let before = house.asked.load(Ordering::SeqCst);
    let first = open("tokenwatt_theme=dark; other=seen").await;
    let once = house.asked.load(Ordering::SeqCst) - before;
    assert!(
        once > 3 && first.contains("data-theme=\"dark\"") && first.contains("Read from the tables at 12:00:00 UTC")
    );
    assert!(!first.contains("somebody") && !first.contains("other=seen"));
    for _ in 0..20 {
        assert_eq!(open("tokenwatt_theme=dark").await, first);
    }
    assert_eq!(house.asked.load(Ordering::SeqCst) - before, once, "twenty more visits asked nothing");
    assert!(house.counted("tokenwatt_ui_shares_total{outcome=\"opened\"} 21"), "each is counted");
    assert!(open(&acme).await.contains("data-theme=\"auto\""), "other colours are another page");
    house.hand.0.store(60, Ordering::SeqCst);
    assert!(open("tokenwatt_theme=dark").await.contains("Read from the tables at 12:01:00 UTC"), "a minute later");
}

/// Figures of now are marked on a page whose times stand still, as one of a link always is.
#[tokio::test]
async fn figures_of_now_are_told_from_those_of_the_range() {
    let still = "/settings?from=2026-11-29T11:00:00Z&to=2026-11-29T12:00:00Z";
    let mark = "of now, not of this range";
    let (_, html) = get_page(Fleet::Busy, still).await;
    assert_eq!(
        html.matches(mark).count(),
        4,
        "tables, collectors, roll-ups and reference data, but not senders and drops"
    );
    let (_, live) = get_page(Fleet::Busy, "/settings?range=1h").await;
    assert!(!live.contains(mark), "now is the end of this range");
    let house = House::new();
    let ann = house.signed_in(&house.ann).await;
    let (_, html) = shared(&house, &ann, "page=%2Fsettings&for=1h").await;
    let (_, html) = read(house.send(browse(&link_in(&html)).body(Body::empty()).unwrap()).await).await;
    assert!(html.contains(mark), "{html}");
}

#[tokio::test]
async fn only_pages_are_shared_and_only_by_readers() {
    let house = House::new();
    let ann = house.signed_in(&house.ann).await;
    for page in ["//evil.example", "/login", "/share", "/logout", "", "/shared/abc", "javascript:alert(1)"] {
        let mut fields = Fields::default();
        fields.set("page", page.to_owned());
        let (status, html) = shared(&house, &ann, fields.link("").trim_start_matches('?')).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{page}: {html}");
    }
    let nobody = post("/share").body(Body::from("page=/cost")).unwrap();
    assert_eq!(house.send(nobody).await.status(), StatusCode::SEE_OTHER);
    let (_, form) = house.see("/share?page=/cost%3Fby%3Dtenant", &ann).await;
    assert!(form.contains("name=\"page\" value=\"/cost?by=tenant\"") && form.contains("action=\"/share\""), "{form}");
    // Where nobody has to be named a page's address is its link.
    let (_, open) = get_page(Fleet::Busy, "/share?page=/cost").await;
    assert!(open.contains("the address of a page is its link"));
    let (_, page) = get_page(Fleet::Busy, "/cost").await;
    assert!(!page.contains("data-dialog=\"share\"") && !page.contains("Sign out"));
}

/// Whatever the answer is, it may load nothing from elsewhere and run nothing inline, and no cache between keeps it.
#[tokio::test]
async fn every_answer_carries_the_policy_also_to_nobody() {
    let house = House::new();
    let session = house.signed_in(&house.ann).await;
    let requests = [
        browse("/login").body(Body::empty()),
        browse("/cost").body(Body::empty()),
        Request::get("/cost").body(Body::empty()),
        browse("/cost").header("cookie", &session).body(Body::empty()),
        browse("/nowhere").header("cookie", &session).body(Body::empty()),
        browse("/shared/x").body(Body::empty()),
        Request::post("/logout").header("sec-fetch-site", "cross-site").body(Body::empty()),
        post("/logout").body(Body::empty()),
    ];
    for request in requests.map(Result::unwrap) {
        let said = format!("{} {}", request.method(), request.uri());
        let response = house.send(request).await;
        let policy = header_of(&response, "content-security-policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{said}: {policy}");
        assert!(policy.contains("form-action 'self'") && !policy.contains("unsafe-inline"), "{said}: {policy}");
        assert_eq!(header_of(&response, "x-content-type-options"), "nosniff", "{said}");
        let cache = header_of(&response, "cache-control");
        assert!(cache.contains("no-store") || response.status() == StatusCode::FORBIDDEN, "{said}: {cache}");
    }
}

/// A file that a page links to is there for who has signed in, and nothing else beside it.
#[tokio::test]
async fn a_session_opens_one_path_of_others_for_asking_alone() {
    let house = House::new();
    let session = house.signed_in(&house.acme).await;
    let who = |reader: Option<axum::Extension<Arc<Principal>>>| async move {
        reader.map_or_else(|| "nobody".to_owned(), |reader| reader.0.name.clone())
    };
    let routes = Router::new().route("/api/v1/sql", get(who).post(who)).route("/metrics", get(who));
    let guarded = service::principal::require(routes.clone(), &house.deps.principals, Role::Reader);
    let router = open_to_sessions(&house.access, "/api/v1/sql", &routes, guarded);
    let asked = |method: &str, path: &str, more: &[(&str, &str)]| {
        let request = with(Request::builder().method(method).uri(path), more).body(Body::empty()).unwrap();
        let router = router.clone();
        async move { read(router.oneshot(request).await.unwrap()).await }
    };
    let own = [("cookie", session.as_str()), ("sec-fetch-site", "same-origin")];
    assert_eq!(asked("GET", "/api/v1/sql?q=x", &own).await, (StatusCode::OK, "acme".to_owned()));
    let foreign = [("cookie", session.as_str()), ("sec-fetch-site", "cross-site")];
    let planted = [("cookie", "tokenwatt_session=aaaa"), ("sec-fetch-site", "same-origin")];
    for (method, path, more) in [
        ("GET", "/api/v1/sql", &foreign),
        ("GET", "/api/v1/sql", &planted),
        ("POST", "/api/v1/sql", &own),
        ("GET", "/metrics", &own),
    ] {
        assert_eq!(asked(method, path, more).await.0, StatusCode::UNAUTHORIZED, "{method} {path} {more:?}");
    }
    // A browser whose session has ended is led to the login, and never asked for a password.
    let ended = browse("/api/v1/sql?q=x").header("cookie", "tokenwatt_session=aaaa").body(Body::empty()).unwrap();
    let ended = router.clone().oneshot(ended).await.unwrap();
    assert_eq!(header_of(&ended, "location"), "/login?next=/api/v1/sql%3Fq%3Dx&why=ended");
    let silent = with(Request::get("/api/v1/sql"), &planted).body(Body::empty()).unwrap();
    assert_eq!(header_of(&router.clone().oneshot(silent).await.unwrap(), "www-authenticate"), "Bearer");
    let file = with(Request::get("/api/v1/sql"), &own).body(Body::empty()).unwrap();
    let file = router.clone().oneshot(file).await.unwrap();
    let said = (header_of(&file, "cache-control"), header_of(&file, "x-content-type-options"));
    assert_eq!(said, ("private, no-store", "nosniff"));
    let bearer = format!("Bearer {}", house.ann);
    let both = [("cookie", session.as_str()), ("authorization", bearer.as_str())];
    assert_eq!(asked("GET", "/api/v1/sql", &both).await.1, "ann", "what a program shows decides");
}

/// A shared page says its times in the zone that it was seen in, and says so; it offers nothing that its reader may not have.
#[tokio::test]
async fn a_shared_page_names_the_zone_of_its_times() {
    let house = House::new();
    let acme = house.signed_in(&house.acme).await;
    let (_, html) = shared(&house, &acme, "page=%2Flatency%3Ftz%3DAsia%2FKolkata&for=1h").await;
    let (status, html) = read(house.send(browse(&link_in(&html)).body(Body::empty()).unwrap()).await).await;
    assert_eq!(status, StatusCode::OK);
    assert!(html.contains("all times Asia/Kolkata") && !html.contains("all times UTC"), "{html}");
    assert!(!html.contains("/chart.svg?") && !html.contains("format=parquet"), "{html}");
}
