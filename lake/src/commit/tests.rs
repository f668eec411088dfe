use std::collections::BTreeSet;
use telemetry::table::TOKENS;

use super::{Entry, Outcome};
use crate::sample::{DATE, lake, offer, token};
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
