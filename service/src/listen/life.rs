//! The life of one connection: whether it came to a request, and when it has lasted long enough.
//!
//! A connection that lasts for ever stays with one process, however many a load balancer has behind it. So where a port has an
//! age, each is ended in its time and without loss: HTTP/2 by GOAWAY, after which open calls finish, HTTP/1 by
//! `connection: close` on an answer.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use axum::http::{HeaderValue, Version, header};
use axum::response::Response;

/// Time that a peer gets to read that its connection ends.
const PARTING: Duration = Duration::from_secs(1);

/// What is known of a connection.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// 0 before the first request, then the major version of HTTP.
    version: AtomicU8,
    old: AtomicBool,
}

impl Life {
    /// A request came.
    pub(super) fn asked(&self, version: Version) {
        self.version.store(if version < Version::HTTP_2 { 1 } else { 2 }, Ordering::Relaxed);
    }

    /// The answer with what it has to say of its connection.
    pub(super) fn answered(&self, mut response: Response) -> Response {
        if self.old.load(Ordering::Relaxed) && self.version.load(Ordering::Relaxed) == 1 {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Waits until the connection has to be ended: it is `age` old, or no request came within `first`. HTTP's own clock starts
    /// when its version is known, which a peer that says nothing puts off for ever. A connection of HTTP/1 that is old ends by
    /// itself, with its next answer or when it is idle.
    pub(super) async fn ends(&self, first: Duration, age: Option<Duration>) {
        let first = age.map_or(first, |age| first.min(age));
        tokio::time::sleep(first).await;
        if self.version.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Some(age) = age else { return std::future::pending().await };
        tokio::time::sleep(age.saturating_sub(first)).await;
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

/// An age up to a tenth more or less than `age`, so that connections made together do not end together; `roll` is from 0 to 1.
pub(super) fn jittered(age: Duration, roll: f64) -> Duration {
    age.mul_f64(0.9 + 0.2 * roll.clamp(0.0, 1.0))
}
