use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, header};
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tower::ServiceExt;

use super::*;
use crate::clock::Clock;
use crate::config::instant;

pub(super) fn principal(name: &str, role: Role, hash: Option<String>) -> Principal {
    Principal {
        name: name.to_owned(),
        role,
        token_sha256: hash,
        scram: None,
        expires: None,
        certificate: None,
        tenants: vec!["*".to_owned()],
        regions: vec!["*".to_owned()],
        infrastructure: None,
        items_per_s: None,
        bytes_per_s: None,
        burst_s: 10,
    }
}

fn principals_of(principals: &[Principal]) -> Principals {
    Principals::new(principals, &clock::system())
}

fn shows(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())])
}

fn kind(result: Result<Option<Arc<Principal>>>) -> std::result::Result<String, Kind> {
    result.map(|found| found.map_or_else(String::new, |found| found.name.clone())).map_err(|error| error.kind())
}

/// The right token of the right role passes; none or a wrong one is 401, the wrong role 403.
#[test]
fn token_and_role_decide() {
    let (token, hash) = new_token().unwrap();
    let (other, other_hash) = new_token().unwrap();
    let (token, other) = (token.expose(), other.expose());
    assert!(token.starts_with("tw_") && token.len() == 67 && token != other);
    let principals = principals_of(&[
        principal("node", Role::Writer, Some(hash.to_uppercase())),
        principal("grafana", Role::Reader, Some(other_hash)),
    ]);
    let ask = |role, headers: &HeaderMap| kind(principals.identify(role, headers, None));
    let bearer = |token: &str| shows(&format!("Bearer {token}"));
    assert_eq!(ask(Role::Writer, &bearer(token)), Ok("node".to_owned()));
    assert_eq!(ask(Role::Reader, &bearer(other)), Ok("grafana".to_owned()));
    assert_eq!(ask(Role::Writer, &bearer(other)), Err(Kind::Denied));
    assert_eq!(ask(Role::Reader, &bearer(token)), Err(Kind::Denied));
    for headers in
        [HeaderMap::new(), bearer("tw_wrong"), bearer(&hash), bearer(""), shows("Digest x"), shows("Basic %")]
    {
        assert_eq!(ask(Role::Writer, &headers), Err(Kind::Unauthenticated), "{headers:?}");
    }
    for name in ["anybody", "anybod", "anybo"] {
        // Some clients pad it, and some do not.
        let padded = STANDARD.encode(format!("{name}:{other}"));
        for basic in [padded.as_str(), padded.trim_end_matches('=')] {
            assert_eq!(ask(Role::Reader, &shows(&format!("basic {basic}"))), Ok("grafana".to_owned()));
        }
    }
    assert_eq!(kind(Principals::default().identify(Role::Writer, &HeaderMap::new(), None)), Ok(String::new()));
}

/// A certificate that was verified names its principal; a token that is shown too comes first.
#[test]
fn a_certificate_names_its_principal() {
    let (token, hash) = new_token().unwrap();
    let spiffe =
        Principal { certificate: Some("spiffe://fleet/node".to_owned()), ..principal("mesh", Role::Writer, None) };
    let principals = principals_of(&[spiffe, principal("node", Role::Writer, Some(hash))]);
    let ask = |headers: &HeaderMap, names: &[&str]| {
        kind(principals.identify(Role::Writer, headers, Some(&Peer::named(names.iter().copied()))))
    };
    let none = HeaderMap::new();
    assert_eq!(ask(&none, &["other", "spiffe://fleet/node"]), Ok("mesh".to_owned()));
    assert_eq!(ask(&none, &["spiffe://fleet/nod"]), Err(Kind::Unauthenticated));
    assert_eq!(ask(&none, &[]), Err(Kind::Unauthenticated));
    let shown = shows(&format!("Bearer {}", token.expose()));
    assert_eq!(ask(&shown, &["spiffe://fleet/node"]), Ok("node".to_owned()));
    assert_eq!(ask(&shows("Bearer wrong"), &["spiffe://fleet/node"]), Err(Kind::Unauthenticated));
}

/// Tenants bind; a row without a tenant needs all of them.
#[test]
fn tenants_bind() {
    let bound = Principal { tenants: vec!["acme".to_owned(), "zeta".to_owned()], ..principal("n", Role::Writer, None) };
    assert!(bound.allows(Some("acme")) && bound.allows(Some("zeta")));
    assert!(!bound.allows(Some("acm")) && !bound.allows(Some("*")) && !bound.allows(None));
    let all = principal("n", Role::Writer, None);
    assert!(all.allows(Some("acme")) && all.allows(None));
}

