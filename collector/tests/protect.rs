//! Who may send, how much, and what is never stored: a collector on the loopback, real clients, tables read back.

#![allow(clippy::unwrap_used, reason = "a test ends where something it relies on fails")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use collector::Config;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use prost::Message;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use service::Deps;
use service::principal::{Principal, Principals, Role, new_token};
use service::secret::Secret;
use service::tls::{self, Acceptor};
use service::uplink::{Credentials, Uplink};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::{Code, Status as Refusal};

#[path = "protect/alerts.rs"]
mod alerts;

struct World {
    deps: Deps,
    grpc: String,
    http: String,
    directory: tempfile::TempDir,
    task: tokio::task::JoinHandle<service::Result<()>>,
}

impl World {
    async fn start(principals: &[Principal], files: &tls::Config) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut deps = Deps::system();
        deps.principals = Principals::new(principals, &deps.clock);
        deps.tls = Acceptor::load(files).unwrap();
        let lake = lake::Lake::open(directory.path().join("lake").to_str().unwrap(), &deps).await.unwrap();
        let (any, soon) = ("127.0.0.1:0".parse().unwrap(), Duration::from_millis(50));
        let (grpc_addr, http_addr, state) = (any, any, directory.path().join("state"));
        let config =
            Config { grpc_addr, http_addr, state, flush_after: soon, bulk_flush_after: soon, ..Config::default() };
        let built = collector::build(config, lake, deps.clone()).await.unwrap();
        let (grpc, http) = (built.grpc_addr().port(), built.http_addr().to_string());
        let grpc = format!("{}://localhost:{grpc}", deps.tls.scheme());
        let task = tokio::spawn(built.run());
        while !deps.health.ready() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Self { deps, grpc, http, directory, task }
    }

    async fn send(&self, credentials: &Credentials, spans: Vec<Span>) -> Result<ExportTraceServiceResponse, Refusal> {
        let uplink = Uplink::new("test", &self.grpc, credentials, Duration::from_secs(20)).unwrap();
        let mut request = tonic::Request::new(traces(spans));
        *request.metadata_mut() = uplink.metadata();
        let answer = TraceServiceClient::new(uplink.channel()).export(request).await;
        answer.map(tonic::Response::into_inner)
    }

    /// Status and head of the answer to a POST of spans.
    async fn post(&self, headers: &str, spans: Vec<Span>) -> (u16, String) {
        self.post_body("traces", "x-protobuf", headers, &traces(spans).encode_to_vec()).await
    }

    async fn post_body(&self, signal: &str, encoding: &str, headers: &str, body: &[u8]) -> (u16, String) {
        self.post_to(&format!("/v1/{signal}"), encoding, headers, body).await
    }

    async fn post_to(&self, path: &str, encoding: &str, headers: &str, body: &[u8]) -> (u16, String) {
        let mut stream = tokio::net::TcpStream::connect(&self.http).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/{encoding}\r\n\
             content-length: {}\r\n{headers}\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer).to_lowercase();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }

    /// Ends in order and gives all rows of all tables as text.
    async fn stop(self) -> String {
        assert_eq!(self.deps.shutdown.walk(Duration::from_secs(20)).await, Vec::<String>::new());
        self.task.await.unwrap().unwrap();
        let mut text = Vec::new();
        dump(&self.directory.path().join("lake"), &mut text);
        String::from_utf8(text).unwrap()
    }
}

/// Appends the rows of all Parquet files below a directory, as JSON.
fn dump(directory: &Path, text: &mut Vec<u8>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            dump(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "parquet") {
            let file = std::fs::File::open(&path).unwrap();
            let mut writer = arrow::json::LineDelimitedWriter::new(&mut *text);
            for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap() {
                writer.write(&batch.unwrap()).unwrap();
            }
            writer.finish().unwrap();
        }
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(Value::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn now_ns() -> u64 {
    u64::try_from(service::clock::system().now_ns()).unwrap()
}

fn span(id: u8, name: &str, attributes: Vec<KeyValue>) -> Span {
    let end = now_ns();
    Span {
        trace_id: vec![id; 16],
        span_id: vec![id; 8],
        name: name.to_owned(),
        start_time_unix_nano: end - 1_000_000,
        end_time_unix_nano: end,
        attributes,
        ..Span::default()
    }
}

fn traces(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let resource = Some(Resource { attributes: vec![text("service.name", "s")], ..Resource::default() });
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }],
    }
}

