//! A reader sees its own rows and no trace of any other, whatever it asks and however.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use serde_json::{Value, json};
use service::principal::{Principal, Principals, Role, new_token, require};
use telemetry::{
    contract::{ApiError, SqlAnswer, SqlRequest},
    table::{DEVICES, PRICES, REQUESTS, TABLES, TOKENS, USAGE_1H},
};
use tower::ServiceExt;

use super::world::{NOON, World};
use crate::{Config, answer, reader::Reader, views::VIEWS};

const SECOND: i64 = 1_000_000;

/// A reader with a name, bound to these.
fn reader(name: &str, tenants: &[&str], regions: &[&str], infrastructure: Option<bool>) -> Arc<Reader> {
    Arc::new(Reader::of(&principal(name, tenants, regions, infrastructure)))
}

fn principal(name: &str, tenants: &[&str], regions: &[&str], infrastructure: Option<bool>) -> Principal {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Principal {
        name: name.to_owned(),
        role: Role::Reader,
        token_sha256: None,
        scram: None,
        expires: None,
        certificate: None,
        tenants: list(tenants),
        regions: list(regions),
        infrastructure,
        items_per_s: None,
        bytes_per_s: None,
        burst_s: 10,
    }
}

fn acme() -> Arc<Reader> {
    reader("acme", &["acme"], &["*"], None)
}

fn dublin() -> Arc<Reader> {
    reader("dublin", &["*"], &["eu-west-1"], None)
}

async fn ask(world: &World, reader: &Arc<Reader>, sql: &str) -> Result<SqlAnswer, ApiError> {
    let request = SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() };
    world.query.engine.run(request, reader).await.map(answer::json)
}

/// The rows, sorted: an answer without ORDER BY has no order.
async fn rows(world: &World, reader: &Arc<Reader>, sql: &str) -> Vec<String> {
    let answer = ask(world, reader, sql).await.unwrap_or_else(|error| panic!("{error:?} from {sql}"));
    let mut rows: Vec<String> = answer.rows.iter().map(|row| Value::Array(row.clone()).to_string()).collect();
    rows.sort();
    rows
}

fn request(index: i64, tenant: Option<&str>, region: Option<&str>) -> Value {
    let secret = format!("secret of {}", tenant.unwrap_or("nobody"));
    json!({
        "time": NOON + index * SECOND, "region": region, "model": "m", "measured_at": "server", "tenant": tenant, "host_id": "i-1",
        "host_type": "inf2.48xlarge", "instance": "i-1/0", "trace_id": format!("t{index}"), "span_id": format!("s{index}"),
        "ttft_s": 0.25, "e2e_s": 2.0, "input_tokens": 5, "output_tokens": 10, "status": "ok", "error_type": secret,
    })
}

fn token(index: i64, tenant: Option<&str>, region: Option<&str>) -> Value {
    json!({
        "time": NOON + index * SECOND, "region": region, "model": "m", "host_id": "i-1", "host_type": "inf2.48xlarge",
        "instance": "i-1/0", "trace_id": format!("t{index}"), "request_span_id": format!("s{index}"), "choice": 0, "index": 0, "count": 1,
        "device_us": 1_000_000, "tenant": tenant,
    })
}

fn engine(second: i64, busy_us: i64) -> Value {
    json!({
        "time": NOON + second * SECOND, "kind": "engine", "region": "eu-west-1", "model": "m", "host_id": "i-1",
        "host_type": "inf2.48xlarge", "instance": "i-1/0", "chips": 12, "busy_us": busy_us, "padding_us": 0,
    })
}

/// Whose calls there are: of two tenants and of nobody, in two regions and nowhere.
const CALLS: [(Option<&str>, Option<&str>); 6] = [
    (Some("acme"), Some("eu-west-1")),
    (Some("zeta"), Some("eu-west-1")),
    (Some("acme"), Some("us-east-1")),
    (Some("zeta"), Some("us-east-1")),
    (None, Some("eu-west-1")),
    (Some("acme"), None),
];

