//! The collector's other ways in, with real servers, files and programs: scrapes, Loki pushes, followed files, devices.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use collector::Config;
use collector::neuron::NeuronMonitor;
use collector::scrape::Scrape;
use collector::tail::Tail;

use super::{World, doubles, ints, maps, quick, rows, texts};

/// An exporter whose pages are taken one after the other; the last one stays, an empty one is an error.
async fn exporter(pages: &'static [&'static str]) -> String {
    let next = Arc::new(AtomicUsize::new(0));
    let page = move |headers: HeaderMap| {
        let page = pages[next.fetch_add(1, Ordering::Relaxed).min(pages.len() - 1)];
        async move {
            assert!(
                headers["accept"].to_str().unwrap().starts_with("application/openmetrics-text;version=1.0.0;escaping=")
            );
            assert_eq!(headers["authorization"], "Bearer a-token-for-the-test");
            if page.is_empty() {
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            }
            ([("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")], page).into_response()
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/metrics", get(page))).await });
    address
}

/// Waits until the own counter `name` reads at least `least`.
async fn until(world: &World, name: &str, least: f64) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let text = world.deps.metrics.render();
        let read = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
        let values = text.lines().filter(|line| line.starts_with(name)).filter_map(read);
        if values.sum::<f64>() >= least {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{name} does not reach {least}:\n{text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What an engine shows lands in `metrics`, `histograms` and `devices`; once it fails, `up` is 0 and its gauges end.
#[tokio::test(flavor = "multi_thread")]
async fn a_scraped_engine_reaches_its_tables() {
    const UP: &str = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\"} 3\n\
        # TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total{model_name=\"m\"} 40\n\
        # TYPE vllm:time_to_first_token_seconds histogram\n\
        vllm:time_to_first_token_seconds_bucket{le=\"0.5\",model_name=\"m\"} 1\n\
        vllm:time_to_first_token_seconds_bucket{le=\"+Inf\",model_name=\"m\"} 4\n\
        vllm:time_to_first_token_seconds_count{model_name=\"m\"} 4\n\
        vllm:time_to_first_token_seconds_sum{model_name=\"m\"} 7.5\n# EOF\n";
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "a-token-for-the-test\n").unwrap();
    let scrape = Scrape {
        job: "engines".to_owned(),
        targets: vec![exporter(&[UP, "cut off", "", "", ""]).await],
        interval: Duration::from_millis(100),
        timeout: Duration::from_millis(100),
        labels: [("host.id".to_owned(), "i-7".to_owned())].into(),
        token_file: Some(token),
        ..Scrape::default()
    };
    let world = World::start(directory.path(), Config { scrape: vec![scrape], ..quick() }).await;
    until(&world, "tokenwatt_collector_scrapes_total{job=\"engines\",outcome=\"failed\"}", 2.0).await;
    world.stop().await;

    let metrics = rows(directory.path(), "metrics").await;
    let names: Vec<String> = texts(&metrics, "name").into_iter().flatten().collect();
    let values = |name: &str| {
        let values = names.iter().zip(doubles(&metrics, "value")).filter(|(found, _)| *found == name);
        values.map(|(_, value)| value).collect::<Vec<_>>()
    };
    let ups = values("up");
    assert_eq!(ups.iter().filter(|up| **up == Some(1.0)).count(), 1);
    assert!(ups.iter().filter(|up| **up == Some(0.0)).count() >= 2);
    assert_eq!(values("vllm:generation_tokens_total"), [Some(40.0)]);
    let mut running = values("vllm:num_requests_running");
    running.sort_by_key(Option::is_some);
    assert_eq!(running, [None, Some(3.0)], "one sample, and one that says that there are no more");
    assert!(texts(&metrics, "host_id").iter().all(|host| host.as_deref() == Some("i-7")));

    let histograms = rows(directory.path(), "histograms").await;
    assert_eq!((ints(&histograms, "count"), doubles(&histograms, "sum")), (vec![Some(4)], vec![Some(7.5)]));
    assert_eq!(texts(&histograms, "temporality"), [Some("cumulative".to_owned())]);
    let devices = rows(directory.path(), "devices").await;
    assert_eq!((ints(&devices, "running"), texts(&devices, "kind")), (vec![Some(3)], vec![Some("engine".to_owned())]));
    assert_eq!(texts(&devices, "model"), [Some("m".to_owned())]);
}

fn loki() -> Vec<u8> {
    let time = super::now_ns();
    format!(
        r#"{{"streams": [{{"stream": {{"service_name": "vllm", "namespace": "prod", "pod": "p-0", "level": "error", "app": "x"}},
            "values": [["{time}", "first"], ["{}", "second", {{"thread": "9"}}]]}}]}}"#,
        time + 1
    )
    .into_bytes()
}

