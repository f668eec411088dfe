//! The life of one connection: whether it came to a request, and when it has lasted long enough.
//!
//! A connection that lasts for ever stays with one collector, however many a load balancer has behind it. So each is ended in
//! its time and without loss: HTTP/2 by GOAWAY, after which open calls finish, HTTP/1 by `connection: close` on an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Version, header};
use axum::middleware::{self, Next};
use axum::response::Response;

/// A connection without a request after this time is ended.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Time that a peer gets to read that its connection ends.
const PARTING: Duration = Duration::from_secs(1);

/// What is known of a connection.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// 0 before the first request, then the major version of HTTP.
    version: AtomicU8,
    old: AtomicBool,
}

impl Peer {
    /// The router for this connection's requests.
    pub(super) fn watch(self: &Arc<Self>, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(Arc::clone(self), observe))
    }

    /// Waits until the connection has to be ended: it is `age` old, or no request came. One of HTTP/1 ends by itself, with its
    /// next answer or when it is idle.
    pub(super) async fn ends(&self, age: Duration) {
        tokio::time::sleep(FIRST_REQUEST_TIMEOUT.min(age)).await;
        if self.version.load(Ordering::Relaxed) == 0 {
            return;
        }
        tokio::time::sleep(age.saturating_sub(FIRST_REQUEST_TIMEOUT)).await;
        self.old.store(true, Ordering::Relaxed);
        if self.version.load(Ordering::Relaxed) == 1 {
            std::future::pending().await
        }
    }

    /// Waits until it is certain that nothing comes any more from a connection that was asked to end before it asked anything.
    pub(super) async fn is_silent(&self) {
        tokio::time::sleep(PARTING).await;
        if self.version.load(Ordering::Relaxed) != 0 {
            std::future::pending().await
        }
    }
}

async fn observe(State(peer): State<Arc<Peer>>, request: Request, next: Next) -> Response {
    let first = request.version() < Version::HTTP_2;
    peer.version.store(if first { 1 } else { 2 }, Ordering::Relaxed);
    let mut response = next.run(request).await;
    if first && peer.old.load(Ordering::Relaxed) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// An age up to a tenth more or less than `age`, so that connections made together do not end together; `roll` is from 0 to 1.
pub(super) fn jittered(age: Duration, roll: f64) -> Duration {
    age.mul_f64(0.9 + 0.2 * roll.clamp(0.0, 1.0))
}
