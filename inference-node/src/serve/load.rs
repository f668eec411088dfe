//! What a gateway wants to know without asking for it: the node's load, on every answer and as a heartbeat.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures::{StreamExt, stream};
use service::shutdown::CancellationToken;

use crate::admit::Entrance;

/// Time between two beats.
const BEAT: Duration = Duration::from_millis(200);

/// `running,waiting,kv,slots`, as the load header has it.
pub(super) fn text(entrance: &Entrance) -> String {
    let load = entrance.gauges.load();
    format!("{},{},{:.3},{}", load.running, load.waiting, load.kv_usage, entrance.engine.slots)
}

/// The heartbeat of a node with an engine of its own.
pub(super) async fn stream(State(entrance): State<Arc<Entrance>>) -> Response {
    let closing = entrance.closing.clone();
    beats(move || text(&entrance), closing)
}

/// One event with the load at once and one for every [`BEAT`], until the node takes no more calls. A gateway that keeps it open
/// learns of a node's end by the end of the stream, and of its death by the connection's.
pub(crate) fn beats(load: impl Fn() -> String + Send + 'static, closing: CancellationToken) -> Response {
    let beats = stream::unfold((load, false), |(load, begun)| async move {
        if begun {
            tokio::time::sleep(BEAT).await;
        }
        let event = Bytes::from(format!("data: {}\n\n", load()));
        Some((Ok::<_, Infallible>(event), (load, true)))
    });
    let mut response = Response::new(Body::from_stream(beats.take_until(closing.cancelled_owned())));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
