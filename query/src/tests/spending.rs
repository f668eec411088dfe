//! What is spent beside what was: forecasts, anomalies, months, and what is paid for in silence. Each answer is worked out by hand in the comment above it.

use std::sync::Arc;

use serde_json::{Value, json};
use service::{Deps, clock::Clock};
use telemetry::table::{BILLING, BUDGETS, COSTS_1H, DEVICES, INVENTORY, PRICES};

use super::cost::{HOUR, INF2, MINUTE, REGION, charge, price, seen, with};
use super::rolling::Hand;
use super::world::{NOON, World};

const DAY: i64 = 24 * HOUR;
const MINUTES_OF_A_DAY: i64 = 24 * 60;

/// A world ten minutes after noon of a day so many days from 2026-11-29.
async fn ten_past_noon(days: i64) -> World {
    let clock = Hand::at(NOON + days * DAY + 10 * MINUTE) as Arc<dyn Clock>;
    World::at(Deps::new(clock)).await
}

fn long_since(kind: &str, region: &str, usd_per_hour: &str, from_us: i64) -> Value {
    price(kind, "on_demand", usd_per_hour, json!({"region": region, "time": from_us, "effective_from": from_us}))
}

/// The hour that ends at noon so many days from 2026-11-29.
fn an_hour(host: &str, region: &str, days: i64) -> Vec<Value> {
    let (from, to) = (days * MINUTES_OF_A_DAY - 60, days * MINUTES_OF_A_DAY);
    seen(host, INF2, from, to).into_iter().map(|row| with(row, json!({"region": region}))).collect()
}

fn budget(name: &str, region: &str, usd: &str) -> Value {
    json!({"time": NOON - 60 * DAY, "effective_from": NOON - 60 * DAY, "name": name, "allocation_key": "region", "allocation_value": region, "amount": usd,
        "currency": "USD", "period": "month", "enforcement": "soft", "source": "tokenwatt.toml"})
}

/// It is Monday the second of November. What runs for an hour each Monday cost 540 USD on the 12th of October and 720 on the three Mondays since, and the
/// fleet was heard of on all days between. Spent in November are 720. Mondays cost (3 × 720 + 540) ÷ 4 = 675 and other days nothing, and four Mondays
/// are left: 720 + 4 × 675 = 3,420, where the last 24 hours to the month's end would be 720 × 29. Of 22 days four lie 45, 45, 45 and 135 from their
/// weekday's mean: √(24,300 ÷ 22) = 33.2347, and 28 days, 11 hours and 50 minutes are left, of which √28.493056 = 5.337889: 2 × 33.2347 × 5.337889 =
/// 354.806. Today is 720 against the 633.33 of Mondays before, or (720 on the seventh day) ÷ 7: no anomaly. What ran yesterday alone cost
/// nothing in the last 24 hours, which is known; it is 0, not unknown.
#[tokio::test]
async fn a_weekly_batch_is_no_daily_one() {
    let world = ten_past_noon(-27).await;
    let prices = [
        long_since(INF2, "us-east-1", "540", NOON - 90 * DAY),
        long_since(INF2, "us-east-1", "720", NOON - 45 * DAY),
        long_since(INF2, REGION, "60", NOON - 90 * DAY),
    ];
    world.write(&PRICES, &prices).await;
    let mondays = [-27, -34, -41, -48].into_iter().flat_map(|days| an_hour("i-1", "us-east-1", days));
    world.write(&DEVICES, &mondays.chain(an_hour("i-2", REGION, -28)).collect::<Vec<_>>()).await;
    let heard =
        |day: i64| json!({"time": NOON - day * DAY, "region": "us-west-2", "method": "device time", "part": "idle"});
    world.write(&COSTS_1H, &(27..=48).map(heard).collect::<Vec<_>>()).await;
    world.write(&BUDGETS, &[budget("batch", "us-east-1", "10000"), budget("once", REGION, "10000")]).await;
    let sql = "SELECT name, spent_usd, burn_usd_per_day, forecast_usd, round(CAST(forecast_low_usd AS DOUBLE)), round(CAST(forecast_high_usd AS DOUBLE)), \
        round(day_ratio, 3), status FROM budget_status ORDER BY name";
    let found = world.rows(sql).await;
    let expected =
        json!(["batch", "720.000000000000", "720.000000000000", "3420.000000000000", 3065.0, 3775.0, 1.091, "within"]);
    assert_eq!(json!(found[0]), expected);
    assert_eq!(json!(found[1][2]), json!("0.000000000000"));
    assert!(found[1][3].is_string() && found[1][4] != found[1][5], "{found:?}");
}

