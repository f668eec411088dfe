//! Hosts that an inventory says are paid for and of which nothing is heard: in every sum, as idle, and by whose word. Each answer is worked out by
//! hand in the comment above it.

use serde_json::{Value, json};
use telemetry::table::{BILLING, DEVICES, INVENTORY, PRICES};

use super::cost::{HOUR, INF2, MINUTE, RANGE, REGION, charge, price, seen, with};
use super::restating::import;
use super::rolling::{Hand, Site};
use super::world::{NOON, World};

/// A host of the asset list, reserved, from an instant on.
fn listed(host: &str, from_us: i64, more: Value) -> Value {
    let row = json!({"time": from_us, "effective_from": from_us, "host_id": host, "host_type": INF2, "region": REGION, "option": "reserved",
        "source": "asset list", "as_of": "2026-11-29", "list": "default"});
    with(row, more)
}

/// Half past one, a dollar a minute under a reservation.
async fn at_half_past_one() -> World {
    let world = World::at(service::Deps::new(Hand::at(NOON + 90 * MINUTE))).await;
    world.write(&PRICES, &[price(INF2, "reserved", "60", json!({}))]).await;
    world
}

/// One host is never heard of, the other for ten minutes in which its engine did nothing. Both are paid for all hour: 60 + 60 USD, all of it
/// idle, in the hour as in ten minutes of it. Telemetry does not say how they were bought, so the list's word holds for what was heard as for
/// what was not.
#[tokio::test]
async fn a_listed_host_that_nobody_hears_of_is_idle_as_a_whole() {
    let world = at_half_past_one().await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 10)).await;
    world
        .write(&INVENTORY, &["i-1", "i-9"].map(|host| listed(host, NOON - HOUR, json!({"account": "1", "chips": 12}))))
        .await;
    let sql = format!(
        "SELECT host_id, is_silent, is_listed, option_source, basis, count(*), sum(cost_usd) FROM node_cost WHERE {RANGE} GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2"
    );
    let row = |host: &str, is_silent: bool, minutes: i64, usd: &str| {
        json!([host, is_silent, true, "inventory", "list, reserved", minutes, usd])
    };
    let expected = json!([
        row("i-1", false, 10, "10.000000000000"),
        row("i-1", true, 50, "50.000000000000"),
        row("i-9", true, 60, "60.000000000000")
    ]);
    assert_eq!(json!(world.rows(&sql).await), expected);
    let ten = "time >= TIMESTAMP '2026-11-29T12:05:00Z' AND time < TIMESTAMP '2026-11-29T12:15:00Z'";
    for (stretch, usd) in [(RANGE, "120.000000000000"), (ten, "20.000000000000")] {
        let sql = format!(
            "SELECT sum(cost_usd), sum(idle_cost_usd), sum(unattributed_cost_usd) FROM cost_per_region WHERE {stretch}"
        );
        assert_eq!(json!(world.rows(&sql).await), json!([[usd, usd, "0.000000000000"]]), "{stretch}");
    }
    let sql = format!(
        "SELECT host_id, sum(idle_us) / 60000000, sum(idle_cost_usd), min(waste_share), max(basis), max(method) FROM idle_waste WHERE {RANGE} \
         GROUP BY host_id ORDER BY host_id"
    );
    let row = |host: &str| json!([host, 60, "60.000000000000", 1.0, "list, reserved", "listed and silent"]);
    assert_eq!(json!(world.rows(&sql).await), json!([row("i-1"), row("i-9")]));
    for (sql, expected) in [
        ("SELECT sum(list_cost), count(DISTINCT host_id) FROM costs_hours", json!([["120.000000000000", 2]])),
        ("SELECT sum(cost_usd), max(idle_policy) FROM allocated_cost", json!([["240.000000000000", "show"]])),
        (
            "SELECT committed_hours, assumed_on_demand_hours, coverage FROM commitment_coverage",
            json!([[2.0, 0.0, 1.0]]),
        ),
        (
            "SELECT host_id, silent_us / 60000000, cost_usd, account, chips, method FROM silent_hosts",
            json!([
                ["i-1", 50, "50.000000000000", "1", 12, "listed and silent"],
                ["i-9", 60, "60.000000000000", "1", 12, "listed and silent"]
            ]),
        ),
    ] {
        let order = if sql.contains("silent_hosts") { " ORDER BY host_id" } else { "" };
        assert_eq!(json!(world.rows(&format!("{sql} WHERE {RANGE}{order}")).await), expected, "{sql}");
    }
}

