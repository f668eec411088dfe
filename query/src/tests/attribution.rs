//! Who pays for which part of a node, in cases worked out by hand.

use serde_json::{Value, json};
use telemetry::table::{BILLING, DEVICES, INVENTORY, NODES, PRICES, REQUESTS, TOKENS};

use super::world::{NOON, World};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
/// The minute that begins at noon.
const THEN: &str = "time = TIMESTAMP '2026-11-29T12:00:00Z'";

fn on(host: &str, replica: &str, at_us: i64, more: Value) -> Value {
    let mut row = json!({"time": at_us, "region": "eu-central-1", "model": "m", "host_id": host, "host_type": "inf2.48xlarge", "instance": replica});
    let (Some(fields), Value::Object(more)) = (row.as_object_mut(), more) else { panic!("objects") };
    fields.extend(more);
    row
}

/// An engine that ran for so many seconds of the minute from noon, with so many seconds of padding.
fn engine(host: &str, replica: &str, busy_s: i64, padding_s: i64) -> [Value; 2] {
    let sample = |at: i64, busy: i64, padding: i64| {
        on(
            host,
            replica,
            at,
            json!({"kind": "engine", "chips": 12, "busy_us": busy * SECOND, "padding_us": padding * SECOND}),
        )
    };
    [sample(NOON, 0, 0), sample(NOON + MINUTE, busy_s, padding_s)]
}

fn token(replica: &str, tenant: &str, at_s: i64, device_s: i64) -> Value {
    let more = json!({"trace_id": tenant, "request_span_id": "1", "choice": 0, "index": 0, "count": 1, "device_us": device_s * SECOND, "tenant": tenant});
    on("i-1", replica, NOON + at_s * SECOND, more)
}

fn call(replica: &str, tenant: &str, (from_s, for_s): (i64, i64), more: Value) -> Value {
    let mut call = on(
        "i-1",
        replica,
        NOON + from_s * SECOND,
        json!({"measured_at": "server", "trace_id": tenant, "span_id": "1", "tenant": tenant, "e2e_s": for_s as f64, "status": "ok"}),
    );
    let (Some(fields), Value::Object(more)) = (call.as_object_mut(), more) else { panic!("objects") };
    fields.extend(more);
    call
}

async fn priced(usd_per_hour: &str) -> World {
    let world = World::new().await;
    let price = json!({
        "time": NOON - 900 * MINUTE, "effective_from": NOON - 900 * MINUTE, "host_type": "inf2.48xlarge", "region": "eu-central-1",
        "option": "on_demand", "usd_per_hour": usd_per_hour, "currency": "USD", "confidence": "published", "as_of": "2026-07-20", "source": "test",
    });
    world.write(&PRICES, &[price]).await;
    world
}

async fn tenants(world: &World) -> Vec<Vec<Value>> {
    let sql = format!(
        "SELECT tenant, part, cost_usd, method FROM cost_per_tenant WHERE {THEN} AND cost_usd > 0 ORDER BY part, tenant"
    );
    world.rows(&sql).await
}

