//! The proxy between clients and the gRPC port of Triton.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http_body_util::{BodyExt, Full};
use inference_node::proxy::Upstream as Engine;
use parking_lot::Mutex;
use service::shutdown::CancellationToken;
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::proxy::{before, hex};
use crate::world::{PATIENCE, Received, World, attributes};

/// One field of a protobuf message that holds bytes.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(value.len()).unwrap()], value].concat()
}

/// One message of gRPC.
fn message(parts: &[Vec<u8>]) -> Vec<u8> {
    let body = parts.concat();
    [&[0][..], &u32::try_from(body.len()).unwrap().to_be_bytes(), &body].concat()
}

/// An answer on a stream of Triton: id, text, and whether it is the last, where it says so.
fn inferred(id: &str, text: &str, is_last: Option<bool>) -> Vec<u8> {
    let raw = [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat();
    let mark =
        is_last.map(|last| field(4, &[field(1, b"triton_final_response"), field(2, &[8, u8::from(last)])].concat()));
    let parts =
        [field(3, id.as_bytes()), mark.unwrap_or_default(), field(5, &field(1, b"text_output")), field(6, &raw)];
    message(&[field(2, &parts.concat())])
}

/// What is recorded of a stream on which these ids are asked for and these answers come: id, fault and chunks of each call. The
/// bytes of both ways pass as they are, and all calls stand in one trace, which the engine is told.
async fn over_grpc(ids: &[&str], answers: &[Vec<u8>], status: &'static str) -> Vec<(String, Option<String>, usize)> {
    let expected = answers.concat();
    let (answers, traced) = (expected.clone(), Arc::new(Mutex::new(String::new())));
    let told = Arc::clone(&traced);
    let router = axum::Router::new().fallback(move |request: Request| async move {
        assert_eq!(request.headers()["te"], "trailers");
        *told.lock() = request.headers()["traceparent"].to_str().unwrap().to_owned();
        // All requests are in before the first answer leaves.
        let asked = request.into_body().collect().await.unwrap().to_bytes();
        assert!(asked.len() > 10);
        let trailers = http::HeaderMap::from_iter([("grpc-status".parse().unwrap(), status.parse().unwrap())]);
        let body = Full::new(Bytes::from(answers.clone())).with_trailers(async { Some(Ok(trailers)) });
        ([("content-type", "application/grpc")], Body::new(body))
    });
    let (url, stop) = engine(router).await;
    let world = before(Engine::Triton, "http://127.0.0.1:9", |proxy| proxy.upstream_grpc = Some(url)).await;
    let answer = ask(&world, "ModelStreamInfer", ids).await.into_body().collect().await.unwrap();
    assert_eq!(answer.trailers().unwrap()["grpc-status"], status);
    assert_eq!(answer.to_bytes(), expected);
    let received = world.end().await;
    stop.cancel();
    let trace = hex(traced.lock().split('-').nth(1).unwrap());
    assert!(received.named("llm_request").iter().all(|call| call.trace_id == trace));
    recorded(&received)
}

/// What is recorded of each call on a stream: id, fault and chunks.
fn recorded(received: &Received) -> Vec<(String, Option<String>, usize)> {
    let mut calls: Vec<_> = received
        .named("llm_request")
        .iter()
        .map(|call| {
            let about = attributes(&call.attributes);
            let tokens = received.named("token").into_iter().filter(|token| token.parent_span_id == call.span_id);
            let place = (about["gen_ai.request.model"].as_str(), about["gen_ai.request.stream"].as_str());
            assert_eq!(place, ("llama", "true"));
            let id = about.get("gen_ai.request.id").cloned().unwrap_or_default();
            (id, about.get("error.type").cloned(), tokens.count())
        })
        .collect();
    calls.sort();
    calls
}

fn call(id: &str, error: Option<&str>, chunks: usize) -> (String, Option<String>, usize) {
    (id.to_owned(), error.map(str::to_owned), chunks)
}

/// Triton's gRPC stream carries several calls at once, told apart by their ids: each is recorded with its own chunks, and a status
/// that is no success ends what is open with it.
#[tokio::test]
async fn triton_grpc_stream() {
    let answers = [
        inferred("a", "Hel", Some(false)),
        inferred("b", "One", Some(false)),
        inferred("a", "lo", Some(false)),
        inferred("a", "", Some(true)),
        inferred("b", "", Some(true)),
        inferred("c", "half", Some(false)),
    ];
    let calls = over_grpc(&["a", "b", "c"], &answers, "13").await;
    assert_eq!(calls, [call("a", None, 2), call("b", None, 1), call("c", Some("engine_error"), 1)]);
}

/// Answers without a mark, as of models that are not decoupled: of calls with one id each has its own, and the last one ends with
/// the stream.
#[tokio::test]
async fn triton_grpc_without_marks() {
    let answers = [inferred("", "one", None), inferred("", "two", None), inferred("", "three", None)];
    let calls = over_grpc(&["", "", ""], &answers, "0").await;
    assert_eq!(calls, [call("", None, 1), call("", None, 1), call("", None, 1)]);
    let calls = over_grpc(&["a"], &[inferred("a", "Hel", None), inferred("a", "lo", None)], "0").await;
    assert_eq!(calls, [call("a", None, 2)]);
}

/// Serves gRPC as an engine would; its address, and what ends it.
pub(crate) async fn engine(router: axum::Router) -> (String, CancellationToken) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let until = stop.clone();
    tokio::spawn(async move {
        let limits = service::listen::Limits::default();
        service::listen::serve_http(listener, &service::tls::Acceptor::default(), limits, router, until).await
    });
    (url, stop)
}

