//! Functions that stand alone.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, TimestampMicrosecondArray};

use super::session::{column, session, table};

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

/// Times in UTC are cut as those of an offset of nothing are, which the calendar is asked for.
#[tokio::test]
async fn a_time_in_utc_is_cut_as_the_calendar_says() {
    let session = session(1, |_| {});
    let times = (-60_000..60_000_i64).map(|at| (at % 7 != 0).then_some(at * 86_399_123_457));
    let zoned = |zone: &str| -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from_iter(times.clone()).with_timezone(zone.to_owned()))
    };
    table(&session, 1, vec![("utc", zoned("UTC")), ("offset_utc", zoned("+00:00"))]);
    for part in ["microsecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"] {
        let sql = |column: &str| format!("SELECT CAST(date_trunc('{part}', {column}) AS BIGINT) FROM t");
        let (ours, calendar) = (column(&session, &sql("utc")).await, column(&session, &sql("offset_utc")).await);
        assert_eq!(&ours, &calendar, "{part}");
        let kind = column(&session, &format!("SELECT date_trunc('{part}', utc) FROM t LIMIT 1")).await;
        assert_eq!(kind.data_type(), zoned("UTC").data_type(), "{part}");
    }
}
