//! Parts of a query on other machines: the same answer, or a clean error, never another one.

mod fleet;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use service::{Deps, secret::Secret, shutdown::CancellationToken, tls::Acceptor};
use telemetry::contract::{ApiError, SqlAnswer, SqlRequest};

use crate::{
    Config, Query, WorkerSettings, answer,
    reader::{Reader, Seen},
};
use fleet::Fleet;

const TOKEN: &str = "a secret of workers and those who use them";

/// Workers in this process, each a service of its own over the same lake.
struct Workers {
    services: Vec<Query>,
    list: Vec<String>,
}

fn workers(list: &[String]) -> WorkerSettings {
    WorkerSettings {
        list: list.to_vec(),
        token: Some(Secret::new(TOKEN)),
        // Whatever there is to read is worth another machine.
        part_bytes: 1,
        ..WorkerSettings::default()
    }
}

impl Workers {
    async fn start(fleet: &Fleet, count: usize) -> Workers {
        let (mut services, mut list) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let serving = WorkerSettings { serve: true, addr: ([127, 0, 0, 1], 0).into(), ..workers(&[]) };
            let config = Config { workers: serving, ..Config::default() };
            let query = crate::build(config, fleet.lake.clone(), Deps::system()).await.expect("a worker");
            let worker = query.worker().await.expect("a port").expect("a worker's");
            list.push(format!("http://{}", worker.addr()));
            worker.spawn();
            services.push(query);
        }
        Workers { services, list }
    }

    /// A coordinator that knows them.
    async fn coordinator(&self, fleet: &Fleet, partitions: usize) -> Query {
        coordinator(fleet, workers(&self.list), partitions).await
    }
}

async fn coordinator(fleet: &Fleet, workers: WorkerSettings, partitions: usize) -> Query {
    let config = Config { workers, partitions, ..Config::default() };
    let query = crate::build(config, fleet.lake.clone(), Deps::system()).await.expect("a coordinator");
    query.engine.cluster.look().await;
    query
}

async fn ask(query: &Query, reader: &Arc<Reader>, sql: &str) -> Result<SqlAnswer, ApiError> {
    let params = BTreeMap::from([("since".to_owned(), json!(fleet::SINCE)), ("until".to_owned(), json!(fleet::UNTIL))]);
    let params = params.into_iter().filter(|(name, _)| sql.contains(&format!("${name}"))).collect();
    let request = SqlRequest { sql: sql.to_owned(), params, ..SqlRequest::default() };
    query.engine.run(request, reader).await.map(answer::json)
}

/// Rows in an order of their own: what a statement leaves open, it leaves open on one machine too.
fn sorted(mut rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    rows.sort_by_key(|row| row.iter().map(|value| rounded(value).to_string()).collect::<Vec<_>>());
    rows
}

/// Sums of numbers depend on their order in the last digits.
fn rounded(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or(Value::Null, |number| json!(format!("{number:.6e}")))
        }
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), rounded(value))).collect())
        }
        Value::Array(values) => values.iter().map(rounded).collect(),
        other => other.clone(),
    }
}

fn is_close(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) if one.is_f64() || other.is_f64() => {
            let (one, other) = (one.as_f64().unwrap_or(f64::NAN), other.as_f64().unwrap_or(f64::NAN));
            (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1e-12)
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|there| is_close(value, there)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_close(one, other))
        }
        (one, other) => one == other,
    }
}

fn assert_same(name: &str, alone: &SqlAnswer, spread: &SqlAnswer) {
    let (alone, spread) = (sorted(alone.rows.clone()), sorted(spread.rows.clone()));
    assert_eq!(alone.len(), spread.len(), "{name}: {alone:?}\n{spread:?}");
    for (one, other) in alone.iter().zip(&spread) {
        assert!(is_close(&json!(one), &json!(other)), "{name}: {one:?}\n{other:?}");
    }
}

/// The questions that people ask of a fleet, by the names of their files.
fn questions() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/questions");
    let mut questions: Vec<_> = std::fs::read_dir(folder)
        .expect("questions")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "sql"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).expect("a question"))
        })
        .collect();
    questions.sort();
    questions
}

