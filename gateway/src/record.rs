//! Tells the collector about every call: one span, built by hand and sent by the OTLP exporter itself.
//!
//! ```text
//! Ending ─try_send─► queue ─► Recording: batch ─► spans ─► exporter (one per region) ─► collector
//! ```

mod span;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::trace::SpanExporter as _;
use service::channel::{Receiver, Sender, bounded};
use service::metrics::Counter;
use service::shutdown::{Hold, Stage};
use service::uplink::Uplink;
use service::{Deps, Error, Result};
use tokio_util::sync::CancellationToken;

use crate::accept::{Asked, Call};
use crate::config::{Config, Identity};
use crate::nodes::Node;
use crate::observe::Seen;
use crate::trace::Place;

/// Most records of one request to the collector.
const BATCH: usize = 512;
/// How long a record waits for others to be sent with it.
const LINGER: Duration = Duration::from_millis(200);
/// How long the collector may take for one request.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two tries of a request that failed.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// Tries left for a request once the process is ending.
const LAST_TRIES: u32 = 3;
/// Tries of a request that the collector has no room for: it may mean "later" or "too large", and the exporter does not say which.
const CROWDED_TRIES: u32 = 60;
/// gRPC codes after which the same request would be refused again, as OTLP has it.
const PERMANENT: [&str; 8] = [
    "InvalidArgument",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "FailedPrecondition",
    "Unimplemented",
    "Internal",
    "Unauthenticated",
];

/// A call as it is recorded.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) place: Option<Place>,
    pub(crate) started_ns: i64,
    pub(crate) e2e: Duration,
    pub(crate) operation: &'static str,
    pub(crate) asked: Asked,
    pub(crate) tenant: Option<Arc<str>>,
    /// Address and region of the node that had the call last.
    pub(crate) node: Option<(String, String)>,
    /// Nodes that the call was sent to.
    pub(crate) attempts: u32,
    /// HTTP status that the client got; 0 while there is none.
    pub(crate) status: u16,
    pub(crate) error: Option<&'static str>,
    pub(crate) seen: Seen,
}

impl Record {
    pub(crate) fn new(call: &Call, asked: Asked, operation: &'static str, started_ns: i64) -> Self {
        Self { place: Some(call.place), started_ns, operation, asked, tenant: call.tenant.clone(), ..Self::default() }
    }

    pub(crate) fn dispatched(&mut self, node: &Node) {
        self.node = Some((node.url.clone(), node.region.clone()));
        self.attempts += 1;
    }
}

/// Takes records from calls.
pub(crate) struct Recorder {
    queue: Sender<Record>,
    lost: Counter,
}

/// Sends records, as a task of its own.
pub(crate) struct Recording {
    queue: Receiver<Record>,
    exporters: BTreeMap<String, SpanExporter>,
    identity: Identity,
    endpoint: String,
    uplink: Uplink,
    sent: Counter,
    lost: Counter,
    stop: CancellationToken,
}

/// The two ends of the recorder.
///
/// # Errors
/// `Invalid` if the collector's address or what proves us to it cannot be used.
pub(crate) fn new(config: &Config, deps: &Deps) -> Result<(Recorder, Recording)> {
    let uplink = Uplink::new("gateway.otlp_endpoint", &config.otlp_endpoint, &config.otlp, EXPORT_TIMEOUT)?;
    let (sender, receiver) = bounded("gateway.records", config.records_max);
    deps.metrics.queue(&sender);
    let sent = deps.metrics.counter("tokenwatt_gateway_records_sent", "Records the collector acknowledged.", &[]);
    let lost = deps.metrics.counter("tokenwatt_gateway_records_lost", "Records given up.", &[]);
    let recorder = Recorder { queue: sender, lost: lost.clone() };
    let mut identity = config.identity.clone();
    identity.instance.get_or_insert_with(|| format!("gateway-{:08x}", rand::random::<u32>()));
    let recording = Recording {
        queue: receiver,
        exporters: BTreeMap::new(),
        identity,
        endpoint: config.otlp_endpoint.clone(),
        uplink,
        sent,
        lost,
        stop: deps.shutdown.token(Stage::Recorders),
    };
    Ok((recorder, recording))
}