/// A principal with a new token.
fn principal(name: &str, role: Role, tenants: &[&str]) -> (Principal, Credentials) {
    let (token, hash) = new_token().unwrap();
    let principal = Principal {
        name: name.to_owned(),
        role,
        token_sha256: Some(hash),
        scram: None,
        expires: None,
        certificate: None,
        tenants: tenants.iter().map(|tenant| (*tenant).to_owned()).collect(),
        regions: vec!["*".to_owned()],
        infrastructure: None,
        items_per_s: None,
        bytes_per_s: None,
        burst_s: 1,
    };
    (principal, Credentials { token: Some(token), ..Credentials::default() })
}

fn bearer(credentials: &Credentials) -> String {
    format!("authorization: Bearer {}\r\n", credentials.token.as_ref().unwrap().expose())
}

fn code(result: Result<ExportTraceServiceResponse, Refusal>) -> Option<Code> {
    result.err().map(|refusal| refusal.code())
}

/// No or a wrong token is 401 and UNAUTHENTICATED, a reader 403 and PERMISSION_DENIED, on both protocols; a writer's rows of
/// other tenants are rejected, counted and not stored.
#[tokio::test(flavor = "multi_thread")]
async fn principals_and_tenants() {
    let (acme, acme_token) = principal("acme", Role::Writer, &["acme"]);
    let (all, all_token) = principal("all", Role::Writer, &["*"]);
    let (reader, reader_token) = principal("reader", Role::Reader, &["*"]);
    let (mut former, former_token) = principal("former", Role::Writer, &["*"]);
    former.expires = service::config::instant::parse("2020-01-01").ok();
    let world = World::start(&[acme, all, reader, former], &tls::Config::default()).await;
    let wrong = Credentials { token: Some(Secret::new("tw_wrong")), ..Credentials::default() };
    let one = || vec![span(9, "refused", Vec::new())];
    for (credentials, grpc, http) in [
        (&Credentials::default(), Code::Unauthenticated, 401),
        (&wrong, Code::Unauthenticated, 401),
        (&former_token, Code::Unauthenticated, 401),
        (&reader_token, Code::PermissionDenied, 403),
    ] {
        assert_eq!(code(world.send(credentials, one()).await), Some(grpc));
        let headers = credentials.token.as_ref().map(|_| bearer(credentials)).unwrap_or_default();
        assert_eq!(world.post(&headers, one()).await.0, http);
    }
    let refused = world.send(&former_token, one()).await.unwrap_err();
    assert!(refused.message().contains("the token of `former` expired at 2020-01-01T00:00:00Z"), "{refused}");
    let tenant = |name: &str| vec![text("tokenwatt.tenant", name)];
    let sent = vec![
        span(1, "acme-own", tenant("acme")),
        span(2, "acme-forged", tenant("zeta")),
        span(3, "acme-nobody", Vec::new()),
    ];
    let partial = world.send(&acme_token, sent).await.unwrap().partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 2, "{}", partial.error_message);
    assert!(partial.error_message.contains("tenant"), "{}", partial.error_message);
    let (status, answer) = world.post(&bearer(&acme_token), vec![span(4, "http-forged", tenant("zeta"))]).await;
    assert!(status == 200 && answer.contains("1 rejected because this sender"), "{answer}");
    let stored =
        world.send(&all_token, vec![span(5, "all-own", tenant("zeta")), span(6, "all-nobody", Vec::new())]).await;
    assert_eq!(stored.unwrap().partial_success, None);

    let metrics = world.deps.metrics.render();
    for line in [
        "tokenwatt_collector_rejected_items_total{reason=\"tenant\"} 3",
        "tokenwatt_collector_invalid_requests_total{reason=\"unauthenticated\"} 7",
        "tokenwatt_collector_invalid_requests_total{reason=\"denied\"} 2",
        "tokenwatt_collector_principal_accepted_items_total{principal=\"acme\"} 1",
        "tokenwatt_collector_principal_rejected_items_total{principal=\"acme\"} 3",
        "tokenwatt_collector_principal_accepted_items_total{principal=\"all\"} 2",
    ] {
        assert!(metrics.contains(&format!("{line}\n")), "{line} not in\n{metrics}");
    }
    let rows = world.stop().await;
    for (name, expected) in
        [("own", true), ("all-nobody", true), ("forged", false), ("acme-nobody", false), ("refused", false)]
    {
        assert_eq!(rows.contains(name), expected, "{name}");
    }
}

