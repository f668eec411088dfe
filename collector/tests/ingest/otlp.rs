//! What OTLP demands of a receiver, asked over real connections; `docs/otlp.md` is the list.

use std::io::{Read, Write};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics};
use tokio::net::TcpStream;

use super::*;

const PROTOBUF: &str = "content-type: application/x-protobuf\r\n";
const JSON: &str = "content-type: application/json; charset=utf-8\r\n";

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(body).unwrap();
    gzip.finish().unwrap()
}

fn gunzip(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(body).read_to_end(&mut out).unwrap();
    out
}

fn logs() -> ExportLogsServiceRequest {
    let log_records = vec![LogRecord { time_unix_nano: now_ns(), ..LogRecord::default() }];
    let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
    ExportLogsServiceRequest { resource_logs: vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }] }
}

fn metrics() -> ExportMetricsServiceRequest {
    let data_points = vec![NumberDataPoint { time_unix_nano: now_ns(), ..NumberDataPoint::default() }];
    let data = Some(Data::Gauge(Gauge { data_points }));
    let metrics = vec![Metric { name: "m".into(), data, ..Metric::default() }];
    let scope_metrics = vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }];
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics { scope_metrics, ..ResourceMetrics::default() }],
    }
}

/// A span in OTLP/JSON.
fn json_span(trace: u8, id: u8, more: &str) -> String {
    let end = now_ns();
    format!(
        "{{\"traceId\": \"{}\", \"spanId\": \"{}\", \"name\": \"json\", \"startTimeUnixNano\": \"{}\", \
         \"endTimeUnixNano\": \"{end}\"{more}}}",
        format!("{trace:02x}").repeat(16),
        format!("{id:02x}").repeat(8),
        end - 1_000
    )
}

fn json_spans(spans: &[String]) -> Vec<u8> {
    format!("{{\"resourceSpans\": [{{\"scopeSpans\": [{{\"spans\": [{}]}}]}}]}}", spans.join(",")).into_bytes()
}

/// Every signal over both transports, in both encodings, with each compression.
#[tokio::test(flavor = "multi_thread")]
async fn every_signal_transport_encoding_and_compression() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::start(directory.path(), quick()).await;
    let mut trace = 1;
    for (compression, pack) in [
        ("", (|body| body.to_vec()) as fn(&[u8]) -> Vec<u8>),
        ("content-encoding: gzip\r\n", gzip),
        ("Content-Encoding: ZSTD\r\n", |body| zstd::encode_all(body, 1).unwrap()),
        ("content-encoding: gzip\r\n", |body| [gzip(&body[..body.len() / 2]), gzip(&body[body.len() / 2..])].concat()),
    ] {
        let headers = format!("{PROTOBUF}{compression}");
        let spans = request(vec![span(trace, 1, "protobuf", Vec::new())]).encode_to_vec();
        assert_eq!(world.post("/v1/traces", &headers, &pack(&spans)).await.0, 200, "{compression}");
        assert_eq!(world.post("/v1/metrics/", &headers, &pack(&metrics().encode_to_vec())).await.0, 200);
        assert_eq!(world.post("/v1/logs", &headers, &pack(&logs().encode_to_vec())).await.0, 200);
        let json = json_spans(&[json_span(trace + 1, 1, "")]);
        let (status, head, body) = world.post("/v1/traces", &format!("{JSON}{compression}"), &pack(&json)).await;
        assert_eq!((status, body.as_slice()), (200, b"{}".as_slice()), "{compression}");
        assert!(head.contains("content-type: application/json"));
        trace += 2;
    }
    for compression in [None, Some(CompressionEncoding::Gzip), Some(CompressionEncoding::Zstd)] {
        let (mut spans, grpc) = (world.client().await, world.grpc.clone());
        let mut points = MetricsServiceClient::connect(grpc.clone()).await.unwrap();
        let mut records = LogsServiceClient::connect(grpc).await.unwrap();
        if let Some(compression) = compression {
            spans = spans.send_compressed(compression);
            points = points.send_compressed(compression);
            records = records.send_compressed(compression);
        }
        spans.export(request(vec![span(trace, 1, "grpc", Vec::new())])).await.unwrap();
        points.export(metrics()).await.unwrap();
        records.export(logs()).await.unwrap();
        trace += 1;
    }
    assert_eq!(world.post("/v1/traces", PROTOBUF, b"").await.0, 200, "an empty request is a good one");
    assert_eq!(world.post("/v1/logs", JSON, b"{}").await.0, 200);
    world.stop().await;
    assert_eq!(texts(&rows(directory.path(), "spans").await, "name").len(), 11);
    assert_eq!(texts(&rows(directory.path(), "metrics").await, "name").len(), 7);
    assert_eq!(ints(&rows(directory.path(), "logs").await, "severity_number").len(), 7);
}

