//! Golden cases of price and bill. Each answer is worked out by hand in the comment above it.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use service::{Deps, clock::Clock};
use telemetry::table::{
    BILLING, BUDGETS, DEVICES, DISCOUNTS, EXCHANGE_RATES, INVENTORY, NODES, POWER_MODELS, PRICES, REQUESTS, TOKENS,
};

use super::world::{NOON, World};

pub(super) const MINUTE: i64 = 60_000_000;
pub(super) const HOUR: i64 = 60 * MINUTE;
pub(super) const REGION: &str = "eu-west-1";
pub(super) const INF2: &str = "inf2.48xlarge";

/// A sample of an engine that does nothing: the host is there.
fn sample(at_us: i64, host: &str, kind: &str, more: Value) -> Value {
    let sample = json!({
        "time": at_us, "kind": "engine", "region": REGION, "model": "m", "host_id": host, "host_type": kind,
        "instance": format!("{host}/0"), "chips": 12, "busy_us": 0, "padding_us": 0,
    });
    with(sample, more)
}

pub(super) fn with(mut row: Value, more: Value) -> Value {
    let (Some(fields), Value::Object(more)) = (row.as_object_mut(), more) else { panic!("objects") };
    fields.extend(more);
    row
}

/// Samples at the boundaries of minutes `from..=to` after noon: whole minutes `from..to` are charged.
pub(super) fn seen(host: &str, kind: &str, from: i64, to: i64) -> Vec<Value> {
    (from..=to).map(|minute| sample(NOON + minute * MINUTE, host, kind, json!({}))).collect()
}

pub(super) fn price(kind: &str, option: &str, usd_per_hour: &str, more: Value) -> Value {
    let price = json!({
        "time": NOON - 24 * HOUR, "effective_from": NOON - 24 * HOUR, "host_type": kind, "region": REGION, "option": option,
        "usd_per_hour": usd_per_hour, "currency": "USD", "confidence": "published", "as_of": "2026-11-01", "source": "list",
    });
    with(price, more)
}

/// A charge of a host's own time from noon on.
pub(super) fn charge(
    host: &str,
    kind: &str,
    option: &str,
    hours: f64,
    [list, effective, billed]: [&str; 3],
    more: Value,
) -> Value {
    let charge = json!({
        "time": NOON, "charge_from": NOON, "charge_to": NOON + HOUR, "region": REGION, "host_id": host, "resource_id": host,
        "host_type": kind, "option": option, "charge_kind": "host_time", "quantity": hours, "currency": "USD",
        "list_cost": list, "effective_cost": effective, "billed_cost": billed, "bill": "AWS/1/2026-11", "provider": "AWS",
        "account": "1", "period": "2026-11", "charge_category": "usage", "imported_at": NOON + 24 * HOUR,
    });
    with(charge, more)
}

/// The hour from noon on.
pub(super) const RANGE: &str = "time >= TIMESTAMP '2026-11-29T12:00:00Z' AND time < TIMESTAMP '2026-11-29T13:00:00Z'";

/// The amounts of the only row of `bill_by_host` in that hour, and its finding. The parts add up to what the bill says.
async fn beside_the_bill(world: &World) -> Vec<Value> {
    let sql = format!(
        "SELECT seen_us / 60000000, paid_us / 60000000, estimated_usd, unseen_usd, unexplained_usd, discount_usd, effective_usd, \
         timing_usd, billed_usd, finding, estimated_usd + unseen_usd + unexplained_usd - discount_usd = effective_usd, \
         effective_usd + timing_usd = billed_usd \
         FROM bill_by_host WHERE {RANGE}"
    );
    let mut rows = world.rows(&sql).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    let mut row = rows.remove(0);
    let sums = row.split_off(10);
    assert!(sums.iter().all(|sum| *sum != json!(false)), "parts do not add up: {row:?}");
    row
}

/// A spot host that existed for half an hour, of which telemetry saw 20 minutes.
///
/// Estimate: 3.98 USD/h ÷ 60 = 0.066333333333 a minute (12 decimals), × 20 = 1.32666666666. The bill: 0.5 h × 3.98 = 1.99. Unseen are
/// 30 − 20 minutes of 30: 1.99 ÷ 3 = 0.663333333333. 1.99 − 1.32666666666 − 0.663333333333 leaves 0.000000000007, the decimals that the
/// minutes lost. A spot price holds its discount already.
#[tokio::test]
async fn a_spot_host_for_part_of_an_hour() {
    let world = World::new().await;
    world
        .write(&PRICES, &[price(INF2, "on_demand", "16.22658", json!({})), price(INF2, "spot", "3.98", json!({}))])
        .await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 20)).await;
    world.write(&BILLING, &[charge("i-1", INF2, "spot", 0.5, ["8.11329", "1.99", "1.99"], json!({}))]).await;
    let minutes = format!(
        "SELECT \"option\", option_source, basis, count(*), sum(cost_usd) FROM node_cost WHERE {RANGE} GROUP BY 1, 2, 3"
    );
    let expected = [json!("spot"), json!("bill"), json!("list, spot"), json!(20), json!("1.326666666660")];
    assert_eq!(world.rows(&minutes).await, [expected], "the minutes that nobody saw are not made up");
    let expected = json!([
        20,
        30,
        "1.326666666660",
        "0.663333333333",
        "0.000000000007",
        "0.000000000000",
        "1.990000000000",
        "0.000000000000",
        "1.990000000000",
        "explained"
    ]);
    assert_eq!(json!(beside_the_bill(&world).await), expected);
}