/// Asks for these ids, all at once.
async fn ask(world: &World, method: &str, ids: &[&str]) -> http::Response<tonic::body::Body> {
    send(world, method, ids.iter().flat_map(|id| asking(id)).collect()).await
}

fn asking(id: &str) -> Vec<u8> {
    message(&[field(1, b"llama"), field(3, id.as_bytes())])
}

/// A message that says it is compressed.
fn compressed() -> Vec<u8> {
    let mut message = message(&[b"gz".to_vec()]);
    message[0] = 1;
    message
}

/// Sends these requests, all at once.
async fn send(world: &World, method: &str, requests: Vec<u8>) -> http::Response<tonic::body::Body> {
    let request = http::Request::post(format!("/inference.GRPCInferenceService/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(Full::new(Bytes::from(requests))))
        .unwrap();
    let channel = tonic::transport::Endpoint::from_shared(world.url.clone()).unwrap().connect_lazy();
    channel.oneshot(request).await.unwrap()
}

/// An engine that answers each request of a stream with the next of its answers, once it may; it counts the requests that it got.
#[derive(Clone)]
struct Slow {
    answers: Arc<Mutex<VecDeque<Vec<u8>>>>,
    got: Arc<Mutex<usize>>,
    may: Arc<Semaphore>,
}

impl Slow {
    fn new(answers: Vec<Vec<u8>>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.into())), got: Arc::default(), may: Arc::new(Semaphore::new(0)) }
    }

    fn router(&self) -> axum::Router {
        let slow = self.clone();
        axum::Router::new().fallback(move |request: Request| {
            let slow = slow.clone();
            async move { slow.answer(request.into_body()) }
        })
    }

    fn answer(self, body: Body) -> Response {
        let pieces = futures::stream::unfold((self, body, BytesMut::new()), |(slow, mut body, mut held)| async move {
            loop {
                if let Some([_, length @ ..]) = held.first_chunk::<5>() {
                    let whole = 5 + u32::from_be_bytes(*length) as usize;
                    if held.len() >= whole {
                        let _ = held.split_to(whole);
                        *slow.got.lock() += 1;
                        slow.may.acquire().await.unwrap().forget();
                        let answer = slow.answers.lock().pop_front().unwrap_or_default();
                        return Some((Ok::<_, axum::Error>(Bytes::from(answer)), (slow, body, held)));
                    }
                }
                held.extend_from_slice(&body.frame().await?.unwrap().into_data().unwrap_or_default());
            }
        });
        let trailers = http::HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
        let body = Body::from_stream(pieces).with_trailers(async { Some(Ok(trailers)) });
        let mut response = Response::new(Body::new(body));
        response.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
        response
    }
}

