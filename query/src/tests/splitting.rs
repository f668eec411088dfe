//! Device time and cost add up, to the microsecond and to the last unit.

use serde_json::{Value, json};
use telemetry::table::{DEVICES, NODES, PRICES, REQUESTS, TOKENS};

use super::world::{NOON, World};

const MINUTE: i64 = 60_000_000;

fn engine(at_us: i64, host: &str, kind: &str, busy_us: i64, padding_us: i64) -> Value {
    json!({
        "time": at_us, "kind": "engine", "region": "eu-west-1", "model": "m", "host_id": host, "host_type": kind,
        "instance": format!("{host}/0"), "chips": 12, "busy_us": busy_us, "padding_us": padding_us,
    })
}

fn token(at_us: i64, host: &str, trace: &str, index: i64, device_us: i64) -> Value {
    json!({
        "time": at_us, "region": "eu-west-1", "model": "m", "host_id": host, "host_type": "inf2.48xlarge", "instance": format!("{host}/0"),
        "trace_id": trace, "request_span_id": "1", "choice": 0, "index": index, "count": 1, "device_us": device_us, "tenant": trace,
    })
}

fn price(from_us: i64, usd_per_hour: &str) -> Value {
    json!({
        "time": from_us, "effective_from": from_us, "host_type": "inf2.48xlarge", "region": "eu-west-1", "option": "on_demand",
        "usd_per_hour": usd_per_hour, "currency": "USD", "confidence": "published", "as_of": "2026-07-20", "source": "test",
    })
}

/// Two minutes of one priced host whose samples close just before the boundary, and of one host without a price.
async fn fleet() -> World {
    let world = World::new().await;
    world
        .write(
            &PRICES,
            &[
                price(NOON - 1_000 * MINUTE, "16.22658"),
                price(NOON + MINUTE, "20.0"),
                price(NOON + 1_000 * MINUTE, "1.0"),
            ],
        )
        .await;
    let end = |minute: i64| NOON + minute * MINUTE - 3_000;
    world
        .write(
            &DEVICES,
            &[
                engine(end(0), "i-1", "inf2.48xlarge", 1_000, 500),
                engine(NOON + 30_000_000, "i-1", "inf2.48xlarge", 7_001_000, 1_000_500),
                engine(end(1), "i-1", "inf2.48xlarge", 20_001_000, 3_000_501),
                // a step ends exactly with the minute: it belongs to the minute that ends
                engine(NOON + 2 * MINUTE, "i-1", "inf2.48xlarge", 50_001_000, 4_000_501),
                engine(end(0), "i-2", "custom-npu.8x", 0, 0),
                engine(end(1), "i-2", "custom-npu.8x", 10, 0),
            ],
        )
        .await;
    world
        .write(
            &TOKENS,
            &[
                token(end(0), "i-1", "before", 0, 999),
                token(NOON + 10_000_000, "i-1", "a", 0, 7_000_000),
                token(end(1), "i-1", "a", 1, 6_000_000),
                token(end(1), "i-1", "b", 0, 7_000_000),
                token(end(1) + 1, "i-1", "b", 1, 10_000_001),
                token(NOON + 2 * MINUTE, "i-1", "b", 2, 19_999_999),
                token(NOON + 2 * MINUTE + 1, "i-1", "after", 0, 5),
            ],
        )
        .await;
    world
}

const RANGE: &str = "time >= TIMESTAMP '2026-11-29T12:00:00Z' AND time < TIMESTAMP '2026-11-29T12:02:00Z'";

/// Σ requests + padding + idle = wall time, for every replica and minute.
#[tokio::test]
async fn device_time_adds_up_to_the_microsecond() {
    let world = fleet().await;
    let sql = format!(
        "SELECT requests_us, unattributed_us, padding_us, idle_us, wall_us, output_tokens FROM replica_minutes \
         WHERE {RANGE} AND host_id = 'i-1' ORDER BY time"
    );
    let first = json!([20_000_000, 0, 3_000_001, 36_999_999, 60_000_000, 3]);
    let second = json!([30_000_000, 0, 1_000_000, 29_003_000, 60_003_000, 2]);
    assert_eq!(json!(world.rows(&sql).await), json!([first, second]));
    let all = world.rows("SELECT count(*) FROM replica_minutes WHERE requests_us + unattributed_us + padding_us + idle_us <> wall_us").await;
    assert_eq!(all, [[json!(0)]]);
}

