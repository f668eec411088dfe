//! The recorder's thread: collects records into batches and sends them until they are taken.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use service::channel::{Receiver, Sender, TrySendError, bounded};
use service::error::{Error, Result};
use service::uplink::Uplink;
use tokio::time::Instant;
use tonic::Code;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;

use super::metric::Metrics;
use super::processor::Processors;
use super::span::Spans;
use super::{Lost, Origin, Record};
use crate::config::RecordConfig;
use crate::engine::Devices;
use crate::metrics::Counting;

/// Longest time that one attempt may take.
pub(crate) const ATTEMPT: Duration = Duration::from_secs(10);
/// First and longest pause between attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(4));
/// Batches and samples that may wait; spans are bounded by their own number.
const PARCELS_MAX: usize = 8_192;

/// Answers after which the same request would be refused again, as OTLP has it.
const PERMANENT: [Code; 8] = [
    Code::InvalidArgument,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::FailedPrecondition,
    Code::Unimplemented,
    Code::Internal,
    Code::Unauthenticated,
];

/// What waits to be sent, and since when.
struct Parcel {
    made: Instant,
    contents: Contents,
}

enum Contents {
    Spans(Vec<SpanData>),
    Sample(Box<ExportMetricsServiceRequest>),
}

/// Collects records into parcels.
pub(crate) struct Outbox {
    config: RecordConfig,
    records: Receiver<Record>,
    parcels: Sender<Parcel>,
    spans: Spans,
    metrics: Metrics,
    batch: Vec<SpanData>,
    /// Spans in parcels that were not taken yet.
    held: Arc<AtomicUsize>,
    lost: Lost,
    counting: Option<Counting>,
}

/// Sends parcels, one after another.
pub(crate) struct Exporter {
    config: RecordConfig,
    parcels: Receiver<Parcel>,
    uplink: Uplink,
    origin: Origin,
    held: Arc<AtomicUsize>,
    lost: Lost,
    /// Since when the collector takes nothing.
    away: Option<Instant>,
}

impl Outbox {
    /// The two halves of the recorder. `start_ns` is when the engine's counters were 0.
    pub(crate) fn new(
        config: &RecordConfig,
        uplink: Uplink,
        origin: Origin,
        devices: Option<Devices>,
        start_ns: i64,
        records: Receiver<Record>,
        lost: Lost,
    ) -> (Self, Exporter) {
        let (parcels, received) = bounded("node.parcels", PARCELS_MAX);
        let held = Arc::new(AtomicUsize::new(0));
        let outbox = Self {
            config: config.clone(),
            records,
            parcels,
            spans: Spans::new(&origin),
            metrics: Metrics::new(&origin, devices, Processors::open(config, &origin, start_ns), start_ns),
            batch: Vec::new(),
            held: Arc::clone(&held),
            lost: lost.clone(),
            counting: None,
        };
        let exporter = Exporter { config: config.clone(), parcels: received, uplink, origin, held, lost, away: None };
        (outbox, exporter)
    }

    /// Counts what it records in the node's own metrics too.
    pub(crate) fn counting(mut self, counting: Counting) -> Self {
        self.counting = Some(counting);
        self
    }

    /// Spans that the collector has not taken yet.
    pub(crate) fn held(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.held)
    }

    /// Runs until the step thread is gone and all its records are in parcels.
    pub(crate) async fn run(mut self) {
        let mut records = Vec::new();
        let mut due = Instant::now() + self.config.flush_after;
        loop {
            let received = tokio::time::timeout_at(due, self.records.recv_many(&mut records, 256)).await;
            for record in records.drain(..) {
                self.add(record);
            }
            let ended = received == Ok(0);
            if ended || Instant::now() >= due {
                self.close_batch();
                due = Instant::now() + self.config.flush_after;
            }
            if ended {
                return;
            }
        }
    }

    fn add(&mut self, record: Record) {
        if let Some(counting) = &mut self.counting {
            counting.count(&record);
        }
        match record {
            Record::Step(step) => self.spans.step(step, &mut self.batch),
            Record::Call(call) => {
                self.batch.push(self.spans.call(&call));
                if self.config.phase_spans {
                    self.spans.phases(&call, &mut self.batch);
                }
            }
            Record::Relayed(relayed) => self.spans.relayed(&relayed, &mut self.batch),
            Record::Sample(taken) => {
                // The tokens of a window are on their way before the sample that closes it.
                self.close_batch();
                let sample = self.metrics.request(&taken);
                self.send(Contents::Sample(Box::new(sample)));
            }
            Record::Load(load) => {
                if let Some(sample) = self.metrics.of_load(&load) {
                    self.send(Contents::Sample(Box::new(sample)));
                }
            }
        }
        if self.batch.len() >= self.config.batch_spans {
            self.close_batch();
        }
    }

    fn close_batch(&mut self) {
        if !self.batch.is_empty() {
            let batch = std::mem::take(&mut self.batch);
            self.send(Contents::Spans(batch));
        }
    }

    fn send(&self, contents: Contents) {
        let parcel = Parcel { made: Instant::now(), contents };
        let spans = parcel.spans();
        if self.held.load(Ordering::Relaxed) + spans > self.config.spans_max {
            self.lost.count(&parcel);
            return;
        }
        self.held.fetch_add(spans, Ordering::Relaxed);
        if let Err(TrySendError::Full(parcel) | TrySendError::Closed(parcel)) = self.parcels.try_send(parcel) {
            self.held.fetch_sub(spans, Ordering::Relaxed);
            self.lost.count(&parcel);
        }
    }
}

