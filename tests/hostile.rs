//! Bad input: each gets a clear answer or a clear exit, nothing else is lost, and nothing panics.

use std::os::unix::fs::PermissionsExt;

use flate2::{Compression, FlushCompress};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use prost::Message;
use reqwest::StatusCode;
use telemetry::names;

use crate::otlp::{self, attribute, spans_of, text};
use crate::postgres;
use crate::sender::Sender;
use crate::world::{PATIENCE, Server, World, client, client_within, finish, unix_ns};

const PROTOBUF: &str = "application/x-protobuf";

async fn post(server: &Server, headers: &[(&str, &str)], body: Vec<u8>) -> (StatusCode, Vec<u8>) {
    let mut request = server.client().post(format!("{}/v1/traces", server.otlp_http())).body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.expect("an answer");
    (answer.status(), answer.bytes().await.expect("its body").to_vec())
}

/// The server still takes good data, shows it, and has not panicked.
async fn assert_sound(server: &Server, run: u64) {
    let mut sender = Sender::new(run);
    sender.send(server.otlp_grpc(), 1).await.expect("good data is taken");
    let hex: String = run.to_be_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let sent = sender.acknowledged() as i64;
    let rows = format!("SELECT count(*) FROM requests WHERE trace_id LIKE '{hex}%'");
    server.until_at_least(&rows, sent).await;
    assert!(!server.output().contains("panicked"), "{}", server.output());
}

