use std::os::unix::fs::MetadataExt;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use service::Deps;
use service::clock::Clock;
use telemetry::table::TOKENS;

use super::{Habits, Maintenance, Settings, checkpoint, due};
use crate::lease::Lease;
use crate::sample::{Hand, lake, offer};
use crate::{Keeper, Lake};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_look_after_one_log_write_one_checkpoint_per_distance() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (lake(&folder).await, lake(&folder).await);
    for frame in 0..12 {
        offer(&first, "j", frame).await.expect("committed");
    }
    second.snapshot("tokens", Some(11)).await.expect("readable");
    let (a, b) = tokio::join!(fold_if_due(&first), fold_if_due(&second));
    a.and(b).expect("a checkpoint");
    assert_eq!(checkpoints(&folder), [11]);

    for frame in 12..20 {
        offer(&second, "j", frame).await.expect("committed");
    }
    let third = lake(&folder).await;
    for lake in [&first, &second, &third] {
        fold_if_due(lake).await.expect("nothing to do");
    }
    assert_eq!(checkpoints(&folder), [11], "none is due yet");
    assert_eq!(third.snapshot("tokens", None).await.expect("readable").rows(), Some(20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_that_exists_is_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    offer(&lake, "j", 0).await.expect("committed");
    lake.checkpoint("tokens").await.expect("a checkpoint");
    let path = folder.path().join("tokens/_delta_log/00000000000000000000.checkpoint.parquet");
    let inode = || std::fs::metadata(&path).expect("there").ino();
    let before = inode();
    lake.checkpoint("tokens").await.expect("nothing to do");
    assert_eq!(inode(), before);
}

async fn fold_if_due(lake: &Lake) -> service::Result<()> {
    match due(lake, &TOKENS, 10).await? {
        Some(version) => checkpoint(&lake.shelf("tokens")?.head, version).await,
        None => Ok(()),
    }
}

fn checkpoints(folder: &tempfile::TempDir) -> Vec<i64> {
    let files = std::fs::read_dir(folder.path().join("tokens/_delta_log")).expect("a log");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("utf-8"));
    let mut versions: Vec<_> =
        names.filter_map(|name| name.strip_suffix(".checkpoint.parquet")?.parse().ok()).collect();
    versions.sort_unstable();
    versions
}

/// A process that offers itself for maintenance, on a clock set by hand.
struct Process {
    lake: Lake,
    lease: Lease,
    keeper: Keeper,
    maintenance: Maintenance,
    clock: Arc<Hand>,
}

async fn process(store: &Arc<InMemory>, settings: Settings) -> Process {
    let clock = Arc::new(Hand::default());
    let deps = Deps::new(clock.clone());
    let lake = Lake::open_on(store.clone(), &deps).await.expect("a lake");
    let lease = Lease::new(lake.store(), "maintenance", None, true, clock.clone());
    let keeper = Keeper::new(clock.clone());
    let maintenance = Maintenance::new(settings, keeper.clone(), &deps);
    Process { lake, lease, keeper, maintenance, clock }
}

#[tokio::test]
async fn only_the_holder_of_the_lease_works_and_the_next_one_goes_on_where_it_stopped() {
    let store = Arc::new(InMemory::new());
    let mut first = process(&store, Settings::default()).await;
    let mut second = process(&store, Settings::default()).await;
    for frame in 0..4 {
        offer(&first.lake, "j", frame).await.expect("committed");
    }
    for _ in 0..2 {
        first.keeper.tend(&mut first.lease).await.expect("taken");
    }
    second.keeper.tend(&mut second.lease).await.expect("seen");
    for process in [&first, &second] {
        process.clock.pass(Duration::from_secs(11));
        process.clock.jump(130_000_000);
    }
    second.maintenance.round(&second.lake).await;
    assert_eq!(first.lake.snapshot("tokens", Some(3)).await.expect("readable").files.len(), 4, "it has no lease");
    first.maintenance.round(&first.lake).await;
    assert_eq!(first.lake.snapshot("tokens", Some(4)).await.expect("readable").files.len(), 1, "merged");
    // The first is gone. Its clock stands still; the second's goes on.
    second.keeper.tend(&mut second.lease).await.expect("seen");
    second.clock.pass(Duration::from_secs(16));
    for _ in 0..2 {
        second.keeper.tend(&mut second.lease).await.expect("taken");
    }
    for frame in 4..6 {
        offer(&second.lake, "j", frame).await.expect("committed");
    }
    second.clock.jump(15 * 60_000_000);
    second.maintenance.round(&second.lake).await;
    let snapshot = second.lake.snapshot("tokens", Some(7)).await.expect("readable");
    assert_eq!((snapshot.files.len(), snapshot.rows()), (1, Some(6)));
}

