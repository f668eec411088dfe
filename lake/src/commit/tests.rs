use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use service::Deps;
use telemetry::table::TOKENS;

use super::{Committer, Entry, LONG_LOG, Outcome};
use crate::sample::{DATE, Hand, entry, lake, offer, token};
use crate::{Lake, layout};

/// The frames of a journal that are in the table, by the names of the files, with repeats.
async fn frames(lake: &Lake, journal: &str) -> Vec<u64> {
    let snapshot = lake.snapshot("tokens", None).await.expect("readable");
    let prefix = format!("tokens/date={DATE}/{journal}-");
    let rest = snapshot.files.iter().filter_map(|file| file.path.strip_prefix(&prefix));
    rest.map(|rest| rest.split('-').next().expect("a frame").parse().expect("a number")).collect()
}

#[tokio::test]
async fn what_is_committed_is_seen_at_once_and_by_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let (writer, reader) = (lake(&folder).await, lake(&folder).await);
    assert_eq!(reader.snapshot("tokens", None).await.expect("readable").version, -1);
    assert_eq!(offer(&writer, "j", 0).await.expect("answered"), Outcome::Committed { version: 0 });
    assert_eq!(frames(&writer, "j").await, [0]);
    assert_eq!(reader.through(&TOKENS, "j").await.expect("readable"), Some(1));
    assert_eq!(frames(&reader, "j").await, [0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_commit_the_same_frames_at_once_never_double_and_never_lose_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let lakes = [lake(&folder).await, lake(&folder).await, lake(&folder).await];
    let journals = ["a", "b", "c"];
    // Every process offers every frame of every journal, as after fail-overs and lost answers.
    let mut offers = tokio::task::JoinSet::new();
    for lake in &lakes {
        for journal in journals {
            let lake = lake.clone();
            offers.spawn(async move {
                let mut frame = 0;
                while frame < 8 {
                    frame = match offer(&lake, journal, frame).await.expect("answered") {
                        Outcome::Committed { .. } => frame + 1,
                        Outcome::Through(frame) => frame,
                    };
                }
            });
        }
    }
    offers.join_all().await;
    let fresh = lake(&folder).await;
    for journal in journals {
        assert_eq!(frames(&fresh, journal).await, (0..8).collect::<Vec<_>>(), "{journal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn entries_that_wait_together_share_versions() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    let names: Vec<_> = (0..40).map(|n| format!("j{n}")).collect();
    let mut adds = Vec::new();
    for name in &names {
        adds.push(lake.write(&TOKENS, DATE, &layout::file_name(name, 0, 1, "x"), &[token(1)]).await.expect("written"));
    }
    let commits = names.iter().zip(adds).map(|(journal, add)| {
        lake.commit(Entry { journal: journal.clone(), table: "tokens", from: 0, to: 1, adds: vec![add] })
    });
    let outcomes = futures::future::join_all(commits).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(Outcome::Committed { .. }))));
    let snapshot = lake.snapshot("tokens", None).await.expect("readable");
    assert_eq!(snapshot.files.len(), 40);
    assert!(snapshot.version < 3, "40 entries took {} versions", snapshot.version + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_a_pace_the_first_does_not_wait_and_those_that_come_meanwhile_share_one_version() {
    let clock = Arc::new(Hand::default());
    let lake = Lake::open_on(Arc::new(InMemory::new()), &Deps::new(clock)).await.expect("a lake");
    let pace = Duration::from_millis(20);
    let mut entries = Vec::new();
    for n in 0..41 {
        entries.push(entry(&lake, &format!("j{n}"), 0).await.expect("written"));
    }
    let first = lake.commit_at_pace(entries.remove(0), pace).await.expect("committed");
    assert_eq!(first, Outcome::Committed { version: 0 });
    let commits = entries.into_iter().map(|entry| lake.commit_at_pace(entry, pace));
    let outcomes = futures::future::join_all(commits).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(Outcome::Committed { version: 1 }))), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn committers_that_both_think_the_lease_is_theirs_lose_and_double_nothing() {
    let store = Arc::new(InMemory::new());
    let lakes = [
        Lake::open_on(store.clone(), &Deps::system()).await.expect("a lake"),
        Lake::open_on(store.clone(), &Deps::system()).await.expect("a lake"),
    ];
    let mut collectors = tokio::task::JoinSet::new();
    for (journal, turn) in ["a", "b", "c", "d"].into_iter().zip([0, 1, 0, 1]) {
        let lakes = lakes.clone();
        collectors.spawn(async move {
            let mut frame = 0;
            while frame < 10 {
                // Each entry goes to one of them and, as after a lost answer, to the other one as well.
                let entry = entry(&lakes[0], journal, frame).await.expect("written");
                let both = [turn, 1 - turn].map(|to| lakes[to].commit_at_pace(entry.clone(), Duration::from_millis(1)));
                let outcomes = futures::future::join_all(both).await;
                let applied = outcomes.iter().filter(|it| matches!(it, Ok(Outcome::Committed { .. }))).count();
                assert_eq!(applied, 1, "{outcomes:?}");
                frame += 1;
            }
        });
    }
    while let Some(done) = collectors.join_next().await {
        done.expect("no panic");
    }
    let fresh = Lake::open_on(store, &Deps::system()).await.expect("a lake");
    assert_eq!(fresh.snapshot("tokens", None).await.expect("readable").rows(), Some(40));
    for journal in ["a", "b", "c", "d"] {
        assert_eq!(frames(&fresh, journal).await, (0..10).collect::<Vec<_>>(), "{journal}");
    }
}

#[tokio::test]
async fn a_log_that_nobody_folds_is_noticed() {
    let deps = Deps::system();
    let lake = Lake::open_on(Arc::new(InMemory::new()), &deps).await.expect("a lake");
    let committer = Committer::new(Arc::clone(&lake.shelf("tokens").expect("known").head), &deps);
    let noticed = |entries: i64| {
        deps.metrics.render().contains(&format!("tokenwatt_lake_unfolded_entries{{table=\"tokens\"}} {entries}\n"))
    };
    offer(&lake, "j", 0).await.expect("committed");
    committer.watch_log(LONG_LOG - 1).await;
    assert!(!deps.metrics.render().contains("unfolded"), "not every version is worth a look");
    committer.watch_log(LONG_LOG).await;
    assert!(noticed(LONG_LOG), "{}", deps.metrics.render());
    for frame in 1..4 {
        offer(&lake, "j", frame).await.expect("committed");
    }
    lake.checkpoint("tokens").await.expect("a checkpoint");
    committer.watch_log(LONG_LOG).await;
    assert!(noticed(LONG_LOG - 3), "{}", deps.metrics.render());
}

#[tokio::test]
async fn a_commit_that_is_dropped_half_way_can_be_sent_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    for frame in 0..20 {
        let add = lake
            .write(&TOKENS, DATE, &layout::file_name("j", frame, frame + 1, "x"), &[token(1)])
            .await
            .expect("written");
        let entry = Entry { journal: "j".to_owned(), table: "tokens", from: frame, to: frame + 1, adds: vec![add] };
        {
            let mut dropped = Box::pin(lake.commit(entry.clone()));
            for _ in 0..frame {
                if futures::poll!(&mut dropped).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        let outcome = lake.commit(entry).await.expect("answered");
        assert!(matches!(outcome, Outcome::Committed { .. }) || outcome == Outcome::Through(frame + 1), "{outcome:?}");
    }
    assert_eq!(frames(&lake, "j").await, (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_crash_between_write_and_commit_leaves_a_file_that_nobody_sees() {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let lake = lake(&folder).await;
        offer(&lake, "j", 0).await.expect("answered");
        lake.write(&TOKENS, DATE, "j-1-2-lost.parquet", &[token(1)]).await.expect("written");
    }
    let lake = lake(&folder).await;
    assert_eq!(frames(&lake, "j").await, [0]);
    assert_eq!(lake.through(&TOKENS, "j").await.expect("readable"), Some(1), "the replay starts after frame 1");
    offer(&lake, "j", 1).await.expect("answered");
    assert_eq!(frames(&lake, "j").await, [0, 1]);
    let files: BTreeSet<_> = std::fs::read_dir(folder.path().join(format!("tokens/date={DATE}")))
        .expect("a folder")
        .map(|file| file.expect("a file").file_name())
        .collect();
    assert_eq!(files.len(), 3, "the orphan is still there, for maintenance to find");
}

/// A writer notices that a table's log was taken away under it, and says so instead of writing on where nobody can read; so does a
/// process that finds what it wrote before it noticed. Put back, the log goes on.
#[tokio::test]
async fn a_log_that_is_taken_away_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(Hand::default());
    let deps = Deps { clock: clock.clone(), ..Deps::system() };
    let place = folder.path().to_str().expect("utf-8");
    let writer = Lake::open(place, &deps).await.expect("a lake");
    for frame in 0..2 {
        offer(&writer, "j", frame).await.expect("committed");
    }
    clock.pass(Duration::from_secs(11));
    offer(&writer, "j", 2).await.expect("it is there");
    let (table, aside) = (folder.path().join("tokens"), folder.path().join("aside"));
    std::fs::rename(&table, &aside).expect("moved away");
    assert_eq!(offer(&writer, "j", 3).await.expect("no look is due"), Outcome::Committed { version: 3 });
    clock.pass(Duration::from_secs(11));
    for _ in 0..2 {
        let error = offer(&writer, "j", 4).await.expect_err("noticed");
        assert!(error.kind().retry_after().is_some() && error.to_string().contains("removed"), "{error:?}");
        assert!(error.hint().is_some_and(|hint| hint.contains("tokens")), "{error:?}");
    }
    let error = Lake::open(place, &deps).await.err().expect("no table");
    assert!(
        error.hint().is_some_and(|hint| hint.contains("tokens/_delta_log") && hint.contains("begins anew")),
        "{error:?}"
    );
    for entry in std::fs::read_dir(aside.join("_delta_log")).expect("a folder") {
        let path = entry.expect("a file").path();
        std::fs::copy(&path, table.join("_delta_log").join(path.file_name().expect("a name"))).expect("put back");
    }
    assert_eq!(offer(&writer, "j", 4).await.expect("committed"), Outcome::Committed { version: 4 });
}

/// A lake keeps its id wherever it is moved and whoever asks; another has another.
#[tokio::test]
async fn a_lake_is_known_by_its_id() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name).to_str().expect("utf-8").to_owned();
    let open = async |name: &str| Lake::open(&place(name), &Deps::system()).await.expect("a lake");
    let (x, again, y) = (open("x").await, open("x").await, open("y").await);
    let (first, second) = futures::join!(x.id(), again.id());
    let id = first.expect("an id");
    assert_eq!(second.expect("an id"), id);
    assert_ne!(y.id().await.expect("an id"), id);
    std::fs::rename(place("x"), place("z")).expect("moved");
    assert_eq!(open("z").await.id().await.expect("an id"), id);
    assert_ne!(open("x").await.id().await.expect("an id"), id, "another lake in its place");
}
