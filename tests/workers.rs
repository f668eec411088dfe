//! Query services that take parts of each other's queries, each a process of its own, and what is left when one is killed.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rcgen::SanType;
use serde_json::{Value, json};

use crate::otlp::CALL_TOKENS;
use crate::sender::Sender;
use crate::tls::Issuer;
use crate::world::{PATIENCE, Server, World, client, tokenwatt};

const TOKEN: &str = "a-secret-of-the-test";
/// Times that a worker is killed somewhere in a query.
const KILLS: u32 = 2;
/// Two aggregates over a join: every stage has rows from every worker.
const SUMS: &str = "SELECT a.model, count(*), sum(b.\"index\") FROM requests AS a JOIN tokens AS b \
                    ON a.trace_id = b.trace_id GROUP BY a.model ORDER BY a.model";
/// Rounds of ten calls that are sent at a time, and times.
const ROUNDS: u64 = 60;
const TIMES: u64 = 4;
/// Rows of `tokens` in the lake.
const TOKENS: u64 = TIMES * ROUNDS * 10 * CALL_TOKENS;
/// Bytes of text in each row of [`wide`], too random to be compressed: 490 MB in all, while the coordinator keeps 64 MiB of a worker's
/// rows at most (`worker_connection_buffer_budget_bytes`). Even of a worker that reads only a quarter of them, as much again is not yet
/// sent when the first rows are answered.
const WIDE_BYTES: usize = 10_240;
/// Whoever shows the coordinator's certificate.
const CERTIFIED: &str = "[[principal]]\nname = \"coordinator\"\nrole = \"reader\"\ncertificate = \"coordinator.fleet\"\ntenants = [\"*\"]\n";
/// Hexadecimal digits of a SHA-512.
const DIGEST_BYTES: usize = 128;

/// All tokens, each with much text that workers make.
fn wide() -> String {
    let digests = (0..WIDE_BYTES / DIGEST_BYTES)
        .map(|n| format!("encode(sha512(concat(trace_id, '-', \"index\", '-{n}')), 'hex')"))
        .collect::<Vec<_>>();
    format!("SELECT trace_id, \"index\", concat({}) AS text FROM tokens", digests.join(", "))
}

