//! Tables, versions, formats, limits.

use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};
use telemetry::{
    contract::{QueryApi, SqlRequest},
    table::{REQUESTS, TOKENS},
};
use tower::ServiceExt;

use super::world::{NOON, World};

fn call(at_us: i64, place: &str, trace: &str, span: &str) -> Value {
    json!({
        "time": at_us, "region": "eu-west-1", "model": "m", "measured_at": place, "trace_id": trace, "span_id": span,
        "ttft_s": 0.25, "e2e_s": 2.0, "output_tokens": 10, "status": "ok", "attributes": {"k": "v"},
    })
}

/// An answer carries rows, units, versions and how fresh it is.
#[tokio::test]
async fn an_answer_says_what_it_is() {
    let world = World::new().await;
    let version = world.write(&REQUESTS, &[call(NOON, "server", "a", "1")]).await;
    let answer = world.ask("SELECT time, region, ttft_s, attributes FROM requests").await;
    assert_eq!(
        answer.rows,
        [[json!("2026-11-29T12:00:00.000000Z"), json!("eu-west-1"), json!(0.25), json!({"k": "v"})]]
    );
    let kinds: Vec<_> = answer.columns.iter().map(|column| column.kind.as_str()).collect();
    assert_eq!(kinds, ["TIMESTAMP", "STRING", "DOUBLE", "MAP<STRING,STRING>"]);
    assert_eq!(answer.columns[2].unit.as_deref(), Some("s"));
    assert_eq!(answer.version["requests"], version);
    assert_eq!(answer.freshness.map(|fresh| fresh.newest_time_us), Some(NOON));
    assert!(!answer.truncated);
}

/// A unit survives what keeps it, and no more.
#[tokio::test]
async fn units_follow_columns_through_a_query() {
    let world = World::new().await;
    let sql = "WITH t AS (SELECT model, ttft_s AS wait FROM ttft) \
        SELECT model, approx_percentile_cont(0.99) WITHIN GROUP (ORDER BY wait) AS p99, max(wait) AS worst, sum(wait) * 2 AS odd, \
        count(*) AS n FROM t GROUP BY model";
    let units: Vec<_> = world.ask(sql).await.columns.into_iter().map(|column| column.unit).collect();
    assert_eq!(units, [None, Some("s".to_owned()), Some("s".to_owned()), None, None]);
    let unit = |answer: telemetry::contract::SqlAnswer| answer.columns[0].unit.clone();
    assert_eq!(unit(world.ask("SELECT usd_per_hour FROM cost_per_region").await).as_deref(), Some("USD/h"));
}

/// A version is a promise: rows committed later are not in it.
#[tokio::test]
async fn a_pinned_version_does_not_move() {
    let world = World::new().await;
    let first = world.write(&REQUESTS, &[call(NOON, "server", "a", "1")]).await;
    let second = world.write(&REQUESTS, &[call(NOON + 1, "server", "b", "2")]).await;
    let count = format!("SELECT count(*) FROM requests VERSION AS OF {first}");
    assert_eq!(world.rows(&count).await, [[json!(1)]]);
    assert_eq!(world.rows("SELECT count(*) FROM requests").await, [[json!(2)]]);
    let both = format!(
        "SELECT new.span_id FROM requests AS new LEFT ANTI JOIN requests VERSION AS OF {first} AS old ON new.span_id = old.span_id"
    );
    let answer = world.ask(&both).await;
    assert_eq!(answer.rows, [[json!("2")]]);
    assert_eq!(answer.version[&format!("requests@{first}")], first);
    assert_eq!(answer.version["requests"], second);
    let error = world.try_ask("SELECT * FROM requests VERSION AS OF 99").await.expect_err("no such version");
    assert!(error.message.contains("99"), "{error:?}");
    let error = world.try_ask("SELECT * FROM calls VERSION AS OF 1").await.expect_err("a view");
    assert!(error.message.contains("view"), "{error:?}");
}

/// Versions beside the statement hold below views too, so that a page's figures can be asked for again as they were.
#[tokio::test]
async fn versions_beside_a_statement_hold_below_its_views() {
    let world = World::new().await;
    world.write(&REQUESTS, &[call(NOON, "server", "a", "1")]).await;
    let sql = "SELECT count(*) FROM calls";
    let then = world.ask(sql).await;
    world.write(&REQUESTS, &[call(NOON + 1, "server", "b", "2")]).await;
    assert_eq!(world.rows(sql).await, [[json!(2)]]);
    let at = |version| SqlRequest { sql: sql.to_owned(), version, ..SqlRequest::default() };
    let again = world.query.sql(at(then.version.clone())).await.expect("the versions of then");
    assert_eq!((again.rows, again.version), (vec![vec![json!(1)]], then.version));
    let before = world.query.sql(at([("requests".to_owned(), -1)].into())).await.expect("before anything was written");
    assert_eq!(before.rows, [[json!(0)]]);
    for (name, version, words) in [("calls", 1, "no table"), ("requests", -2, "from 0 on"), ("requests", 99, "99")] {
        let error = world.query.sql(at([(name.to_owned(), version)].into())).await.expect_err(words);
        assert!(error.message.contains(words), "{error:?}");
    }
}

