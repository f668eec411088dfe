//! How a body goes to the collector: transport, encoding, compression.

use std::io::Write;
use std::pin::Pin;

use clap::ValueEnum;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use prost::bytes::{BufMut, Bytes, BytesMut};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};
use service::error::{Error, Result};
use tonic::codegen::{Body as _, Service as _, http};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// What carries a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Transport {
    Grpc,
    Http,
}

/// How a request is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::bench) enum Encoding {
    Protobuf,
    Json,
}

/// How a request is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// Effort of compression.
const GZIP_LEVEL: u32 = 1;
const ZSTD_LEVEL: i32 = 1;

/// The way of one load.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Wire {
    /// Transport of the requests.
    #[arg(long, value_enum, default_value = "grpc")]
    pub(super) transport: Transport,
    /// Encoding of the requests; JSON goes over HTTP only.
    #[arg(long, value_enum, default_value = "protobuf")]
    pub(super) encoding: Encoding,
    /// Compression of the requests.
    #[arg(long, value_enum, default_value = "none")]
    pub(super) compression: Compression,
}

/// What became of a request.
pub(super) enum Answer {
    /// It is durable, but for so many spans.
    Acknowledged { rejected: i64 },
    /// It may be sent again later.
    Refused,
}

/// A connection; a clone shares it over gRPC, and has one of its own over HTTP/1.1.
#[derive(Clone)]
pub(super) enum Connection {
    Grpc { channel: Channel, compression: Compression },
    Http { client: reqwest::Client, url: String, wire: Wire },
}

impl Wire {
    /// Connects to the collector at these two addresses.
    pub(super) async fn connect(self, grpc: &str, http: &str) -> Result<Connection> {
        match self.transport {
            Transport::Grpc if self.encoding == Encoding::Json => {
                Err(Error::invalid("OTLP/gRPC has no JSON").with_hint("add --transport http"))
            }
            Transport::Grpc => Ok(Connection::Grpc { channel: channel(grpc).await?, compression: self.compression }),
            Transport::Http => {
                let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build();
                let client = client.map_err(|error| Error::internal("make an HTTP client").with_source(error))?;
                Ok(Connection::Http { client, url: format!("{http}/v1/traces"), wire: self })
            }
        }
    }
}

async fn channel(endpoint: &str) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(endpoint.to_owned())
        .map_err(|error| Error::invalid(format!("{endpoint} is no address")).with_source(error))?;
    let channel = endpoint.tcp_nodelay(true).initial_connection_window_size(8 << 20).connect().await;
    channel.map_err(|error| Error::unavailable("connect to the collector").with_source(error))
}

impl Connection {
    /// Sends a message as [`framed`] made it once.
    pub(super) async fn send(&mut self, message: Bytes) -> Result<Answer> {
        match self {
            Connection::Grpc { channel, compression } => over_grpc(channel, *compression, message).await,
            Connection::Http { client, url, wire } => over_http(client, url, *wire, message.slice(PREFIX..)).await,
        }
    }
}

/// Bytes before a message of gRPC: whether it is compressed, and its length.
pub(super) const PREFIX: usize = 5;

/// A message of gRPC that is not compressed.
pub(super) fn framed(body: &[u8]) -> BytesMut {
    frame(0, body)
}

fn frame(compressed: u8, body: &[u8]) -> BytesMut {
    let mut message = BytesMut::with_capacity(PREFIX + body.len());
    message.put_u8(compressed);
    message.put_u32(body.len() as u32);
    message.put_slice(body);
    message
}

