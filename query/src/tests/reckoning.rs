//! `what_if`: recorded calls elsewhere, with what each row assumes.

use serde_json::{Value, json};
use telemetry::table::{DEVICES, DISCOUNTS, EXCHANGE_RATES, GRID, POWER_MODELS, PRICES, REQUESTS};

use super::world::{NOON, World};

const MINUTE: i64 = 60_000_000;
const HOUR: &str = "'2026-11-29T12:00:00Z', '2026-11-29T13:00:00Z'";

async fn served() -> World {
    let world = World::new().await;
    let call = |n: i64, model: &str| {
        json!({"time": NOON + n % 10 * MINUTE, "region": "eu-west-1", "model": model, "measured_at": "server", "trace_id": format!("{model}{n}"),
            "span_id": "1", "host_id": "i-1", "instance": "i-1/0", "e2e_s": 5.0, "input_tokens": 128, "output_tokens": 256})
    };
    let calls: Vec<Value> = (0..200).map(|n| call(n, "Llama-3-8B")).chain([call(0, "nobody-knows")]).collect();
    world.write(&REQUESTS, &calls).await;
    let price = |from: i64, usd: &str| {
        json!({"time": from, "effective_from": from, "host_type": "inf2.48xlarge", "region": "us-east-1", "option": "on_demand",
            "usd_per_hour": usd, "currency": "USD", "confidence": "published", "as_of": "2026-07-20", "source": "test"})
    };
    world.write(&PRICES, &[price(1, "99.0"), price(2, "12.98127")]).await;
    let model = json!({"time": 1, "effective_from": 1, "device": "inferentia2", "boundary": "chip", "idle_w": 26.25, "max_w": 175.0,
        "method": "tdp", "confidence": "assumed", "as_of": "2026-11-29", "source": "nobody"});
    world.write(&POWER_MODELS, &[model]).await;
    let factor = json!({"time": 1, "effective_from": 1, "region": "us-east-1", "gco2e_per_kwh": 396.25, "pue": 1.15,
        "method": "location based, average", "confidence": "published", "as_of": "2024", "source": "test"});
    world.write(&GRID, &[factor]).await;
    world
}

/// 200 calls in ten minutes of an hour are a call in eighteen seconds: one host of twelve chips is enough, and what it costs in that hour, which is
/// what the hosts that served are paid for too, over 51,200 output tokens is 12.98127 ÷ 0.0512 = 253.5404 USD a million.
#[tokio::test]
async fn recorded_calls_are_reckoned_elsewhere() {
    let world = served().await;
    let sql = format!(
        "SELECT calls, output_tokens, seconds, hosts, usd_per_hour, round(usd_per_million_output_tokens, 4), boundary, watts > 315.0 AND watts < 2100.0, \
         round(gco2e_per_hour / watts, 5), assumes FROM what_if('inf2.48xlarge', 'us-east-1', 'on_demand', 4, {HOUR}) WHERE model = 'Llama-3-8B'"
    );
    let rows = world.rows(&sql).await;
    // a watt for an hour is 1.15 Wh with the facility, 0.4556875 g
    assert_eq!(
        rows[0][..9],
        [
            json!(200),
            json!(51_200),
            json!(3600.0),
            json!(1),
            json!("12.981270000000"),
            json!(253.5404),
            json!("chip"),
            json!(true),
            json!(0.45569)
        ]
    );
    let assumes = rows[0][9].as_str().expect("a text");
    for told in
        ["not measured", "mean error", "as of 2026-07-20", "PUE 1.15", "assumed", "128 prompt and 256 output tokens"]
    {
        assert!(assumes.contains(told), "{told} in {assumes}");
    }
    let sql = format!(
        "SELECT tpot_ms, usd_per_hour, assumes FROM what_if('inf2.48xlarge', 'us-east-1', 'on_demand', 4, {HOUR})"
    );
    let columns = world.ask(&sql).await.columns;
    assert_eq!(columns[0].unit.as_deref(), Some("ms"));
    assert_eq!(columns[1].unit.as_deref(), Some("USD/h"));
    assert!(columns.iter().all(|column| column.comment.is_some()));
}

/// The host that served, in us-east-1, at work for ten minutes and idle for the rest of three hours.
async fn stand_for_three_hours(world: &World) {
    let sample = |minute: i64| {
        json!({"time": NOON + minute * MINUTE, "kind": "engine", "region": "us-east-1", "model": "Llama-3-8B", "host_id": "i-1",
            "host_type": "inf2.48xlarge", "instance": "i-1/0", "chips": 12, "busy_us": minute.min(10) * 1_000_000, "padding_us": 0})
    };
    world.write(&DEVICES, &(0..=180).map(sample).collect::<Vec<_>>()).await;
}

const THREE_HOURS: &str = "'2026-11-29T12:00:00Z', '2026-11-29T15:00:00Z'";