/// A p5.48xlarge that a savings plan covers for the whole hour; the book knows the on-demand price alone.
///
/// List 55.04, amortised 31.464, billed 0 (the plan is invoiced elsewhere): timing = 0 − 31.464. In the book there is no price under
/// that option, so nothing is estimated and the bill's own rate is taken: 31.464 an hour, beside list 55.04 and
/// billed 0.
#[tokio::test]
async fn a_host_that_a_savings_plan_covers() {
    let world = World::new().await;
    let p5 = "p5.48xlarge";
    world.write(&PRICES, &[price(p5, "on_demand", "55.04", json!({}))]).await;
    world.write(&DEVICES, &seen("i-5", p5, 0, 60)).await;
    world.write(&BILLING, &[charge("i-5", p5, "savings_plan", 1.0, ["55.04", "31.464", "0"], json!({}))]).await;
    let minutes = format!(
        "SELECT basis, price_source, sum(cost_usd), sum(list_cost_usd), sum(effective_cost_usd), sum(billed_cost_usd) FROM node_cost WHERE {RANGE} \
         GROUP BY 1, 2"
    );
    let thirty = "31.464000000000";
    let expected = json!([["bill, savings-plan", "bill", thirty, "55.040000000000", thirty, "0.000000000000"]]);
    assert_eq!(json!(world.rows(&minutes).await), expected);
    let row = json!(beside_the_bill(&world).await);
    let expected = json!([
        60,
        60,
        null,
        "0.000000000000",
        null,
        "0.000000000000",
        "31.464000000000",
        "-31.464000000000",
        "0.000000000000",
        "no price in the book"
    ]);
    assert_eq!(row, expected);
    // once the book has the plan's rate, of which the bill charges 0.064 more an hour: 31.464 − 31.4
    world.write(&PRICES, &[price(p5, "savings_plan", "31.4", json!({"book": "contract"}))]).await;
    let row = beside_the_bill(&world).await;
    // 31.4 ÷ 60 = 0.523333333333 a minute, × 60 = 31.39999999998
    assert_eq!(json!(row[2..5]), json!(["31.399999999980", "0.000000000000", "0.064000000020"]));
    assert_eq!(row[9], json!("explained"), "0.2 % is within 1 %");
}

/// A host that its bill says was bought on demand, at a negotiated price: list 16.22658, effective 14.603922, so the discount is
/// 1.622658; 60 × 0.270443 is the list price and nothing is unexplained.
#[tokio::test]
async fn a_negotiated_discount_has_a_name() {
    let world = World::new().await;
    world.write(&PRICES, &[price(INF2, "on_demand", "16.22658", json!({}))]).await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    let cost = ["16.22658", "14.603922", "14.603922"];
    let traffic = json!({"charge_kind": "other", "quantity": 3.5, "effective_cost": "0.315", "list_cost": "0.315", "billed_cost": "0.315", "option": null});
    let rows =
        [charge("i-1", INF2, "on_demand", 1.0, cost, json!({})), charge("i-1", INF2, "on_demand", 1.0, cost, traffic)];
    world.write(&BILLING, &rows).await;
    let expected = json!([
        60,
        60,
        "16.226580000000",
        "0.000000000000",
        "0.000000000000",
        "1.622658000000",
        "14.603922000000",
        "0.000000000000",
        "14.603922000000",
        "explained"
    ]);
    assert_eq!(json!(beside_the_bill(&world).await), expected);
    let other = world.rows(&format!("SELECT other_usd FROM bill_by_host WHERE {RANGE}")).await;
    assert_eq!(other, [[json!("0.315000000000")]], "traffic is beside the host's time, not in it");
}

/// A price that changes in the middle of the hour: 30 minutes at 16.22658 ÷ 60 = 0.270443 are 8.11329, 30 at 20 ÷ 60 = 0.333333333333 are
/// 9.99999999999, together 18.11328999999.
#[tokio::test]
async fn a_price_that_changes_in_mid_window() {
    let world = World::new().await;
    let change = NOON + 30 * MINUTE;
    let later = price(INF2, "on_demand", "20", json!({"time": change, "effective_from": change}));
    world.write(&PRICES, &[price(INF2, "on_demand", "16.22658", json!({})), later]).await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    let sql =
        format!("SELECT usd_per_hour, count(*), sum(cost_usd) FROM node_cost WHERE {RANGE} GROUP BY 1 ORDER BY 1");
    let expected = json!([["16.226580000000", 30, "8.113290000000"], ["20.000000000000", 30, "9.999999999990"]]);
    assert_eq!(json!(world.rows(&sql).await), expected);
    let whole = world.rows(&format!("SELECT sum(cost_usd) FROM cost_per_region WHERE {RANGE}")).await;
    assert_eq!(whole, [[json!("18.113289999990")]]);
}

