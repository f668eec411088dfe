//! Joules: which counter, which boundary, which confidence.

use serde_json::{Value, json};
use telemetry::table::{DEVICES, GRID, POWER_MODELS, REQUESTS, TOKENS};

use super::world::{NOON, World};

fn sample(at_us: i64, host: &str, boundary: &str, more: Value) -> Value {
    let mut row = json!({
        "time": at_us, "kind": "accelerator", "region": "eu-west-1", "host_id": host, "host_type": "inf2.48xlarge", "device": "0",
        "boundary": boundary, "energy_method": "load_curve", "confidence": "assumed",
    });
    let (Some(row_map), Value::Object(more)) = (row.as_object_mut(), more) else { panic!("objects") };
    row_map.extend(more);
    row
}

fn token(at_us: i64, host: &str, index: i64, count: i64) -> Value {
    json!({"time": at_us, "region": "eu-west-1", "model": "m", "host_id": host, "trace_id": "a", "request_span_id": "1", "choice": 0,
        "index": index, "count": count})
}

const ASK: &str = "SELECT output_tokens, joules, tokens_per_joule, boundary, method, confidence FROM perf_per_watt ORDER BY time, boundary";

/// Tokens over joules of the same host and window, with what makes the figure weak beside it.
#[tokio::test]
async fn tokens_per_joule_carry_boundary_method_and_confidence() {
    let world = World::new().await;
    let counter =
        |at: i64, joules: f64| sample(at, "i-1", "chip", json!({"energy_j": joules, "energy_start_time": NOON - 9}));
    world
        .write(&DEVICES, &[counter(NOON, 100.0), counter(NOON + 20_000_000, 150.0), counter(NOON + 50_000_000, 200.0)])
        .await;
    world
        .write(
            &TOKENS,
            &[
                token(NOON, "i-1", 0, 1_000),
                token(NOON + 1, "i-1", 1, 30),
                token(NOON + 50_000_000, "i-1", 2, 20),
                token(NOON + 50_000_001, "i-1", 3, 500),
                token(NOON + 10, "i-without-a-meter", 0, 7),
            ],
        )
        .await;
    assert_eq!(
        world.rows(ASK).await,
        [[json!(50), json!(100.0), json!(0.5), json!("chip"), json!("load_curve"), json!("assumed")]]
    );
    let per_token = world.rows("SELECT model, joules_per_output_token FROM energy_per_token").await;
    assert_eq!(per_token, [[json!("m"), json!(2.0)]]);
    assert_eq!(world.rows("SELECT power_w FROM perf_per_watt").await, [[json!(2.0)]]);
}

/// A counter that started anew, or a long silence, counts nothing; power alone is integrated.
#[tokio::test]
async fn only_what_was_metered_counts() {
    let world = World::new().await;
    let counter = |at: i64, joules: f64, start: i64| {
        sample(at, "i-1", "node", json!({"energy_j": joules, "energy_start_time": start}))
    };
    let power = |at: i64, watts: f64| {
        sample(at, "i-2", "board", json!({"power_w": watts, "energy_method": null, "confidence": null}))
    };
    world
        .write(
            &DEVICES,
            &[
                counter(NOON, 500.0, 1),
                counter(NOON + 10_000_000, 510.0, 1),
                counter(NOON + 20_000_000, 5.0, NOON + 15_000_000),
                counter(NOON + 30_000_000, 25.0, NOON + 15_000_000),
                counter(NOON + 30_000_000 + 121_000_000, 9_999.0, NOON + 15_000_000),
                power(NOON, 100.0),
                power(NOON + 10_000_000, 300.0),
            ],
        )
        .await;
    let rows =
        world.rows("SELECT host_id, joules, boundary, method, confidence FROM host_energy ORDER BY host_id").await;
    assert_eq!(
        rows,
        [
            [json!("i-1"), json!(30.0), json!("node"), json!("load_curve"), json!("assumed")],
            [json!("i-2"), json!(2000.0), json!("board"), json!("integrated_power"), json!("measured")],
        ]
    );
}

