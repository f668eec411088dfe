//! Alertmanager's webhook: notifications become rows of `alerts`, durable before they are acknowledged like everything else.
//!
//! ```text
//! POST /api/v1/alerts ─► identify ─► quota ─► read (bounded) ─► inflate ─► check ─► known? ─► journal ─► 200
//! ```
//!
//! Alertmanager sends a notification again after a 5xx and gives it up after anything else (its `notify` package), so what may
//! succeed later is a 503 here, a quota included.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::json;
use service::error::{Error, Result};

use super::Encoding;
use super::answer::Failure;
use super::intake::{self, Accepted, Intake, Opened, Raw};
use super::read::{self, Length};
use crate::batch::rows::ROW_BYTES;
use crate::decode::check::Checked;
use crate::decode::inflate::Compression;
use crate::decode::notification;
use crate::signal::Signal;

/// Where Alertmanager posts; a trailing slash is forgiven.
const PATHS: [&str; 2] = ["/api/v1/alerts", "/api/v1/alerts/"];
/// Largest notification: a group of 4,000 alerts with a kilobyte of labels and annotations each.
const BYTES_MAX: usize = 4 << 20;
/// A notification takes up to so many times its length while it is read: the shortest label, of eight bytes, becomes two texts of 24
/// bytes and what they point to.
const SPREAD: usize = 16;

/// The webhook's path.
pub(super) fn router(intake: &Intake) -> Router {
    let notify = |State(intake): State<Intake>, request: Request| notify(intake, request);
    PATHS.iter().fold(Router::new(), |router, path| router.route(path, post(notify))).with_state(intake.clone())
}

async fn notify(intake: Intake, request: Request) -> Response {
    match take(&intake, request).await {
        Ok(_) => StatusCode::OK.into_response(),
        Err(error) => fail(&error),
    }
}

async fn take(intake: &Intake, request: Request) -> Result<Accepted> {
    let (parts, mut body) = request.into_parts();
    let length = text(&parts.headers, header::CONTENT_LENGTH).parse().map_or(Length::Unknown, Length::Declared);
    let read = match compression(&parts.headers) {
        Ok(compression) => intake.read(&parts, &mut body, length).await.map(|read| (compression, read)),
        Err(error) => Err(error),
    };
    let (compression, (bytes, permit, writer)) = match read {
        Ok(read) => read,
        Err(error) => {
            intake.refused(&error);
            // A sender in the middle of its body would be cut off and not read the answer.
            read::drain(&mut body).await;
            return Err(error);
        }
    };
    let (signal, encoding) = (Signal::Alerts, Encoding::Json);
    intake.take(Raw { signal, encoding, compression, bytes, permit, writer }).await
}

fn compression(headers: &HeaderMap) -> Result<Compression> {
    Compression::from_header(text(headers, header::CONTENT_ENCODING))
        .ok_or_else(|| Error::invalid("content-encoding must be identity, gzip or zstd"))
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Makes a notification readable and proves it sound.
///
/// # Errors
/// `Denied` for a sender that is bound to tenants, since alerts are of the fleet; `TooLarge`, `Overloaded`, `Invalid`.
pub(super) fn open(raw: Raw, limit: usize) -> Result<Opened> {
    let Raw { signal, encoding, compression, bytes, mut permit, writer } = raw;
    if writer.is_some_and(|writer| !writer.principal.every_tenant()) {
        return Err(Error::denied("alerts are of the whole fleet, and this sender writes for some tenants")
            .with_hint("have Alertmanager send as a writer with `tenants = [\"*\"]`"));
    }
    let bytes_max = limit.min(BYTES_MAX);
    let body = intake::readable(signal, encoding, compression, &bytes, bytes_max, |more| permit.grow(more))?;
    if !permit.grow(SPREAD * body.len()) {
        return Err(read::no_room());
    }
    let notification = notification::read(&body).map_err(|fault| {
        Error::invalid(format!("the body is no notification of Alertmanager: {fault}"))
            .with_hint("this is for `webhook_configs` of Alertmanager; Prometheus sends its alerts to Alertmanager")
    })?;
    if notification.truncated_alerts > 0 {
        let (left_out, receiver) = (notification.truncated_alerts, &notification.receiver);
        tracing::warn!(left_out, receiver, "max_alerts of a receiver left alerts out of a notification");
    }
    let accepted = notification.alerts.len() as u64;
    let checked = Checked { accepted, row_bytes: accepted * ROW_BYTES as u64, ..Checked::default() };
    let checked = intake::weigh(checked, limit)?;
    let digest = intake::digest(signal, &body);
    Ok(Opened { raw: bytes, form: (encoding, compression), digest, body, permit, checked })
}

/// An answer in words; what may succeed later is a 503.
fn fail(error: &Error) -> Response {
    let failure = Failure::of(error, rand::random());
    let status = match StatusCode::from_u16(failure.http) {
        Ok(status) if failure.retry_after.is_none() => status,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let body = json!({ "error": failure.message }).to_string();
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    if let Some(delay) = failure.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(delay.as_secs().max(1)));
    }
    response
}