/// A price ends where it says so, an operator's book outranks newer rows that come with Tokenwatt, and a zone's price its region's.
#[tokio::test]
async fn the_price_that_holds_is_taken() {
    let of_zone = |host: &str, zone: &str| {
        (0..=2).map(|minute| sample(NOON + minute * MINUTE, host, INF2, json!({"zone": zone}))).collect::<Vec<_>>()
    };
    for (more, expected) in [
        (vec![], "10.000000000000"),
        (vec![json!({"usd_per_hour": "9", "effective_from": NOON - HOUR})], "9.000000000000"),
        (
            vec![json!({"usd_per_hour": "9", "effective_from": NOON - HOUR, "effective_to": NOON - MINUTE})],
            "10.000000000000",
        ),
        (
            vec![
                json!({"usd_per_hour": "8", "book": "mine", "effective_from": NOON - 23 * HOUR}),
                json!({"usd_per_hour": "9", "effective_from": NOON - HOUR}),
            ],
            "8.000000000000",
        ),
        (
            vec![
                json!({"usd_per_hour": "7", "zone": "eu-west-1a"}),
                json!({"usd_per_hour": "9", "effective_from": NOON - HOUR}),
            ],
            "7.000000000000",
        ),
        (vec![json!({"usd_per_hour": "7", "zone": "eu-west-1b"})], "10.000000000000"),
    ] {
        let world = World::new().await;
        let rows: Vec<_> = more.iter().map(|more| price(INF2, "on_demand", "0", more.clone())).collect();
        world.write(&PRICES, &[vec![price(INF2, "on_demand", "10", json!({}))], rows].concat()).await;
        world.write(&DEVICES, &of_zone("i-1", "eu-west-1a")).await;
        let found = world.rows(&format!("SELECT DISTINCT usd_per_hour FROM node_cost WHERE {RANGE}")).await;
        assert_eq!(found, [[json!(expected)]], "{more:?}");
    }
}

/// A region whose price nobody knows: its host is in no sum and on the work list; the other one costs 2 × 0.270443 in two minutes.
#[tokio::test]
async fn a_region_with_unknown_price() {
    let world = World::new().await;
    world.write(&PRICES, &[price(INF2, "on_demand", "16.22658", json!({}))]).await;
    let away = (0..=2).map(|minute| sample(NOON + minute * MINUTE, "i-2", INF2, json!({"region": "me-south-1"})));
    world.write(&DEVICES, &seen("i-1", INF2, 0, 2).into_iter().chain(away).collect::<Vec<_>>()).await;
    let sql = format!(
        "SELECT region, sum(cost_usd), max(unpriced_hosts) FROM cost_per_region WHERE {RANGE} GROUP BY region ORDER BY region"
    );
    assert_eq!(json!(world.rows(&sql).await), json!([["eu-west-1", "0.540886000000", 0], ["me-south-1", null, 1]]));
    let sql = format!(
        "SELECT region, host_type, \"option\", reason, hosts, host_id, option_source FROM unpriced WHERE {RANGE}"
    );
    let reason = "no row of `prices` in force for inf2.48xlarge, on-demand, in me-south-1";
    assert_eq!(json!(world.rows(&sql).await), json!([["me-south-1", INF2, "on_demand", reason, 1, "i-2", "assumed"]]));
}

/// A host that served one model for ten minutes and another for ten: each has 10 × 0.270443 = 2.70443, and the host's cost is theirs.
#[tokio::test]
async fn a_host_that_changes_hands_between_models() {
    let world = World::new().await;
    world.write(&PRICES, &[price(INF2, "on_demand", "16.22658", json!({}))]).await;
    let of = |model: &str, replica: &str, from: i64, to: i64| -> Vec<Value> {
        let more = json!({"model": model, "instance": replica});
        (from..=to).map(|minute| sample(NOON + minute * MINUTE, "i-1", INF2, more.clone())).collect()
    };
    world.write(&DEVICES, &[of("a", "i-1/0", 0, 10), of("b", "i-1/1", 10, 20)].concat()).await;
    let sql = format!("SELECT model, sum(cost_usd) FROM cost_per_region WHERE {RANGE} GROUP BY model ORDER BY model");
    assert_eq!(json!(world.rows(&sql).await), json!([["a", "2.704430000000"], ["b", "2.704430000000"]]));
    let node = world.rows(&format!("SELECT sum(cost_usd) FROM node_cost WHERE {RANGE}")).await;
    assert_eq!(node, [[json!("5.408860000000")]]);
}

/// A host that was paid for all hour and never heard of costs all the same: 60 × 0.270443 = 16.22658, in halves of the hour as in the
/// whole. One that spoke for ten minutes is silent for fifty.
#[tokio::test]
async fn a_silent_host_is_paid_for() {
    let world = World::new().await;
    world.write(&PRICES, &[price(INF2, "on_demand", "16.22658", json!({}))]).await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 10)).await;
    let cost = ["16.22658"; 3];
    world
        .write(
            &BILLING,
            &[
                charge("i-1", INF2, "on_demand", 1.0, cost, json!({})),
                charge("i-9", INF2, "on_demand", 1.0, cost, json!({})),
            ],
        )
        .await;
    let sql = |range: &str| {
        format!(
            "SELECT host_id, is_silent, count(*), sum(cost_usd) FROM node_cost WHERE {range} GROUP BY 1, 2 ORDER BY 1, 2"
        )
    };
    let expected = json!([
        ["i-1", false, 10, "2.704430000000"],
        ["i-1", true, 50, "13.522150000000"],
        ["i-9", true, 60, "16.226580000000"]
    ]);
    assert_eq!(json!(world.rows(&sql(RANGE)).await), expected);
    let half =
        "host_id = 'i-9' AND time >= TIMESTAMP '2026-11-29T12:30:00Z' AND time < TIMESTAMP '2026-11-29T13:00:00Z'";
    assert_eq!(json!(world.rows(&sql(half)).await), json!([["i-9", true, 30, "8.113290000000"]]));
    let whole = world.rows(&format!("SELECT sum(cost_usd) FROM cost_per_region WHERE {RANGE}")).await;
    assert_eq!(whole, [[json!("32.453160000000")]]);
    let found = world
        .rows(&format!("SELECT host_id, finding, unseen_usd FROM bill_by_host WHERE {RANGE} ORDER BY host_id"))
        .await;
    // i-1: 50 of 60 minutes of 16.22658
    let silent = "silent: paid for, nothing heard of it";
    assert_eq!(json!(found), json!([["i-1", "explained", "13.522150000000"], ["i-9", silent, "16.226580000000"]]));
}