#[tokio::test]
async fn files_age_by_the_stores_clock_whatever_ours_shows() {
    let store = Arc::new(InMemory::new());
    let mut process = process(&store, Settings::default()).await;
    assert_eq!(process.keeper.store_us(), None, "nobody knows what time it is yet");
    for _ in 0..2 {
        process.keeper.tend(&mut process.lease).await.expect("held");
    }
    let store_us = process.keeper.store_us().expect("known from the second heartbeat on");
    for jump_us in [100 * 365 * 86_400_000_000, -200 * 365 * 86_400_000_000] {
        process.clock.jump(jump_us);
        assert_eq!(process.keeper.store_us(), Some(store_us));
    }
    process.clock.pass(Duration::from_secs(5));
    assert_eq!(process.keeper.store_us(), Some(store_us + 5_000_000));
}

/// The Delta library forgets removals by the machine's clock: one that is ahead would have files deleted that readers still hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_whose_clock_is_ahead_makes_no_checkpoint() {
    let store = Arc::new(InMemory::new());
    let habits = Habits { commits_per_checkpoint: 2, ..Habits::default() };
    let process = &mut process(&store, Settings { habits, ..Settings::default() }).await;
    for frame in 0..3 {
        offer(&process.lake, "j", frame).await.expect("committed");
    }
    process.maintenance.fold(&process.lake, &TOKENS).await.expect("nothing happens while the store's time is unknown");
    for _ in 0..2 {
        process.keeper.tend(&mut process.lease).await.expect("held");
    }
    let log = Arc::clone(&process.lake.shelf("tokens").expect("a table").head.log);
    assert_eq!(log.newest_checkpoint().await.expect("looked"), None);
    let store_us = process.keeper.store_us().expect("known");
    process.clock.jump(store_us - process.clock.now_us() + 25 * 3_600_000_000);
    let error = process.maintenance.fold(&process.lake, &TOKENS).await.expect_err("a day ahead");
    assert_eq!(error.kind(), service::Kind::Conflict);
    assert!(error.to_string().contains("ahead") && error.hint().is_some(), "{error}");
    assert_eq!(log.newest_checkpoint().await.expect("looked"), None);
    process.clock.jump(-25 * 3_600_000_000);
    process.maintenance.fold(&process.lake, &TOKENS).await.expect("a checkpoint");
    assert_eq!(log.newest_checkpoint().await.expect("looked"), Some(2));
    // Nor does anybody while the clock by which files age is doubted.
    for frame in 3..6 {
        offer(&process.lake, "j", frame).await.expect("committed");
    }
    process.keeper.leap(2_000 * 365 * 86_400_000_000);
    process.maintenance.fold(&process.lake, &TOKENS).await.expect("put off");
    assert_eq!(log.newest_checkpoint().await.expect("looked"), Some(2));
}

#[tokio::test]
async fn a_lake_whose_clock_has_leapt_deletes_nothing_for_now() {
    let store = Arc::new(InMemory::new());
    // Whatever day it is, the rows are of this millennium.
    let retention_days = BTreeMap::from([("tokens".to_owned(), 365_000)]);
    let mut process = process(&store, Settings { retention_days, ..Settings::default() }).await;
    offer(&process.lake, "j", 0).await.expect("committed");
    for _ in 0..2 {
        process.keeper.tend(&mut process.lease).await.expect("held");
    }
    assert!(process.maintenance.sweep_all(&process.lake).await, "the first time is believed");
    // A machine whose clock its directory shares, set to another century while it is held.
    process.keeper.leap(2_000 * 365 * 86_400_000_000);
    assert!(process.maintenance.sweep_all(&process.lake).await);
    assert_eq!(process.lake.snapshot("tokens", None).await.expect("readable").files.len(), 1);
    let metrics = process.maintenance.deps.metrics.render();
    assert!(metrics.contains("tokenwatt_lake_clock_doubted 1"), "{metrics}");
}

#[test]
fn settings_that_would_delete_what_readers_hold_are_refused() {
    let faults = |settings: Settings| {
        let mut faults = Vec::new();
        settings.validate(&mut faults);
        faults.len()
    };
    assert_eq!(faults(Settings::default()), 0);
    let days = BTreeMap::from([("moods".to_owned(), 3), ("tokens".to_owned(), 0)]);
    let wrong = Settings {
        keep_replaced: Duration::from_secs(1),
        keep_orphans: Duration::ZERO,
        retention_days: days,
        ..Settings::default()
    };
    assert_eq!(faults(wrong), 4);
    let long = Settings { keep_replaced: Duration::from_secs(25 * 3_600), ..Settings::default() };
    assert_eq!(faults(long), 1, "the log does not remember for so long");
}