impl Parcel {
    fn spans(&self) -> usize {
        match &self.contents {
            Contents::Spans(spans) => spans.len(),
            Contents::Sample(_) => 0,
        }
    }
}

impl Lost {
    fn count(&self, parcel: &Parcel) {
        match &parcel.contents {
            Contents::Spans(spans) => self.spans.add(spans.len() as u64),
            Contents::Sample(_) => self.samples.inc(),
        }
    }
}

/// Why an attempt failed.
struct Failure {
    message: String,
    /// Sending the same again will fail again.
    hopeless: bool,
}

/// The open connection.
struct Connection {
    spans: SpanExporter,
    metrics: MetricsServiceClient<Channel>,
    metadata: MetadataMap,
}

impl Connection {
    fn request(&self, sample: &ExportMetricsServiceRequest) -> tonic::Request<ExportMetricsServiceRequest> {
        let mut request = tonic::Request::new(sample.clone());
        request.metadata_mut().clone_from(&self.metadata);
        request
    }

    async fn send(&mut self, parcel: &Parcel) -> Result<(), Failure> {
        match &parcel.contents {
            Contents::Spans(spans) => self.spans.export(spans.clone()).await.map_err(|error| {
                let message = error.to_string();
                // The exporter keeps the status code in its text only.
                let code = message.split_once("gRPC code: ").map_or("", |(_, code)| code);
                let hopeless = PERMANENT.iter().any(|known| code.starts_with(&format!("{known:?}")));
                Failure { message, hopeless }
            }),
            Contents::Sample(sample) => match self.metrics.export(self.request(sample)).await {
                Ok(_) => Ok(()),
                Err(status) => {
                    let hopeless = PERMANENT.contains(&status.code());
                    Err(Failure { message: status.to_string(), hopeless })
                }
            },
        }
    }
}

impl Exporter {
    /// Sends until the outbox is gone and all parcels are taken or given up.
    ///
    /// # Errors
    /// `Internal` if the exporter cannot be built.
    pub(crate) async fn run(mut self) -> Result<()> {
        let mut connection = self.connect()?;
        let mut parcels = Vec::new();
        let mut waiting = VecDeque::new();
        let mut answers = true;
        loop {
            if self.parcels.recv_many(&mut parcels, 16).await == 0 {
                let (spans, samples) = (self.lost.spans.get(), self.lost.samples.get());
                if spans + samples > 0 {
                    tracing::warn!(
                        spans,
                        samples,
                        "not all that was recorded since the start has reached the collector"
                    );
                }
                return Ok(());
            }
            waiting.extend(parcels.drain(..));
            while let Some(parcel) = waiting.pop_front() {
                answers = self.deliver(&mut connection, &parcel, answers).await;
                self.held.fetch_sub(parcel.spans(), Ordering::Relaxed);
            }
        }
    }

    fn connect(&self) -> Result<Connection> {
        let channel = self.uplink.channel();
        let mut spans = SpanExporter::builder()
            .with_tonic()
            .with_channel(channel.clone())
            .with_metadata(self.uplink.metadata())
            .with_timeout(ATTEMPT)
            // Resending is done here, for as long as the memory lasts.
            .with_retry_policy(RetryPolicy::disabled())
            .build()
            .map_err(|error| Error::internal("cannot build the span exporter").with_source(error))?;
        spans.set_resource(&self.origin.resource());
        Ok(Connection { spans, metrics: MetricsServiceClient::new(channel), metadata: self.uplink.metadata() })
    }

    /// Says once that the collector takes nothing, and once that it does again.
    fn heard(&mut self, sent: &Result<(), Failure>) {
        let endpoint = self.uplink.address();
        match sent {
            Err(Failure { message, hopeless: false }) if self.away.is_none() => {
                self.away = Some(Instant::now());
                let spans_max = self.config.spans_max;
                tracing::warn!(
                    endpoint,
                    reason = message,
                    spans_max,
                    "the collector takes no records now; they are kept, up to node.record.spans_max; see that it runs and that \
                     node.otlp_endpoint is its address"
                );
            }
            // A refusal for good is an answer too.
            Ok(()) | Err(Failure { hopeless: true, .. }) => {
                if let Some(since) = self.away.take() {
                    let spans_waiting = self.held.load(Ordering::Relaxed);
                    tracing::info!(
                        endpoint,
                        away_s = since.elapsed().as_secs(),
                        spans_waiting,
                        "the collector answers again"
                    );
                }
            }
            Err(_) => {}
        }
    }

    /// Sends one parcel, the same bytes each time, so that the collector knows it again, until it is taken or too old. What was too
    /// old before its turn came is tried only where the collector `answered` the last time: those behind it wait meanwhile. Returns
    /// whether the collector answers.
    async fn deliver(&mut self, connection: &mut Connection, parcel: &Parcel, answered: bool) -> bool {
        let give_up = parcel.made + self.config.give_up_after;
        if !answered && Instant::now() >= give_up {
            self.lost.count(parcel);
            return false;
        }
        let mut pause = PAUSE.0;
        loop {
            let sent = connection.send(parcel).await;
            self.heard(&sent);
            let Err(failure) = sent else { return true };
            if failure.hopeless || Instant::now() + pause >= give_up {
                tracing::warn!(reason = failure.message, "the collector did not take a batch; it is dropped");
                self.lost.count(parcel);
                return failure.hopeless;
            }
            tracing::debug!(reason = failure.message, "the collector did not take a batch; sending it again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }
}
