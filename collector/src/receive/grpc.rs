//! OTLP/gRPC. A unary call is little more than an HTTP/2 request: framing is done here, so that the body is admitted before
//! it is read, inflated within our limits and journalled as it came.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::post;
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use service::error::{Error, Result};

use super::Encoding;
use super::answer::{self, Failure};
use super::intake::{Accepted, Intake, Raw, unprefix};
use super::read::Length;
use crate::decode::inflate::Compression;
use crate::signal::Signal;

const PATHS: [(&str, Signal); 3] = [
    ("/opentelemetry.proto.collector.trace.v1.TraceService/Export", Signal::Traces),
    ("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", Signal::Metrics),
    ("/opentelemetry.proto.collector.logs.v1.LogsService/Export", Signal::Logs),
];

/// Compressions that a client may use.
const ACCEPTED: HeaderValue = HeaderValue::from_static("identity,gzip,zstd");
/// gRPC code of a method or compression that is not there.
const UNIMPLEMENTED: u16 = 12;

/// The three export methods.
pub(super) fn router(intake: &Intake) -> Router {
    PATHS.iter().fold(Router::new(), |router, (path, signal)| {
        let signal = *signal;
        let export = move |State(intake): State<Intake>, request: Request| export(intake, signal, request);
        router.route(path, post(export).with_state(intake.clone()))
    })
}

async fn export(intake: Intake, signal: Signal, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let encoding = parts.headers.get("grpc-encoding").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Some(compression) = Compression::from_header(encoding) else {
        let message = format!("compression {encoding} is not known; send identity, gzip or zstd");
        return failure(&Failure { http: 415, grpc: UNIMPLEMENTED, retry_after: None, message });
    };
    match take(&intake, signal, compression, &parts.headers, body).await {
        Ok(accepted) => success(&answer::success(signal, Encoding::Protobuf, &accepted)),
        Err(error) => failure(&Failure::of(&error)),
    }
}

async fn take(
    intake: &Intake,
    signal: Signal,
    compression: Compression,
    headers: &HeaderMap,
    body: Body,
) -> Result<Accepted> {
    let read = async {
        let (bytes, permit) = intake.read(headers, body, Length::Prefixed).await?;
        let (compressed, bytes) = unprefix(&bytes)?;
        if compressed && compression == Compression::Identity {
            return Err(Error::invalid("the message is compressed, but grpc-encoding does not say how"));
        }
        let compression = if compressed { compression } else { Compression::Identity };
        Ok(Raw { signal, encoding: Encoding::Protobuf, compression, bytes, permit })
    };
    match read.await {
        Ok(raw) => intake.take(raw).await,
        Err(error) => {
            intake.refused(&error);
            Err(error)
        }
    }
}

fn success(message: &[u8]) -> Response {
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or_default());
    framed.put_slice(message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(framed.freeze()).with_trailers(std::future::ready(Some(Ok(trailers))));
    respond(Body::new(body), HeaderMap::new())
}

/// An answer without a message: headers only.
pub(super) fn failure(failure: &Failure) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert("grpc-status", HeaderValue::from(failure.grpc));
    if let Ok(message) = HeaderValue::from_str(&percent_encode(&failure.message)) {
        headers.insert("grpc-message", message);
    }
    if let Ok(details) = HeaderValue::from_str(&failure.details()) {
        headers.insert("grpc-status-details-bin", details);
    }
    respond(Body::from(Bytes::new()), headers)
}

/// The answer to a method that is not there.
pub(super) fn unimplemented() -> Response {
    let message = "no such method".to_owned();
    failure(&Failure { http: 404, grpc: UNIMPLEMENTED, retry_after: None, message })
}

fn respond(body: Body, mut headers: HeaderMap) -> Response {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-accept-encoding", ACCEPTED);
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::OK;
    *response.headers_mut() = headers;
    response
}

/// gRPC's encoding of a status message: printable ASCII but `%` as it is.
fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
