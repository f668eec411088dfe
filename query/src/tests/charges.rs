//! Golden cases of what a bill says: corrections, refunds, charges over each other, and instants at edges. Each answer is worked out by hand in the
//! comment above it.

use serde_json::{Value, json};
use telemetry::contract::{QueryApi, SqlRequest};
use telemetry::table::{BILLING, BUDGETS, DEVICES, DISCOUNTS, INVENTORY, NODES, PRICES};

use super::cost::{HOUR, INF2, MINUTE, RANGE, REGION, charge, price, seen};
use super::rolling::Hand;
use super::world::{NOON, World};

/// List, effective and billed cost of the hour from noon on, and the estimate.
const SIDES: &str = "SELECT sum(cost_usd), sum(list_cost_usd), sum(effective_cost_usd), sum(billed_cost_usd), max(basis) FROM node_cost";

async fn a_seen_hour() -> World {
    let world = World::new().await;
    world.write(&PRICES, &[price(INF2, "on_demand", "60", json!({}))]).await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    world
}

/// An hour at 16 USD that is refunded as a whole cost nothing, which is known: the contract's half of the list price does not stand in for it. A
/// host that was charged by mistake and never heard of was not paid for.
#[tokio::test]
async fn a_refunded_hour_cost_nothing() {
    let world = a_seen_hour().await;
    let half = json!({"time": NOON - HOUR, "effective_from": NOON - HOUR, "option": "on_demand", "factor": "0.5", "source": "contract", "contract": "edp"});
    world.write(&DISCOUNTS, &[half]).await;
    let both = ["i-1", "i-9"].iter().flat_map(|host| {
        let of = |hours: f64, cost: [&str; 3]| charge(host, INF2, "on_demand", hours, cost, json!({}));
        [of(1.0, ["16"; 3]), of(-1.0, ["-16"; 3])]
    });
    world.write(&BILLING, &both.collect::<Vec<_>>()).await;
    let nothing = "0.000000000000";
    let expected = json!([["60.000000000000", nothing, nothing, nothing, "list, on-demand"]]);
    assert_eq!(json!(world.rows(&format!("{SIDES} WHERE {RANGE}")).await), expected);
    let sql = format!(
        "SELECT host_id, paid_us, estimated_usd, unseen_usd, effective_usd, finding FROM bill_by_host WHERE {RANGE} ORDER BY host_id"
    );
    let expected = json!([
        ["i-1", 0, "60.000000000000", nothing, nothing, "seen for longer than it was charged"],
        ["i-9", 0, nothing, nothing, nothing, "charged and taken back"]
    ]);
    assert_eq!(json!(world.rows(&sql).await), expected);
}

/// A correction of -4 USD that takes no time back leaves an hour at 12: 12 ÷ 60 = 0.2 a minute.
#[tokio::test]
async fn a_correction_lowers_the_rate() {
    let world = a_seen_hour().await;
    let rows = [(1.0, ["16"; 3]), (0.0, ["-4"; 3])];
    world.write(&BILLING, &rows.map(|(hours, cost)| charge("i-1", INF2, "on_demand", hours, cost, json!({})))).await;
    let twelve = "12.000000000000";
    let expected = json!([["60.000000000000", twelve, twelve, twelve, "list, on-demand"]]);
    assert_eq!(json!(world.rows(&format!("{SIDES} WHERE {RANGE}")).await), expected);
}