/// Σ cost over requests, padding, idle and the rest = the node's cost, to 10⁻¹² dollars.
#[tokio::test]
async fn cost_adds_up_to_the_last_unit() {
    let world = fleet().await;
    let nodes = format!(
        "SELECT cost_usd, usd_per_hour, basis, charged_us FROM node_cost WHERE {RANGE} AND host_id = 'i-1' ORDER BY time"
    );
    let nodes = world.rows(&nodes).await;
    assert_eq!(
        nodes[0],
        [json!("0.270443000000"), json!("16.226580000000"), json!("list, assumed on-demand"), json!(60_000_000)]
    );
    // the price that holds in the second minute, not the newest one there is
    assert_eq!(nodes[1][..2], [json!("0.333350000000"), json!("20.000000000000")]);
    for (sql, minutes) in [
        ("SELECT cost_usd FROM cost_per_region", 2),
        (
            "SELECT requests_cost_usd + padding_cost_usd + idle_cost_usd + unattributed_cost_usd + shared_cost_usd FROM cost_per_region",
            2,
        ),
        ("SELECT sum(cost_usd) FROM replica_cost", 2),
        ("SELECT sum(cost_usd) FROM cost_per_tenant", 2),
    ] {
        let group = if sql.contains("FROM cost_per_region") { "ORDER BY time" } else { "GROUP BY time ORDER BY time" };
        let rows = world.rows(&format!("{sql} WHERE {RANGE} {group}")).await;
        let expected: Vec<_> = nodes.iter().take(minutes).map(|node| vec![node[0].clone()]).collect();
        assert_eq!(rows, expected, "{sql}");
    }
    let requests = format!("SELECT sum(cost_usd) FROM request_cost WHERE {RANGE}");
    let parts = format!("SELECT sum(cost_usd) FROM replica_cost WHERE {RANGE} AND part = 'requests'");
    assert_eq!(world.rows(&requests).await, world.rows(&parts).await);
    let shares = world
        .rows(&format!("SELECT trace_id, device_us, cost_usd FROM request_cost WHERE {RANGE} ORDER BY trace_id"))
        .await;
    assert_eq!(shares.len(), 2);
    assert_eq!((&shares[0][0], &shares[0][1]), (&json!("a"), &json!(13_000_000)));
}

/// A host without a price costs something nobody knows: NULL, counted, named, and in no ratio.
#[tokio::test]
async fn no_price_is_unknown_and_not_zero() {
    let world = fleet().await;
    let rows = world
        .rows(&format!(
            "SELECT hosts, unpriced_hosts, unpriced, basis FROM cost_per_region WHERE {RANGE} ORDER BY time LIMIT 1"
        ))
        .await;
    assert_eq!(
        rows,
        [[json!(2), json!(1), json!("custom-npu.8x on-demand in eu-west-1"), json!("list, assumed on-demand")]]
    );
    let alone = world.rows(&format!("SELECT cost_usd, basis FROM node_cost WHERE {RANGE} AND host_id = 'i-2'")).await;
    assert_eq!(alone, [[json!(null), json!("no price")]]);
}

/// A known purchase option is priced as such, or not at all.
#[tokio::test]
async fn a_spot_host_is_not_priced_as_on_demand() {
    let world = fleet().await;
    let spot = json!({"time": NOON, "host_id": "i-1", "capacity_type": "spot", "first_seen": NOON, "last_seen": NOON + MINUTE, "chips": 12});
    world.write(&NODES, &[spot]).await;
    let rows = world
        .rows(&format!("SELECT \"option\", cost_usd, basis FROM node_cost WHERE {RANGE} AND host_id = 'i-1' LIMIT 1"))
        .await;
    assert_eq!(rows, [[json!("spot"), json!(null), json!("no price")]]);
}

/// A node whose interval began long before the stretch asked for is still the node; one that ended before it is not.
#[tokio::test]
async fn a_node_is_found_by_any_part_of_its_interval() {
    for (from, to, option) in [
        (NOON - 500 * MINUTE, NOON + MINUTE, "spot"),
        (NOON - 500 * MINUTE, NOON + 500 * MINUTE, "spot"),
        (NOON - 500 * MINUTE, NOON - 400 * MINUTE, "on_demand"),
        (NOON + 400 * MINUTE, NOON + 500 * MINUTE, "on_demand"),
    ] {
        let world = fleet().await;
        let node = json!({"time": from, "host_id": "i-1", "capacity_type": "spot", "first_seen": from, "last_seen": to, "chips": 12});
        world.write(&NODES, &[node]).await;
        let sql = format!("SELECT DISTINCT \"option\" FROM node_cost WHERE {RANGE} AND host_id = 'i-1'");
        assert_eq!(world.rows(&sql).await, [[json!(option)]], "{from} to {to}");
    }
}

