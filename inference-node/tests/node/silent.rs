//! The proxy before an engine that falls silent on a stream of gRPC: which silence it waits out, and which it ends. Engine and client are
//! tonic's.

use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use inference_node::proxy::Upstream as Engine;
use service::shutdown::CancellationToken;
use tonic::transport::Endpoint;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::grpc::engine;
use crate::proxy::before;
use crate::world::{PATIENCE, World, attributes};

/// Of Triton's messages what is told here.
#[derive(Clone, PartialEq, prost::Message)]
struct Asked {
    #[prost(string, tag = "1")]
    model_name: String,
    #[prost(string, tag = "3")]
    id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Streamed {
    #[prost(message, optional, tag = "2")]
    infer_response: Option<Answer>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(string, tag = "3")]
    id: String,
    #[prost(message, repeated, tag = "5")]
    outputs: Vec<Tensor>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    raw: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Tensor {
    #[prost(string, tag = "1")]
    name: String,
}

/// An answer that does not say whether it is the last.
fn answer(id: &str) -> Streamed {
    let raw = vec![[&4_u32.to_le_bytes()[..], b"text"].concat()];
    let outputs = vec![Tensor { name: "text_output".to_owned() }];
    Streamed { infer_response: Some(Answer { id: id.to_owned(), outputs, raw }) }
}

type Answers = BoxStream<'static, Result<Streamed, Status>>;

/// A proxy with so much patience before an engine that answers the requests of a stream like this.
async fn behind(
    idle_timeout: Duration,
    answers: impl Fn(Streaming<Asked>) -> Answers + Clone + Send + Sync + 'static,
) -> (World, CancellationToken) {
    let router = axum::Router::new().fallback(move |request: axum::extract::Request| {
        let answers = answers.clone();
        async move {
            let service = tower::service_fn(move |request: tonic::Request<Streaming<Asked>>| {
                let answers = answers(request.into_inner());
                async move { Ok::<_, Status>(tonic::Response::new(answers)) }
            });
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<Streamed, Asked>::default());
            grpc.streaming(service, request).await.map(axum::body::Body::new)
        }
    });
    let (url, stop) = engine(router).await;
    let world = before(Engine::Triton, "http://127.0.0.1:9", |proxy| {
        proxy.upstream_grpc = Some(url);
        proxy.idle_timeout = idle_timeout;
    })
    .await;
    (world, stop)
}