/// Sends without tonic's client, which copies the message twice on its way.
async fn over_grpc(channel: &mut Channel, compression: Compression, message: Bytes) -> Result<Answer> {
    let request = http::Request::post(EXPORT).header("te", "trailers").header(CONTENT_TYPE, "application/grpc");
    let (request, message) = match compression {
        Compression::None => (request, message),
        Compression::Gzip => (request.header("grpc-encoding", "gzip"), frame(1, &gzip(&message[PREFIX..])?).freeze()),
        Compression::Zstd => (request.header("grpc-encoding", "zstd"), frame(1, &zstd(&message[PREFIX..])?).freeze()),
    };
    let request = request.body(tonic::body::Body::new(axum::body::Body::from(message)));
    let request = request.map_err(|error| Error::internal("make a request").with_source(error))?;
    let ready = std::future::poll_fn(|context| channel.poll_ready(context)).await;
    ready.map_err(|error| Error::unavailable("the collector went away").with_source(error))?;
    let answer = match channel.call(request).await {
        Ok(answer) => answered(answer).await,
        Err(error) => Err(Status::from_error(Box::new(error))),
    };
    match answer {
        Ok(answer) => {
            Ok(Answer::Acknowledged { rejected: answer.partial_success.map_or(0, |partial| partial.rejected_spans) })
        }
        Err(status) if matches!(status.code(), Code::Unavailable | Code::ResourceExhausted) => Ok(Answer::Refused),
        Err(status) => Err(Error::internal("the collector refused a good request").with_source(status)),
    }
}

const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Reads a call's answer, and the status that stands before or behind it.
async fn answered(
    answer: http::Response<tonic::body::Body>,
) -> std::result::Result<ExportTraceServiceResponse, Status> {
    let (head, mut body) = answer.into_parts();
    let mut status = Status::from_header_map(&head.headers);
    let mut message = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        match frame?.into_data() {
            Ok(data) => message.extend_from_slice(&data),
            Err(trailers) => status = trailers.trailers_ref().and_then(Status::from_header_map),
        }
    }
    match status {
        Some(status) if status.code() != Code::Ok => Err(status),
        Some(_) => ExportTraceServiceResponse::decode(message.get(PREFIX..).unwrap_or_default())
            .map_err(|error| Status::internal(format!("unreadable answer: {error}"))),
        None => Err(Status::unknown("an answer without a status")),
    }
}

async fn over_http(client: &reqwest::Client, url: &str, wire: Wire, body: Bytes) -> Result<Answer> {
    let content_type = match wire.encoding {
        Encoding::Protobuf => "application/x-protobuf",
        Encoding::Json => "application/json",
    };
    let request = client.post(url).header(CONTENT_TYPE, content_type);
    let request = match wire.compression {
        Compression::None => request.body(body),
        Compression::Gzip => request.header(CONTENT_ENCODING, "gzip").body(gzip(&body)?),
        Compression::Zstd => request.header(CONTENT_ENCODING, "zstd").body(zstd(&body)?),
    };
    let failed = |error| Error::unavailable("send to the collector").with_source(error);
    let answer = request.send().await.map_err(failed)?;
    match answer.status() {
        StatusCode::OK => {
            let encoding = answered_in(&answer).unwrap_or(wire.encoding);
            let body = answer.bytes().await.map_err(failed)?;
            Ok(Answer::Acknowledged { rejected: rejected(encoding, &body)? })
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Ok(Answer::Refused),
        status => Err(Error::internal(format!("the collector answered a good request with {status}"))),
    }
}

/// The encoding that an answer names. It should be the request's; of the receivers that are measured beside ours one answers
/// protobuf in JSON, with fields of its own, and means that it took everything.
fn answered_in(answer: &reqwest::Response) -> Option<Encoding> {
    let named = answer.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    named.starts_with("application/json").then_some(Encoding::Json)
}

/// Spans that an answer over HTTP rejects.
fn rejected(encoding: Encoding, body: &[u8]) -> Result<i64> {
    let unreadable = |error: Box<dyn std::error::Error + Send + Sync>| {
        Error::internal("the collector's answer cannot be read").with_source(error)
    };
    let answer: ExportTraceServiceResponse = match encoding {
        Encoding::Protobuf => Message::decode(body).map_err(|error| unreadable(error.into()))?,
        Encoding::Json => serde_json::from_slice(body).map_err(|error| unreadable(error.into()))?,
    };
    Ok(answer.partial_success.map_or(0, |partial| partial.rejected_spans))
}

fn gzip(body: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), flate2::Compression::new(GZIP_LEVEL));
    let written = encoder.write_all(body).and_then(|()| encoder.finish());
    written.map_err(|error| Error::internal("compress a body").with_source(error))
}

fn zstd(body: &[u8]) -> Result<Vec<u8>> {
    zstd::bulk::compress(body, ZSTD_LEVEL).map_err(|error| Error::internal("compress a body").with_source(error))
}