/// A bill for half of the hour does not say which half, so no minute is made up beside the ten that were heard of. A host that the bill
/// charges in full is idle if a list has it among the fleet's, and nobody's if not; it costs what the bill says, 30 USD by the plan.
#[tokio::test]
async fn a_bill_knows_better_than_a_list() {
    let world = at_half_past_one().await;
    world.write(&DEVICES, &seen("i-1", INF2, 0, 10)).await;
    world.write(&INVENTORY, &["i-1", "i-2"].map(|host| listed(host, NOON - HOUR, json!({})))).await;
    let bill = [("i-1", 0.5), ("i-2", 1.0), ("i-3", 1.0)];
    let bill = bill.map(|(host, hours)| charge(host, INF2, "savings_plan", hours, ["60", "30", "6"], json!({})));
    world.write(&BILLING, &bill).await;
    let sql = format!(
        "SELECT host_id, option_source, basis, count(*), sum(effective_cost_usd) FROM node_cost WHERE {RANGE} GROUP BY 1, 2, 3 ORDER BY 1"
    );
    let row = |host: &str, minutes: i64, usd: &str| json!([host, "bill", "bill, savings-plan", minutes, usd]);
    // 30 USD for half an hour are a dollar a minute
    let expected = json!([
        row("i-1", 10, "10.000000000000"),
        row("i-2", 60, "30.000000000000"),
        row("i-3", 60, "30.000000000000")
    ]);
    assert_eq!(json!(world.rows(&sql).await), expected);
    let sql = format!(
        "SELECT host_id, part, method, sum(cost_usd), sum(device_us) FROM replica_cost WHERE {RANGE} AND host_id <> 'i-1' GROUP BY 1, 2, 3 ORDER BY 1"
    );
    let thirty = "30.000000000000";
    let expected = json!([
        ["i-2", "idle", "listed and silent", thirty, 60 * MINUTE],
        ["i-3", "unattributed", "paid for and silent", thirty, null]
    ]);
    assert_eq!(json!(world.rows(&sql).await), expected);
}

/// From 12:10:30 to 12:12:15 are 105 s, 1.75 USD. A newer list has it from 12:11 on as another type, without a price: the minutes that both
/// have are as the newer says, and the 30 s that it does not have stay with the older: 0.5 USD. What has no price is on the work list. What a list says of
/// next week is not yet so.
#[tokio::test]
async fn a_list_counts_from_instant_to_instant() {
    let world = at_half_past_one().await;
    let at = |second: i64| NOON + second * 1_000_000;
    let until = json!({"effective_to": at(735)});
    world.write(&INVENTORY, &[listed("i-9", at(630), until.clone()), listed("i-8", NOON + 9 * HOUR, json!({}))]).await;
    let sql = "SELECT sum(charged_us) / 1000000, sum(cost_usd), count(*) FROM node_cost";
    assert_eq!(json!(world.rows(sql).await), json!([[105, "1.750000000000", 3]]));
    let newer = with(until, json!({"list": "cmdb", "as_of": "2026-11-30", "host_type": "own.8x"}));
    world.write(&INVENTORY, &[listed("i-9", at(660), newer)]).await;
    assert_eq!(json!(world.rows(sql).await), json!([[105, "0.500000000000", 3]]));
    let sql = "SELECT host_type, \"option\", hosts, charged_us / 1000000, option_source FROM unpriced";
    assert_eq!(json!(world.rows(sql).await), json!([["own.8x", "reserved", 1, 75, "inventory"]]));
}

