//! What is refused, and in which words.

use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use telemetry::contract::{QueryApi, SqlRequest};
use tower::ServiceExt;

use super::world::World;
use crate::Config;

/// Nothing that writes, defines or sets gets past the plan, however it is dressed.
#[tokio::test]
async fn only_reading_is_allowed() {
    let world = World::new().await;
    for sql in [
        "CREATE TABLE t AS SELECT 1",
        "CREATE VIEW v AS SELECT 1",
        "DROP TABLE requests",
        "INSERT INTO requests (region) VALUES ('x')",
        "DELETE FROM requests",
        "UPDATE requests SET region = 'x'",
        "EXPLAIN ANALYZE INSERT INTO requests (region) VALUES ('x')",
        "COPY (SELECT 1) TO '/tmp/tokenwatt-must-not-exist.csv'",
        "SET datafusion.execution.batch_size = 1",
        "BEGIN",
        "PREPARE p AS SELECT 1",
    ] {
        let error = world.try_ask(sql).await.expect_err(sql);
        // COPY and BEGIN are not understood at all, so they do not even become a plan
        let kind = if sql.starts_with("COPY") || sql == "BEGIN" { "invalid" } else { "denied" };
        assert_eq!(error.kind, kind, "{sql}: {error:?}");
    }
    assert!(!std::path::Path::new("/tmp/tokenwatt-must-not-exist.csv").exists());
    let error = world.try_ask("DROP TABLE requests").await.expect_err("refused");
    assert_eq!(error.kind, "denied");
}

#[tokio::test]
async fn files_of_the_machine_are_no_tables() {
    let world = World::new().await;
    for sql in ["SELECT * FROM '/etc/passwd'", "SELECT * FROM \"/etc/hostname\"", "SELECT * FROM 'requests/x.parquet'"]
    {
        assert!(world.try_ask(sql).await.is_err(), "{sql}");
    }
}

/// A mistake is named, with what to do about it.
#[tokio::test]
async fn mistakes_are_named() {
    let world = World::new().await;
    for (sql, part) in [
        ("SELEC 1", "SELEC"),
        ("SELECT * FROM request", "request"),
        ("SELECT ttft FROM requests", "ttft"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("", "no statement"),
        ("SELECT * FROM requests WHERE region = $region", "region"),
    ] {
        let error = world.try_ask(sql).await.expect_err(sql);
        assert_eq!(error.kind, "invalid", "{sql}: {error:?}");
        assert!(error.message.contains(part), "{sql}: {error:?}");
    }
}

#[tokio::test]
async fn a_query_that_takes_too_long_is_cancelled() {
    let world = World::with(Config { timeout_ms: 200, ..Config::default() }).await;
    let sql = "SELECT count(*) FROM generate_series(1, 100000) AS a CROSS JOIN generate_series(1, 100000) AS b \
        WHERE (a.value * b.value) % 7 = 3";
    let error = world.try_ask(sql).await.expect_err("too long");
    assert_eq!(error.kind, "timeout");
}

#[tokio::test]
async fn a_query_that_needs_too_much_memory_is_refused() {
    let world = World::with(Config { memory_bytes: 1 << 20, spill_bytes_max: 0, ..Config::default() }).await;
    let sql = "SELECT value % 1000003, count(*) FROM generate_series(1, 3000000) GROUP BY 1 ORDER BY 2 LIMIT 1";
    let error = world.try_ask(sql).await.expect_err("too much");
    assert_eq!(error.kind, "too_large", "{error:?}");
}

/// An answer that would fill the memory is refused, however few its rows are.
#[tokio::test]
async fn an_answer_that_is_too_large_is_refused() {
    let world = World::with(Config { answer_bytes_max: 1 << 20, ..Config::default() }).await;
    let error = world.try_ask("SELECT repeat('x', 1000000) FROM generate_series(1, 20)").await.expect_err("too much");
    assert_eq!(error.kind, "too_large", "{error:?}");
    assert!(error.message.contains("query.answer_bytes_max"), "{error:?}");
    assert_eq!(world.rows("SELECT length(repeat('x', 1000000)) FROM generate_series(1, 2)").await.len(), 2);
}

/// Who ran out of time while running is told so, also when others wait; who never ran may come again.
#[tokio::test]
async fn a_slow_query_is_not_told_that_others_were_in_its_way() {
    let world = World::with(Config { concurrency: 1, ..Config::default() }).await;
    let slow = "SELECT count(*) FROM generate_series(1, 100000) AS a CROSS JOIN generate_series(1, 100000) AS b \
        WHERE (a.value * b.value) % 7 = 3";
    let ask = |sql: &str, timeout_ms: u64| {
        let request = SqlRequest { sql: sql.to_owned(), timeout_ms: Some(timeout_ms), ..SqlRequest::default() };
        let query = world.query.clone();
        async move { query.sql(request).await.map_err(|error| error.kind) }
    };
    // polled in this order: the first takes the only place
    let (ran, gave_up, waited) = tokio::join!(biased; ask(slow, 1_000), ask("SELECT 1", 100), ask("SELECT 1", 30_000));
    assert_eq!(ran.err().as_deref(), Some("timeout"));
    assert_eq!(gave_up.err().as_deref(), Some("overloaded"));
    assert_eq!(waited.map(|answer| answer.rows.len()), Ok(1));
}

#[tokio::test]
async fn http_says_what_is_wrong() {
    let world = World::new().await;
    for (body, status) in [
        (r#"{"sql": "DROP TABLE requests"}"#, StatusCode::FORBIDDEN),
        (r#"{"sql": "SELECT"}"#, StatusCode::BAD_REQUEST),
        ("SELECT 1", StatusCode::BAD_REQUEST),
    ] {
        let request = Request::post("/api/v1/sql").body(Body::from(body)).expect("a request");
        let response = world.query.router().oneshot(request).await.expect("an answer");
        assert_eq!(response.status(), status, "{body}");
        let body = axum::body::to_bytes(response.into_body(), 1 << 16).await.expect("a body");
        let error: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert!(error["error"]["kind"].is_string() && error["error"]["message"].is_string(), "{error}");
    }
}
