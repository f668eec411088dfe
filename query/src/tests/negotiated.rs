//! Golden cases of negotiated discounts and of other currencies. Each answer is worked out by hand in the comment above it.

use serde_json::{Value, json};
use telemetry::table::{BILLING, DEVICES, DISCOUNTS, EXCHANGE_RATES, INVENTORY, NODES, PRICES};

use super::cost::{HOUR, INF2, MINUTE, RANGE, REGION, charge, price, seen, with};
use super::world::{NOON, World};

fn discount(factor: &str, from_us: i64, more: Value) -> Value {
    let row = json!({"time": from_us, "effective_from": from_us, "option": "on_demand", "factor": factor, "source": "contract 4711",
        "as_of": "2026-11-01", "confidence": "published", "contract": "edp"});
    with(row, more)
}

fn rate(usd: &str, from_us: i64, to_us: Option<i64>) -> Value {
    json!({"time": from_us, "effective_from": from_us, "effective_to": to_us, "currency": "EUR", "usd_per_unit": usd, "source": "ECB",
        "as_of": "2026-11-29", "confidence": "published"})
}

const SIDES: &str = "SELECT basis, count(*), sum(cost_usd), sum(effective_cost_usd), sum(billed_cost_usd)";

/// 16.22658 USD/h is 0.270443 a minute. At nine tenths it is 14.603922 USD/h, which is 0.2433987 a minute: of the 30 minutes in which
/// the contract holds 30 × 0.2433987 = 7.301961. A discount of the region goes before the one of all: 0.8 × 16.22658 ÷ 60 × 30 =
/// 6.490632. Spot has none.
#[tokio::test]
async fn a_discount_holds_from_its_date_on_beside_the_list_price() {
    for (more, factor, effective) in [
        (json!({}), "0.9", "7.301961000000"),
        (json!({"factor": "0.8", "region": REGION}), "0.8", "6.490632000000"),
        (json!({"factor": "0.5", "region": "us-east-1"}), "0.9", "7.301961000000"),
        (json!({"factor": "0.5", "option": "spot"}), "0.9", "7.301961000000"),
        (
            json!({"factor": "0.5", "effective_to": NOON - MINUTE, "effective_from": NOON - HOUR}),
            "0.9",
            "7.301961000000",
        ),
    ] {
        let world = World::new().await;
        world.write(&PRICES, &[price(INF2, "on_demand", "16.22658", json!({}))]).await;
        world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
        let half = NOON + 30 * MINUTE;
        world.write(&DISCOUNTS, &[discount("0.9", half, json!({})), discount("0.9", half, more.clone())]).await;
        let found = world.rows(&format!("{SIDES} FROM node_cost WHERE {RANGE} GROUP BY basis ORDER BY basis")).await;
        let list = "list, assumed on-demand";
        let expected = json!([
            [list, 30, "8.113290000000", null, null],
            [format!("{list}; effective × {factor} by edp"), 30, "8.113290000000", effective, null]
        ]);
        assert_eq!(json!(found), expected, "{more}");
    }
}

/// What the discount says is the hour's effective cost for everybody who pays for it, until the bill says 15 USD: then it is that.
#[tokio::test]
async fn a_bill_takes_the_place_of_a_discount() {
    let world = World::new().await;
    world.write(&PRICES, &[price(INF2, "on_demand", "60", json!({}))]).await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    world.write(&DISCOUNTS, &[discount("0.75", NOON - HOUR, json!({}))]).await;
    let split = format!("SELECT sum(list_cost), sum(effective_cost), max(basis) FROM costs_hours WHERE {RANGE}");
    let basis = "list, assumed on-demand; effective × 0.75 by edp";
    assert_eq!(json!(world.rows(&split).await), json!([["60.000000000000", "45.000000000000", basis]]));
    world.write(&BILLING, &[charge("i-1", INF2, "on_demand", 1.0, ["60", "15", "15"], json!({}))]).await;
    let expected = json!([["60.000000000000", "15.000000000000", "list, on-demand"]]);
    assert_eq!(json!(world.rows(&split).await), expected);
}

