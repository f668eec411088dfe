//! Query services that take parts of each other's queries, each a process of its own, and what is left when one is killed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::sender::Sender;
use crate::world::{PATIENCE, Server, World, tokenwatt};

const TOKEN: &str = "a-secret-of-the-test";
/// Times that a worker is killed.
const KILLS: u32 = 4;

/// A process that only takes parts of queries.
fn worker(world: &World, name: &str) -> Server {
    let text = format!("[query.workers]\nserve = true\naddr = \"127.0.0.1:0\"\ntoken = \"{TOKEN}\"\n");
    query(world, name, &text)
}

/// A process that answers with the help of these workers.
fn coordinator(world: &World, workers: &[&Server]) -> Server {
    let list: Vec<&str> = workers.iter().map(|worker| worker.address("worker")).collect();
    let text = format!("[query.workers]\nlist = {list:?}\ntoken = \"{TOKEN}\"\npart_bytes = 1\n");
    query(world, "coordinator", &text)
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

/// The rows as lines, or the error that ends them.
async fn ask(server: &Server, sql: &str) -> Result<Vec<String>, String> {
    let request = server.client().post(format!("{}/api/v1/sql", server.address("query")));
    let request = request.header("accept", "application/x-ndjson").json(&json!({"sql": sql, "max_rows": 10_000_000}));
    let response = request.send().await.map_err(|error| error.to_string())?;
    let is_good = response.status().is_success();
    let body = response.text().await.map_err(|error| error.to_string())?;
    if is_good { Ok(body.lines().map(str::to_owned).collect()) } else { Err(body) }
}

/// Killed in the middle of a query, a worker costs the answer or nothing: what is answered is right.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_in_mid_query_never_makes_a_wrong_answer() {
    let world = World::new();
    let written = world.up();
    let mut sender = Sender::new(1);
    // Some at a time, so that there are several files to deal.
    for _ in 0..4 {
        sender.send(written.otlp_grpc(), 60).await.expect("sent");
        tokio::time::sleep(Duration::from_millis(1_200)).await;
    }
    sender.settle(written.otlp_grpc()).await.expect("acknowledged");
    let (status, output) = written.stop();
    assert!(status.success(), "{output}");

    let first = worker(&world, "first");
    let mut second = Some(worker(&world, "second"));
    let alone = query(&world, "alone", "");
    let rows = "SELECT trace_id, span_id, time FROM requests";
    let sums = "SELECT a.model, count(*), sum(b.\"index\") FROM requests AS a JOIN tokens AS b ON a.trace_id = b.trace_id GROUP BY a.model ORDER BY a.model";
    let whole: BTreeSet<String> = ask(&alone, rows).await.expect("rows").into_iter().collect();
    let summed = ask(&alone, sums).await.expect("sums");
    assert!(whole.len() > 100, "{} rows", whole.len());

    let (mut answered, mut failed) = (0, 0);
    for kill in 0..KILLS {
        let victim = second.take().unwrap_or_else(|| worker(&world, &format!("victim{kill}")));
        let server = coordinator(&world, &[&first, &victim]);
        until_workers(&server, 2.0).await;
        assert_eq!(ask(&server, sums).await.expect("with both"), summed);
        assert!(metric(&server, "tokenwatt_query_spread").await >= 1.0);
        let (victim_dies, asking) = (Duration::from_millis(5 + 40 * u64::from(kill)), async {
            tokio::join!(ask(&server, rows), ask(&server, sums))
        });
        let killing = tokio::task::spawn(async move {
            tokio::time::sleep(victim_dies).await;
            victim.kill();
        });
        let (of_rows, of_sums) = asking.await;
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
        assert_eq!(ask(&server, sums).await.expect("without it"), summed);
    }
    println!("{answered} answers, {failed} clean errors");
    assert_eq!(answered + failed, 2 * KILLS);
}