/// inf2.48xlarge in eu-central-1 costs 19.4719 USD an hour: 0.32453166666… a minute, 0.324531666667 at 12 decimals. It runs for half of it,
/// 15 s for a, 10 s for b, 5 s for c.
///
/// Idle and requests are 0.1622658333335 each: the odd unit goes to the earlier part in the alphabet, idle. Of the requests'
/// 0.162265833333 a has half (…916666.5), b a third (…611111.0) and c a sixth (…305555.5): the odd unit goes to the earlier of a and c.
#[tokio::test]
async fn half_idle_with_three_tenants() {
    let world = priced("19.4719").await;
    world.write(&DEVICES, &engine("i-1", "r", 30, 0)).await;
    world.write(&TOKENS, &[token("r", "a", 20, 15), token("r", "b", 30, 10), token("r", "c", 40, 5)]).await;
    let of = |part: &str, tenant: Value, usd: &str| [tenant, json!(part), json!(usd), json!("device time")];
    assert_eq!(
        tenants(&world).await,
        [
            of("idle", json!(null), "0.162265833334"),
            of("requests", json!("a"), "0.081132916667"),
            of("requests", json!("b"), "0.054088611111"),
            of("requests", json!("c"), "0.027044305555"),
        ]
    );
    // the same money under each policy: shown, borne by those served (half the minute idle doubles what they pay), left out
    let policies = "SELECT idle_policy, sum(cost_usd), count(CASE WHEN part = 'idle' AND cost_usd > 0 THEN 1 END), \
        round(CAST(sum(CASE WHEN tenant = 'a' THEN cost_usd END) AS DOUBLE), 9) FROM allocated_cost GROUP BY idle_policy ORDER BY idle_policy";
    assert_eq!(
        world.rows(policies).await,
        [
            [json!("hide"), json!("0.162265833333"), json!(0), json!(0.081132917)],
            [json!("share"), json!("0.324531666667"), json!(0), json!(0.162265833)],
            [json!("show"), json!("0.324531666667"), json!(1), json!(0.081132917)],
        ]
    );
    let hours = "SELECT sum(list_cost), min(basis), min(currency), min(price_as_of) FROM costs_hours";
    assert_eq!(
        world.rows(hours).await,
        [[json!("0.324531666667"), json!("list, assumed on-demand"), json!("USD"), json!("2026-07-20")]]
    );
    let waste = world
        .rows("SELECT idle_us, padding_us, waste_share, idle_cost_usd FROM idle_waste WHERE idle_cost_usd > 0")
        .await;
    assert_eq!(waste, [[json!(30 * SECOND), json!(0), json!(0.5), json!("0.162265833334")]]);
}

/// 21.6 USD an hour are 0.36 a minute. The engine ran 30 s: 20 s for a call whose tokens came, 10 s for the prefill of one that was given up
/// before its first token. Requests cost 30/60 of 0.36 = 0.18: two thirds and one third of it.
#[tokio::test]
async fn an_aborted_request_pays_for_what_it_used() {
    let world = priced("21.6").await;
    world.write(&DEVICES, &engine("i-1", "r", 30, 0)).await;
    world.write(&TOKENS, &[token("r", "patient", 30, 20)]).await;
    let sampled =
        json!({"token_sampling": 1.0, "output_tokens": 1, "device_us_prefill": 0, "device_us_decode": 20 * SECOND});
    let aborted = json!({"token_sampling": 1.0, "output_tokens": 0, "status": "cancelled", "device_us_prefill": 10 * SECOND, "device_us_decode": 0});
    world.write(&REQUESTS, &[call("r", "patient", (1, 40), sampled), call("r", "hasty", (5, 12), aborted)]).await;
    let rest = "device time of the replica, by calls in flight";
    assert_eq!(
        tenants(&world).await,
        [
            [json!(null), json!("idle"), json!("0.180000000000"), json!("device time, rest by calls in flight")],
            [json!("hasty"), json!("requests"), json!("0.060000000000"), json!(rest)],
            [json!("patient"), json!("requests"), json!("0.120000000000"), json!("device time")],
        ]
    );
}

/// The same engine, and no call to bear the 10 s: they are nobody's, and say so.
#[tokio::test]
async fn device_time_that_no_call_explains_is_unattributed() {
    let world = priced("21.6").await;
    world.write(&DEVICES, &engine("i-1", "r", 30, 6)).await;
    world.write(&TOKENS, &[token("r", "patient", 30, 20)]).await;
    let rows = tenants(&world).await;
    let found: Vec<_> = rows.iter().map(|row| (row[1].as_str(), row[2].as_str())).collect();
    assert_eq!(
        found,
        [
            (Some("idle"), Some("0.144000000000")),
            (Some("padding"), Some("0.036000000000")),
            (Some("requests"), Some("0.120000000000")),
            (Some("unattributed"), Some("0.060000000000")),
        ]
    );
}

