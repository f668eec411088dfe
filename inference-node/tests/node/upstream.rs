//! Small HTTP servers that speak as other engines do, over real sockets. The engines themselves are not here: what they say is
//! written down from their documentation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use parking_lot::Mutex;
use serde_json::Value;
use service::channel::{Receiver, bounded};
use tokio::net::TcpListener;

/// What an engine answers.
#[derive(Clone, Default)]
pub(crate) struct Script {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// Pieces of the body, as they are written; `None` waits until the test lets it go on.
    pub(crate) pieces: Vec<Option<String>>,
    /// The connection breaks after the pieces.
    pub(crate) breaks: bool,
}

impl Script {
    /// A stream of these frames, cut into pieces at odd places.
    pub(crate) fn stream(frames: &[&str]) -> Self {
        let whole: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
        let pieces = whole.as_bytes().chunks(37).map(|piece| Some(String::from_utf8(piece.to_vec()).unwrap()));
        Self {
            status: 200,
            headers: vec![("content-type", "text/event-stream")],
            pieces: pieces.collect(),
            breaks: false,
        }
    }

    /// One JSON document.
    pub(crate) fn whole(body: &str) -> Self {
        let headers = vec![("content-type", "application/json")];
        Self { status: 200, headers, pieces: vec![Some(body.to_owned())], breaks: false }
    }

    /// Waits after the pieces so far.
    pub(crate) fn then_wait(mut self) -> Self {
        self.pieces.push(None);
        self
    }
}

/// A call that the engine got.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// A running engine.
#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) url: String,
    pub(crate) got: Arc<Mutex<Vec<Got>>>,
    /// Most calls at once so far.
    pub(crate) together: Arc<AtomicU32>,
    now: Arc<AtomicU32>,
    script: Script,
    go: Arc<tokio::sync::Semaphore>,
    gone: service::channel::Sender<()>,
}

impl Upstream {
    /// Starts one that gives everybody the same answer, and the receiver of a word for each answer that nobody read to its end.
    pub(crate) async fn start(script: Script) -> (Self, Receiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (gone, left) = bounded("test.gone", 64);
        let upstream = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            got: Arc::default(),
            together: Arc::default(),
            now: Arc::default(),
            script,
            go: Arc::new(tokio::sync::Semaphore::new(0)),
            gone,
        };
        let router = Router::new().fallback(answer).with_state(upstream.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (upstream, left)
    }

    /// Lets one answer that waits go on.
    pub(crate) fn go_on(&self) {
        self.go.add_permits(1);
    }

    pub(crate) fn only(&self) -> Got {
        let got = self.got.lock();
        assert_eq!(got.len(), 1);
        got[0].clone()
    }
}

/// One call fewer, and a word if its answer did not leave whole.
struct Answering {
    upstream: Upstream,
    whole: bool,
}

impl Answering {
    fn left_whole(mut self) {
        self.whole = true;
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.upstream.now.fetch_sub(1, Ordering::SeqCst);
        if !self.whole {
            let _ = self.upstream.gone.try_send(());
        }
    }
}

async fn answer(State(upstream): State<Upstream>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let now = upstream.now.fetch_add(1, Ordering::SeqCst) + 1;
    upstream.together.fetch_max(now, Ordering::SeqCst);
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    upstream.got.lock().push(Got { path: parts.uri.path().to_owned(), headers: parts.headers, body });
    let script = upstream.script.clone();
    let answering = Answering { upstream, whole: false };
    let pieces =
        futures::stream::unfold((answering, script.pieces.into_iter()), move |(answering, mut left)| async move {
            loop {
                return match left.next() {
                    Some(Some(piece)) => Some((Ok(Bytes::from(piece)), (answering, left))),
                    Some(None) => {
                        let go = Arc::clone(&answering.upstream.go);
                        go.acquire().await.unwrap().forget();
                        continue;
                    }
                    None if script.breaks => Some((Err(std::io::Error::other("broken")), (answering, left))),
                    None => {
                        answering.left_whole();
                        None
                    }
                };
            }
        });
    let mut response = Response::new(Body::from_stream(pieces));
    *response.status_mut() = StatusCode::from_u16(script.status).unwrap();
    for (name, value) in &script.headers {
        response.headers_mut().insert(*name, value.parse().unwrap());
    }
    response
}
