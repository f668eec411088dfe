//! Books and bills that are replaced restate hours that are built: for what they bring, for what they no longer hold, and for hours whose
//! raw rows are gone.

use lake::{Entry, sets::Import};
use serde_json::{Value, json};
use telemetry::table::{BILLING, DEVICES, EXCHANGE_RATES, PRICES, TOKENS, Table};

use super::rolling::Site;
use super::world::{NOON, batch};

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// An hour in which one host ran for a minute, half of it for tenant `a`; built.
async fn an_hour(site: &Site) {
    let engine = |at_us: i64, busy_us: i64| {
        json!({"time": at_us, "kind": "engine", "region": "eu-central-1", "model": "m", "host_id": "i-1", "host_type": "inf2.48xlarge",
            "instance": "i-1/0", "chips": 12, "busy_us": busy_us, "padding_us": 0})
    };
    site.world.write(&DEVICES, &[engine(NOON, 0), engine(NOON + MINUTE, 30_000_000)]).await;
    let token = json!({"time": NOON + 1_000_000, "region": "eu-central-1", "model": "m", "host_id": "i-1", "host_type": "inf2.48xlarge",
        "instance": "i-1/0", "tenant": "a", "trace_id": "t", "request_span_id": "s", "choice": 0, "index": 0, "count": 1, "device_us": 30_000_000});
    site.world.write(&TOKENS, &[token]).await;
}

pub(super) async fn import(site: &Site, table: &'static Table, set: &str, rows: &[Value]) {
    let mut import = Import::begin(&site.world.lake, table, &[]).await.expect("begun");
    import.write(set, &batch(table, rows)).await.expect("written");
    import.commit().await.expect("committed");
}

fn price(kind: &str, usd_per_hour: &str) -> Value {
    json!({"time": NOON - DAY, "effective_from": NOON - DAY, "host_type": kind, "region": "eu-central-1", "option": "on_demand",
        "usd_per_hour": usd_per_hour, "currency": "USD", "confidence": "published", "as_of": "2026-11-01", "source": "list", "book": "ours"})
}

/// A charge of a host's own time for so many hours from `from_us` on: list, effective and billed cost.
fn charge(host: &str, from_us: i64, hours: i64, [list, effective, billed]: [&str; 3]) -> Value {
    json!({"time": from_us, "charge_from": from_us, "charge_to": from_us + hours * HOUR, "region": "eu-central-1", "host_id": host,
        "resource_id": host, "host_type": "inf2.48xlarge", "option": "savings_plan", "charge_kind": "host_time", "quantity": hours as f64,
        "currency": "USD", "list_cost": list, "effective_cost": effective, "billed_cost": billed, "bill": "AWS/1/2026-11",
        "provider": "AWS", "account": "1", "period": "2026-11", "charge_category": "usage", "imported_at": from_us})
}

/// A book that no longer has a price, and a bill that no longer has a charge, take it back from the hours that they gave it to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_withdrawn_restates_hours_too() {
    let site = Site::new().await;
    an_hour(&site).await;
    import(&site, &PRICES, "ours", &[price("inf2.48xlarge", "60.0")]).await;
    let another_day = charge("i-7", NOON - 3 * DAY, 1, ["1", "1", "1"]);
    import(&site, &BILLING, "AWS/1/2026-11", &[charge("i-1", NOON, 1, ["60", "30", "6"]), another_day.clone()]).await;
    site.clock.set(NOON + 90 * MINUTE);
    site.build().await;
    let sums = |table: &str| {
        format!("SELECT sum(list_cost), sum(effective_cost), sum(billed_cost) FROM {table} WHERE host_id = 'i-1'")
    };
    // the book has no rate of the plan, so the bill's is the estimate; all of the hour was paid for
    let paid = ["30.000000000000", "30.000000000000", "6.000000000000"].map(|usd| json!(usd));
    assert_eq!(site.world.rows(&sums("costs_1h")).await, [paid]);
    import(&site, &BILLING, "AWS/1/2026-11", &[another_day]).await;
    let listed = [json!("1.000000000000"), json!(null), json!(null)];
    assert_eq!(site.world.rows(&sums("costs_hours")).await, std::slice::from_ref(&listed), "before it is built again");
    site.build().await;
    assert_eq!(site.world.rows(&sums("costs_1h")).await, [listed]);
    // a newer book, of prices from next week on, without the one that was in force
    let mut later = price("inf2.48xlarge", "61.0");
    later["time"] = json!(NOON + 7 * DAY);
    later["effective_from"] = json!(NOON + 7 * DAY);
    import(&site, &PRICES, "ours", &[later]).await;
    let unknown = [json!(null), json!(null), json!(null)];
    assert_eq!(site.world.rows(&sums("costs_hours")).await, std::slice::from_ref(&unknown), "before it is built again");
    site.build().await;
    assert_eq!(site.world.rows(&sums("costs_1h")).await, [unknown]);
}