/// What engines hold of a node is the sum over its replicas, and unknown where one does not say.
#[tokio::test]
async fn replicas_of_a_host_hold_its_chips_together() {
    let world = World::new().await;
    let mut samples = Vec::new();
    for (host, replica, chips) in
        [("i-1", 0, json!(3)), ("i-1", 1, json!(6)), ("i-2", 0, json!(3)), ("i-2", 1, json!(null))]
    {
        for (at, busy_us) in [(NOON, 0), (NOON + MINUTE, 30_000_000)] {
            let mut sample = engine(at, host, "inf2.48xlarge", busy_us, 0);
            sample["instance"] = json!(format!("{host}/{replica}"));
            sample["chips"] = chips.clone();
            samples.push(sample);
        }
    }
    world.write(&DEVICES, &samples).await;
    let node = |host: &str| json!({"time": NOON - MINUTE, "host_id": host, "first_seen": NOON - MINUTE, "last_seen": NOON + MINUTE, "chips": 12});
    world.write(&NODES, &[node("i-1"), node("i-2")]).await;
    let rows =
        world.rows("SELECT host_id, allocated FROM utilization WHERE instance IS NOT NULL ORDER BY instance").await;
    let expected = [("i-1", json!(0.75)), ("i-1", json!(0.75)), ("i-2", json!(null)), ("i-2", json!(null))];
    assert_eq!(rows, expected.map(|(host, share)| [json!(host), share]));
}

/// Dollars per million tokens: all cost, and the part that requests used.
#[tokio::test]
async fn a_ratio_names_its_basis() {
    let world = fleet().await;
    let sql = format!(
        "SELECT basis, output_tokens, round(usd_per_million_output_tokens) FROM cost_per_million_tokens WHERE {RANGE} \
         AND time = TIMESTAMP '2026-11-29T12:00:00Z' AND host_type = 'inf2.48xlarge' ORDER BY basis"
    );
    let rows = world.rows(&sql).await;
    assert_eq!(rows, [[json!("allocation"), json!(3), json!(90148.0)], [json!("usage"), json!(3), json!(30049.0)]]);
}

/// An engine that sends no counters is charged by what is seen of it, and the cost belongs to no request.
#[tokio::test]
async fn an_engine_without_counters_is_charged_whole() {
    let world = World::new().await;
    world.write(&PRICES, &[price(NOON - MINUTE, "60.0")]).await;
    let call = json!({
        "time": NOON + 5, "region": "eu-west-1", "model": "m", "measured_at": "server", "host_id": "i-9", "host_type": "inf2.48xlarge",
        "output_tokens": 100, "input_tokens": 50, "trace_id": "a", "span_id": "1",
    });
    world.write(&REQUESTS, &[call]).await;
    let rows = world.rows("SELECT part, cost_usd, output_tokens, method FROM replica_cost").await;
    assert_eq!(rows, [[json!("unattributed"), json!("1.000000000000"), json!(100), json!("whole host")]]);
}

/// Two replicas of one host: each has the tokens of its own calls, and a call without tokens of its own is not lost.
#[tokio::test]
async fn replicas_of_a_host_do_not_share_their_tokens() {
    let world = World::new().await;
    world.write(&PRICES, &[price(NOON - MINUTE, "60.0")]).await;
    let mut samples = Vec::new();
    for replica in ["i-1/0", "i-1/1"] {
        for (at, busy_us) in [(NOON, 0), (NOON + MINUTE, 30_000_000)] {
            let mut sample = engine(at, "i-1", "inf2.48xlarge", busy_us, 0);
            sample["instance"] = json!(replica);
            sample["chips"] = json!(6);
            samples.push(sample);
        }
    }
    world.write(&DEVICES, &samples).await;
    let call = |replica: &str, span: &str, sampling: f64| {
        json!({
            "time": NOON + 5, "region": "eu-west-1", "model": "m", "measured_at": "server", "host_id": "i-1", "host_type": "inf2.48xlarge",
            "instance": replica, "input_tokens": 100, "output_tokens": 10, "token_sampling": sampling, "trace_id": span, "span_id": span,
        })
    };
    world.write(&REQUESTS, &[call("i-1/0", "1", 1.0), call("i-1/1", "2", 0.0), call("i-1/1", "3", 0.0)]).await;
    world.write(&TOKENS, &[token(NOON + 10, "i-1", "1", 0, 30_000_000)]).await;
    let range = "time = TIMESTAMP '2026-11-29T12:00:00Z'";
    let sql = format!(
        "SELECT basis, input_tokens, output_tokens, cost_usd FROM cost_per_million_tokens WHERE {range} ORDER BY basis"
    );
    let row = |basis: &str, usd: &str| [json!(basis), json!(300), json!(21), json!(usd)];
    assert_eq!(world.rows(&sql).await, [row("allocation", "1.000000000000"), row("usage", "0.500000000000")]);
}