/// An hour at 16 USD of which half is taken back: 8 USD remain, for half an hour. Seen all hour the host costs 8, of which a minute is
/// 8 ÷ 60 = 0.133333333333, whatever part of the hour is asked for; by the half hour that is charged it would be 16. Seen for 20 minutes of the 30 it
/// costs 8 × 20 ÷ 30 = 5.333333333333, and 8 × 10 ÷ 30 = 2.666666666667 are unseen. Without a price in the book the bill's rate is
/// the estimate, and no more than the bill either.
#[tokio::test]
async fn half_a_refund_leaves_an_hour_at_what_remains() {
    let bill = || {
        [(1.0, ["16"; 3]), (-0.5, ["-8"; 3])]
            .map(|(hours, cost)| charge("i-1", INF2, "on_demand", hours, cost, json!({})))
    };
    let world = a_seen_hour().await;
    world.write(&BILLING, &bill()).await;
    let eight = "8.000000000000";
    let expected = json!([["60.000000000000", eight, eight, eight, "list, on-demand"]]);
    assert_eq!(json!(world.rows(&format!("{SIDES} WHERE {RANGE}")).await), expected);
    let minute = "time >= TIMESTAMP '2026-11-29T12:29:00Z' AND time < TIMESTAMP '2026-11-29T12:30:00Z'";
    let of_a_minute = "SELECT time, effective_cost_usd FROM node_cost WHERE host_id = 'i-1'";
    // by 12:29 8 × 29 ÷ 60 = 3.866666666667 are shared, by 12:30 4
    let expected = json!([["2026-11-29T12:29:00.000000Z", "0.133333333333"]]);
    assert_eq!(json!(world.rows(&format!("{of_a_minute} AND {minute}")).await), expected);
    let beside = format!(
        "SELECT paid_us, seen_us, unseen_usd, unexplained_usd, effective_usd, finding FROM bill_by_host WHERE {RANGE}"
    );
    let longer = "seen for longer than it was charged";
    let expected = json!([[30 * MINUTE, 60 * MINUTE, "0.000000000000", "-52.000000000000", eight, longer]]);
    assert_eq!(json!(world.rows(&beside).await), expected);

    let world = World::new().await;
    world.write(&PRICES, &[price(INF2, "on_demand", "60", json!({}))]).await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 20)).await;
    world.write(&BILLING, &bill()).await;
    let part = "5.333333333333";
    let expected = json!([["20.000000000000", part, part, part, "list, on-demand"]]);
    assert_eq!(json!(world.rows(&format!("{SIDES} WHERE {RANGE}")).await), expected);
    let unseen = world.rows(&format!("SELECT unseen_usd FROM bill_by_host WHERE {RANGE}")).await;
    assert_eq!(json!(unseen), json!([["2.666666666667"]]));

    let world = World::new().await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    world.write(&BILLING, &bill()).await;
    let expected = json!([[eight, eight, eight, eight, "bill, on-demand"]]);
    assert_eq!(json!(world.rows(&format!("{SIDES} WHERE {RANGE}")).await), expected);
}

/// Of 12:00 to 12:30 and 12:05 to 12:35, over each other, and 12:50 to 13:00 the lengths are 70 minutes, the union is 45: no hour is charged from end to
/// end, and no silent minute is made up. Two charges of 10 and 2 USD for 12:00 to 12:30 and 12:00 to 12:20 are for half an hour together: seen for
/// all of it the host costs 12, where by 50 minutes of charges it would be 7.2.
#[tokio::test]
async fn charges_over_each_other_make_no_time_longer() {
    let of = |host: &str, from: i64, to: i64, usd: &str| {
        let times =
            json!({"time": NOON + from * MINUTE, "charge_from": NOON + from * MINUTE, "charge_to": NOON + to * MINUTE});
        charge(host, INF2, "reserved", (to - from) as f64 / 60.0, [usd; 3], times)
    };
    let world = World::new().await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 30)).await;
    let bill = [
        of("i-9", 0, 30, "3"),
        of("i-9", 5, 35, "3"),
        of("i-9", 50, 60, "1"),
        of("i-1", 0, 30, "10"),
        of("i-1", 0, 20, "2"),
    ];
    world.write(&BILLING, &bill).await;
    let hours = "SELECT host_id, paid_us / 60000000, full_from_us, (full_to_us - full_from_us) / 60000000, effective_usd FROM charged_hours ORDER BY host_id";
    let expected = json!([["i-1", 30, NOON, 30, "12.000000000000"], ["i-9", 45, null, null, "7.000000000000"]]);
    assert_eq!(json!(world.rows(hours).await), expected);
    let cost =
        format!("SELECT host_id, count(*), sum(effective_cost_usd) FROM node_cost WHERE {RANGE} GROUP BY host_id");
    assert_eq!(json!(world.rows(&cost).await), json!([["i-1", 30, "12.000000000000"]]));
}