/// Files outside the stretch of time are not opened, even below a view.
#[tokio::test]
async fn a_stretch_of_time_reads_only_its_files() {
    let world = World::new().await;
    for minutes in [0, 60, 120] {
        let at = NOON + minutes * 60_000_000;
        let token = |index: i64| json!({"time": at + index, "trace_id": "a", "request_span_id": "1", "choice": 0, "index": index, "count": 1});
        world.write(&TOKENS, &[token(0), token(1)]).await;
    }
    let range = "time >= TIMESTAMP '2026-11-29T12:59:00Z' AND time < TIMESTAMP '2026-11-29T13:30:00Z'";
    for from in ["tokens", "token_gaps"] {
        let plan = world.rows(&format!("EXPLAIN SELECT count(*) FROM {from} WHERE {range}")).await;
        let text = serde_json::to_string(&plan).expect("text");
        assert_eq!(text.matches(".parquet").count(), 1, "{text}");
        assert_eq!(world.rows(&format!("SELECT count(*) FROM {from} WHERE {range}")).await, [[json!(2)]]);
    }
}

/// Of the rows that three places wrote about one call, the nearest to the engine counts, within its own span of time.
#[tokio::test]
async fn a_call_is_counted_once() {
    let world = World::new().await;
    world
        .write(
            &REQUESTS,
            &[
                call(NOON, "client", "a", "1"),
                call(NOON + 1_000, "gateway", "a", "2"),
                call(NOON + 2_000, "server", "a", "3"),
                // the same trace asks again a minute later, and no nearer row was kept of that
                call(NOON + 60_000_000, "client", "a", "4"),
                call(NOON, "gateway", "b", "5"),
            ],
        )
        .await;
    let spans = world.rows("SELECT span_id FROM calls ORDER BY span_id").await;
    assert_eq!(spans, [[json!("3")], [json!("4")], [json!("5")]]);
    assert_eq!(world.rows("SELECT count(*) FROM ttft WHERE measured_at = 'client'").await, [[json!(2)]]);
    assert_eq!(world.rows("SELECT count(*) FROM calls WHERE trace_id = 'a'").await, [[json!(2)]]);
}

/// Every view can be planned and read, and begins with when, where and what.
#[tokio::test]
async fn every_view_begins_with_time_region_model() {
    let world = World::new().await;
    for view in crate::views::VIEWS {
        let answer = world.ask(&format!("SELECT * FROM {}", view.name)).await;
        let names: Vec<_> = answer.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names[..3], ["time", "region", "model"], "{}", view.name);
        for column in view.columns {
            assert!(names.contains(&column.name), "{} declares {} but does not have it", view.name, column.name);
        }
    }
    let listed = world.rows("SHOW TABLES").await;
    assert_eq!(listed[0][2], json!("calls"));
    assert!(!world.rows("DESCRIBE calls").await.is_empty());
    assert!(!world.rows("SELECT * FROM information_schema.columns WHERE table_name = 'requests'").await.is_empty());
}

#[tokio::test]
async fn the_lake_describes_itself() {
    let world = World::new().await;
    world.write(&REQUESTS, &[call(NOON, "server", "a", "1")]).await;
    let rows = world
        .rows("SELECT \"table\", files, rows, newest_time FROM system.freshness WHERE \"table\" = 'requests'")
        .await;
    assert_eq!(rows, [[json!("requests"), json!(1), json!(1), json!("2026-11-29T12:00:00.000000Z")]]);
    assert_eq!(world.rows("SELECT count(*) FROM system.files WHERE \"table\" = 'requests'").await, [[json!(1)]]);
}

async fn post(world: &World, accept: &str, body: Value) -> (StatusCode, Vec<u8>) {
    let request = Request::post("/api/v1/sql")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, accept)
        .body(Body::from(body.to_string()))
        .expect("a request");
    let response = world.query.router().oneshot(request).await.expect("an answer");
    let status = response.status();
    (status, to_bytes(response.into_body(), usize::MAX).await.expect("a body").to_vec())
}

