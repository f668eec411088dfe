//! Acknowledged means durable: a collector in a process of its own is killed in mid-load, again and again, and nothing is lost or
//! doubled. Real disk, real sockets, real SIGKILL; `TOKENWATT_CRASH_ROUNDS=30` kills it more often.

#![allow(clippy::unwrap_used, reason = "a test ends where something it relies on fails")]
#![allow(clippy::print_stdout, reason = "the process that is killed says where it listens")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use arrow::array::AsArray;
use collector::Config;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use service::Deps;

/// How often the collector is killed if nobody says otherwise.
const ROUNDS: u64 = 4;
/// Tells the process that it is the one to be killed, and where its files are.
const DIRECTORY: &str = "TOKENWATT_KILL_DIRECTORY";

/// Every span that was acknowledged is there once, whatever was in flight when the process died.
#[test]
fn kill_9_loses_nothing_and_doubles_nothing() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        runtime().block_on(serve(Path::new(&directory)));
        return;
    }
    let rounds = std::env::var("TOKENWATT_CRASH_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let mut senders: Vec<_> = (1..=3).map(|run| Sender { run, next: 0, pending: None, sent: 0 }).collect();
        for round in 0..rounds {
            let mut server = Server::start(directory.path());
            let load = senders.drain(..).map(|sender| tokio::spawn(sender.until_gone(server.address.clone())));
            let load: Vec<_> = load.collect();
            // Each life ends at another point of its work.
            tokio::time::sleep(Duration::from_millis(100 + 170 * (round % 7))).await;
            server.child.kill().unwrap();
            server.child.wait().unwrap();
            for sender in load {
                senders.push(sender.await.unwrap());
            }
        }
        let server = Server::start(directory.path());
        let mut sent = BTreeMap::new();
        for sender in &mut senders {
            while sender.pending.is_some() {
                sender.step(&server.address).await;
            }
            sent.insert(sender.run, sender.sent);
        }
        server.stop();
        assert!(sent.values().sum::<u64>() > rounds, "only {sent:?} were acknowledged");
        for (table, id) in [("spans", "span_id"), ("tokens", "request_span_id")] {
            let mut found = keys(directory.path(), table, id).await;
            found.sort();
            let all =
                sent.iter().flat_map(|(run, count)| (1..=*count).map(|id| (hex(*run as u128, 32), hex(id.into(), 16))));
            assert!(
                found.iter().eq(all.collect::<Vec<_>>().iter()),
                "{table}: {} keys, {sent:?} were sent",
                found.len()
            );
        }
    });
}

