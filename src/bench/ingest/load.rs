//! The load: connections with requests in flight, each sending fresh bodies until time is up.
//!
//! A refused request is sent again, the same bytes, until it is acknowledged: what counts is what was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use service::error::{Error, Result};
use tokio::sync::Mutex;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::body::Body;

/// Different bodies that a sender goes through, so that gaps and batch sizes differ from request to request.
const TEMPLATES: u64 = 8;

/// How long a refused request waits before it is sent again.
const RESEND_AFTER: Duration = Duration::from_millis(200);

/// Times a request is sent before the benchmark gives up.
const TRIES_MAX: u32 = 100;

/// What to send, and how.
pub(super) struct Load {
    pub(super) endpoint: String,
    pub(super) spans_per_request: usize,
    pub(super) connections: u32,
    pub(super) in_flight: u32,
    pub(super) duration: Duration,
}

/// What was acknowledged.
#[derive(Default)]
pub(super) struct Sent {
    /// Requests acknowledged, in the order of their answers.
    pub(super) acks: Vec<Ack>,
    /// Answers that refused a request for now.
    pub(super) refused: u64,
    /// Spans that an answer rejected for good.
    pub(super) rejected: i64,
}

/// One acknowledged request.
#[derive(Clone, Copy)]
pub(super) struct Ack {
    /// Since the start of the load.
    pub(super) at: Duration,
    /// Time from sending to the answer.
    pub(super) took: Duration,
    /// Spans in it, and how many of them are tokens.
    pub(super) spans: u64,
    pub(super) tokens: u64,
    /// Its call numbers: `first_call..first_call + calls`.
    pub(super) first_call: u64,
    pub(super) calls: u64,
}

impl Sent {
    pub(super) fn spans(&self) -> u64 {
        self.acks.iter().map(|ack| ack.spans).sum()
    }

    pub(super) fn tokens(&self) -> u64 {
        self.acks.iter().map(|ack| ack.tokens).sum()
    }
}

/// What the senders share.
struct Shared {
    run: u64,
    next_call: AtomicU64,
    until: Instant,
    start: Instant,
    sent: Mutex<Sent>,
}

impl Load {
    /// Sends until the time is up and every request has its answer.
    pub(super) async fn run(&self, start: Instant) -> Result<Sent> {
        let shared = Arc::new(Shared {
            run: u64::from(std::process::id()) << 32 | u64::from(unix_now().subsec_nanos()),
            next_call: AtomicU64::new(0),
            until: start + self.duration,
            start,
            sent: Mutex::default(),
        });
        let mut senders = tokio::task::JoinSet::new();
        for connection in 0..self.connections {
            let channel = connect(&self.endpoint).await?;
            for lane in 0..self.in_flight {
                let seed = u64::from(connection * self.in_flight + lane);
                senders.spawn(send(channel.clone(), self.spans_per_request, seed, shared.clone()));
            }
        }
        while let Some(sender) = senders.join_next().await {
            sender.map_err(|error| Error::internal("a sender broke").with_source(error))??;
        }
        let sent = std::mem::take(&mut *shared.sent.lock().await);
        Ok(sent)
    }
}

async fn connect(endpoint: &str) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(endpoint.to_owned())
        .map_err(|error| Error::invalid(format!("{endpoint} is no address")).with_source(error))?;
    let channel = endpoint.tcp_nodelay(true).initial_connection_window_size(8 << 20).connect().await;
    channel.map_err(|error| Error::unavailable("connect to the collector").with_source(error))
}

async fn send(channel: Channel, spans: usize, seed: u64, shared: Arc<Shared>) -> Result<()> {
    let mut templates: Vec<Body> = (0..TEMPLATES).map(|number| Body::new(spans, seed * TEMPLATES + number)).collect();
    let mut client = tonic::client::Grpc::new(channel);
    let mut turn = 0;
    while Instant::now() < shared.until {
        let body = &mut templates[turn % TEMPLATES as usize];
        turn += 1;
        let calls = body.calls() as u64;
        let first_call = shared.next_call.fetch_add(calls, Ordering::Relaxed);
        let tokens = body.tokens() as u64;
        let bytes = Bytes::copy_from_slice(body.fresh(shared.run, first_call, unix_now().as_nanos() as u64));
        let begun = Instant::now();
        let (refused, rejected) = until_acknowledged(&mut client, bytes).await?;
        let now = Instant::now();
        let mut sent = shared.sent.lock().await;
        sent.refused += refused;
        sent.rejected += rejected;
        sent.acks.push(Ack {
            at: now - shared.start,
            took: now - begun,
            spans: spans as u64,
            tokens,
            first_call,
            calls,
        });
    }
    Ok(())
}

/// Sends until acknowledged; returns the refusals met and the spans rejected.
async fn until_acknowledged(client: &mut tonic::client::Grpc<Channel>, bytes: Bytes) -> Result<(u64, i64)> {
    let path = PathAndQuery::from_static("/opentelemetry.proto.collector.trace.v1.TraceService/Export");
    for tries in 0..TRIES_MAX {
        client.ready().await.map_err(|error| Error::unavailable("the collector went away").with_source(error))?;
        let answer = client.unary(tonic::Request::new(bytes.clone()), path.clone(), RawCodec).await;
        match answer {
            Ok(answer) => {
                let rejected = answer.into_inner().partial_success.map_or(0, |partial| partial.rejected_spans);
                return Ok((u64::from(tries), rejected));
            }
            Err(status) if matches!(status.code(), Code::Unavailable | Code::ResourceExhausted) => {
                tokio::time::sleep(RESEND_AFTER).await;
            }
            Err(status) => return Err(Error::internal("the collector refused a good request").with_source(status)),
        }
    }
    Err(Error::unavailable(format!("the collector refused the same request {TRIES_MAX} times")))
}

fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Sends bytes as they are; reads a trace answer.
#[derive(Clone, Copy, Default)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = ExportTraceServiceResponse;
    type Encoder = RawCodec;
    type Decoder = RawCodec;

    fn encoder(&mut self) -> RawCodec {
        RawCodec
    }

    fn decoder(&mut self) -> RawCodec {
        RawCodec
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, target: &mut EncodeBuf<'_>) -> Result<(), Status> {
        target.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = ExportTraceServiceResponse;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<ExportTraceServiceResponse>, Status> {
        let bytes = source.copy_to_bytes(source.remaining());
        let answer = ExportTraceServiceResponse::decode(bytes);
        answer.map(Some).map_err(|error| Status::internal(format!("unreadable answer: {error}")))
    }
}
