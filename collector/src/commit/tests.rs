use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use lake::{Entry, Keeper, Lake, Outcome};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use service::clock::Clock;
use service::listen::{self, Limits};
use service::tls::{self, Acceptor};
use service::{Deps, Kind};
use telemetry::table::TOKENS;
use tokio::net::TcpListener;

use super::peer::{Peer, network};
use super::{Commits, Fleet};
use crate::batch::rows::{Rows, position};
use crate::receive::commit::{Desk, router};

const DATE: &str = "2026-11-29";
const TOKEN: &str = "a token of the fleet";
const PACE: Duration = Duration::from_millis(1);

/// A clock that is set by hand, in seconds.
#[derive(Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now_ns(&self) -> i64 {
        1_795_910_400_000_000_000
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

/// A collector as far as commits go.
struct Process {
    lake: Lake,
    deps: Deps,
    clock: Arc<Hand>,
    commits: Arc<Commits>,
    keeper: Keeper,
}

async fn process(store: &Arc<dyn ObjectStore>, address: Option<String>, token: &str) -> Process {
    process_that_trusts(store, address, token, None).await
}

async fn process_that_trusts(
    store: &Arc<dyn ObjectStore>,
    address: Option<String>,
    token: &str,
    ca: Option<PathBuf>,
) -> Process {
    let clock = Arc::new(Hand::default());
    let deps = Deps::new(clock.clone());
    let lake = Lake::open_on(Arc::clone(store), &deps).await.unwrap();
    let wanted = address.is_some();
    let keeper = lake.keep_lease("committer", address, wanted, &deps);
    let token = Some(token.to_owned());
    let fleet = Fleet { every: PACE, token, dial: network(ca) };
    let commits = Arc::new(Commits::shared(lake.clone(), keeper.clone(), fleet, &deps));
    Process { lake, deps, clock, commits, keeper }
}

/// The holder of the lease, serving.
async fn holder(store: &Arc<dyn ObjectStore>) -> Process {
    holder_behind(store, Acceptor::default()).await
}

async fn holder_behind(store: &Arc<dyn ObjectStore>, acceptor: Acceptor) -> Process {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let process = process(store, Some(format!("{}://localhost:{port}", acceptor.scheme())), TOKEN).await;
    while !process.keeper.is_mine() {
        tokio::task::yield_now().await;
    }
    let routes: Router =
        router(Desk { commits: process.commits.clone(), token: Some(service::secret::Secret::new(TOKEN)) });
    let stop = process.deps.shutdown.token(service::shutdown::Stage::Ingest);
    tokio::spawn(async move { listen::serve_http(listener, &acceptor, Limits::default(), routes, stop).await });
    process
}

/// A collector that sees who holds the lease.
async fn member(store: &Arc<dyn ObjectStore>, token: &str) -> Process {
    member_that_trusts(store, token, None).await
}

async fn member_that_trusts(store: &Arc<dyn ObjectStore>, token: &str, ca: Option<PathBuf>) -> Process {
    let process = process_that_trusts(store, None, token, ca).await;
    while process.keeper.standing() == lake::Standing::Open {
        tokio::task::yield_now().await;
    }
    process
}

async fn entry(lake: &Lake, journal: &str, from: u64) -> Entry {
    let mut rows = Rows::new(&TOKENS);
    rows.time(position(&TOKENS, "time").unwrap(), 1_795_910_400_000_000);
    rows.end();
    let name = format!("{journal}-{from}-{}-0a.parquet", from + 1);
    let add = lake.write(&TOKENS, DATE, &name, &[rows.finish().unwrap()]).await.unwrap();
    Entry { journal: journal.to_owned(), table: "tokens", from, to: from + 1, adds: vec![add] }
}

fn peer(token: &str) -> Peer {
    Peer::new(network(None), Some(token.to_owned()), service::clock::system())
}