/// Every question has one answer, at 1, 2 and 4 workers and at 1, 2 and 8 partitions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_question_has_one_answer() {
    let fleet = Fleet::new().await;
    let all = Arc::new(Reader::local());
    let alone = coordinator(&fleet, WorkerSettings::default(), 2).await;
    let questions = questions();
    assert!(questions.len() >= 49);
    let mut expected = Vec::with_capacity(questions.len());
    for (name, sql) in &questions {
        let answer = ask(&alone, &all, sql).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert!(!answer.rows.is_empty(), "{name}: nothing to compare");
        expected.push(answer);
    }
    assert_eq!(alone.engine.cluster.spread(), 0);
    for count in [1, 2, 4] {
        let workers = Workers::start(&fleet, count).await;
        for partitions in [1, 2, 8] {
            let query = workers.coordinator(&fleet, partitions).await;
            assert_eq!(query.engine.cluster.ready().len(), count);
            for ((name, sql), alone) in questions.iter().zip(&expected) {
                let name = format!("{name} at {count} workers and {partitions} partitions");
                let spread = ask(&query, &all, sql).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
                assert_same(&name, alone, &spread);
            }
            let (spread, again) = (query.engine.cluster.spread(), query.engine.cluster.tried_again());
            println!(
                "{count} workers, {partitions} partitions: {spread} of {} spread, {again} tried again",
                questions.len()
            );
            // One worker is no reason to leave this process, nor is one plan of very many stages any for the others.
            assert!(count == 1 || spread >= 25, "{count} workers, {partitions} partitions: {spread} were spread");
            assert_eq!(again, 0, "{count} workers, {partitions} partitions");
        }
    }
}

/// A reader's rows are cut on the workers, and no other row leaves them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_filters_travel_with_the_plan() {
    let fleet = Fleet::new().await;
    let workers = Workers::start(&fleet, 2).await;
    let query = workers.coordinator(&fleet, 2).await;
    let alone = coordinator(&fleet, WorkerSettings::default(), 2).await;
    let acme = Arc::new(Reader::bound("acme", Seen::Only(vec!["acme".to_owned()]), Seen::All));
    for sql in [
        "SELECT count(*), count(DISTINCT tenant), min(tenant), max(tenant) FROM requests",
        "SELECT model, measured_at, count(*), sum(output_tokens) FROM requests GROUP BY model, measured_at",
        "SELECT tenant, count(*) FROM calls WHERE tenant = 'globex' OR model LIKE 'l%' GROUP BY tenant",
        "SELECT count(*) FROM requests AS a JOIN tokens AS b ON a.trace_id = b.trace_id",
        "SELECT trace_id FROM requests ORDER BY trace_id DESC LIMIT 5",
    ] {
        let expected = ask(&alone, &acme, sql).await.expect(sql);
        assert!(!json!(expected.rows).to_string().contains("globex"));
        assert_same(sql, &expected, &ask(&query, &acme, sql).await.expect(sql));
    }
    assert!(query.engine.cluster.spread() >= 4, "{} were spread", query.engine.cluster.spread());
    // An error quotes nobody else's row, wherever it is made.
    let failing = "SELECT count(*) FROM requests WHERE CAST(span_id AS INT) + CAST(error_type AS INT) > 0";
    let error = ask(&query, &acme, failing).await.expect_err("not a number");
    assert!(!error.message.contains("globex"), "{error:?}");
}

/// Time zones, functions of ours, casts and searches mean on a worker what they mean here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_travels_with_the_plan() {
    let fleet = Fleet::new().await;
    let workers = Workers::start(&fleet, 2).await;
    let query = workers.coordinator(&fleet, 2).await;
    let alone = coordinator(&fleet, WorkerSettings::default(), 2).await;
    let reader = Arc::new(Reader::local());
    for sql in [
        "SELECT to_char(time, '%Y-%m-%d %H:%M') AS at, count(*) FROM requests GROUP BY at",
        "SELECT date_trunc('day', time) AS day, count(*) FROM requests GROUP BY day",
        "SELECT model || '/' || coalesce(tenant, '-') AS whose, count(*) FROM requests GROUP BY whose",
        "SELECT model ~ '^LLAMA' AS a, model ~* '^LLAMA' AS b, model !~ 'q' AS c, model !~* 'Q' AS d, count(*) FROM requests GROUP BY a, b, c, d",
        "SELECT CAST(model AS BYTEA) AS bytes, TRY_CAST(trace_id AS INT) AS number, count(*) FROM requests GROUP BY bytes, number",
        "SELECT region, exph_quantile(exph_merge(h), 0.9) FROM (SELECT region, model, exph(e2e_s) AS h FROM requests GROUP BY region, model) GROUP BY region",
        "SELECT region, repeat(model, 3), approx_distinct(trace_id), array_agg(DISTINCT measured_at ORDER BY measured_at) FROM requests GROUP BY region, model",
        "SELECT region, ttft_s, row_number() OVER (PARTITION BY region ORDER BY ttft_s, span_id) AS place FROM requests",
    ] {
        let request =
            || SqlRequest { sql: sql.to_owned(), time_zone: Some("Asia/Tokyo".to_owned()), ..SqlRequest::default() };
        let expected = alone.engine.run(request(), &reader).await.map(answer::json).expect(sql);
        let spread = query.engine.run(request(), &reader).await.map(answer::json).expect(sql);
        assert_same(sql, &expected, &spread);
    }
    let (spread, again) = (query.engine.cluster.spread(), query.engine.cluster.tried_again());
    assert_eq!((spread, again), (8, 0), "spread, tried again");
}

