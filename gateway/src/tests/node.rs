//! A small real inference node: an HTTP server that streams what its script says.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use parking_lot::Mutex;
use tokio::sync::Notify;

pub(super) const DONE: &str = "data: [DONE]\n\n";

/// How a node behaves.
#[derive(Clone, Copy)]
pub(super) enum Script {
    /// Streams a whole answer.
    Answer,
    /// Streams a frame and the rest only when told to go on.
    Stepwise,
    /// Never answers.
    Silent,
    /// Streams a frame, then cuts the connection.
    Break,
    /// Answers with this status.
    Refuse(u16),
    /// Answers with this status and nothing more.
    Empty(u16),
    /// Streams these bytes, whatever they are, and ends.
    Stream(&'static str),
}

/// A running node. Clones of `shared` live in its handlers.
pub(super) struct Node {
    pub(super) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    script: Script,
    calls: Mutex<Vec<HeaderMap>>,
    ready: AtomicBool,
    go_on: Notify,
    cancelled: Notify,
}

/// Says that the handler or body it lives in was dropped before its end.
struct Dropped(Option<Arc<Shared>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.cancelled.notify_one();
        }
    }
}

pub(super) fn frame(text: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"model\":\"m\",\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

pub(super) fn usage_frame(prompt: u64, output: u64) -> String {
    let total = prompt + output;
    format!(
        "data: {{\"id\":\"c\",\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{output},\"total_tokens\":{total}}}}}\n\n"
    )
}

impl Node {
    pub(super) async fn start(script: Script) -> Self {
        let shared = Arc::new(Shared {
            script,
            calls: Mutex::default(),
            ready: AtomicBool::new(true),
            go_on: Notify::new(),
            cancelled: Notify::new(),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(chat))
            .route("/v1/completions", post(chat))
            .route("/v1/models", get(|| async { "models" }))
            .route("/readyz", get(readyz))
            .with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, shared }
    }

    /// Headers of the calls so far.
    pub(super) fn calls(&self) -> Vec<HeaderMap> {
        self.shared.calls.lock().clone()
    }

    pub(super) fn go_on(&self) {
        self.shared.go_on.notify_one();
    }

    pub(super) fn set_ready(&self, ready: bool) {
        self.shared.ready.store(ready, Ordering::SeqCst);
    }

    /// Waits until a call was given up before its end.
    pub(super) async fn wait_cancelled(&self) {
        let wait = self.shared.cancelled.notified();
        tokio::time::timeout(std::time::Duration::from_secs(30), wait).await.expect("the call was not given up");
    }
}

async fn readyz(State(shared): State<Arc<Shared>>) -> StatusCode {
    if shared.ready.load(Ordering::SeqCst) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn chat(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    shared.calls.lock().push(headers);
    match shared.script {
        Script::Answer => events(Body::from(format!("{}{}{}{DONE}", frame("one"), frame("two"), usage_frame(7, 2)))),
        Script::Stepwise => stepwise(shared),
        Script::Silent => {
            let _dropped = Dropped(Some(shared));
            std::future::pending().await
        }
        Script::Break => {
            let first = Ok(frame("one"));
            let cut = Err(std::io::Error::other("cut"));
            // The first frame must be on its way before the cut, or the client would see neither.
            let parts = futures::StreamExt::then(futures::stream::iter([first, cut]), |part| async {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                part
            });
            events(Body::from_stream(parts))
        }
        Script::Empty(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Script::Stream(bytes) => events(Body::from_stream(futures::stream::iter([Ok::<_, Infallible>(bytes)]))),
        Script::Refuse(status) => {
            let status = StatusCode::from_u16(status).unwrap();
            let headers = [("retry-after", "3"), ("connection", "x-hop"), ("x-hop", "1"), ("x-end", "1")];
            (status, headers, "busy").into_response()
        }
    }
}

fn stepwise(shared: Arc<Shared>) -> Response {
    let guard = Dropped(Some(Arc::clone(&shared)));
    let steps = futures::stream::unfold((0, guard), move |(step, mut guard)| {
        let shared = Arc::clone(&shared);
        async move {
            let text = match step {
                0 => frame("one"),
                1 => {
                    shared.go_on.notified().await;
                    frame("two")
                }
                2 => format!("{}{DONE}", usage_frame(7, 2)),
                _ => {
                    drop(guard.0.take());
                    return None;
                }
            };
            Some((Ok::<_, Infallible>(text), (step + 1, guard)))
        }
    });
    events(Body::from_stream(steps))
}

fn events(body: Body) -> Response {
    ([("content-type", "text/event-stream; charset=utf-8")], body).into_response()
}
