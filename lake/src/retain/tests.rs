use telemetry::table::TOKENS;

use super::{DAY_US as DAY, end_of, retain};
use crate::sample::{DATE, DAY_US, entry, lake, offer};

#[tokio::test]
async fn a_file_goes_when_its_last_row_is_due_and_not_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    for frame in 0..3 {
        offer(&lake, "j", frame).await.expect("committed");
    }
    let due_us = DAY_US + 7 * DAY + 2;
    assert_eq!(retain(&lake, &TOKENS, 7, due_us).await.expect("looked"), 2, "the rows of the first two microseconds");
    let left = lake.snapshot("tokens", None).await.expect("readable");
    assert_eq!((left.files.len(), left.version, left.rows()), (1, 3, Some(1)));
    assert_eq!(retain(&lake, &TOKENS, 7, due_us).await.expect("looked"), 0);
    assert_eq!(retain(&lake, &TOKENS, 7, due_us + 1).await.expect("looked"), 1);
    assert_eq!(lake.snapshot("tokens", None).await.expect("readable").rows(), Some(0));
    let before = lake.snapshot("tokens", Some(2)).await.expect("still there");
    assert_eq!(before.rows(), Some(3), "older versions keep what they had");
    assert_eq!(lake.through(&TOKENS, "j").await.expect("readable"), Some(3), "and the journal its mark");
    let log =
        std::fs::read_to_string(folder.path().join("tokens/_delta_log/00000000000000000003.json")).expect("there");
    assert!(log.contains("\"operation\":\"DELETE\"") && log.matches("\"remove\"").count() == 2, "{log}");
    assert!(log.contains("\"deletionTimestamp\"") && !log.contains("\"dataChange\":false"), "{log}");
}

#[tokio::test]
async fn a_file_that_does_not_say_when_its_rows_are_of_goes_by_its_date() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    let mut silent = entry(&lake, "j", 0).await.expect("written");
    silent.adds[0].stats.clear();
    lake.commit(silent).await.expect("committed");
    let end_us = end_of(DATE).expect("a date");
    assert_eq!(end_us, DAY_US + DAY);
    assert_eq!(retain(&lake, &TOKENS, 7, end_us + 7 * DAY - 1).await.expect("looked"), 0);
    assert_eq!(retain(&lake, &TOKENS, 7, end_us + 7 * DAY).await.expect("looked"), 1);
    assert_eq!(end_of("no date"), None);
}