/// Telemetry says what a host is until a bill does; a host in no bill says so.
#[tokio::test]
async fn a_bill_knows_better_than_telemetry() {
    let world = World::new().await;
    world.write(&PRICES, &[price(INF2, "on_demand", "16", json!({})), price(INF2, "spot", "4", json!({}))]).await;
    world.write(&DEVICES, &[seen("i-1", INF2, 0, 1), seen("i-2", INF2, 0, 1), seen("i-3", INF2, 0, 1)].concat()).await;
    let node = |host: &str| json!({"time": NOON, "host_id": host, "capacity_type": "spot", "first_seen": NOON, "last_seen": NOON + MINUTE});
    world.write(&NODES, &[node("i-1"), node("i-2")]).await;
    world.write(&BILLING, &[charge("i-1", INF2, "on_demand", 0.1, ["1.6"; 3], json!({}))]).await;
    let sql = format!("SELECT host_id, \"option\", option_source, basis FROM node_cost WHERE {RANGE} ORDER BY host_id");
    let expected = json!([
        ["i-1", "on_demand", "bill", "list, on-demand"],
        ["i-2", "spot", "telemetry", "list, spot"],
        ["i-3", "on_demand", "assumed", "list, assumed on-demand"]
    ]);
    assert_eq!(json!(world.rows(&sql).await), expected);
    let sql = format!("SELECT host_id, finding FROM bill_by_host WHERE {RANGE} ORDER BY host_id");
    let expected = json!([["i-1", "explained"], ["i-2", "not in any bill"], ["i-3", "not in any bill"]]);
    assert_eq!(json!(world.rows(&sql).await), expected);
}

/// A list price that the bill contradicts, one that is old, and one about which there is nothing to say. The bill's rate:
/// 11.2 USD ÷ 0.5 h = 22.4; 22.4 ÷ 16 − 1 = 0.4.
#[tokio::test]
async fn prices_are_held_against_the_bill() {
    let world = World::new().await;
    let old = json!({"as_of": "2026-01-01"});
    let prices = [
        price(INF2, "on_demand", "16", json!({})),
        price("p5.48xlarge", "on_demand", "98.32", old),
        price("g6.xlarge", "on_demand", "0.8", json!({})),
    ];
    world.write(&PRICES, &prices).await;
    let hosts = [seen("i-1", INF2, 0, 2), seen("i-2", "p5.48xlarge", 0, 2), seen("i-3", "g6.xlarge", 0, 2)];
    world.write(&DEVICES, &hosts.concat()).await;
    world.write(&BILLING, &[charge("i-1", INF2, "on_demand", 0.5, ["11.2", "10", "10"], json!({}))]).await;
    let sql = "SELECT host_type, billed_usd_per_hour, round(difference, 6), age_days, warning FROM price_check \
               WHERE time >= TIMESTAMP '2026-11-29T00:00:00Z' ORDER BY host_type";
    // from the first of January to the 29th of November 2026 are 332 days, from the first of November 28
    let expected = json!([
        ["g6.xlarge", null, null, 28.0, null],
        [INF2, "22.400000000000", 0.4, 28.0, "contradicted by the bill"],
        ["p5.48xlarge", null, null, 332.0, "old"]
    ]);
    assert_eq!(json!(world.rows(sql).await), expected);
}

/// A host whose hour is half spot and half on demand: 2 USD for the one half are 4 an hour, 8 for the other 16, as the book has both. By one
/// option of the hour it would be 10 for an hour of it, and nothing for the other. Its image, charged by the hour too, makes no hour longer: then
/// the hours do not fit into the period, and all of it is of the option with the most.
#[tokio::test]
async fn a_price_is_held_against_the_bill_of_its_own_option() {
    let world = World::new().await;
    let book = [price(INF2, "on_demand", "16", json!({})), price(INF2, "spot", "4", json!({}))];
    world.write(&PRICES, &book).await;
    world.write(&DEVICES, &[seen("i-1", INF2, 0, 60), seen("i-2", INF2, 0, 2)].concat()).await;
    let node = json!({"time": NOON, "host_id": "i-2", "capacity_type": "spot", "first_seen": NOON, "last_seen": NOON + MINUTE});
    world.write(&NODES, &[node]).await;
    let half = |option: &str, usd: &str| charge("i-1", INF2, option, 0.5, [usd; 3], json!({}));
    world.write(&BILLING, &[half("spot", "2"), half("on_demand", "8")]).await;
    let sql = "SELECT \"option\", usd_per_hour, billed_usd_per_hour, difference, warning FROM price_check \
               WHERE time >= TIMESTAMP '2026-11-29T00:00:00Z' ORDER BY 1";
    let row = |option: &str, usd: &str| json!([option, usd, usd, 0.0, null]);
    let expected = json!([row("on_demand", "16.000000000000"), row("spot", "4.000000000000")]);
    assert_eq!(json!(world.rows(sql).await), expected);
    world
        .write(
            &BILLING,
            &[
                charge("i-3", INF2, "spot", 1.0, ["4"; 3], json!({})),
                charge("i-3", INF2, "on_demand", 0.5, ["1"; 3], json!({})),
            ],
        )
        .await;
    // spot: 2 + 5 USD for half an hour and an hour
    let rows = world.rows(sql).await;
    assert_eq!(json!([rows[0][2], rows[1][2]]), json!(["16.000000000000", "4.666666666667"]));
}

