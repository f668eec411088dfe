//! The collector with a real lake in a directory and real clients on the loopback.

#![allow(clippy::unwrap_used, reason = "a test ends where something it relies on fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use collector::Config;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use prost::Message;
use service::Deps;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::Code;
use tonic::codec::CompressionEncoding;

#[path = "ingest/otlp.rs"]
mod otlp;
#[path = "ingest/receivers.rs"]
mod receivers;

struct World {
    deps: Deps,
    grpc: String,
    http: String,
    task: tokio::task::JoinHandle<service::Result<()>>,
}

impl World {
    async fn start(directory: &Path, config: Config) -> Self {
        let deps = Deps::system();
        let lake = lake::Lake::open(directory.join("lake").to_str().unwrap(), &deps).await.unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let config = Config { grpc_addr: any, http_addr: any, state: directory.join("state"), ..config };
        let built = collector::build(config, lake, deps.clone()).await.unwrap();
        let (grpc, http) = (format!("http://{}", built.grpc_addr()), built.http_addr().to_string());
        let task = tokio::spawn(built.run());
        while !deps.health.ready() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Self { deps, grpc, http, task }
    }

    async fn client(&self) -> TraceServiceClient<tonic::transport::Channel> {
        TraceServiceClient::connect(self.grpc.clone()).await.unwrap()
    }

    /// Ends in order: everything acknowledged is committed.
    async fn stop(self) {
        assert_eq!(self.deps.shutdown.walk(Duration::from_secs(20)).await, Vec::<String>::new());
        self.task.await.unwrap().unwrap();
    }

    async fn post(&self, path: &str, headers: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
        let mut stream = tokio::net::TcpStream::connect(&self.http).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, answer[end + 4..].to_vec())
    }
}

fn quick() -> Config {
    let soon = Duration::from_millis(50);
    Config { flush_after: soon, bulk_flush_after: soon, ..Config::default() }
}

/// All rows of a table, read from the files that its Delta log names.
async fn rows(directory: &Path, table: &str) -> Vec<RecordBatch> {
    let deps = Deps::system();
    let place = directory.join("lake");
    let lake = lake::Lake::open_read_only(place.to_str().unwrap(), &deps).await.unwrap();
    let snapshot = lake.snapshot(table, None).await.unwrap();
    let read = |path: &str| {
        let file = std::fs::File::open(place.join(path)).unwrap();
        ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().map(Result::unwrap).collect::<Vec<_>>()
    };
    snapshot.files.iter().flat_map(|file| read(&file.path)).collect()
}

fn texts(batches: &[RecordBatch], column: &str) -> Vec<Option<String>> {
    let column = |batch: &RecordBatch| {
        let array =
            arrow::compute::cast(batch.column_by_name(column).unwrap(), &arrow::datatypes::DataType::Utf8).unwrap();
        array.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>()
    };
    batches.iter().flat_map(column).collect()
}

fn ints(batches: &[RecordBatch], column: &str) -> Vec<Option<i64>> {
    let column = |batch: &RecordBatch| {
        batch.column_by_name(column).unwrap().as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
    };
    batches.iter().flat_map(column).collect()
}

fn doubles(batches: &[RecordBatch], column: &str) -> Vec<Option<f64>> {
    let column = |batch: &RecordBatch| {
        batch.column_by_name(column).unwrap().as_primitive::<Float64Type>().iter().collect::<Vec<_>>()
    };
    batches.iter().flat_map(column).collect()
}

fn maps(batches: &[RecordBatch], column: &str) -> Vec<BTreeMap<String, String>> {
    let mut read = Vec::new();
    for batch in batches {
        let map = batch.column_by_name(column).unwrap().as_map();
        for row in 0..map.len() {
            let entries = map.value(row);
            let (keys, values) = (entries.column(0).as_string::<i32>(), entries.column(1).as_string::<i32>());
            read.push((0..entries.len()).map(|at| (keys.value(at).to_owned(), values.value(at).to_owned())).collect());
        }
    }
    read
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn now_ns() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn span(trace: u8, id: u8, name: &str, attributes: Vec<KeyValue>) -> Span {
    let end = now_ns();
    Span {
        trace_id: vec![trace; 16],
        span_id: vec![id; 8],
        name: name.to_owned(),
        kind: 2,
        start_time_unix_nano: end - 2_000_000_000,
        end_time_unix_nano: end,
        attributes,
        ..Span::default()
    }
}

fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let attributes = vec![
        text("service.name", "vllm-a"),
        text("cloud.region", "us-east-1"),
        text("host.id", "i-1"),
        text("service.instance.id", "replica-1"),
    ];
    let scope = ScopeSpans { spans, ..ScopeSpans::default() };
    let resource = Some(Resource { attributes, ..Resource::default() });
    let group = ResourceSpans { resource, scope_spans: vec![scope], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![group] }
}

