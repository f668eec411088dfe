use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::to_bytes;
use service::channel::bounded;
use service::metrics::Registry;
use service::shutdown::CancellationToken;

use super::*;
use crate::proxy::turn::Turns;
use crate::proxy::{Config, Parts, front};
use crate::record::{Lost, Recorder};
use crate::step::NodeClock;

/// Longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// An engine that answers every call with a stream, and counts them.
async fn engine() -> (String, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let counted = Arc::clone(&calls);
    let router = Router::new().fallback(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        let stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
        async move { ([(header::CONTENT_TYPE, "text/event-stream")], stream) }
    });
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, calls)
}

fn chat(content: &str) -> Request {
    let body = serde_json::json!({"model": "m", "messages": [{"role": "user", "content": content}], "stream": true});
    let request = Request::post("/v1/chat/completions").header("content-type", "application/json");
    request.body(body.to_string().into()).unwrap()
}

/// While a long body waits for the thread that reads it, the stream of another call passes; further long ones wait behind it, as many
/// as may.
#[test]
fn long_bodies_hold_up_no_stream() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let (upstream, calls) = engine().await;
        let (sender, _records) = bounded("test.records", 64);
        let parts = Parts {
            recorder: Recorder::new(sender, Lost::new(&Registry::new())),
            clock: Arc::new(NodeClock::new(service::Deps::system().clock)),
            fleet_secret: None,
            token_sampling: 0.0,
            turns: Turns::new(0, 8),
            queue_max: 8,
            closing: CancellationToken::new(),
        };
        let made = front(&Config { upstream, ..Config::default() }, parts, &Registry::new()).unwrap();
        let front = Arc::new(Front { long: Turns::new(1, 0), ..made });
        let (go, gate) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || gate.recv());
        let long = "a long story ".repeat(10_000);
        let first = tokio::spawn(relay(State(Arc::clone(&front)), chat(&long)));
        let has_its_turn = async {
            while front.long.running() == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, has_its_turn).await.expect("long bodies have turns");
        let stream = relay(State(Arc::clone(&front)), chat("hi")).await;
        assert!(to_bytes(stream.into_body(), READ_MAX).await.unwrap().ends_with(b"data: [DONE]\n\n"));
        let second = relay(State(Arc::clone(&front)), chat(&long)).await;
        assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(calls.load(Ordering::SeqCst), 1, "the first one is still to be read");
        go.send(()).unwrap();
        let first = tokio::time::timeout(PATIENCE, first).await.unwrap().unwrap();
        assert_eq!((first.status(), calls.load(Ordering::SeqCst)), (StatusCode::OK, 2));
    });
}

/// What was asked for behind the client's back is taken out: from frames with text, and whole where a frame holds nothing else.
#[test]
fn frames_without_what_nobody_asked_for() {
    let usage = &super::super::dialect::Upstream::Vllm.extras()[0];
    let strip = |keeps_last| [Strip { extra: usage, keeps_last }];
    let text = |frame: &str, keeps_last: bool| match stripped(frame.as_bytes(), &strip(keeps_last)) {
        None => "untouched".to_owned(),
        Some(Kept::Nothing) => "gone".to_owned(),
        Some(Kept::Some(bytes)) => String::from_utf8(bytes).unwrap(),
    };
    let chunk = r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}"#;
    let last = r#"{"choices":[],"usage":{"completion_tokens":1}}"#;
    assert_eq!(text(chunk, false), r#"{"choices":[{"delta":{"content":"a"}}]}"#);
    assert_eq!(text(last, false), "gone");
    assert_eq!(text(chunk, true), r#"{"choices":[{"delta":{"content":"a"}}]}"#);
    assert_eq!(text(last, true), "untouched");
    assert_eq!(text("[DONE]", false), "untouched");
}

/// Headers of the hop, those that `Connection` names, and the fleet's secret stay behind.
#[test]
fn headers_that_go_on() {
    let headers: HeaderMap = [
        ("connection", "close, x-private"),
        ("x-private", "1"),
        ("host", "a"),
        ("authorization", "Bearer k"),
        ("x-tokenwatt-fleet-secret", "s"),
        ("content-length", "5"),
    ]
    .into_iter()
    .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
    .collect();
    let names = |kept: &[HeaderName]| forwarded(&headers, kept).keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&[]), ["authorization"]);
    let mut both = names(&[header::CONTENT_LENGTH]);
    both.sort();
    assert_eq!(both, ["authorization", "content-length"]);
}
