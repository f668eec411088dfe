//! What other emitters send: OpenTelemetry's own SDK over both transports, every value in its column and nothing lost.

use crate::world::{World, client};

#[test]
fn spans_metrics_and_logs_of_the_sdk_over_grpc_come_back_whole() {
    let world = World::new();
    let server = world.up();
    client("sdk.py", &["grpc", server.otlp_grpc(), server.http()], &[]);
}

#[test]
fn spans_metrics_and_logs_of_the_sdk_over_http_come_back_whole() {
    let world = World::new();
    let server = world.up();
    client("sdk.py", &["http", server.otlp_http(), server.http()], &[]);
}
