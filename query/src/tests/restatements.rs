//! Why an hour costs something else than it did.

use serde_json::{Value, json};
use telemetry::list::Dated;
use telemetry::price::Price;
use telemetry::price::discount::Discount;
use telemetry::table::{BILLING, DEVICES, DISCOUNTS, PRICES};
use telemetry::unit::{UNITS_PER_USD, Usd};

use super::cost::{HOUR, INF2, MINUTE, REGION, charge, price, seen};
use super::rolling::Site;
use super::world::NOON;

const HISTORY: &str = "SELECT time, part, list_before, list_after, effective_before, effective_after, basis_before, basis_after, reason \
    FROM restatements ORDER BY restated_at, part";
const AT: &str = "2026-11-29T12:00:00.000000Z";

fn dollars(usd: i128) -> Usd {
    Usd(usd * UNITS_PER_USD)
}

/// A book of that name with one price.
pub(super) async fn import_price(site: &Site, book: &str, usd: i128, from_us: i64) {
    let price = Price {
        host_type: INF2.to_owned(),
        region: REGION.to_owned(),
        zone: None,
        option: "on_demand".to_owned(),
        per_hour: dollars(usd),
        currency: "USD".to_owned(),
        effective_from_us: from_us,
        effective_to_us: None,
        source: "contract".to_owned(),
        as_of: "2026-11-01".to_owned(),
        confidence: "published".to_owned(),
        note: None,
    };
    let mut import = lake::sets::Import::begin(&site.world.lake, &PRICES, &[]).await.expect("begun");
    import.write(book, &lake::reference::of_prices(&[price], Some(book)).expect("rows")).await.expect("written");
    import.commit().await.expect("imported");
}

pub(super) async fn import_discount(site: &Site, contract: &str) {
    let dated = Dated {
        from_us: NOON - HOUR,
        to_us: None,
        source: "contract".to_owned(),
        as_of: "2026-11-01".to_owned(),
        confidence: "published".to_owned(),
        note: None,
    };
    let (host_type, region, option) = (None, None, "on_demand".to_owned());
    let discount = Discount { option, factor: Usd(UNITS_PER_USD / 2), host_type, region, dated };
    let mut import = lake::sets::Import::begin(&site.world.lake, &DISCOUNTS, &[]).await.expect("begun");
    let rows = lake::reference::of_discounts(&[discount], contract).expect("rows");
    import.write(contract, &rows).await.expect("written");
    import.commit().await.expect("imported");
}

/// An idle hour at 60 USD an hour, which a book that is imported later says were 90; a contract says that half of it is paid, and the bill
/// in the end says 20. Each step is there with what it was before and the import that did it; building again without news adds nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changed_an_hour_is_told() {
    let site = Site::new().await;
    site.world.write(&PRICES, &[price(INF2, "on_demand", "60", json!({}))]).await;
    site.world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    site.clock.set(NOON + 90 * MINUTE);
    site.build().await;
    assert_eq!(site.world.rows(HISTORY).await, Vec::<Vec<Value>>::new(), "what is new restates nothing");
    let (list, half) = ("list, assumed on-demand", "list, assumed on-demand; effective × 0.5 by edp");
    let mut expected = Vec::new();

    import_price(&site, "mine", 90, NOON - HOUR).await;
    site.build().await;
    let [sixty, ninety] = ["60.000000000000", "90.000000000000"];
    expected.push(json!([AT, "idle", sixty, ninety, null, null, list, list, "import into prices: mine"]));
    assert_eq!(json!(site.world.rows(HISTORY).await), json!(expected));

    import_discount(&site, "edp").await;
    site.clock.set(NOON + 91 * MINUTE);
    site.build().await;
    let discounted = "45.000000000000";
    expected.push(json!([AT, "idle", ninety, ninety, null, discounted, list, half, "import into discounts: edp"]));
    assert_eq!(json!(site.world.rows(HISTORY).await), json!(expected));

    site.world.write(&BILLING, &[charge("i-1", INF2, "on_demand", 1.0, ["90", "20", "20"], json!({}))]).await;
    site.clock.set(NOON + 92 * MINUTE);
    site.build().await;
    site.build().await;
    let billed = "20.000000000000";
    expected.push(json!([AT, "idle", ninety, ninety, discounted, billed, half, "list, on-demand", "rows of billing"]));
    assert_eq!(json!(site.world.rows(HISTORY).await), json!(expected));
    let now = site.world.rows("SELECT sum(list_cost), sum(effective_cost) FROM costs_1h").await;
    assert_eq!(json!(now), json!([[ninety, billed]]), "the history ends where the hour is");
}

/// A book that is imported again without the price of that hour takes it back, and is named for it: 90 USD become the 60 of the price
/// that comes with Tokenwatt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_takes_back_is_named() {
    let site = Site::new().await;
    site.world.write(&PRICES, &[price(INF2, "on_demand", "60", json!({}))]).await;
    import_price(&site, "mine", 90, NOON - HOUR).await;
    site.world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    site.clock.set(NOON + 90 * MINUTE);
    site.build().await;
    import_price(&site, "mine", 90, NOON + 7 * 24 * HOUR).await;
    site.build().await;
    let sql = "SELECT list_before, list_after, reason FROM restatements";
    let expected = json!([["90.000000000000", "60.000000000000", "import into prices: mine"]]);
    assert_eq!(json!(site.world.rows(sql).await), expected);
}
