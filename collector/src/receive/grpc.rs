//! OTLP/gRPC. A unary call is little more than an HTTP/2 request: framing is done here, so that the body is admitted before
//! it is read, inflated within our limits and journalled as it came.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header, request};
use axum::response::Response;
use axum::routing::post;
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use service::error::{Error, Result};

use super::Encoding;
use super::answer::{self, Failure, INVALID_ARGUMENT, UNIMPLEMENTED};
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
/// The three export methods.
pub(super) fn router(intake: &Intake) -> Router {
    PATHS.iter().fold(Router::new(), |router, (path, signal)| {
        let signal = *signal;
        let export = move |State(intake): State<Intake>, request: Request| export(intake, signal, request);
        router.route(path, post(export).with_state(intake.clone()))
    })
}

/// Whether a request claims to be gRPC with protobuf messages.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let value = text(headers, "content-type");
    let name = value.split(';').next().unwrap_or_default().trim();
    ["application/grpc", "application/grpc+proto"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

async fn export(intake: Intake, signal: Signal, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if !is_grpc(&parts.headers) {
        let message = "content-type must be application/grpc";
        intake.refused(&Error::invalid(message));
        return unsupported(&Failure::permanent(415, INVALID_ARGUMENT, message));
    }
    let encoding = text(&parts.headers, "grpc-encoding");
    let Some(compression) = Compression::from_header(encoding) else {
        let message = format!("compression {encoding} is not known; send identity, gzip or zstd");
        intake.refused(&Error::invalid(message.as_str()));
        return failure(&Failure::permanent(415, UNIMPLEMENTED, message));
    };
    match take(&intake, signal, compression, &parts, body).await {
        Ok(accepted) => {
            let message = answer::success(signal, Encoding::Protobuf, &accepted);
            success(answer::compressed(text(&parts.headers, "grpc-accept-encoding"), message))
        }
        Err(error) => failure(&Failure::of(&error, rand::random())),
    }
}

async fn take(
    intake: &Intake,
    signal: Signal,
    compression: Compression,
    request: &request::Parts,
    mut body: Body,
) -> Result<Accepted> {
    let read = async {
        let (bytes, permit, writer) = intake.read(request, &mut body, Length::Prefixed).await?;
        let (compressed, bytes) = unprefix(&bytes)?;
        if compressed && compression == Compression::Identity {
            return Err(Error::invalid("the message is compressed, but grpc-encoding does not say how"));
        }
        let compression = if compressed { compression } else { Compression::Identity };
        Ok(Raw { signal, encoding: Encoding::Protobuf, compression, bytes, permit, writer })
    };
    match read.await {
        Ok(raw) => intake.take(raw).await,
        Err(error) => {
            intake.refused(&error);
            Err(error)
        }
    }
}

/// The answer to a call that went well.
pub(super) fn success((compression, message): (Compression, Vec<u8>)) -> Response {
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(u8::from(compression != Compression::Identity));
    framed.put_u32(u32::try_from(message.len()).unwrap_or_default());
    framed.put_slice(&message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(framed.freeze()).with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut headers = HeaderMap::new();
    if compression != Compression::Identity {
        headers.insert("grpc-encoding", HeaderValue::from_static(compression.name()));
    }
    respond(Body::new(body), headers)
}

/// The answer to a request that is no gRPC at all: gRPC's own status, and that of HTTP for whoever does not read it.
fn unsupported(reason: &Failure) -> Response {
    let mut response = failure(reason);
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
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
    failure(&Failure::permanent(404, UNIMPLEMENTED, "no such method"))
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
