//! The functions in queries.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use telemetry::histogram::Histogram;

use super::column::Histograms;
use crate::functions::session::{column, number, refusal, session, table};

/// Log-normal values with NULLs, zeros and what is no observation between them, in seven groups.
fn rows(count: usize) -> (Int64Array, Float64Array) {
    let mut state = 7_u64;
    let mut unit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) + 1) as f64 / (1_u64 << 53) as f64
    };
    let values = (0..count).map(|row| match row % 50 {
        0 => None,
        1 => Some(0.0),
        2 => Some(f64::NAN),
        3 => Some(f64::INFINITY),
        _ => Some((0.8 * (-2.0 * unit().ln()).sqrt() * (std::f64::consts::TAU * unit()).cos() - 1.0).exp()),
    });
    let values = values.collect();
    ((0..count as i64).map(|row| Some(row * 31 % 7)).collect(), values)
}

fn expected(groups: &Int64Array, values: &Float64Array) -> Vec<Histogram> {
    let mut all = vec![Histogram::default(); 7];
    for (group, value) in groups.values().iter().zip(values.iter()) {
        all[*group as usize].observe(value.unwrap_or(f64::NAN));
    }
    all
}

fn histograms(column: &ArrayRef) -> Vec<Option<Histogram>> {
    let column = Histograms::of(column).expect("histograms");
    (0..column.len()).map(|row| column.get(row).expect("well formed")).collect()
}

fn assert_same(found: &[Option<Histogram>], wanted: &[Histogram], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (found, wanted) in found.iter().zip(wanted) {
        let found = found.as_ref().expect(what);
        let counted = |h: &Histogram| (h.scale(), h.zero(), h.buckets().to_vec(), h.count(), h.min(), h.max());
        assert_eq!(counted(found), counted(wanted), "{what}");
        let (one, other) = (found.sum().expect("known"), wanted.sum().expect("known"));
        assert!((one - other).abs() < 1e-9 * other, "{what}: {one} and {other}");
    }
}

/// However the rows are dealt, whatever is spilled over stages, and whether or not minutes were stored in between.
#[tokio::test]
async fn partitions_and_roll_ups_change_nothing() {
    let (groups, values) = rows(20_000);
    let wanted = expected(&groups, &values);
    let mut all = Histogram::default();
    wanted.iter().for_each(|one| all.merge(one));
    for partitions in [1, 2, 8] {
        let session = session(partitions, |_| {});
        let minute: Int64Array = (0..20_000).map(|row| Some(row / 700)).collect();
        let columns: Vec<(&str, ArrayRef)> =
            vec![("g", Arc::new(groups.clone())), ("m", Arc::new(minute)), ("v", Arc::new(values.clone()))];
        table(&session, partitions, columns);
        for (sql, wanted) in [
            ("SELECT exph(v) FROM t GROUP BY g ORDER BY g", wanted.as_slice()),
            ("SELECT exph(v) FROM t", std::slice::from_ref(&all)),
            (
                "WITH minutes AS (SELECT g, m, exph(v) AS h FROM t GROUP BY g, m) \
                 SELECT exph_merge(h) FROM minutes GROUP BY g ORDER BY g",
                wanted.as_slice(),
            ),
            (
                "WITH minutes AS (SELECT m, exph(v) AS h FROM t GROUP BY m) \
                 SELECT exph_merge(exph_of(h['scale'], h['zero'], h['idx'], h['cnt'], h['count'], h['sum'], h['min'], h['max'])) \
                 FROM minutes",
                std::slice::from_ref(&all),
            ),
        ] {
            let found = histograms(&column(&session, sql).await);
            assert_same(&found, wanted, &format!("{partitions} partitions: {sql}"));
        }
    }
}

/// With nearly as many groups as rows, partial aggregation is skipped and every row becomes a state.
#[tokio::test]
async fn rows_that_are_groups_become_states_of_their_own() {
    let session = session(2, |config| {
        let aggregation = &mut config.options_mut().execution;
        aggregation.skip_partial_aggregation_probe_rows_threshold = 1;
        aggregation.skip_partial_aggregation_probe_ratio_threshold = 0.1;
    });
    let values: Float64Array = (0..6_000).map(|row| Some(f64::from(row % 3_000))).collect();
    let keys: Int64Array = (0..6_000).map(|row| Some(row % 3_000)).collect();
    table(&session, 2, vec![("g", Arc::new(keys)), ("v", Arc::new(values))]);
    let sql = "WITH each AS (SELECT g, exph(v) FILTER (WHERE v >= 1000) AS h FROM t GROUP BY g) \
        SELECT CAST(sum(h['count']) AS DOUBLE) FROM each";
    assert_eq!(number(&session, sql).await, Some(4_000.0));
    let sql =
        "WITH each AS (SELECT g, exph(v) AS h FROM t GROUP BY g) SELECT exph_quantile(exph_merge(h), 0.5) FROM each";
    let median = number(&session, sql).await.expect("observed");
    assert!((median - 1_499.0).abs() < 0.0109 * 1_499.0, "{median}");
}