/// What a query's end leaves on workers stops, though a join there may go through ten billion pairs without a row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_a_query_that_nobody_waits_for_stop() {
    let fleet = Fleet::new().await;
    let workers = Workers::start(&fleet, 2).await;
    let query = workers.coordinator(&fleet, 2).await;
    let sql = "SELECT a.region, count(*) FROM tokens AS a JOIN tokens AS b ON a.trace_id <> b.trace_id \
               JOIN tokens AS c ON a.device_us + b.device_us + c.device_us < 0 GROUP BY a.region";
    let reader = Arc::new(Reader::local());
    let (engine, asker) = (Arc::clone(&query.engine), Arc::clone(&reader));
    let request = SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() };
    let asked = tokio::spawn(async move { engine.run(request, &asker).await.map(|_| ()) });
    // What a join holds of its left side is given back when the last of its operators is dropped.
    let held = || -> usize { workers.services.iter().map(|service| service.engine.shared().memory().reserved()).sum() };
    while held() == 0 {
        assert!(!asked.is_finished(), "it was answered before anybody looked");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    asked.abort();
    assert!(asked.await.is_err_and(|ended| ended.is_cancelled()));
    let stopped = async {
        while held() > 0 {
            ask(&query, &reader, "SELECT region, count(*) FROM requests GROUP BY region").await.expect("an answer");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    // They compute no more at once; what they hold goes back with the next parts that come once the library's cache of parts is a minute old.
    tokio::time::timeout(Duration::from_secs(300), stopped).await.expect("the parts stop");
    // They take other parts.
    let before = query.engine.cluster.spread();
    let answer =
        ask(&query, &reader, "SELECT region, count(*) FROM requests GROUP BY region").await.expect("an answer");
    assert!(!answer.rows.is_empty());
    assert!(query.engine.cluster.spread() > before);
}

/// Whoever does not share the token gets nothing run, and who uses it is not used by others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_take_plans_from_their_own_alone() {
    let fleet = Fleet::new().await;
    let served = Workers::start(&fleet, 2).await;
    let stranger = WorkerSettings { token: Some(Secret::new("a guess")), ..workers(&served.list) };
    let query = coordinator(&fleet, stranger, 2).await;
    assert!(query.engine.cluster.ready().is_empty());
    let faults = query.engine.cluster.faults();
    assert_eq!(faults.len(), 2);
    assert!(faults.values().all(|fault| fault.contains("query.workers.token")), "{faults:?}");
    // The answer does not depend on them.
    let answer = ask(&query, &Arc::new(Reader::local()), "SELECT count(*) FROM requests").await.expect("alone");
    assert_eq!((answer.rows, query.engine.cluster.spread()), (vec![vec![json!(fleet.requests)]], 0));
}

/// A worker of another release is left out with both versions named; those of this one are used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_another_version_is_left_out() {
    let fleet = Fleet::new().await;
    let mut served = Workers::start(&fleet, 2).await;
    let older = datafusion_distributed::Worker::default().with_version("0.0.9/1/00c0ffee");
    let router = tonic::service::Routes::new(older.into_worker_server()).prepare().into_axum_router();
    let listener = service::listen::bind(([127, 0, 0, 1], 0).into()).await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let stop = CancellationToken::new();
    let (stopped, tls) = (stop.clone(), Acceptor::default());
    let limits = service::listen::Limits::default();
    let serving =
        tokio::spawn(async move { service::listen::serve_http(listener, &tls, limits, router, stopped).await });
    served.list.push(address.clone());
    let query = served.coordinator(&fleet, 2).await;
    assert_eq!(query.engine.cluster.ready().len(), 2);
    let faults = query.engine.cluster.faults();
    let (left_out, fault) = faults.first_key_value().expect("one that is left out");
    assert_eq!((faults.len(), left_out.as_str().trim_end_matches('/')), (1, address.as_str()));
    let own = crate::distribute::version();
    assert_eq!(*fault, format!("it is of version 0.0.9/1/00c0ffee, this process of {own}"));
    let sql = "SELECT region, count(*) FROM requests GROUP BY region";
    let reader = Arc::new(Reader::local());
    let alone = coordinator(&fleet, WorkerSettings::default(), 2).await;
    let expected = ask(&alone, &reader, sql).await.expect("alone");
    assert_same(sql, &expected, &ask(&query, &reader, sql).await.expect("spread"));
    assert_eq!((query.engine.cluster.spread(), query.engine.cluster.tried_again()), (1, 0));
    stop.cancel();
    serving.await.expect("no panic").expect("served");
}