/// A p5 that a savings plan covers stands at three prices. The book's: 31.464 ÷ 60 = 0.5244 a minute, × 60 = 31.464. The list's, which is that on demand:
/// 55.04 ÷ 60 = 0.917333333333, × 60 = 55.03999999998. Negotiated are nine tenths of it: 49.536 ÷ 60 = 0.8256, × 60 = 49.536. The plan itself has no
/// discount and there is no bill, so effective and billed are unknown. A bill of 60, 30 and 0 takes their place: 1 a minute, nine tenths of
/// which are 0.9, × 60 = 54. Without a price on demand nobody knows what the list says.
#[tokio::test]
async fn a_commitment_stands_beside_its_list_price_and_what_is_negotiated() {
    let world = World::new().await;
    let p5 = "p5.48xlarge";
    world.write(&PRICES, &[price(p5, "savings_plan", "31.464", json!({}))]).await;
    world.write(&DEVICES, &seen("i-5", p5, 0, 60)).await;
    world.write(&NODES, &[json!({"time": NOON, "host_id": "i-5", "capacity_type": "savings_plan", "first_seen": NOON, "last_seen": NOON + HOUR})]).await;
    world.write(&DISCOUNTS, &[discount("0.9", NOON - HOUR, json!({}))]).await;
    let of_hours = format!(
        "SELECT sum(list_cost), sum(public_cost), sum(contracted_cost), sum(effective_cost), sum(billed_cost) FROM costs_hours WHERE {RANGE}"
    );
    let of_region = format!(
        "SELECT sum(cost_usd), sum(list_cost_usd), sum(effective_cost_usd), sum(billed_cost_usd) FROM cost_per_region WHERE {RANGE}"
    );
    assert_eq!(json!(world.rows(&of_hours).await), json!([["31.464000000000", null, null, null, null]]));
    world.write(&PRICES, &[price(p5, "on_demand", "55.04", json!({}))]).await;
    let expected = json!([["31.464000000000", "55.039999999980", "49.536000000000", null, null]]);
    assert_eq!(json!(world.rows(&of_hours).await), expected);
    let expected = json!([["31.464000000000", "55.039999999980", null, null]]);
    assert_eq!(json!(world.rows(&of_region).await), expected);
    world.write(&BILLING, &[charge("i-5", p5, "savings_plan", 1.0, ["60", "30", "0"], json!({}))]).await;
    let expected =
        json!([["31.464000000000", "60.000000000000", "54.000000000000", "30.000000000000", "0.000000000000"]]);
    assert_eq!(json!(world.rows(&of_hours).await), expected);
    let expected = json!([["31.464000000000", "60.000000000000", "30.000000000000", "0.000000000000"]]);
    for view in ["cost_per_region", "cost_per_tenant", "unit_cost_trend", "commitment_coverage", "idle_waste"] {
        let cost = if view == "idle_waste" { "coalesce(idle_cost_usd, CAST(0 AS DECIMAL(38,12)))" } else { "cost_usd" };
        let sql = format!(
            "SELECT sum({cost}), sum(list_cost_usd), sum(effective_cost_usd), sum(billed_cost_usd) FROM {view} \
             WHERE time >= TIMESTAMP '2026-11-29T00:00:00Z' AND time < TIMESTAMP '2026-11-30T00:00:00Z'"
        );
        assert_eq!(json!(world.rows(&sql).await), expected, "{view}");
    }
    for policy in ["show", "share"] {
        let sql = format!(
            "SELECT sum(cost_usd), sum(list_cost_usd), sum(effective_cost_usd), sum(billed_cost_usd) FROM allocated_cost WHERE idle_policy = '{policy}'"
        );
        assert_eq!(json!(world.rows(&sql).await), expected, "{policy}");
    }
    // hosts more that are in no bill: one on demand, at nine tenths, so that what is invoiced of the region's minutes is unknown, and one of a
    // plan, of which nobody knows what it effectively costs
    world.write(&DEVICES, &seen("i-6", p5, 0, 60)).await;
    let found = world.rows(&of_region).await.remove(0);
    assert_eq!(json!(found[1..]), json!(["115.039999999980", "79.536000000000", null]));
    world.write(&DEVICES, &seen("i-7", p5, 0, 60)).await;
    world.write(&NODES, &[json!({"time": NOON, "host_id": "i-7", "capacity_type": "savings_plan", "first_seen": NOON, "last_seen": NOON + HOUR})]).await;
    let found = world.rows(&of_region).await.remove(0);
    assert_eq!(json!(found[1..]), json!(["170.079999999960", null, null]));
}

