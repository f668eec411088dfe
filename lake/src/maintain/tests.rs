use std::os::unix::fs::MetadataExt;

use crate::sample::{lake, offer};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_look_after_one_log_write_one_checkpoint_per_distance() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (lake(&folder).await, lake(&folder).await);
    for frame in 0..12 {
        offer(&first, "j", frame).await.expect("committed");
    }
    second.snapshot("tokens", Some(11)).await.expect("readable");
    tokio::join!(first.checkpoint_where_due(10), second.checkpoint_where_due(10));
    assert_eq!(checkpoints(&folder), [11]);

    for frame in 12..20 {
        offer(&second, "j", frame).await.expect("committed");
    }
    let third = lake(&folder).await;
    for lake in [&first, &second, &third] {
        lake.checkpoint_where_due(10).await;
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

fn checkpoints(folder: &tempfile::TempDir) -> Vec<i64> {
    let files = std::fs::read_dir(folder.path().join("tokens/_delta_log")).expect("a log");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("utf-8"));
    let mut versions: Vec<_> =
        names.filter_map(|name| name.strip_suffix(".checkpoint.parquet")?.parse().ok()).collect();
    versions.sort_unstable();
    versions
}
