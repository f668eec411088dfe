//! Takes a call in: reads it, says whose it is, and starts its record.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::Gateway;
use crate::fault::Fault;
use crate::record::Record;
use crate::relay::{self, Ending};
use crate::trace::Place;

/// A call read from a client, ready to be sent to a node as often as needed.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) place: Place,
    /// On the monotonic clock.
    pub(crate) arrived: Duration,
}

/// The few fields of a request that are recorded; everything else is passed on unread. One that is not what it should be is the
/// node's to refuse, in its own words; here it is unknown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    #[serde(deserialize_with = "name")]
    pub(crate) model: Option<String>,
    #[serde(deserialize_with = "readable")]
    pub(crate) stream: Option<bool>,
    #[serde(deserialize_with = "readable")]
    pub(crate) max_tokens: Option<i64>,
    #[serde(deserialize_with = "readable")]
    pub(crate) max_completion_tokens: Option<i64>,
    #[serde(deserialize_with = "readable")]
    pub(crate) temperature: Option<f64>,
    #[serde(deserialize_with = "readable")]
    pub(crate) top_p: Option<f64>,
    #[serde(deserialize_with = "readable")]
    pub(crate) n: Option<i64>,
}

/// Longest name of a model that is recorded, in bytes; records wait by the thousand.
const NAME_BYTES_MAX: usize = 256;

fn readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(value: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(value)?).ok())
}

fn name<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    Ok(readable::<D, String>(value)?.filter(|name| name.len() <= NAME_BYTES_MAX))
}

pub(crate) fn router(gateway: Arc<Gateway>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completion))
        .route("/v1/models", get(plain))
        .route("/v1/models/{model}", get(plain))
        .route("/v1/{*rest}", any(unknown))
        .fallback(unknown)
        .with_state(gateway)
}

async fn unknown() -> Fault {
    Fault::UnknownPath
}

async fn chat(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    inference(gateway, request, "chat").await
}

async fn completion(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    inference(gateway, request, "text_completion").await
}

/// An inference call: recorded, whatever becomes of it, once it is known whose it is.
async fn inference(gateway: Arc<Gateway>, request: Request, operation: &'static str) -> Response {
    let started_ns = gateway.clock.now_ns();
    let call = match read(&gateway, request).await {
        Ok(call) => call,
        Err(fault) => return refused(&gateway, fault),
    };
    let asked: Asked = match serde_json::from_slice(&call.body) {
        Ok(asked) => asked,
        Err(_) => return refused(&gateway, Fault::BadJson),
    };
    let record = Record::new(&call, asked, operation, started_ns);
    // From here on the record ends with the body, or with this future if the client goes away before there is one.
    let mut ending = Ending::new(Arc::clone(&gateway), record, call.arrived);
    match gateway.forwarder.forward(&gateway.fleet, &call, ending.record_mut()).await {
        Ok(answer) => relay::respond(&gateway, answer, Some(ending)),
        Err(fault) => {
            ending.refuse(fault);
            fault.into_response()
        }
    }
}

/// A call that makes no tokens: passed on, not recorded.
async fn plain(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let call = match read(&gateway, request).await {
        Ok(call) => call,
        Err(fault) => return refused(&gateway, fault),
    };
    let mut record = Record::new(&call, Asked::default(), "", 0);
    match gateway.forwarder.forward(&gateway.fleet, &call, &mut record).await {
        Ok(answer) => relay::respond(&gateway, answer, None),
        Err(fault) => refused(&gateway, fault),
    }
}

/// Identifies the caller, then reads the body: a stranger's body is not read.
async fn read(gateway: &Gateway, request: Request) -> Result<Call, Fault> {
    let arrived = gateway.clock.monotonic();
    let (parts, body) = request.into_parts();
    let tenant = gateway.keys.tenant(&parts.headers)?;
    let path = parts.uri.path_and_query().map_or_else(|| parts.uri.path().to_owned(), ToString::to_string);
    let body = collect(body, gateway.config.request_bytes_max).await?;
    let place = Place::of(&parts.headers);
    Ok(Call { method: parts.method, path, headers: parts.headers, body, tenant, place, arrived })
}

async fn collect(body: Body, bytes_max: u64) -> Result<Bytes, Fault> {
    let limit = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    axum::body::to_bytes(body, limit).await.map_err(|error| {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(current) = cause {
            if current.to_string().contains("length limit exceeded") {
                return Fault::TooLarge(bytes_max);
            }
            cause = current.source();
        }
        Fault::BodyBroken
    })
}

fn refused(gateway: &Gateway, fault: Fault) -> Response {
    count(gateway, fault.status().as_u16(), fault.code());
    fault.into_response()
}

/// Counts a call by the HTTP status that the client got (0: it left before there was one) and what became of it.
pub(crate) fn count(gateway: &Gateway, status: u16, outcome: &'static str) {
    let labels = [("status", status.to_string()), ("outcome", outcome.to_owned())];
    gateway.metrics.counter("tokenwatt_gateway_calls", "Calls by HTTP status and outcome.", &labels).inc();
}