impl Recorder {
    /// Hands a finished call over; never waits.
    pub(crate) fn send(&self, record: Record) {
        if self.queue.try_send(record).is_err() {
            self.lost.inc();
        }
    }
}

impl Recording {
    /// Runs until the recorders' stage of shutdown, then sends what is left.
    pub(crate) fn spawn(self, deps: &Deps) {
        let hold = deps.shutdown.hold(Stage::Recorders, "gateway.records");
        deps.tasks.spawn("gateway.record", self.run(hold));
    }

    async fn run(mut self, _hold: Hold) -> Result<()> {
        let stop = self.stop.clone();
        let mut batch = Vec::new();
        loop {
            // Both are cancel safe: a record is either in the queue or in the batch.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                received = self.queue.recv_many(&mut batch, BATCH) => if received == 0 { break },
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(LINGER) => {}
            }
            self.send(&mut batch).await?;
        }
        self.queue.close();
        self.send(&mut batch).await
    }

    /// Sends the batch and all that waits behind it.
    async fn send(&mut self, batch: &mut Vec<Record>) -> Result<()> {
        loop {
            while batch.len() < BATCH
                && let Ok(record) = self.queue.try_recv()
            {
                batch.push(record);
            }
            if batch.is_empty() {
                return Ok(());
            }
            let mut regions: BTreeMap<String, Vec<Record>> = BTreeMap::new();
            for record in batch.drain(..) {
                let region = record.node.as_ref().map(|(_, region)| region.clone());
                let region = region.or_else(|| self.identity.region.clone()).unwrap_or_default();
                regions.entry(region).or_default().push(record);
            }
            for (region, records) in regions {
                self.export(region, &records).await?;
            }
        }
    }

    /// Sends records of one region until they are acknowledged, or refused for good. While the collector is away later records
    /// wait in the queue and, when it is full, are lost and counted.
    async fn export(&mut self, region: String, records: &[Record]) -> Result<()> {
        let spans: Vec<_> = records.iter().filter_map(span::of).collect();
        let count = spans.len() as u64;
        let (mut left, mut crowded) = (LAST_TRIES, CROWDED_TRIES);
        loop {
            let exporter = self.exporter(&region)?;
            let Err(error) = exporter.export(spans.clone()).await else {
                self.sent.add(count);
                return Ok(());
            };
            let code = code(&error.to_string());
            let stopping = self.stop.is_cancelled();
            let tries = match code {
                _ if stopping => Some(&mut left),
                Some("ResourceExhausted") => Some(&mut crowded),
                _ => None,
            };
            let exhausted = tries.is_some_and(|tries| {
                *tries -= 1;
                *tries == 0
            });
            if exhausted || code.is_some_and(|code| PERMANENT.contains(&code)) {
                tracing::warn!(endpoint = self.endpoint, error = %error, records = count, "records are given up");
                self.lost.add(count);
                return Ok(());
            }
            tracing::warn!(endpoint = self.endpoint, error = %error, "collector does not take records now");
            tokio::time::sleep(RETRY_EVERY).await;
        }
    }

    /// The exporter whose resource names `region`.
    fn exporter(&mut self, region: &str) -> Result<&SpanExporter> {
        if !self.exporters.contains_key(region) {
            let built = SpanExporter::builder()
                .with_tonic()
                .with_channel(self.uplink.channel())
                .with_metadata(self.uplink.metadata())
                .with_timeout(EXPORT_TIMEOUT)
                .build();
            let mut exporter = built.map_err(|error| {
                Error::invalid(format!("gateway.otlp_endpoint `{}` cannot be used", self.endpoint)).with_source(error)
            })?;
            exporter.set_resource(&span::resource(&self.identity, region));
            self.exporters.insert(region.to_owned(), exporter);
        }
        self.exporters.get(region).ok_or_else(|| Error::internal("exporter is missing"))
    }
}

/// The gRPC code in the exporter's message, which is all that is left of it.
fn code(message: &str) -> Option<&'static str> {
    let (_, rest) = message.split_once("gRPC code: ")?;
    let known = PERMANENT.into_iter().chain(["ResourceExhausted"]);
    let name = rest.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    known.into_iter().find(|code| *code == name)
}
