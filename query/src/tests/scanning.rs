//! What a scan may rely on: order where files have it, bounds that are only bounds, blocks that are kept.

use serde_json::{Value, json};
use telemetry::table::TOKENS;

use super::world::{NOON, World};
use crate::Config;

/// Tokens `from..to` of a trace, in order.
fn tokens(trace: &str, from: i64, to: i64) -> Vec<Value> {
    let token = |index| json!({"time": NOON + index, "trace_id": trace, "request_span_id": "1", "choice": 0, "index": index, "count": 1});
    (from..to).map(token).collect()
}

/// The physical plan as text.
async fn plan(world: &World, sql: &str) -> String {
    let rows = world.rows(&format!("EXPLAIN {sql}")).await;
    let physical = rows.iter().find(|row| row[0] == json!("physical_plan")).expect("a physical plan");
    physical[1].as_str().expect("text").to_owned()
}

const IN_ORDER: &str = "SELECT trace_id, \"index\" FROM tokens ORDER BY trace_id, choice, \"index\"";

/// Files that are sorted are merged, not sorted again, whether they overlap or follow each other.
#[tokio::test]
async fn sorted_files_are_not_sorted_again() {
    let world = World::new().await;
    world.write_sorted(&TOKENS, &[tokens("a", 0, 3), tokens("c", 0, 2)].concat()).await;
    world.write_sorted(&TOKENS, &[tokens("b", 0, 2), tokens("c", 2, 4)].concat()).await;
    world.write_sorted(&TOKENS, &tokens("d", 0, 2)).await;
    let expected: Vec<Vec<Value>> = [tokens("a", 0, 3), tokens("b", 0, 2), tokens("c", 0, 4), tokens("d", 0, 2)]
        .concat()
        .iter()
        .map(|token| vec![token["trace_id"].clone(), token["index"].clone()])
        .collect();
    assert_eq!(world.rows(IN_ORDER).await, expected);
    let merged = plan(&world, IN_ORDER).await;
    assert!(!merged.contains("SortExec") && merged.contains("SortPreservingMergeExec"), "{merged}");
    let grouped = "SELECT trace_id, count(*) FROM tokens GROUP BY trace_id ORDER BY trace_id";
    assert_eq!(
        world.rows(grouped).await,
        [[json!("a"), json!(3)], [json!("b"), json!(2)], [json!("c"), json!(4)], [json!("d"), json!(2)]]
    );
}

/// One file whose order nobody vouches for, or a key that may be unknown, and the rows are sorted here.
#[tokio::test]
async fn one_file_in_another_order_is_enough_to_sort() {
    let world = World::new().await;
    world.write_sorted(&TOKENS, &tokens("b", 0, 3)).await;
    world.write(&TOKENS, &[tokens("c", 0, 1), tokens("a", 0, 2)].concat()).await;
    let traces: Vec<_> = world.rows(IN_ORDER).await.into_iter().map(|mut row| row.remove(0)).collect();
    assert_eq!(traces, ["a", "a", "b", "b", "b", "c"].map(Value::from));

    let world = World::new().await;
    let unknown = json!({"time": NOON, "request_span_id": "1", "choice": 0, "index": 7, "count": 1});
    world.write_sorted(&TOKENS, &[tokens("b", 0, 1), vec![unknown]].concat()).await;
    world.write_sorted(&TOKENS, &tokens("z", 0, 1)).await;
    let traces: Vec<_> = world.rows(IN_ORDER).await.into_iter().map(|mut row| row.remove(0)).collect();
    assert_eq!(traces, [json!("b"), json!("z"), Value::Null]);
}