/// A bill that comes when raw rows may be gone is shared by what the built hour says: half for `a`, half idle. A host that nobody heard of
/// is unattributed; of a charge for three hours each has its part, and they sum to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bill_for_hours_whose_rows_are_gone_reaches_them() {
    let site = Site::new().await;
    an_hour(&site).await;
    import(&site, &PRICES, "ours", &[price("inf2.48xlarge", "19.4719")]).await;
    site.clock.set(NOON + 270 * MINUTE);
    site.build().await;
    site.clock.set(NOON + 20 * DAY);
    let bill =
        [charge("i-1", NOON, 1, ["19.4719", "9.72", "10.8"]), charge("i-9", NOON, 3, ["3", "1.000000000001", "0"])];
    import(&site, &BILLING, "AWS/1/2026-11", &bill).await;
    site.build().await;
    let parts = "SELECT host_id, part, tenant, effective_cost, billed_cost, basis, method FROM costs_1h WHERE effective_cost <> 0 AND host_id = 'i-1' ORDER BY part";
    let of = |part: &str, tenant: Value| {
        json!([
            "i-1",
            part,
            tenant,
            "4.860000000000",
            "5.400000000000",
            "list, assumed on-demand",
            "device time; bill by shares of the hour"
        ])
    };
    assert_eq!(json!(site.world.rows(parts).await), json!([of("idle", json!(null)), of("requests", json!("a"))]));
    let list = site.world.rows("SELECT sum(list_cost) FROM costs_1h WHERE host_id = 'i-1'").await;
    assert_eq!(list, [[json!("0.324531666667")]], "the estimate stays");
    let alone = "SELECT part, basis, method, effective_cost FROM costs_1h WHERE host_id = 'i-9' ORDER BY time";
    let of = |usd: &str| json!(["unattributed", "bill, savings-plan", "the bill alone", usd]);
    let thirds = ["0.333333333334", "0.333333333333", "0.333333333334"];
    assert_eq!(json!(site.world.rows(alone).await), json!(thirds.map(of)));
    // once more the same, then a correction that takes the one host back and gives the other a discount
    site.build().await;
    assert_eq!(json!(site.world.rows(alone).await), json!(thirds.map(of)));
    import(&site, &BILLING, "AWS/1/2026-11", &[charge("i-1", NOON, 1, ["19.4719", "9", "9"])]).await;
    site.build().await;
    let sums = "SELECT host_id, sum(effective_cost), sum(billed_cost) FROM costs_1h GROUP BY host_id";
    assert_eq!(json!(site.world.rows(sums).await), json!([["i-1", "9.000000000000", "9.000000000000"]]));
}

/// Half of a minute at 60 USD an hour is `a`'s: 0.5. Eight days later its tokens are gone and the samples are not: `a` still pays 0.5, by the hour that was
/// split while they were there, and what is made of the samples alone says that it lacks them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_pays_for_an_hour_stays_when_its_tokens_are_gone() {
    let site = Site::new().await;
    an_hour(&site).await;
    import(&site, &PRICES, "ours", &[price("inf2.48xlarge", "60")]).await;
    site.clock.set(NOON + 90 * MINUTE);
    site.build().await;
    let tenants = "SELECT tenant, part, cost_usd, output_tokens, method FROM cost_per_tenant \
        WHERE time = TIMESTAMP '2026-11-29T12:00:00Z' AND cost_usd > 0 ORDER BY part";
    let of = |method: &str| {
        json!([[null, "idle", "0.500000000000", null, method], ["a", "requests", "0.500000000000", 1, method]])
    };
    assert_eq!(json!(site.world.rows(tenants).await), of("device time"));
    site.clock.set(NOON + 8 * DAY);
    let files = &site.world.lake.snapshot(TOKENS.name, None).await.expect("tokens").files;
    let gone = files.iter().map(|file| file.path.clone()).collect();
    let entry = Entry { journal: "sweep".to_owned(), table: TOKENS.name, from: 0, to: 1, adds: Vec::new() };
    site.world.lake.replace(entry, gone).await.expect("dropped");
    assert_eq!(json!(site.world.rows("SELECT count(*) FROM tokens").await), json!([[0]]));
    assert_eq!(json!(site.world.rows(tenants).await), of("device time; by the hour"));
    let parts = "SELECT part, cost_usd, output_tokens, method FROM replica_cost WHERE time = TIMESTAMP '2026-11-29T12:00:00Z' AND cost_usd > 0 ORDER BY part";
    let of = |part: &str| json!([part, "0.500000000000", null, "tokens are no longer kept: see costs_hours"]);
    assert_eq!(json!(site.world.rows(parts).await), json!([of("idle"), of("unattributed")]));
}