/// An engine that counts no device time, 0.36 USD a minute: a call in flight from second 1 to 31, another from 16 to 46. For 45 s somebody was
/// served: 0.27, half each, since each flew for 30 s. The other 15 s are idle: 0.09.
#[tokio::test]
async fn calls_in_flight_pay_where_an_engine_counts_no_device_time() {
    let world = priced("21.6").await;
    let sample = |at: i64| on("i-1", "v", at, json!({"kind": "engine", "running": 1}));
    world.write(&DEVICES, &[sample(NOON), sample(NOON + MINUTE)]).await;
    let of_call = || json!({"output_tokens": 90});
    world.write(&REQUESTS, &[call("v", "a", (1, 30), of_call()), call("v", "b", (16, 30), of_call())]).await;
    let flight = json!("calls in flight");
    assert_eq!(
        tenants(&world).await,
        [
            [json!(null), json!("idle"), json!("0.090000000000"), flight.clone()],
            [json!("a"), json!("requests"), json!("0.135000000000"), flight.clone()],
            [json!("b"), json!("requests"), json!("0.135000000000"), flight],
        ]
    );
    let tokens = world.rows("SELECT sum(tokens) FROM costs_hours").await;
    assert_eq!(tokens, [[json!(180)]]);
}

/// A host whose engine waits has idle cost; one without an engine is shared.
#[tokio::test]
async fn a_waiting_engine_is_idle_and_a_host_without_one_is_shared() {
    let world = priced("21.6").await;
    let sample = |host: &str, at: i64, kind: &str| on(host, "v", at, json!({"kind": kind, "utilization": 0.0}));
    let two = |host: &'static str, kind: &'static str| [sample(host, NOON, kind), sample(host, NOON + MINUTE, kind)];
    world.write(&DEVICES, &[two("i-1", "engine"), two("i-2", "host")].concat()).await;
    let sql = format!("SELECT host_id, part, cost_usd FROM replica_cost WHERE {THEN} ORDER BY host_id");
    let expected =
        [("i-1", "idle"), ("i-2", "shared")].map(|(host, part)| [json!(host), json!(part), json!("0.360000000000")]);
    assert_eq!(world.rows(&sql).await, expected);
    // nobody was served, so nobody bears the idle line, and it is not lost
    let share = "SELECT part, cost_usd FROM allocated_cost WHERE idle_policy = 'share' AND cost_usd > 0 ORDER BY part";
    let expected = ["idle", "shared"].map(|part| [json!(part), json!("0.360000000000")]);
    assert_eq!(world.rows(share).await, expected);
}