/// Amounts in another currency are totals of their own and no dollars of any host.
#[tokio::test]
async fn another_currency_stays_apart() {
    let world = World::new().await;
    let euro = charge("i-1", INF2, "on_demand", 1.0, ["15"; 3], json!({"currency": "EUR"}));
    world.write(&BILLING, &[charge("i-1", INF2, "on_demand", 1.0, ["16"; 3], json!({})), euro]).await;
    let sql = "SELECT currency, charges, billed_cost FROM bill_totals WHERE time >= TIMESTAMP '2026-11-29T00:00:00Z' ORDER BY currency";
    assert_eq!(json!(world.rows(sql).await), json!([["EUR", 1, "15.000000000000"], ["USD", 1, "16.000000000000"]]));
    let hosts = world.rows(&format!("SELECT effective_usd, without_rate FROM bill_by_host WHERE {RANGE}")).await;
    assert_eq!(hosts, [[json!("16.000000000000"), json!("EUR")]]);
}

/// A host at 16 USD an hour by the bill, whose traffic costs 2 EUR, and one whose time is charged in euros alone. Without a rate neither is in a sum, and
/// both are named wherever there is one; at 1.1 nothing is left to name.
#[tokio::test]
async fn what_has_no_rate_is_named_beside_every_sum() {
    let world = World::new().await;
    world.write(&PRICES, &[price(INF2, "on_demand", "20", json!({}))]).await;
    world.write(&DEVICES, &[seen("i-1", INF2, 0, 60), seen("i-2", INF2, 0, 60)].concat()).await;
    let traffic = json!({"charge_kind": "other", "currency": "EUR", "option": null});
    let rows = [
        charge("i-1", INF2, "on_demand", 1.0, ["16"; 3], json!({})),
        charge("i-1", INF2, "on_demand", 3.5, ["2"; 3], traffic),
        charge("i-2", INF2, "on_demand", 1.0, ["15"; 3], json!({"currency": "EUR"})),
    ];
    world.write(&BILLING, &rows).await;
    let sql = |columns: &str, view: &str| format!("SELECT DISTINCT {columns} FROM {view} WHERE {RANGE} ORDER BY 1, 2");
    let no_rate = "EUR, and no row of `exchange_rates` is in force";
    let findings = sql("host_id, without_rate, paid_us / 60000000, seen_us / 60000000, finding", "bill_by_host");
    let expected = json!([
        ["i-1", "EUR", 60, 60, "the price differs"],
        ["i-2", "EUR", null, 60, format!("its bill is in {no_rate}")]
    ]);
    assert_eq!(json!(world.rows(&findings).await), expected);
    let unpriced = sql("host_id, reason", "unpriced");
    let expected = json!([
        ["i-1", format!("what is charged beside its time is in {no_rate}")],
        ["i-2", format!("its bill is in {no_rate}")]
    ]);
    assert_eq!(json!(world.rows(&unpriced).await), expected);
    let basis = |suffix: &str| {
        json!([
            ["i-1", format!("list, on-demand{suffix}")],
            ["i-2", format!("list, {}on-demand{suffix}", if suffix.is_empty() { "" } else { "assumed " })]
        ])
    };
    for view in ["node_cost", "costs_hours"] {
        assert_eq!(
            json!(world.rows(&sql("host_id, basis", view)).await),
            basis("; charges in EUR have no rate"),
            "{view}"
        );
    }
    let page = world.rows(&sql("basis, 1", "cost_per_region")).await;
    assert_eq!(
        page[0][0],
        json!("list, assumed on-demand; charges in EUR have no rate, list, on-demand; charges in EUR have no rate")
    );
    let rate = json!({"time": NOON - HOUR, "effective_from": NOON - HOUR, "currency": "EUR", "usd_per_unit": "1.1", "source": "ECB"});
    world.write(&EXCHANGE_RATES, &[rate]).await;
    assert_eq!(json!(world.rows(&sql("host_id, basis", "node_cost")).await), basis(""));
    assert_eq!(world.rows(&unpriced).await, Vec::<Vec<Value>>::new());
    let left = world.rows(&format!("SELECT count(without_rate) FROM bill_by_host WHERE {RANGE}")).await;
    assert_eq!(left, [[json!(0)]]);
}

/// Ten minutes after noon of 2026-11-29, for ever.
struct TenPastNoon;

