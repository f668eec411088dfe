//! The KServe v2 protocol over gRPC, with Triton's extension for streams: what clients of Triton speak.
//!
//! ```text
//! tensors -> text completion -> (as over HTTP: admit, queue, step) -> text -> tensors
//! ```
//!
//! A stream carries any number of requests side by side, told apart by their ids; each is answered by one response, or by one
//! per token if it asks for that, the last of which says so. When the client closes the stream, all its slots are free.

mod health;
mod tensor;
mod wire;

use std::future::{Future, ready};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::post;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use prost::Message;
use service::health::Health;
use tonic::server::Grpc;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use self::tensor::{Ask, INPUTS, OUTPUTS, Piece, VERSION};
use self::wire::{
    Answered, Empty, InferRequest, InferResponse, ModelConfig, ModelConfigAnswer, ModelMetadata, ModelName, SERVICE,
    ServerMetadata, StreamInferResponse, TransactionPolicy,
};
use crate::admit::{Admitted, Entrance};
use crate::queue::Event;
use crate::serve::Fault;

/// Largest message taken; the same as over HTTP.
const MESSAGE_MAX: usize = 8 << 20;
/// Requests of one stream that are worked on at once; more wait on the wire.
const IN_FLIGHT_MAX: usize = 256;

/// What every method needs.
struct Desk {
    entrance: Arc<Entrance>,
    health: Health,
}

type Desked = State<Arc<Desk>>;

/// Routes of the protocol, and of gRPC's health protocol.
pub(crate) fn router(entrance: Arc<Entrance>, health: Health) -> Router {
    let of = |method: &str| format!("/{SERVICE}/{method}");
    Router::new()
        .route(
            &of("ServerLive"),
            post(|request: Request| unary(request, |_: Empty, _| ready(Ok(Answered { yes: true })))),
        )
        .route(&of("ServerReady"), post(server_ready))
        .route(
            &of("ServerMetadata"),
            post(|request: Request| unary(request, |_: Empty, _| ready(Ok(server_metadata())))),
        )
        .route(&of("ModelReady"), post(model_ready))
        .route(&of("ModelMetadata"), post(model_metadata))
        .route(&of("ModelConfig"), post(model_config))
        .route(&of("ModelInfer"), post(model_infer))
        .route(&of("ModelStreamInfer"), post(model_stream_infer))
        .route("/grpc.health.v1.Health/Check", post(health::check))
        .route("/grpc.health.v1.Health/Watch", post(health::watch))
        .fallback(|| async { Status::unimplemented("this node has no such method").into_http::<Body>() })
        .with_state(Arc::new(Desk { entrance, health }))
}

/// Answers one message with one.
async fn unary<Q, A, F>(request: Request, answer: impl Fn(Q, HeaderMap) -> F + Send + Sync) -> Response
where
    Q: Message + Default + Send + 'static,
    A: Message + Send + 'static,
    F: Future<Output = Result<A, Status>> + Send,
{
    let mut grpc = Grpc::new(ProstCodec::<A, Q>::default()).max_decoding_message_size(MESSAGE_MAX);
    let service = tower::service_fn(|request: tonic::Request<Q>| {
        let (metadata, _, message) = request.into_parts();
        let answered = answer(message, metadata.into_headers());
        async move { answered.await.map(tonic::Response::new) }
    });
    grpc.unary(service, request).await.map(Body::new)
}

async fn server_ready(State(desk): Desked, request: Request) -> Response {
    let yes = desk.health.ready();
    unary(request, |_: Empty, _| ready(Ok(Answered { yes }))).await
}

fn server_metadata() -> ServerMetadata {
    ServerMetadata {
        name: "tokenwatt".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: ["model_configuration", "parameters"].map(str::to_owned).to_vec(),
    }
}

async fn model_ready(State(desk): Desked, request: Request) -> Response {
    unary(request, |asked: ModelName, _| {
        ready(Ok(Answered { yes: desk.serves(&asked).is_ok() && desk.health.ready() }))
    })
    .await
}

async fn model_metadata(State(desk): Desked, request: Request) -> Response {
    let describe = |asked: ModelName, _| {
        ready(desk.serves(&asked).map(|()| ModelMetadata {
            name: asked.name,
            versions: vec![VERSION.to_owned()],
            platform: format!("tokenwatt_{}", desk.entrance.engine.engine),
            inputs: tensor::described(INPUTS.map(|(name, datatype, _)| (name, datatype))),
            outputs: tensor::described(OUTPUTS),
        }))
    };
    unary(request, describe).await
}

async fn model_config(State(desk): Desked, request: Request) -> Response {
    let describe = |asked: ModelName, _| {
        ready(desk.serves(&asked).map(|()| {
            let config = ModelConfig {
                name: asked.name,
                platform: format!("tokenwatt_{}", desk.entrance.engine.engine),
                backend: "tokenwatt".to_owned(),
                model_transaction_policy: Some(TransactionPolicy { decoupled: true }),
            };
            ModelConfigAnswer { config: Some(config) }
        }))
    };
    unary(request, describe).await
}

async fn model_infer(State(desk): Desked, request: Request) -> Response {
    let answer = |asked: InferRequest, headers: HeaderMap| {
        let desk = Arc::clone(&desk);
        async move {
            let (ask, admitted) = desk.begin(asked, headers).await.map_err(status)?;
            whole(ask, admitted).await.map_err(status)
        }
    };
    unary(request, answer).await
}