/// Loki's protocol has no partial success: a push some of whose lines are rejected is a 400 that says why, and the rest is stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_loki_push_with_rejected_lines_is_a_400_and_the_rest_is_stored() {
    let (acme, token) = principal("acme", Role::Writer, &["acme"]);
    let world = World::start(&[acme], &tls::Config::default()).await;
    let stream = |tenant: &str, line: &str| {
        let tenant = format!("{{\"tokenwatt.tenant\":\"{tenant}\"}}");
        format!("{{\"stream\":{{\"app\":\"web\"}},\"values\":[[\"{}\",\"{line}\",{tenant}]]}}", now_ns())
    };
    let push = |streams: &[String]| format!("{{\"streams\":[{}]}}", streams.join(",")).into_bytes();
    let mixed = push(&[stream("acme", "line-own"), stream("zeta", "line-forged")]);
    let (status, answer) = world.post_to("/loki/api/v1/push", "json", &bearer(&token), &mixed).await;
    assert!(status == 400 && answer.contains("1 rejected because this sender"), "{answer}");
    let own = push(&[stream("acme", "line-alone")]);
    assert_eq!(world.post_to("/loki/api/v1/push", "json", &bearer(&token), &own).await.0, 204);
    let rows = world.stop().await;
    for (line, expected) in [("line-own", true), ("line-alone", true), ("line-forged", false)] {
        assert_eq!(rows.contains(line), expected, "{line}");
    }
}

/// Who has sent more than its quota is told to come back, and others are not held up.
#[tokio::test(flavor = "multi_thread")]
async fn quotas_ask_to_come_back() {
    let (mut items, items_token) = principal("items", Role::Writer, &["*"]);
    items.items_per_s = Some(1);
    let (mut bytes, bytes_token) = principal("bytes", Role::Writer, &["*"]);
    bytes.bytes_per_s = Some(1);
    let (free, free_token) = principal("free", Role::Writer, &["*"]);
    let world = World::start(&[items, bytes, free], &tls::Config::default()).await;
    let burst = |first: u8| (0..40).map(|id| span(first + id, "burst", Vec::new())).collect::<Vec<_>>();
    for (first, credentials) in [(1, &items_token), (50, &bytes_token)] {
        assert_eq!(code(world.send(credentials, burst(first)).await), None, "a full bucket takes any one body");
        let refusal = world.send(credentials, burst(100)).await.unwrap_err();
        assert_eq!(refusal.code(), Code::ResourceExhausted);
        assert!(!refusal.details().is_empty(), "RetryInfo");
        let (status, answer) = world.post(&bearer(credentials), burst(100)).await;
        assert!(status == 429 && answer.contains("retry-after: "), "{answer}");
        assert_eq!(code(world.send(&free_token, vec![span(first + 45, "free", Vec::new())]).await), None);
    }
    let metrics = world.deps.metrics.render();
    let line = "tokenwatt_collector_principal_throttled_requests_total{principal=\"items\"} 2\n";
    assert!(metrics.contains(line), "{metrics}");
    world.stop().await;
}

/// An authority and what it issues, as files.
struct Issuer {
    directory: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Issuer {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
        Self { directory, authority }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn issue(&self, name: &str, alternative: SanType) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![alternative];
        let (cert, private) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        std::fs::write(&cert, params.signed_by(&key, &self.authority).unwrap().pem()).unwrap();
        std::fs::write(&private, key.serialize_pem()).unwrap();
        (cert, private)
    }
}