/// One host metered at its chips and as a whole is counted once, as a whole.
#[tokio::test]
async fn boundaries_are_not_added_up() {
    let world = World::new().await;
    let counter = |at: i64, boundary: &str, joules: f64| sample(at, "i-1", boundary, json!({"energy_j": joules}));
    world
        .write(
            &DEVICES,
            &[
                counter(NOON, "chip", 0.0),
                counter(NOON + 10_000_000, "chip", 70.0),
                counter(NOON, "node", 0.0),
                counter(NOON + 10_000_000, "node", 100.0),
            ],
        )
        .await;
    assert_eq!(world.rows("SELECT joules, boundary FROM host_energy").await, [[json!(100.0), json!("node")]]);
}

/// An engine that sends calls but no tokens has made the tokens its calls tell of, not none.
#[tokio::test]
async fn calls_say_how_many_tokens_where_no_token_is_sent() {
    let world = World::new().await;
    let counter = |at: i64, joules: f64| sample(at, "i-1", "board", json!({"energy_j": joules}));
    world.write(&DEVICES, &[counter(NOON + 1, 0.0), counter(NOON + 50_000_000, 100.0)]).await;
    let call = |at: i64, place: &str| {
        json!({
            "time": at, "region": "eu-west-1", "model": "m", "measured_at": place, "host_id": "i-1", "trace_id": "a", "span_id": place,
            "output_tokens": 200, "token_sampling": null,
        })
    };
    world.write(&REQUESTS, &[call(NOON + 5, "gateway"), call(NOON + 6, "server")]).await;
    let rows = world.rows("SELECT model, output_tokens, tokens_per_joule FROM perf_per_watt").await;
    assert_eq!(rows, [[json!("m"), json!(200), json!(2.0)]]);
}

/// A device that sends its counter and its power at different instants has used its energy once.
#[tokio::test]
async fn a_counter_and_power_of_one_device_are_not_added_up() {
    let world = World::new().await;
    let row = |second: i64, more: Value| sample(NOON + second * 1_000_000, "i-1", "board", more);
    let rows = [
        row(1, json!({"energy_j": 0.0})),
        row(41, json!({"energy_j": 4_000.0})),
        row(2, json!({"power_w": 100.0})),
        row(42, json!({"power_w": 100.0})),
    ];
    world.write(&DEVICES, &rows).await;
    assert_eq!(world.rows("SELECT joules FROM host_energy").await, [[json!(4000.0)]]);
}

/// Two exporters that meter one device, each with a counter of its own, are not taken for one counter, nor added up.
#[tokio::test]
async fn exporters_of_one_device_are_not_added_up() {
    let world = World::new().await;
    let row = |second: i64, service: &str, joules: f64| {
        sample(NOON + second * 1_000_000, "i-1", "board", json!({"energy_j": joules, "service": service}))
    };
    let rows = [
        row(1, "dcgm", 5_000_000.0),
        row(2, "triton", 100.0),
        row(41, "dcgm", 5_004_000.0),
        row(42, "triton", 4_090.0),
    ];
    world.write(&DEVICES, &rows).await;
    assert_eq!(world.rows("SELECT joules, devices FROM host_energy").await, [[json!(4000.0), json!(1)]]);
}

/// A counter that starts anew in the middle of a minute, with a sample every ten seconds: 10 J before, and 10 J in each of the four steps after.
/// The step across the restart counts nothing, so 50 of 60 s are covered, and the minute says what is wrong with it.
#[tokio::test]
async fn a_restarted_counter_is_flagged_and_not_filled_in() {
    let world = World::new().await;
    let counter = |second: i64, joules: f64, start: i64| {
        let more =
            json!({"energy_j": joules, "energy_start_time": start, "energy_method": null, "confidence": "measured"});
        sample(NOON + second * 1_000_000, "i-1", "board", more)
    };
    let before = [(0, 100.0), (10, 110.0)].map(|(second, joules)| counter(second, joules, NOON - 1));
    let after = [(20, 5.0), (30, 15.0), (40, 25.0), (50, 35.0), (60, 45.0)];
    let after = after.map(|(second, joules)| counter(second, joules, NOON + 15_000_000));
    world.write(&DEVICES, &[before.to_vec(), after.to_vec()].concat()).await;
    let rows =
        world.rows("SELECT joules, round(coverage, 4), largest_gap_s, is_valid, flaw, method FROM host_energy").await;
    let flaw = json!("a counter started anew");
    assert_eq!(rows, [[json!(50.0), json!(0.8333), json!(10.0), json!(false), flaw, json!("energy_counter")]]);
}

