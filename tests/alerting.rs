//! From a rule to the Alerts page and back, with the real Prometheus and the real Alertmanager: a server without data is an alert,
//! which is in table `alerts` while it fires, over a kill of the server, and resolved once there is data.

use std::net::TcpListener;
use std::process::Command;
use std::time::Instant;

use serde_json::json;

use crate::sender::Sender;
use crate::world::{FREE_PORTS, PATIENCE, Peer, Server, World, repository, tokenwatt};

/// Ports of peers that cannot choose one themselves.
fn free_ports<const N: usize>() -> [String; N] {
    let held: [TcpListener; N] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    held.each_ref().map(|port| port.local_addr().expect("its address").to_string())
}

fn read(name: &str) -> String {
    std::fs::read_to_string(repository("deploy/prometheus").join(name)).expect("read")
}

/// Our settings for Alertmanager, with the test's address and without its waits.
fn alertmanager(world: &World, address: &str, collector: &str) -> Peer {
    let mut config = read("alertmanager.yml");
    for (from, to) in [
        ("127.0.0.1:4318", collector),
        ("group_wait: 30s", "group_wait: 0s"),
        ("group_interval: 5m", "group_interval: 1s"),
    ] {
        assert!(config.contains(from), "{from} is gone");
        config = config.replace(from, to);
    }
    let config = world.write("alertmanager.yml", &config);
    let mut command = Command::new("prometheus-alertmanager");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.path={}", world.path().join("am").display()));
    command.args([&format!("--web.listen-address={address}"), "--cluster.listen-address="]);
    Peer::start(&mut command)
}

/// Our settings and rules for Prometheus, with the test's addresses and without their waits.
fn prometheus(world: &World, [address, query, collector, alertmanager]: [&str; 4]) -> Peer {
    let config = read("prometheus.yml").replace("127.0.0.1:8080", query).replace("127.0.0.1:4318", collector);
    let config = world.write("prometheus.yml", &config.replace("127.0.0.1:9093", alertmanager).replace("15s", "1s"));
    world.write("tokenwatt.rules.yml", &read("tokenwatt.rules.yml").replace("for: 2m", "for: 0s"));
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", world.path().join("tsdb").display()));
    command.args([&format!("--web.listen-address={address}"), "--rules.alert.resend-delay=1s"]);
    Peer::start(&mut command)
}

/// A server on ports that it keeps over a restart.
fn up(world: &World, query: &str, collector: &str) -> Server {
    let mut ports: Vec<&str> = FREE_PORTS.to_vec();
    for (flag, address) in [("--http", query), ("--otlp-http", collector)] {
        let place = ports.iter().position(|known| *known == flag).expect("a flag");
        ports[place + 1] = address;
    }
    let mut command = tokenwatt(&["up"]);
    command.arg("--data").arg(world.lake()).arg("--state").arg(world.state()).args(ports);
    Server::start(command.current_dir(world.path()))
}

const TOLD: &str =
    "SELECT count(*) FROM alerts WHERE name = 'TokenwattDataStale' AND receiver = 'tokenwatt' AND status = ";

#[tokio::test(flavor = "multi_thread")]
async fn what_fires_is_a_row_and_ends() {
    let world = World::new();
    let [query, collector, manager, prometheus_address] = free_ports();
    let mut server = up(&world, &query, &collector);
    let _alertmanager = alertmanager(&world, &manager, &collector);
    let _prometheus = prometheus(&world, [&prometheus_address, &query, &collector, &manager]);

    server.until_at_least(&format!("{TOLD}'firing'"), 1).await;
    let row = server
        .row(
            "SELECT severity, ends_at IS NULL, starts_at <= time, external_url IS NOT NULL, labels['alertname'], \
             summary LIKE 'the newest telemetry%' FROM alerts WHERE name = 'TokenwattDataStale' ORDER BY time LIMIT 1",
        )
        .await;
    assert_eq!(row, [json!("page"), json!(true), json!(true), json!(true), json!("TokenwattDataStale"), json!(true)]);
    let page = page(&server).await;
    assert!(page.contains("TokenwattDataStale") && page.contains("the newest telemetry"), "{page}");

    let first =
        server.row("SELECT fingerprint FROM alerts WHERE name = 'TokenwattDataStale' ORDER BY time LIMIT 1").await;
    let fingerprint = first[0].as_str().expect("a fingerprint").to_owned();

    // Killed: what was acknowledged is there, and Alertmanager comes back to the next one.
    let told = server
        .numbers(&format!("SELECT count(*), CAST(max(time) AS BIGINT) FROM alerts WHERE fingerprint = '{fingerprint}'"))
        .await;
    server.kill();
    server = up(&world, &query, &collector);
    let kept = format!(
        "SELECT count(*) FROM alerts WHERE fingerprint = '{fingerprint}' AND CAST(time AS BIGINT) <= {}",
        told[1]
    );
    server.until_at_least(&kept, told[0]).await;
    assert_eq!(server.numbers(&kept).await, told[..1], "no word of it twice");

    let deadline = Instant::now() + PATIENCE;
    let mut sender = Sender::new(7);
    let ended = format!(
        "SELECT count(*) FROM alerts WHERE fingerprint = '{fingerprint}' AND status = 'resolved' AND ends_at > starts_at"
    );
    while server.numbers(&ended).await == [0] {
        assert!(Instant::now() < deadline, "never resolved:\n{}", server.output());
        // Data is new for two minutes.
        sender.send(server.otlp_grpc(), 1).await.expect("acknowledged");
    }
}

async fn page(server: &Server) -> String {
    let answer = server.client().get(format!("{}/alerts", server.http())).send().await.expect("the page");
    answer.text().await.expect("its text")
}