/// One GPU cut into slices of three and four sevenths by MIG, an engine on each, 1.006 USD an hour: 0.016766666667 a minute, of which 3/7 are
/// 0.007185714285.857… and 4/7 0.009580952381.142…; the odd unit goes to the larger remainder, the first. One meter for the whole GPU: of its 120 J
/// 3/7 are 51.428571 and 4/7 68.571429. The first ran 30 s of 60, the second 15 s. Both together are one chip, of one that the node has.
#[tokio::test]
async fn slices_of_one_gpu_share_its_price_and_its_meter() {
    let world = priced("1.006").await;
    let meter = |at: i64, joules: f64| {
        let mut row =
            on("i-1", "", at, json!({"kind": "accelerator", "device": "0", "energy_j": joules, "boundary": "board"}));
        row.as_object_mut().expect("an object").remove("instance");
        row
    };
    let slice = |instance: &str, busy_s: i64, accelerator: &str| {
        let mut rows = engine("i-1", instance, busy_s, 0);
        for row in &mut rows {
            row["chips"] = json!(1);
            row["accelerator"] = json!(accelerator);
        }
        rows
    };
    let slices = [
        slice("mig-3g", 30, "NVIDIA H100 80GB HBM3 MIG 3g.40gb"),
        slice("mig-4g", 15, "NVIDIA-H100-80GB-HBM3-MIG-4g.40gb"),
    ];
    let mut rows: Vec<Value> = slices.into_iter().flatten().collect();
    rows.extend([meter(NOON, 0.0), meter(NOON + MINUTE, 120.0)]);
    world.write(&DEVICES, &rows).await;
    let node = json!({"time": NOON, "host_id": "i-1", "first_seen": NOON, "last_seen": NOON + MINUTE, "chips": 1});
    world.write(&NODES, &[node]).await;
    let sql = format!(
        "SELECT c.instance, sum(c.cost_usd), round(sum(e.joules), 6), round(sum(CASE WHEN c.part = 'idle' THEN e.joules END), 6) FROM replica_cost AS c \
         JOIN replica_energy AS e ON e.time = c.time AND e.instance = c.instance AND e.part = c.part WHERE c.{THEN} GROUP BY c.instance ORDER BY 1"
    );
    assert_eq!(
        world.rows(&sql).await,
        [
            [json!("mig-3g"), json!("0.007185714286"), json!(51.428571), json!(25.714286)],
            [json!("mig-4g"), json!("0.009580952381"), json!(68.571429), json!(51.428571)],
        ]
    );
    let held = "SELECT instance, allocated, round(chips_held * 7.0, 9) FROM utilization WHERE instance IS NOT NULL ORDER BY instance";
    let expected = json!([["mig-3g", 1.0, 3.0], ["mig-4g", 1.0, 4.0]]);
    assert_eq!(json!(world.rows(held).await), expected);
}

/// A p5 of eight GPUs at 55.04 USD an hour, 0.917333333333 a minute, and one engine of one GPU that ran for half of it for acme: an eighth is
/// 0.114666666666.625 and seven eighths are 0.802666666666.375, so the odd unit is the engine's: 0.114666666667. Its idle half and acme's are
/// 0.0573333333335 each, of which the odd unit is idle's, earlier in the alphabet. Seven chips that nobody holds are idle of no model. A list that
/// knows of 16 chips says it, too: a sixteenth is 0.057333333333.3125 and the rest 0.859999999999.6875, which has the odd unit. An engine that does
/// not say what it holds bears the host as a whole.
#[tokio::test]
async fn chips_that_no_engine_holds_are_idle() {
    let world = priced("55.04").await;
    let engine_of = |chips: Value| {
        let mut rows = engine("i-1", "r", 30, 0);
        for row in &mut rows {
            row["chips"] = chips.clone();
            row["pool"] = json!("chat");
        }
        rows
    };
    world.write(&DEVICES, &engine_of(json!(1))).await;
    world.write(&TOKENS, &[token("r", "acme", 20, 30)]).await;
    let lines = format!(
        "SELECT part, model, instance, method, pool, cost_usd FROM replica_cost WHERE {THEN} AND cost_usd > 0 ORDER BY part, instance"
    );
    let of =
        |part: &str, usd: &str| [json!(part), json!("m"), json!("r"), json!("device time"), json!("chat"), json!(usd)];
    let unheld = |usd: &str| {
        [json!("idle"), json!(null), json!(null), json!("chips that no engine holds"), json!("chat"), json!(usd)]
    };
    // nobody says how many chips the host has
    assert_eq!(world.rows(&lines).await, [of("idle", "0.458666666667"), of("requests", "0.458666666666")]);
    let node = json!({"time": NOON, "host_id": "i-1", "first_seen": NOON, "last_seen": NOON + MINUTE, "chips": 8});
    world.write(&NODES, &[node]).await;
    let expected = [of("idle", "0.057333333334"), unheld("0.802666666666"), of("requests", "0.057333333333")];
    assert_eq!(world.rows(&lines).await, expected);
    let waste =
        "SELECT model, idle_cost_usd, idle_us FROM idle_waste WHERE idle_cost_usd > 0 ORDER BY model NULLS LAST";
    let expected = json!([["m", "0.057333333334", 30 * SECOND], [null, "0.802666666666", null]]);
    assert_eq!(json!(world.rows(waste).await), expected);
    let acme = format!("SELECT sum(cost_usd) FROM cost_per_tenant WHERE {THEN} AND tenant = 'acme'");
    assert_eq!(json!(world.rows(&acme).await), json!([["0.057333333333"]]));
    for sums in ["cost_per_region", "cost_per_tenant", "replica_cost"] {
        let whole = world.rows(&format!("SELECT sum(cost_usd) FROM {sums} WHERE {THEN}")).await;
        assert_eq!(json!(whole), json!([["0.917333333333"]]), "{sums}");
    }
    let listed = json!({"time": NOON - MINUTE, "effective_from": NOON - MINUTE, "host_id": "i-1", "host_type": "inf2.48xlarge", "region": "eu-central-1",
        "chips": 16, "source": "assets", "as_of": "2026-11-01", "list": "assets"});
    world.write(&INVENTORY, &[listed]).await;
    let expected = [of("idle", "0.028666666667"), unheld("0.860000000000"), of("requests", "0.028666666666")];
    assert_eq!(world.rows(&lines).await, expected);
    world
        .write(
            &DEVICES,
            &engine_of(json!(null)).map(|mut row| {
                row["instance"] = json!("s");
                row
            }),
        )
        .await;
    let found = world.rows(&lines).await;
    assert!(found.iter().all(|row| row[3] == json!("device time")), "{found:?}");
}

