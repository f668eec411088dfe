use std::sync::Arc;

use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use service::{Deps, Kind};
use telemetry::table::TOKENS;

use super::{Grace, Swept, vacuum};
use crate::commit::Effect;
use crate::lake::Swap;
use crate::sample::{DATE, Hand, entry, offer, token};
use crate::{Lake, Outcome, layout};

const HOUR_MS: i64 = 3_600_000;
const GRACE: Grace = Grace { replaced_ms: HOUR_MS, orphan_ms: 24 * HOUR_MS };

/// A lake in memory, whose store stamps objects by the machine's clock.
async fn lake() -> Lake {
    Lake::open_on(Arc::new(InMemory::new()), &Deps::system()).await.expect("a lake")
}

fn now_ms() -> i64 {
    Deps::system().clock.now_us() / 1_000
}

async fn paths(lake: &Lake) -> Vec<String> {
    let found = super::list(lake, &TOKENS).await.expect("listed");
    found.into_iter().map(|object| object.location.to_string()).collect()
}

/// Puts one file in the place of all there are.
async fn replace_all(lake: &Lake) {
    let old = lake.snapshot("tokens", None).await.expect("readable");
    let name = layout::merged_name("1", 0, &uuid::Uuid::new_v4().simple().to_string());
    let add = lake.write(&TOKENS, DATE, &name, &[token(0), token(1)]).await.expect("written");
    let removes = old.files.iter().map(|file| file.path.clone()).collect();
    let swap = Swap { adds: vec![add], removes, effect: Effect::Rearrange, sweeps: 0, now_us: now_ms() * 1_000 };
    lake.swap(&TOKENS, swap).await.expect("swapped");
}

#[tokio::test]
async fn a_reader_of_an_older_version_keeps_its_files_for_the_grace_and_no_longer() {
    let lake = lake().await;
    for frame in 0..2 {
        offer(&lake, "j", frame).await.expect("committed");
    }
    let held = lake.snapshot("tokens", None).await.expect("readable");
    replace_all(&lake).await;
    let readable = async || {
        let reads =
            held.files.iter().map(|file| async { lake.store().get(&Path::from(file.path.as_str())).await.is_ok() });
        futures::future::join_all(reads).await
    };
    let swept = vacuum(&lake, &TOKENS, GRACE, now_ms()).await.expect("swept");
    assert_eq!((swept.deleted, swept.orphan_bytes), (0, 0));
    assert_eq!(swept.replaced_bytes, held.bytes());
    assert_eq!(readable().await, [true, true]);
    let swept = vacuum(&lake, &TOKENS, GRACE, now_ms() + HOUR_MS + 1_000).await.expect("swept");
    assert_eq!((swept.deleted, swept.deleted_bytes, swept.replaced_bytes), (2, held.bytes(), 0));
    assert_eq!(readable().await, [false, false]);
    let live = lake.snapshot("tokens", None).await.expect("readable");
    assert_eq!(paths(&lake).await, [live.files[0].path.clone()], "what is live stays, whatever its age");
}

#[tokio::test]
async fn what_a_checkpoint_says_of_replaced_files_is_known_to_a_process_that_starts_from_it() {
    let store = Arc::new(InMemory::new());
    let first = Lake::open_on(store.clone(), &Deps::system()).await.expect("a lake");
    for frame in 0..2 {
        offer(&first, "j", frame).await.expect("committed");
    }
    replace_all(&first).await;
    first.checkpoint("tokens").await.expect("a checkpoint");
    let second = Lake::open_on(store, &Deps::system()).await.expect("a lake");
    let swept = vacuum(&second, &TOKENS, GRACE, now_ms()).await.expect("swept");
    assert!(swept.deleted == 0 && swept.replaced_bytes > 0 && swept.orphan_bytes == 0, "{swept:?}");
    let removed = second.shelf("tokens").expect("known").head.log.removed().await.expect("read");
    assert_eq!(removed.len(), 2);
}

