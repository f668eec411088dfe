//! The life of one connection: whether it came to a request, and when it has lasted long enough.
//!
//! A connection that lasts for ever stays with one process, however many a load balancer has behind it. So where a port has an
//! age, each is ended in its time and without loss: HTTP/2 by GOAWAY, after which open calls finish, HTTP/1 by
//! `connection: close` on an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::{HeaderValue, Version, header};
use axum::response::Response;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Time that a peer gets to read that its connection ends.
const PARTING: Duration = Duration::from_secs(1);

/// What is known of a connection.
#[derive(Debug)]
pub(super) struct Life {
    /// 0 before the first request, then the major version of HTTP.
    version: AtomicU8,
    old: AtomicBool,
    /// Calls over HTTP/2 that are not over.
    calls: AtomicUsize,
    /// When it was made, or the last of them ended.
    idle_since: Mutex<Instant>,
}

/// A call over HTTP/2, until it is dropped.
#[derive(Debug)]
pub(super) struct OpenCall(Arc<Life>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        *self.0.idle_since.lock() = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Silent,
    Old,
    Idle,
}

impl Why {
    /// For the log.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Silent => "no request came on it",
            Self::Old => "it had lasted long enough",
            Self::Idle => "it had no calls for listen.idle_timeout",
        }
    }
}

impl Life {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            version: AtomicU8::new(0),
            old: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            idle_since: Mutex::new(Instant::now()),
        })
    }

    /// A request came.
    pub(super) fn asked(&self, version: Version) {
        self.version.store(if version < Version::HTTP_2 { 1 } else { 2 }, Ordering::Relaxed);
    }

    /// A call over HTTP/2 begins.
    pub(super) fn call(self: &Arc<Self>) -> OpenCall {
        self.calls.fetch_add(1, Ordering::Relaxed);
        OpenCall(Arc::clone(self))
    }

    /// The answer with what it has to say of its connection.
    pub(super) fn answered(&self, mut response: Response) -> Response {
        if self.old.load(Ordering::Relaxed) && self.version.load(Ordering::Relaxed) == 1 {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Waits until the connection has to be ended: it is `age` old, no request came within `first`, or none is under way over HTTP/2 for
    /// `idle`. HTTP's own clock starts when its version is known, which a peer that says nothing puts off for ever. A connection of HTTP/1
    /// that is old ends by itself, with its next answer or when it is idle.
    pub(super) async fn ends(&self, first: Duration, age: Option<Duration>, idle: Duration) -> Why {
        let silent = async {
            tokio::time::sleep(age.map_or(first, |age| first.min(age))).await;
            if self.version.load(Ordering::Relaxed) != 0 {
                std::future::pending().await
            }
        };
        let old = async {
            let Some(age) = age else { return std::future::pending().await };
            tokio::time::sleep(age).await;
            self.old.store(true, Ordering::Relaxed);
            if self.version.load(Ordering::Relaxed) == 1 {
                std::future::pending().await
            }
        };
        tokio::select! {
            () = silent => Why::Silent,
            () = old => Why::Old,
            () = self.idles(idle) => Why::Idle,
        }
    }

    /// Waits until a connection of HTTP/2 has had no calls for so long.
    async fn idles(&self, limit: Duration) {
        loop {
            let is_idle = self.version.load(Ordering::Relaxed) == 2 && self.calls.load(Ordering::Relaxed) == 0;
            let idle = if is_idle { self.idle_since.lock().elapsed() } else { Duration::ZERO };
            let Some(left) = limit.checked_sub(idle).filter(|left| !left.is_zero()) else { return };
            tokio::time::sleep(left).await;
        }
    }

    /// Waits until it is certain that nothing comes any more from a connection that was asked to end: a peer may never acknowledge it.
    /// Over HTTP/1, whose own clocks are strict, that is not known.
    pub(super) async fn is_quiet(&self) {
        loop {
            tokio::time::sleep(PARTING).await;
            if self.version.load(Ordering::Relaxed) != 1 && self.calls.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
    }
}

/// An age up to a tenth more or less than `age`, so that connections made together do not end together; `roll` is from 0 to 1.
pub(super) fn jittered(age: Duration, roll: f64) -> Duration {
    age.mul_f64(0.9 + 0.2 * roll.clamp(0.0, 1.0))
}