/// A request that is in the wrong place hears where to go, in its own encoding; a browser gets no leave.
#[tokio::test(flavor = "multi_thread")]
async fn requests_in_the_wrong_place_hear_where_to_go() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::start(directory.path(), quick()).await;
    for path in ["/", "/v1/traces/v1/traces", "/v1/spans", "/v1development/profiles"] {
        let (status, head, body) = world.post(path, PROTOBUF, b"").await;
        assert_eq!(status, 404, "{path}");
        assert!(head.contains("content-type: application/x-protobuf"), "{path}");
        let said = tonic_types::Status::decode(body.as_slice()).unwrap();
        assert!(said.code == 5 && said.message.contains("/v1"), "{path}: {}", said.message);
    }
    let (status, head, body) = world.post("/", JSON, b"{}").await;
    assert_eq!((status, head.contains("application/json")), (404, true));
    assert!(String::from_utf8(body).unwrap().contains("POST /v1/traces"));
    for (method, expected) in [("GET", 405), ("PUT", 405), ("OPTIONS", 204)] {
        let head =
            exchange(&world.http, &format!("{method} /v1/traces HTTP/1.1\r\nhost: x\r\norigin: http://a\r\n")).await;
        assert!(head.starts_with(&format!("http/1.1 {expected}")), "{method}: {head}");
        assert!(head.contains("allow: post") && !head.contains("access-control"), "{method}: {head}");
    }
    for (headers, expected) in [
        ("content-type: text/plain\r\n", 415),
        ("", 415),
        ("content-type: application/x-protobuf\r\ncontent-encoding: br\r\n", 415),
    ] {
        assert_eq!(world.post("/v1/traces", headers, b"").await.0, expected, "{headers}");
    }
    let grpc = world.grpc.trim_start_matches("http://").to_owned();
    let head =
        exchange(&grpc, "POST /opentelemetry.proto.collector.trace.v1.TraceService/Export HTTP/1.1\r\nhost: x\r\n")
            .await;
    assert!(head.starts_with("http/1.1 415") && head.contains("grpc-status: 3"), "{head}");
    world.stop().await;
}

/// The head of the answer to a request without a body.
async fn exchange(address: &str, head: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).to_lowercase()
}

/// Bodies in chunks without a length, and senders that ask before they send.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_in_chunks_and_on_leave() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::start(directory.path(), quick()).await;
    let body = request(vec![span(1, 1, "chunked", Vec::new())]).encode_to_vec();
    let mut stream = TcpStream::connect(&world.http).await.unwrap();
    let head = format!("POST /v1/traces HTTP/1.1\r\nhost: x\r\n{PROTOBUF}transfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    for chunk in body.chunks(7) {
        stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await.unwrap();
        stream.write_all(chunk).await.unwrap();
        stream.write_all(b"\r\n").await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    assert!(answer_head(&mut stream).await.starts_with("http/1.1 200"));

    let body = request(vec![span(2, 1, "asked", Vec::new())]).encode_to_vec();
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: x\r\n{PROTOBUF}content-length: {}\r\nexpect: 100-continue\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    assert!(answer_head(&mut stream).await.starts_with("http/1.1 100"));
    stream.write_all(&body).await.unwrap();
    assert!(answer_head(&mut stream).await.starts_with("http/1.1 200"));
    world.stop().await;
    assert_eq!(texts(&rows(directory.path(), "spans").await, "name").len(), 2);
}

/// Reads one answer's head; those here have no bodies.
async fn answer_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