/// Ireland costs an hour of 60 USD on each of seven days and three hours today, 180: three times as much and 120 more. Virginia does the same at 3
/// an hour: 9 against 3, three times as much and 6 more, which is no matter. All of it is of one model: 189 against 63.
#[tokio::test]
async fn what_costs_more_than_it_did_is_found_without_a_budget() {
    let world = ten_past_noon(0).await;
    world
        .write(
            &PRICES,
            &[long_since(INF2, REGION, "60", NOON - 60 * DAY), long_since(INF2, "us-east-1", "3", NOON - 60 * DAY)],
        )
        .await;
    for (host, region) in [("i-1", REGION), ("i-2", "us-east-1")] {
        let days = (-7..=-1).flat_map(|days| an_hour(host, region, days));
        let today = seen(host, INF2, -180, 0).into_iter().map(|row| with(row, json!({"region": region})));
        world.write(&DEVICES, &days.chain(today).collect::<Vec<_>>()).await;
    }
    let sql = "SELECT dimension, value, region, day_usd, before_usd, more_usd, day_ratio, is_anomaly FROM anomalies ORDER BY dimension, value";
    let expected = json!([
        ["fleet", "", null, "189.000000000000", 63.0, 126.0, 3.0, true],
        ["model", "m", null, "189.000000000000", 63.0, 126.0, 3.0, true],
        ["region", REGION, REGION, "180.000000000000", 60.0, 120.0, 3.0, true],
        ["region", "us-east-1", "us-east-1", "9.000000000000", 3.0, 6.0, 3.0, false]
    ]);
    assert_eq!(json!(world.rows(sql).await), expected);
    world.query.fleet.stand().await;
    let page = world.query.fleet.page(crate::fleet::Exemplars::Left).await;
    for line in [
        r#"tokenwatt_spend_anomalies{dimension="region"} 1"#,
        r#"tokenwatt_spend_anomaly_usd_per_day{dimension="region"} 120"#,
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
    }
}

/// Two hosts cost 60 each in November, of which one is in a bill: 60 at list, 30 effectively, 6 invoiced. The other's list cost is the book's. Spent are
/// 30 + 60. In October one cost 60, and no bill says it.
#[tokio::test]
async fn a_month_says_how_much_of_it_is_billed() {
    let world = ten_past_noon(0).await;
    world.write(&PRICES, &[long_since(INF2, REGION, "60", NOON - 60 * DAY)]).await;
    let hours = [an_hour("i-1", REGION, 0), an_hour("i-2", REGION, 0), an_hour("i-1", REGION, -31)];
    world.write(&DEVICES, &hours.concat()).await;
    let bill = json!({"time": NOON - HOUR, "charge_from": NOON - HOUR, "charge_to": NOON});
    world.write(&BILLING, &[charge("i-1", INF2, "on_demand", 1.0, ["60", "30", "6"], bill)]).await;
    let sql = "SELECT period, known_until, cost_usd, spent_usd, list_cost_usd, effective_cost_usd, billed_cost_usd, list_share, effective_share, billed_share \
        FROM cost_per_month WHERE cost_usd > 0 ORDER BY time DESC";
    let usd = |usd: &str| format!("{usd}.000000000000");
    let expected = json!([
        [
            "month to date",
            "2026-11-29T12:00:00.000000Z",
            usd("120"),
            usd("90"),
            usd("120"),
            usd("30"),
            usd("6"),
            1.0,
            0.5,
            0.5
        ],
        ["last month", "2026-10-29T12:00:00.000000Z", usd("60"), usd("60"), usd("60"), null, null, 1.0, 0.0, 0.0]
    ]);
    assert_eq!(json!(world.rows(sql).await), expected);
}

/// A host that a list has costs 60 USD an hour in a region of which nothing is heard; another region was heard until noon, ten minutes ago. The
/// silent region's budget is spent, and silent all the same.
#[tokio::test]
async fn what_is_paid_for_in_silence_is_on_metrics() {
    let world = ten_past_noon(0).await;
    world
        .write(
            &PRICES,
            &[long_since(INF2, REGION, "60", NOON - 60 * DAY), long_since(INF2, "us-east-1", "60", NOON - 60 * DAY)],
        )
        .await;
    world.write(&DEVICES, &an_hour("i-1", "us-east-1", 0)).await;
    let listed = json!({"time": NOON - DAY, "effective_from": NOON - DAY, "host_id": "i-9", "host_type": INF2, "region": REGION, "option": "on_demand",
        "source": "assets", "as_of": "2026-11-01", "list": "assets"});
    world.write(&INVENTORY, &[listed]).await;
    world.write(&BUDGETS, &[budget("a", REGION, "100000"), budget("b", "us-east-1", "100000")]).await;
    let sql = "SELECT name, spent_usd > 0, newest_cost, status FROM budget_status ORDER BY name";
    let expected = json!([
        ["a", true, null, "silent: nothing heard for three hours"],
        ["b", true, "2026-11-29T11:00:00.000000Z", "within"]
    ]);
    assert_eq!(json!(world.rows(sql).await), expected);
    world.query.fleet.stand().await;
    let page = world.query.fleet.page(crate::fleet::Exemplars::Left).await;
    for line in [
        r#"tokenwatt_silent_hosts{region="eu-west-1"} 1"#,
        r#"tokenwatt_silent_cost_usd_per_hour{region="eu-west-1"} 60"#,
        r#"tokenwatt_region_data_lag_seconds{region="us-east-1"} 600"#,
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
    }
    assert!(!page.contains(r#"region_data_lag_seconds{region="eu-west-1""#), "{page}");
}
