//! The collector's other ways in, with the real binary and real peers: Prometheus' client library and server, a Loki
//! client, and container logs that are written while the server dies.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::world::{Peer, Server, World, client, number, python, repository};

/// `tokenwatt up` with further settings.
fn up(world: &World, settings: &str) -> Server {
    let config = world.write("tokenwatt-test.toml", settings);
    world.up_with(&["--config", config.to_str().expect("a path")])
}

/// The Python exporter, which ends when its input does.
struct Exporter(Child);

impl Exporter {
    fn start() -> (Exporter, String) {
        let mut command = Command::new(python());
        command.arg("-B").arg(repository("tests/clients/exporter.py"));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut exporter = Exporter(child.expect("start the exporter"));
        let output = exporter.0.stdout.take().expect("its output");
        let mut port = String::new();
        BufReader::new(output).read_line(&mut port).expect("its port");
        (exporter, format!("127.0.0.1:{}", port.trim()))
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // Already gone is what we want.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What Prometheus' own library exposes arrives whole, and a target that goes away is down.
#[tokio::test(flavor = "multi_thread")]
async fn an_exporter_is_scraped_and_missed() {
    let world = World::new();
    let (exporter, target) = Exporter::start();
    let settings = format!(
        "[[collector.scrape]]\njob = \"engines\"\ntargets = [\"{target}\"]\ninterval = \"500ms\"\ntimeout = \"500ms\"\n\
         [collector.scrape.labels]\n\"cloud.region\" = \"us-east-1\"\n\"host.id\" = \"i-7\"\n"
    );
    let server = up(&world, &settings);
    server.until_at_least("SELECT count(*) FROM histograms WHERE service = 'engines'", 4).await;

    let row = server
        .row("SELECT running, kv_usage, model, region, host_id FROM devices WHERE running IS NOT NULL AND kv_usage IS NOT NULL LIMIT 1")
        .await;
    assert_eq!(row, [json!(3), json!(0.25), json!("a \"model\""), json!("us-east-1"), json!("i-7")]);
    let counter = "SELECT min(value), max(value), min(start_unix_nano), max(start_unix_nano), min(time_unix_nano) FROM metrics \
        WHERE name = 'vllm:generation_tokens_total' AND monotonic AND temporality = 'cumulative'";
    let row = server.row(counter).await;
    assert_eq!((number(&row[0]), number(&row[1])), (1500, 1500));
    assert!(
        number(&row[2]) > 0 && row[2] == row[3] && number(&row[2]) < number(&row[4]),
        "not from `_created`: {row:?}"
    );
    let histogram = "SELECT count, sum, bounds, counts, exemplars FROM histograms \
        WHERE name = 'vllm:time_to_first_token_seconds' LIMIT 1";
    let row = server.row(histogram).await;
    assert_eq!(row[..4], [json!(4), json!(2.115), json!([0.01, 0.1, 1.0]), json!([1, 2, 0, 1])]);
    assert!(row[4].as_str().expect("exemplars").contains(&"01".repeat(16)), "{row:?}");
    assert_eq!(server.numbers("SELECT count(*) FROM metrics WHERE name LIKE '%_created'").await, [0]);

    drop(exporter);
    server.until_at_least("SELECT count(*) FROM metrics WHERE name = 'up' AND value = 0", 2).await;
    let ended = "SELECT count(*) FROM metrics WHERE name = 'vllm:num_requests_running' AND value IS NULL AND flags = 1";
    assert_eq!(server.numbers(ended).await, [1]);
}

/// A real Prometheus is an exporter too: all it shows is read without a fault, in the format it prefers.
#[tokio::test(flavor = "multi_thread")]
async fn prometheus_itself_is_scraped() {
    let world = World::new();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
    let empty = world.write("prometheus.yml", "scrape_configs: []\n");
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", empty.display()));
    command.arg(format!("--storage.tsdb.path={}", world.path().join("tsdb").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let _prometheus = Peer::start(&mut command);
    let server = up(
        &world,
        &format!(
            "[[collector.scrape]]\njob = \"prometheus\"\ntargets = [\"127.0.0.1:{port}\"]\ninterval = \"500ms\"\ntimeout = \"500ms\"\n"
        ),
    );
    server.until_at_least("SELECT count(*) FROM metrics WHERE name = 'up' AND value = 1", 2).await;
    server.until_at_least("SELECT count(*) FROM histograms WHERE kind = 'histogram'", 10).await;
    server.until_at_least("SELECT count(*) FROM histograms WHERE kind = 'summary'", 5).await;
    let page = server.client().get(format!("{}/metrics", server.otlp_http())).send().await.expect("ask");
    let text = page.text().await.expect("read");
    let faults =
        text.lines().find(|line| line.starts_with("tokenwatt_collector_scrape_faults_total")).expect("counted");
    assert!(faults.ends_with(" 0"), "{faults}");
    // Bounds rise, and the buckets add up to the count.
    let broken = "SELECT count(*) FROM histograms WHERE kind = 'histogram' AND service = 'prometheus' AND cardinality(counts) <> cardinality(bounds) + 1";
    assert_eq!(server.numbers(broken).await, [0]);
}

/// Pushes as Promtail makes them: stored once each, with labels where they belong, and broken ones refused.
#[tokio::test(flavor = "multi_thread")]
async fn loki_pushes_reach_the_logs() {
    let world = World::new();
    let server = world.up();
    let url = format!("{}/loki/api/v1/push", server.otlp_http());
    assert_eq!(client("loki.py", &[&url], &[]).trim(), "[204, 204, 204, 400, 413]");
    let counted = "SELECT count(*) FROM logs WHERE service = 'promtail-test'";
    server.until_at_least(counted, 1_010).await;
    assert_eq!(server.numbers(counted).await, [1_010]);
    let row = server
        .row("SELECT count(*), min(namespace), min(severity_number), min(resource['k8s.pod.name']), min(resource['team']), \
              count(DISTINCT attributes['thread']), count(DISTINCT time_unix_nano) FROM logs WHERE trace_id = repeat('ab', 16)")
        .await;
    assert_eq!(row, [json!(1000), json!("prod"), json!(13), json!("vllm-0"), json!("blue"), json!(1000), json!(1000)]);
}

fn append(path: &Path, text: &str) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.expect("open a log").write_all(text.as_bytes()).expect("write a log");
}

/// Container logs are written and rotated while the server is killed, again and again: every line arrives once.
#[tokio::test(flavor = "multi_thread")]
async fn followed_lines_survive_kill_9_once_each() {
    let world = World::new();
    let pod = world.path().join("pods/prod_vllm-0_1234/engine");
    std::fs::create_dir_all(&pod).expect("make a folder");
    let log = pod.join("0.log");
    let pattern = world.path().join("pods/*/*/*.log");
    let settings = format!("[[collector.tail]]\npath = \"{}\"\npoll = \"10ms\"\n", pattern.display());
    let mut written = 0;
    let counted = "SELECT count(*), count(DISTINCT body) FROM logs WHERE service = 'engine' AND namespace = 'prod'";
    let write = |from: i64| {
        let second = this_second();
        let line = |n| format!("{second}.{n:09}Z stdout F line {n}\n");
        append(&log, &(from..from + 50).map(line).collect::<String>());
        from + 50
    };
    for kill in 0..4 {
        let server = up(&world, &settings);
        // A file that is renamed before anybody knew of it is no longer one that the pattern names.
        let before = written;
        written = write(written);
        server.until_at_least(counted, before + 1).await;
        let until = Instant::now() + Duration::from_millis(600 + 170 * kill);
        while Instant::now() < until {
            written = write(written);
            std::thread::sleep(Duration::from_millis(7));
        }
        server.kill();
        if kill % 2 == 0 {
            std::fs::rename(&log, pod.join(format!("0.log.{kill}"))).expect("rotate");
        }
    }
    let server = up(&world, &settings);
    server.until_taking().await;
    server.until_at_least(counted, written).await;
    // What could come twice would come with the next turns of the follower.
    append(&log, &format!("{}.000000000Z stdout F the last one\n", this_second()));
    server.until_at_least("SELECT count(*) FROM logs WHERE body = 'the last one'", 1).await;
    assert_eq!(server.numbers(counted).await, [written + 1, written + 1]);
}

/// The time in seconds as RFC 3339 writes it, without its zone.
fn this_second() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%S"]).output().expect("date");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}