/// One slice of three sevenths of the only GPU of a node, an engine on it: of 0.016766666667 a minute three sevenths are 0.007185714285.857… and four
/// 0.009580952381.142…; the odd unit is the slice's.
#[tokio::test]
async fn the_rest_of_a_sliced_gpu_is_idle() {
    let world = priced("1.006").await;
    let mut rows = engine("i-1", "mig-3g", 60, 0);
    for row in &mut rows {
        row["chips"] = json!(1);
        row["accelerator"] = json!("NVIDIA H100 80GB HBM3 MIG 3g.40gb");
    }
    world.write(&DEVICES, &rows).await;
    let node = json!({"time": NOON, "host_id": "i-1", "first_seen": NOON, "last_seen": NOON + MINUTE, "chips": 1});
    world.write(&NODES, &[node]).await;
    let lines = format!(
        "SELECT part, instance, chip_parts, cost_usd FROM replica_cost WHERE {THEN} AND cost_usd > 0 ORDER BY part"
    );
    let expected = json!([["idle", null, 16, "0.009580952381"], ["unattributed", "mig-3g", 12, "0.007185714286"]]);
    assert_eq!(json!(world.rows(&lines).await), expected);
}

/// An A30 has quarters; what names no profile holds the chips that it says.
#[tokio::test]
async fn a_slice_is_told_by_its_profile() {
    let world = priced("1").await;
    for (accelerator, chips, parts) in [
        ("NVIDIA A30 MIG 1g.6gb", 1, 7),
        ("A100-SXM4-40GB-MIG-1g.5gb", 1, 4),
        ("NVIDIA H100 80GB HBM3 MIG 7g.80gb", 1, 28),
        ("NVIDIA H100 80GB HBM3 MIG 9g.80gb", 1, 28),
        ("NVIDIA H100 80GB HBM3", 8, 224),
        ("inferentia2", 12, 336),
    ] {
        let mut rows = engine(accelerator, "r", 30, 0);
        for row in &mut rows {
            row["chips"] = json!(chips);
            row["accelerator"] = json!(accelerator);
        }
        world.write(&DEVICES, &rows).await;
        let sql = format!("SELECT DISTINCT chip_parts FROM engine_minutes WHERE host_id = '{accelerator}'");
        assert_eq!(world.rows(&sql).await, [[json!(parts)]], "{accelerator}");
    }
}