/// 10 EUR an hour are 11 USD while the euro is at 1.1, and 12 after half past: 30 × 11 ÷ 60 = 30 × 0.183333333333 = 5.49999999999, and
/// 30 × 0.2 = 6.
#[tokio::test]
async fn a_price_in_another_currency_is_converted_by_the_rate_of_the_minute() {
    let world = World::new().await;
    let euros =
        json!({"usd_per_hour": null, "price_per_hour": "10", "currency": "EUR", "book": "mine", "source": "quote"});
    world.write(&PRICES, &[price(INF2, "on_demand", "0", euros), price(INF2, "on_demand", "99", json!({}))]).await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    let unpriced = format!("SELECT reason, hosts FROM unpriced WHERE {RANGE}");
    let reason = "its price is in EUR, and no row of `exchange_rates` is in force";
    assert_eq!(json!(world.rows(&unpriced).await), json!([[reason, 1]]), "another book's price is no way out");
    let half = NOON + 30 * MINUTE;
    world.write(&EXCHANGE_RATES, &[rate("1.1", NOON - HOUR, Some(half)), rate("1.2", half, None)]).await;
    let sql = format!(
        "SELECT usd_per_hour, count(*), sum(cost_usd), max(price_source) FROM node_cost WHERE {RANGE} GROUP BY 1 ORDER BY 1"
    );
    let expected = json!([
        ["11.000000000000", 30, "5.499999999990", "quote; EUR at 1.1 USD by ECB"],
        ["12.000000000000", 30, "6.000000000000", "quote; EUR at 1.2 USD by ECB"]
    ]);
    assert_eq!(json!(world.rows(&sql).await), expected);
    assert_eq!(world.rows(&unpriced).await, Vec::<Vec<Value>>::new());
}

/// A bill of 10 EUR at list, 9 amortised: in no sum of dollars and on the work list without a rate; at 1.1 it is 11 and 9.9 USD, and the
/// price of an hour where the book has none. Its own amounts stay.
#[tokio::test]
async fn a_bill_in_another_currency_waits_for_a_rate() {
    let world = World::new().await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    let euros = charge("i-1", INF2, "on_demand", 1.0, ["10", "9", "9"], json!({"currency": "EUR"}));
    world.write(&BILLING, &[euros]).await;
    let unpriced = format!("SELECT reason, host_id FROM unpriced WHERE {RANGE} ORDER BY reason");
    let expected = json!([
        ["its bill is in EUR, and no row of `exchange_rates` is in force", "i-1"],
        ["no row of `prices` in force for inf2.48xlarge, on-demand, in eu-west-1", "i-1"]
    ]);
    assert_eq!(json!(world.rows(&unpriced).await), expected);
    let bill = format!("SELECT list_usd, effective_usd, finding FROM bill_by_host WHERE {RANGE}");
    let no_rate = "its bill is in EUR, and no row of `exchange_rates` is in force";
    assert_eq!(json!(world.rows(&bill).await), json!([[null, null, no_rate]]));
    world.write(&EXCHANGE_RATES, &[rate("1.1", NOON - HOUR, None)]).await;
    let expected = json!([["11.000000000000", "9.900000000000", "no price in the book"]]);
    assert_eq!(json!(world.rows(&bill).await), expected);
    let cost = format!("SELECT basis, sum(cost_usd), sum(effective_cost_usd) FROM node_cost WHERE {RANGE} GROUP BY 1");
    let expected = json!([["bill, on-demand", "11.000000000000", "9.900000000000"]]);
    assert_eq!(json!(world.rows(&cost).await), expected);
    assert_eq!(world.rows(&unpriced).await, Vec::<Vec<Value>>::new());
    let totals = world.rows("SELECT currency, list_cost FROM bill_totals").await;
    assert_eq!(json!(totals), json!([["EUR", "10.000000000000"]]));
}