/// Without memory senders are asked to wait for one to four seconds, and one that had begun to send reads that answer. A body
/// that can never fit is not to be sent again.
#[tokio::test(flavor = "multi_thread")]
async fn overload_asks_to_wait() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::start(directory.path(), Config { memory: 64 << 10, body_max: 4 << 20, ..quick() }).await;
    let body = vec![b' '; 2 << 20];
    let (status, head, body) = world.post("/v1/traces", JSON, &body).await;
    assert_eq!(status, 503);
    let wait: u64 = head.split("retry-after: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
    assert!((1..=4).contains(&wait), "{wait}");
    let said: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((said["code"].as_i64(), said["details"][0]["retryDelay"].is_string()), (Some(14), true));
    let many = (0..4_000).map(|at| text(&format!("key{at}"), "value of an attribute")).collect();
    let refused = world.client().await.export(request(vec![span(1, 1, "large", many)])).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    let delay = tonic_types::StatusExt::get_error_details(&refused).retry_info().unwrap().retry_delay.unwrap();
    assert!((Duration::from_secs(1)..=Duration::from_secs(4)).contains(&delay), "{delay:?}");

    // One that only announces a large body keeps nobody out.
    let mut silent = TcpStream::connect(&world.http).await.unwrap();
    let head = format!("POST /v1/traces HTTP/1.1\r\nhost: x\r\n{PROTOBUF}content-length: 60000\r\n\r\n");
    silent.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    world.client().await.export(request(vec![span(2, 1, "small", Vec::new())])).await.unwrap();
    drop(silent);
    world.stop().await;
}

/// What is rejected is counted exactly, in JSON too; answers are compressed for those who ask; all of it also after a crash.
#[tokio::test(flavor = "multi_thread")]
async fn faults_of_items_are_counted_and_survive_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let hour = Duration::from_secs(3_600);
    let config = Config { flush_after: hour, bulk_flush_after: hour, ..Config::default() };
    let world = World::start(directory.path(), config.clone()).await;
    let spans = [
        json_span(1, 1, ""),
        json_span(1, 2, ", \"kind\": \"NONE\""),
        json_span(1, 3, ", \"kind\": \"SPAN_KIND_SERVER\""),
    ];
    let (status, head, body) =
        world.post("/v1/traces", &format!("{JSON}accept-encoding: gzip\r\n"), &json_spans(&spans)).await;
    assert_eq!(status, 200);
    let body = if head.contains("content-encoding: gzip") { gunzip(&body) } else { body };
    let said: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(said["partialSuccess"]["rejectedSpans"], "1", "{said}");

    // Ids as hex text, and a resource in two parts, which protobuf joins.
    let hex = |byte: u8, length| format!("{byte:02X}").repeat(length).into_bytes();
    let odd = Span { trace_id: hex(0xab, 16), span_id: hex(0xcd, 8), ..span(9, 9, "odd", Vec::new()) };
    let mut group = request(vec![odd, span(0, 4, "nameless", Vec::new())]).resource_spans.remove(0);
    let resource = group.resource.take().unwrap();
    let part =
        |attributes: &[KeyValue]| Resource { attributes: attributes.to_vec(), ..Resource::default() }.encode_to_vec();
    let (first, second) = resource.attributes.split_at(2);
    let field = |bytes: &[u8]| [&[0x0a, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    let split = [field(&part(first)), group.encode_to_vec(), field(&part(second))].concat();
    let mut body = vec![0x0a];
    prost::encode_length_delimiter(split.len(), &mut body).unwrap();
    body.extend_from_slice(&split);
    let (status, _, answer) = world.post("/v1/traces", PROTOBUF, &body).await;
    let partial = ExportTraceServiceResponse::decode(answer.as_slice()).unwrap().partial_success.unwrap();
    assert_eq!((status, partial.rejected_spans), (200, 1));
    world.task.abort();
    assert!(world.task.await.unwrap_err().is_cancelled());
    // The lock goes with the last task that holds the journal.
    tokio::time::sleep(Duration::from_millis(200)).await;
    World::start(directory.path(), config).await.stop().await;

    let spans = rows(directory.path(), "spans").await;
    let mut kinds: Vec<_> = texts(&spans, "name").into_iter().zip(texts(&spans, "kind")).collect();
    kinds.sort();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        kinds,
        [(some("json"), some("server")), (some("json"), some("unspecified")), (some("odd"), some("server"))]
    );
    assert!(texts(&spans, "trace_id").contains(&some(&"ab".repeat(16))));
    assert!(texts(&spans, "region").contains(&some("us-east-1")), "from the first part");
    assert!(texts(&spans, "instance").contains(&some("replica-1")), "from the second");
}