async fn fleet() -> World {
    let world = World::new().await;
    let each = |row: fn(i64, Option<&str>, Option<&str>) -> Value| -> Vec<Value> {
        (1..).zip(CALLS).map(|(index, (tenant, region))| row(index, tenant, region)).collect()
    };
    world.write(&REQUESTS, &each(request)).await;
    world.write(&TOKENS, &each(token)).await;
    world.write(&DEVICES, &[engine(-1, 0), engine(30, 10_000_000), engine(59, 12_000_000)]).await;
    let price = |region: &str| {
        json!({
            "time": 0, "effective_from": 0, "host_type": "inf2.48xlarge", "region": region, "option": "on_demand",
            "usd_per_hour": "16.0", "currency": "USD", "confidence": "published", "as_of": "2026-07-20", "source": "test",
        })
    };
    world.write(&PRICES, &[price("eu-west-1"), price("us-east-1")]).await;
    let usage = |tenant: &str| json!({"time": NOON, "region": "eu-west-1", "model": "m", "tenant": tenant});
    world.write(&USAGE_1H, &[usage("acme"), usage("zeta")]).await;
    world
}

/// Names of all tables and views, and their columns.
async fn names(world: &World) -> BTreeMap<String, Vec<String>> {
    let sql = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'";
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in world.rows(sql).await {
        let text = |index: usize| row[index].as_str().expect("a name").to_owned();
        names.entry(text(0)).or_default().push(text(1));
    }
    assert_eq!(names.len(), VIEWS.len() + TABLES.len());
    names
}

/// Of every table and view: a reader gets what everybody gets with a filter, or a denial that names it.
#[tokio::test]
async fn every_name_is_filtered_or_denied() {
    let world = fleet().await;
    let all = Arc::new(Reader::local());
    let mut rows_seen = 0;
    for (name, columns) in names(&world).await {
        let has = |column: &str| columns.iter().any(|known| known == column);
        let sql = format!("SELECT * FROM {name}");
        if has("tenant") {
            let seen = rows(&world, &acme(), &sql).await;
            assert_eq!(seen, rows(&world, &all, &format!("{sql} WHERE tenant IN ('acme')")).await, "{name}");
            assert!(seen.iter().all(|row| row.contains("acme") && !row.contains("zeta")), "{name}: {seen:?}");
            rows_seen += seen.len();
            let mut counted = rows(&world, &acme(), &format!("SELECT count(*) FROM {name}")).await;
            assert_eq!(counted.pop(), Some(format!("[{}]", seen.len())), "{name}");
        } else {
            let error = ask(&world, &acme(), &sql).await.expect_err(&name);
            assert_eq!(error.kind, "denied", "{name}: {error:?}");
            assert!(error.message.contains(&name), "{error:?}");
        }
        let filter = if has("region") { " WHERE region IN ('eu-west-1')" } else { "" };
        assert_eq!(rows(&world, &dublin(), &sql).await, rows(&world, &all, &format!("{sql}{filter}")).await, "{name}");
    }
    // of requests, tokens, calls, ttft, latency, token_gaps, usage_1h and the views of cost
    assert!(rows_seen > 20, "{rows_seen}");
}

/// The cost of a tenant's calls is its share of all work on the replica, not all of the replica's.
#[tokio::test]
async fn costs_are_shares_of_everything() {
    let world = fleet().await;
    let sql = "SELECT sum(cost_usd) FROM cost_per_tenant WHERE tenant = 'acme'";
    let (own, all) = (rows(&world, &acme(), sql).await, world.rows(sql).await);
    assert_eq!(own, [json!(all[0]).to_string()]);
    assert!(all[0][0].is_string(), "{all:?}");
    let whole = world.rows("SELECT sum(cost_usd) > 2 * (SELECT sum(cost_usd) FROM cost_per_tenant WHERE tenant = 'acme') FROM cost_per_tenant").await;
    assert_eq!(whole, [[json!(true)]]);
}

/// Infrastructure is seen where it is given, tenants stay bound.
#[tokio::test]
async fn infrastructure_is_a_right_of_its_own() {
    let world = fleet().await;
    let engineer = reader("engineer", &["acme"], &["*"], Some(true));
    assert_eq!(rows(&world, &engineer, "SELECT count(*) FROM devices").await, ["[3]"]);
    assert_eq!(rows(&world, &engineer, "SELECT count(*) FROM requests").await, ["[3]"]);
    let clerk = reader("clerk", &["*"], &["*"], Some(false));
    assert_eq!(rows(&world, &clerk, "SELECT count(*) FROM requests").await, ["[6]"]);
    for name in
        ["devices", "nodes", "collectors", "cost_per_region", "system.files", "system.freshness", "system.drops"]
    {
        let error = ask(&world, &clerk, &format!("SELECT * FROM {name}")).await.expect_err(name);
        assert_eq!((error.kind.as_str(), error.message.contains(name)), ("denied", true), "{error:?}");
    }
    // What tables have which columns is no secret.
    assert!(!rows(&world, &clerk, "DESCRIBE devices").await.is_empty());
}