/// A rate holds from its first instant on and to before its last. At noon the euro is at 1.1, from half past on at 1.2, from one o'clock on nothing
/// is known, and from two on it is at 1.3. What began before a rate did is not of it: 10 EUR are 11, 12, NULL and 13 USD, and dollars are
/// dollars. The sums of all views are of the same look-up.
#[tokio::test]
async fn a_charge_takes_the_rate_that_holds_when_it_begins() {
    let world = World::new().await;
    world.write(&DEVICES, &seen("i-0", INF2, 0, 180)).await;
    let of = |host: &str, minute: i64, currency: &str| {
        let at = NOON + minute * MINUTE;
        let times = json!({"time": at, "charge_from": at, "charge_to": at + HOUR, "currency": currency});
        charge(host, INF2, "on_demand", 1.0, ["10", "9", "9"], times)
    };
    let rows = [("i-0", 0), ("i-1", 29), ("i-2", 30), ("i-3", 59), ("i-4", 60), ("i-5", 119), ("i-6", 120)];
    let charges: Vec<_> =
        rows.iter().map(|(host, minute)| of(host, *minute, "EUR")).chain([of("i-7", 60, "USD")]).collect();
    world.write(&BILLING, &charges).await;
    let [half, one, two] = [30, 60, 120].map(|minute| NOON + minute * MINUTE);
    world
        .write(&EXCHANGE_RATES, &[rate("1.1", NOON, Some(half)), rate("1.2", half, Some(one)), rate("1.3", two, None)])
        .await;
    let sql = "SELECT host_id, list_usd, effective_usd, without_rate, method FROM host_charges ORDER BY host_id";
    let row = |host: &str, usd: [&str; 2], rate: &str| {
        json!([host, usd[0], usd[1], null, format!("EUR at {rate} USD by ECB")])
    };
    let (low, high) = (["11.000000000000", "9.900000000000"], ["12.000000000000", "10.800000000000"]);
    let expected = json!([
        row("i-0", low, "1.1"),
        row("i-1", low, "1.1"),
        row("i-2", high, "1.2"),
        row("i-3", high, "1.2"),
        ["i-4", null, null, "EUR", null],
        ["i-5", null, null, "EUR", null],
        row("i-6", ["13.000000000000", "11.700000000000"], "1.3"),
        ["i-7", "10.000000000000", "9.000000000000", null, "in dollars"]
    ]);
    assert_eq!(json!(world.rows(sql).await), expected);
    let left = "SELECT host_id FROM unpriced WHERE reason LIKE 'its bill is in EUR%' ORDER BY time, host_id";
    // by the hour in which they begin: of those of one o'clock one is named, which stands for both
    assert_eq!(json!(world.rows(left).await), json!([["i-4"]]));
    for (sums, expected) in [
        ("SELECT sum(list_usd) FROM charged_hours WHERE host_id = 'i-2'", json!([["12.000000000000"]])),
        (
            "SELECT list_usd FROM bill_by_host WHERE host_id = 'i-0' AND list_usd IS NOT NULL",
            json!([["11.000000000000"]]),
        ),
        ("SELECT sum(list_cost_usd) FROM node_cost WHERE host_id = 'i-3'", json!([["12.000000000000"]])),
        ("SELECT count(*) FROM node_cost WHERE host_id IN ('i-4', 'i-5')", json!([[0]])),
    ] {
        assert_eq!(json!(world.rows(sums).await), expected, "{sums}");
    }
}