/// A node that served one model for a minute and another one in the next: each minute is that model's.
#[tokio::test]
async fn a_node_that_changed_hands_is_paid_by_each_model_for_its_time() {
    let world = priced("21.6").await;
    let mut rows = Vec::new();
    for (replica, model, from) in [("a/0", "a", NOON), ("b/0", "b", NOON + MINUTE)] {
        let mut two = engine("i-1", replica, 60, 0);
        for (row, at) in two.iter_mut().zip([from, from + MINUTE]) {
            row["model"] = json!(model);
            row["time"] = json!(at);
        }
        rows.extend(two);
    }
    world.write(&DEVICES, &rows).await;
    let models = "SELECT model, sum(list_cost) FROM costs_hours WHERE list_cost > 0 GROUP BY model ORDER BY model";
    let expected = ["a", "b"].map(|model| [json!(model), json!("0.360000000000")]);
    assert_eq!(world.rows(models).await, expected);
}

/// A bill for the hour from noon: 9.72 USD amortised and 10.8 invoiced, 0.162 and 0.18 a minute. In the first minute the engine ran for half of the
/// time, all of it for a; of the other 59 nothing was heard, so they are nobody's: 9.558 and 10.62.
#[tokio::test]
async fn a_bill_is_taken_apart_like_the_list_price() {
    let world = priced("19.4719").await;
    world.write(&DEVICES, &engine("i-1", "r", 30, 0)).await;
    world.write(&TOKENS, &[token("r", "a", 20, 30)]).await;
    let charge = json!({
        "time": NOON, "charge_from": NOON, "charge_to": NOON + 60 * MINUTE, "region": "eu-central-1", "host_id": "i-1", "resource_id": "i-1",
        "host_type": "inf2.48xlarge", "option": "savings_plan", "charge_kind": "host_time", "quantity": 1.0, "currency": "USD",
        "list_cost": "19.4719", "effective_cost": "9.72", "billed_cost": "10.8", "bill": "AWS/1/2026-11", "provider": "AWS",
        "account": "1", "period": "2026-11", "charge_category": "usage", "imported_at": NOON,
    });
    world.write(&BILLING, &[charge]).await;
    let sql = "SELECT part, tenant, sum(effective_cost), sum(billed_cost) FROM costs_hours WHERE effective_cost > 0 GROUP BY part, tenant ORDER BY part";
    let of = |part: &str, tenant: Value, effective: &str, billed: &str| {
        [json!(part), tenant, json!(effective), json!(billed)]
    };
    assert_eq!(
        world.rows(sql).await,
        [
            of("idle", json!(null), "0.081000000000", "0.090000000000"),
            of("requests", json!("a"), "0.081000000000", "0.090000000000"),
            of("unattributed", json!(null), "9.558000000000", "10.620000000000"),
        ]
    );
}

/// Three calls without tokens bear the 10,000,001 µs that the engine was busy beside what tokens say: by the time that they report, 3, 3 and 1 of
/// 7, which is 4,285,714.714…, 4,285,714.714… and 1,428,571.571…. The two odd microseconds go to the largest remainders.
#[tokio::test]
async fn device_time_of_unsampled_calls_is_split_to_the_microsecond() {
    let world = priced("60").await;
    let mut rows = engine("i-1", "r", 0, 0);
    rows[1]["busy_us"] = json!(10_000_001);
    world.write(&DEVICES, &rows).await;
    let of = |tenant: &str, us: i64| {
        call(
            "r",
            tenant,
            (10, 20),
            json!({"device_us_prefill": 0, "device_us_decode": us, "token_sampling": 0.0, "output_tokens": 5}),
        )
    };
    world.write(&REQUESTS, &[of("a", 3_000), of("b", 3_000), of("c", 1_000)]).await;
    let sql = format!("SELECT tenant, device_us FROM request_minute_cost WHERE {THEN} ORDER BY tenant");
    let expected = json!([["a", 4_285_715], ["b", 4_285_715], ["c", 1_428_571]]);
    assert_eq!(json!(world.rows(&sql).await), expected);
}

