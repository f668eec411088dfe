//! Statements that are out for something else than an answer: each is refused, or bounded, with words; and others are answered
//! meanwhile.

use serde_json::json;
use telemetry::contract::{ApiError, QueryApi, SqlRequest};

use super::{stopping::until_idle, world::World};
use crate::Config;

/// Files, networks, settings, writing: nothing of it exists here.
const FORBIDDEN: &[&str] = &[
    "SELECT * FROM read_parquet('/etc/passwd')",
    "SELECT * FROM parquet_scan('s3://bucket/x.parquet')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_json('http://169.254.169.254/latest/meta-data')",
    "SELECT * FROM glob('/**')",
    "SELECT * FROM 's3://bucket/x.parquet'",
    "SELECT * FROM \"s3://bucket/x.parquet\"",
    "SELECT * FROM 'file:///etc/passwd'",
    "SELECT * FROM \"/proc/self/environ\"",
    "SELECT * FROM \"../requests/date=2026-11-29/test-0-1.parquet\"",
    "SELECT * FROM 'http://169.254.169.254/latest/meta-data'",
    "SELECT * FROM lake.tables.requests",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT load_extension('x')",
    "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 's3://bucket/x'",
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TEMPORARY TABLE t (x INT)",
    "CREATE VIEW requests AS SELECT 1",
    "CREATE SCHEMA s",
    "CREATE DATABASE d",
    "CREATE FUNCTION f() RETURNS INT RETURN 1",
    "CREATE EXTENSION x",
    "SELECT 1 INTO t",
    "COPY requests TO '/tmp/tokenwatt-must-not-exist.csv'",
    "COPY (SELECT 1) TO '/tmp/tokenwatt-must-not-exist.csv'",
    "COPY requests TO PROGRAM 'sh -c id'",
    "COPY requests FROM '/etc/passwd'",
    "EXPLAIN COPY (SELECT 1) TO '/tmp/tokenwatt-must-not-exist.csv'",
    "INSERT INTO requests (region) VALUES ('x')",
    "WITH x AS (INSERT INTO requests (region) VALUES ('x') RETURNING region) SELECT * FROM x",
    "DELETE FROM requests",
    "UPDATE requests SET tenant = 'acme'",
    "MERGE INTO requests USING tokens ON true WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE requests",
    "ALTER TABLE requests ADD COLUMN x INT",
    "DROP TABLE requests",
    "DROP VIEW calls",
    "GRANT ALL ON requests TO acme",
    "VACUUM",
    "SET datafusion.runtime.memory_limit = '100G'",
    "SET datafusion.execution.target_partitions = 1000000",
    "SET ROLE admin",
    "RESET ALL",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DEALLOCATE p",
    "BEGIN",
    "COMMIT",
    "CALL tokenwatt_cancel(1)",
    "ATTACH DATABASE 'x' AS y",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SHOW ALL; SELECT 1",
    "SELECT 1; DROP TABLE requests",
    "SELECT 1 -- \n; DROP TABLE requests",
];

/// Statements that are short and mean much: a plan that doubles with every step, work without end, memory without end.
fn bombs() -> Vec<String> {
    let chain = |first: &str, step: fn(usize) -> String, last: &str| {
        let steps: Vec<String> = (1..=40).map(|at| format!("a{at} AS ({})", step(at - 1))).collect();
        format!("WITH a0 AS ({first}), {} {last}", steps.join(", "))
    };
    let numbers = "SELECT value AS x FROM generate_series(1, 2)";
    let pairs = "generate_series(1, 1000000) AS a CROSS JOIN generate_series(1, 1000000) AS b";
    let cube = (0..24).map(|at| format!("value + {at}")).collect::<Vec<_>>().join(", ");
    vec![
        chain(numbers, |at| format!("SELECT * FROM a{at} UNION ALL SELECT * FROM a{at}"), "SELECT count(*) FROM a40"),
        chain(numbers, |at| format!("SELECT l.x FROM a{at} AS l JOIN a{at} AS r ON l.x = r.x"), "SELECT count(*) FROM a40"),
        chain(numbers, |at| format!("SELECT x + x AS x FROM a{at}"), "SELECT x FROM a40 WHERE x > 0"),
        chain(numbers, |at| format!("SELECT x FROM a{at} WHERE x IN (SELECT x FROM a{at})"), "SELECT count(*) FROM a40"),
        format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000)),
        format!("SELECT {}1{}", "abs(".repeat(10_000), ")".repeat(10_000)),
        format!("SELECT {}", vec!["1 = 1"; 10_000].join(" OR ")),
        format!("SELECT {}1", "NOT ".repeat(10_000)),
        format!("SELECT {}1", "- ".repeat(10_000)),
        format!("SELECT 1 {}", "UNION SELECT 1 ".repeat(10_000)),
        format!("SELECT * FROM {}generate_series(1, 2){}", "(SELECT * FROM ".repeat(1_000), ") AS t".repeat(1_000)),
        format!("SELECT count(*) FROM generate_series(1, 9) AS t(value) GROUP BY CUBE({cube})"),
        "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n".to_owned(),
        "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT l.x FROM n AS l, n AS r) SELECT count(*) FROM n".to_owned(),
        format!("SELECT count(*) FROM {pairs}"),
        format!("SELECT a.value FROM {pairs} ORDER BY a.value % 1000003, b.value"),
        "SELECT count(*) FROM generate_series(1, 9223372036854775807)".to_owned(),
        "SELECT array_agg(value) FROM generate_series(1, 1000000000)".to_owned(),
        "SELECT string_agg(repeat('x', 1000), '') FROM generate_series(1, 1000000000)".to_owned(),
        "SELECT generate_series(1, 1000000000000)".to_owned(),
        "SELECT regexp_like(repeat('a', 100000), '((((a{1,100}){1,100}){1,100}){1,100})')".to_owned(),
        "SELECT repeat('a', 100000) ~ '((a{1000}){1000}){1000}'".to_owned(),
        "SELECT count(*) FROM generate_series(1, 10000000) AS t(value) WHERE repeat('a', 20000 + value * 0) ~ '(a?){20}(b?){20}a{20}c'".to_owned(),
        "SELECT sum(length(repeat(repeat('x', 1000), 1000))) FROM generate_series(1, 100000000)".to_owned(),
        "SELECT CAST(repeat('9', 100000) AS DECIMAL(38, 0))".to_owned(),
        "SELECT count(*) FROM requests AS a, requests AS b, requests AS c, generate_series(1, 1000000) AS d, generate_series(1, 1000000) AS e"
            .to_owned(),
    ]
}