/// A lake with tokens in several files, which stay as they are.
async fn filled(world: &World) {
    let settings = "maintain = false\n[collector]\nflush_after = \"300ms\"\n";
    let config = world.write("writer.toml", settings).display().to_string();
    let written = world.up_with(&["--config", &config]);
    let mut sender = Sender::new(1);
    for _ in 0..TIMES {
        sender.send(written.otlp_grpc(), ROUNDS).await.expect("sent");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    sender.settle(written.otlp_grpc()).await.expect("acknowledged");
    let (status, output) = written.stop();
    assert!(status.success(), "{output}");
}

/// A process that only takes parts of queries; `more` are further lines of its settings.
fn worker(world: &World, name: &str, more: &str) -> Server {
    let text = format!("[query.workers]\nserve = true\naddr = \"127.0.0.1:0\"\ntoken = \"{TOKEN}\"\n{more}");
    query(world, name, &text)
}

/// A process that answers with the help of these workers.
fn coordinator(world: &World, name: &str, workers: &[&Server]) -> Server {
    let list: Vec<&str> = workers.iter().map(|worker| worker.address("worker")).collect();
    let limits = "[query]\nanswer_bytes_max = 1073741824\n";
    query(world, name, &format!("{limits}[query.workers]\nlist = {list:?}\ntoken = \"{TOKEN}\"\npart_bytes = 1\n"))
}

fn query(world: &World, name: &str, text: &str) -> Server {
    let config = world.write(&format!("{name}.toml"), text);
    let mut command = tokenwatt(&["query", "--config"]);
    command.arg(config).arg("--data").arg(world.lake()).arg("--state").arg(world.path().join(name));
    command.args(["--http", "127.0.0.1:0", "--flight", "127.0.0.1:0"]).current_dir(world.path());
    Server::start(&mut command)
}

/// What the coordinator says of its workers on `/metrics`.
async fn metric(server: &Server, name: &str) -> f64 {
    let page = server.client().get(format!("{}/metrics", server.address("query"))).send().await.expect("a page");
    let page = page.text().await.expect("a text");
    let line = page.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("no {name}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

async fn until_workers(server: &Server, count: f64) {
    let deadline = Instant::now() + PATIENCE;
    while metric(server, "tokenwatt_query_workers").await != count {
        assert!(Instant::now() < deadline, "there are never {count} workers:\n{}", server.output());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Asks for lines of JSON.
fn request(server: &Server, sql: &str) -> reqwest::RequestBuilder {
    let request = server.client().post(format!("{}/api/v1/sql", server.address("query")));
    request.header("accept", "application/x-ndjson").json(&json!({"sql": sql, "max_rows": 10_000_000}))
}

/// The rows as lines, or the error that ends them.
async fn ask(server: &Server, sql: &str) -> Result<Vec<String>, String> {
    let response = request(server, sql).send().await.map_err(|error| error.to_string())?;
    let is_good = response.status().is_success();
    let body = response.text().await.map_err(|error| error.to_string())?;
    if is_good { Ok(body.lines().map(str::to_owned).collect()) } else { Err(body) }
}

/// How a query ended that was asked over HTTP.
async fn audited(server: &Server, words: &str) -> Value {
    let sql =
        format!("SELECT outcome, message FROM system.audit WHERE sql LIKE '%{words}%' AND sql NOT LIKE '%audit%'");
    let lines = ask(server, &sql).await.expect("the record");
    serde_json::from_str(lines.last().expect("a query")).expect("JSON")
}

/// The two workers of a fresh coordinator; the second is the one that reads more of the lake.
async fn pair(world: &World, first: Server, name: &str) -> (Server, Server, Server) {
    let second = worker(world, name, "");
    let server = coordinator(world, &format!("coordinator-{name}"), &[&first, &second]);
    until_workers(&server, 2.0).await;
    let before = [&first, &second].map(Server::bytes_read);
    ask(&server, "SELECT count(DISTINCT concat(trace_id, request_span_id, \"index\")) FROM tokens")
        .await
        .expect("spread");
    assert_eq!(metric(&server, "tokenwatt_query_spread").await, 1.0, "{}", server.output());
    let read = [first.bytes_read() - before[0], second.bytes_read() - before[1]];
    if read[0] > read[1] { (server, second, first) } else { (server, first, second) }
}

/// Killed while its rows are on their way, a worker ends the answer with an error, told in each protocol's own way and with the
/// worker's name where there is a place for it; the rows before are not taken for all.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_in_mid_stream_ends_the_answer_with_an_error() {
    let world = World::new();
    filled(&world).await;
    let (sql, gone) = (wide(), "went away in the middle of the answer");

    // HTTP: the body breaks off, and the record of queries says why.
    let (server, other, victim) = pair(&world, worker(&world, "first", ""), "second").await;
    let name = victim.address("worker").to_owned();
    let mut response = request(&server, &sql).send().await.expect("an answer");
    assert!(response.status().is_success() && response.headers().get("x-tokenwatt-truncated").is_none());
    let mut received = response.chunk().await.expect("the first bytes").expect("some").len();
    victim.kill();
    let broken = loop {
        match response.chunk().await {
            Ok(Some(bytes)) => received += bytes.len(),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    assert!(broken.is_some(), "an answer of {received} bytes without one worker's rows looks whole");
    assert!(received < TOKENS as usize * WIDE_BYTES, "{received}");
    let record = audited(&server, "sha512").await;
    assert_eq!(record["outcome"], "unavailable", "{record}");
    let message = record["message"].as_str().expect("a message");
    assert!(message.contains(gone) && message.contains(&name), "{message} names no {name}");
    // What began on workers was not begun again.
    assert_eq!(metric(&server, "tokenwatt_query_spread_again").await, 0.0);
    until_workers(&server, 1.0).await;
    let count = ask(&server, "SELECT count(*) AS n FROM tokens").await;
    assert_eq!(count, Ok(vec![format!("{{\"n\":{TOKENS}}}")]));

    // The others say it in words.
    let mut first = other;
    for front in ["postgresql", "flight"] {
        let (server, other, victim) = pair(&world, first, front).await;
        let name = victim.address("worker").to_owned();
        let (url, pid) = (server.address(front).to_owned(), victim.pid().to_string());
        let sql = sql.clone();
        let torn = tokio::task::spawn_blocking(move || client("torn.py", &[front, &url, &pid, &sql], &[]));
        let torn: Value = serde_json::from_str(&torn.await.expect("the client")).expect("JSON");
        let (rows, error) = (torn["rows"].as_u64().expect("a number"), torn["error"].as_str().unwrap_or_default());
        assert!(error.contains(gone) && error.contains(&name), "{front}: {torn} names no {name}");
        assert!((1..TOKENS).contains(&rows), "{front}: {rows} of {TOKENS}");
        assert_eq!(torn["after"], TOKENS, "{front} answers on");
        drop(victim);
        first = other;
    }
}

/// Killed anywhere in a query, a worker costs the answer or nothing: what is answered is right.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_in_mid_query_never_makes_a_wrong_answer() {
    let world = World::new();
    filled(&world).await;
    let first = worker(&world, "first", "");
    let alone = query(&world, "alone", "");
    let rows = "SELECT trace_id, span_id, time FROM requests";
    let whole: BTreeSet<String> = ask(&alone, rows).await.expect("rows").into_iter().collect();
    let summed = ask(&alone, SUMS).await.expect("sums");
    assert!(whole.len() > 100, "{} rows", whole.len());

    let (mut answered, mut failed) = (0, 0);
    for kill in 0..KILLS {
        let victim = worker(&world, &format!("victim{kill}"), "");
        let server = coordinator(&world, &format!("coordinator{kill}"), &[&first, &victim]);
        until_workers(&server, 2.0).await;
        assert_eq!(ask(&server, SUMS).await.expect("with both"), summed);
        assert!(metric(&server, "tokenwatt_query_spread").await >= 1.0);
        let victim_dies = Duration::from_millis(5 + 60 * u64::from(kill));
        let killing = tokio::task::spawn(async move {
            tokio::time::sleep(victim_dies).await;
            victim.kill();
        });
        let (of_rows, of_sums) = tokio::join!(ask(&server, rows), ask(&server, SUMS));
        killing.await.expect("killed");
        match of_rows {
            Ok(lines) => {
                answered += 1;
                let got: BTreeSet<String> = lines.iter().cloned().collect();
                assert_eq!((lines.len(), &got), (whole.len(), &whole), "a wrong answer");
            }
            Err(_) => failed += 1,
        }
        match of_sums {
            Ok(lines) => {
                answered += 1;
                assert_eq!(lines, summed, "a wrong answer");
            }
            Err(_) => failed += 1,
        }
        // The one that is left, or this process alone, answers from now on.
        until_workers(&server, 1.0).await;
        assert_eq!(ask(&server, SUMS).await.expect("without it"), summed);
    }
    println!("{answered} answers, {failed} clean errors");
    assert_eq!(answered + failed, 2 * KILLS);
}

/// Workers under TLS, with a token and a client certificate, take parts; one whose authority, token or scheme is wrong is left out with
/// the reason, and the answer is the same.
#[tokio::test(flavor = "multi_thread")]
async fn workers_under_tls_are_used_and_others_are_left_out() {
    let world = World::new();
    filled(&world).await;
    let issuer = Issuer::new(world.path().join("ca.pem"));
    let (served, own) = (world.path().join("served"), world.path().join("own"));
    issuer.issue_server(&served);
    issuer.issue(&own, vec![SanType::DnsName("coordinator.fleet".try_into().expect("a name"))]);
    let shown = |path: &Path| path.display().to_string();
    let (ca, cert, key) = (shown(&issuer.ca), shown(&own.with_extension("crt")), shown(&own.with_extension("key")));
    let tls =
        format!("[tls]\ncert = \"{0}.crt\"\nkey = \"{0}.key\"\nclient_ca = \"{ca}\"\n{1}", served.display(), CERTIFIED);
    let workers = [worker(&world, "first", &tls), worker(&world, "second", &tls)];
    let secure = workers.each_ref().map(|worker| worker.address("worker").to_owned());
    assert!(secure.iter().all(|address| address.starts_with("https://")), "{secure:?}");
    let summed = ask(&query(&world, "alone", ""), SUMS).await.expect("sums");

    let plain = secure.each_ref().map(|address| address.replace("https://", "http://"));
    let other = Issuer::new(world.path().join("other.pem"));
    let (token, wrong) = (format!("token = \"{TOKEN}\""), "token = \"a-guess\"".to_owned());
    let ours = format!("ca = \"{ca}\"\ncert = \"{cert}\"\nkey = \"{key}\"");
    let theirs = format!("ca = \"{}\"", shown(&other.ca));
    for (name, list, token, tls, fault) in [
        ("trusted", &secure, &token, &ours, None),
        ("stranger", &secure, &wrong, &ours, Some("query.workers.token")),
        ("deceived", &secure, &token, &theirs, Some("does not answer")),
        ("plain", &plain, &token, &ours, Some("does not answer")),
    ] {
        let text = format!("[query.workers]\nlist = {list:?}\n{token}\n{tls}\npart_bytes = 1\n");
        let server = query(&world, name, &text);
        match fault {
            None => until_workers(&server, 2.0).await,
            Some(fault) => {
                let deadline = Instant::now() + PATIENCE;
                let left_out = || {
                    let output = server.output();
                    output.lines().filter(|line| line.contains("a worker is left out") && line.contains(fault)).count()
                };
                while left_out() < 2 {
                    assert!(Instant::now() < deadline, "{name}: not left out:\n{}", server.output());
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        assert_eq!(ask(&server, SUMS).await.as_ref(), Ok(&summed), "{name}");
        let spread = metric(&server, "tokenwatt_query_spread").await;
        assert_eq!(spread, if fault.is_none() { 1.0 } else { 0.0 }, "{name}");
    }
}