/// A host at a dollar a minute that is seen for an hour, charged at 48 USD, and at 3 USD for the first half of it beside: its 60 minutes are held
/// against the dearer, which leaves 48 - 60 = -12 unexplained, and of the other 3 USD are: nothing of either is unseen, and what was seen is 60 USD,
/// not 90. One that is charged for days alone has its minutes in rows of an hour. All sums are those of `node_cost`.
#[tokio::test]
async fn a_minute_is_held_against_one_charge() {
    let world = a_seen_hour().await;
    world.write(&DEVICES, &[seen("i-2", INF2, 0, 60), seen("i-3", INF2, 0, 10)].concat()).await;
    let half = json!({"charge_to": NOON + 30 * MINUTE});
    let days = json!({"time": NOON - 240 * HOUR, "charge_from": NOON - 240 * HOUR, "charge_to": NOON + 240 * HOUR});
    let rows = [
        charge("i-1", INF2, "on_demand", 1.0, ["48"; 3], json!({})),
        charge("i-1", INF2, "on_demand", 0.5, ["3"; 3], half),
        charge("i-2", INF2, "on_demand", 480.0, ["480"; 3], days),
    ];
    world.write(&BILLING, &rows).await;
    let sql = format!(
        "SELECT host_id, seen_us / 60000000, estimated_usd, unseen_usd, unexplained_usd, effective_usd, finding FROM bill_by_host WHERE {RANGE} ORDER BY 1, 6"
    );
    let nothing = "0.000000000000";
    let sixty = "60.000000000000";
    let expected = json!([
        ["i-1", 0, nothing, nothing, "3.000000000000", "3.000000000000", "over a dearer charge: held against that one"],
        ["i-1", 60, sixty, nothing, "-12.000000000000", "48.000000000000", "the price differs"],
        ["i-2", 60, sixty, null, null, null, "seen under a charge for more than a day"],
        ["i-3", 10, "10.000000000000", null, null, null, "not in any bill"]
    ]);
    assert_eq!(json!(world.rows(&sql).await), expected);
    let sums = format!(
        "SELECT (SELECT sum(seen_us) FROM bill_by_host WHERE {RANGE}) - (SELECT sum(charged_us) FROM node_cost WHERE {RANGE}), \
         (SELECT sum(estimated_usd) FROM bill_by_host WHERE {RANGE}), (SELECT sum(cost_usd) FROM node_cost WHERE {RANGE})"
    );
    assert_eq!(json!(world.rows(&sums).await), json!([[0, "130.000000000000", "130.000000000000"]]));
}

/// A host is charged 480 USD for twenty days, a dollar an hour, and 10 USD for one of their hours: that hour is 11, and the one after it is 1. The hours sum to what is charged.
#[tokio::test]
async fn charges_over_each_other_add_up() {
    let world = a_seen_hour().await;
    let days = json!({"time": NOON - 240 * HOUR, "charge_from": NOON - 240 * HOUR, "charge_to": NOON + 240 * HOUR});
    let rows = [
        charge("i-1", INF2, "on_demand", 480.0, ["480"; 3], days),
        charge("i-1", INF2, "on_demand", 1.0, ["10"; 3], json!({})),
    ];
    world.write(&BILLING, &rows).await;
    let eleven = "11.000000000000";
    let expected = json!([["60.000000000000", eleven, eleven, eleven, "list, on-demand"]]);
    assert_eq!(json!(world.rows(&format!("{SIDES} WHERE {RANGE}")).await), expected);
    let sql = "SELECT effective_usd, paid_us / 1000000 FROM charged_hours WHERE time >= TIMESTAMP '2026-11-29T12:00:00Z' ORDER BY time LIMIT 2";
    assert_eq!(json!(world.rows(sql).await), json!([["11.000000000000", 3600], ["1.000000000000", 3600]]));
    let sum = world.rows("SELECT sum(effective_usd), count(*) FROM charged_hours").await;
    assert_eq!(json!(sum), json!([["490.000000000000", 480]]));
}

