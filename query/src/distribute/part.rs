//! Parts of queries that run here for other processes, each stopped when the one that asked is gone or has all it needs.
//!
//! The request that brings a plan stays open for as long as its query runs, so its body ends, or breaks off, when nobody waits any more.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use futures::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{
    execute::{
        Engine, QueryMemory,
        running::{Registry, Running, Started, Stop},
    },
    reader::Reader,
};

/// The header in which a part's number gets from its request to its session; whatever a caller sends in it is overwritten.
const PART: HeaderName = HeaderName::from_static("x-tokenwatt-part");
/// The end of the path of requests that bring a plan.
const BRINGS_A_PLAN: &str = "/CoordinatorChannel";

/// The parts that run here.
pub(super) struct Parts {
    engine: Arc<Engine>,
    registry: Arc<Registry>,
}

impl Parts {
    pub(super) fn of(engine: &Arc<Engine>) -> Arc<Parts> {
        let registry = Arc::<Registry>::default();
        let counted = Arc::downgrade(&registry);
        let help = "Parts of other processes' queries that run here and are waited for.";
        engine.deps.metrics.observe("tokenwatt_query_parts", help, &[], move || {
            let waited_for = |running: &&Arc<Running>| running.stopped().is_none();
            counted.upgrade().map(|registry| registry.list().iter().filter(waited_for).count() as f64)
        });
        Arc::new(Parts { engine: Arc::clone(engine), registry })
    }

    /// A part that begins now. Each has the share of a query; all of them together have that of all queries.
    fn begin(&self) -> Arc<Running> {
        let memory = QueryMemory::new(self.engine.shared().memory(), self.engine.config.memory_bytes_per_query);
        let reader = Arc::new(Reader::internal());
        let started = Started { sql: "", reader: &reader, at_us: self.engine.deps.clock.now_us() };
        self.registry.enter(&started, memory, None)
    }

    /// The part whose request had these headers; `None` once the request is over.
    pub(super) fn of_request(&self, headers: &HeaderMap) -> Option<Arc<Running>> {
        let number = headers.get(&PART).and_then(|number| number.to_str().ok()?.parse().ok());
        number.and_then(|number| self.registry.get(number))
    }
}

/// Begins a part with each request that brings a plan, and stops it with the request.
pub(super) async fn watched(State(parts): State<Arc<Parts>>, request: Request, next: Next) -> Response {
    if !request.uri().path().ends_with(BRINGS_A_PLAN) {
        return next.run(request).await;
    }
    let watched = Watched(parts.begin());
    let (mut head, body) = request.into_parts();
    head.headers.insert(PART, HeaderValue::from(watched.0.id));
    let messages = body.into_data_stream().inspect(move |_| {
        // Held for as long as the body is.
        let _ = &watched;
    });
    next.run(Request::from_parts(head, Body::from_stream(messages))).await
}

/// Tells the part to stop once its request is over.
struct Watched(Arc<Running>);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.stop(Stop::Abandoned);
    }
}