#[tokio::test]
async fn an_orphan_goes_once_it_is_old_and_nobody_can_commit_it_any_more() {
    let lake = lake().await;
    offer(&lake, "j", 0).await.expect("committed");
    // Written for frames that the table holds by another file, for frames that may still come, and by a merge that crashed.
    let settled = lake.write(&TOKENS, DATE, "j-0-1-ab.parquet", &[token(0)]).await.expect("written");
    let pending = entry(&lake, "j", 1).await.expect("written");
    let merge = lake.write(&TOKENS, DATE, &layout::merged_name("1", 0, "ab"), &[token(0)]).await.expect("written");
    let strange = Path::from(format!("tokens/date={DATE}/part-0.snappy.parquet"));
    lake.store().put(&strange, "of somebody else".into()).await.expect("written");

    let young = vacuum(&lake, &TOKENS, GRACE, now_ms() + 23 * HOUR_MS).await.expect("swept");
    assert_eq!((young.deleted, paths(&lake).await.len()), (0, 5));
    let old = vacuum(&lake, &TOKENS, GRACE, now_ms() + 25 * HOUR_MS).await.expect("swept");
    assert_eq!((old.deleted, old.deleted_bytes), (2, settled.size + merge.size));
    let left = paths(&lake).await;
    assert!(left.contains(&pending.adds[0].path) && left.contains(&strange.to_string()), "{left:?}");
    // The pending entry is committed after all, and its file is there.
    lake.commit(pending).await.expect("committed");
    let swept = vacuum(&lake, &TOKENS, GRACE, now_ms() + 25 * HOUR_MS).await.expect("swept");
    assert_eq!(swept.deleted, 0);
    assert_eq!(lake.snapshot("tokens", None).await.expect("readable").files.len(), 2);
}

#[tokio::test]
async fn a_merge_that_stalled_until_its_file_was_swept_away_is_refused() {
    let lake = lake().await;
    for frame in 0..2 {
        offer(&lake, "j", frame).await.expect("committed");
    }
    let old = lake.snapshot("tokens", None).await.expect("readable");
    let name = layout::merged_name("1", 0, "slow");
    let add = lake.write(&TOKENS, DATE, &name, &[token(0), token(1)]).await.expect("written");
    let removes: Vec<_> = old.files.iter().map(|file| file.path.clone()).collect();
    let swap = |add| {
        let effect = Effect::Rearrange;
        Swap { adds: vec![add], removes: removes.clone(), effect, sweeps: 0, now_us: now_ms() * 1_000 }
    };
    let swept = vacuum(&lake, &TOKENS, GRACE, now_ms() + 25 * HOUR_MS).await.expect("swept");
    assert_eq!((swept.deleted, swept.deleted_bytes), (1, add.size));
    let late = lake.swap(&TOKENS, swap(add)).await.expect_err("its file is gone");
    assert!(late.kind() == Kind::Conflict && late.message().contains("deleted meanwhile"), "{late}");
    let left = lake.snapshot("tokens", None).await.expect("readable");
    assert_eq!((left.files.len(), left.rows()), (2, Some(2)));
    let again = vacuum(&lake, &TOKENS, GRACE, now_ms() + 25 * HOUR_MS).await.expect("swept");
    assert_eq!(again.deleted, 0);
    assert_eq!(
        lake.snapshot("tokens", None).await.expect("readable").version,
        left.version,
        "no sweep without an orphan"
    );
}

#[tokio::test]
async fn the_grace_begins_when_others_see_the_removal_and_not_when_a_stalled_commit_noted_it() {
    let lake = lake().await;
    for frame in 0..2 {
        offer(&lake, "j", frame).await.expect("committed");
    }
    let old = lake.snapshot("tokens", None).await.expect("readable");
    let add =
        lake.write(&TOKENS, DATE, &layout::merged_name("1", 0, "x"), &[token(0), token(1)]).await.expect("written");
    let removes = old.files.iter().map(|file| file.path.clone()).collect();
    let now_us = (now_ms() - 10 * HOUR_MS) * 1_000;
    let swap = Swap { adds: vec![add], removes, effect: Effect::Rearrange, sweeps: 0, now_us };
    lake.swap(&TOKENS, swap).await.expect("swapped");
    let swept = vacuum(&lake, &TOKENS, GRACE, now_ms() + HOUR_MS / 2).await.expect("swept");
    assert_eq!((swept.deleted, swept.replaced_bytes), (0, old.bytes()));
    let swept = vacuum(&lake, &TOKENS, GRACE, now_ms() + HOUR_MS + 1_000).await.expect("swept");
    assert_eq!(swept.deleted, 2);
}