async fn model_stream_infer(State(desk): Desked, request: Request) -> Response {
    let codec = ProstCodec::<StreamInferResponse, InferRequest>::default();
    let mut grpc = Grpc::new(codec).max_decoding_message_size(MESSAGE_MAX);
    let service = tower::service_fn(|request: tonic::Request<Streaming<InferRequest>>| {
        let (metadata, _, requests) = request.into_parts();
        let responses = responses(Arc::clone(&desk), metadata.into_headers(), requests);
        async move { Ok::<_, Status>(tonic::Response::new(responses)) }
    });
    grpc.streaming(service, request).await.map(Body::new)
}

impl Desk {
    fn serves(&self, asked: &ModelName) -> Result<(), Status> {
        if asked.name == self.entrance.engine.model && ["", VERSION].contains(&asked.version.as_str()) {
            return Ok(());
        }
        Err(status(Fault::no_such_model(&asked.name)))
    }

    async fn begin(&self, request: InferRequest, headers: HeaderMap) -> Result<(Ask, Admitted), Fault> {
        let arrival_ns = self.entrance.clock.now_ns();
        let bytes = request.encoded_len();
        let read = move |entrance: &Entrance, ticket| {
            let ask = Ask::read(&request)?;
            let admitted = entrance.completion_of(&headers, ask.completion.clone(), arrival_ns, ticket)?;
            Ok((ask, admitted))
        };
        self.entrance.take_in(bytes, read).await
    }
}

/// Answers of all requests of a stream, as they come. No request is taken once the node goes down.
fn responses(
    desk: Arc<Desk>,
    headers: HeaderMap,
    requests: Streaming<InferRequest>,
) -> impl Stream<Item = Result<StreamInferResponse, Status>> + Send {
    let closing = desk.entrance.closing.clone();
    let requests = requests.take_until(closing.cancelled_owned());
    requests.flat_map_unordered(IN_FLIGHT_MAX, move |request| match request {
        Ok(request) => answers(Arc::clone(&desk), headers.clone(), request),
        Err(status) => stream::once(ready(Err(status))).boxed(),
    })
}

/// Answers of one request.
fn answers(
    desk: Arc<Desk>,
    headers: HeaderMap,
    request: InferRequest,
) -> BoxStream<'static, Result<StreamInferResponse, Status>> {
    let InferRequest { id, model_name, .. } = &request;
    let unanswered = InferResponse { id: id.clone(), model_name: model_name.clone(), ..InferResponse::default() };
    let wrapped = move |answer: Result<InferResponse, Fault>| {
        Ok(match answer {
            Ok(answer) => StreamInferResponse { infer_response: Some(answer), ..StreamInferResponse::default() },
            Err(fault) => StreamInferResponse {
                error_message: fault.message().to_owned(),
                infer_response: Some(unanswered.clone()),
            },
        })
    };
    let begun = async move { desk.begin(request, headers).await };
    stream::once(begun).flat_map(outputs).map(wrapped).boxed()
}

/// Answers of one request that was taken in, or why it was not.
fn outputs(begun: Result<(Ask, Admitted), Fault>) -> BoxStream<'static, Result<InferResponse, Fault>> {
    match begun {
        Ok((ask, admitted)) if ask.stream => {
            let state = Some((ask, admitted, 0));
            stream::unfold(state, |state| async move {
                let (ask, mut admitted, mut sent) = state?;
                let answer = next(&ask, &mut admitted, &mut sent).await;
                let goes_on = answer.as_ref().is_ok_and(|(_, last)| !last);
                Some((answer.map(|(answer, _)| answer), goes_on.then_some((ask, admitted, sent))))
            })
            .boxed()
        }
        Ok((ask, admitted)) => stream::once(whole(ask, admitted)).boxed(),
        Err(fault) => stream::once(ready(Err(fault))).boxed(),
    }
}

/// The next answer of a streamed request, and whether it is the last. `sent` are the tokens answered before.
async fn next(ask: &Ask, admitted: &mut Admitted, sent: &mut u32) -> Result<(InferResponse, bool), Fault> {
    let (text, reason, tokens) = match admitted.events.recv().await {
        Some(Event::Text { text, tokens, .. }) => (text, None, tokens),
        Some(Event::End { reason, tokens, .. }) => (String::new(), Some(reason.name()), tokens),
        Some(event @ (Event::Failed(_) | Event::Expired)) => return Err(Fault::ended(event)),
        None => return Err(Fault::internal("the engine stopped")),
    };
    let output_tokens = tokens.saturating_sub(*sent);
    *sent = tokens;
    let piece = Piece { text, reason, input_tokens: admitted.call.input_tokens, output_tokens };
    Ok((ask.response(piece), reason.is_some()))
}

/// The one answer of a request that is not streamed.
async fn whole(ask: Ask, mut admitted: Admitted) -> Result<InferResponse, Fault> {
    let mut all = ask.prefix.clone();
    loop {
        match admitted.events.recv().await {
            Some(Event::Text { text, .. }) => all.push_str(&text),
            Some(Event::End { reason, tokens, .. }) => {
                let input_tokens = admitted.call.input_tokens;
                return Ok(ask.response(Piece {
                    text: all,
                    reason: Some(reason.name()),
                    input_tokens,
                    output_tokens: tokens,
                }));
            }
            Some(event @ (Event::Failed(_) | Event::Expired)) => return Err(Fault::ended(event)),
            None => return Err(Fault::internal("the engine stopped")),
        }
    }
}

/// A fault in gRPC's terms.
fn status(fault: Fault) -> Status {
    let code = match fault.status() {
        StatusCode::BAD_REQUEST => Code::InvalidArgument,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::TOO_MANY_REQUESTS => Code::ResourceExhausted,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        StatusCode::GATEWAY_TIMEOUT => Code::DeadlineExceeded,
        _ => Code::Internal,
    };
    Status::new(code, fault.message())
}
