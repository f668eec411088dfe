//! Work that nobody waits for ends, and does not hold up who comes next.

use std::time::Duration;

use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use futures::FutureExt;
use serde_json::json;
use service::{Deps, listen::Limits};
use telemetry::contract::{QueryApi, SqlRequest};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tower::ServiceExt;

use super::world::World;
use crate::Config;

/// Far more than a busy machine needs; only there to fail instead of hanging.
const PATIENCE: Duration = Duration::from_secs(600);

/// Statements that would run for hours or for ever.
fn evil() -> Vec<String> {
    let pairs = "generate_series(1, 1000000) AS a CROSS JOIN generate_series(1, 1000000) AS b";
    vec![
        format!("SELECT count(*) FROM {pairs}"),
        format!("SELECT count(*) FROM {pairs} WHERE (a.value * b.value) % 7 = 9"),
        "SELECT max(a.value) FROM generate_series(1, 300000) AS a JOIN generate_series(1, 300000) AS b ON a.value < b.value - 299999999".to_owned(),
        "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n".to_owned(),
        "SELECT count(*) FROM generate_series(1, 10000000) AS t(value) WHERE regexp_like(repeat('a', 20000 + value * 0), '(a?){20}(b?){20}a{20}c')".to_owned(),
        "SELECT count(*) FROM generate_series(1, 10000000) AS t(value) WHERE repeat('a', 20000 + value * 0) ~ '(a?){20}(b?){20}a{20}c'".to_owned(),
        "SELECT count(DISTINCT a.value + b.value) FROM generate_series(1, 100000) AS a CROSS JOIN generate_series(1, 100000) AS b".to_owned(),
        "SELECT sum(v) FROM (SELECT unnest(range(0, 1000000)) AS v FROM generate_series(1, 1000000))".to_owned(),
        "SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY a.value) FROM generate_series(1, 100000) AS a CROSS JOIN generate_series(1, 100000) AS b)".to_owned(),
    ]
}

/// Waits until no other query runs, which certainly comes.
pub(super) async fn until_idle(world: &World) {
    let wait = async {
        while world.rows("SELECT count(*) FROM system.queries").await != [[json!(1)]] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("something went on");
}

/// A query whose time is up, or whose caller is gone, ends; its place is free again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_waits_for_ends() {
    let world = World::with(Config { concurrency: 3, ..Config::default() }).await;
    for sql in evil() {
        let request =
            |timeout_ms| SqlRequest { sql: sql.clone(), timeout_ms: Some(timeout_ms), ..SqlRequest::default() };
        let late = world.query.sql(request(300)).await.expect_err(&sql);
        assert!(["timeout", "too_large"].contains(&late.kind.as_str()), "{sql}: {late:?}");
        let gone = tokio::time::timeout(Duration::from_millis(300), world.query.sql(request(60_000))).await;
        assert!(gone.is_err() || gone.is_ok_and(|answer| answer.is_err()), "{sql}");
        assert_eq!(world.rows("SELECT 1 + 1").await, [[json!(2)]], "{sql}");
        until_idle(&world).await;
    }
}

/// As many endless queries as there are places but one leave room for a normal one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_queries_do_not_hold_up_others() {
    let world = World::with(Config { concurrency: 4, ..Config::default() }).await;
    let running: Vec<_> = evil()
        .into_iter()
        .take(3)
        .map(|sql| {
            let query = world.query.clone();
            tokio::spawn(
                async move { query.sql(SqlRequest { sql, ..SqlRequest::default() }).await.map_err(|e| e.kind) },
            )
        })
        .collect();
    let listed = || world.rows("SELECT id, sql, state, rows, memory_bytes FROM system.queries ORDER BY id");
    while listed().await.len() < 4 {
        tokio::task::yield_now().await;
    }
    let rows = listed().await;
    assert!(rows.iter().all(|row| row[2] == json!("running")), "{rows:?}");
    for row in &rows[..3] {
        assert_eq!(delete(&world, &row[0].to_string()).await, StatusCode::NO_CONTENT);
    }
    for query in running {
        assert_eq!(query.await.expect("joined").err().as_deref(), Some("cancelled"));
    }
    until_idle(&world).await;
    assert_eq!(delete(&world, "999999").await, StatusCode::NOT_FOUND);
    assert_eq!(delete(&world, "x").await, StatusCode::NOT_FOUND);
}

async fn delete(world: &World, id: &str) -> StatusCode {
    let request = Request::delete(format!("/api/v1/queries/{id}")).body(Body::empty()).expect("a request");
    world.query.router().oneshot(request).await.expect("an answer").status()
}

/// Who would wait behind too many is told at once, and when to come again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_that_wait_are_refused_at_once() {
    let world = World::with(Config { concurrency: 1, waiting: 0, ..Config::default() }).await;
    let sql = evil().remove(0);
    let mut endless = Box::pin(world.query.sql(SqlRequest { sql, ..SqlRequest::default() }));
    // The first poll takes the only place.
    assert!((&mut endless).now_or_never().is_none());
    let post = || {
        let request = Request::post("/api/v1/sql").body(Body::from(r#"{"sql": "SELECT 1"}"#)).expect("a request");
        world.query.router().oneshot(request)
    };
    let response = post().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["retry-after"], "2");
    let body = to_bytes(response.into_body(), 1 << 16).await.expect("a body");
    assert!(String::from_utf8_lossy(&body).contains("query.waiting"), "{body:?}");
    drop(endless);
    let wait = async {
        while post().await.expect("an answer").status() != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the place did not come free");
}

/// A client of PostgreSQL's protocol, logged in.
async fn logged_in(addr: std::net::SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(addr).await.expect("connected");
    let start = b"\0\x03\0\0user\0reader\0\0";
    client.write_u32(4 + start.len() as u32).await.expect("sent");
    client.write_all(start).await.expect("sent");
    // Each message has a kind and a length; `Z` says that it is our turn.
    while client.read_u8().await.expect("a message") != b'Z' {
        let length = client.read_u32().await.expect("its length");
        client.read_exact(&mut vec![0; length as usize - 4]).await.expect("its body");
    }
    client.read_exact(&mut [0; 5]).await.expect("its body");
    client
}

/// Over PostgreSQL's protocol, too, whoever stops reading loses the query, and whoever stops in the middle of a message the
/// connection; others are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_stands_still_is_dropped() {
    let short = Duration::from_millis(300);
    let limits = Limits { body_window: short, write_stall: short, ..Limits::default() };
    let config = Config { timeout_ms: 3_600_000, concurrency: 2, ..Config::default() };
    let world = World::of(config, Deps { limits, ..Deps::system() }).await;
    let postgres = world.query.postgres(([127, 0, 0, 1], 0).into()).await.expect("bound");
    let addr = postgres.addr();
    postgres.spawn();
    let mut unread = logged_in(addr).await;
    let sql = b"SELECT repeat('x', 10000) FROM generate_series(1, 1000000000)\0";
    unread.write_u8(b'Q').await.expect("sent");
    unread.write_u32(4 + sql.len() as u32).await.expect("sent");
    unread.write_all(sql).await.expect("sent");
    let running = || world.rows("SELECT count(*) FROM system.queries");
    while running().await != [[json!(2)]] {
        tokio::task::yield_now().await;
    }
    until_idle(&world).await;
    let mut half = logged_in(addr).await;
    half.write_all(b"Q\0\0\0\x20SEL").await.expect("sent");
    let mut last = String::new();
    half.read_to_string(&mut last).await.expect("an end");
    assert!(last.contains("08P01") && last.contains("the rest of a message"), "{last:?}");
}
