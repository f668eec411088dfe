//! Functions that stand alone.

use arrow::array::AsArray;

use super::session::{column, session};

/// Windows start at 1970-01-01 UTC or where they are told to, whichever way the interval is written.
#[tokio::test]
async fn a_time_falls_in_its_bucket() {
    let session = session(1, |_| {});
    for (bucket, expected) in [
        ("time_bucket(INTERVAL '5 minutes', TIMESTAMP '2026-11-29T12:04:59.9')", "2026-11-29T12:00:00"),
        ("time_bucket('5 minutes', TIMESTAMP '2026-11-29T12:05:00')", "2026-11-29T12:05:00"),
        (
            "time_bucket('1 day', TIMESTAMP '2026-11-29T12:05:00', TIMESTAMP '2026-01-01T06:00:00')",
            "2026-11-29T06:00:00",
        ),
        ("time_bucket('1 month', TIMESTAMP '2026-11-29T12:05:00')", "2026-11-01T00:00:00"),
    ] {
        let text = column(&session, &format!("SELECT CAST({bucket} AS VARCHAR)")).await;
        let text = arrow::compute::cast(&text, &arrow::datatypes::DataType::Utf8).expect("text");
        assert_eq!(text.as_string::<i32>().value(0), expected, "{bucket}");
    }
}
