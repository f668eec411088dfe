//! How the proxy's calls end that do not end well: answers without a body, streams that are cut, engines that answer nothing or
//! nonsense, and calls that come back to the proxy.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::extract::Request;
use futures::StreamExt;
use inference_node::proxy::Upstream as Engine;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::proxy::before;
use crate::upstream::{Script, Upstream};
use crate::world::{PATIENCE, World, attributes};

/// An engine that writes these bytes to whoever asked, and closes.
async fn engine(bytes: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            read(&mut stream).await;
            // Who is not read to the end closes first.
            let _ = stream.write_all(bytes.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    url
}

/// Reads a whole request.
async fn read(stream: &mut TcpStream) {
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut piece).await.unwrap();
        assert!(length > 0, "a request has an end");
        seen.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&seen).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        if body.len() >= length.parse().unwrap() {
            return;
        }
    }
}

fn chat(stream: bool) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": stream})
}

/// The client's answer, and the fault that is recorded.
async fn through(kind: Engine, url: &str, stream: bool) -> (u16, String, Option<String>) {
    let world = before(kind, url, |_| {}).await;
    let answer = world.chat(&chat(stream)).await;
    let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
    let received = world.end().await;
    let [call] = &received.named("llm_request")[..] else { panic!("one call") };
    (status, text, attributes(&call.attributes).get("error.type").cloned())
}

/// An answer without a body is over with its head: it is recorded as what it was, and not as one whose client went away.
#[tokio::test]
async fn answers_without_a_body() {
    for (status, error) in [
        (200, None),
        (204, None),
        (205, None),
        (307, Some("engine_error")),
        (401, Some("client_error")),
        (429, Some("rate_limited")),
        (500, Some("engine_error")),
        (503, Some("engine_error")),
        (599, Some("engine_error")),
    ] {
        let url = engine(format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n")).await;
        assert_eq!(through(Engine::Vllm, &url, true).await, (status, String::new(), error.map(str::to_owned)));
    }
    let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 0\r\n\r\n";
    let (_, _, error) = through(Engine::Vllm, &engine(stream.to_owned()).await, true).await;
    assert_eq!(error.as_deref(), Some("upstream_unreachable"), "a stream of nothing is no answer");
}

/// Who leaves while an error's body is still to come was refused by the engine all the same.
#[tokio::test]
async fn clients_that_leave_an_error() {
    let refused = Script { status: 500, ..Script::whole("out of mem") };
    let (upstream, mut left) = Upstream::start(refused.then_wait()).await;
    let world = before(Engine::Vllm, &upstream.url, |_| {}).await;
    let mut body = world.chat(&chat(false)).await.bytes_stream();
    assert_eq!(body.next().await.unwrap().unwrap(), "out of mem");
    drop(body);
    tokio::time::timeout(PATIENCE, left.recv()).await.unwrap().unwrap();
    let received = world.end().await;
    assert_eq!(attributes(&received.named("llm_request")[0].attributes)["error.type"], "engine_error");
}

/// A stream that ends within an event, or before anything in it said that it does, is cut: the client is told, and it is no success.
/// One that is whole but for its last line break, or its last mark, passes as it is.
#[tokio::test]
async fn streams_that_are_cut() {
    let first = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    for (bytes, is_whole) in [
        (first.to_owned(), false),
        (format!("{first}data: {{\"choi"), false),
        (format!("{first}{end}data: [DO"), false),
        (format!("{first}{end}data: [DONE]"), true),
        (format!("{first}{end}"), true),
        (format!("{first}{}", end.trim_end()), true),
        (format!("{first}data: [DONE]\n\n"), true),
    ] {
        for kind in [Engine::Openai, Engine::Vllm] {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let url = engine(format!("{head}{bytes}")).await;
            let (_, text, error) = through(kind, &url, true).await;
            assert_eq!(error.as_deref(), (!is_whole).then_some("upstream_unreachable"), "{bytes}");
            if is_whole {
                assert_eq!(text, bytes);
            } else {
                let (_, last) = text.rsplit_once("\n\ndata: ").unwrap();
                let told: Value = serde_json::from_str(last).unwrap();
                assert_eq!(told["error"]["message"], "the engine broke off its answer", "{text}");
            }
        }
    }
}

/// Where no answer comes, the client hears what came instead.
#[tokio::test]
async fn what_came_instead_of_an_answer() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(1 << 20));
    for (url, message, kind) in [
        ("http://127.0.0.1:9".to_owned(), "the engine cannot be reached", "upstream_unreachable"),
        (engine(String::new()).await, "the engine closed the connection before it answered", "upstream_unreachable"),
        (engine("SSH-2.0-OpenSSH_9.6\r\n".to_owned()).await, "the engine's answer is no HTTP", "engine_error"),
        (engine(long).await, "the head of the engine's answer is too long", "engine_error"),
    ] {
        let (status, text, error) = through(Engine::Vllm, &url, false).await;
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, told["error"]["message"].as_str()), (502, Some(message)));
        assert_eq!((told["error"]["code"].as_str(), error.as_deref()), (Some("upstream_error"), Some(kind)));
    }
}