fn count(process: &Process, name: &str) -> bool {
    process.deps.metrics.render().contains(&format!("tokenwatt_collector_{name} 1"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_all_collectors_are_committed_by_the_one_that_holds_the_lease() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let holder = holder(&store).await;
    let (a, b) = (member(&store, TOKEN).await, member(&store, TOKEN).await);
    for from in 0..3 {
        let entries = (entry(&a.lake, "a", from).await, entry(&b.lake, "b", from).await);
        let own = entry(&holder.lake, "h", from).await;
        let (x, y, z) =
            tokio::join!(a.commits.commit(entries.0), b.commits.commit(entries.1), holder.commits.commit(own));
        for outcome in [x, y, z] {
            assert!(matches!(outcome.unwrap(), Outcome::Committed { .. }));
        }
    }
    let again = entry(&a.lake, "a", 1).await;
    assert_eq!(a.commits.commit(again).await.unwrap(), Outcome::Through(3), "the fence is told as it is");
    let snapshot = holder.lake.snapshot("tokens", None).await.unwrap();
    assert_eq!(snapshot.rows(), Some(9));
    assert!(a.deps.metrics.render().contains("tokenwatt_collector_entries_sent_total 4"));
    assert!(!a.deps.metrics.render().contains("tokenwatt_lake_commits_total"), "members write no version");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_tls_too_for_those_who_trust_its_authority() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (file("cert.pem", made.cert.pem()), file("key.pem", made.signing_key.serialize_pem()));
    let files = tls::Config { cert: Some(cert.clone()), key: Some(key), ..tls::Config::default() };
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let _holder = holder_behind(&store, Acceptor::load(&files).unwrap()).await;
    let (trusting, wary) = (member_that_trusts(&store, TOKEN, Some(cert)).await, member(&store, TOKEN).await);
    for (process, journal, way) in [(&trusting, "a", "entries_sent_total"), (&wary, "b", "entries_unsent_total")] {
        let entry = entry(&process.lake, journal, 0).await;
        assert!(matches!(process.commits.commit(entry).await.unwrap(), Outcome::Committed { .. }));
        assert!(count(process, way), "{journal}");
    }
    let fresh = Lake::open_on(store, &Deps::system()).await.unwrap();
    assert_eq!(fresh.snapshot("tokens", None).await.unwrap().rows(), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gets_no_answer_commits_by_itself_and_asks_again_later() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    // It holds the lease, and nobody listens where it says.
    let gone = process(&store, Some("http://127.0.0.1:9".to_owned()), TOKEN).await;
    while !gone.keeper.is_mine() {
        tokio::task::yield_now().await;
    }
    let member = member(&store, TOKEN).await;
    for from in 0..3 {
        let entry = entry(&member.lake, "j", from).await;
        assert!(matches!(member.commits.commit(entry).await.unwrap(), Outcome::Committed { .. }));
    }
    assert!(count(&member, "entries_unsent_total"), "it was asked once, not each time");
    assert_eq!(member.lake.snapshot("tokens", None).await.unwrap().rows(), Some(3));
    member.clock.0.store(super::STRAIGHT_FOR.as_secs(), Ordering::SeqCst);
    assert!(*member.commits.shared.as_ref().unwrap().straight_until.lock() <= member.clock.monotonic());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_was_committed_and_not_answered_is_not_doubled_by_going_straight() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let (holder, member) = (holder(&store).await, member(&store, TOKEN).await);
    let entry = entry(&member.lake, "j", 0).await;
    // The holder applies it; the answer is lost; the member falls back.
    assert!(matches!(holder.commits.commit_for(entry.clone()).await.unwrap(), Outcome::Committed { .. }));
    assert_eq!(member.lake.commit(entry).await.unwrap(), Outcome::Through(1));
    assert_eq!(member.lake.snapshot("tokens", None).await.unwrap().rows(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_and_a_file_of_another_journal_are_refused() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let holder = holder(&store).await;
    let lake::Standing::Other { address: Some(address) } = member(&store, TOKEN).await.keeper.standing() else {
        panic!("the holder says where it is");
    };
    let good = entry(&holder.lake, "j", 0).await;
    let stranger = peer("another token of somebody").commit(&address, &good).await;
    assert!(stranger.unwrap_err().message().contains("not the fleet's commit token"));
    let mut foreign = good.clone();
    foreign.journal = "k".to_owned();
    let refused = peer(TOKEN).commit(&address, &foreign).await.unwrap_err();
    assert!(refused.message().contains("is not of k-0-1-"), "{refused}");
    assert_eq!(holder.lake.snapshot("tokens", None).await.unwrap().version, -1);
    peer(TOKEN).commit(&address, &good).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_does_not_hold_the_lease_commits_for_nobody() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let (_holder, member) = (holder(&store).await, member(&store, TOKEN).await);
    let entry = entry(&member.lake, "j", 0).await;
    let refused = member.commits.commit_for(entry.clone()).await.unwrap_err();
    assert!(matches!(refused.kind(), Kind::Unavailable { .. }), "{refused}");
    let straight = Commits::straight(member.lake.clone(), member.clock.clone());
    assert!(straight.commit_for(entry).await.is_err());
}
