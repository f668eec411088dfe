//! What expressions make is bounded before it is made, and charged while it lives.

use serde_json::json;

use super::{stopping::until_idle, world::World};
use crate::Config;

/// Statements whose results would take gigabytes: the bound is looked at before them.
const AMPLIFIERS: &[&str] = &[
    "SELECT repeat('x', 1000000) FROM generate_series(1, 10000)",
    "SELECT sum(length(repeat('x', CAST(value * 0 + 1000000 AS BIGINT)))) FROM generate_series(1, 10000)",
    "SELECT max(rpad('x', 1000000, 'é')) FROM generate_series(1, 10000)",
    "SELECT max(lpad(CAST(value AS VARCHAR), 1000000)) FROM generate_series(1, 10000)",
    "SELECT max(concat(value, repeat('x', 1000000))) FROM generate_series(1, 10000)",
    "SELECT max(concat_ws(repeat('x', 100000), value, value, value)) FROM generate_series(1, 10000)",
    "SELECT max(repeat('x', 1000000) || value) FROM generate_series(1, 10000)",
    "SELECT max(replace(repeat('x', 30000), 'x', CAST(value AS VARCHAR))) FROM generate_series(1, 10000)",
    "SELECT max(regexp_replace(repeat('x', 10000), '(x*)', '\\1\\1\\1\\1\\1\\1\\1\\1', 'g')) FROM generate_series(1, 10000)",
    "SELECT max(translate(repeat('x', 100000), 'x', '€')) FROM generate_series(1, 10000)",
    "SELECT max(cardinality(array_repeat(value, 1000000))) FROM generate_series(1, 10000)",
    "SELECT max(cardinality(range(0, value * 0 + 1000000))) FROM generate_series(1, 10000)",
    "SELECT max(cardinality(generate_series(DATE '1000-01-01', DATE '9000-01-01', INTERVAL '1 day'))), value FROM generate_series(1, 10000) GROUP BY value",
    "SELECT max(cardinality(array_resize([value], 1000000, 7))) FROM generate_series(1, 10000)",
    "SELECT max(array_to_string([value, value, value], repeat('x', 100000))) FROM generate_series(1, 10000)",
    "SELECT max(CASE WHEN value % 2 = 0 THEN repeat('x', 1000000) ELSE 'y' END) FROM generate_series(1, 10000)",
    "SELECT repeat('x', 1000000000)",
    "SELECT cardinality(array_repeat(1, 1000000000))",
    "SELECT cardinality(range(0, 1000000000000))",
    "SELECT levenshtein(repeat('x', 1000000), repeat('y', 1000000))",
];

#[tokio::test]
async fn results_that_would_take_gigabytes_are_refused() {
    let world = World::new().await;
    for sql in AMPLIFIERS {
        let error = world.try_ask(sql).await.expect_err(sql);
        assert_eq!(error.kind, "too_large", "{sql}: {error:?}");
        assert!(error.message.contains("query.column_bytes_max"), "{sql}: {error:?}");
    }
    // A constant of the statement itself, written out for every row.
    let sql = format!("SELECT '{}' FROM generate_series(1, 10000)", "x".repeat(500_000));
    let error = world.try_ask(&sql).await.expect_err("too large");
    assert!(error.message.contains("query.column_bytes_max"), "{error:?}");
    until_idle(&world).await;
}