/// Lists name what a reader may read and nothing else, whichever list it is.
#[tokio::test]
async fn lists_name_what_may_be_read() {
    let world = fleet().await;
    let all = Arc::new(Reader::local());
    let acme_in_dublin = reader("acme in dublin", &["acme"], &["eu-west-1"], None);
    let engineer = reader("engineer", &["acme"], &["*"], Some(true));
    let mut lengths = Vec::new();
    for reader in [&all, &acme(), &acme_in_dublin, &engineer] {
        let mut readable = Vec::new();
        for (schema, name) in listed(&world, &all).await {
            if ask(&world, reader, &format!("SELECT count(*) FROM {schema}.{name}")).await.is_ok() {
                readable.push((schema, name));
            }
        }
        assert_eq!(listed(&world, reader).await, readable, "{reader:?}");
        let of_columns =
            pairs(&world, reader, "SELECT DISTINCT table_schema, table_name FROM information_schema.columns").await;
        assert_eq!(of_columns, readable, "{reader:?}");
        let classes = "SELECT n.nspname, c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n \
                       ON n.oid = c.relnamespace WHERE n.nspname IN ('public', 'system')";
        assert_eq!(pairs(&world, reader, classes).await, readable, "{reader:?}");
        let views = pairs(&world, reader, "SELECT schemaname, viewname FROM pg_catalog.pg_views").await;
        assert!(views.iter().all(|view| readable.contains(view)), "{reader:?}: {views:?}");
        let shown = rows(&world, reader, "SHOW TABLES").await.len();
        assert!(shown >= readable.len(), "{reader:?}");
        lengths.push(readable.len());
    }
    assert_eq!(lengths[0], lengths[3]);
    assert!(lengths[0] > lengths[1] && lengths[1] >= lengths[2] && lengths[2] > 5, "{lengths:?}");
}

/// Schema and name of every table that the reader finds in a list, but those of `raw`, which are views of `public` again.
async fn listed(world: &World, reader: &Arc<Reader>) -> Vec<(String, String)> {
    let sql =
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema IN ('public', 'system')";
    pairs(world, reader, sql).await
}

async fn pairs(world: &World, reader: &Arc<Reader>, sql: &str) -> Vec<(String, String)> {
    let answer = ask(world, reader, sql).await.unwrap_or_else(|error| panic!("{error:?} from {sql}"));
    let text = |value: &Value| value.as_str().expect("a name").to_owned();
    let mut pairs: Vec<_> = answer.rows.iter().map(|row| (text(&row[0]), text(&row[1]))).collect();
    pairs.retain(|(schema, _)| schema == "public" || schema == "system");
    pairs.sort();
    pairs
}

/// What an answer says of the tables it was made from says nothing of what others do.
#[tokio::test]
async fn versions_and_freshness_are_of_what_may_be_read() {
    let world = fleet().await;
    let sql = "SELECT sum(cost_usd) FROM cost_per_tenant";
    let (own, whole) = (ask(&world, &acme(), sql).await.expect("an answer"), world.ask(sql).await);
    assert!(whole.version.contains_key("prices") && whole.version.contains_key("devices") && whole.freshness.is_some());
    assert_eq!(own.version.keys().collect::<Vec<_>>(), ["costs_1h", "requests", "tokens"]);
    assert!(own.freshness.is_none(), "the newest row may be anybody's");
    assert_eq!(own.version["requests"], whole.version["requests"]);
}