/// Under TLS a token or a client certificate proves a writer; nobody trusts a stranger's certificate.
#[tokio::test(flavor = "multi_thread")]
async fn tls_with_tokens_and_certificates() {
    let (issuer, stranger) = (Issuer::new(), Issuer::new());
    let (cert, key) = issuer.issue("server", SanType::DnsName("localhost".try_into().unwrap()));
    let node = || SanType::URI("spiffe://fleet/node".try_into().unwrap());
    let (own, strangers) = (issuer.issue("node", node()), stranger.issue("node", node()));
    let files = tls::Config { cert: Some(cert), key: Some(key), client_ca: Some(issuer.path("ca.pem")) };
    let (mesh, _) = principal("mesh", Role::Writer, &["*"]);
    let mesh = Principal { token_sha256: None, certificate: Some("spiffe://fleet/node".to_owned()), ..mesh };
    let (agent, agent_token) = principal("agent", Role::Writer, &["*"]);
    let world = World::start(&[mesh, agent], &files).await;

    let trusting = |ca: &Issuer| Credentials { ca: Some(ca.path("ca.pem")), ..Credentials::default() };
    let with = |(cert, key): &(PathBuf, PathBuf)| Credentials {
        cert: Some(cert.clone()),
        key: Some(key.clone()),
        ..trusting(&issuer)
    };
    let by_token = Credentials { token: agent_token.token.clone(), ..trusting(&issuer) };
    assert_eq!(code(world.send(&by_token, vec![span(1, "by-token", Vec::new())]).await), None);
    assert_eq!(code(world.send(&with(&own), vec![span(2, "by-certificate", Vec::new())]).await), None);
    let refused = || vec![span(3, "refused", Vec::new())];
    assert_eq!(code(world.send(&trusting(&issuer), refused()).await), Some(Code::Unauthenticated));
    for untrusted in [with(&strangers), trusting(&stranger)] {
        let code = code(world.send(&untrusted, refused()).await);
        assert!(code.is_some_and(|code| code != Code::Unauthenticated), "it is the handshake that fails: {code:?}");
    }
    let rows = world.stop().await;
    assert!(rows.contains("by-token") && rows.contains("by-certificate") && !rows.contains("refused"));
}

/// What a user wrote, what a model answered and credentials are in no file, wherever in a span or a log record they stood; what
/// stood around them is.
#[tokio::test(flavor = "multi_thread")]
async fn content_and_credentials_reach_no_file() {
    let world = World::start(&[], &tls::Config::default()).await;
    let said = "xyzzy-what-somebody-said";
    let key = "sk-proj-plughplughplugh0123456789";
    let event = |name: &str, attributes| Event { name: name.to_owned(), attributes, ..Event::default() };
    let call = Span {
        status: Some(Status { message: format!("401: bad key {key} given"), code: 2 }),
        events: vec![
            event("gen_ai.content.prompt", vec![text("gen_ai.prompt", said), text("around", "event-kept")]),
            event("gen_ai.user.message", vec![text("content", said), text("role", "user")]),
            event("gen_ai.choice", vec![text("message", said), text("gen_ai.event.content", said)]),
            event("exception", vec![text("exception.message", &format!("with {key} in it"))]),
        ],
        ..span(
            1,
            "llm_request",
            vec![
                text("gen_ai.request.model", "model-kept"),
                text("gen_ai.input.messages", said),
                text("gen_ai.prompt.0.content", said),
                text("gen_ai.completion.0.content", said),
                text("llm.output_messages.0.message.content", said),
                text("traceloop.entity.output", said),
                text("ai.prompt.messages", said),
                text("input.value", said),
                text("http.request.header.authorization", key),
                text("http.url", &format!("https://user:{key}@host-kept/v1")),
                text("note", &format!("called with Authorization: Bearer {key}, then went on")),
            ],
        )
    };
    let late = Span { start_time_unix_nano: 1, end_time_unix_nano: 2, span_id: vec![2; 8], ..call.clone() };
    let answer = world.send(&Credentials::default(), vec![call, late]).await.unwrap();
    assert!(answer.partial_success.unwrap().error_message.contains("quarantine"));

    let map = |pairs: Vec<KeyValue>| AnyValue { value: Some(Value::KvlistValue(KeyValueList { values: pairs })) };
    let record = |name: &str, body: AnyValue, attributes: Vec<KeyValue>| LogRecord {
        time_unix_nano: now_ns(),
        event_name: name.to_owned(),
        body: Some(body),
        attributes,
        ..LogRecord::default()
    };
    let plain = |body: &str| AnyValue { value: Some(Value::StringValue(body.to_owned())) };
    let old = |record: LogRecord| LogRecord { time_unix_nano: 1, ..record };
    let spoken = || record("gen_ai.user.message", map(vec![text("content", said)]), vec![text("content", said)]);
    let named = || record("", plain(said), vec![text("event.name", "gen_ai.assistant.message")]);
    let log_records = vec![
        spoken(),
        old(spoken()),
        named(),
        old(named()),
        record("", map(vec![text("gen_ai.prompt", said), text("inside", "map-kept")]), Vec::new()),
        record("", plain(&format!("using key {key} for log-kept")), Vec::new()),
    ];
    let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    let uplink = Uplink::new("test", &world.grpc, &Credentials::default(), Duration::from_secs(20)).unwrap();
    LogsServiceClient::new(uplink.channel()).export(ExportLogsServiceRequest { resource_logs }).await.unwrap();

    let rows = world.stop().await;
    assert!(!rows.contains("xyzzy"), "what somebody said is stored:\n{rows}");
    assert!(!rows.contains("plugh"), "a credential is stored:\n{rows}");
    for kept in ["model-kept", "event-kept", "host-kept", "map-kept", "log-kept", "then went on", "given", "[redacted]"]
    {
        assert!(rows.contains(kept), "{kept} is not in\n{rows}");
    }
    assert!(rows.contains("\"signal\":\"traces\"") && rows.contains("\"signal\":\"logs\""), "both were quarantined");
}

