//! What the pages show is what their SQL says.

use crate::world::{Server, client};

/// Every cell, tile and chart of every page, of minutes that are over, against the panels' own statements.
pub(super) async fn are_those_of_their_sql(server: &Server) {
    let minutes =
        "SELECT date_trunc('minute', now()) - INTERVAL '4 minutes', date_trunc('minute', now()) - INTERVAL '1 minute'";
    let ends = server.row(minutes).await;
    let [from, to] = ends.iter().map(|end| end.as_str().expect("an instant")).collect::<Vec<_>>()[..] else {
        panic!("two instants")
    };
    let said = tokio::task::block_in_place(|| client("figures.py", &[server.http(), from, to], &[]));
    assert!(said.contains("holds: every number is that of its SQL"), "{said}");
}