/// A constant 1,000 W with a sample every 30 s, and none for ten minutes in the middle: three minutes of 60 kJ each are known, and
/// nothing is made up for the others (a line through the gap would say 780 kJ).
#[tokio::test]
async fn ten_minutes_without_a_sample_have_no_joules() {
    let world = World::new().await;
    let power = |second: i64| {
        let more = json!({"power_w": 1_000.0, "energy_method": null, "confidence": null});
        sample(NOON + second * 1_000_000, "i-1", "node", more)
    };
    world.write(&DEVICES, &[0, 30, 60, 90, 120, 720, 750, 780].map(power)).await;
    let sql = "SELECT minute - 29932560, joules, coverage, is_valid, method FROM host_energy ORDER BY minute";
    let known =
        [0, 1, 12].map(|minute| [json!(minute), json!(60_000.0), json!(1.0), json!(true), json!("integrated_power")]);
    assert_eq!(world.rows(sql).await, known);
    let hour = world.rows("SELECT sum(energy_j), min(boundary) FROM costs_hours").await;
    assert_eq!(hour, [[json!(180_000.0), json!("node")]]);
}

fn model(device: &str, boundary: &str) -> Value {
    json!({"time": 0, "effective_from": 0, "device": device, "boundary": boundary, "idle_w": 315.0, "max_w": 2_100.0, "method": "tdp",
        "confidence": "assumed", "source": "test"})
}

fn engine(at_us: i64, busy_s: i64) -> Value {
    json!({"time": at_us, "kind": "engine", "region": "eu-west-1", "model": "m", "host_id": "i-1", "host_type": "inf2.48xlarge",
        "instance": "r", "chips": 12, "busy_us": busy_s * 1_000_000, "padding_us": 0})
}

/// No meter: the engine ran for half of the minute, so 30 s at 2,100 W and 30 s at 315 W: 72,450 J, which nobody measured.
#[tokio::test]
async fn without_a_meter_the_power_model_answers_and_says_so() {
    let world = World::new().await;
    world.write(&POWER_MODELS, &[model("inf2.48xlarge", "chip"), model("trn1.32xlarge", "node")]).await;
    world.write(&DEVICES, &[engine(NOON, 0), engine(NOON + 60_000_000, 30)]).await;
    let rows = world.rows("SELECT joules, boundary, method, confidence, is_valid, devices FROM host_energy").await;
    let expected = [json!(72_450.0), json!("chip"), json!("tdp"), json!("assumed"), json!(false), json!(0)];
    assert_eq!(rows, [expected]);
}

/// A constant 1,000 W read every 90 s beside an engine that is read every ten: six minutes are 360 kJ. A model of the minutes in which no
/// reading of the meter ends would add its own.
#[tokio::test]
async fn what_a_meter_covers_is_not_modelled_beside_it() {
    let world = World::new().await;
    world.write(&POWER_MODELS, &[model("inf2.48xlarge", "board")]).await;
    let power = |second: i64| {
        let more = json!({"power_w": 1_000.0, "energy_method": null, "confidence": null});
        sample(NOON + second * 1_000_000, "i-1", "board", more)
    };
    let meter = (0..=4).map(|step| power(step * 90));
    let engine = (0..=36).map(|step| engine(NOON + step * 10_000_000, step * 5));
    world.write(&DEVICES, &meter.chain(engine).collect::<Vec<_>>()).await;
    let rows = world.rows("SELECT sum(joules), max(method) FROM host_energy").await;
    assert_eq!(rows, [[json!(360_000.0), json!("integrated_power")]]);
    // asked for alone, the minute after noon has nothing, as in the whole
    let minute = "time >= TIMESTAMP '2026-11-29T12:00:00Z' AND time < TIMESTAMP '2026-11-29T12:01:00Z'";
    assert_eq!(world.rows(&format!("SELECT count(*) FROM host_energy WHERE {minute}")).await, [[json!(0)]]);
}