/// A row in quarantine is put back by posting its body with a time that can be meant: nothing but the time differs from a row
/// that came in time.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarantined_row_can_be_put_back() {
    let point = |time| NumberDataPoint {
        time_unix_nano: time,
        value: Some(number_data_point::Value::AsDouble(31.5)),
        attributes: vec![text("hw.id", "gpu-0")],
        ..NumberDataPoint::default()
    };
    let sum = Sum { data_points: vec![point(1), point(2)], aggregation_temporality: 2, is_monotonic: true };
    let metric = Metric { name: "m".to_owned(), unit: "J".to_owned(), data: Some(Data::Sum(sum)), ..Metric::default() };
    let resource =
        Some(Resource { attributes: vec![text("service.name", "s"), text("odd", "r")], ..Resource::default() });
    let scope = Some(InstrumentationScope { name: "meter".to_owned(), ..InstrumentationScope::default() });
    let scope_metrics = vec![ScopeMetrics { scope, metrics: vec![metric], ..ScopeMetrics::default() }];
    let sent = ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }],
    };
    let world = World::start(&[], &tls::Config::default()).await;
    assert_eq!(world.post_body("metrics", "x-protobuf", "", &sent.encode_to_vec()).await.0, 200);
    let quarantined = world.stop().await;
    let bodies: Vec<String> = quarantined
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter_map(|row| row["body"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(bodies.len(), 2, "{quarantined}");

    let world = World::start(&[], &tls::Config::default()).await;
    for (body, then) in bodies.iter().zip(1..) {
        let now = now_ns().to_string();
        let mended = body.replace(&format!("\"timeUnixNano\":\"{then}\""), &format!("\"timeUnixNano\":\"{now}\""));
        assert_ne!(&mended, body);
        let (status, answer) = world.post_body("metrics", "json", "", mended.as_bytes()).await;
        assert!(status == 200 && !answer.contains("quarantine"), "{answer}");
    }
    let stored = world.stop().await;
    let rows: Vec<serde_json::Value> = stored.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<_> = rows.iter().filter(|row| row["name"] == "m").collect();
    assert_eq!(rows.len(), 2, "{stored}");
    for row in rows {
        assert_eq!(
            (&row["value"], &row["unit"], &row["monotonic"]),
            (&31.5.into(), &"J".into(), &true.into()),
            "{row}"
        );
        assert_eq!((&row["scope_name"], &row["service"]), (&"meter".into(), &"s".into()), "{row}");
        assert!(
            row["resource"].to_string().contains("odd") && row["attributes"].to_string().contains("gpu-0"),
            "{row}"
        );
    }
}
