use std::fmt::Debug;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use parking_lot::Mutex;
use service::channel::bounded;
use service::uplink::Credentials;
use tonic::{Request, Response, Status};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use super::*;
use crate::config::{Identity, RecordConfig};
use crate::engine::{EngineDescription, Sampling};
use crate::queue::Asked;
use crate::step::Sample;

fn call() -> Arc<Call> {
    Arc::new(Call {
        trace_id: 1,
        span_id: 2,
        parent_span_id: None,
        arrival_ns: 1_000,
        id: "c".to_owned(),
        operation: "chat",
        stream: true,
        model: "m".into(),
        tenant: None,
        priority: 0,
        deadline_ns: None,
        input_tokens: 3,
        output_max: 10,
        asked: Asked::default(),
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        stops: Arc::new([]),
        sampled: true,
    })
}

fn step(tokens: usize) -> StepRecord {
    let mark = TokenMark { call: call(), choice: 0, index: 0, start_ns: 1_000, device_us: 1, stall: Stall::Decode };
    StepRecord { end_ns: 2_000, batch: 1, tokens: vec![mark; tokens], detail: None }
}

fn taken() -> Taken {
    let now = Sample { time_ns: 5, ..Sample::default() };
    Taken { now, executing: None, power_w: None }
}

/// A full channel drops what comes, counts every span of it, and does not wait.
#[test]
fn full_channel_counts_what_it_drops() {
    let (sender, mut receiver) = bounded("test.records", 1);
    let lost = Lost::new(&Registry::new());
    let recorder = Recorder::new(sender, lost.clone());
    recorder.step(step(0));
    assert!(receiver.try_recv().is_err(), "a step without recorded tokens is no record");
    recorder.step(step(4));
    recorder.step(step(7));
    recorder.call(CallRecord::new(call(), 1));
    recorder.sample(taken());
    assert_eq!((lost.spans.get(), lost.samples.get()), (8, 1));
    assert!(matches!(receiver.try_recv(), Ok(Record::Step(step)) if step.tokens.len() == 4));
}

/// Phases follow one another without a gap, as far as a call came; where they are spans, they are counted as spans.
#[test]
fn phases_fill_the_call() {
    let mut record = CallRecord::new(call(), 1);
    record.end_ns = 9_000;
    assert_eq!(record.phases().collect::<Vec<_>>(), [("queue", 1_000, 9_000)]);
    (record.scheduled_ns, record.first_ns) = (Some(2_000), Some(5_000));
    let all = [("queue", 1_000, 2_000), ("prefill", 2_000, 5_000), ("decode", 5_000, 9_000)];
    assert_eq!(record.phases().collect::<Vec<_>>(), all);
    for (phases, spans) in [(false, 1), (true, 4)] {
        let (sender, receiver) = bounded("test.records", 1);
        drop(receiver);
        let lost = Lost::new(&Registry::new());
        Recorder::new(sender, lost.clone()).with_phases(phases).call(record.clone());
        assert_eq!(lost.spans.get(), spans);
    }
    let unsampled = Call { sampled: false, ..Arc::into_inner(call()).unwrap() };
    assert_eq!(CallRecord::new(Arc::new(unsampled), 1).phases().count(), 0);
}

fn engine() -> EngineDescription {
    EngineDescription {
        engine: "sim".to_owned(),
        model: "m".to_owned(),
        quantization: None,
        tensor_parallel: None,
        accelerator: None,
        chips: None,
        slots: 1,
        max_len: 128,
        prompt_max: 128,
        policy: crate::schedule::Policy::NeuronSlots,
        prefix_cache: false,
        calibration_error: None,
        likelihoods: false,
        simulated: None,
    }
}

/// While nothing is taken, batches wait up to the bound; beyond it they are dropped and counted.
#[tokio::test]
async fn memory_is_bounded_while_the_collector_is_away() {
    let config = RecordConfig { spans_max: 100, batch_spans: 10, ..RecordConfig::default() };
    let (sender, receiver) = bounded("test.records", 10_000);
    let lost = Lost::new(&Registry::new());
    let origin = origin(&Identity::default(), &engine(), "i".to_owned(), 1.0);
    let uplink = uplink("http://127.0.0.1:1").unwrap();
    let (outbox, _exporter) = Outbox::new(&config, uplink, origin, None, 0, receiver, lost.clone());
    let recorder = Recorder::new(sender, lost.clone());
    for _ in 0..1_000 {
        recorder.step(step(10));
    }
    drop(recorder);
    outbox.run().await;
    assert_eq!(10_000 - lost.spans.get(), 100);
}

/// A bad endpoint is found when the node is built.
#[test]
fn bad_endpoint() {
    for endpoint in ["http://[", "127.0.0.1:4317", "ftp://127.0.0.1"] {
        assert_eq!(uplink(endpoint).err().map(|error| error.kind()), Some(service::Kind::Invalid), "{endpoint}");
    }
}

fn uplink(endpoint: &str) -> service::Result<service::uplink::Uplink> {
    service::uplink::Uplink::new("node.otlp_endpoint", endpoint, &Credentials::default(), ATTEMPT)
}

/// Keeps what is logged at level info and above.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Level, String)>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl Subscriber for Log {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.target().starts_with("inference_node") && *about.level() <= Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().push((*event.metadata().level(), line.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A collector that is not ready for the first three requests.
struct Late(Mutex<u32>);

#[tonic::async_trait]
impl TraceService for Late {
    async fn export(
        &self,
        _: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut left = self.0.lock();
        if *left > 0 {
            *left -= 1;
            return Err(Status::unavailable("starting"));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// However often a batch is sent again, the log says once that the collector is away, with its address, and once that it is back.
#[tokio::test]
async fn the_log_says_once_that_the_collector_is_away() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = tonic::transport::Server::builder().add_service(TraceServiceServer::new(Late(Mutex::new(3))));
    let collector = tokio::spawn(server.serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)));
    let log = Log::default();
    let _logged = tracing::subscriber::set_default(log.clone());
    let lost = Lost::new(&Registry::new());
    run(&address, Duration::from_secs(60), &lost).await;
    let lines = std::mem::take(&mut *log.0.lock());
    let [(Level::WARN, away), (Level::INFO, back)] = &lines[..] else { panic!("{lines:?}") };
    assert!(away.contains(&address) && away.contains("takes no records now") && away.contains("Unavailable"), "{away}");
    assert!(back.contains(&address) && back.contains("answers again"), "{back}");
    collector.abort();

    // One that never comes: that it is away, that the batch is given up, and how much was in the end.
    run("http://127.0.0.1:9", Duration::from_millis(1), &lost).await;
    let lines = log.0.lock();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[2].1.contains("spans=10 ") && lines[2].1.contains("not all that was recorded"), "{lines:?}");
}

/// Records ten spans and sends them to their end.
async fn run(endpoint: &str, give_up_after: Duration, lost: &Lost) {
    let config = RecordConfig { give_up_after, ..RecordConfig::default() };
    let (sender, receiver) = bounded("test.records", 10);
    let origin = origin(&Identity::default(), &engine(), "i".to_owned(), 1.0);
    let (outbox, exporter) = Outbox::new(&config, uplink(endpoint).unwrap(), origin, None, 0, receiver, lost.clone());
    Recorder::new(sender, lost.clone()).step(step(10));
    let ((), sent) = tokio::join!(outbox.run(), exporter.run());
    sent.unwrap();
}