/// What a join or unnest would write out for every match is bounded on workers as on one machine; without the bound there, workers
/// would answer and nobody would look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wide_values_are_refused_on_workers() {
    let fleet = Fleet::new().await;
    let workers = Workers::start(&fleet, 2).await;
    let query = workers.coordinator(&fleet, 2).await;
    let reader = Arc::new(Reader::local());
    let joined = |copies: usize| {
        format!(
            "SELECT a.model, count(*), max(length(a.wide)) FROM \
             (SELECT trace_id, model, repeat(arrow_cast(model, 'Utf8'), {copies}) AS wide FROM requests) AS a \
             JOIN tokens AS b ON a.trace_id = b.trace_id GROUP BY a.model"
        )
    };
    let answer = ask(&query, &reader, &joined(1_000)).await.expect("narrow enough");
    assert!(!answer.rows.is_empty());
    assert_eq!((query.engine.cluster.spread(), query.engine.cluster.tried_again()), (1, 0));
    let error = ask(&query, &reader, &joined(10_000)).await.expect_err("too wide");
    assert!(error.kind == "too_large" && error.message.contains("a join or unnest"), "{error:?}");
    assert_eq!((query.engine.cluster.spread(), query.engine.cluster.tried_again()), (2, 1));
}

/// A column of which a filter leaves one value is a constant where the filter is and an ordinary one at a worker: windows over it and
/// another column have their answer from workers at once, those of a view that is asked for one minute too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_over_a_column_with_one_value_run_on_workers() {
    let fleet = Fleet::new().await;
    let workers = Workers::start(&fleet, 2).await;
    let query = workers.coordinator(&fleet, 2).await;
    let alone = coordinator(&fleet, WorkerSettings::default(), 2).await;
    let reader = Arc::new(Reader::local());
    for sql in [
        "SELECT host_id, joules, devices, boundary, method FROM host_energy WHERE time = TIMESTAMP '2026-11-29T12:04:00Z'",
        "SELECT span_id, row_number() OVER (PARTITION BY region, model ORDER BY time, span_id) AS place, \
         max(ttft_s) OVER (PARTITION BY region, model) AS longest FROM requests WHERE region = 'eu-west-1'",
    ] {
        let expected = ask(&alone, &reader, sql).await.expect(sql);
        assert!(!expected.rows.is_empty(), "{sql}");
        assert_same(sql, &expected, &ask(&query, &reader, sql).await.expect(sql));
    }
    let (spread, again) = (query.engine.cluster.spread(), query.engine.cluster.tried_again());
    assert!(spread >= 1 && again == 0, "{spread} spread, {again} tried again");
}

/// A worker that is gone before the first row is done without; nobody notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_gone_is_done_without() {
    let fleet = Fleet::new().await;
    let workers = Workers::start(&fleet, 2).await;
    let query = workers.coordinator(&fleet, 2).await;
    let sql = "SELECT region, count(*) FROM requests GROUP BY region ORDER BY region";
    let reader = Arc::new(Reader::local());
    let expected = ask(&query, &reader, sql).await.expect("spread");
    assert_eq!(query.engine.cluster.spread(), 1);
    // Nobody listens there, and nobody has looked yet.
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    query.engine.cluster.believe(&[format!("http://{gone}"), workers.list[0].clone()]);
    let answer = ask(&query, &reader, sql).await.expect("alone");
    assert_eq!(answer.rows, expected.rows);
    assert_eq!(query.engine.cluster.tried_again(), 1);
    query.engine.cluster.look().await;
    assert_eq!(query.engine.cluster.ready().len(), 2);
}

/// A query that is told to stop does so while its parts run elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spread_query_is_stopped() {
    let fleet = Fleet::new().await;
    let workers = Workers::start(&fleet, 2).await;
    let query = workers.coordinator(&fleet, 2).await;
    let sql = "SELECT a.stall, count(*), max(a.device_us + b.device_us + c.device_us) FROM tokens AS a \
               JOIN tokens AS b ON a.model = b.model JOIN tokens AS c ON b.model = c.model GROUP BY a.stall";
    let request = SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() };
    let reader = Arc::new(Reader::local());
    let engine = Arc::clone(&query.engine);
    let asked = tokio::spawn({
        let reader = Arc::clone(&reader);
        async move { engine.run(request, &reader).await.map(|_| ()) }
    });
    let running = loop {
        if let Some(running) = query.engine.running().list().into_iter().find(|running| running.sql == sql)
            && query.engine.cluster.spread() == 1
        {
            break running.id;
        }
        tokio::task::yield_now().await;
    };
    assert!(query.engine.running().cancel(running, &reader));
    let error = asked.await.expect("no panic").expect_err("stopped");
    assert_eq!(error.kind, "cancelled", "{error:?}");
}