#[tokio::test]
async fn nothing_is_deleted_where_there_is_no_log() {
    let deps = Deps::new(Arc::new(Hand::default()));
    let lake = Lake::open_on(Arc::new(InMemory::new()), &deps).await.expect("a lake");
    lake.write(&TOKENS, DATE, &layout::merged_name("1", 0, "ab"), &[token(0)]).await.expect("written");
    let swept = vacuum(&lake, &TOKENS, GRACE, i64::MAX).await.expect("swept");
    assert_eq!((swept, paths(&lake).await.len()), (Swept::default(), 1));
}

#[tokio::test]
async fn the_log_keeps_every_version_of_the_grace_period_and_no_older_one() {
    let lake = lake().await;
    for frame in 0..6 {
        offer(&lake, "j", frame).await.expect("committed");
        if frame % 2 == 1 {
            lake.checkpoint("tokens").await.expect("a checkpoint");
        }
    }
    let log = || async {
        let found: Vec<_> = lake.store().list(Some(&layout::log_folder(&TOKENS))).try_collect().await.expect("listed");
        found.into_iter().map(|object| object.location.filename().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    let all = log().await;
    let young = vacuum(&lake, &TOKENS, GRACE, now_ms()).await.expect("swept");
    assert_eq!((young.log_entries, log().await), (0, all), "every version was the newest one within the grace");
    let old = vacuum(&lake, &TOKENS, GRACE, now_ms() + HOUR_MS + 1_000).await.expect("swept");
    assert_eq!(old.log_entries, 7, "entries 0 to 4, checkpoints 1 and 3");
    let newest = "00000000000000000005";
    assert_eq!(
        log().await,
        [format!("{newest}.checkpoint.parquet"), format!("{newest}.json"), "_last_checkpoint".to_owned()]
    );
    // Who starts now sees all; who is behind finds its way; an older version is gone and says so.
    let fresh = Lake::open_on(lake.store(), &Deps::system()).await.expect("a lake");
    assert_eq!(fresh.snapshot("tokens", None).await.expect("readable").rows(), Some(6));
    let gone = fresh.snapshot("tokens", Some(3)).await.expect_err("cleaned up");
    assert!(gone.hint().is_some_and(|hint| hint.contains("cleaned up")), "{gone:?}");
    assert_eq!(fresh.snapshot("tokens", Some(5)).await.expect("readable").rows(), Some(6));
}

#[tokio::test]
async fn the_log_keeps_an_hour_however_soon_replaced_files_go() {
    const MINUTE: Grace = Grace { replaced_ms: 60_000, orphan_ms: 24 * HOUR_MS };
    let lake = lake().await;
    for frame in 0..3 {
        offer(&lake, "j", frame).await.expect("committed");
    }
    lake.checkpoint("tokens").await.expect("a checkpoint");
    replace_all(&lake).await;
    let soon = vacuum(&lake, &TOKENS, MINUTE, now_ms() + HOUR_MS - 60_000).await.expect("swept");
    assert_eq!(
        (soon.deleted, soon.log_entries),
        (3, 0),
        "files are gone, and a process that slept finds every version"
    );
    let later = vacuum(&lake, &TOKENS, MINUTE, now_ms() + HOUR_MS + 1_000).await.expect("swept");
    assert_eq!(later.log_entries, 2, "entries 0 and 1");
}

#[tokio::test]
async fn a_writer_that_slept_while_the_log_was_cleaned_up_is_not_answered_for_a_version_of_long_ago() {
    let store = Arc::new(InMemory::new());
    let clock = Arc::new(Hand::default());
    let sleeper = Lake::open_on(store.clone(), &Deps::new(clock.clone())).await.expect("a lake");
    offer(&sleeper, "old", 0).await.expect("committed");
    let busy = Lake::open_on(store, &Deps::system()).await.expect("a lake");
    for frame in 0..4 {
        offer(&busy, "j", frame).await.expect("committed");
    }
    busy.checkpoint("tokens").await.expect("a checkpoint");
    let swept = vacuum(&busy, &TOKENS, GRACE, now_ms() + HOUR_MS + 1_000).await.expect("swept");
    assert_eq!(swept.log_entries, 4, "entries 0 to 3: version 1 could be written anew");
    // It slept: only the wall clock shows it.
    clock.jump(86_400_000_000);
    let outcome = offer(&sleeper, "old", 1).await.expect("committed");
    assert_eq!(outcome, Outcome::Committed { version: 5 });
    let fresh = Lake::open_on(busy.store(), &Deps::system()).await.expect("a lake");
    assert_eq!(fresh.snapshot("tokens", None).await.expect("readable").rows(), Some(6));
}