/// Who sees every tenant sees the infrastructure, unless the settings say otherwise.
#[test]
fn infrastructure_follows_the_tenants() {
    let bound = Principal { tenants: vec!["acme".to_owned()], ..principal("r", Role::Reader, None) };
    assert!(!bound.sees_infrastructure());
    assert!(Principal { infrastructure: Some(true), ..bound }.sees_infrastructure());
    let all = principal("r", Role::Reader, None);
    assert!(all.sees_infrastructure() && all.every_region());
    assert!(!Principal { infrastructure: Some(false), ..all }.sees_infrastructure());
}

/// A clock that a test sets, microseconds.
pub(super) struct Hand(AtomicI64);

impl Hand {
    pub(super) fn second(second: i64) -> Self {
        Self(AtomicI64::new(second * 1_000_000))
    }

    pub(super) fn set(&self, second: i64) {
        self.set_us(second * 1_000_000);
    }

    pub(super) fn set_us(&self, at_us: i64) {
        self.0.store(at_us, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::SeqCst) * 1_000
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::SeqCst).unsigned_abs())
    }
}

/// A token counts until the instant it expires, and not from then on; whoever shows it is told when that was. A wrong token is a
/// wrong token before and after.
#[test]
fn tokens_expire() {
    let (token, hash) = new_token().unwrap();
    let expires = instant::parse("2026-12-01").unwrap();
    let at = expires.as_microsecond();
    let hand = Arc::new(Hand(AtomicI64::new(at - 1)));
    let clock: SharedClock = hand.clone();
    let certificate = Some("psql.fleet".to_owned());
    let grafana = Principal { expires: Some(expires), certificate, ..principal("grafana", Role::Reader, Some(hash)) };
    let principals = Principals::new(&[grafana], &clock);
    let bearer = shows(&format!("Bearer {}", token.expose()));
    let shown = |headers: &HeaderMap| principals.identify(Role::Reader, headers, None);
    let proven = principals.login("grafana").shown(token.expose()).unwrap();
    assert!(shown(&bearer).is_ok() && principals.check_token(&proven).is_ok());

    hand.set_us(at);
    let refused = shown(&bearer).unwrap_err();
    assert_eq!(refused.kind(), Kind::Unauthenticated);
    assert_eq!(refused.message(), "the token of `grafana` expired at 2026-12-01T00:00:00Z");
    assert!(refused.hint().unwrap().contains("tokenwatt token"), "{refused:?}");
    assert_eq!(principals.check_token(&proven).unwrap_err().message(), refused.message());
    let wrong = shown(&shows("Bearer tw_wrong")).unwrap_err();
    assert!(wrong.message().contains("no principal"), "{wrong}");
    // A certificate has a date of its own.
    let peer = Peer::named(["psql.fleet"].into_iter());
    assert!(principals.identify(Role::Reader, &HeaderMap::new(), Some(&peer)).is_ok());
}

/// Why a token is not taken is told apart by more than words, which a name may hold too.
#[test]
fn a_token_is_refused_for_a_reason() {
    let (token, hash) = new_token().unwrap();
    let (late, late_hash) = new_token().unwrap();
    let hand = Arc::new(Hand(AtomicI64::new(instant::parse("2026-12-01").unwrap().as_microsecond())));
    let expires = instant::parse("2026-12-01").ok();
    let late_reader = Principal { expires, ..principal("late", Role::Reader, Some(late_hash)) };
    let clock: SharedClock = hand.clone();
    let principals = Principals::new(&[principal("expired", Role::Writer, Some(hash)), late_reader], &clock);
    let why = |token: &str| principals.admit(Role::Reader, &Token::typed(token)).unwrap_err().why;
    assert_eq!(why(token.expose()), Refusal::Role);
    assert_eq!(why(late.expose()), Refusal::Expired);
    assert_eq!(why("tw_expired"), Refusal::Unknown);
    hand.set_us(0);
    assert_eq!(principals.admit(Role::Reader, &Token::typed(late.expose())).unwrap().name, "late");
}