/// Passes each call on to where it came from, as a gateway would that has the proxy among its nodes.
async fn mirror(target: Arc<OnceLock<String>>, calls: Arc<AtomicU32>) -> String {
    let client = reqwest::Client::new();
    let router = axum::Router::new().fallback(move |request: Request| {
        let (client, target, calls) = (client.clone(), Arc::clone(&target), Arc::clone(&calls));
        async move {
            calls.fetch_add(1, Ordering::SeqCst);
            let url = format!("{}{}", target.get().unwrap(), request.uri().path());
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let mut headers = parts.headers;
            headers.remove("host");
            let answer = client.post(url).headers(headers).body(body).send().await.unwrap();
            (answer.status(), Body::from(answer.bytes().await.unwrap()))
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

/// A call that comes back to the proxy goes no second time to the engine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_come_back() {
    let (target, calls) = (Arc::new(OnceLock::new()), Arc::new(AtomicU32::new(0)));
    let url = mirror(Arc::clone(&target), Arc::clone(&calls)).await;
    let world = before(Engine::Openai, &url, |_| {}).await;
    target.set(world.url.clone()).unwrap();
    let answer = world.chat(&chat(false)).await;
    assert_eq!(answer.status(), 508);
    let told: Value = answer.json().await.unwrap();
    assert_eq!(told["error"]["code"], "loop_detected");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let received = world.end().await;
    assert_eq!(received.named("llm_request").len(), 1);
}

/// A node that is its own engine is refused before it starts.
#[tokio::test]
async fn a_proxy_before_itself() {
    let mut config = inference_node::Config::default();
    config.engine.kind = inference_node::engine::EngineKind::Proxy;
    config.engine.proxy.upstream = "http://localhost:8100/".to_owned();
    config.engine.proxy.upstream_grpc = Some("http://0.0.0.0:8101".to_owned());
    let mut faults = Vec::new();
    config.validate(&mut faults);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(
        faults[0].starts_with("node.engine.proxy.upstream `http://localhost:8100/` is where the node itself listens")
    );
    config.engine.kind = inference_node::engine::EngineKind::Sim;
    faults.clear();
    config.validate(&mut faults);
    assert_eq!(faults, Vec::<String>::new(), "who is no proxy has no engine behind it");
}

/// A body that is too long is refused with how long it may be, and a long name comes back in part.
#[tokio::test]
async fn what_is_too_long() {
    let (upstream, _left) = Upstream::start(Script::whole("{}")).await;
    let node = World::start(|_| {}).await;
    let proxy = before(Engine::Vllm, &upstream.url, |_| {}).await;
    for world in [&node, &proxy] {
        let body = vec![b' '; (8 << 20) + 1];
        let answer = world.client.post(format!("{}/v1/chat/completions", world.url)).body(body).send().await.unwrap();
        assert_eq!(answer.status(), 413);
        let told: Value = answer.json().await.unwrap();
        assert_eq!(told["error"]["message"], "the request body is longer than the 8 MiB that are taken here");
    }
    assert!(upstream.got.lock().is_empty());
    let long = "m".repeat(1 << 20);
    for body in [
        json!({"model": long, "messages": [{"role": "user", "content": "hi"}]}),
        json!({"model": {"a": long}, "messages": long}),
    ] {
        let text = node.chat(&body).await.text().await.unwrap();
        assert!(text.len() < 1_000, "{} bytes", text.len());
    }
    let answer = node.client.get(format!("{}/v1/models/{}", node.url, "m".repeat(4_000))).send().await.unwrap();
    assert!(answer.text().await.unwrap().len() < 1_000);
    node.end().await;
    proxy.end().await;
}