/// 60 kJ in a minute of which the engine rested for 30 s: at rest the power model says 315 W, 9,450 J; the other 50,550 J are of the
/// device time. By time alone half of all joules would be called idle.
#[tokio::test]
async fn idle_joules_are_those_of_rest() {
    let world = World::new().await;
    world.write(&POWER_MODELS, &[model("inf2.48xlarge", "chip")]).await;
    let counter = |at: i64, joules: f64| sample(at, "i-1", "chip", json!({"energy_j": joules}));
    let rows =
        [engine(NOON, 0), engine(NOON + 60_000_000, 30), counter(NOON, 0.0), counter(NOON + 60_000_000, 60_000.0)];
    world.write(&DEVICES, &rows).await;
    let sql = "SELECT part, joules, split FROM replica_energy WHERE joules > 0.0 ORDER BY part";
    let split = json!("idle by the power model, the rest by time");
    assert_eq!(
        world.rows(sql).await,
        [[json!("idle"), json!(9_450.0), split.clone()], [json!("unattributed"), json!(50_550.0), split]]
    );
}

/// One kilowatt hour of a node in us-east-1: times PUE 1.15 is 1.15 kWh, times 396.25 g is 455.6875 g on average and times 557.17 g
/// 640.7455 g at the margin. An older PUE and a later grid factor are not of that hour.
#[tokio::test]
async fn grams_are_joules_times_two_dated_factors() {
    let world = World::new().await;
    let hour = NOON - NOON % 3_600_000_000;
    let counter = |at: i64, joules: f64| {
        let mut row =
            sample(at, "i-1", "node", json!({"energy_j": joules, "energy_method": null, "confidence": "measured"}));
        row["region"] = json!("us-east-1");
        row
    };
    world.write(&DEVICES, &[counter(hour, 0.0), counter(hour + 60_000_000, 3_600_000.0)]).await;
    let factor = |from: i64, as_of: &str, grams: Value, pue: Value, method: &str| {
        json!({"time": from, "effective_from": from, "region": "us-east-1", "gco2e_per_kwh": grams, "pue": pue, "method": method,
            "as_of": as_of, "confidence": "published", "source": as_of})
    };
    let (average, marginal) = ("location based, average", "location based, marginal");
    let rows = [
        factor(1, "2022", json!(429.84), json!(1.16), average),
        factor(2, "2023", json!(null), json!(1.15), average),
        factor(3, "2024", json!(396.25), json!(null), average),
        factor(3, "2024", json!(557.17), json!(null), marginal),
        factor(NOON + 86_400_000_000, "2027", json!(1.0), json!(9.0), average),
    ];
    world.write(&GRID, &rows).await;
    let sql = "SELECT grid_method, joules, pue, pue_as_of, round(facility_joules, 6), grid_as_of, round(gco2e, 6), boundary FROM carbon ORDER BY grid_method";
    let of = |method: &str, grams: f64| {
        [
            json!(method),
            json!(3_600_000.0),
            json!(1.15),
            json!("2023"),
            json!(4_140_000.0),
            json!("2024"),
            json!(grams),
            json!("node"),
        ]
    };
    assert_eq!(world.rows(sql).await, [of(average, 455.6875), of(marginal, 640.7455)]);
}