/// `POST /api/v1/sql` answers in the form asked for.
#[tokio::test]
async fn http_answers_in_every_form() {
    let world = World::new().await;
    world.write(&REQUESTS, &[call(NOON, "server", "a", "1"), call(NOON + 1, "server", "b", "2")]).await;
    let ask = json!({"sql": "SELECT span_id, output_tokens FROM requests WHERE time >= $from AND output_tokens = $n ORDER BY span_id",
        "params": {"from": "2026-11-29T12:00:00Z", "n": 10}});
    let (status, body) = post(&world, "application/json", ask.clone()).await;
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((status, &answer["rows"]), (StatusCode::OK, &json!([["1", 10], ["2", 10]])), "{answer}");
    assert_eq!(
        answer["columns"][1],
        json!({"name": "output_tokens", "type": "BIGINT", "unit": "{token}",
        "comment": "generated tokens, reasoning ones included"})
    );
    let (_, csv) = post(&world, "text/csv", ask.clone()).await;
    assert_eq!(String::from_utf8(csv).expect("text"), "span_id,output_tokens\r\n1,10\r\n2,10\r\n");
    let (_, lines) = post(&world, "application/x-ndjson", ask.clone()).await;
    assert_eq!(String::from_utf8(lines).expect("text").lines().next(), Some(r#"{"output_tokens":10,"span_id":"1"}"#));
    let (_, parquet) = post(&world, "application/vnd.apache.parquet", ask.clone()).await;
    assert_eq!(&parquet[..4], b"PAR1");
    let (_, stream) = post(&world, "application/vnd.apache.arrow.stream", ask).await;
    let mut reader = arrow::ipc::reader::StreamReader::try_new(stream.as_slice(), None).expect("a stream");
    let meaning = |key: &str| reader.schema().field(1).metadata().get(key).cloned();
    assert_eq!(meaning("unit").as_deref(), Some("{token}"));
    assert_eq!(meaning("comment").as_deref(), Some("generated tokens, reasoning ones included"));
    assert_eq!(reader.next().expect("a batch").expect("readable").num_rows(), 2);
}

/// A link to a statement is answered as a file, but not for pages of other sites.
#[tokio::test]
async fn a_link_is_answered_as_a_file() {
    let world = World::new().await;
    let version = world.write(&REQUESTS, &[call(NOON, "server", "a", "1")]).await;
    world.write(&REQUESTS, &[call(NOON + 1, "server", "b", "2")]).await;
    let get = |format: &str, site: &str| {
        let link = format!("/api/v1/sql?q=SELECT+span_id+FROM+calls&v=requests:{version}&format={format}");
        let request = Request::get(link).header("sec-fetch-site", site).body(Body::empty()).expect("a request");
        world.query.router().oneshot(request)
    };
    let answer = get("csv", "same-origin").await.expect("an answer");
    assert!(answer.headers()[header::CONTENT_DISPOSITION].to_str().is_ok_and(|name| name.contains("tokenwatt.csv")));
    let csv = to_bytes(answer.into_body(), usize::MAX).await.expect("a body");
    assert_eq!(&csv[..], b"span_id\r\n1\r\n", "at the version that the link names");
    let parquet = get("parquet", "none").await.expect("an answer").into_body();
    assert_eq!(&to_bytes(parquet, usize::MAX).await.expect("a body")[..4], b"PAR1");
    assert_eq!(get("csv", "cross-site").await.expect("an answer").status(), StatusCode::FORBIDDEN);
    assert_eq!(get("xls", "none").await.expect("an answer").status(), StatusCode::BAD_REQUEST);
}

/// Rows past the limit are cut, and the answer says so.
#[tokio::test]
async fn a_cut_answer_says_so() {
    let world = World::with(crate::Config { max_rows: 3, ..crate::Config::default() }).await;
    let answer = world.ask("SELECT * FROM generate_series(1, 10)").await;
    assert_eq!((answer.rows.len(), answer.truncated), (3, true));
    let answer = world.ask("SELECT * FROM generate_series(1, 3)").await;
    assert_eq!((answer.rows.len(), answer.truncated), (3, false));
}

/// The first rows of a union come in the order that was asked for, also by a column that is a constant of each branch.
#[tokio::test]
async fn the_first_rows_of_a_union_are_the_first_of_all() {
    let world = World::new().await;
    let late = |at: i64, trace: &str| call(NOON + at * 1_000_000, "server", trace, "1");
    world.write(&REQUESTS, &[late(0, "a"), late(1, "b")]).await;
    world
        .write(
            &TOKENS,
            &[json!({"time": NOON + 9_000_000, "trace_id": "t", "request_span_id": "1", "index": 0, "count": 1})],
        )
        .await;
    let branches = "SELECT trace_id, time, 0 AS place FROM requests UNION ALL SELECT trace_id, time, 1 FROM tokens";
    for (sql, first) in [
        (format!("SELECT trace_id FROM ({branches}) ORDER BY place, time DESC LIMIT 1"), json!("b")),
        (format!("SELECT trace_id FROM ({branches}) ORDER BY place DESC, time LIMIT 1"), json!("t")),
        (
            "SELECT t FROM (SELECT 1 AS place, value AS t FROM generate_series(1, 5) UNION ALL SELECT 0, value FROM generate_series(1, 3)) \
             ORDER BY place, t DESC LIMIT 1"
                .to_owned(),
            json!(3),
        ),
    ] {
        assert_eq!(world.ask(&sql).await.rows[0], [first], "{sql}");
    }
}