#[tokio::test]
async fn what_was_not_observed_is_null() {
    let session = session(2, |_| {});
    table(&session, 2, vec![("v", Arc::new(Float64Array::from(vec![None, Some(f64::NAN)])))]);
    for sql in [
        "SELECT exph_quantile(exph(v), 0.5) FROM t",
        "SELECT exph_quantile(exph(v) FILTER (WHERE false), 0.5) FROM t",
        "SELECT exph_quantile(NULL, 0.5)",
        "SELECT exph_quantile(exph(1.0), NULL)",
        "SELECT exph_rank(exph(1.0), NULL)",
        "SELECT exph_error(exph_merge(NULL))",
        "SELECT exph_rank(exph(-1), -0.5)",
        "SELECT exph_error(exph_of(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL))",
    ] {
        let expected = if sql.contains("exph(-1)") { Some(1.0) } else { None };
        assert_eq!(number(&session, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn a_histogram_tells_quantiles_shares_and_its_error() {
    let session = session(2, |_| {});
    let values: Float64Array = (1..=1_000).map(|row| Some(f64::from(row) / 1_000.0)).collect();
    table(&session, 2, vec![("v", Arc::new(values))]);
    let p99 = number(&session, "SELECT exph_quantile(exph(v), 0.99) FROM t").await.expect("observed");
    assert!((p99 - 0.99).abs() <= 0.0109 * 0.99, "{p99}");
    let of_ints = number(&session, "SELECT exph_quantile(exph(CAST(v * 1000 AS BIGINT)), 1) FROM t").await;
    assert_eq!(of_ints, Some(1_000.0));
    let share = number(&session, "SELECT exph_rank(exph(v), 0.5) FROM t").await.expect("observed");
    assert!((share - 0.5).abs() < 0.01, "{share}");
    let error = number(&session, "SELECT exph_error(exph(v)) FROM t").await.expect("observed");
    assert!((error - 0.010_83).abs() < 1e-6, "{error}");
    let within = column(&session, "SELECT exph_rank_interval(exph(v), 0.7) FROM t").await;
    let end =
        |name| within.as_struct().column_by_name(name).expect(name).as_primitive::<arrow::datatypes::Float64Type>();
    let (lo, hi) = (end("lo").value(0), end("hi").value(0));
    assert!(lo <= 0.7 && 0.7 <= hi && hi - lo < 0.03, "[{lo}, {hi}]");
    let growing = column(&session, "SELECT exph_quantile(exph(v) OVER (ORDER BY v), 1) FROM t").await;
    assert_eq!(growing.as_primitive::<arrow::datatypes::Float64Type>().value(499), 0.5);
}

#[tokio::test]
async fn exponential_histograms_of_otlp_join_in() {
    let session = session(1, |_| {});
    let of =
        |scale: &str| format!("exph_from_otel({scale}, 2, NULL, 0, [1, 0, 3], CAST(NULL AS BIGINT[]), 9.5, NULL, 3.5)");
    let median = format!("SELECT exph_quantile({}, 0.9)", of("0"));
    // three of six in (4, 8]: the harmonic mean of its ends is beyond the largest
    assert_eq!(number(&session, &median).await, Some(3.5));
    let error =
        format!("SELECT exph_error(exph_merge(h)) FROM (SELECT {} AS h UNION ALL SELECT exph(1.0)) AS u", of("3"));
    let error = number(&session, &error).await.expect("observed");
    assert!((error - 0.043_29).abs() < 1e-5, "the coarser one decides: {error}");
    let none = format!("SELECT exph_quantile({}, 0.9)", of("CAST(NULL AS BIGINT)"));
    assert_eq!(number(&session, &none).await, None);
    let refused = refusal(&session, &format!("SELECT {}", of("77"))).await;
    assert!(refused.contains("scale 77 is not between -10 and 20"), "{refused}");
}

#[tokio::test]
async fn what_is_no_histogram_is_refused_and_told_what_to_do() {
    let session = session(1, |_| {});
    for (sql, text) in [
        ("SELECT exph_quantile(1.0, 0.5)", "exph(value) makes one of numbers"),
        ("SELECT exph_quantile(exph(1.0), 99)", "between 0 and 1, such as 0.99 for p99, not 99"),
        ("SELECT exph_quantile(exph(1.0), '0.5')", "takes a number here, not Utf8"),
        ("SELECT exph_quantile(exph(1.0))", "takes a histogram and a number"),
        ("SELECT exph('fast')", "takes a number here, not Utf8"),
        ("SELECT exph(DISTINCT 1.0), count(DISTINCT 2)", "DISTINCT has no meaning here"),
        ("SELECT exph_merge(named_struct('a', 1))", "takes a histogram"),
        ("SELECT exph_of(5, 0, [1], [2], 3, 1.0, 1.0, 1.0)", "the buckets hold 2 observations, the count says 3"),
        ("SELECT exph_of(5, 0, [1])", "takes 8 arguments, (scale, zero, idx, cnt, count, sum, min, max), not 3"),
        ("SELECT exph_of(5, 0, 'x', [2], 3, 1.0, 1.0, 1.0)", "idx is a LIST<BIGINT>, not Utf8"),
        ("SELECT exph_of(5, 0, [1, NULL], [2, 1], 3, 1.0, 1.0, 1.0)", "a list of counts holds NULL"),
    ] {
        let refused = refusal(&session, sql).await;
        assert!(refused.contains(text), "{refused} from {sql}");
    }
}
