use std::collections::BTreeSet;

use service::Deps;
use telemetry::table::PRICES;
use telemetry::{grid, power, price};

use super::{TAG, publish, publish_rows, rows};
use crate::Lake;

async fn lake(folder: &tempfile::TempDir) -> Lake {
    Lake::open(folder.path().to_str().expect("utf-8"), &Deps::system()).await.expect("a lake")
}

#[tokio::test]
async fn every_bundled_row_is_published_once_however_often_it_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (lake(&folder).await, lake(&folder).await);
    let (a, b) = tokio::join!(publish(&first), publish(&second));
    a.and(b).expect("published");
    publish(&first).await.expect("nothing to do");
    let counts =
        [("prices", price::bundled().len()), ("power_models", power::bundled().len()), ("grid", grid::bundled().len())];
    for (table, count) in counts {
        let snapshot = second.snapshot(table, None).await.expect("readable");
        assert_eq!((snapshot.version, snapshot.rows()), (0, Some(count as u64)), "{table}");
    }
}

#[tokio::test]
async fn another_set_replaces_the_old_one_and_may_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    let all = rows::prices().expect("bundled");
    let few = all.slice(0, 3);
    let mut paths = BTreeSet::new();
    for (rows, count) in [(&all, all.num_rows()), (&few, 3), (&all, all.num_rows())] {
        publish_rows(&lake, &PRICES, rows).await.expect("published");
        let snapshot = lake.snapshot("prices", None).await.expect("readable");
        assert_eq!(snapshot.rows(), Some(count as u64));
        assert!(snapshot.files.iter().all(|file| file.tags.contains_key(TAG)));
        assert!(snapshot.files.iter().all(|file| paths.insert(file.path.clone())), "no file is used twice");
    }
}