impl Clock for TenPastNoon {
    fn now_ns(&self) -> i64 {
        (NOON + 10 * MINUTE) * 1_000
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// A region's month at a dollar a minute: an hour two days ago and one that ended ten minutes ago are 120 USD. The last 24 hours had 60.
/// Until the first of December are 35 h 50 min: 120 + 60 × 35.8333… ÷ 24 = 209.583333333333. Of 200 USD 80 are left, which last 80 ÷ 60
/// days = 32 h: until the 30th at 20:10. 100 USD are over, 1,000 are not reached, and of acme nothing is known.
#[tokio::test]
async fn a_budget_says_when_it_is_exhausted() {
    let world = World::at(Deps::new(Arc::new(TenPastNoon))).await;
    world
        .write(
            &PRICES,
            &[price(INF2, "on_demand", "60", json!({"time": NOON - 72 * HOUR, "effective_from": NOON - 72 * HOUR}))],
        )
        .await;
    world.write(&DEVICES, &[seen("i-1", INF2, -48 * 60 - 60, -48 * 60), seen("i-1", INF2, -60, 0)].concat()).await;
    let budget = |name: &str, key: &str, value: &str, usd: &str, from_us: i64| {
        json!({"time": from_us, "effective_from": from_us, "name": name, "allocation_key": key, "allocation_value": value, "amount": usd,
            "currency": "USD", "period": "month", "enforcement": "soft", "source": "tokenwatt.toml"})
    };
    let rows = [
        budget("a", "region", REGION, "200", NOON - HOUR),
        budget("b", "region", REGION, "1", NOON - 2 * HOUR),
        budget("b", "region", REGION, "100", NOON - HOUR),
        budget("c", "model", "m", "1000", NOON - HOUR),
        budget("d", "tenant", "acme", "1000", NOON - HOUR),
    ];
    world.write(&BUDGETS, &rows).await;
    let sql = "SELECT name, spent_usd, burn_usd_per_day, forecast_usd, forecast_low_usd, exhausted_at, status, round(share, 6), basis \
               FROM budget_status ORDER BY name";
    let spent = ["120.000000000000", "60.000000000000", "209.583333333333", "209.583333333333"];
    let row = |name: &str, exhausted: Value, status: &str, share: f64| {
        json!([name, spent[0], spent[1], spent[2], spent[3], exhausted, status, share, "list, assumed on-demand"])
    };
    let expected = json!([
        row("a", json!("2026-11-30T20:10:00.000000Z"), "will be over", 0.6),
        row("b", json!(null), "over", 1.2),
        row("c", json!(null), "within", 0.12),
        ["d", null, null, null, null, null, "nothing known", null, null]
    ]);
    let found = json!(world.rows(sql).await);
    assert_eq!(found, expected);
    // the same on /metrics, where what is unknown is absent: 29 November 2026 at noon is second 1795953600
    world.query.fleet.stand().await;
    let page = world.query.fleet.page(crate::fleet::Exemplars::Left).await;
    for line in [
        r#"tokenwatt_budget_limit_usd{budget="a",key="region",enforcement="soft"} 200"#,
        r#"tokenwatt_budget_spent_usd{budget="b",key="region",enforcement="soft"} 120"#,
        r#"tokenwatt_budget_burn_usd_per_day{budget="a",key="region",enforcement="soft"} 60"#,
        r#"tokenwatt_budget_forecast_usd{budget="a",key="region",enforcement="soft",band="low"} 209.583333333333"#,
        r#"tokenwatt_budget_exhausted_timestamp_seconds{budget="a",key="region",enforcement="soft"} 1796069400"#,
        r#"tokenwatt_budget_limit_usd{budget="d",key="tenant",enforcement="soft"} 1000"#,
        r#"tokenwatt_feed_asked_timestamp_seconds{feed="budgets"} 1795954200"#,
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
    }
    for absent in [r#"spent_usd{budget="d""#, r#"exhausted_timestamp_seconds{budget="b""#, "acme", "tokenwatt_billing_"]
    {
        assert!(!page.contains(absent), "{absent} in\n{page}");
    }
}

/// 0.0002 USD a day of 25,000 last 125 million days, for which microseconds have no number: no date, and no other budget's row is lost. What is
/// over stays over when its costs stop, and only what is not is silent.
#[tokio::test]
async fn a_budget_that_lasts_for_ages_has_no_date() {
    let world = World::at(Deps::new(Arc::new(TenPastNoon))).await;
    let rate = |usd: &str, region: &str| {
        price(
            INF2,
            "on_demand",
            usd,
            json!({"region": region, "time": NOON - 72 * HOUR, "effective_from": NOON - 72 * HOUR}),
        )
    };
    world.write(&PRICES, &[rate("0.0002", REGION), rate("60", "us-east-1")]).await;
    let stopped =
        (-48 * 60..=-47 * 60).map(|minute| sample(NOON + minute * MINUTE, "i-2", INF2, json!({"region": "us-east-1"})));
    world.write(&DEVICES, &seen("i-1", INF2, -60, 0).into_iter().chain(stopped).collect::<Vec<_>>()).await;
    let budget = |name: &str, value: &str, usd: &str, period: &str| {
        let key = if value == "acme" { "tenant" } else { "region" };
        json!({"time": NOON - HOUR, "effective_from": NOON - HOUR, "name": name, "allocation_key": key, "allocation_value": value, "amount": usd,
            "currency": "USD", "period": period, "enforcement": "soft", "source": "tokenwatt.toml"})
    };
    let rows = [
        budget("a", REGION, "25000", "30d"),
        budget("b", REGION, "25000", "month"),
        budget("c", "us-east-1", "1", "month"),
        budget("d", "us-east-1", "25000", "month"),
        budget("e", "acme", "1", "month"),
    ];
    world.write(&BUDGETS, &rows).await;
    let found = world.rows("SELECT name, exhausted_at, status, idle_policy FROM budget_status ORDER BY name").await;
    let expected = json!([
        ["a", null, "within", "show"],
        ["b", null, "within", "show"],
        ["c", null, "over", "show"],
        ["d", null, "silent: nothing heard for three hours", "show"],
        ["e", null, "nothing known", "hide"]
    ]);
    assert_eq!(json!(found), expected);
}

/// A charge that ends in the future reaches until now, and one that stands for longer than a month is not a host's time.
#[tokio::test]
async fn bills_reach_until_now_at_most() {
    let world = World::at(Deps::new(Arc::new(TenPastNoon))).await;
    let other = |from_us: i64, to_us: i64| {
        let more = json!({"provider": "other", "time": from_us, "charge_from": from_us, "charge_to": to_us});
        charge("i-2", INF2, "reserved", 1.0, ["1"; 3], more)
    };
    let rows = [
        charge("i-1", INF2, "on_demand", 1.0, ["1"; 3], json!({})),
        other(NOON - 25 * HOUR, NOON - 24 * HOUR),
        other(NOON - HOUR, NOON + 40 * 24 * HOUR),
    ];
    world.write(&BILLING, &rows).await;
    world.query.fleet.stand().await;
    let page = world.query.fleet.page(crate::fleet::Exemplars::Left).await;
    for line in [
        r#"tokenwatt_billing_charged_until_timestamp_seconds{provider="AWS"} 1795954200"#,
        r#"tokenwatt_billing_charged_until_timestamp_seconds{provider="other"} 1795867200"#,
        r#"tokenwatt_billing_imported_timestamp_seconds{provider="AWS"} 1796040000"#,
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
    }
}

/// A host that nobody has a price or an option for is assumed to be on demand, not known to be.
#[tokio::test]
async fn an_assumed_option_is_none_without_a_price_either() {
    let world = World::new().await;
    world.write(&DEVICES, &seen("i-1", "custom-npu.8x", 0, 60)).await;
    let sql = format!("SELECT on_demand_hours, assumed_on_demand_hours FROM commitment_coverage WHERE {RANGE}");
    assert_eq!(world.rows(&sql).await, [[json!(0.0), json!(1.0)]]);
}

/// An hour of a host at 16 USD and of its image at 0.1 USD is one hour at 16.1.
#[tokio::test]
async fn what_is_charged_by_the_hour_beside_a_host_makes_no_second_hour() {
    let world = World::new().await;
    world.write(&PRICES, &[price(INF2, "on_demand", "16.1", json!({}))]).await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    let charges = [["16"; 3], ["0.1"; 3]].map(|cost| charge("i-1", INF2, "on_demand", 1.0, cost, json!({})));
    world.write(&BILLING, &charges).await;
    let row = json!(beside_the_bill(&world).await);
    assert_eq!(json!([row[1], row[3], row[9]]), json!([60, "0.000000000000", "explained"]));
    let listed = world.rows(&format!("SELECT sum(list_cost_usd) FROM node_cost WHERE {RANGE}")).await;
    assert_eq!(listed, [[json!("16.100000000000")]]);
    let rate =
        world.rows("SELECT billed_usd_per_hour FROM price_check WHERE time >= TIMESTAMP '2026-11-29T00:00:00Z'").await;
    assert_eq!(rate, [[json!("16.100000000000")]]);
}

/// An engine that is read every two minutes beside a meter that is read every ten seconds: two minutes are two minutes, in the one in which
/// the engine's step ends, whichever of them is asked for.
#[tokio::test]
async fn a_step_over_a_minutes_edge_is_charged_once() {
    let world = World::new().await;
    world.write(&PRICES, &[price(INF2, "on_demand", "60", json!({}))]).await;
    let meter = (0..=12).map(|step| {
        let more = json!({"kind": "accelerator", "device": "0", "power_w": 1.0, "busy_us": null, "padding_us": null, "instance": null});
        sample(NOON + step * 10_000_000, "i-1", INF2, more)
    });
    world
        .write(
            &DEVICES,
            &seen("i-1", INF2, 0, 0).into_iter().chain(seen("i-1", INF2, 2, 2)).chain(meter).collect::<Vec<_>>(),
        )
        .await;
    let sql = |range: &str| format!("SELECT charged_us, cost_usd FROM node_cost WHERE {range} AND charged_us > 0");
    assert_eq!(world.rows(&sql(RANGE)).await, [[json!(120_000_000), json!("2.000000000000")]]);
    let first = "time >= TIMESTAMP '2026-11-29T12:00:00Z' AND time < TIMESTAMP '2026-11-29T12:01:00Z'";
    assert!(world.rows(&sql(first)).await.is_empty());
}

/// A minute's cost is the minute's, whatever stretch it is asked in. From 12:00 on the host is heard of by a call every third minute, and each such
/// minute counts whole; it is sampled from 12:30 to 12:40 and at 13:10, for which the time between samples counts. It says `spot` of itself at 12:00
/// and nothing in the hour after.
#[tokio::test]
async fn a_minute_costs_the_same_in_whatever_stretch_it_is_asked() {
    let world = World::new().await;
    world.write(&PRICES, &[price(INF2, "on_demand", "60", json!({})), price(INF2, "spot", "6", json!({}))]).await;
    let call = |minute: i64| {
        json!({"time": NOON + minute * MINUTE + 30_000_000, "region": REGION, "model": "m", "measured_at": "server", "host_id": "i-1",
            "host_type": INF2, "trace_id": minute.to_string(), "span_id": "1", "e2e_s": 1.0})
    };
    world.write(&REQUESTS, &(0..4).map(|third| call(3 * third)).collect::<Vec<_>>()).await;
    let idle = |minute: i64| {
        let mut row = sample(NOON + minute * MINUTE, "i-1", INF2, json!({"kind": "accelerator", "device": "0"}));
        let fields = row.as_object_mut().expect("an object");
        fields.retain(|name, _| !["instance", "busy_us", "padding_us", "model"].contains(&name.as_str()));
        row
    };
    world.write(&DEVICES, &(30..=40).chain([70, 71]).map(idle).collect::<Vec<_>>()).await;
    let node = json!({"time": NOON, "host_id": "i-1", "capacity_type": "spot", "first_seen": NOON, "last_seen": NOON + MINUTE});
    world.write(&NODES, &[node]).await;
    let ask = async |from: i64, to: i64| {
        let at = |minute: i64| format!("TIMESTAMP '2026-11-29T{}:{:02}:00Z'", 12 + minute / 60, minute % 60);
        let sql = format!(
            "SELECT CAST(time AS BIGINT) / 60000000 - {}, \"option\", option_source, charged_us / 1000000, cost_usd FROM node_cost \
             WHERE time >= {} AND time < {} AND charged_us > 0 ORDER BY time",
            NOON / MINUTE,
            at(from),
            at(to)
        );
        world.rows(&sql).await
    };
    let whole = ask(0, 120).await;
    let calls = (0..4).map(|third| json!([3 * third, "spot", "telemetry", 60, "0.100000000000"]));
    let samples = (30..40).map(|minute| json!([minute, "spot", "telemetry", 60, "0.100000000000"]));
    let next = json!([70, "on_demand", "assumed", 60, "1.000000000000"]);
    assert_eq!(json!(whole), Value::Array(calls.chain(samples).chain([next]).collect()));
    for step in [1, 10, 45] {
        let mut parts = Vec::new();
        for from in (0..120).step_by(step) {
            parts.extend(ask(from, (from + step as i64).min(120)).await);
        }
        assert_eq!(parts, whole, "in steps of {step} minutes");
    }
}

/// A host without an engine, sampled every 120 s or every 90 s and billed for the whole hour: minutes without a sample are covered by the step over them,
/// and nothing is charged twice. 3,600 s are the bill: 16.22658.
#[tokio::test]
async fn a_step_over_a_minute_is_not_charged_beside_it() {
    for step_s in [120, 90, 60, 20] {
        let world = World::new().await;
        let meter = |tick: i64| {
            json!({"time": NOON + tick * step_s * 1_000_000, "region": REGION, "host_id": "i-1", "host_type": INF2, "kind": "accelerator",
                "device": "0", "power_w": 100.0})
        };
        world.write(&DEVICES, &(0..=3_600 / step_s).map(meter).collect::<Vec<_>>()).await;
        world.write(&BILLING, &[charge("i-1", INF2, "on_demand", 1.0, ["16.22658"; 3], json!({}))]).await;
        let sql = "SELECT sum(charged_us) / 1000000, sum(list_cost_usd) FROM node_cost WHERE time >= TIMESTAMP '2026-11-29T12:00:00Z'";
        assert_eq!(json!(world.rows(sql).await), json!([[3_600, "16.226580000000"]]), "{step_s} s");
    }
}

/// Plans of cost are large, and to plan them is most of what a small question takes: a host's minutes are looked at as few times as can be. Lines of
/// the physical plans, which were 167, 267, 82 and 916 where prices, flights and meters were joined to a second copy of what they are of; what a bill leaves of an hour
/// is shared by two windows of node_cost.
#[tokio::test]
async fn plans_of_cost_stay_small() {
    let world = World::new().await;
    // a table without rows is in no plan
    for table in [
        &BILLING,
        &DEVICES,
        &DISCOUNTS,
        &EXCHANGE_RATES,
        &INVENTORY,
        &NODES,
        &POWER_MODELS,
        &PRICES,
        &REQUESTS,
        &TOKENS,
    ] {
        world.write(table, &[json!({"time": NOON})]).await;
    }
    let mut found = Vec::new();
    for (view, most) in [("node_cost", 175), ("replica_cost", 330), ("host_energy", 140), ("raw.costs_hours", 1000)] {
        let rows = world.rows(&format!("EXPLAIN SELECT * FROM {view}")).await;
        let plan = rows.iter().find(|row| row[0] == json!("physical_plan")).and_then(|row| row[1].as_str());
        let lines = plan.expect("a plan").lines().count();
        found.push((view, lines, (20..=most).contains(&lines)));
    }
    assert!(found.iter().all(|(.., is_small)| *is_small), "{found:?}");
}