/// One model on two machines for a minute: inf2.48xlarge at 36 USD an hour, so 0.6, busy for 30 s with 200 prompt and 100 output tokens; p5.48xlarge at
/// 60, so 1, busy for 15 s with 600 and 300. By all cost, the first is 0.6 ÷ 100 = 6,000 USD a million output tokens, 0.6 ÷ 200 = 3,000 input,
/// 0.6 ÷ 300 = 2,000 of both; the second 3,333.33, 1,666.67 and 1,111.11. By device time the first is half, the second a quarter of that.
/// Together they are what the hosts cost: 1.6 over 400, 4,000 a million.
#[tokio::test]
async fn machines_are_compared_by_what_their_tokens_cost() {
    let world = World::new().await;
    let machines = [("i-1", "inf2.48xlarge", "36.0", 30, 200, 100), ("i-2", "p5.48xlarge", "60.0", 15, 600, 300)];
    for (host, kind, usd, busy_s, input, output) in machines {
        let mut price = price(NOON - MINUTE, usd);
        price["host_type"] = json!(kind);
        world.write(&PRICES, &[price]).await;
        let engines = [engine(NOON, host, kind, 0, 0), engine(NOON + MINUTE, host, kind, busy_s * 1_000_000, 0)];
        world.write(&DEVICES, &engines).await;
        let call = json!({
            "time": NOON + 5, "region": "eu-west-1", "model": "m", "measured_at": "server", "host_id": host, "host_type": kind,
            "instance": format!("{host}/0"), "input_tokens": input, "output_tokens": output, "token_sampling": 1.0, "trace_id": host, "span_id": "1",
        });
        world.write(&REQUESTS, &[call]).await;
        let mut token = token(NOON + 10, host, host, 0, busy_s * 1_000_000);
        (token["host_type"], token["count"]) = (json!(kind), json!(output));
        world.write(&TOKENS, &[token]).await;
    }
    let minute = "time = TIMESTAMP '2026-11-29T12:00:00Z'";
    let sql = format!(
        "SELECT basis, host_type, cost_usd, round(usd_per_million_output_tokens, 2), round(usd_per_million_input_tokens, 2), \
         round(usd_per_million_tokens, 2) FROM cost_per_million_tokens WHERE {minute} ORDER BY basis, host_type"
    );
    let expected = json!([
        ["allocation", "inf2.48xlarge", "0.600000000000", 6_000.0, 3_000.0, 2_000.0],
        ["allocation", "p5.48xlarge", "1.000000000000", 3_333.33, 1_666.67, 1_111.11],
        ["usage", "inf2.48xlarge", "0.300000000000", 3_000.0, 1_500.0, 1_000.0],
        ["usage", "p5.48xlarge", "0.250000000000", 833.33, 416.67, 277.78],
    ]);
    assert_eq!(json!(world.rows(&sql).await), expected);
    let totals = format!(
        "SELECT sum(cost_usd), sum(output_tokens), (SELECT sum(cost_usd) FROM node_cost WHERE {minute}) FROM cost_per_million_tokens \
         WHERE {minute} AND basis = 'allocation'"
    );
    assert_eq!(json!(world.rows(&totals).await), json!([["1.600000000000", 400, "1.600000000000"]]));
    world.query.fleet.add(NOON / MINUTE).await.expect("counted");
    let page = world.query.fleet.page(crate::fleet::Exemplars::Left).await;
    let line = r#"tokenwatt_cost_usd_per_million_output_tokens{region="eu-west-1",model="m"} 4000"#;
    assert!(page.lines().any(|found| found == line), "{line} in {page}");
}