/// Waits until so many calls run and so many wait, as the node's own page says.
async fn until(world: &World, running: u32, waiting: u32) {
    // Once a call is over they name its model, too.
    let expected = [("running", running), ("waiting", waiting)]
        .map(|(name, count)| (format!("vllm:num_requests_{name}{{engine=\"triton\""), format!("}} {count}")));
    let come = async {
        loop {
            let page = world.client.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
            let is_told = |(begins, ends): &(String, String)| {
                page.lines().any(|line| line.starts_with(begins) && line.ends_with(ends))
            };
            if expected.iter().all(is_told) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, come).await.unwrap_or_else(|_| panic!("never {running} and {waiting}"));
}

/// Sees the engine get so many calls one at a time, each when the one before has been answered.
async fn one_by_one(world: &World, slow: &Slow, count: usize) {
    for done in 0..count {
        until(world, 1, u32::from(done + 1 < count)).await;
        // The engine has what has its turn, and no more.
        tokio::time::timeout(PATIENCE, async {
            while *slow.got.lock() <= done {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        assert_eq!(*slow.got.lock(), done + 1);
        slow.may.add_permits(1);
    }
}

/// What is recorded of a stream to an engine that takes one call at once, and answers each as it comes.
async fn in_turns(ids: &[&str], answers: &[Vec<u8>]) -> Vec<(String, Option<String>, usize)> {
    let slow = Slow::new(answers.to_vec());
    slow.may.add_permits(ids.len());
    let (url, stop) = engine(slow.router()).await;
    let world = before(Engine::Triton, "http://127.0.0.1:9", |proxy| {
        proxy.upstream_grpc = Some(url);
        proxy.concurrency = 1;
    })
    .await;
    let answer = async { ask(&world, "ModelStreamInfer", ids).await.into_body().collect().await.unwrap() };
    let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap();
    assert_eq!(answer.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(answer.to_bytes(), answers.concat());
    let received = world.end().await;
    stop.cancel();
    recorded(&received)
}

/// A call whose answers carry no mark gives its turn back with the first of them, and still counts those that follow, until its id
/// comes again.
#[tokio::test]
async fn turns_without_marks() {
    let two = [inferred("a", "Hel", None), inferred("a", "lo", None)].concat();
    let calls = in_turns(&["a", "b"], &[two, inferred("b", "One", None)]).await;
    assert_eq!(calls, [call("a", None, 2), call("b", None, 1)]);
    let calls = in_turns(&["", ""], &[inferred("", "one", None), inferred("", "two", None)]).await;
    assert_eq!(calls, [call("", None, 1), call("", None, 1)]);
    let calls = in_turns(&["a", "b"], &[compressed(), compressed()]).await;
    assert_eq!(calls, [call("a", None, 0), call("b", None, 0)]);
}

/// A fault that names no call ends the one that waits for its answer.
#[tokio::test]
async fn faults_without_an_id() {
    let fault = message(&[field(1, b"no such model")]);
    let calls = in_turns(&["a", "b"], &[fault.clone(), inferred("b", "One", Some(true))]).await;
    assert_eq!(calls, [call("a", Some("engine_error"), 0), call("b", None, 1)]);
    let calls = in_turns(&["a", "b"], &[inferred("a", "One", None), fault.clone()]).await;
    assert_eq!(calls, [call("a", None, 1), call("b", Some("engine_error"), 0)]);
    let calls = over_grpc(&["b", "a"], &[fault, inferred("a", "One", Some(true))], "0").await;
    assert_eq!(calls, [call("a", None, 1), call("b", Some("engine_error"), 0)]);
}

/// Requests that cannot be read wait for their turn as others do, whether their answers can be read or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_requests_take_turns() {
    let answers = [inferred("x", "one", Some(true)), compressed(), inferred("c", "text", Some(true))];
    let slow = Slow::new(answers.to_vec());
    let (url, stop) = engine(slow.router()).await;
    let world = before(Engine::Triton, "http://127.0.0.1:9", |proxy| {
        proxy.upstream_grpc = Some(url);
        proxy.concurrency = 1;
    })
    .await;
    let requests = [compressed(), message(&[vec![0; 2 << 20]]), asking("c")].concat();
    let answer =
        async { send(&world, "ModelStreamInfer", requests).await.into_body().collect().await.unwrap().to_bytes() };
    let (answer, ()) = tokio::join!(answer, one_by_one(&world, &slow, 3));
    assert_eq!(answer, answers.concat());
    let received = world.end().await;
    stop.cancel();
    assert_eq!(recorded(&received), [call("c", None, 1)]);
}

/// Requests of one stream wait for their turn, one after the other, and their wait is recorded: the engine gets the next one when
/// the last has been answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_a_stream_take_turns() {
    let slow = Slow::new(["a", "b", "c"].map(|id| inferred(id, "text", Some(true))).to_vec());
    let (url, stop) = engine(slow.router()).await;
    let world = before(Engine::Triton, "http://127.0.0.1:9", |proxy| {
        proxy.upstream_grpc = Some(url);
        proxy.concurrency = 1;
    })
    .await;
    let answers =
        async { ask(&world, "ModelStreamInfer", &["a", "b", "c"]).await.into_body().collect().await.unwrap() };
    let turns = one_by_one(&world, &slow, 3);
    let (answers, ()) = tokio::join!(answers, turns);
    assert_eq!(answers.trailers().unwrap()["grpc-status"], "0");
    let received = world.end().await;
    stop.cancel();
    let calls = received.named("llm_request");
    assert_eq!(calls.len(), 3);
    for call in &calls {
        let about = attributes(&call.attributes);
        assert!(about.contains_key("gen_ai.latency.time_in_queue") && !about.contains_key("error.type"), "{about:?}");
    }
}

/// A single call is refused where as many wait as may; the others have their turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_calls_are_refused_where_many_wait() {
    let slow = Slow::new(vec![message(&[field(1, b"llama")]); 2]);
    let (url, stop) = engine(slow.router()).await;
    let world = World::start(|config| {
        config.engine.kind = inference_node::engine::EngineKind::Proxy;
        config.engine.proxy.engine = Engine::Triton;
        config.engine.proxy.upstream_grpc = Some(url);
        config.engine.proxy.concurrency = 1;
        config.queue_max = 1;
    })
    .await;
    let status = async |id| {
        let answer = ask(&world, "ModelInfer", &[id]).await;
        let said = answer.headers().get("grpc-status").cloned();
        let body = answer.into_body().collect().await.unwrap();
        said.unwrap_or_else(|| body.trailers().unwrap()["grpc-status"].clone())
    };
    let third = async {
        until(&world, 1, 1).await;
        let refused = status("c").await;
        slow.may.add_permits(2);
        refused
    };
    let (first, second, third) = tokio::join!(status("a"), status("b"), third);
    assert_eq!([first, second, third], ["0", "0", "8"]);
    let received = world.end().await;
    stop.cancel();
    let mut kinds: Vec<_> = received
        .named("llm_request")
        .iter()
        .map(|call| attributes(&call.attributes).get("error.type").cloned())
        .collect();
    kinds.sort();
    assert_eq!(kinds, [None, None, Some("rate_limited".to_owned())]);
}

/// An engine that falls silent though it has a call to answer: the stream ends with a status that says so, and the call with it.
#[tokio::test]
async fn an_engine_that_falls_silent_on_a_stream() {
    let slow = Slow::new(vec![inferred("a", "half", Some(false)), Vec::new()]);
    slow.may.add_permits(1);
    let (url, stop) = engine(slow.router()).await;
    let world = before(Engine::Triton, "http://127.0.0.1:9", |proxy| {
        proxy.upstream_grpc = Some(url);
        proxy.idle_timeout = Duration::from_millis(300);
    })
    .await;
    let answer = ask(&world, "ModelStreamInfer", &["a", "b"]).await.into_body().collect().await.unwrap();
    assert_eq!(answer.trailers().unwrap()["grpc-status"], "4");
    let received = world.end().await;
    stop.cancel();
    let calls = received.named("llm_request");
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| attributes(&call.attributes)["error.type"] == "timeout"));
}