/// One kilowatt hour under an operator's own PUE of 1.3 and market based 12.5 g: 1.3 · 12.5 = 16.25 g; the average grams that come with
/// Tokenwatt, 396.25 g, are of the same overhead: 515.125 g. Newer and firmer figures of ours do not take the place of the operator's.
#[tokio::test]
async fn an_operators_own_factors_go_before_ours() {
    let world = World::new().await;
    let hour = NOON - NOON % 3_600_000_000;
    let counter = |at: i64, joules: f64| sample(at, "i-1", "node", json!({"energy_j": joules}));
    world.write(&DEVICES, &[counter(hour, 0.0), counter(hour + 60_000_000, 3_600_000.0)]).await;
    let factor = |from: i64, grams: Value, pue: Value, method: Value, list: Value| {
        json!({"time": from, "effective_from": from, "region": "eu-west-1", "gco2e_per_kwh": grams, "pue": pue, "method": method,
            "as_of": "2026", "confidence": if list.is_null() { "published" } else { "estimated" }, "source": "s", "list": list})
    };
    let rows = [
        factor(9, json!(396.25), json!(1.15), json!("location based, average"), json!(null)),
        factor(1, json!(null), json!(1.3), json!(null), json!("own")),
        factor(1, json!(12.5), json!(null), json!("market based"), json!("own")),
    ];
    world.write(&GRID, &rows).await;
    let sql = "SELECT grid_method, pue, round(gco2e, 6) FROM carbon ORDER BY grid_method";
    let expected = json!([["location based, average", 1.3, 515.125], ["market based", 1.3, 16.25]]);
    assert_eq!(json!(world.rows(sql).await), expected);
}

/// Half of the minute the engine ran: the curve of the operator's list says 400 W there, 24,000 J in 60 s, where a line from rest to full load
/// would say 300 W. The newer model that comes with Tokenwatt is not asked.
#[tokio::test]
async fn a_measured_curve_goes_before_watts_at_rest_and_full_load() {
    let world = World::new().await;
    let curve = json!({
        "time": NOON - 1, "effective_from": NOON - 86_400_000_000_i64, "device": "inf2.48xlarge", "boundary": "wall", "idle_w": 100.0,
        "max_w": 500.0, "load": [0.0, 0.5, 1.0], "load_w": [100.0, 400.0, 500.0], "method": "load_curve", "source": "meter",
        "confidence": "measured", "list": "lab",
    });
    world.write(&POWER_MODELS, &[model("inf2.48xlarge", "wall"), curve]).await;
    world.write(&DEVICES, &[engine(NOON, 0), engine(NOON + 60_000_000, 30)]).await;
    let rows = world.rows("SELECT joules, boundary, method, confidence FROM host_energy").await;
    assert_eq!(rows, [[json!(24_000.0), json!("wall"), json!("load_curve"), json!("measured")]]);
}

/// Two types of hardware in one region: 50 tokens over 100 J, and 50 over 200 J.
#[tokio::test]
async fn efficiency_is_told_by_hardware() {
    let world = World::new().await;
    for (host, kind, joules) in [("i-1", "inf2.48xlarge", 100.0), ("i-2", "trn1.32xlarge", 200.0)] {
        let counter = |at: i64, joules: f64| sample(at, host, "chip", json!({"energy_j": joules, "host_type": kind}));
        world.write(&DEVICES, &[counter(NOON, 0.0), counter(NOON + 50_000_000, joules)]).await;
        world.write(&TOKENS, &[token(NOON + 50_000_000, host, 0, 50)]).await;
    }
    let rows = world.rows("SELECT host_type, hosts, tokens_per_joule FROM perf_per_watt ORDER BY host_type").await;
    assert_eq!(json!(rows), json!([["inf2.48xlarge", 1, 0.5], ["trn1.32xlarge", 1, 0.25]]));
    let rows = world.rows("SELECT host_type, joules_per_output_token FROM energy_per_token ORDER BY host_type").await;
    assert_eq!(json!(rows), json!([["inf2.48xlarge", 2.0], ["trn1.32xlarge", 4.0]]));
}
