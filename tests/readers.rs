//! Other engines read our tables while we write them.

use crate::sender::Sender;
use crate::world::{World, client};

/// DuckDB and Polars count what our SQL counts at the same version, on versions that appear under load.
#[tokio::test(flavor = "multi_thread")]
async fn duckdb_and_polars_count_what_sql_counts() {
    let world = World::new();
    let server = world.up();
    let mut sender = Sender::new(1);
    sender.send(server.otlp_grpc(), 5).await.expect("send");
    server.until_at_least("SELECT count(*) FROM spans", 1).await;
    let endpoint = server.otlp_grpc().to_owned();
    let load = tokio::spawn(async move { while sender.send(&endpoint, 10).await.is_ok() {} });
    let (lake, http) = (world.lake().display().to_string(), server.http().to_owned());
    let read = tokio::task::spawn_blocking(move || client("readers.py", &[&lake, &http, "2"], &[]));
    read.await.expect("readers agree");
    load.abort();
}
