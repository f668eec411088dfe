//! Answers as they come: batch for batch, bounded, and gone when nobody reads them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arrow::datatypes::{DataType, TimeUnit};
use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode, header},
};
use futures::{StreamExt, TryStreamExt};
use serde_json::json;
use telemetry::{contract::SqlRequest, table::REQUESTS};
use tower::ServiceExt;

use super::{stopping::until_idle, world::World};
use crate::{Config, reader::Reader};

const ENDLESS: &str =
    "SELECT a.value AS x FROM generate_series(1, 1000000) AS a CROSS JOIN generate_series(1, 1000000) AS b";

fn request(sql: &str) -> SqlRequest {
    SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() }
}

fn local() -> Arc<Reader> {
    Arc::new(Reader::local())
}

/// Rows are there long before the last one, and who goes away gives back the place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_before_the_end_and_end_with_their_reader() {
    let world = World::with(Config { concurrency: 2, ..Config::default() }).await;
    let opened = world.query.engine.open(request(ENDLESS), &local()).await.expect("under way");
    assert_eq!(opened.schema.field(0).name(), "x");
    let listed = world.rows(&format!("SELECT phase, front FROM system.queries WHERE id = {}", opened.id)).await;
    assert_eq!(listed, [[json!("executing"), json!("process")]]);
    let mut rows = opened.batches;
    assert!(rows.next().await.is_some_and(|batch| batch.is_ok_and(|batch| batch.num_rows() > 0)));
    drop(rows);
    until_idle(&world).await;
    let outcome = format!("SELECT outcome, rows > 0 FROM system.audit WHERE sql = '{ENDLESS}'");
    assert_eq!(world.rows(&outcome).await, [[json!("abandoned"), json!(true)]]);
}

/// The most rows is a bound of streams too.
#[tokio::test]
async fn rows_are_cut_where_they_are_to_be() {
    let world = World::new().await;
    let sql = "SELECT value FROM generate_series(1, 20000)";
    for (max_rows, rows, truncated) in [(Some(10_000), 10_000, true), (Some(20_000), 20_000, false), (Some(0), 0, true)]
    {
        let asked = SqlRequest { max_rows, ..request(sql) };
        let mut opened = world.query.engine.open(asked, &local()).await.expect("under way");
        let mut seen = 0;
        while let Some(batch) = opened.batches.next().await {
            seen += batch.expect("rows").num_rows();
        }
        assert_eq!((seen, opened.batches.truncated()), (rows, truncated));
        assert!(opened.batches.next().await.is_none());
    }
}

/// Whoever stops reading without going away is held to the deadline all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stands_still_is_cut_off() {
    let world = World::new().await;
    let asked = SqlRequest { timeout_ms: Some(300), ..request(ENDLESS) };
    let mut opened = world.query.engine.open(asked, &local()).await.expect("under way");
    until_idle(&world).await;
    let mut last = None;
    while let Some(batch) = opened.batches.next().await {
        last = batch.err();
    }
    assert_eq!(last.map(|error| error.kind).as_deref(), Some("timeout"));
}

/// What a statement would answer is known without running it, whatever its parameters.
#[tokio::test]
async fn a_statement_is_described_without_running() {
    let world = World::new().await;
    let sql =
        "SELECT time, ttft_s, output_tokens + $2 AS more FROM requests WHERE time > $1 AND region = $region LIMIT 5";
    let described = world.query.engine.describe(&request(sql), &local()).await.expect("described");
    let kinds: Vec<_> = described.schema.fields().iter().map(|field| field.data_type().clone()).collect();
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    assert_eq!(kinds, [time.clone(), DataType::Float64, DataType::Int64]);
    assert_eq!(described.columns[1].unit.as_deref(), Some("s"));
    let names: Vec<_> = described.parameters.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["1", "2", "region"]);
    assert_eq!(described.parameters[0].1, Some(time));
    // no table was ever written, and nothing was read
    let ran = SqlRequest {
        params: BTreeMap::from([
            ("1".to_owned(), json!("2026-11-29T12:00:00Z")),
            ("2".to_owned(), json!(1)),
            ("region".to_owned(), json!("eu-west-1")),
        ]),
        ..request(sql)
    };
    let opened = world.query.engine.open(ran.clone(), &local()).await.expect("under way");
    assert_eq!(opened.schema.fields().len(), described.schema.fields().len());
    let wrong = SqlRequest { params: BTreeMap::from([("1".to_owned(), json!("yesterday"))]), ..ran };
    let error = world.query.engine.describe(&wrong, &local()).await.err().expect("refused");
    assert!(error.kind == "invalid" && error.message.contains("$1"), "{error:?}");
    let error = world.query.engine.describe(&request("DROP TABLE requests"), &local()).await.err().expect("refused");
    assert_eq!(error.kind, "denied");
    let refused = "SELECT count(*) FROM system.audit WHERE outcome = 'denied'";
    assert_eq!(world.rows(refused).await, [[json!(1)]]);
}