/// Rows and unknown values are counted exactly; the bounds of a long text are not its value.
#[tokio::test]
async fn counts_come_from_the_log_and_extremes_from_the_rows() {
    let world = World::new().await;
    let long = "x".repeat(100);
    let rows = [
        json!({"time": NOON, "trace_id": "a", "host_id": long, "choice": 0, "index": 0}),
        json!({"time": NOON + 5, "trace_id": "a", "choice": 0, "index": 1}),
    ];
    world.write(&TOKENS, &rows).await;
    world.write(&TOKENS, &tokens("b", 9, 11)).await;
    let sql = "SELECT count(*), count(host_id), count(trace_id), min(host_id), max(host_id), min(\"index\"), max(time) FROM tokens";
    let expected =
        [[json!(4), json!(1), json!(4), json!(long), json!(long), json!(0), json!("2026-11-29T12:00:00.000010Z")]];
    assert_eq!(world.rows(sql).await, expected);
    let narrow = "SELECT count(*), count(host_id), max(\"index\") FROM tokens WHERE time < TIMESTAMP '2026-11-29T12:00:00.000005Z'";
    assert_eq!(world.rows(narrow).await, [[json!(1), json!(1), json!(0)]]);
}

/// The first few of an order are the right ones, and other columns are decoded for rows alone that may be among them.
#[tokio::test]
async fn few_rows_of_an_order_are_decoded() {
    let config = Config { partitions: 1, ..Config::default() };
    let world = World::with(config).await;
    // more files than fill the first batch, after which it is known what to look for
    for trace in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"] {
        // each has the largest row so far and many small ones, so that its bounds alone leave none out
        let mut rows = tokens(trace, 0, 1_000);
        rows[7]["device_us"] = json!(1_000 + i64::from(trace.as_bytes()[0]));
        rows.iter_mut().enumerate().filter(|(at, _)| *at != 7).for_each(|(at, row)| row["device_us"] = json!(at % 900));
        world.write(&TOKENS, &rows).await;
    }
    let sql = "SELECT * FROM tokens WHERE choice = 0 ORDER BY device_us DESC LIMIT 2";
    let names = "SELECT trace_id, \"index\", device_us FROM (SELECT * FROM tokens WHERE choice = 0 ORDER BY device_us DESC LIMIT 2)";
    let expected = [[json!("l"), json!(7), json!(1_108)], [json!("k"), json!(7), json!(1_107)]];
    assert_eq!(world.rows(names).await, expected);
    let ran = world.rows(&format!("EXPLAIN ANALYZE {sql}")).await[0][1].as_str().expect("text").to_owned();
    let pruned = ran.split("pushdown_rows_pruned=").nth(1).and_then(|rest| rest.split([',', ' ', ']']).next());
    assert!(pruned.is_some_and(|rows| rows != "0"), "{ran}");
}

/// On a store behind a network a block is fetched once; a directory has the kernel for that.
#[tokio::test]
async fn blocks_of_a_remote_store_are_kept() {
    let remote = World::remote(Config::default()).await;
    let local = World::new().await;
    for world in [&remote, &local] {
        world.write(&TOKENS, &tokens("a", 0, 100)).await;
        for _ in 0..3 {
            assert_eq!(world.rows("SELECT sum(\"index\") FROM tokens").await, [[json!(4_950)]]);
        }
    }
    let found = |world: &World, place| world.counted(&format!("tokenwatt_query_blocks_total{{found=\"{place}\"}}"));
    assert_eq!((found(&remote, "store"), found(&local, "store")), (Some(1.0), None));
    assert!(found(&remote, "memory") >= Some(2.0), "{:?}", found(&remote, "memory"));
}

/// A scan that would push everything else out of the cache goes past it.
#[tokio::test]
async fn a_scan_larger_than_the_cache_goes_past_it() {
    let config = Config { cache_bytes: 1, ..Config::default() };
    let world = World::remote(config).await;
    world.write(&TOKENS, &tokens("a", 0, 1_000)).await;
    assert_eq!(
        world.rows("SELECT count(DISTINCT \"index\"), min(time), max(batch_size) FROM tokens").await[0][0],
        json!(1_000)
    );
    assert_eq!(world.counted("tokenwatt_query_blocks_total{found=\"store\"}"), Some(0.0));
}