/// What is reasonable is answered as ever: bounds change no result.
#[tokio::test]
async fn bounds_change_no_result() {
    let world = World::new().await;
    for (sql, expected) in [
        ("SELECT repeat('ab', 3), lpad('7', 3, '0'), 'a' || NULL, 'a' || 1", json!(["ababab", "007", null, "a1"])),
        ("SELECT concat('a', NULL, 1), concat_ws('-', 'a', NULL, 'b')", json!(["a1", "a-b"])),
        ("SELECT array_repeat('x', 2), range(1, 7, 2), [1] || [2]", json!([["x", "x"], [1, 3, 5], [1, 2]])),
        ("SELECT 'abc' ~ 'B', 'abc' ~* 'B', 'abc' !~ '^a', NULL ~ 'a'", json!([false, true, false, null])),
        (
            "SELECT regexp_replace('aaa', 'a', 'b', 'g'), replace('aXa', 'X', ''), upper('ß')",
            json!(["bbb", "aa", "SS"]),
        ),
        ("SELECT sum(length(repeat('x', value))) FROM generate_series(1, 5000) AS t(value)", json!([12_502_500])),
        ("SELECT count(DISTINCT repeat('x', value % 3)) FROM generate_series(1, 9000) AS t(value)", json!([3])),
        ("SELECT count(*) FROM generate_series(1, 9000) AS t(value) WHERE (value || 'x') ~ '7x$'", json!([900])),
        (
            "SELECT max(length(CASE WHEN value > 3 THEN value || 'abc' ELSE 'x' END)) FROM generate_series(1, 5) AS t(value)",
            json!([4]),
        ),
        (
            "SELECT sum(length(rpad('é', 2000, value || ''))) FROM generate_series(1, 9000) AS t(value)",
            json!([18_000_000]),
        ),
    ] {
        assert_eq!(json!(world.rows(sql).await[0]), expected, "{sql}");
    }
}

/// Many results at once are bounded together, by what one query may hold.
#[tokio::test]
async fn results_that_are_held_together_are_charged_together() {
    let world = World::new().await;
    let one = "repeat('x', value * 0 + 12000)";
    let several = |count: usize| {
        let columns = (0..count).map(|index| format!("{one} || '{index}'")).collect::<Vec<_>>().join(", ");
        format!("SELECT max(length(concat_ws('', {columns}))) FROM generate_series(1, 8192) AS t(value)")
    };
    let error = world.try_ask(&several(9)).await.expect_err("too much together");
    assert_eq!(error.kind, "too_large", "{error:?}");
    let world = World::with(Config { memory_bytes_per_query: 32 << 20, ..Config::default() }).await;
    let sql = format!("SELECT max(length({one})) FROM generate_series(1, 8192) AS t(value)");
    let error = world.try_ask(&sql).await.expect_err("more than one query may hold");
    assert_eq!(error.kind, "too_large", "{error:?}");
    assert!(error.message.contains("query.memory_bytes_per_query"), "{error:?}");
}

/// A join writes a value once for every match; one that is large enough for that to matter is refused.
#[tokio::test]
async fn a_join_does_not_multiply_large_values() {
    let world = World::new().await;
    let joined = |bytes: usize| {
        format!(
            "SELECT max(length(s)), count(*) FROM (SELECT repeat('x', {bytes} + value * 0) AS s FROM generate_series(1, 2) AS t(value)) AS a \
             CROSS JOIN generate_series(1, 9000) AS b"
        )
    };
    assert_eq!(world.rows(&joined(10_000)).await, [[json!(10_000), json!(18_000)]]);
    let error = world.try_ask(&joined(1_000_000)).await.expect_err("too large");
    assert_eq!(error.kind, "too_large", "{error:?}");
    assert!(error.message.contains("a join or unnest"), "{error:?}");
}

/// A join shares long texts among its rows; a cast writes them out, whatever it is called and wherever it stands.
#[tokio::test]
async fn a_cast_does_not_write_out_what_rows_share() {
    let world = World::new().await;
    let shared = |kind: &str, bytes: usize, rest: &str| {
        format!(
            "SELECT {rest} FROM (SELECT arrow_cast(repeat('x', {bytes} + value * 0), '{kind}') AS s FROM generate_series(1, 1) AS t(value)) AS a \
             CROSS JOIN generate_series(1, 9000) AS b(n) WHERE n > 0"
        )
    };
    for kind in ["Utf8View", "Dictionary(Int32, Utf8)"] {
        for cast in [
            "max(octet_length(arrow_cast(s, 'Utf8')))",
            "max(octet_length(arrow_cast(s, 'LargeUtf8')))",
            "max(octet_length(arrow_try_cast(s, 'Utf8')))",
            "max(CAST(s AS BYTEA))",
            "max(TRY_CAST(s AS BYTEA))",
            "count(DISTINCT arrow_cast(s, 'LargeUtf8'))",
        ] {
            let error = world.try_ask(&shared(kind, 60_000, cast)).await.expect_err(cast);
            assert_eq!(error.kind, "too_large", "{kind} {cast}: {error:?}");
            assert!(error.message.contains("query.column_bytes_max"), "{kind} {cast}: {error:?}");
            assert!(world.try_ask(&shared(kind, 600, cast)).await.is_ok(), "{kind} {cast}");
        }
    }
    let sql = "SELECT CAST(1 AS VARCHAR) AS a, TRY_CAST('x' AS INT) AS b, arrow_cast(s, 'Utf8') AS c, TRY_CAST(s AS BIGINT) AS d, \
        CAST(s AS DOUBLE) AS e FROM (SELECT arrow_cast('17', 'Utf8View') AS s FROM generate_series(1, 1))";
    assert_eq!(json!(world.rows(sql).await[0]), json!(["1", null, "17", 17, 17.0]));
    let error = world.try_ask("SELECT CAST(arrow_cast('x', 'Utf8View') AS BIGINT)").await.expect_err("no number");
    assert_eq!(error.kind, "invalid", "{error:?}");
}

