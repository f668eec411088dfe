//! Joules: which counter, which boundary, which confidence.

use serde_json::{Value, json};
use telemetry::table::{DEVICES, REQUESTS, TOKENS};

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
