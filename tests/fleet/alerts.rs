//! A real Prometheus scrapes `/metrics`, evaluates our rules, and names the slow region and no other.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::world::{Peer, Server, World, repository};

/// How long a minute may take to close and to be alerted on.
const PATIENCE: Duration = Duration::from_secs(420);

/// `for:` of the rules in this test; shortened, for the rules wait five minutes.
fn shortened() -> String {
    std::env::var("TOKENWATT_ALERT_FOR").unwrap_or_else(|_| "0s".to_owned())
}

pub(super) async fn name_the_slow_region_and_no_other(world: &World, server: &Server) {
    let port = free_port();
    let _prometheus = prometheus(world, server, port);
    let url = format!("http://127.0.0.1:{port}/api/v1/alerts");
    let deadline = Instant::now() + PATIENCE;
    let regions = loop {
        let regions = firing(server.client(), &url, "TokenwattTtftHigh").await;
        if !regions.is_empty() {
            break regions;
        }
        assert!(Instant::now() < deadline, "no alert; /metrics says:\n{}", metrics(server).await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    assert_eq!(regions, BTreeSet::from(["eu-west-1".to_owned()]));
    let text = metrics(server).await;
    assert!(text.trim_end().ends_with("# EOF") && !text.contains("_created"), "not the OpenMetrics we promise");
}

async fn metrics(server: &Server) -> String {
    let request = server.client().get(format!("{}/metrics", server.http()));
    let answer = request.header("accept", "application/openmetrics-text; version=1.0.0").send().await.expect("metrics");
    answer.text().await.expect("text")
}

/// Regions of the alert that fire. Prometheus may still be starting.
async fn firing(client: &reqwest::Client, url: &str, alert: &str) -> BTreeSet<String> {
    let Ok(answer) = client.get(url).send().await else { return BTreeSet::new() };
    let body: Value = answer.json().await.unwrap_or_default();
    let alerts = body["data"]["alerts"].as_array().cloned().unwrap_or_default();
    alerts
        .iter()
        .filter(|found| found["labels"]["alertname"] == alert && found["state"] == "firing")
        .map(|found| found["labels"]["region"].as_str().unwrap_or("(no region)").to_owned())
        .collect()
}

/// Our own config and rules, with the test's addresses and a short `for:`.
fn prometheus(world: &World, server: &Server, port: u16) -> Peer {
    let read = |name: &str| std::fs::read_to_string(repository("deploy/prometheus").join(name)).expect("read");
    let host = |url: &str| url.trim_start_matches("http://").to_owned();
    let config = read("prometheus.yml")
        .replace("127.0.0.1:8080", &host(server.http()))
        .replace("127.0.0.1:4318", &host(server.otlp_http()))
        .replace("15s", "1s");
    let config = world.write("prometheus.yml", &config);
    let rules = read("tokenwatt.rules.yml");
    assert!(rules.contains("for: 5m"), "the rule to shorten is gone");
    world.write("tokenwatt.rules.yml", &rules.replace("for: 5m", &format!("for: {}", shortened())));
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", world.path().join("tsdb").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    Peer::start(&mut command)
}

/// Prometheus cannot choose a port itself.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}