/// Over a window every row has a result of its own, each of them as long as what it was made of.
const WINDOWS: &[&str] = &[
    "first_value(CASE WHEN x = 1 THEN repeat('x', 1000000) END) OVER (ORDER BY x)",
    "nth_value(repeat('x', 100000), 1) OVER (ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    "max(CASE WHEN x = 1 THEN repeat('x', 1000000) END) OVER (ORDER BY x)",
    "max(CASE WHEN x = 1 THEN repeat('x', 1000000) END) OVER ()",
    "array_agg(x) OVER (ORDER BY x)",
    "array_agg(x) OVER ()",
    "string_agg(CAST(x AS VARCHAR), ',') OVER (ORDER BY x)",
    "exph(exp(x / 1000.0)) OVER (ORDER BY x)",
    "exph(exp(x / 1000.0)) OVER ()",
    "array_agg(x) OVER (ORDER BY x ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
];

#[tokio::test]
async fn windows_do_not_multiply_what_they_give() {
    let world = World::with(Config { memory_bytes_per_query: 64 << 20, ..Config::default() }).await;
    for window in WINDOWS {
        let sql = format!("SELECT count(v) FROM (SELECT {window} AS v FROM generate_series(1, 20000) AS t(x))");
        let error = world.try_ask(&sql).await.expect_err(window);
        assert_eq!(error.kind, "too_large", "{window}: {error:?}");
        let named = ["query.column_bytes_max", "query.memory_bytes_per_query"];
        assert!(named.iter().any(|setting| error.message.contains(setting)), "{window}: {error:?}");
    }
    // A window over whole partitions keeps its rows until the last has come.
    let sql = "SELECT count(n) FROM (SELECT count(*) OVER () AS n, x, x * 2 AS y FROM generate_series(1, 12000000) AS t(x)) WHERE x + y > 0";
    let error = world.try_ask(sql).await.expect_err("too many rows");
    assert!(error.kind == "too_large" && error.message.contains("query.memory_bytes_per_query"), "{error:?}");
    until_idle(&world).await;
    assert_eq!(world.rows("SELECT memory_bytes FROM system.queries").await, [[json!(0)]], "all of it was given back");
    let series = "FROM generate_series(1, 300) AS t(x)";
    for (window, expected) in [
        ("max(exph_quantile(exph(x) OVER (ORDER BY x), 1.0))", json!(300.0)),
        ("max(cardinality(array_agg(x) OVER (ORDER BY x)))", json!(300)),
        ("sum(cardinality(array_agg(x) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)))", json!(599)),
        ("max(first_value('a' || x) OVER (ORDER BY x DESC))", json!("a300")),
        ("max(lag('a' || x) OVER (ORDER BY x))", json!("a99")),
        ("count(max('a' || x) OVER (PARTITION BY x % 7))", json!(300)),
    ] {
        // the window stands inside of what reads it
        let (outer, inner) = window.split_at(window.find('(').expect("a call") + 1);
        let inner = inner.strip_suffix(')').expect("its end");
        let sql = format!("SELECT {outer}v) FROM (SELECT {inner} AS v {series})");
        assert_eq!(world.rows(&sql).await, [[expected]], "{sql}");
    }
    // more results than are held at once, each of them small
    let sql =
        "SELECT count(v) FROM (SELECT max('a' || x) OVER (ORDER BY x) AS v FROM generate_series(1, 100000) AS t(x))";
    assert_eq!(world.rows(sql).await, [[json!(100_000)]]);
}