/// A charge of 6 USD from half a minute past noon to half a minute past ten minutes past: a silent host costs it for 30 s, nine minutes and 30 s
/// again, which is 600 s, and nothing beyond.
#[tokio::test]
async fn a_silent_host_is_paid_for_from_instant_to_instant() {
    let world = World::new().await;
    let times = json!({"time": NOON + 30_000_000, "charge_from": NOON + 30_000_000, "charge_to": NOON + 630_000_000, "quantity": null});
    world.write(&BILLING, &[charge("i-9", INF2, "reserved", 0.0, ["6"; 3], times)]).await;
    let sql = format!(
        "SELECT count(*), min(charged_us), max(charged_us), sum(charged_us), sum(effective_cost_usd) FROM node_cost WHERE {RANGE}"
    );
    let expected = json!([[11, 30_000_000, 60_000_000, 600_000_000, "6.000000000000"]]);
    assert_eq!(json!(world.rows(&sql).await), expected);
}

/// An image without a list price beside a host with one: the bill's list cost of both is unknown, not that of the host, and the book's 60 USD an hour
/// stand for it; 10 + 0.1 amortised are known.
#[tokio::test]
async fn a_sum_with_an_unknown_part_is_unknown() {
    let world = a_seen_hour().await;
    let image = charge("i-1", INF2, "on_demand", 1.0, ["0", "0.1", "0.1"], json!({"list_cost": null}));
    world.write(&BILLING, &[charge("i-1", INF2, "on_demand", 1.0, ["16", "10", "10"], json!({})), image]).await;
    let known = "10.100000000000";
    // where a bill does not say it, list cost is the book's
    let expected = json!([["60.000000000000", "60.000000000000", known, known, "list, on-demand"]]);
    assert_eq!(json!(world.rows(&format!("{SIDES} WHERE {RANGE}")).await), expected);
    let sql = format!("SELECT list_usd, effective_usd FROM bill_by_host WHERE {RANGE}");
    assert_eq!(json!(world.rows(&sql).await), json!([[null, "10.100000000000"]]));
}

/// What was seen of a host in three days depends on how much of them is looked at, so a charge for three days is not held against it, whatever
/// stretch is asked for; what was seen has rows of its own.
#[tokio::test]
async fn a_charge_for_days_says_the_same_in_whatever_stretch_it_is_asked() {
    let world = a_seen_hour().await;
    let days = json!({"time": NOON - 24 * HOUR, "charge_from": NOON - 24 * HOUR, "charge_to": NOON + 48 * HOUR});
    world.write(&BILLING, &[charge("i-1", INF2, "on_demand", 72.0, ["80", "72", "72"], days)]).await;
    for stretch in ["", "AND time >= TIMESTAMP '2026-11-28T12:00:00Z' AND time < TIMESTAMP '2026-11-28T13:00:00Z'"] {
        let sql = format!(
            "SELECT seen_us, estimated_usd, unseen_usd, unexplained_usd, discount_usd, effective_usd, basis, finding FROM bill_by_host \
             WHERE bill IS NOT NULL {stretch}"
        );
        let finding = "charged for more than a day: not held against telemetry";
        let expected = json!([[null, null, null, null, "8.000000000000", "72.000000000000", null, finding]]);
        assert_eq!(json!(world.rows(&sql).await), expected, "{stretch}");
    }
}