/// No way of asking leads around it.
#[tokio::test]
async fn there_is_no_way_around() {
    let world = fleet().await;
    let version = world.rows("SELECT version FROM system.freshness WHERE \"table\" = 'requests'").await[0][0].clone();
    for (sql, expected) in [
        ("SELECT count(*) FROM requests".to_owned(), "[3]"),
        ("SELECT count(*) FROM tokenwatt.public.requests".to_owned(), "[3]"),
        (
            "SELECT count(tenant), count(DISTINCT tenant), min(tenant), max(tenant) FROM requests".to_owned(),
            r#"[3,1,"acme","acme"]"#,
        ),
        ("SELECT count(*) FROM (SELECT * FROM requests UNION ALL SELECT * FROM requests)".to_owned(), "[6]"),
        ("WITH r AS (SELECT * FROM requests), s AS (SELECT * FROM r) SELECT count(*) FROM s".to_owned(), "[3]"),
        ("SELECT (SELECT count(*) FROM requests WHERE tenant <> 'acme')".to_owned(), "[0]"),
        (
            "SELECT count(*) FROM generate_series(1, 1) WHERE EXISTS (SELECT 1 FROM tokens WHERE tenant = 'zeta')"
                .to_owned(),
            "[0]",
        ),
        ("SELECT count(*) FROM requests WHERE tenant IS NULL OR true".to_owned(), "[3]"),
        ("SELECT count(*) FROM requests WHERE tenant = 'zeta' OR tenant = 'acme'".to_owned(), "[3]"),
        ("SELECT count(*) FROM requests AS a JOIN requests AS b ON a.model = b.model".to_owned(), "[9]"),
        ("SELECT count(*) FROM calls AS c JOIN requests AS r ON r.model = c.model".to_owned(), "[9]"),
        (format!("SELECT count(*) FROM requests VERSION AS OF {version}"), "[3]"),
        (format!("SELECT count(*) FROM \"requests@{version}\""), "[3]"),
        ("SELECT count(*) OVER () FROM requests LIMIT 1".to_owned(), "[3]"),
        ("SELECT count(*) FROM (SELECT * FROM requests ORDER BY time DESC LIMIT 4)".to_owned(), "[3]"),
        ("SELECT count(*) FROM requests WHERE trace_id = 't2'".to_owned(), "[0]"),
        ("SELECT count(*) FROM requests WHERE trace_id = 't1'".to_owned(), "[1]"),
    ] {
        assert_eq!(rows(&world, &acme(), &sql).await, [expected], "{sql}");
    }
    let request = SqlRequest {
        sql: "SELECT count(*) FROM requests WHERE tenant = $1 OR model = $model".to_owned(),
        params: BTreeMap::from([("1".to_owned(), json!("zeta")), ("model".to_owned(), json!("m"))]),
        ..SqlRequest::default()
    };
    let answer = world.query.engine.run(request, &acme()).await.map(answer::json).expect("an answer");
    assert_eq!(answer.rows, [[json!(3)]]);
}

/// An expression that fails on a row of others would quote it, so it never meets one.
#[tokio::test]
async fn errors_quote_nobody_else() {
    let world = fleet().await;
    for filter in [
        "CAST(error_type AS INT) > 0",
        "trace_id = 't2' AND CAST(error_type AS INT) > 0",
        "trace_id IN ('t1', 't2') AND CAST(error_type AS INT) > 0",
        "1 / (CASE WHEN tenant = 'zeta' THEN 0 ELSE 1 END) > 0",
        "arrow_cast(error_type, 'Int32') = 1",
    ] {
        for name in ["requests", "calls"] {
            let columns = if name == "calls" { "error_type" } else { "*" };
            let sql = format!("SELECT {columns} FROM {name} WHERE {filter}");
            let everybody = world.try_ask(&sql).await.err().map(|error| error.message).unwrap_or_default();
            if let Err(error) = ask(&world, &acme(), &sql).await {
                assert!(!error.message.contains("zeta") && !error.message.contains("nobody"), "{sql}: {error:?}");
                assert!(!error.message.to_lowercase().contains("zero"), "{sql}: {error:?}");
            }
            // Others are there to fail on.
            assert!(everybody.to_lowercase().contains("zero") || !filter.starts_with("1 /"), "{sql}: {everybody}");
        }
    }
}

