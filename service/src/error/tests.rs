use std::io;
use std::time::Duration;

use axum::response::IntoResponse;

use super::*;

/// The chain names every cause once, outermost first.
#[test]
fn chain_lists_causes_once() {
    let io = io::Error::new(io::ErrorKind::UnexpectedEof, "unexpected end of file");
    let frame = Error::new(Kind::Corrupt, "read frame 9").with_source(io);
    let open = Error::internal("open segment 17").with_source(frame);
    assert_eq!(open.to_string(), "open segment 17");
    assert_eq!(chain(&open), "open segment 17: read frame 9: unexpected end of file");
}

/// A library that prints its own cause does not make the chain say it twice.
#[test]
fn chain_skips_a_cause_already_printed() {
    let cause = io::Error::other("disk on fire");
    let error = Error::internal("write journal: disk on fire").with_source(cause);
    assert_eq!(chain(&error), "write journal: disk on fire");
}

/// Waiting helps for overload, not for a wrong request; the header is whole seconds, rounded up.
#[tokio::test]
async fn http_answer_has_status_body_and_retry_after() {
    let kind = Kind::Overloaded { retry_after: Duration::from_millis(1_200) };
    let response = Error::new(kind, "queue full").with_hint("send slower").into_response();
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "2");
    let body = axum::body::to_bytes(response.into_body(), 1 << 16).await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        body,
        serde_json::json!({"error": {"kind": "overloaded", "message": "queue full", "hint": "send slower"}})
    );

    let response = Error::invalid("no such column").into_response();
    assert_eq!(response.status(), 400);
    assert!(!response.headers().contains_key("retry-after"));
}

/// A body that is too large and a quota share a gRPC code but not an HTTP status.
#[test]
fn kinds_map_to_both_protocols() {
    let throttled = Kind::Throttled { retry_after: Duration::from_secs(1) };
    assert_eq!(Kind::TooLarge.grpc_code(), throttled.grpc_code());
    assert_eq!(Kind::TooLarge.http_status(), 413);
    assert_eq!(throttled.http_status(), 429);
    assert_eq!(Kind::Cancelled.http_status().as_u16(), 499);
}