/// Half past two: of a host that the list has since noon, telemetry knew in the first hour; the second hour is silent, 60 minutes of
/// 16 ÷ 60 = 0.266666666667 USD at the reserved price, and of the third the 29 minutes that are over. A host that left at noon is missed by
/// nobody, and one without a price has none.
#[tokio::test]
async fn a_host_of_the_inventory_that_nobody_hears_of_is_silent() {
    let clock = super::rolling::Hand::at(NOON + 150 * MINUTE);
    let world = World::at(service::Deps::new(clock)).await;
    world.write(&PRICES, &[price(INF2, "reserved", "16", json!({}))]).await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    let host = |id: &str, kind: &str, to_us: Option<i64>| {
        json!({"time": NOON - HOUR, "effective_from": NOON, "effective_to": to_us, "host_id": id, "host_type": kind, "region": REGION,
            "option": "reserved", "chips": 12, "source": "asset list", "as_of": "2026-11-29", "list": "default"})
    };
    let rows = [host("i-1", INF2, None), host("i-2", "own.8x", Some(NOON + HOUR)), host("i-3", INF2, Some(NOON))];
    world.write(&INVENTORY, &rows).await;
    let sql = "SELECT host_id, time, silent_us / 60000000, cost_usd, basis, chips, listed_by FROM silent_hosts ORDER BY host_id, time";
    let expected = json!([
        ["i-1", "2026-11-29T13:00:00.000000Z", 60, "16.000000000020", "list, reserved", 12, "asset list"],
        ["i-1", "2026-11-29T14:00:00.000000Z", 29, "7.733333333343", "list, reserved", 12, "asset list"],
        ["i-2", "2026-11-29T12:00:00.000000Z", 60, null, "no price", 12, "asset list"]
    ]);
    assert_eq!(json!(world.rows(sql).await), expected);
}

/// A host in two lists is one host, as the newer says; its price in euros is what it costs by the rate, and unknown without one: the price that
/// comes with Tokenwatt does not stand in for it.
#[tokio::test]
async fn a_silent_host_is_counted_once_and_priced_by_its_own_book() {
    let clock = super::rolling::Hand::at(NOON + 90 * MINUTE);
    let world = World::at(service::Deps::new(clock)).await;
    let euros = json!({"usd_per_hour": null, "price_per_hour": "10", "currency": "EUR", "book": "ours"});
    world.write(&PRICES, &[price(INF2, "reserved", "16", json!({})), price(INF2, "reserved", "0", euros)]).await;
    let host = |list: &str, as_of: &str| {
        json!({"time": NOON - HOUR, "effective_from": NOON, "host_id": "i-1", "host_type": INF2, "region": REGION, "option": "reserved",
            "chips": 12, "source": list, "as_of": as_of, "list": list})
    };
    world.write(&INVENTORY, &[host("old", "2026-11-01"), host("new", "2026-11-29")]).await;
    let sql = &format!("SELECT host_id, cost_usd, basis, listed_by FROM silent_hosts WHERE {RANGE}");
    assert_eq!(json!(world.rows(sql).await), json!([["i-1", null, "no price", "new"]]));
    world.write(&EXCHANGE_RATES, &[rate("1.1", NOON - HOUR, None)]).await;
    // 11 ÷ 60 = 0.183333333333 a minute
    assert_eq!(json!(world.rows(sql).await), json!([["i-1", "10.999999999980", "list, reserved", "new"]]));
}