/// What cannot be meant is a fault, and all faults come together.
#[test]
fn faults_of_principals() {
    let hash = "a".repeat(64);
    let good = principal("good", Role::Writer, Some(hash.clone()));
    let faults_of = |principals: &[Principal]| {
        let mut faults = Vec::new();
        validate(principals, &mut faults);
        faults
    };
    assert_eq!(faults_of(std::slice::from_ref(&good)), Vec::<String>::new());
    let other = |change: fn(&mut Principal)| {
        let mut changed = principal("other", Role::Writer, Some("b".repeat(64)));
        change(&mut changed);
        faults_of(&[good.clone(), changed]).len()
    };
    assert_eq!(other(|_| ()), 0);
    assert_eq!(other(|principal| principal.token_sha256 = None), 1);
    assert_eq!(other(|principal| principal.token_sha256 = Some("tw_0123".to_owned())), 1);
    assert_eq!(other(|principal| principal.token_sha256 = Some("A".repeat(64))), 1);
    assert_eq!(other(|principal| principal.expires = instant::parse("2027-03-01").ok()), 0);
    assert_eq!(
        other(|principal| {
            principal.expires = instant::parse("2027-03-01").ok();
            principal.certificate = principal.token_sha256.take();
        }),
        1
    );
    assert_eq!(other(|principal| principal.name = "good".to_owned()), 1);
    assert_eq!(other(|principal| principal.name = String::new()), 1);
    assert_eq!(other(|principal| principal.tenants.clear()), 1);
    assert_eq!(other(|principal| principal.items_per_s = Some(0)), 1);
    assert_eq!(other(|principal| principal.burst_s = 0), 1);
    assert_eq!(other(|principal| principal.regions.clear()), 1);
    assert_eq!(other(|principal| principal.regions = vec!["eu-west-1".to_owned()]), 1);
    assert_eq!(other(|principal| principal.infrastructure = Some(true)), 1);
    let reader = Principal {
        tenants: vec!["acme".to_owned()],
        regions: vec!["eu-west-1".to_owned()],
        infrastructure: Some(true),
        ..principal("r", Role::Reader, Some(hash))
    };
    assert_eq!(faults_of(&[reader]), Vec::<String>::new());
}

/// What is the same for all is for those who see everything.
#[tokio::test]
async fn pages_of_everything() {
    let asked = async |tenants: &[&str]| {
        let (token, hash) = new_token().unwrap();
        let tenants = tenants.iter().map(|tenant| (*tenant).to_owned()).collect();
        let principals = principals_of(&[Principal { tenants, ..principal("r", Role::Reader, Some(hash)) }]);
        let pages = require_everything(Router::new().route("/", get(|| async { "hello" })));
        let request = Request::get("/").header("authorization", format!("Bearer {}", token.expose()));
        require(pages, &principals, Role::Reader).oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
    };
    assert_eq!(asked(&["*"]).await, 200);
    assert_eq!(asked(&["acme"]).await, 403);
    let open = require_everything(Router::new().route("/", get(|| async { "hello" })));
    assert_eq!(open.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap().status(), 200);
}

/// A guarded route asks a browser for a password and lets readers in; without principals nothing is asked.
#[tokio::test]
async fn guarded_routes() {
    let (token, hash) = new_token().unwrap();
    let principals = principals_of(&[principal("r", Role::Reader, Some(hash))]);
    let router = || Router::new().route("/", get(|| async { "hello" }));
    let guarded = require(router(), &principals, Role::Reader);
    let refused = guarded.clone().oneshot(Request::get("/nowhere").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(refused.status(), 401);
    assert!(refused.headers()[header::WWW_AUTHENTICATE].to_str().unwrap().starts_with("Basic "));
    let request = Request::get("/").header("authorization", format!("Bearer {}", token.expose()));
    assert_eq!(guarded.oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status(), 200);
    let open = require(router(), &Principals::default(), Role::Reader);
    assert_eq!(open.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap().status(), 200);
}

/// A name is claimed, then proven: by the token, by a proof of it, or by a certificate. Nobody's name looks like anybody's.
#[test]
fn names_are_proven() {
    let (token, hash) = new_token().unwrap();
    let verifier = scram::Verifier::new(token.expose()).unwrap().to_string();
    let grafana = Principal { scram: Some(verifier), ..principal("grafana", Role::Reader, Some(hash)) };
    let mesh = Principal { certificate: Some("psql.fleet".to_owned()), ..principal("mesh", Role::Reader, None) };
    let principals = principals_of(&[grafana.clone(), mesh]);
    let shown = |name: &str, token: &str| principals.login(name).shown(token).map(|found| found.name.clone());
    assert_eq!(shown("grafana", token.expose()), Some("grafana".to_owned()));
    assert_eq!(shown("grafana", "tw_wrong"), None);
    assert_eq!(shown("mesh", token.expose()), None);
    assert_eq!(shown("nobody", token.expose()), None);
    let peer = Peer::named(["psql.fleet"].into_iter());
    assert!(principals.login("mesh").certified(&peer).is_some());
    assert!(principals.login("grafana").certified(&peer).is_none());
    assert!(principals.login("grafana").is_provable() && !principals.login("mesh").is_provable());
    assert!(!principals.login("nobody").is_provable(), "as long as one of us cannot");
    assert!(principals_of(&[grafana]).login("nobody").is_provable());
    let (_, first) = principals.login("nobody").prove(b"n,,n=,r=abc").unwrap();
    assert!(first.ends_with(",i=4096"), "{first}");
}