/// An engine that says nothing to a request that cannot be read: the stream ends all the same.
#[tokio::test]
async fn an_engine_that_is_silent_to_an_unread_request() {
    let slow = Slow::new(Vec::new());
    let (url, stop) = engine(slow.router()).await;
    let world = before(Engine::Triton, "http://127.0.0.1:9", |proxy| {
        proxy.upstream_grpc = Some(url);
        proxy.idle_timeout = Duration::from_millis(300);
    })
    .await;
    let answer = async { send(&world, "ModelStreamInfer", compressed()).await.into_body().collect().await.unwrap() };
    let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap();
    assert_eq!(answer.trailers().unwrap()["grpc-status"], "4");
    world.end().await;
    stop.cancel();
}

/// An engine that falls silent in the middle of a message, though every call has an answer.
#[tokio::test]
async fn an_engine_that_falls_silent_within_a_message() {
    let whole = inferred("a", "one", None);
    let part = [&whole[..], &whole[..9]].concat();
    let router = axum::Router::new().fallback(move || {
        let part = Bytes::from(part.clone());
        let body = futures::stream::iter([Ok::<_, axum::Error>(part)]).chain(futures::stream::pending());
        async move { ([("content-type", "application/grpc")], Body::from_stream(body)) }
    });
    let (url, stop) = engine(router).await;
    let world = before(Engine::Triton, "http://127.0.0.1:9", |proxy| {
        proxy.upstream_grpc = Some(url);
        proxy.idle_timeout = Duration::from_secs(1);
    })
    .await;
    let request = http::Request::post("/inference.GRPCInferenceService/ModelStreamInfer")
        .header("content-type", "application/grpc")
        .body(tonic::body::Body::new(Body::from_stream(
            futures::stream::iter([Ok::<_, axum::Error>(Bytes::from(asking("a")))]).chain(futures::stream::pending()),
        )))
        .unwrap();
    let channel = tonic::transport::Endpoint::from_shared(world.url.clone()).unwrap().connect_lazy();
    let answer = async { channel.oneshot(request).await.unwrap().into_body().collect().await.unwrap() };
    let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap();
    assert_eq!(answer.trailers().unwrap()["grpc-status"], "4");
    let received = world.end().await;
    stop.cancel();
    assert_eq!(recorded(&received), [call("a", Some("timeout"), 1)]);
}

