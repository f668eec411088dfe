//! The clients of a node under load: each makes the next call as soon as the last one is answered.
//!
//! They run in a thread of their own, [`THREAD`], so that what they cost is counted apart from the node. Each call says itself whether
//! its tokens are recorded: the node, which records half of all traces, decides by the trace id, and the clients pick the ids. One node
//! thus serves turns with and without, and nothing else about it differs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::try_join_all;
use serde_json::{Value, json};
use service::error::{Error, Result};
use service::shutdown::CancellationToken;

/// Name of the thread.
pub(super) const THREAD: &str = "bench.clients";
/// Share of traces that the node must be told to record.
pub(super) const SAMPLING: f64 = 0.5;
/// How often a turn looks whether all calls are of its kind.
const LOOK: Duration = Duration::from_millis(5);

/// Where calls go, and how many tokens they ask for.
pub(super) struct Target {
    /// `/v1/completions` of the node.
    pub(super) url: String,
    pub(super) model: String,
    /// Calls at once.
    pub(super) count: u32,
    /// Tokens of an answer. The first one of each client is shorter, by its number, so that answers do not end all at once.
    pub(super) tokens: u32,
}

/// Clients at work.
pub(super) struct Clients {
    shared: Arc<Shared>,
    thread: std::thread::JoinHandle<Result<()>>,
}

struct Shared {
    target: Target,
    /// Turn of the calls that begin now; odd ones are recorded.
    turn: AtomicU64,
    /// Turn in which each client's call began.
    begun: Vec<AtomicU64>,
    calls: AtomicU64,
    /// Tokens of calls that were recorded.
    recorded: AtomicU64,
    stop: CancellationToken,
}

impl Clients {
    /// Starts them, unrecorded.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(super) fn start(target: Target) -> Result<Self> {
        let begun = (0..target.count).map(|_| AtomicU64::new(u64::MAX)).collect();
        let shared = Arc::new(Shared {
            target,
            turn: AtomicU64::new(0),
            begun,
            calls: AtomicU64::new(0),
            recorded: AtomicU64::new(0),
            stop: CancellationToken::new(),
        });
        let all = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| Error::internal("start the clients").with_source(error))?;
            let client = reqwest::Client::new();
            let asking = (0..all.target.count).map(|number| all.ask(&client, number));
            runtime.block_on(try_join_all(asking)).map(|_| ())
        });
        let thread = thread.map_err(|error| Error::internal("start the clients").with_source(error))?;
        Ok(Self { shared, thread })
    }

    /// Makes all calls recorded, or none; returns once no call of the other kind is left.
    ///
    /// # Errors
    /// If the clients have broken off.
    pub(super) async fn turn(&self, recorded: bool) -> Result<()> {
        let now = self.shared.turn.load(Ordering::Relaxed);
        let turn = if (now % 2 == 1) == recorded { now } else { now + 1 };
        self.shared.turn.store(turn, Ordering::Relaxed);
        while self.shared.begun.iter().any(|begun| begun.load(Ordering::Relaxed) != turn) {
            if self.thread.is_finished() {
                return Err(Error::internal("the clients broke off; is the node's queue as long as they are many?"));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Ends them when their calls are answered. Returns the tokens of all calls that were recorded.
    ///
    /// # Errors
    /// If a call failed.
    pub(super) async fn finish(self) -> Result<u64> {
        self.shared.stop.cancel();
        let ended = tokio::task::spawn_blocking(move || self.thread.join()).await;
        let ended = ended.map_err(|error| Error::internal("the clients broke").with_source(error))?;
        ended.map_err(|_| Error::internal("the clients broke"))??;
        Ok(self.shared.recorded.load(Ordering::Relaxed))
    }
}

impl Shared {
    async fn ask(&self, client: &reqwest::Client, number: u32) -> Result<()> {
        let Target { url, model, count, tokens } = &self.target;
        let mut wanted = (tokens * (number + 1)).div_ceil(*count);
        while !self.stop.is_cancelled() {
            let turn = self.turn.load(Ordering::Relaxed);
            self.begun[number as usize].store(turn, Ordering::Relaxed);
            let body = json!({
                "model": model, "prompt": "Tell me about harbors.", "max_tokens": wanted, "ignore_eos": true, "seed": number,
            });
            let sent = client.post(url).header("traceparent", self.trace(turn % 2 == 1)).json(&body).send().await;
            let answer = sent.and_then(reqwest::Response::error_for_status);
            let answer = answer.map_err(|error| Error::internal("a call failed").with_source(error))?;
            let answer: Value =
                answer.json().await.map_err(|error| Error::internal("a call broke off").with_source(error))?;
            let given = answer["usage"]["completion_tokens"].as_u64().unwrap_or(0);
            if given != u64::from(wanted) {
                return Err(Error::internal(format!("asked for {wanted} tokens, got {given}")));
            }
            if turn % 2 == 1 {
                self.recorded.fetch_add(given, Ordering::Relaxed);
            }
            wanted = *tokens;
        }
        Ok(())
    }

    /// A new trace of the half that the node records, or of the other.
    fn trace(&self, recorded: bool) -> String {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let half = if recorded { 0 } else { 1_u64 << 63 };
        format!("00-{:016x}{:016x}-{call:016x}-01", 1, half | call)
    }
}