/// A bill in euros for old hours is in no sum until its rate is imported, and then in each of its hours: those that have rows and those that had none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_that_comes_after_its_bill_reaches_old_hours() {
    let site = Site::new().await;
    an_hour(&site).await;
    site.clock.set(NOON + 270 * MINUTE);
    site.build().await;
    site.clock.set(NOON + 20 * DAY);
    let euros = |host: &str, from_us: i64| {
        let mut charge = charge(host, from_us, 1, ["10", "8", "4"]);
        charge["currency"] = json!("EUR");
        charge
    };
    import(&site, &BILLING, "AWS/1/2026-11", &[euros("i-1", NOON), euros("i-9", NOON + 2 * HOUR)]).await;
    site.build().await;
    let sums = "SELECT host_id, sum(effective_cost), sum(billed_cost) FROM costs_1h GROUP BY host_id ORDER BY host_id";
    assert_eq!(json!(site.world.rows(sums).await), json!([["i-1", null, null]]));
    let rate = json!({"time": NOON - DAY, "effective_from": NOON - DAY, "currency": "EUR", "usd_per_unit": "1.25", "source": "test"});
    site.world.write(&EXCHANGE_RATES, &[rate]).await;
    site.build().await;
    let expected = json!([["i-1", "10.000000000000", "5.000000000000"], ["i-9", "10.000000000000", "5.000000000000"]]);
    assert_eq!(json!(site.world.rows(sums).await), expected);
}

/// Minutes that only a bill spoke of, built while there were raw rows, go with it when it is withdrawn later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_minutes_go_with_their_bill() {
    let site = Site::new().await;
    an_hour(&site).await;
    import(&site, &PRICES, "ours", &[price("inf2.48xlarge", "60")]).await;
    let both = ["i-1", "i-9"].map(|host| charge(host, NOON, 1, ["60", "30", "6"]));
    import(&site, &BILLING, "AWS/1/2026-11", &both).await;
    site.clock.set(NOON + 90 * MINUTE);
    site.build().await;
    let hosts = "SELECT host_id, sum(list_cost), sum(effective_cost) FROM costs_1h WHERE time >= TIMESTAMP '2026-11-29T12:00:00Z' \
        GROUP BY host_id ORDER BY host_id";
    let silent = json!([["i-1", "30.000000000000", "30.000000000000"], ["i-9", "30.000000000000", "30.000000000000"]]);
    assert_eq!(json!(site.world.rows(hosts).await), silent);
    site.clock.set(NOON + 20 * DAY);
    import(&site, &BILLING, "AWS/1/2026-11", &[charge("i-7", NOON, 1, ["1", "1", "1"])]).await;
    site.build().await;
    // of i-1 one minute was heard, whose estimate was the bill's rate and is unknown without it
    let expected = json!([["i-1", null, null], ["i-7", "1.000000000000", "1.000000000000"]]);
    assert_eq!(json!(site.world.rows(hosts).await), expected);
}

/// Where nothing says how an old hour was shared, its bill is one row; what the hour has of an estimate is not there twice. A host without an
/// engine counts no device time; its first minute has a price and its second none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_estimate_is_not_doubled_where_part_of_an_hour_has_no_price() {
    let site = Site::new().await;
    let sample = |minute: i64| {
        json!({"time": NOON + minute * MINUTE, "kind": "accelerator", "device": "0", "region": "eu-central-1", "host_id": "i-1",
            "host_type": "inf2.48xlarge"})
    };
    site.world.write(&DEVICES, &(0..=2).map(sample).collect::<Vec<_>>()).await;
    let mut until = price("inf2.48xlarge", "60");
    until["effective_to"] = json!(NOON + MINUTE);
    import(&site, &PRICES, "ours", &[until]).await;
    site.clock.set(NOON + 90 * MINUTE);
    site.build().await;
    site.clock.set(NOON + 20 * DAY);
    import(&site, &BILLING, "AWS/1/2026-11", &[charge("i-1", NOON, 1, ["60", "30", "6"])]).await;
    site.build().await;
    let sql = "SELECT basis, method, list_cost, effective_cost FROM costs_1h WHERE list_cost IS NULL OR list_cost > 0 OR effective_cost > 0 ORDER BY method, basis";
    let expected = json!([
        ["no price", "the bill alone", null, "30.000000000000"],
        ["list, assumed on-demand", "whole host", "1.000000000000", null],
        ["no price", "whole host", null, null]
    ]);
    assert_eq!(json!(site.world.rows(sql).await), expected);
}