/// A time without a zone is read in the one that the session asks for.
#[tokio::test]
async fn times_are_read_in_the_zone_asked_for() {
    let world = World::new().await;
    let row = json!({"time": "2026-11-29T12:00:00Z", "region": "r", "model": "m", "measured_at": "server"});
    world.write(&REQUESTS, &[row]).await;
    let sql = "SELECT count(*) FROM requests WHERE time = CAST('2026-11-29 21:00:00' AS TIMESTAMPTZ)";
    for (zone, count) in [(None, 0), (Some("Asia/Tokyo"), 1)] {
        let asked = SqlRequest { time_zone: zone.map(str::to_owned), ..request(sql) };
        let answer = world.query.engine.run(asked, &local()).await.map(crate::answer::json).expect("an answer");
        assert_eq!(answer.rows, [[json!(count)]], "{zone:?}");
    }
    let asked = SqlRequest { time_zone: Some("Mars/Olympus".to_owned()), ..request(sql) };
    assert_eq!(world.query.engine.run(asked, &local()).await.err().map(|error| error.kind).as_deref(), Some("invalid"));
}

fn post(sql: &str, accept: &str) -> Request<Body> {
    let body = json!({"sql": sql}).to_string();
    Request::post("/api/v1/sql").header(header::ACCEPT, accept).body(Body::from(body)).expect("a request")
}

/// A long answer is sent while it is made; a short one says whether it was cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_streams_what_is_long() {
    let world = World::with(Config { max_rows: usize::MAX, ..Config::default() }).await;
    for accept in ["application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream"] {
        let response = world.query.router().oneshot(post("SELECT 1 AS one", accept)).await.expect("an answer");
        assert_eq!(response.headers()["x-tokenwatt-truncated"], "false");
        let response = world.query.router().oneshot(post(ENDLESS, accept)).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        assert!(!response.headers().contains_key("x-tokenwatt-truncated"));
        let id = response.headers()["x-tokenwatt-query"].to_str().expect("text").to_owned();
        let mut pieces = response.into_body().into_data_stream();
        for _ in 0..3 {
            assert!(!pieces.next().await.expect("more").expect("bytes").is_empty(), "{accept}");
        }
        assert_eq!(world.rows(&format!("SELECT tokenwatt_cancel({id})")).await, [[json!(true)]]);
        // What is cut short ends as an error, not as an end.
        let rest =
            tokio::time::timeout(Duration::from_secs(600), pieces.try_collect::<Vec<_>>()).await.expect("an end");
        assert!(rest.is_err(), "{accept}");
        until_idle(&world).await;
    }
}

/// What goes wrong before the first bytes has a status.
#[tokio::test]
async fn http_says_early_what_is_wrong() {
    let world = World::new().await;
    let sql =
        "SELECT CAST(CASE WHEN value = 9000 THEN 'x' ELSE '1' END AS INT) FROM generate_series(1, 9000) AS t(value)";
    let response = world.query.router().oneshot(post(sql, "text/csv")).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let body = to_bytes(response.into_body(), 1 << 16).await.expect("a body");
    assert!(String::from_utf8_lossy(&body).contains("error"), "{body:?}");
}
