//! The OpenAI API of a node.

mod fault;
mod frames;
mod load;
mod logprobs;
mod whole;

pub(crate) use fault::Fault;
pub(crate) use load::beats;

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use telemetry::names;
use telemetry::openai::{Model, ModelList};

use crate::admit::{Admitted, Entrance};

/// Largest request body, here and before a proxy.
pub(crate) const BODY_MAX: usize = 8 << 20;

/// Routes of the API.
pub(crate) fn router(entrance: Arc<Entrance>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completion))
        .route("/v1/models", get(models))
        .route("/v1/models/{id}", get(model))
        .route("/v1/embeddings", post(|| async { Fault::no_such_api("embeddings") }))
        .route("/v1/responses", post(|| async { Fault::no_such_api("responses") }))
        .route("/v1/audio/{kind}", post(|| async { Fault::no_such_api("audio models") }))
        .route("/v1/images/{kind}", post(|| async { Fault::no_such_api("image models") }))
        .route("/load", get(load::stream))
        .route("/health", get(|| async {}))
        .route("/ping", get(|| async {}))
        .route("/version", get(|| async { Json(serde_json::json!({"version": env!("CARGO_PKG_VERSION")})) }))
        .fallback(|| async { Fault::no_such_route() })
        .method_not_allowed_fallback(|| async { Fault::wrong_method() })
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(entrance)
}

type Body = Result<Bytes, BytesRejection>;

async fn chat(State(entrance): State<Arc<Entrance>>, headers: HeaderMap, body: Body) -> Response {
    let admitted = match body {
        Ok(body) => entrance.chat(headers, body).await,
        Err(rejection) => Err(unread(&rejection)),
    };
    answer(&entrance, admitted).await
}

async fn completion(State(entrance): State<Arc<Entrance>>, headers: HeaderMap, body: Body) -> Response {
    let admitted = match body {
        Ok(body) => entrance.completion(headers, body).await,
        Err(rejection) => Err(unread(&rejection)),
    };
    answer(&entrance, admitted).await
}

fn unread(rejection: &BytesRejection) -> Fault {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Fault::too_large(),
        _ => Fault::unread(rejection),
    }
}

/// Streams or collects. The call's slot is freed as soon as the receiver of its events is dropped,
/// which happens when the client goes away: with the body of a stream, else with this future.
async fn answer(entrance: &Entrance, admitted: Result<Admitted, Fault>) -> Response {
    let mut response = match admitted {
        Ok(admitted) if admitted.call.stream => frames::respond(admitted),
        Ok(admitted) => match whole::collect(admitted).await {
            Ok(answer) => Json(answer).into_response(),
            Err(fault) => fault.into_response(),
        },
        Err(fault) => fault.into_response(),
    };
    if let Ok(value) = HeaderValue::try_from(load::text(entrance)) {
        response.headers_mut().insert(HeaderName::from_static(names::HEADER_LOAD), value);
    }
    response
}

async fn models(State(entrance): State<Arc<Entrance>>) -> Json<ModelList> {
    Json(ModelList { object: "list".to_owned(), data: vec![about(&entrance)] })
}

async fn model(State(entrance): State<Arc<Entrance>>, Path(id): Path<String>) -> Response {
    if id == entrance.engine.model {
        Json(about(&entrance)).into_response()
    } else {
        Fault::no_such_model(&id).into_response()
    }
}

fn about(entrance: &Entrance) -> Model {
    Model {
        id: entrance.engine.model.clone(),
        object: "model".to_owned(),
        created: created(entrance.clock.now_ns()),
        owned_by: "tokenwatt".to_owned(),
        max_model_len: Some(u64::from(entrance.engine.max_len)),
        simulated: entrance.engine.simulated.clone(),
    }
}

/// Unix seconds.
fn created(ns: i64) -> i64 {
    ns.div_euclid(1_000_000_000)
}