/// So many answers to one call, each after a pause, and then silence or the end. As any engine it answers when it was asked: an answer that
/// is there before its request is nobody's.
fn pieces(requests: Streaming<Asked>, count: usize, pause: Duration, ends: bool) -> Answers {
    let next = move |(done, mut requests): (usize, Streaming<Asked>)| async move {
        if done == 0 {
            requests.message().await.unwrap().unwrap();
        }
        if done == count && ends {
            return None;
        }
        if done == count {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(pause).await;
        Some((Ok(answer("a")), (done + 1, requests)))
    };
    stream::unfold((0, requests), next).boxed()
}

/// Asks over one stream; the answers, and the status at their end.
async fn ask(world: &World, requests: impl Stream<Item = Asked> + Send + 'static) -> (Vec<Streamed>, Code) {
    let mut answers = open(world, requests).await;
    let all = async {
        let mut all = Vec::new();
        loop {
            match answers.message().await {
                Ok(Some(answer)) => all.push(answer),
                Ok(None) => return (all, Code::Ok),
                Err(status) => return (all, status.code()),
            }
        }
    };
    tokio::time::timeout(PATIENCE, all).await.unwrap()
}

async fn open(world: &World, requests: impl Stream<Item = Asked> + Send + 'static) -> Streaming<Streamed> {
    let channel = Endpoint::from_shared(world.grpc_url.clone()).unwrap().connect().await.unwrap();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static("/inference.GRPCInferenceService/ModelStreamInfer");
    let codec = ProstCodec::<Asked, Streamed>::default();
    client.streaming(tonic::Request::new(requests), path, codec).await.unwrap().into_inner()
}

fn request(id: &str) -> Asked {
    Asked { model_name: "llama".to_owned(), id: id.to_owned() }
}

/// Chunks and fault of each call that was recorded.
fn recorded(received: &crate::world::Received) -> Vec<(usize, Option<String>)> {
    let chunks = |call: &[u8]| received.named("token").iter().filter(|token| token.parent_span_id == call).count();
    let calls = received.named("llm_request");
    calls.iter().map(|call| (chunks(&call.span_id), attributes(&call.attributes).get("error.type").cloned())).collect()
}

/// Long enough for an answer on a busy machine.
const SHORT: Duration = Duration::from_secs(1);

/// An engine that does not mark ends, and hangs after a piece of its answer: where the client has sent all it will, the stream must end,
/// and ends as timed out.
#[tokio::test]
async fn a_stream_that_must_end_ends() {
    let (world, stop) = behind(SHORT, |requests| pieces(requests, 1, Duration::ZERO, false)).await;
    let (answers, status) = ask(&world, stream::iter([request("a")])).await;
    assert_eq!((answers.len(), status), (1, Code::DeadlineExceeded));
    let received = world.end().await;
    stop.cancel();
    assert_eq!(recorded(&received), [(1, Some("timeout".to_owned()))]);
}

/// An answer that takes longer in all than the engine may be silent, and is not: it is whole.
#[tokio::test]
async fn a_slow_answer_is_not_cut() {
    let pause = Duration::from_millis(700);
    let (world, stop) = behind(3 * pause, move |requests| pieces(requests, 4, pause, true)).await;
    let (answers, status) = ask(&world, stream::iter([request("a")])).await;
    assert_eq!((answers.len(), status), (4, Code::Ok));
    let received = world.end().await;
    stop.cancel();
    assert_eq!(recorded(&received), [(4, None)]);
}

/// An engine that does not mark ends, and hangs after a piece of its answer, on a stream on which more might be asked: nobody knows that the
/// answer is not whole, until the client has waited for too long and goes away. It is recorded as what it was, and not as whole.
#[tokio::test]
async fn what_hangs_is_not_whole() {
    let (world, stop) = behind(SHORT, |requests| pieces(requests, 1, Duration::ZERO, false)).await;
    let (sender, requests) = tokio::sync::mpsc::channel(1);
    let mut answers = open(&world, tokio_stream::wrappers::ReceiverStream::new(requests)).await;
    sender.send(request("a")).await.unwrap();
    assert_eq!(answers.message().await.unwrap(), Some(answer("a")));
    // The client's patience, longer than the engine may be silent.
    assert!(tokio::time::timeout(3 * SHORT, answers.message()).await.is_err(), "the stream stays open");
    assert_eq!(world.received.named("llm_request").len(), 0, "what is not known is not said");
    drop((answers, sender));
    let received = world.end().await;
    stop.cancel();
    assert_eq!(recorded(&received), [(1, Some("timeout".to_owned()))]);
    let call = &received.named("llm_request")[0];
    assert_eq!(attributes(&call.attributes)["gen_ai.response.finish_reasons"], "error");
    assert_eq!(call.status.as_ref().map(|status| status.code), Some(2), "ERROR");
}

/// A client that leaves while more may come cut the answer off itself.
#[tokio::test]
async fn who_leaves_early_is_not_the_engines_silence() {
    let (world, stop) = behind(PATIENCE, |requests| pieces(requests, 1, Duration::ZERO, false)).await;
    let (sender, requests) = tokio::sync::mpsc::channel(1);
    let mut answers = open(&world, tokio_stream::wrappers::ReceiverStream::new(requests)).await;
    sender.send(request("a")).await.unwrap();
    assert_eq!(answers.message().await.unwrap(), Some(answer("a")));
    drop((answers, sender));
    let received = world.end().await;
    stop.cancel();
    assert_eq!(recorded(&received), [(1, Some("cancelled".to_owned()))]);
}

/// An engine without end marks owes nothing that anybody knows of once it has answered, in one piece or several: the client may be silent
/// for longer than the engine may and then ask again, whereby its call was whole.
#[tokio::test]
async fn a_client_may_be_silent() {
    for pieces in [1, 3] {
        let echo = move |requests: Streaming<Asked>| {
            let answered = requests.flat_map(move |asked| {
                let answered = asked.map(|asked| answer(&asked.id));
                stream::iter(vec![answered; pieces])
            });
            answered.boxed()
        };
        let (world, stop) = behind(SHORT, echo).await;
        let (sender, requests) = tokio::sync::mpsc::channel(1);
        let mut answers = open(&world, tokio_stream::wrappers::ReceiverStream::new(requests)).await;
        for id in ["a", "b"] {
            sender.send(request(id)).await.unwrap();
            for _ in 0..pieces {
                assert_eq!(answers.message().await.unwrap(), Some(answer(id)));
            }
            assert!(tokio::time::timeout(2 * SHORT, answers.message()).await.is_err(), "the stream stays open");
        }
        let seen = async {
            while world.received.named("llm_request").is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, seen).await.expect("the first was whole");
        drop(sender);
        assert_eq!(answers.message().await.unwrap(), None);
        let received = world.end().await;
        stop.cancel();
        assert_eq!(recorded(&received), [(pieces, None), (pieces, None)]);
    }
}
