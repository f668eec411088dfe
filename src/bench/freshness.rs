//! Freshness: how long after a collector received a row a reader sees it, with many collectors on one slow store.
//!
//! ```text
//! senders ─OTLP/HTTP─► collectors (each with a journal of its own) ─► store ◄─ reader
//! ```
//!
//! All run in this process, so that the commits of many collectors can be watched on a small machine. What is measured is the way
//! through journals, flushes, leases and commits. Without `--data` the store is memory with a delay before each request.

mod reader;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use lake::Lake;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use serde_json::{Value, json};
use service::Deps;
use service::error::{Error, Result};

use super::ingest::body::{Layout, Sequence, Shape};
use super::ingest::wire::Encoding;
use reader::{Reader, Sent};

/// Spans of one body: two calls.
const BODY_SPANS: usize = 256;
/// Time for the rows sent last to be seen.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for leases to be taken and connections to be made before the load begins.
const SETTLE: Duration = Duration::from_secs(6);

/// Collectors that are started at the same time.
const STARTS_AT_ONCE: usize = 4;

/// Flags of `tokenwatt bench freshness`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    /// The lake: a directory that is new, or s3://bucket/prefix with the endpoint in AWS_ENDPOINT_URL. Default: in memory.
    #[arg(long)]
    data: Option<String>,
    /// Collectors on the store.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
    collectors: u32,
    /// Delay before each request to the store in memory, milliseconds.
    #[arg(long, default_value_t = 40, conflicts_with = "data", value_parser = clap::value_parser!(u64).range(0..=5_000))]
    store_latency_ms: u64,
    /// Tokens a second to each collector.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(127..=100_000))]
    tokens_per_s: u32,
    /// Seconds of load.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Milliseconds that a collector gathers rows before it writes them. Default: as the collector has it.
    #[arg(long, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    flush_after_ms: Option<u64>,
    /// Let every collector commit for itself, as if there were no lease.
    #[arg(long)]
    straight: bool,
    /// Directory for the journals. Default: a new one under the current directory, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// One collector and what is sent to it.
struct Node {
    deps: Deps,
    endpoint: String,
    journal: String,
    number: u64,
}

/// Where the lake is.
enum Store {
    Memory(Arc<dyn ObjectStore>),
    /// As `--data` names it; every collector has connections of its own.
    Place(String),
}

impl Store {
    async fn open(&self, deps: &Deps) -> Result<Lake> {
        match self {
            Store::Memory(store) => Lake::open_on(Arc::clone(store), deps).await,
            Store::Place(place) => Lake::open(place, deps).await,
        }
    }
}

/// Measures once and prints the figures.
///
/// # Errors
/// When a collector does not start, or refuses what it is sent.
pub(crate) async fn run(args: Args) -> Result<()> {
    let place = super::ingest::disk::Place::open(args.dir.as_deref())?;
    let store = match &args.data {
        Some(data) => Store::Place(data.clone()),
        None => Store::Memory(Arc::new(ThrottledStore::new(InMemory::new(), throttle(&args)))),
    };
    // The first makes the tables; each of the others opens all of them.
    let mut nodes = vec![start(&args, &store, place.path(), 0).await?];
    let others = (1..args.collectors).map(|number| start(&args, &store, place.path(), number));
    let others: Vec<Node> = stream::iter(others).buffered(STARTS_AT_ONCE).try_collect().await?;
    nodes.extend(others);
    tokio::time::sleep(SETTLE).await;
    let reader = Reader::start(store.open(&Deps::system()).await?);
    let begun = Instant::now();
    let until = begun + Duration::from_secs(args.seconds);
    let loads = nodes.iter().map(|node| send(node, args.tokens_per_s, until));
    let sent = futures::future::try_join_all(loads).await?;
    let seen = reader.until(&sent, PATIENCE).await?;
    let figures = figures(&args, &nodes, &sent, &seen);
    for node in &nodes {
        node.deps.shutdown.walk(Duration::from_secs(10)).await;
    }
    super::print(args.json, &figures)
}

/// The delay, before each request whatever it asks for.
fn throttle(args: &Args) -> ThrottleConfig {
    let delay = Duration::from_millis(args.store_latency_ms);
    ThrottleConfig {
        wait_get_per_call: delay,
        wait_put_per_call: delay,
        wait_list_per_call: delay,
        wait_list_with_delimiter_per_call: delay,
        wait_delete_per_call: delay,
        ..ThrottleConfig::default()
    }
}

async fn start(args: &Args, store: &Store, place: &Path, number: u32) -> Result<Node> {
    let deps = Deps::system();
    let state = place.join(format!("collector-{number}"));
    let defaults = collector::Config::default();
    let config = collector::Config {
        grpc_addr: ([127, 0, 0, 1], 0).into(),
        http_addr: ([127, 0, 0, 1], 0).into(),
        state: state.clone(),
        flush_after: args.flush_after_ms.map_or(defaults.flush_after, Duration::from_millis),
        // In memory it must be said; a place knows by itself, as in production.
        share_commits: if args.straight { Some(false) } else { args.data.is_none().then_some(true) },
        ..defaults
    };
    let lake = store.open(&deps).await?;
    let built = collector::build(config, lake, deps.clone()).await?;
    let endpoint = format!("http://{}/v1/traces", built.http_addr());
    let id = state.join("journal").join("id");
    let journal = std::fs::read_to_string(&id);
    let journal = journal.map_err(|e| Error::internal(format!("read {}", id.display())).with_source(e))?;
    deps.tasks.spawn("collector", built.run());
    Ok(Node { deps, endpoint, journal: id_of(&journal).to_owned(), number: u64::from(number) })
}