/// A host that goes from one list to another at half past is in one of them all hour: half an hour at 60 USD reserved and half an hour at 90
/// on demand, 30 + 45. Of the hour as a whole the newer list alone would leave the second half.
#[tokio::test]
async fn a_host_that_goes_from_list_to_list_is_paid_for_all_along() {
    let world = at_half_past_one().await;
    world.write(&PRICES, &[price(INF2, "on_demand", "90", json!({}))]).await;
    let half = NOON + 30 * MINUTE;
    let rows = [
        listed("i-9", NOON - HOUR, json!({"list": "rack-1", "source": "rack 1", "effective_to": half})),
        listed(
            "i-9",
            half,
            json!({"list": "rack-2", "source": "rack 2", "as_of": "2026-11-30", "option": "on_demand", "effective_to": NOON + HOUR}),
        ),
    ];
    world.write(&INVENTORY, &rows).await;
    let sql = format!("SELECT \"option\", count(*), sum(cost_usd) FROM node_cost WHERE {RANGE} GROUP BY 1 ORDER BY 1");
    let expected = json!([["on_demand", 30, "45.000000000000"], ["reserved", 30, "30.000000000000"]]);
    assert_eq!(json!(world.rows(&sql).await), expected);
    let hour = format!("SELECT sum(silent_us) / 60000000, sum(cost_usd) FROM silent_hosts WHERE {RANGE}");
    assert_eq!(json!(world.rows(&hour).await), json!([[60, "75.000000000000"]]));
}

/// A list that is imported later restates the hours that are built: those that have rows and those in which nothing was heard of anybody. A list
/// without the host takes it back. At every moment windows and raw rows say the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_restates_hours_that_are_built() {
    let site = Site::new().await;
    site.world
        .write(&PRICES, &[price(INF2, "reserved", "60", json!({})), price(INF2, "on_demand", "90", json!({}))])
        .await;
    site.world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    site.clock.set(NOON + 150 * MINUTE);
    site.build().await;
    let sums = "SELECT host_id, count(DISTINCT time), sum(list_cost) FROM costs_1h GROUP BY host_id ORDER BY host_id";
    // its sample at noon closes a minute of the hour before, of which nothing was charged
    let alone = json!([["i-1", 2, "90.000000000000"]]);
    assert_eq!(json!(site.world.rows(sums).await), alone);
    import(&site, &INVENTORY, "default", &[listed("i-9", NOON - 2 * HOUR, json!({}))]).await;
    site.compare_costs("before it is built again").await;
    site.build().await;
    site.compare_costs("with a list").await;
    // from ten o'clock to two
    let both = json!([["i-1", 2, "90.000000000000"], ["i-9", 4, "240.000000000000"]]);
    assert_eq!(json!(site.world.rows(sums).await), both);
    let told = "SELECT reason, sum(list_after) FROM restatements GROUP BY reason";
    // of the hours that had rows
    assert_eq!(json!(site.world.rows(told).await), json!([["import into inventory: default", "120.000000000000"]]));
    import(&site, &INVENTORY, "default", &[listed("i-8", NOON + 9 * HOUR, json!({}))]).await;
    site.compare_costs("before it is taken back").await;
    site.build().await;
    site.compare_costs("taken back").await;
    assert_eq!(json!(site.world.rows(sums).await), alone);
}

/// A fleet of which nothing was ever heard costs what its list says, as far back as anything would have been heard of it: rows are kept for a day.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_enough_to_begin_with() {
    let site = Site::keeping([("tokens".to_owned(), 1)].into()).await;
    site.world.write(&PRICES, &[price(INF2, "reserved", "60", json!({}))]).await;
    import(&site, &INVENTORY, "default", &[listed("i-9", NOON - 900 * HOUR, json!({}))]).await;
    site.clock.set(NOON + 30 * MINUTE);
    site.build().await;
    // a day less an hour before half past twelve is half past one, so hours begin at two; the last that is over begins at eleven
    let sums = "SELECT count(*), min(CAST(time AS BIGINT)), max(CAST(time AS BIGINT)), sum(list_cost) FROM costs_1h";
    let expected = json!([[22, NOON - 22 * HOUR, NOON - HOUR, "1320.000000000000"]]);
    assert_eq!(json!(site.world.rows(sums).await), expected);
    // and the 29 minutes that are over
    assert_eq!(site.world.rows("SELECT sum(list_cost) FROM costs_hours").await, [[json!("1349.000000000000")]]);
    site.compare_costs("of a list alone").await;
}