async fn ask(world: &World, sql: &str, timeout_ms: u64) -> Result<usize, ApiError> {
    let request = SqlRequest { sql: sql.to_owned(), timeout_ms: Some(timeout_ms), ..SqlRequest::default() };
    world.query.sql(request).await.map(|answer| answer.rows.len())
}

#[tokio::test]
async fn nothing_leads_out_of_the_lake() {
    let world = World::new().await;
    for sql in FORBIDDEN {
        let error = world.try_ask(sql).await.expect_err(sql);
        assert!(["denied", "invalid"].contains(&error.kind.as_str()), "{sql}: {error:?}");
        assert!(!error.message.is_empty() && !error.message.contains("root:"), "{sql}: {error:?}");
    }
    assert!(!std::path::Path::new("/tmp/tokenwatt-must-not-exist.csv").exists());
    let sql = "SELECT count(*) FROM system.audit WHERE outcome IN ('denied', 'invalid') AND rows = 0";
    assert_eq!(world.rows(sql).await, [[json!(FORBIDDEN.len())]]);
}

/// While each of them runs, others are answered; then it ends, and all it held is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bombs_hurt_nobody() {
    let world = World::with(Config { spill_bytes_max: 1 << 30, ..Config::default() }).await;
    for sql in bombs() {
        let shown = sql.get(..120).unwrap_or(&sql);
        let (outcome, other) = tokio::join!(ask(&world, &sql, 1_500), world.rows("SELECT 1 + 1"));
        assert_eq!(other, [[json!(2)]], "{shown}");
        match outcome {
            // bounded by itself: the answer is small
            Ok(rows) => assert!(rows <= 2, "{shown}: {rows}"),
            Err(error) => {
                let is_clear = ["too_large", "timeout", "invalid"].contains(&error.kind.as_str());
                assert!(is_clear && !error.message.is_empty(), "{shown}: {error:?}");
            }
        }
        until_idle(&world).await;
    }
}

/// What a plan may read is known before it reads, and refused with the estimate.
#[tokio::test]
async fn what_would_read_too_much_is_refused_before_it_reads() {
    use telemetry::table::REQUESTS;
    let row = |at: i64| json!({"time": super::world::NOON + at, "region": "r", "model": "m", "measured_at": "server"});
    for (config, setting) in [
        (Config { scan_files_max: 2, ..Config::default() }, "query.scan_files_max"),
        (Config { scan_bytes_max: 1_000, ..Config::default() }, "query.scan_bytes_max"),
    ] {
        let world = World::with(config).await;
        for at in 0..3 {
            world.write(&REQUESTS, &[row(at)]).await;
        }
        let error = world.try_ask("SELECT max(time) FROM requests").await.expect_err("too much");
        assert_eq!(error.kind, "too_large");
        assert!(error.message.contains("3 files") && error.message.contains(setting), "{error:?}");
        assert!(world.try_ask("SELECT max(time) FROM calls").await.is_err());
        let one = format!("SELECT count(*) FROM requests WHERE time = to_timestamp_micros({})", super::world::NOON);
        assert!(setting.contains("bytes") || world.try_ask(&one).await.is_ok());
        assert!(world.try_ask("EXPLAIN SELECT max(time) FROM requests").await.is_ok());
    }
}