/// A long answer over gRPC is compressed in a way that the client reads.
#[tokio::test(flavor = "multi_thread")]
async fn grpc_answers_are_compressed_for_those_who_ask() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::start(directory.path(), quick()).await;
    let bad = || {
        let late = Span { start_time_unix_nano: 1, ..span(3, 2, "late", Vec::new()) };
        request(vec![span(0, 1, "nameless", Vec::new()), late])
    };
    for compression in [CompressionEncoding::Gzip, CompressionEncoding::Zstd] {
        let answer = world.client().await.accept_compressed(compression).export(bad()).await.unwrap();
        assert!(answer.metadata().contains_key("grpc-encoding"), "{compression:?}");
        assert_eq!(answer.into_inner().partial_success.unwrap().rejected_spans, 1);
    }
    let answer = world.client().await.export(bad()).await.unwrap();
    assert!(!answer.metadata().contains_key("grpc-encoding"));
    world.stop().await;
}

/// A small body whose rows would each repeat a large resource is refused before it is stored.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_repeat_a_large_resource_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::start(directory.path(), Config { body_max: 1 << 20, memory: 16 << 20, ..quick() }).await;
    let mut body = request((1..=100).map(|id| span(1, id, "x", Vec::new())).collect());
    let large = text("large", &"x".repeat(500_000));
    body.resource_spans[0].resource.as_mut().unwrap().attributes.push(large);
    let refused = world.client().await.export(body.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("resource"), "{}", refused.message());
    body.resource_spans[0].scope_spans[0].spans.truncate(5);
    world.client().await.export(body).await.unwrap();
    world.stop().await;
    assert_eq!(texts(&rows(directory.path(), "spans").await, "name").len(), 5);
}

/// A connection ends in its time and without loss, and one that never asks anything is not kept.
#[tokio::test(flavor = "multi_thread")]
async fn connections_end_in_their_time() {
    let directory = tempfile::tempdir().unwrap();
    let age = Duration::from_secs(1);
    let world = World::start(directory.path(), Config { connection_age: age, ..quick() }).await;
    for begun in [b"".as_slice(), b"PRI * HTTP/2", b"POST /v1/tra"] {
        let mut stream = TcpStream::connect(&world.http).await.unwrap();
        stream.write_all(begun).await.unwrap();
        let mut answer = Vec::new();
        // Ends without an answer, or with one that refuses what there is of the request.
        let _ = stream.read_to_end(&mut answer).await;
    }
    let mut idle = TcpStream::connect(&world.http).await.unwrap();
    idle.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut frames = Vec::new();
    let _ = idle.read_to_end(&mut frames).await;
    let mut rest = frames.as_slice();
    let mut kinds = Vec::new();
    while let [a, b, c, kind, ..] = *rest {
        kinds.push(kind);
        rest = rest.get(9 + u32::from_be_bytes([0, a, b, c]) as usize..).unwrap_or_default();
    }
    assert!(kinds.contains(&7), "no GOAWAY among {kinds:?}");

    let mut stream = TcpStream::connect(&world.http).await.unwrap();
    let ask = format!("POST /v1/traces HTTP/1.1\r\nhost: x\r\n{PROTOBUF}content-length: 0\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.unwrap();
    assert!(!answer_head(&mut stream).await.contains("connection: close"));
    tokio::time::sleep(age * 2).await;
    stream.write_all(ask.as_bytes()).await.unwrap();
    assert!(answer_head(&mut stream).await.contains("connection: close"));
    // A client that keeps sending sees nothing of it.
    let mut client = world.client().await;
    for id in 1..=20 {
        client.export(request(vec![span(1, id, "steady", Vec::new())])).await.unwrap();
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    world.stop().await;
    assert_eq!(texts(&rows(directory.path(), "spans").await, "name").len(), 20);
}