/// A host was spot until noon exactly: of the hour from noon on it has said nothing.
#[tokio::test]
async fn what_ended_at_the_hour_says_nothing_of_the_next() {
    let world = World::new().await;
    world.write(&DEVICES, &[seen("i-1", INF2, -10, 10), seen("i-2", INF2, 0, 10)].concat()).await;
    let node = |host: &str, from: i64, to: i64| json!({"time": from, "first_seen": from, "last_seen": to, "host_id": host, "capacity_type": "spot"});
    world.write(&NODES, &[node("i-1", NOON - HOUR, NOON), node("i-2", NOON, NOON)]).await;
    let sql = "SELECT host_id, CAST(time AS BIGINT) / 3600000000 - 498876, \"option\", option_source, count(*) FROM node_cost \
               WHERE charged_us > 0 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2";
    let expected = json!([
        ["i-1", -1, "spot", "telemetry", 10],
        ["i-1", 0, "on_demand", "assumed", 10],
        // one that was seen for an instant was seen in its hour
        ["i-2", 0, "spot", "telemetry", 10]
    ]);
    assert_eq!(json!(world.rows(sql).await), expected);
}

/// A day of cost is a day in UTC, wherever its reader sits: at three in the afternoon in UTC the next day begins in Tokyo.
#[tokio::test]
async fn cost_is_the_same_in_every_time_zone() {
    let world = World::at(service::Deps::new(Hand::at(NOON + 5 * HOUR))).await;
    world.write(&PRICES, &[price(INF2, "on_demand", "60", json!({}))]).await;
    world
        .write(
            &DEVICES,
            &[seen("i-1", INF2, 0, 60), seen("i-1", INF2, 180, 240), seen("i-3", "own.8x", 150, 190)].concat(),
        )
        .await;
    let later = json!({"time": NOON + 3 * HOUR, "charge_from": NOON + 3 * HOUR, "charge_to": NOON + 4 * HOUR});
    world
        .write(
            &BILLING,
            &[later, json!({})].map(|more| charge("i-1", INF2, "on_demand", 1.0, ["60", "50", "50"], more)),
        )
        .await;
    let listed = json!({"time": NOON, "effective_from": NOON, "host_id": "i-9", "host_type": INF2, "region": REGION, "option": "on_demand",
        "source": "asset list", "as_of": "2026-11-29", "list": "default"});
    world.write(&INVENTORY, &[listed]).await;
    let budget = |period: &str| {
        json!({"time": NOON, "effective_from": NOON, "name": period, "allocation_key": "region", "allocation_value": REGION, "amount": "100",
            "currency": "USD", "period": period, "enforcement": "soft", "source": "tokenwatt.toml"})
    };
    world.write(&BUDGETS, &["day", "week", "month", "2d"].map(budget)).await;
    let (days, hours) = (
        ["price_check", "bill_totals", "unit_cost_trend", "budget_status"],
        ["unpriced", "bill_by_host", "kept_hours"],
    );
    // a day begins in the afternoon there, and an hour at half past
    let there = days.map(|view| (view, "Asia/Tokyo")).into_iter().chain(hours.map(|view| (view, "America/St_Johns")));
    for (view, zone) in there {
        let ask = async |zone: Option<&str>| -> Vec<Vec<Value>> {
            let sql = format!("SELECT * FROM {view} ORDER BY 1, 2, 3, 4");
            let request = SqlRequest { sql, time_zone: zone.map(str::to_owned), ..SqlRequest::default() };
            world.query.sql(request).await.unwrap_or_else(|error| panic!("{view}: {error:?}")).rows
        };
        let here = ask(None).await;
        assert!(!here.is_empty(), "{view}");
        assert_eq!(ask(Some(zone)).await, here, "{view} in {zone}");
    }
}