/// What is kept for everybody (blocks of files, footers, what the log counts, the order of rows) shows nobody's rows to others: neither
/// after others have read them, nor where nothing but counts would have to be read.
#[tokio::test]
async fn what_is_kept_for_everybody_shows_nobody_elses_rows() {
    let world = World::remote(Config::default()).await;
    // In the table's order, others' rows first and last.
    let tenants = [Some("zeta"), Some("acme"), None, Some("acme"), Some("zeta"), Some("zeta")];
    let row = |(index, tenant): (i64, &Option<&str>)| token(index, *tenant, Some("eu-west-1"));
    let rows_of_all: Vec<Value> = (1..).zip(&tenants).map(row).collect();
    world.write_sorted(&TOKENS, &rows_of_all[..3]).await;
    world.write_sorted(&TOKENS, &rows_of_all[3..]).await;
    let (all, zeta) = (Arc::new(Reader::local()), reader("zeta", &["zeta"], &["*"], None));
    for (sql, of_all, of_acme, of_zeta) in [
        ("SELECT count(*) FROM tokens", "[6]", "[2]", "[3]"),
        ("SELECT count(host_id), count(tenant), count(DISTINCT tenant) FROM tokens", "[6,5,2]", "[2,2,1]", "[3,3,1]"),
        ("SELECT min(trace_id), max(trace_id) FROM tokens", r#"["t1","t6"]"#, r#"["t2","t4"]"#, r#"["t1","t6"]"#),
        ("SELECT trace_id FROM tokens ORDER BY trace_id LIMIT 1", r#"["t1"]"#, r#"["t2"]"#, r#"["t1"]"#),
        ("SELECT trace_id FROM tokens ORDER BY trace_id DESC LIMIT 1", r#"["t6"]"#, r#"["t4"]"#, r#"["t6"]"#),
        ("SELECT count(*) FROM (SELECT trace_id FROM tokens ORDER BY trace_id, choice LIMIT 3)", "[3]", "[2]", "[3]"),
        ("SELECT count(*) FROM tokens WHERE tenant IS NULL", "[1]", "[0]", "[0]"),
        ("SELECT count(*) FROM tokens WHERE trace_id = 't1'", "[1]", "[0]", "[1]"),
        ("SELECT count(*) FROM tokens WHERE trace_id < 't3'", "[2]", "[1]", "[1]"),
    ] {
        // Each once before and once after the others have read the same blocks.
        for _ in 0..2 {
            for (reader, expected) in [(&acme(), of_acme), (&all, of_all), (&zeta, of_zeta)] {
                assert_eq!(rows(&world, reader, sql).await, [expected], "{} asks {sql}", reader.name());
            }
        }
    }
    let found = |place| world.counted(&format!("tokenwatt_query_blocks_total{{found=\"{place}\"}}"));
    assert_eq!(found("store"), Some(2.0), "a block of each file, read once");
    assert!(found("memory") > Some(20.0), "{:?}", found("memory"));
}

/// A plan's text tells nothing of how many rows there are; its figures would.
#[tokio::test]
async fn plans_tell_no_figures() {
    let world = fleet().await;
    let plan = rows(&world, &acme(), "EXPLAIN SELECT count(*) FROM requests").await.join("\n");
    assert!(plan.contains("TableScan") && !plan.contains("parquet") && !plan.contains("zeta"), "{plan}");
    for sql in ["EXPLAIN ANALYZE SELECT count(*) FROM requests", "EXPLAIN VERBOSE SELECT count(*) FROM requests"] {
        let error = ask(&world, &acme(), sql).await.expect_err(sql);
        assert_eq!(error.kind, "denied", "{error:?}");
        assert!(world.try_ask(sql).await.is_ok(), "{sql}");
    }
}

/// What runs and what ran: one's own, and of everybody for who sees everything.
#[tokio::test]
async fn queries_of_others_are_not_listed() {
    let world = fleet().await;
    let secret = "SELECT 'a secret of zeta'";
    let zeta = reader("zeta", &["zeta"], &["*"], None);
    assert!(ask(&world, &zeta, secret).await.is_ok());
    assert!(ask(&world, &zeta, "SELECT * FROM devices").await.is_err());
    assert!(ask(&world, &zeta, "DROP TABLE requests").await.is_err());
    let endless = format!("{secret} FROM generate_series(1, 1000000) AS a CROSS JOIN generate_series(1, 1000000) AS b");
    let opened = world.query.engine.open(SqlRequest { sql: endless, ..SqlRequest::default() }, &zeta).await;
    let opened = opened.expect("under way");
    for sql in ["SELECT sql FROM system.queries", "SELECT sql FROM system.audit"] {
        let own = rows(&world, &acme(), sql).await.join("\n");
        assert!(!own.contains("zeta") && own.contains("system."), "{sql}: {own}");
        assert!(rows(&world, &zeta, sql).await.join("\n").contains("a secret of zeta"), "{sql}");
        let everybody = json!(world.ask(sql).await.rows).to_string();
        assert!(everybody.contains("a secret of zeta"), "{sql}: {everybody}");
    }
    let sql = "SELECT front, outcome, rows, sql FROM system.audit WHERE reader = 'zeta' ORDER BY time LIMIT 3";
    let ended = world.rows(sql).await;
    assert_eq!(ended[0], [json!("http"), json!("answered"), json!(1), json!(secret)]);
    assert_eq!(ended[1][1..], [json!("denied"), json!(0), json!("SELECT * FROM devices")]);
    assert_eq!(ended[2][1..], [json!("denied"), json!(0), json!("DROP TABLE requests")]);
    drop(opened);
}

/// One stops one's own queries; of others' one does not learn that they run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_stop_whom() {
    let world = fleet().await;
    let zeta = reader("zeta", &["zeta"], &["*"], None);
    let endless = "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n) SELECT x FROM n";
    let begin = || world.query.engine.open(SqlRequest { sql: endless.to_owned(), ..SqlRequest::default() }, &zeta);
    for stopper in [&zeta, &Arc::new(Reader::local())] {
        let mut opened = begin().await.expect("under way");
        let sql = format!("SELECT tokenwatt_cancel('{}'), tokenwatt_cancel({})", opened.id, opened.id);
        assert_eq!(rows(&world, &acme(), &sql).await, ["[false,false]"]);
        assert!(opened.batches.next().await.expect("rows").is_ok());
        let sql = format!("SELECT tokenwatt_cancel({})", opened.id);
        assert_eq!(rows(&world, stopper, &sql).await, ["[true]"]);
        let mut last = None;
        while let Some(batch) = opened.batches.next().await {
            last = batch.err();
        }
        assert_eq!(last.map(|error| error.kind).as_deref(), Some("cancelled"));
    }
    let nonsense = "SELECT tokenwatt_cancel('x'), tokenwatt_cancel(-1), tokenwatt_cancel(NULL)";
    assert_eq!(rows(&world, &zeta, nonsense).await, ["[false,false,false]"]);
}

/// Over HTTP the token says who asks: for rows, for figures of everything, and to stop what others run.
#[tokio::test]
async fn a_token_is_a_reader() {
    let world = fleet().await;
    let (token, hash) = new_token().expect("a token");
    let principal = Principal { token_sha256: Some(hash), ..principal("acme", &["acme"], &["*"], None) };
    let router = require(world.query.router(), &Principals::new(&[principal], &service::clock::system()), Role::Reader);
    let send = async |method: &str, path: &str, sql: &str| {
        let request = Request::builder().method(method).uri(path).header("content-type", "text/plain");
        let request = request.header("authorization", format!("Bearer {}", token.expose()));
        let response = router.clone().oneshot(request.body(Body::from(sql.to_owned())).expect("a request")).await;
        let response = response.expect("an answer");
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    let (status, body) = send("POST", "/api/v1/sql", "SELECT count(*) FROM requests").await;
    assert!(status == 200 && body.contains("[[3]]"), "{status} {body}");
    let (status, body) = send("POST", "/api/v1/sql", "SELECT count(*) FROM devices").await;
    assert!(status == 403 && body.contains("devices"), "{status} {body}");
    assert_eq!(send("GET", "/metrics", "").await.0, 403);
    let endless = "SELECT a.value FROM generate_series(1, 1000000) AS a CROSS JOIN generate_series(1, 1000000) AS b";
    let asked = SqlRequest { sql: endless.to_owned(), ..SqlRequest::default() };
    let opened = world.query.engine.open(asked, &reader("zeta", &["zeta"], &["*"], None)).await.expect("under way");
    assert_eq!(send("DELETE", &format!("/api/v1/queries/{}", opened.id), "").await.0, 404);
    assert_eq!(
        world.rows(&format!("SELECT state FROM system.queries WHERE id = {}", opened.id)).await,
        [[json!("running")]]
    );
}
