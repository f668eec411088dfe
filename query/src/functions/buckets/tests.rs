//! The functions in queries.

use arrow::{
    array::{Array, AsArray},
    datatypes::Float64Type,
};
use datafusion::prelude::SessionContext;

use crate::functions::session::{column, refusal, session};

async fn interval(session: &SessionContext, sql: &str) -> Option<(Option<f64>, Option<f64>)> {
    let column = column(session, sql).await;
    let rows = column.as_struct();
    let end = |name: &str| {
        let ends = rows.column_by_name(name).expect(name).as_primitive::<Float64Type>();
        ends.iter().next().flatten()
    };
    rows.is_valid(0).then(|| (end("lo"), end("hi")))
}

#[tokio::test]
async fn a_quantile_lies_between_two_bounds_and_an_open_end_is_unknown() {
    let session = session(2, |_| {});
    for (q, expected) in [
        ("0.05", Some((None, Some(0.1)))),
        ("0.5", Some((Some(0.1), Some(0.5)))),
        ("1", Some((Some(1.0), None))),
        ("NULL", None),
    ] {
        let sql = format!("SELECT buckets_quantile([0.1, 0.5, 1.0], [10, 80, 9, 1], {q})");
        assert_eq!(interval(&session, &sql).await, expected, "q {q}");
    }
    for nothing in ["buckets_quantile([0.1], [0, 0], 0.5)", "buckets_quantile(NULL, NULL, 0.5)"] {
        assert_eq!(interval(&session, &format!("SELECT {nothing}")).await, None, "{nothing}");
    }
}

#[tokio::test]
async fn histograms_with_other_bounds_keep_those_they_share() {
    for partitions in [1, 2, 8] {
        let session = session(partitions, |_| {});
        let sql = "WITH sent (bounds, counts) AS (VALUES ([0.1, 0.5, 1.0], [1, 2, 3, 4]), ([0.1, 1.0, 2.0], [10, 20, 30, 40]), \
             (NULL, NULL)), merged AS (SELECT buckets_merge(bounds, counts) AS h FROM sent) ";
        let counts = column(&session, &format!("{sql} SELECT array_to_string(h['counts'], ' ') FROM merged")).await;
        assert_eq!(counts.as_string::<i32>().value(0), "11 25 74");
        let q = format!("{sql} SELECT buckets_quantile(h['bounds'], h['counts'], 0.3) FROM merged");
        assert_eq!(interval(&session, &q).await, Some((Some(0.1), Some(1.0))));
    }
}

#[tokio::test]
async fn what_is_no_histogram_is_refused() {
    let session = session(1, |_| {});
    for (sql, text) in [
        ("SELECT buckets_quantile([1.0], [1], 0.5)", "there are 1 bucket counts where 2 belong"),
        ("SELECT buckets_quantile([1.0, 0.5], [1, 1, 1], 0.5)", "bounds must ascend"),
        ("SELECT buckets_quantile([1.0], [1, -1], 0.5)", "negative"),
        ("SELECT buckets_quantile([1.0], [1, 1], 50)", "between 0 and 1"),
        ("SELECT buckets_quantile([NULL, 1.0], [1, 1, 1], 0.5)", "bounds holds NULL"),
        ("SELECT buckets_merge('x', [1, 1])", "bounds is a LIST<DOUBLE>, not Utf8"),
    ] {
        let refused = refusal(&session, sql).await;
        assert!(refused.contains(text), "{refused} from {sql}");
    }
}

/// Groups are merged each by itself, on one thread or on several, with few groups or one for every row.
#[tokio::test]
async fn groups_are_merged_apart() {
    for partitions in [1, 2, 8] {
        let session = session(partitions, |_| {});
        let merged = |groups: i64| {
            format!(
                "WITH sent AS (SELECT x % {groups} AS g, [1.0, 2.0] AS bounds, CASE WHEN x <> 5 THEN [x, 1, 0] END AS counts \
                 FROM generate_series(1, 9000) AS t(x)), merged AS (SELECT g, buckets_merge(bounds, counts) FILTER (WHERE x <> 7) AS h \
                 FROM (SELECT *, counts[1] AS x FROM sent) GROUP BY g) "
            )
        };
        let few = format!("{} SELECT array_to_string(h['counts'], ' ') FROM merged ORDER BY g", merged(3));
        let counts = column(&session, &few).await;
        let counts: Vec<_> = counts.as_string::<i32>().iter().flatten().collect();
        // of the numbers 1 to 9000 by their remainder, but for 5, which has no counts, and 7, which is filtered out
        assert_eq!(counts, ["13504500 3000 0", "13498493 2999 0", "13501495 2999 0"], "{partitions} partitions");
        let many = format!("{} SELECT sum(h['counts'][1]) FROM merged", merged(9_000));
        let sums = column(&session, &many).await;
        assert_eq!(
            sums.as_primitive::<arrow::datatypes::Int64Type>().value(0),
            40_504_500 - 12,
            "{partitions} partitions"
        );
    }
}