/// A journal's id, from the file that holds it: beside it stands where the journal lies, by which a copy is known.
fn id_of(file: &str) -> &str {
    file.split_whitespace().next().unwrap_or_default()
}

/// Sends bodies evenly until time is up, each again until it is acknowledged.
async fn send(node: &Node, tokens_per_s: u32, until: Instant) -> Result<Sent> {
    let shape = Shape { layout: Layout::ByCall, running: 1, spans: BODY_SPANS, encoding: Encoding::Protobuf };
    let sequence = Sequence::new(&shape, 1, node.number)?;
    let Some(body) = sequence.bodies.first() else { return Err(Error::internal("a sequence without a body")) };
    let every = Duration::from_secs_f64(body.tokens() as f64 / f64::from(tokens_per_s));
    let client = reqwest::Client::new();
    let mut sent = Sent { journal: node.journal.clone(), bodies: Vec::new() };
    let mut ticks = tokio::time::interval(every);
    let (run, mut call) = (node.number, 0);
    while Instant::now() < until {
        ticks.tick().await;
        let end_ns = u64::try_from(node.deps.clock.now_ns()).unwrap_or(0);
        let bytes = body.fresh(run, call, end_ns);
        call += sequence.calls();
        let at = Instant::now();
        post(&client, &node.endpoint, bytes).await?;
        sent.bodies.push((at, body.tokens() as u64));
    }
    Ok(sent)
}

async fn post(client: &reqwest::Client, endpoint: &str, bytes: Vec<u8>) -> Result<()> {
    loop {
        let request = client.post(endpoint).header("content-type", "application/x-protobuf").body(bytes.clone());
        let failed = |e| Error::unavailable(format!("send to {endpoint}")).with_source(e);
        let answer = request.send().await.map_err(failed)?;
        match answer.status().as_u16() {
            200 => return Ok(()),
            429 | 503 => tokio::time::sleep(Duration::from_millis(200)).await,
            status => return Err(Error::invalid(format!("{endpoint} answered {status}"))),
        }
    }
}

/// Whether every collector commits for itself: asked to, or because the tables lie in a directory.
fn is_straight(args: &Args) -> bool {
    args.straight || args.data.as_deref().is_some_and(|data| !data.starts_with("s3://"))
}

fn figures(args: &Args, nodes: &[Node], sent: &[Sent], seen: &reader::Seen) -> Value {
    let total = |name: &str| nodes.iter().map(|node| sum(&node.deps.metrics.render(), name)).sum::<f64>();
    let tokens: u64 = sent.iter().flat_map(|sent| &sent.bodies).map(|(_, tokens)| tokens).sum();
    json!({
        "bench": "freshness",
        "profile": if cfg!(debug_assertions) { "dev" } else { "release" },
        "store": args.data.as_deref().unwrap_or("in memory, slowed"),
        "collectors": args.collectors,
        "store_latency_ms": args.data.is_none().then_some(args.store_latency_ms),
        "flush_after_ms": args.flush_after_ms.unwrap_or(collector::Config::default().flush_after.as_millis() as u64),
        "seconds": args.seconds,
        "straight": is_straight(args),
        "tokens": tokens,
        "freshness_p50_s": seen.percentile(0.50),
        "freshness_p95_s": seen.percentile(0.95),
        "freshness_max_s": seen.percentile(1.0),
        "unseen_tokens": tokens.saturating_sub(seen.rows),
        "doubled_tokens": seen.rows.saturating_sub(tokens),
        "versions": total("tokenwatt_lake_commits_total"),
        "entries": total("tokenwatt_lake_entries_total"),
        "failed_commits": total("tokenwatt_lake_commit_failures_total"),
        "lost_races": total("tokenwatt_lake_lost_races_total"),
        "entries_sent": total("tokenwatt_collector_entries_sent_total"),
        "entries_unsent": total("tokenwatt_collector_entries_unsent_total"),
    })
}

/// Sum of the series of one name.
fn sum(text: &str, name: &str) -> f64 {
    let lines = text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])));
    // Not `sum`: of nothing it is -0.
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).fold(0.0, |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::{id_of, sum};

    /// Names of files begin with the id alone: with more, nothing that a collector wrote would ever be seen.
    #[test]
    fn an_id_ends_where_the_place_of_its_journal_begins() {
        assert_eq!(
            id_of("9aff7069376d44858c847a991777aa37 98e584-18ecb060246fa416\n"),
            "9aff7069376d44858c847a991777aa37"
        );
        assert_eq!(id_of("9aff7069376d44858c847a991777aa37\n"), "9aff7069376d44858c847a991777aa37");
    }

    #[test]
    fn only_series_of_that_name_are_added_up() {
        let text = "# HELP a_total x\na_total 1\na_total{table=\"tokens\"} 2.5\na_total_more 7\nb_total 9\n";
        assert!((sum(text, "a_total") - 3.5).abs() < 1e-9);
    }
}