#[tokio::test]
async fn a_wrong_content_type_is_415_and_broken_bodies_are_400() {
    let world = World::new();
    let server = world.up();
    let good = otlp::calls(1, 0, 1, unix_ns()).encode_to_vec();
    let (status, body) = post(&server, &[("content-type", "text/plain")], good.clone()).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(!body.is_empty(), "the answer says what is accepted");

    let truncated = good[..good.len() - 7].to_vec();
    assert_eq!(post(&server, &[("content-type", PROTOBUF)], truncated).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(
        post(&server, &[("content-type", "application/json")], b"{\"resourceSpans\":[{".to_vec()).await.0,
        StatusCode::BAD_REQUEST
    );
    let not_gzip = [("content-type", PROTOBUF), ("content-encoding", "gzip")];
    assert_eq!(post(&server, &not_gzip, good).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(server.numbers("SELECT count(*) FROM requests").await, [0], "nothing of it was stored");
    assert_sound(&server, 2).await;
}

/// A gzip stream of 10 GB of zeros, about 10 MB long: one compressed stretch of zeros, repeated. Its checksum is missing, but
/// who reads as far as that has lost already.
fn bomb() -> Vec<u8> {
    let zeros = vec![0; 16 << 20];
    let mut deflate = flate2::Compress::new(Compression::best(), false);
    let mut stretch = Vec::with_capacity(1 << 20);
    deflate.compress_vec(&zeros, &mut stretch, FlushCompress::Full).expect("compress");
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    for _ in 0..640 {
        gzip.extend_from_slice(&stretch);
    }
    gzip
}

#[tokio::test]
async fn a_gzip_bomb_is_413_and_takes_no_memory() {
    let bomb = bomb();
    assert!(bomb.len() < 64 << 20, "it would be refused for its own size");
    let world = World::new();
    let server = world.up();
    assert_sound(&server, 1).await;
    let (before, _) = server.rss();
    let headers = [("content-type", PROTOBUF), ("content-encoding", "gzip")];
    for _ in 0..3 {
        let (status, _) = post(&server, &headers, bomb.clone()).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    }
    let (_, peak) = server.rss();
    let grown = peak.saturating_sub(before);
    assert!(grown < 100_000_000, "memory grew by {grown} bytes");
    assert_sound(&server, 2).await;
}

/// Values that make no sense are kept where they can be, flagged where they are not believed, and never sink their batch.
#[tokio::test]
async fn absurd_values_do_not_sink_their_batch() {
    let world = World::new();
    let server = world.up();
    let now = unix_ns();
    let odd = |n: u64, start: u64, end: u64, attributes| Span {
        trace_id: otlp::trace_id(9, n),
        span_id: (n + 1).to_be_bytes().to_vec(),
        name: names::SPAN_REQUEST.into(),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: start,
        end_time_unix_nano: end,
        attributes,
        ..Span::default()
    };
    let ttft = |seconds| attribute(names::LATENCY_TTFT, Value::DoubleValue(seconds));
    let begun = now - 1_000_000_000;
    let many = (0..10_000).map(|n| attribute(&format!("attribute.{n}"), text("x"))).collect();
    let spans = vec![
        odd(0, begun, now, vec![ttft(f64::NAN)]),
        odd(1, begun, now, vec![ttft(-1.0)]),
        odd(2, begun, now, vec![ttft(f64::INFINITY)]),
        odd(3, begun, now, vec![attribute(names::INPUT_TOKENS, Value::IntValue(-5))]),
        odd(4, begun, now, many),
        odd(5, now, begun, vec![ttft(0.5)]),
        odd(6, 0, 0, vec![]),
        odd(7, 1, 2, vec![]),
        odd(8, u64::MAX - 5, u64::MAX, vec![]),
        odd(9, begun, now, vec![ttft(0.25)]),
    ];
    let body = spans_of("odd", spans).encode_to_vec();
    let (status, answer) = post(&server, &[("content-type", PROTOBUF)], body).await;
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&answer));
    let answer = ExportTraceServiceResponse::decode(answer.as_slice()).expect("an answer in the request's encoding");
    let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);

    // Each span is in a table or counted as rejected; none is gone without a word.
    let kept = "SELECT count(*) FROM (SELECT span_id FROM requests WHERE service = 'odd' \
                UNION SELECT span_id FROM spans WHERE service = 'odd' \
                UNION SELECT span_id FROM quarantine WHERE service = 'odd')";
    server.until_at_least(kept, 10 - rejected).await;
    let last = "SELECT count(*) FROM spans WHERE service = 'odd' AND attributes['attribute.9999'] = 'x'";
    assert_eq!(server.numbers(last).await, [1], "the span of 10,000 attributes has them all");
    let good = "SELECT ttft_s FROM requests WHERE service = 'odd' AND ttft_s = 0.25";
    assert_eq!(server.sql(good).await.rows.len(), 1);
    let wild = "SELECT count(*) FROM requests WHERE service = 'odd' AND (isnan(ttft_s) OR ttft_s < 0 OR ttft_s > 1e9 OR input_tokens < 0 OR e2e_s < 0)";
    assert_eq!(server.numbers(wild).await, [0], "a value without sense is unknown, not a number");
    assert_sound(&server, 3).await;
}

/// Invalid UTF-8 in a string field is bad data; the request is refused, the next one is not.
#[tokio::test]
async fn invalid_utf8_is_answered() {
    let world = World::new();
    let server = world.up();
    let marker = "MARKERMARKER";
    let span = Span {
        trace_id: otlp::trace_id(4, 0),
        span_id: vec![1; 8],
        name: marker.into(),
        start_time_unix_nano: unix_ns() - 5,
        end_time_unix_nano: unix_ns(),
        ..Span::default()
    };
    let mut body = spans_of("utf8", vec![span]).encode_to_vec();
    let at = body.windows(marker.len()).position(|window| window == marker.as_bytes()).expect("the name");
    body[at] = 0xff;
    let (status, answer) = post(&server, &[("content-type", PROTOBUF)], body).await;
    let answered = status == StatusCode::BAD_REQUEST
        || ExportTraceServiceResponse::decode(answer.as_slice()).is_ok_and(|answer| answer.partial_success.is_some());
    assert!(answered, "{status}: neither refused nor reported");
    assert_sound(&server, 5).await;
}

