//! What the collectors say of themselves.

use serde_json::{Value, json};
use telemetry::table::COLLECTORS;

use super::world::{NOON, World};

fn time(second: i64) -> String {
    let at = jiff::Timestamp::from_microsecond(NOON + second * 1_000_000).expect("a time");
    at.to_string()
}

/// A sample of collector `c1`, started at noon, with these spans, rejected items, refused and throttled requests.
fn sample(second: i64, spans: i64, rejected: i64, refused: i64, throttled: Option<i64>) -> Value {
    json!({
        "time": time(second), "collector": "c1", "version": "1", "started_at": time(0), "accepted_spans": spans,
        "rejected_items": rejected, "refused_requests": refused, "throttled_requests": throttled, "cpu_s": second as f64 / 20.0,
    })
}

/// Drops are what the counters grew by, by minute and reason, from zero at the start of a process; throttled requests are not
/// counted as refused too, and what an older version did not count is not zero.
#[tokio::test]
async fn drops_are_what_the_counters_grew_by() {
    let world = World::new().await;
    let rows = [
        sample(10, 100, 3, 0, None),
        sample(20, 200, 3, 0, Some(0)),
        sample(30, 400, 5, 7, Some(4)),
        sample(70, 800, 6, 7, Some(4)),
    ];
    world.write(&COLLECTORS, &rows).await;
    let sql =
        "SELECT CAST(time AS VARCHAR) AS minute, reason, unit, lost, count FROM system.drops ORDER BY minute, reason";
    let minute = |second| {
        let text = time(second);
        text.trim_end_matches('Z').to_owned()
    };
    let found = world.rows(sql).await;
    let found: Vec<String> = found.iter().map(|row| Value::Array(row.clone()).to_string().replace('Z', "")).collect();
    let expected = [
        json!([minute(0), "refused", "request", false, 3]),
        json!([minute(0), "rejected", "item", true, 5]),
        json!([minute(0), "throttled", "request", false, 4]),
        json!([minute(60), "rejected", "item", true, 1]),
    ];
    assert_eq!(found, expected.map(|row| row.to_string()));
}

/// A count that was already there when the samples that are kept begin has no known minute.
#[tokio::test]
async fn a_count_from_before_the_samples_has_no_minute() {
    let world = World::new().await;
    world.write(&COLLECTORS, &[sample(90_000, 1, 9, 0, Some(0)), sample(90_010, 2, 11, 0, Some(0))]).await;
    let found = world.rows("SELECT reason, count FROM system.drops").await;
    assert_eq!(found, [vec![json!("rejected"), json!(2)]]);
}

/// The newest process of a collector is shown, with rates between its last two samples.
#[tokio::test]
async fn collectors_are_shown_with_their_rates() {
    let world = World::new().await;
    world.write(&COLLECTORS, &[sample(10, 100, 0, 0, Some(0)), sample(20, 400, 0, 0, Some(0))]).await;
    let sql = "SELECT collector, accepted_spans, spans_per_s, cpus, sample_age_s IS NOT NULL FROM system.collectors";
    assert_eq!(world.rows(sql).await, [vec![json!("c1"), json!(400), json!(30.0), json!(0.05), json!(true)]]);
    let names = world.rows("SHOW TABLES").await;
    let shown = Value::from(names.into_iter().map(Value::from).collect::<Vec<_>>()).to_string();
    assert!(shown.contains("\"drops\"") && shown.contains("\"freshness\""), "{shown}");
}
