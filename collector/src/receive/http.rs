//! OTLP/HTTP: protobuf and JSON, each answered in its own encoding.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use service::error::Result;

use super::answer::{self, Failure};
use super::intake::{Accepted, Intake, Raw};
use super::read::Length;
use super::{Encoding, grpc};
use crate::decode::inflate::Compression;
use crate::signal::Signal;

/// Paths by signal; a trailing slash is forgiven.
const PATHS: [(&str, Signal); 6] = [
    ("/v1/traces", Signal::Traces),
    ("/v1/metrics", Signal::Metrics),
    ("/v1/logs", Signal::Logs),
    ("/v1/traces/", Signal::Traces),
    ("/v1/metrics/", Signal::Metrics),
    ("/v1/logs/", Signal::Logs),
];
/// gRPC code that goes with 415 in `google.rpc.Status`.
const INVALID_ARGUMENT: u16 = 3;

/// The three export paths.
pub(super) fn router(intake: &Intake) -> Router {
    PATHS.iter().fold(Router::new(), |router, (path, signal)| {
        let signal = *signal;
        let export = move |State(intake): State<Intake>, request: Request| export(intake, signal, request);
        router.route(path, post(export).with_state(intake.clone()))
    })
}

/// Says what is here to a request that found nothing.
pub(super) async fn fallback(request: Request) -> Response {
    if text(request.headers(), header::CONTENT_TYPE).starts_with("application/grpc") {
        return grpc::unimplemented();
    }
    let message = "not found: OTLP/HTTP is POST /v1/traces, /v1/metrics or /v1/logs".to_owned();
    let failure = Failure { http: 404, grpc: 5, retry_after: None, message };
    fail(&failure, Encoding::Json)
}

async fn export(intake: Intake, signal: Signal, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Some(encoding) = encoding(&parts.headers) else {
        let message = "content-type must be application/x-protobuf or application/json".to_owned();
        return unsupported(&intake, message, Encoding::Json);
    };
    let Some(compression) = Compression::from_header(text(&parts.headers, header::CONTENT_ENCODING)) else {
        return unsupported(&intake, "content-encoding must be identity, gzip or zstd".to_owned(), encoding);
    };
    match take(&intake, signal, encoding, compression, &parts.headers, body).await {
        Ok(accepted) => respond(StatusCode::OK, encoding, answer::success(signal, encoding, &accepted)),
        Err(error) => fail(&Failure::of(&error), encoding),
    }
}

async fn take(
    intake: &Intake,
    signal: Signal,
    encoding: Encoding,
    compression: Compression,
    headers: &HeaderMap,
    body: Body,
) -> Result<Accepted> {
    let length = text(headers, header::CONTENT_LENGTH).parse().map_or(Length::Unknown, Length::Declared);
    match intake.read(headers, body, length).await {
        Ok((bytes, permit)) => intake.take(Raw { signal, encoding, compression, bytes, permit }).await,
        Err(error) => {
            intake.refused(&error);
            Err(error)
        }
    }
}

/// The encoding of a request; parameters such as a charset do not matter.
fn encoding(headers: &HeaderMap) -> Option<Encoding> {
    let value = text(headers, header::CONTENT_TYPE);
    match value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/x-protobuf" | "application/protobuf" => Some(Encoding::Protobuf),
        "application/json" => Some(Encoding::Json),
        _ => None,
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn unsupported(intake: &Intake, message: String, encoding: Encoding) -> Response {
    intake.refused(&service::error::Error::invalid(message.as_str()));
    fail(&Failure { http: 415, grpc: INVALID_ARGUMENT, retry_after: None, message }, encoding)
}

fn fail(failure: &Failure, encoding: Encoding) -> Response {
    let status = StatusCode::from_u16(failure.http).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let mut response = respond(status, encoding, failure.body(encoding));
    if let Some(delay) = failure.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(delay.as_secs()));
    }
    response
}

fn respond(status: StatusCode, encoding: Encoding, body: Vec<u8>) -> Response {
    let content_type = match encoding {
        Encoding::Protobuf => "application/x-protobuf",
        Encoding::Json => "application/json",
    };
    (status, [(header::CONTENT_TYPE, content_type)], body).into_response()
}