/// A lake that was restored without its id is refused with the command that says it is the same one; after that everything that was
/// acknowledged is there once.
#[test]
fn a_lake_without_its_id_is_taken_back_as_told() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    runtime().block_on(async {
        let mut sender = Sender { run: 1, next: 0, pending: None, sent: 0 };
        let mut server = Server::start(place);
        assert!(sender.step(&server.address).await);
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        while keys(place, "spans", "span_id").await.is_empty() {
            // It was killed before its first commit, so that nothing tells whose the rows are.
            Server::start(place).stop();
            server = Server::start(place);
            sender.step(&server.address).await;
            server.child.kill().unwrap();
            server.child.wait().unwrap();
        }
        std::fs::remove_file(place.join("lake/_tokenwatt/id")).unwrap();
        let refused = built(place, &Deps::system()).await.err().expect("another lake, for all that it knows");
        let hint = refused.hint().unwrap().to_owned();
        let command = hint.split('`').find(|part| part.starts_with("printf")).unwrap();
        assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
        let server = Server::start(place);
        while sender.pending.is_some() {
            sender.step(&server.address).await;
        }
        server.stop();
        let mut found = keys(place, "spans", "span_id").await;
        found.sort();
        let all: Vec<_> = (1..=sender.sent).map(|id| (hex(1, 32), hex(id.into(), 16))).collect();
        assert_eq!(found, all);
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn hex(number: u128, width: usize) -> String {
    format!("{number:0width$x}")
}

/// The process that is killed: it serves until its input ends.
async fn serve(directory: &Path) {
    let deps = Deps::system();
    let built = built(directory, &deps).await.unwrap();
    println!("\nlistening http://{}", built.grpc_addr());
    let running = tokio::spawn(built.run());
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await.unwrap().unwrap();
    assert_eq!(deps.shutdown.walk(Duration::from_secs(60)).await, Vec::<String>::new());
    running.await.unwrap().unwrap();
}

async fn built(directory: &Path, deps: &Deps) -> service::Result<collector::Built> {
    let lake = lake::Lake::open(directory.join("lake").to_str().unwrap(), deps).await.unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let soon = Duration::from_millis(120);
    let config = Config {
        grpc_addr: any,
        http_addr: any,
        state: directory.join("state"),
        flush_after: soon,
        bulk_flush_after: soon * 2,
        ..Config::default()
    };
    collector::build(config, lake, deps.clone()).await
}

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(directory: &Path) -> Server {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["kill_9_loses_nothing_and_doubles_nothing", "--exact", "--nocapture"]);
        command.env(DIRECTORY, directory).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("listening ").map(str::to_owned));
        // Whatever else it says must not find a closed pipe.
        std::thread::spawn(move || lines.count());
        Server { child, address: address.unwrap() }
    }

    /// Asks it to stop; everything acknowledged is then committed.
    fn stop(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// Sends spans one by one, and the same bytes again until they are acknowledged.
struct Sender {
    run: u64,
    next: u64,
    pending: Option<ExportTraceServiceRequest>,
    /// Acknowledged so far.
    sent: u64,
}

impl Sender {
    async fn until_gone(mut self, address: String) -> Sender {
        while self.step(&address).await {}
        self
    }

    /// Sends what is due; `false` if there is nobody to send it to.
    async fn step(&mut self, address: &str) -> bool {
        let Ok(mut client) = TraceServiceClient::connect(address.to_owned()).await else { return false };
        for _ in 0..50 {
            let body = self.pending.get_or_insert_with(|| {
                self.next += 1;
                body(self.run, self.next)
            });
            match client.export(body.clone()).await {
                Ok(_) => {
                    (self.pending, self.sent) = (None, self.sent + 1);
                }
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    return true;
                }
            }
        }
        true
    }
}

fn body(run: u64, id: u64) -> ExportTraceServiceRequest {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let span = |name: &str, id: u64, parent: u64| Span {
        trace_id: u128::from(run).to_be_bytes().to_vec(),
        span_id: id.to_be_bytes().to_vec(),
        parent_span_id: parent.to_be_bytes().to_vec(),
        name: name.to_owned(),
        start_time_unix_nano: now - 1_000,
        end_time_unix_nano: now,
        ..Span::default()
    };
    let spans = vec![span("work", id, u64::MAX), span("token", id | 1 << 63, id)];
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }] }
}

/// The keys of a table's rows, read from the files that its log names.
async fn keys(directory: &Path, table: &str, id: &str) -> Vec<(String, String)> {
    let place = directory.join("lake");
    let lake = lake::Lake::open_read_only(place.to_str().unwrap(), &Deps::system()).await.unwrap();
    let mut keys = Vec::new();
    for file in &lake.snapshot(table, None).await.unwrap().files {
        let file = std::fs::File::open(place.join(&file.path)).unwrap();
        for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().map(Result::unwrap) {
            let texts = |column: &str| {
                let column = batch.column_by_name(column).unwrap();
                let column = arrow::compute::cast(column, &arrow::datatypes::DataType::Utf8).unwrap();
                column.as_string::<i32>().iter().map(|text| text.unwrap().to_owned()).collect::<Vec<_>>()
            };
            keys.extend(texts("trace_id").into_iter().zip(texts(id)));
        }
    }
    keys
}