fn vllm(trace: u8) -> Span {
    let seconds = |key: &str, value| attribute(key, Value::DoubleValue(value));
    let attributes = vec![
        text("gen_ai.request.id", "cmpl-7"),
        attribute("gen_ai.usage.prompt_tokens", Value::IntValue(120)),
        attribute("gen_ai.usage.completion_tokens", Value::IntValue(11)),
        seconds("gen_ai.latency.time_to_first_token", 0.5),
        seconds("gen_ai.latency.e2e", 1.5),
        seconds("gen_ai.latency.time_in_queue", 0.1),
        seconds("gen_ai.latency.time_in_model_prefill", 0.3),
        seconds("gen_ai.latency.time_in_model_decode", 1.0),
        seconds("gen_ai.request.top_p", 0.9),
        text("gen_ai.prompt", "a secret"),
    ];
    span(trace, 1, "llm_request", attributes)
}

/// A vLLM V1 span and token spans over gRPC end in their columns, in seconds, and what has no column in `attributes`.
#[tokio::test(flavor = "multi_thread")]
async fn calls_and_tokens_reach_their_columns() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::start(directory.path(), quick()).await;
    let mut token = span(
        1,
        2,
        "token",
        vec![
            attribute("tokenwatt.token.index", Value::IntValue(0)),
            attribute("tokenwatt.token.device_us", Value::IntValue(77)),
            text("gen_ai.request.model", "m"),
            text("odd", "kept"),
        ],
    );
    token.parent_span_id = vec![1; 8];
    let mut client = world.client().await.send_compressed(CompressionEncoding::Gzip);
    let answer = client.export(request(vec![vllm(1), token, span(1, 3, "retrieval", Vec::new())])).await.unwrap();
    assert_eq!(answer.into_inner().partial_success, None);
    world.stop().await;

    let calls = rows(directory.path(), "requests").await;
    assert_eq!(texts(&calls, "trace_id"), [Some("01".repeat(16))]);
    for (column, expected) in [
        ("measured_at", "server"),
        ("engine", "vllm"),
        ("region", "us-east-1"),
        ("request_id", "cmpl-7"),
        ("status", "ok"),
    ] {
        assert_eq!(texts(&calls, column), [Some(expected.to_owned())], "{column}");
    }
    for (column, expected) in
        [("ttft_s", 0.5), ("e2e_s", 1.5), ("queue_s", 0.1), ("prefill_s", 0.3), ("decode_s", 1.0), ("tpot_s", 0.1)]
    {
        assert_eq!(doubles(&calls, column), [Some(expected)], "{column}");
    }
    assert_eq!((ints(&calls, "input_tokens"), ints(&calls, "output_tokens")), (vec![Some(120)], vec![Some(11)]));
    let attributes = BTreeMap::from([("gen_ai.request.top_p".to_owned(), "0.9".to_owned())]);
    assert_eq!(maps(&calls, "attributes"), [attributes]);

    let tokens = rows(directory.path(), "tokens").await;
    assert_eq!(texts(&tokens, "request_span_id"), [Some("01".repeat(8))]);
    assert_eq!((ints(&tokens, "index"), ints(&tokens, "count")), (vec![Some(0)], vec![Some(1)]));
    assert_eq!((ints(&tokens, "device_us"), texts(&tokens, "model")), (vec![Some(77)], vec![Some("m".to_owned())]));
    assert_eq!(maps(&tokens, "attributes"), [BTreeMap::from([("odd".to_owned(), "kept".to_owned())])]);

    let spans = rows(directory.path(), "spans").await;
    let mut names = texts(&spans, "name");
    names.sort();
    assert_eq!(names, [Some("llm_request".to_owned()), Some("retrieval".to_owned())]);
    assert!(maps(&spans, "attributes").iter().all(|attributes| !attributes.contains_key("gen_ai.prompt")));
    let nodes = rows(directory.path(), "nodes").await;
    assert_eq!(texts(&nodes, "host_id"), [Some("i-1".to_owned())]);
}

/// A body that comes again is acknowledged and not stored again, also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_stored_once() {
    let directory = tempfile::tempdir().unwrap();
    let body = request(vec![vllm(1)]);
    for _ in 0..2 {
        let world = World::start(directory.path(), quick()).await;
        for _ in 0..2 {
            world.client().await.export(body.clone()).await.unwrap();
        }
        world.stop().await;
    }
    assert_eq!(texts(&rows(directory.path(), "requests").await, "trace_id").len(), 1);
}

/// A collector that dies without a word loses nothing that it acknowledged and doubles nothing.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    // Long enough that some frames are committed when the process "dies", and some are not.
    let config = Config { flush_after: Duration::from_millis(30), ..Config::default() };
    for round in 1..=3 {
        let world = World::start(directory.path(), config.clone()).await;
        let mut client = world.client().await;
        for id in 1..=20 {
            client
                .export(request(vec![span(round, id, "work", Vec::new()), {
                    let mut token = span(round, id, "token", Vec::new());
                    token.parent_span_id = vec![id; 8];
                    token
                }]))
                .await
                .unwrap();
        }
        world.task.abort();
        assert!(world.task.await.unwrap_err().is_cancelled());
        // The lock goes with the last task that holds the journal.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    World::start(directory.path(), config).await.stop().await;
    for (table, id) in [("spans", "span_id"), ("tokens", "request_span_id")] {
        let batches = rows(directory.path(), table).await;
        let mut keys: Vec<_> = texts(&batches, "trace_id").into_iter().zip(texts(&batches, id)).collect();
        assert_eq!(keys.len(), 60, "{table}");
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 60, "{table}");
    }
}

