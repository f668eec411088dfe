//! OTLP/HTTP: protobuf and JSON, each answered in its own encoding.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use service::error::{Error, Result};

use super::answer::{self, Failure, INVALID_ARGUMENT, UNIMPLEMENTED};
use super::intake::{Accepted, Intake, Raw};
use super::read::{self, Length};
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

/// The three export paths.
pub(super) fn router(intake: &Intake) -> Router {
    PATHS.iter().fold(Router::new(), |router, (path, signal)| {
        let signal = *signal;
        let export = move |State(intake): State<Intake>, request: Request| export(intake, signal, request);
        router.route(path, post(export).fallback(other_method).with_state(intake.clone()))
    })
}

/// A browser's question whether it may send gets no permission; other methods hear which one it is.
async fn other_method(request: Request) -> Response {
    if request.method() == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let failure = Failure::permanent(405, UNIMPLEMENTED, "OTLP/HTTP is POST");
    Reply::to(request.headers()).fail(&failure)
}

/// Says what is here to a request that found nothing.
pub(super) async fn fallback(request: Request) -> Response {
    if grpc::is_grpc(request.headers()) {
        return grpc::unimplemented();
    }
    let path = request.uri().path();
    let message = if path.matches("/v1/").count() > 1 {
        "the path is there twice: OTEL_EXPORTER_OTLP_ENDPOINT ends before /v1, exporters add the rest"
    } else if path.starts_with("/v1development/") {
        "profiles are not taken; OTLP/HTTP is POST /v1/traces, /v1/metrics or /v1/logs"
    } else {
        "not found: OTLP/HTTP is POST /v1/traces, /v1/metrics or /v1/logs; an endpoint for one signal is used as it is, so \
         give it with its path"
    };
    Reply::to(request.headers()).fail(&Failure::permanent(404, 5, message))
}

async fn export(intake: Intake, signal: Signal, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let reply = Reply::to(&parts.headers);
    let Some(encoding) = encoding(&parts.headers) else {
        return unsupported(&intake, "content-type must be application/x-protobuf or application/json", &reply);
    };
    let Some(compression) = Compression::from_header(text(&parts.headers, header::CONTENT_ENCODING)) else {
        return unsupported(&intake, "content-encoding must be identity, gzip or zstd", &reply);
    };
    match take(&intake, signal, encoding, compression, &parts, body).await {
        Ok(accepted) => reply.send(StatusCode::OK, answer::success(signal, encoding, &accepted)),
        Err(error) => reply.fail(&Failure::of(&error, rand::random())),
    }
}

async fn take(
    intake: &Intake,
    signal: Signal,
    encoding: Encoding,
    compression: Compression,
    parts: &Parts,
    mut body: Body,
) -> Result<Accepted> {
    let length = text(&parts.headers, header::CONTENT_LENGTH).parse().map_or(Length::Unknown, Length::Declared);
    match intake.read(parts, &mut body, length).await {
        Ok((bytes, permit, writer)) => intake.take(Raw { signal, encoding, compression, bytes, permit, writer }).await,
        Err(error) => {
            intake.refused(&error);
            // A sender in the middle of its body would be cut off and not read the answer. One that waits for leave is told at
            // once.
            if parts.version < Version::HTTP_2 && !parts.headers.contains_key(header::EXPECT) {
                read::drain(&mut body).await;
            }
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

fn unsupported(intake: &Intake, message: &str, reply: &Reply) -> Response {
    intake.refused(&Error::invalid(message));
    reply.fail(&Failure::permanent(415, INVALID_ARGUMENT, message))
}

/// How a request wants its answer.
struct Reply {
    encoding: Encoding,
    /// Compressions that its sender reads, as it lists them.
    accepted: String,
}

impl Reply {
    fn to(headers: &HeaderMap) -> Self {
        let accepted = text(headers, header::ACCEPT_ENCODING).to_owned();
        Self { encoding: encoding(headers).unwrap_or(Encoding::Json), accepted }
    }

    fn fail(&self, failure: &Failure) -> Response {
        let status = StatusCode::from_u16(failure.http).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        let mut response = self.send(status, failure.body(self.encoding));
        if let Some(delay) = failure.retry_after {
            // Whole seconds, rounded up: the header knows nothing finer.
            let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    fn send(&self, status: StatusCode, body: Vec<u8>) -> Response {
        let content_type = match self.encoding {
            Encoding::Protobuf => "application/x-protobuf",
            Encoding::Json => "application/json",
        };
        let (compression, body) = answer::compressed(&self.accepted, body);
        let mut response = (status, [(header::CONTENT_TYPE, content_type)], body).into_response();
        if compression != Compression::Identity {
            let name = HeaderValue::from_static(compression.name());
            response.headers_mut().insert(header::CONTENT_ENCODING, name);
        }
        response
    }
}