/// The tokens of an engine that reports no device time are not paid by the device time of another.
#[tokio::test]
async fn usage_is_divided_by_tokens_whose_device_time_is_known() {
    let world = fleet().await;
    let call = json!({
        "time": NOON + 5, "region": "eu-west-1", "model": "m", "measured_at": "server", "host_id": "i-9", "host_type": "inf2.48xlarge",
        "output_tokens": 1_000, "input_tokens": 50, "trace_id": "z", "span_id": "1",
    });
    world.write(&REQUESTS, &[call]).await;
    let sql = "SELECT basis, output_tokens FROM cost_per_million_tokens WHERE time = TIMESTAMP '2026-11-29T12:00:00Z' \
               AND host_type = 'inf2.48xlarge' ORDER BY basis";
    assert_eq!(world.rows(sql).await, [[json!("allocation"), json!(1_003)], [json!("usage"), json!(3)]]);
}

/// Tokens whose engine says nothing of device time have an unknown cost, not a free one.
#[tokio::test]
async fn unknown_device_time_is_an_unknown_cost() {
    let world = fleet().await;
    let mut silent = token(NOON + 10_000_001, "i-1", "silent", 0, 0);
    silent["device_us"] = Value::Null;
    world.write(&TOKENS, &[silent]).await;
    let rows = world
        .rows(&format!("SELECT device_us, cost_usd FROM request_cost WHERE {RANGE} AND trace_id = 'silent'"))
        .await;
    assert_eq!(rows, [[Value::Null, Value::Null]]);
}

/// A call is counted in the minute in which it ended, however long ago it began.
#[tokio::test]
async fn fleet_series_count_calls_of_every_length() {
    let world = World::new().await;
    for (span, seconds) in [("1", 5.0), ("2", 700.0), ("3", 80_000.0)] {
        let call = json!({
            "time": NOON + 30_000_000 - (seconds * 1e6) as i64, "region": "eu-west-1", "model": "m", "measured_at": "server",
            "trace_id": span, "span_id": span, "ttft_s": 1.0, "tpot_s": 0.1, "e2e_s": seconds, "output_tokens": 7,
        });
        world.write(&REQUESTS, &[call]).await;
    }
    world.query.fleet.add(NOON / MINUTE).await.expect("counted");
    let page = world.query.fleet.page(crate::fleet::Exemplars::Left).await;
    let place = r#"region="eu-west-1",model="m",measured_at="server""#;
    for line in ["ttft_seconds_count", "time_per_output_token_seconds_count", "requests_total"] {
        assert!(page.contains(&format!("tokenwatt_{line}{{{place}}} 3\n")), "{line} in {page}");
    }
    assert!(page.contains(&format!("tokenwatt_output_tokens_total{{{place}}} 21\n")), "{page}");
}

/// The fleet's series count a closed minute once, and a host without a price adds nothing to dollars.
#[tokio::test]
async fn fleet_series_count_each_minute_once() {
    let world = fleet().await;
    let call = |at: i64, ttft: f64| {
        json!({
            "time": at, "region": "eu-west-1", "model": "m", "measured_at": "server", "host_id": "i-1", "trace_id": "a", "span_id": "1",
            "ttft_s": ttft, "e2e_s": 2.0, "output_tokens": 2,
        })
    };
    // the second call ends in the next minute and is counted there
    world.write(&REQUESTS, &[call(NOON + 5, 1.0), call(NOON + MINUTE - 1_000_000, 1.2)]).await;
    let minute = NOON / MINUTE;
    world.query.fleet.add(minute).await.expect("counted");
    let page = world.query.fleet.page(crate::fleet::Exemplars::Shown).await;
    let place = r#"region="eu-west-1",model="m""#;
    for line in [
        format!(r##"tokenwatt_ttft_seconds_bucket{{{place},measured_at="server",le="1.0"}} 1 # {{trace_id="a"}} 1"##),
        format!(r#"tokenwatt_ttft_seconds_count{{{place},measured_at="server"}} 1"#),
        format!(r#"tokenwatt_requests_total{{{place},measured_at="server"}} 1"#),
        format!(r#"tokenwatt_cost_usd_total{{{place}}} 0.270443"#),
        format!(r#"tokenwatt_cost_usd_per_hour{{{place}}} 16.22658"#),
        format!(r#"tokenwatt_unpriced_hosts{{{place}}} 1"#),
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
    }
    assert!(page.ends_with("# EOF\n") && !page.contains("tokenwatt_power_watts"), "{page}");
    world.query.fleet.add(minute + 1).await.expect("counted");
    let page = world.query.fleet.page(crate::fleet::Exemplars::Shown).await;
    assert!(page.contains(&format!(r#"tokenwatt_requests_total{{{place},measured_at="server"}} 2"#)), "{page}");
}
