//! The lake on S3: an endpoint that checks signatures and honours If-None-Match, in this process.

use std::net::SocketAddr;
use std::time::Duration;

use crate::endpoint::{BUCKET, SECRET_KEY, environment};
use crate::otlp::CALL_TOKENS;
use crate::sender::Sender;
use crate::world::{FREE_PORTS, PATIENCE, Server, World, client, tokenwatt};

/// The endpoint of a test, without delay.
async fn serve(root: &std::path::Path) -> SocketAddr {
    crate::endpoint::serve(root, Duration::ZERO).await
}

fn up(world: &World, environment: &[(&str, String)]) -> Server {
    let mut command = world.up_command(&["--data", &format!("s3://{BUCKET}/prod")]);
    Server::start(command.envs(environment.iter().map(|(name, value)| (*name, value.as_str()))))
}

/// The end-to-end run on S3: send, read, kill, restart, read with other engines; nothing is lost or doubled.
#[tokio::test(flavor = "multi_thread")]
async fn the_lake_lives_on_s3_with_signatures() {
    let world = World::new();
    let address = serve(&world.path().join("s3")).await;
    let environment = environment(address, SECRET_KEY);
    let mut sender = Sender::new(1);

    let server = up(&world, &environment);
    sender.send(server.otlp_grpc(), 20).await.expect("send");
    server.kill();

    let server = up(&world, &environment);
    server.until_taking().await;
    sender.send(server.otlp_grpc(), 20).await.expect("send after the kill");
    let calls = sender.acknowledged() as i64;
    server.until_at_least("SELECT count(*) FROM requests", calls).await;
    server.until_at_least("SELECT count(*) FROM spans WHERE service = 'load'", 2 * calls).await;
    let tokens = "SELECT count(*), count(DISTINCT trace_id || request_span_id || '-' || index) FROM tokens";
    server.until_at_least("SELECT count(*) FROM tokens", calls * CALL_TOKENS as i64).await;
    assert_eq!(server.numbers(tokens).await, [calls * CALL_TOKENS as i64; 2]);
    let stored = world.path().join("s3").join(BUCKET).join("prod/tokens/_delta_log");
    assert!(stored.is_dir(), "the log of tokens is in the bucket");

    let endpoint = server.otlp_grpc().to_owned();
    let load = tokio::spawn(async move { while sender.send(&endpoint, 10).await.is_ok() {} });
    let http = server.http().to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        client("readers.py", &[&format!("s3://{BUCKET}/prod"), &http, "1"], &environment)
    });
    read.await.expect("Polars agrees");
    load.abort();
}

/// Two collectors on one bucket: the one that holds the lease commits for both; when it is killed the other goes on by itself.
#[tokio::test(flavor = "multi_thread")]
async fn collectors_of_a_bucket_commit_together_and_outlive_the_one_that_does() {
    let world = World::new();
    let address = serve(&world.path().join("s3")).await;
    let environment = environment(address, SECRET_KEY);
    let first = up(&world, &environment);
    let lease = world.path().join("s3").join(BUCKET).join("prod/_tokenwatt/lease/committer.json");
    until(|| std::fs::read_to_string(&lease).is_ok_and(|note| note.contains(first.otlp_grpc()))).await;

    let mut command = tokenwatt(&["collector", "--data", &format!("s3://{BUCKET}/prod")]);
    command.arg("--state").arg(world.path().join("second")).args(&FREE_PORTS[..4]).current_dir(world.path());
    let second = Server::start(command.envs(environment.iter().map(|(name, value)| (*name, value.as_str()))));
    let (mut left, mut right) = (Sender::new(1), Sender::new(2));
    let metrics = async || {
        let answer = second.client().get(format!("{}/metrics", second.otlp_http())).send().await.expect("metrics");
        answer.text().await.expect("text")
    };
    let deadline = std::time::Instant::now() + PATIENCE;
    while metrics().await.contains("tokenwatt_collector_entries_sent_total 0") {
        assert!(std::time::Instant::now() < deadline, "the second never hands an entry to the first");
        right.send(second.otlp_grpc(), 5).await.expect("send");
        left.send(first.otlp_grpc(), 5).await.expect("send");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    first.kill();
    right.send(second.otlp_grpc(), 20).await.expect("the second goes on");

    let first = up(&world, &environment);
    first.until_taking().await;
    left.send(first.otlp_grpc(), 5).await.expect("send");
    let tokens = (left.acknowledged() + right.acknowledged()) as i64 * CALL_TOKENS as i64;
    first.until_at_least("SELECT count(*) FROM tokens", tokens).await;
    let counts = "SELECT count(*), count(DISTINCT trace_id || request_span_id || '-' || index) FROM tokens";
    assert_eq!(first.numbers(counts).await, [tokens; 2]);
}

async fn until(condition: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "it never came true");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The endpoint does check: with another secret nothing starts, and the message says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_secret_is_told_at_start() {
    let world = World::new();
    let address = serve(&world.path().join("s3")).await;
    let mut command = world.up_command(&["--data", &format!("s3://{BUCKET}/prod")]);
    command.envs(environment(address, "another secret").iter().map(|(name, value)| (*name, value.as_str())));
    let output = tokio::task::spawn_blocking(move || crate::world::finish(&mut command)).await.expect("run");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it started: {stderr}");
    assert!(stderr.contains("s3://"), "the message names the place: {stderr}");
}
