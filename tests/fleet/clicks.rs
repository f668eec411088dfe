//! From an objective that burns to the node that burns it to the tokens of a call.

use crate::world::{Server, client};

/// The objective of the region whose first node the demo slows down.
const OBJECTIVE: &str = "ttft-eu-west-1";

pub(super) async fn lead_to_the_slow_node(server: &Server) {
    let output = server.output();
    let slow = output.lines().find_map(|line| line.strip_prefix("slow on purpose: ")?.split(',').next());
    let slow = slow.unwrap_or_else(|| panic!("the demo names no slow node:\n{output}"));
    // Objectives hold from the minute in which the first windows are built, and need calls that count.
    let bad = format!("SELECT coalesce(sum(calls - good), 0) FROM slo_burn WHERE slo = '{OBJECTIVE}' AND burn_5m > 1");
    server.until_at_least(&bad, 20).await;
    let said = tokio::task::block_in_place(|| client("clicks.py", &[server.http(), OBJECTIVE, slow], &[]));
    assert!(said.contains("holds: the node leads to the tokens of a slow call"), "{said}");
}
