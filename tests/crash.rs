//! Acknowledged means durable: the server is killed in mid-load, again and again, and nothing is lost or doubled.

use std::time::Duration;

use crate::otlp::CALL_TOKENS;
use crate::sender::{Sender, connect};
use crate::world::{Server, World};

/// How often the server is killed; more by `TOKENWATT_CRASH_ROUNDS`.
const KILLS: u64 = 4;

/// Every key that was acknowledged stands in the tables exactly once, whatever was in flight when the server died.
#[tokio::test(flavor = "multi_thread")]
async fn kill_9_in_mid_load_loses_nothing_and_doubles_nothing() {
    let kills = std::env::var("TOKENWATT_CRASH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(KILLS);
    let world = World::new();
    let mut senders: Vec<Sender> = (1..=3).map(Sender::new).collect();
    for kill in 0..kills {
        let server = world.up();
        let endpoint = server.otlp_grpc().to_owned();
        // Each life of the server ends at another point of its work.
        let life = Duration::from_millis(700 + 370 * (kill % 5));
        let load = senders.into_iter().map(|sender| tokio::spawn(until_gone(sender, endpoint.clone())));
        let load: Vec<_> = load.collect();
        tokio::time::sleep(life).await;
        server.kill();
        senders = Vec::new();
        for sender in load {
            senders.push(sender.await.expect("sender"));
        }
    }
    let server = world.up();
    for sender in &mut senders {
        sender.settle(server.otlp_grpc()).await.expect("resend what was not acknowledged");
    }
    let calls: u64 = senders.iter().map(Sender::acknowledged).sum();
    assert!(calls > 0, "no request was acknowledged");
    assert_once(&server, calls as i64).await;

    // The same holds after an orderly end, which must succeed.
    let (status, output) = server.stop();
    assert!(status.success(), "ended with {status}:\n{output}");
    assert_once(&world.up(), calls as i64).await;
}

async fn until_gone(mut sender: Sender, endpoint: String) -> Sender {
    // A collector that reads its journal refuses for a while; one that is gone cannot be connected to.
    while connect(&endpoint).await.is_ok() {
        if sender.send(&endpoint, 1_000).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    sender
}

async fn assert_once(server: &Server, calls: i64) {
    let tokens = calls * CALL_TOKENS as i64;
    // Per call the request span itself and one other span; token spans are in `tokens` alone.
    let tables = [
        ("requests", "trace_id || span_id", calls),
        ("tokens", "trace_id || request_span_id || '-' || choice || '-' || index", tokens),
        ("spans", "trace_id || span_id", 2 * calls),
        ("logs", "attributes['key']", calls),
        ("metrics", "attributes['key']", calls),
    ];
    for (table, key, sent) in tables {
        let filter = "service = 'load'";
        server.until_at_least(&format!("SELECT count(*) FROM {table} WHERE {filter}"), sent).await;
        let counts = format!("SELECT count(*), count(DISTINCT {key}) FROM {table} WHERE {filter}");
        assert_eq!(server.numbers(&counts).await, [sent, sent], "rows and keys of {table}, {sent} were sent");
    }
}