/// A discount of a tenth from the second hour on. List stays 12.98127 an hour: 38.94381 over 51,200 tokens are 760.6213 USD a million. Paid are
/// 12.98127 × (1 + 0.9 + 0.9) = 36.347556: 12.115852 an hour and 709.9132 a million. The ledger says the same of the machine that served, less
/// the 0.0034 that the other model's call bore in the first hour: 760.6179 and 709.9099.
#[tokio::test]
async fn a_discount_is_the_same_on_both_sides() {
    let world = served().await;
    stand_for_three_hours(&world).await;
    let from = NOON + 60 * MINUTE;
    let discount = json!({"time": from, "effective_from": from, "option": "on_demand", "factor": "0.9", "source": "contract 4711",
        "as_of": "2026-11-01", "confidence": "published", "contract": "edp"});
    world.write(&DISCOUNTS, &[discount]).await;
    let sql = format!(
        "SELECT usd_per_hour, effective_usd_per_hour, round(usd_per_million_output_tokens, 4), round(effective_usd_per_million_output_tokens, 4), \
         round(recorded_usd_per_million_output_tokens, 3), round(recorded_effective_usd_per_million_output_tokens, 3), assumes \
         FROM what_if('inf2.48xlarge', 'us-east-1', 'on_demand', 4, {THREE_HOURS}) WHERE model = 'Llama-3-8B'"
    );
    let rows = world.rows(&sql).await;
    let expected = json!(["12.981270000000", "12.115852000000", 760.6213, 709.9132, 760.618, 709.91]);
    assert_eq!(json!(rows[0][..6]), expected);
    let assumes = rows[0][6].as_str().expect("a text");
    for told in [
        "no negotiated discount for 1.00 of 3.00 h",
        "paid at × 0.9 by edp (contract 4711, as of 2026-11-01) for 2.00 of 3.00 h",
        "12.981270000000 USD an hour a host in the mean of these hours, 12.115852000000 USD of it paid",
        "where they were served they cost by list, assumed on-demand, list, assumed on-demand with effective × 0.9 by edp",
    ] {
        assert!(assumes.contains(told), "{told} in {assumes}");
    }
}

/// 10 EUR an hour at 1.1 for the first hour, at 1.2 after: (11 + 12 + 12) ÷ 3 = 11.666666666667 USD, 35 over 51,200 tokens: 683.5938 a million. An
/// hour without a rate has no price, and the whole has none.
#[tokio::test]
async fn a_price_in_another_currency_is_converted_hour_by_hour() {
    let world = served().await;
    stand_for_three_hours(&world).await;
    let own = json!({"time": 1, "effective_from": 1, "host_type": "inf2.48xlarge", "region": "us-east-1", "option": "on_demand",
        "price_per_hour": "10", "currency": "EUR", "confidence": "estimated", "as_of": "2026-07-20", "source": "contract", "book": "mine"});
    world.write(&PRICES, &[own]).await;
    let rate = |usd: &str, from: i64, to: Option<i64>| {
        json!({"time": from, "effective_from": from, "effective_to": to, "currency": "EUR", "usd_per_unit": usd, "source": "ECB",
            "as_of": "2026-11-29", "confidence": "published"})
    };
    let sql = format!(
        "SELECT usd_per_hour, round(usd_per_million_output_tokens, 4), round(recorded_usd_per_million_output_tokens, 2), assumes \
         FROM what_if('inf2.48xlarge', 'us-east-1', 'on_demand', 4, {THREE_HOURS}) WHERE model = 'Llama-3-8B'"
    );
    let one = NOON + 60 * MINUTE;
    world.write(&EXCHANGE_RATES, &[rate("1.2", one, None)]).await;
    let rows = world.rows(&sql).await;
    assert_eq!(json!(rows[0][..2]), json!([null, null]));
    let missing = "is in EUR, and no row of `exchange_rates` is in force for 1.00 of 3.00 h";
    assert!(
        rows[0][3].as_str().is_some_and(|text| text.contains(missing) && text.contains("cost is unknown")),
        "{rows:?}"
    );
    world.write(&EXCHANGE_RATES, &[rate("1.1", 1, Some(one))]).await;
    let rows = world.rows(&sql).await;
    assert_eq!(json!(rows[0][..3]), json!(["11.666666666667", 683.5938, 683.59]));
    assert!(
        rows[0][3].as_str().is_some_and(|text| text.contains("EUR at 1.1 USD by ECB, as of 2026-11-29")),
        "{rows:?}"
    );
}