/// What was acknowledged is stored, also when the collector starts again with a smaller limit for bodies.
#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_limit_does_not_drop_what_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let hour = Duration::from_secs(3_600);
    let config = Config { flush_after: hour, bulk_flush_after: hour, ..Config::default() };
    let world = World::start(directory.path(), config.clone()).await;
    let large = span(9, 1, "work", vec![text("note", &"x".repeat(4_096))]);
    world.client().await.export(request(vec![large])).await.unwrap();
    world.task.abort();
    assert!(world.task.await.unwrap_err().is_cancelled());
    // The lock goes with the last task that holds the journal.
    tokio::time::sleep(Duration::from_millis(200)).await;
    World::start(directory.path(), Config { body_max: 1_024, ..config }).await.stop().await;
    assert_eq!(texts(&rows(directory.path(), "spans").await, "span_id").len(), 1);
}

/// What is wrong is answered as OTLP asks, in the encoding of the request, and nothing of it is stored.
#[tokio::test(flavor = "multi_thread")]
async fn bad_bodies_get_the_answers_of_otlp() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::start(directory.path(), Config { body_max: 1 << 20, memory: 8 << 20, ..quick() }).await;
    let protobuf = "content-type: application/x-protobuf\r\n";
    let json = "content-type: application/json; charset=utf-8\r\n";
    let good = request(vec![vllm(1)]).encode_to_vec();

    let (status, head, body) = world.post("/v1/traces", protobuf, &good).await;
    assert_eq!((status, body.len()), (200, 0));
    assert!(head.contains("content-type: application/x-protobuf"));
    assert_eq!(world.post("/v1/traces", "content-type: text/plain\r\n", &good).await.0, 415);
    assert_eq!(world.post("/v1/traces", &format!("{protobuf}content-encoding: br\r\n"), &good).await.0, 415);
    assert_eq!(world.post("/nowhere", protobuf, &good).await.0, 404);
    assert_eq!(world.post("/v1/traces", protobuf, &good[..good.len() - 1]).await.0, 400);
    let (status, head, body) = world.post("/v1/traces", json, b"{\"resourceSpans\": 7}").await;
    assert_eq!(status, 400);
    assert!(head.contains("application/json"));
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&body).unwrap()["code"], 3);
    assert_eq!(world.post("/v1/traces", protobuf, &vec![0; (1 << 20) + 1]).await.0, 413);
    let gzip = |bytes: &[u8]| {
        use std::io::Write;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    };
    let gzipped = format!("{protobuf}content-encoding: gzip\r\n");
    assert_eq!(world.post("/v1/traces", &gzipped, &gzip(&vec![0; 4 << 20])).await.0, 413);
    // Records that are empty take two bytes each, and no memory at all while they are packed.
    let records = ScopeLogs { log_records: vec![LogRecord::default(); 200_000], ..ScopeLogs::default() };
    let records = ResourceLogs { scope_logs: vec![records], ..ResourceLogs::default() };
    let records = gzip(&ExportLogsServiceRequest { resource_logs: vec![records] }.encode_to_vec());
    let (status, head, body) = world.post("/v1/logs", &gzipped, &records).await;
    assert_eq!((status, head.to_lowercase().contains("retry-after")), (413, false), "{} bytes", records.len());
    assert!(String::from_utf8_lossy(&body).contains("fewer items"), "{}", String::from_utf8_lossy(&body));

    let mut client = world.client().await;
    let mut nameless = vllm(2);
    nameless.trace_id = vec![0; 16];
    let answer = client.export(request(vec![nameless, vllm(3)])).await.unwrap().into_inner();
    assert_eq!(answer.partial_success.unwrap().rejected_spans, 1);
    let mut ancient = vllm(4);
    ancient.start_time_unix_nano = 1;
    let partial = client.export(request(vec![ancient])).await.unwrap().into_inner().partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 0);
    assert!(partial.error_message.contains("quarantine"));
    let many = (0..40_000).map(|at| text(&format!("key{at}"), "value of an attribute")).collect();
    let large = client.export(request(vec![span(5, 1, "large", many)])).await.unwrap_err();
    assert_eq!(large.code(), Code::ResourceExhausted);
    assert!(large.details().len() < 200, "no RetryInfo: the sender must not try again");
    world.stop().await;

    let mut stored = texts(&rows(directory.path(), "requests").await, "trace_id");
    stored.sort();
    assert_eq!(stored, [Some("01".repeat(16)), Some("03".repeat(16))]);
    assert_eq!(texts(&rows(directory.path(), "quarantine").await, "signal"), [Some("traces".to_owned())]);
}
