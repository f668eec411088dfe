//! Whether the process lives (`/healthz`) and may be given work (`/readyz`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The health of a process, made of its components. Clones share it.
#[derive(Clone, Default)]
pub struct Health {
    components: Arc<Mutex<BTreeMap<String, Condition>>>,
    draining: Arc<AtomicBool>,
}

#[derive(Clone, PartialEq, Eq)]
enum Condition {
    Starting,
    Ready,
    /// Works, but somebody must look.
    Degraded(String),
    Waiting(String),
    Failed(String),
}

/// One part of the process that can be ready or not.
#[derive(Clone)]
pub struct Component {
    name: String,
    health: Health,
}

impl Health {
    /// A process without components: alive and ready.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The health of another service in the same process: components of its own, ending together with this one.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self { components: Arc::default(), draining: Arc::clone(&self.draining) }
    }

    /// The component called `name`; it is starting until it says otherwise.
    pub fn component(&self, name: impl Into<String>) -> Component {
        let name = name.into();
        self.components.lock().entry(name.clone()).or_insert(Condition::Starting);
        Component { name, health: self.clone() }
    }

    /// The process is about to end: no longer ready, still alive.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// No component has failed.
    #[must_use]
    pub fn alive(&self) -> bool {
        !self.components.lock().values().any(|state| matches!(state, Condition::Failed(_)))
    }

    /// All components are ready and the process is not ending.
    #[must_use]
    pub fn ready(&self) -> bool {
        !self.draining.load(Ordering::Relaxed) && self.components.lock().values().all(Condition::works)
    }

    /// Routes `/healthz` and `/readyz`: 200 or 503, with the state of every component as JSON.
    pub fn router(&self) -> Router {
        Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz)).with_state(self.clone())
    }

    fn report(&self) -> Value {
        let components: serde_json::Map<String, Value> =
            self.components.lock().iter().map(|(name, condition)| (name.clone(), condition.text().into())).collect();
        json!({"draining": self.draining.load(Ordering::Relaxed), "components": components})
    }

    fn set(&self, name: &str, state: Condition) {
        self.components.lock().insert(name.to_owned(), state);
    }
}

impl Component {
    /// The component can be given work.
    pub fn ready(&self) {
        self.health.set(&self.name, Condition::Ready);
    }

    /// The component is not ready yet, or not ready for now.
    pub fn starting(&self) {
        self.health.set(&self.name, Condition::Starting);
    }

    /// The component works, but a human must look, for the reason given.
    pub fn degraded(&self, reason: impl Into<String>) {
        self.health.set(&self.name, Condition::Degraded(reason.into()));
    }

    /// The component takes no work for now, for the reason given, and goes on by itself: not ready, still alive.
    pub fn waiting(&self, reason: impl Into<String>) {
        self.health.set(&self.name, Condition::Waiting(reason.into()));
    }

    /// The component cannot go on, for the reason given.
    pub fn failed(&self, reason: impl Into<String>) {
        self.health.set(&self.name, Condition::Failed(reason.into()));
    }
}

impl Condition {
    fn works(&self) -> bool {
        matches!(self, Self::Ready | Self::Degraded(_))
    }

    fn text(&self) -> String {
        match self {
            Self::Starting => "starting".to_owned(),
            Self::Ready => "ready".to_owned(),
            Self::Degraded(reason) => format!("degraded: {reason}"),
            Self::Waiting(reason) => format!("waiting: {reason}"),
            Self::Failed(reason) => format!("failed: {reason}"),
        }
    }
}

async fn healthz(State(health): State<Health>) -> (StatusCode, Json<Value>) {
    answer(health.alive(), &health)
}

async fn readyz(State(health): State<Health>) -> (StatusCode, Json<Value>) {
    answer(health.ready(), &health)
}

fn answer(good: bool, health: &Health) -> (StatusCode, Json<Value>) {
    let status = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health.report()))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt;

    use super::*;

    async fn status(health: &Health, path: &str) -> u16 {
        let request = Request::get(path).body(Body::empty()).unwrap();
        health.router().oneshot(request).await.unwrap().status().as_u16()
    }

    /// Alive and ready are two questions: starting and draining processes live but take no work.
    #[tokio::test]
    async fn alive_and_ready_differ() {
        let health = Health::new();
        let collector = health.component("collector");
        assert_eq!((status(&health, "/healthz").await, status(&health, "/readyz").await), (200, 503));
        collector.ready();
        assert_eq!((status(&health, "/healthz").await, status(&health, "/readyz").await), (200, 200));
        collector.degraded("old certificate");
        assert_eq!((status(&health, "/healthz").await, status(&health, "/readyz").await), (200, 200));
        assert!(health.report().to_string().contains("degraded: old certificate"));
        collector.waiting("the journal is full");
        assert_eq!((status(&health, "/healthz").await, status(&health, "/readyz").await), (200, 503));
        collector.ready();
        health.drain();
        assert_eq!((status(&health, "/healthz").await, status(&health, "/readyz").await), (200, 503));
        assert!(!health.sibling().ready());
        collector.failed("disk full");
        assert_eq!((status(&health, "/healthz").await, status(&health, "/readyz").await), (503, 503));
        assert!(health.sibling().alive());
    }
}