/// What a replica made in the first minute is what its tokens say, four of the ten of a call, though another call, in the third minute, sends
/// none of its own: the minute is the same in whatever stretch it is asked for. In the third the call says it: seven. In the second, in which the
/// first call is in flight and none arrives, six left. So it is over joules.
#[tokio::test]
async fn tokens_of_a_minute_are_the_same_in_whatever_stretch_they_are_asked() {
    let world = priced("60").await;
    let samples = (0..=3).flat_map(|minute: i64| {
        let counters = json!({"kind": "engine", "chips": 12, "busy_us": minute * 30 * SECOND, "padding_us": 0});
        let meter =
            json!({"kind": "accelerator", "device": "0", "energy_j": minute as f64 * 100.0, "boundary": "chip"});
        [on("i-1", "r", NOON + minute * MINUTE, counters), on("i-1", "r", NOON + minute * MINUTE, meter)]
    });
    world.write(&DEVICES, &samples.collect::<Vec<_>>()).await;
    let sent = json!({"token_sampling": 1.0, "output_tokens": 10, "input_tokens": 1});
    let kept = json!({"token_sampling": 0.0, "output_tokens": 7, "input_tokens": 1});
    world.write(&REQUESTS, &[call("r", "a", (30, 80), sent), call("r", "b", (130, 5), kept)]).await;
    let tokens = (0..10).map(|index| {
        let mut token = token("r", "a", if index < 4 { 40 + index } else { 90 + index }, 1);
        token["index"] = json!(index);
        token
    });
    world.write(&TOKENS, &tokens.collect::<Vec<_>>()).await;
    let ask = async |view: &str, from: i64, to: i64| {
        let sql = format!(
            "SELECT CAST(time AS BIGINT) / 60000000 - {}, sum(output_tokens) FROM {view} WHERE time >= TIMESTAMP '2026-11-29T12:{from:02}:00Z' \
             AND time < TIMESTAMP '2026-11-29T12:{to:02}:00Z' GROUP BY time ORDER BY time",
            NOON / MINUTE
        );
        world.rows(&sql).await
    };
    for view in ["replica_cost", "perf_per_watt"] {
        let whole = ask(view, 0, 3).await;
        assert_eq!(json!(whole), json!([[0, 4], [1, 6], [2, 7]]), "{view}");
        for minute in 0..3 {
            assert_eq!(
                ask(view, minute, minute + 1).await,
                [whole[usize::try_from(minute).expect("small")].clone()],
                "{view}"
            );
        }
    }
}

/// A host without a price stood idle beside one that served `a` for half of its minute at a dollar: of what is shared nothing is known of the one, so
/// its line stays under `share` as unknown, and `a` bears the other's half a dollar.
#[tokio::test]
async fn idle_of_unknown_cost_is_nobodys_and_is_not_left_out() {
    let world = priced("60").await;
    let unpriced = engine("i-2", "s", 0, 0).map(|mut sample| {
        sample["host_type"] = json!("own.8x");
        sample
    });
    world.write(&DEVICES, &[engine("i-1", "r", 30, 0), unpriced].concat()).await;
    world.write(&TOKENS, &[token("r", "a", 10, 30)]).await;
    let sql = "SELECT part, tenant, cost_usd, basis FROM allocated_cost WHERE idle_policy = 'share' AND (cost_usd > 0 OR part = 'idle') \
        AND time >= TIMESTAMP '2026-11-29T12:00:00Z' ORDER BY part";
    let expected =
        json!([["idle", null, null, "no price"], ["requests", "a", "1.000000000000", "list, assumed on-demand"]]);
    assert_eq!(json!(world.rows(sql).await), expected);
}