/// A push is answered as Loki's clients expect, lands in `logs` once however often it comes, and needs a token.
#[tokio::test(flavor = "multi_thread")]
async fn a_loki_push_is_stored_once() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::start(directory.path(), Config { body_max: 1 << 20, memory: 8 << 20, ..quick() }).await;
    let json = "content-type: application/json\r\n";
    let body = loki();
    for _ in 0..2 {
        let (status, _, answer) = world.post("/loki/api/v1/push", json, &body).await;
        assert_eq!((status, answer.len()), (204, 0));
    }
    let (status, head, answer) = world.post("/loki/api/v1/push", json, b"{\"streams\": 1}").await;
    assert_eq!(status, 400);
    assert!(head.contains("text/plain"));
    assert!(String::from_utf8(answer).unwrap().contains("no push in JSON"));
    assert_eq!(world.post("/loki/api/v1/push", "content-type: text/plain\r\n", b"x").await.0, 400);
    assert_eq!(world.post("/loki/api/v1/push", json, &vec![b' '; (1 << 20) + 1]).await.0, 413);
    world.stop().await;
    let logs = rows(directory.path(), "logs").await;
    let mut bodies = texts(&logs, "body");
    bodies.sort();
    assert_eq!(bodies, [Some("first".to_owned()), Some("second".to_owned())]);
    for (column, expected) in [("service", "vllm"), ("namespace", "prod"), ("severity", "error")] {
        assert_eq!(texts(&logs, column), vec![Some(expected.to_owned()); 2], "{column}");
    }
    assert_eq!(ints(&logs, "severity_number"), [Some(17), Some(17)]);
    assert!(maps(&logs, "resource").iter().all(|resource| resource["k8s.pod.name"] == "p-0"));
}

/// When there is no memory for a push it is refused with 503 and told when to come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_loki_push_without_room_is_asked_to_wait() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::start(directory.path(), Config { body_max: 1 << 20, memory: 2 << 20, ..quick() }).await;
    let line = "x".repeat(900_000);
    let push = format!(r#"{{"streams": [{{"stream": {{}}, "values": [["{}", "{line}"]]}}]}}"#, super::now_ns());
    let (status, head, _) =
        world.post("/loki/api/v1/push", "content-type: application/json\r\n", push.as_bytes()).await;
    assert_eq!(status, 503);
    assert!(head.contains("retry-after: "), "{head}");
    world.stop().await;
}

fn append(path: &Path, text: &str) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn tail(directory: &Path) -> Config {
    let path = directory.join("pods/*/*/*.log").to_str().unwrap().to_owned();
    let tail = Tail { path, poll: Duration::from_millis(10), ..Tail::default() };
    Config { tail: vec![tail], ..quick() }
}

/// A collector that dies again and again while a log is written and rotated has every line once.
#[tokio::test(flavor = "multi_thread")]
async fn followed_lines_survive_crashes_once_each() {
    let directory = tempfile::tempdir().unwrap();
    let pod = directory.path().join("pods/prod_vllm-0_1234/engine");
    std::fs::create_dir_all(&pod).unwrap();
    let log = pod.join("0.log");
    let mut written = 0;
    for round in 0..6 {
        let world = World::start(directory.path(), tail(directory.path())).await;
        for _ in 0..40 {
            let now = jiff::Timestamp::now();
            append(&log, &format!("{now} stdout P line\n{now} stderr F line {written}e\n{now} stdout F  {written}\n"));
            written += 1;
            tokio::time::sleep(Duration::from_millis(2 + round)).await;
        }
        world.task.abort();
        assert!(world.task.await.unwrap_err().is_cancelled());
        if round % 2 == 1 {
            std::fs::rename(&log, pod.join(format!("0.log.{round}"))).unwrap();
        }
        // The lock goes with the last task that holds the journal.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let world = World::start(directory.path(), tail(directory.path())).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while texts(&rows(directory.path(), "logs").await, "body").len() < 2 * written {
        assert!(tokio::time::Instant::now() < deadline, "lines are missing");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    world.stop().await;
    let logs = rows(directory.path(), "logs").await;
    let mut bodies: Vec<String> = texts(&logs, "body").into_iter().flatten().collect();
    let mut expected: Vec<String> = (0..written).flat_map(|n| [format!("line {n}"), format!("line {n}e")]).collect();
    bodies.sort();
    expected.sort();
    assert_eq!(bodies, expected);
    assert!(texts(&logs, "namespace").iter().all(|namespace| namespace.as_deref() == Some("prod")));
    assert!(texts(&logs, "service").iter().all(|service| service.as_deref() == Some("engine")));
}

/// A monitor that prints one document and ends is started again; its samples land in `devices`.
#[tokio::test(flavor = "multi_thread")]
async fn a_neuron_monitor_is_read_and_restarted() {
    let directory = tempfile::tempdir().unwrap();
    let document = r#"{"neuron_runtime_data": [{"pid": 7, "report": {"neuroncore_counters": {"period": 1.0,
        "neuroncores_in_use": {"0": {"neuroncore_utilization": 25.0}}}}}],
        "instance_info": {"instance_id": "i-9"}, "neuron_hardware_info": {"neuron_device_type": "inferentia2"}}"#;
    let file = directory.path().join("document");
    std::fs::write(&file, document.replace('\n', " ") + "\nodd\n").unwrap();
    let command = vec!["cat".to_owned(), file.to_str().unwrap().to_owned()];
    let neuron_monitor = NeuronMonitor { command, ..NeuronMonitor::default() };
    let world = World::start(directory.path(), Config { neuron_monitor, ..quick() }).await;
    until(&world, "tokenwatt_collector_neuron_documents_total", 2.0).await;
    until(&world, "tokenwatt_collector_neuron_faults_total", 1.0).await;
    world.stop().await;
    let devices = rows(directory.path(), "devices").await;
    let samples = texts(&devices, "device");
    assert!(samples.len() >= 2 && samples.iter().all(|device| device.as_deref() == Some("nc0")), "{samples:?}");
    assert!(doubles(&devices, "utilization").iter().all(|share| *share == Some(0.25)));
    assert!(texts(&devices, "accelerator").iter().all(|model| model.as_deref() == Some("inferentia2")));
    assert!(texts(&devices, "host_id").iter().all(|host| host.as_deref() == Some("i-9")));
}