/// An answer that is nothing but its end, in gRPC's words or only in HTTP's, is recorded as what it was.
#[tokio::test]
async fn answers_that_are_nothing_but_their_end() {
    for (status, code, error) in [
        (200, Some("0"), None),
        (200, Some("14"), Some("engine_error")),
        (200, Some("8"), Some("rate_limited")),
        (200, Some("16"), Some("client_error")),
        (503, None, Some("engine_error")),
        (204, None, Some("engine_error")),
    ] {
        for method in ["ModelInfer", "ModelStreamInfer"] {
            let router = axum::Router::new().fallback(move |request: Request| async move {
                request.into_body().collect().await.unwrap();
                let mut answer = Response::new(Body::empty());
                *answer.status_mut() = http::StatusCode::from_u16(status).unwrap();
                answer.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
                if let Some(code) = code {
                    answer.headers_mut().insert("grpc-status", code.parse().unwrap());
                }
                answer
            });
            let (url, stop) = engine(router).await;
            let world = before(Engine::Triton, "http://127.0.0.1:9", |proxy| proxy.upstream_grpc = Some(url)).await;
            assert_eq!(ask(&world, method, &["a"]).await.status().as_u16(), status);
            let received = world.end().await;
            stop.cancel();
            let calls = received.named("llm_request");
            let errors: Vec<_> =
                calls.iter().map(|call| attributes(&call.attributes).get("error.type").cloned()).collect();
            assert_eq!(errors, [error.map(str::to_owned)], "{status} {code:?} {method}");
        }
    }
}

/// A port that takes connections but speaks no gRPC is told from one where nobody is.
#[tokio::test]
async fn ports_that_speak_no_grpc() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let other = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.6\r\n").await;
        }
    });
    for (url, message) in [
        ("http://127.0.0.1:9".to_owned(), "the engine cannot be reached"),
        (url, "the engine closed the connection before it answered, or its port speaks no gRPC"),
    ] {
        let world = before(Engine::Triton, "http://127.0.0.1:9", |proxy| proxy.upstream_grpc = Some(url)).await;
        let answer = ask(&world, "ModelInfer", &["a"]).await;
        let said = answer.headers()["grpc-message"].to_str().unwrap().replace("%20", " ").replace("%2C", ",");
        assert_eq!((answer.headers()["grpc-status"].to_str().unwrap(), said.as_str()), ("14", message));
        let received = world.end().await;
        assert_eq!(attributes(&received.named("llm_request")[0].attributes)["error.type"], "upstream_unreachable");
    }
    other.abort();
}