/// Attacks in SQL over every protocol by a reader of one tenant, while one of another asks on: files, networks, writing, settings, others'
/// rows and queries are out of reach, what would take too much ends, and the other does not notice.
#[tokio::test(flavor = "multi_thread")]
async fn attacks_in_sql_reach_nothing_and_hurt_nobody() {
    let world = World::new();
    let written = world.up();
    let (otlp, http) = (written.otlp_http().to_owned(), written.http().to_owned());
    let sent = tokio::task::spawn_blocking(move || client("send_fleet.py", &[&otlp, &http, "now"], &[]));
    sent.await.expect("a fleet");
    let (status, output) = written.stop();
    assert!(status.success(), "{output}");

    let (attacker, victim) = (postgres::token(), postgres::token());
    let reader = |name: &str, (_, hash, scram): &(String, String, String), tenant: &str| {
        format!(
            "[[principal]]\nname = \"{name}\"\nrole = \"reader\"\ntoken_sha256 = \"{hash}\"\nscram = \"{scram}\"\ntenants = [\"{tenant}\"]\n"
        )
    };
    let limits = "[query]\nmemory_bytes_per_query = 134217728\nspill_bytes_max = 268435456\n";
    let readers = reader("attacker", &attacker, "acme") + &reader("victim", &victim, "globex");
    let settings = world.write("attacked.toml", &(limits.to_owned() + &readers)).display().to_string();
    let server = world.up_with(&["--config", &settings]);
    let postgres = server.address("postgresql").trim_start_matches("postgresql://").to_owned();
    let (http, flight) = (server.http().to_owned(), server.address("flight").to_owned());
    let directory = world.path().display().to_string();
    let attack = move || {
        let args: [&str; 6] = [&postgres, &http, &flight, &attacker.0, &victim.0, &directory];
        client_within("attack.py", &args, &[], 8 * PATIENCE)
    };
    let said = tokio::task::spawn_blocking(attack).await.expect("the attacks");
    assert!(said.ends_with("refused, undisturbed"), "{said}");

    // All that was begun has ended, and nothing broke.
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let page = server.client().get(format!("{}/metrics", server.otlp_http())).send().await.expect("metrics");
        let page = page.text().await.expect("text");
        let idle = ["tokenwatt_query_running 0", "tokenwatt_query_stopping 0"];
        if idle.iter().all(|line| page.lines().any(|own| own == *line)) {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "something still runs:\n{page}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let output = server.output();
    assert!(!output.contains("panicked"), "{output}");
}

#[test]
fn an_unknown_config_key_is_named_and_all_faults_come_at_once() {
    let world = World::new();
    let config = world.write("tokenwatt.toml", "[query]\nmax_rowz = 5\n[collector]\nnonsense = true\n");
    let output = finish(&mut world.up_command(&["--config", &config.display().to_string()]));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(stderr.contains("max_rowz"), "{stderr}");
    assert!(stderr.contains("nonsense"), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn a_directory_without_write_permission_is_named() {
    let world = World::new();
    let dir = world.path().join("sealed");
    std::fs::create_dir(&dir).expect("create");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o555)).expect("seal");
    if std::fs::write(dir.join("probe"), "").is_ok() {
        // Root may write anywhere but below a file and in /proc.
        std::fs::remove_file(dir.join("probe")).expect("remove");
        assert_refused(&world, "/proc/tokenwatt");
        let file = world.write("a-file", "");
        assert_refused(&world, &file.join("lake").display().to_string());
        return;
    }
    assert_refused(&world, &dir.join("lake").display().to_string());
}

fn assert_refused(world: &World, data: &str) {
    let output = finish(&mut world.up_command(&["--data", data]));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{data} was accepted");
    assert!(stderr.contains(data) && !stderr.contains("panicked"), "{data}: {stderr}");
}

#[test]
fn a_port_in_use_is_named() {
    let world = World::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = taken.local_addr().expect("address");
    let mut command = crate::world::tokenwatt(&["up", "--otlp-grpc", &address.to_string()]);
    command.args(["--otlp-http", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.arg("--data").arg(world.lake()).arg("--state").arg(world.state());
    let output = finish(&mut command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(stderr.contains(&address.port().to_string()) && stderr.contains("in use"), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}