/// A host that stood idle for two hours after its calls cost those hours too where they were served, and so it does elsewhere. Asked for by parts of
/// hours, both sides are of the whole ones.
#[tokio::test]
async fn both_sides_are_paid_for_the_same_hours() {
    let world = served().await;
    stand_for_three_hours(&world).await;
    let ask = |from: &str, to: &str| {
        format!(
            "SELECT seconds, round(usd_per_million_output_tokens, 4), round(recorded_usd_per_million_output_tokens, 3), assumes \
             FROM what_if('inf2.48xlarge', 'us-east-1', 'on_demand', 4, '2026-11-29T{from}:00Z', '2026-11-29T{to}:00Z') WHERE model = 'Llama-3-8B'"
        )
    };
    // 3 × 12.98127 ÷ 0.0512 = 760.6213: it is the same machine at the same price. There the call of the other model bore the 21st part of a second
    // of it, 12.98127 ÷ 3600 ÷ 21 = 0.0001717 USD, so what is recorded is 760.6179
    for (from, to) in [("12:00", "15:00"), ("12:00", "18:00"), ("12:05", "14:10")] {
        let rows = world.rows(&ask(from, to)).await;
        assert_eq!(rows[0][..2], [json!(10_800.0), json!(760.6213)], "{from} to {to}");
        assert_eq!(rows[0][2], json!(760.618), "{from} to {to}");
        let assumes = rows[0][3].as_str().expect("a text");
        assert!(assumes.contains("paid for 3.00 h, as were those that served"), "{assumes}");
    }
}

/// What an operator pays outranks a newer price that comes with Tokenwatt.
#[tokio::test]
async fn the_operators_own_price_comes_first() {
    let world = served().await;
    let own = json!({"time": 1, "effective_from": 1, "host_type": "inf2.48xlarge", "region": "us-east-1", "option": "on_demand",
        "usd_per_hour": "7.5", "currency": "USD", "confidence": "estimated", "as_of": "2026-07-20", "source": "contract", "book": "mine"});
    world.write(&PRICES, &[own]).await;
    let sql = format!(
        "SELECT DISTINCT usd_per_hour FROM what_if('inf2.48xlarge', 'us-east-1', 'on_demand', 4, {HOUR}) WHERE model = 'Llama-3-8B'"
    );
    assert_eq!(world.rows(&sql).await, [[json!("7.500000000000")]]);
}

/// A price in another currency is the operator's own all the same, and no other stands in for it.
#[tokio::test]
async fn a_price_in_another_currency_is_no_quote_and_no_other_stands_in() {
    let world = served().await;
    let own = json!({"time": 1, "effective_from": 1, "host_type": "inf2.48xlarge", "region": "us-east-1", "option": "on_demand",
        "price_per_hour": "7.5", "currency": "EUR", "confidence": "estimated", "as_of": "2026-07-20", "source": "contract", "book": "mine"});
    world.write(&PRICES, &[own]).await;
    let sql = format!(
        "SELECT usd_per_hour, assumes FROM what_if('inf2.48xlarge', 'us-east-1', 'on_demand', 4, {HOUR}) WHERE model = 'Llama-3-8B'"
    );
    let rows = world.rows(&sql).await;
    assert_eq!(rows[0][0], json!(null));
    assert!(rows[0][1].as_str().is_some_and(|text| text.contains("cost is unknown")), "{rows:?}");
}

/// What nobody published has no figures, and the row says why; what has no price has no cost.
#[tokio::test]
async fn unknown_stays_unknown() {
    let world = served().await;
    let ask = |arguments: &str| {
        format!("SELECT model, hosts, usd_per_hour, assumes FROM what_if({arguments}, {HOUR}) ORDER BY model")
    };
    let rows = world.rows(&ask("'trn1.32xlarge', 'eu-west-1', 'spot', 4")).await;
    assert_eq!((&rows[0][0], &rows[0][2]), (&json!("Llama-3-8B"), &json!(null)));
    assert!(
        rows[0][1].is_i64() && rows[0][3].as_str().is_some_and(|text| text.contains("cost is unknown")),
        "{rows:?}"
    );
    assert_eq!(rows[1][..3], [json!("nobody-knows"), json!(null), json!(null)]);
    assert!(
        rows[1][3].as_str().is_some_and(|text| text.contains("no published step times of nobody-knows")),
        "{rows:?}"
    );
    let rows = world.rows(&ask("'m5.large', 'eu-west-1', 'spot', 4")).await;
    assert!(rows[0][3].as_str().is_some_and(|text| text.contains("take inf2.48xlarge")), "{rows:?}");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let world = served().await;
    for (arguments, told) in [
        ("'inf2.48xlarge'", "takes a host type"),
        ("'inf2.48xlarge', 'us-east-1', 'on_demand', 0", "from 1 to 4096"),
        ("'inf2.48xlarge', 'us-east-1', 'on_demand', 'many'", "from 1 to 4096"),
        ("'inf2.48xlarge', 'us-east-1', 7, 4", "takes a host type"),
    ] {
        let error = world.try_ask(&format!("SELECT * FROM what_if({arguments})")).await.expect_err(arguments);
        assert!(error.kind == "invalid" && error.message.contains(told), "{arguments}: {error:?}");
    }
    // a quote in a text is a quote
    let quoted = world.rows(&format!("SELECT hosts FROM what_if('it''s', 'x', 'y', 4, {HOUR})")).await;
    assert_eq!(quoted[0], [json!(null)]);
}
