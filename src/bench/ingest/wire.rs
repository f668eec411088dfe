//! How a body goes to the collector: transport, encoding, compression.

use std::io::Write;

use clap::ValueEnum;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};
use service::error::{Error, Result};
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
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

/// Effort of our own compression; gRPC's library has its own mind.
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
    Grpc(tonic::client::Grpc<Channel>),
    Http { client: reqwest::Client, url: String, wire: Wire },
}

impl Wire {
    /// Connects to the collector at these two addresses.
    pub(super) async fn connect(self, grpc: &str, http: &str) -> Result<Connection> {
        match self.transport {
            Transport::Grpc if self.encoding == Encoding::Json => {
                Err(Error::invalid("OTLP/gRPC has no JSON").with_hint("add --transport http"))
            }
            Transport::Grpc => {
                let client = tonic::client::Grpc::new(channel(grpc).await?);
                Ok(Connection::Grpc(match self.compression {
                    Compression::None => client,
                    Compression::Gzip => client.send_compressed(CompressionEncoding::Gzip),
                    Compression::Zstd => client.send_compressed(CompressionEncoding::Zstd),
                }))
            }
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
    /// Sends a body once.
    pub(super) async fn send(&mut self, body: Bytes) -> Result<Answer> {
        match self {
            Connection::Grpc(client) => over_grpc(client, body).await,
            Connection::Http { client, url, wire } => over_http(client, url, *wire, body).await,
        }
    }
}

async fn over_grpc(client: &mut tonic::client::Grpc<Channel>, body: Bytes) -> Result<Answer> {
    let path = PathAndQuery::from_static("/opentelemetry.proto.collector.trace.v1.TraceService/Export");
    client.ready().await.map_err(|error| Error::unavailable("the collector went away").with_source(error))?;
    match client.unary(tonic::Request::new(body), path, RawCodec).await {
        Ok(answer) => {
            let rejected = answer.into_inner().partial_success.map_or(0, |partial| partial.rejected_spans);
            Ok(Answer::Acknowledged { rejected })
        }
        Err(status) if matches!(status.code(), Code::Unavailable | Code::ResourceExhausted) => Ok(Answer::Refused),
        Err(status) => Err(Error::internal("the collector refused a good request").with_source(status)),
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
            let body = answer.bytes().await.map_err(failed)?;
            Ok(Answer::Acknowledged { rejected: rejected(wire.encoding, &body)? })
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Ok(Answer::Refused),
        status => Err(Error::internal(format!("the collector answered a good request with {status}"))),
    }
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
