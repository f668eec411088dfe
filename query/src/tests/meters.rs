//! One device, several who meter it: who is believed, what is missing, and that nothing is counted twice.

use serde_json::{Value, json};
use telemetry::table::{DEVICES, NODES, POWER_MODELS};

use super::world::{NOON, World};

/// A sample of one device some seconds after noon, by a process that sends for a device what it measured.
fn sample(second: i64, device: &str, service: &str, instance: &str, more: Value) -> Value {
    let mut row = json!({
        "time": NOON + second * 1_000_000, "kind": "accelerator", "region": "eu-west-1", "host_id": "i-1", "host_type": "p5.48xlarge",
        "device": device, "service": service, "instance": instance, "boundary": "board", "confidence": "measured",
    });
    let (Some(row_map), Value::Object(more)) = (row.as_object_mut(), more) else { panic!("objects") };
    row_map.extend(more);
    row
}

/// Two `cpu` nodes of one host read the same package, each with joules since its own start: 50 W for a minute are 3,000 J, once.
/// Taken for one counter, every step would be a restart.
#[tokio::test]
async fn two_processes_that_read_one_package_have_two_counters() {
    let world = World::new().await;
    let row = |second: i64, instance: &str, started: i64| {
        let joules = 50.0 * (second - started) as f64;
        let more = json!({"kind": "host", "boundary": "chip", "energy_method": "energy_counter", "energy_j": joules,
            "energy_start_time": NOON + started * 1_000_000});
        sample(second, "package-0", "inference-node", instance, more)
    };
    let one = (0..=6).map(|step| row(step * 10, "a", -100));
    let other = (0..=6).map(|step| row(step * 10, "b", -7));
    world.write(&DEVICES, &one.chain(other).collect::<Vec<_>>()).await;
    let rows = world.rows("SELECT joules, devices, method, is_valid FROM host_energy").await;
    assert_eq!(json!(rows), json!([[3_000.0, 1, "energy_counter", true]]));
    let rolled = world.rows("SELECT sum(energy_j), max(devices) FROM devices_minutes").await;
    assert_eq!(json!(rolled), json!([[3_000.0, 1]]));
}

/// Two Triton processes export one GPU's counter since their own start, without saying when that was: 1,000 and 1,010 J by one, 50,000
/// and 50,010 J by the other. The GPU used 10 J; a step from one counter to the other would add 49,000.
#[tokio::test]
async fn two_counters_of_one_device_are_not_one_that_jumps() {
    let world = World::new().await;
    let row =
        |second: i64, port: &str, joules: f64| sample(second, "GPU-a", "triton", port, json!({"energy_j": joules}));
    let rows = [row(1, "h:8002", 1e3), row(2, "h:8012", 5e4), row(31, "h:8002", 1_010.0), row(32, "h:8012", 50_010.0)];
    world.write(&DEVICES, &rows).await;
    for view in ["SELECT joules, devices FROM host_energy", "SELECT sum(energy_j), sum(devices) FROM devices_minutes"] {
        assert_eq!(json!(world.rows(view).await), json!([[10.0, 1]]), "{view}");
    }
}

/// dcgm-exporter and Triton watch the same GPU at 300 W, and are two instances of two services: 18,000 J in a minute on every page. One
/// sends how busy it is beside the joules and the other does not, which makes no second device of it.
#[tokio::test]
async fn a_gpu_that_two_exporters_watch_is_one_gpu() {
    let world = World::new().await;
    let dcgm = |step: i64| {
        let more = json!({"energy_j": 5e6 + 4_500.0 * step as f64, "power_w": 300.0, "utilization": 0.5, "utilization_kind": "executing"});
        sample(step * 15, "GPU-a", "dcgm-exporter", "h:9400", more)
    };
    let triton = |step: i64| {
        let more = json!({"energy_j": 4_500.0 * step as f64, "power_w": 300.0});
        sample(step * 15, "GPU-a", "triton", "h:8002", more)
    };
    world.write(&DEVICES, &(0..=4).flat_map(|step| [dcgm(step), triton(step)]).collect::<Vec<_>>()).await;
    let of_host = world.rows("SELECT joules, devices FROM host_energy").await;
    assert_eq!(json!(of_host), json!([[18_000.0, 1]]));
    // at noon sharp the minute before ends, with one sample and no step
    let sql = "SELECT sum(energy_j), sum(power_w), max(devices) FROM devices_minutes WHERE time = TIMESTAMP '2026-11-29T12:00:00Z'";
    assert_eq!(json!(world.rows(sql).await), json!([[18_000.0, 300.0, 1]]));
}

/// One Neuron chip, told of by its node (a load curve that says 100 W) and by the driver's files (a percentage, 60 W): 3,600 J in a minute,
/// by the higher rung, though the node's figure comes as a counter.
#[tokio::test]
async fn a_modelled_counter_does_not_outrank_a_reading_of_the_same_chip() {
    let world = World::new().await;
    let of =
        |boundary: &str, method: &str| json!({"boundary": boundary, "energy_method": method, "confidence": "assumed"});
    let row = |step: i64, service: &str, more: Value, value: Value| {
        let mut row = sample(step * 30, "neuron4", service, service, more);
        let (Some(row_map), Value::Object(value)) = (row.as_object_mut(), value) else { panic!("objects") };
        row_map.extend(value);
        row
    };
    let rows = (0..=2).flat_map(|step| {
        [
            row(step, "inference-node", of("chip", "load_curve"), json!({"energy_j": 3_000.0 * step as f64})),
            row(step, "neuron-monitor", of("chip", "percent_of_max"), json!({"power_w": 60.0})),
        ]
    });
    world.write(&DEVICES, &rows.collect::<Vec<_>>()).await;
    let rows = world.rows("SELECT joules, devices, method FROM host_energy").await;
    assert_eq!(json!(rows), json!([[3_600.0, 1, "percent_of_max"]]));
}

/// Of several boundaries the widest counts among those that were measured; a model of the whole host (2,000 W) is not asked while its
/// boards are measured (700 W), and the boards are not while the wall is (900 W).
#[tokio::test]
async fn what_was_measured_goes_before_a_wider_model() {
    for (has_wall, joules, boundary, method) in
        [(false, 42_000.0, "board", "integrated_power"), (true, 54_000.0, "wall", "integrated_power")]
    {
        let world = World::new().await;
        let power = |second: i64, boundary: &str, watts: f64, method: Value| {
            let more = json!({"boundary": boundary, "power_w": watts, "energy_method": method});
            sample(second, boundary, "exporter", boundary, more)
        };
        let mut rows = Vec::new();
        for second in [0, 30, 60] {
            rows.push(power(second, "board", 700.0, json!(null)));
            rows.push(power(second, "node", 2_000.0, json!("load_curve")));
            rows.extend(has_wall.then(|| power(second, "wall", 900.0, json!(null))));
        }
        world.write(&DEVICES, &rows).await;
        let rows = world.rows("SELECT joules, boundary, method FROM host_energy").await;
        assert_eq!(json!(rows), json!([[joules, boundary, method]]));
    }
}

/// A GPU at 100 W whose counter stands at so many joules since `start`, read once a minute.
fn counter(minute: i64, gpu: usize, joules: f64, start: i64) -> Value {
    let more = json!({"energy_j": joules, "energy_start_time": start, "energy_method": null});
    sample(minute * 60, &format!("GPU-{gpu}"), "dcgm-exporter", "h:9400", more)
}

const TRUTH: &str = "SELECT minute - 29932560, joules, devices, coverage, largest_gap_s, is_valid, flaw FROM host_energy ORDER BY minute";

/// Eight GPUs of 100 W, read once a minute; the counter of the last starts anew in the second minute, so that its only step counts nothing.
/// Seven devices have 42,000 J, and the minute does not say that this is all.
#[tokio::test]
async fn a_counter_that_starts_anew_takes_the_validity_of_its_minute_with_it() {
    let world = World::new().await;
    let of = |minute: i64| {
        (0..8).map(move |gpu| match (minute, gpu) {
            (2.., 7) => counter(minute, gpu, 6_000.0 * (minute - 2) as f64, NOON + 119_000_000),
            _ => counter(minute, gpu, 6_000.0 * minute as f64, 1),
        })
    };
    world.write(&DEVICES, &(0..=3).flat_map(of).collect::<Vec<_>>()).await;
    let whole = |minute: i64| json!([minute, 48_000.0, 8, 1.0, 60.0, true, null]);
    let short = json!([1, 42_000.0, 7, 0.0, 60.0, false, "a counter started anew"]);
    assert_eq!(json!(world.rows(TRUTH).await), json!([whole(0), short, whole(2)]));
}

/// A GPU of eight that is no longer heard of: its host has 7/8 of the joules, and says so in the minute after. Where a node says how many
/// chips its host has, every minute does.
#[tokio::test]
async fn a_gpu_that_falls_silent_is_missed() {
    let rows: Vec<_> = (0..=3)
        .flat_map(|minute: i64| (0..8).map(move |gpu| (minute, gpu)))
        .filter(|(minute, gpu)| *gpu < 7 || *minute < 2)
        .map(|(minute, gpu)| counter(minute, gpu, 6_000.0 * minute as f64, 1))
        .collect();
    let whole = json!([0, 48_000.0, 8, 1.0, 60.0, true, null]);
    let short =
        |minute: i64| json!([minute, 42_000.0, 7, 0.0, 60.0, false, "not all devices of the host were metered"]);
    let world = World::new().await;
    world.write(&DEVICES, &rows).await;
    let unnoticed = json!([2, 42_000.0, 7, 1.0, 60.0, true, null]);
    assert_eq!(json!(world.rows(TRUTH).await), json!([whole, short(1), unnoticed]));

    let world = World::new().await;
    world.write(&DEVICES, &rows).await;
    let node = json!({"time": NOON, "host_id": "i-1", "first_seen": NOON, "last_seen": NOON + 240_000_000, "chips": 8});
    world.write(&NODES, &[node]).await;
    assert_eq!(json!(world.rows(TRUTH).await), json!([whole, short(1), short(2)]));
    // asked for alone, a minute says what it says among the others
    let alone = "SELECT is_valid FROM host_energy WHERE time = TIMESTAMP '2026-11-29T12:02:00Z'";
    assert_eq!(world.rows(alone).await, [[json!(false)]]);
}

/// An engine that ran half of a minute on a host of that type, with no meter in sight.
async fn unmetered(world: &World, host_type: &str) {
    let engine = |second: i64, busy_s: i64| {
        json!({"time": NOON + second * 1_000_000, "kind": "engine", "region": "eu-west-1", "model": "m", "host_id": "i-1",
            "host_type": host_type, "instance": "r", "chips": 8, "busy_us": busy_s * 1_000_000, "padding_us": 0})
    };
    world.write(&DEVICES, &[engine(0, 0), engine(60, 30)]).await;
}

const MODELLED: &str = "SELECT round(joules, 0), boundary, method, confidence, is_valid FROM host_energy";

/// Hosts of the clouds that nobody meters follow the curves that come with Tokenwatt. Half of the time at work a p4d.24xlarge drew
/// 3,781.8 W (Teads): 226,908 J in a minute. Eight H100s are modelled at 8 · 700 · (0.40 + 0.45 · 0.5^0.4) = 4,149.8 W, 248,988 J; a straight
/// line from where the curve begins, 2,240 W, to its end, 4,760 W, would say 210,000 J.
#[tokio::test]
async fn hosts_without_a_meter_follow_the_curves_that_come_with_tokenwatt() {
    for (host_type, joules, boundary, tolerance) in
        [("p4d.24xlarge", 226_908.0, "node", 1.0), ("p5.48xlarge", 248_988.0, "board", 60.0)]
    {
        let world = World::new().await;
        lake::reference::publish(&world.lake).await.expect("published");
        unmetered(&world, host_type).await;
        let rows = world.rows(MODELLED).await;
        let found = rows[0][0].as_f64().expect("joules");
        assert!((found - joules).abs() <= tolerance, "{host_type}: {found} J, not {joules}");
        assert_eq!(json!(rows[0][1..]), json!([boundary, "load_curve", "estimated", false]), "{host_type}");
    }
}

/// An operator's own model of the boards (1,000 W at half load) goes before a wider one that comes with Tokenwatt: 60,000 J.
#[tokio::test]
async fn an_operators_model_goes_before_a_wider_one_of_ours() {
    let world = World::new().await;
    lake::reference::publish(&world.lake).await.expect("published");
    let own = json!({"time": 1, "effective_from": 1, "device": "p4d.24xlarge", "boundary": "board", "load": [0.0, 0.5, 1.0],
        "load_w": [500.0, 1_000.0, 1_200.0], "method": "load_curve", "confidence": "measured", "source": "us", "list": "lab"});
    world.write(&POWER_MODELS, &[own]).await;
    unmetered(&world, "p4d.24xlarge").await;
    assert_eq!(json!(world.rows(MODELLED).await), json!([[60_000.0, "board", "load_curve", "measured", false]]));
}

/// A vLLM that counts no device time says how many requests run: some from noon to half past the minute, none from there on, with a sample every
/// ten seconds and the change in the middle of one of them. 35 of 60 s at work are a load of 0.5833, on the straight line from 4,149.8 W
/// at 0.5 to 4,424.9 W at 0.7: 4,264.4 W, 255,865 J.
#[tokio::test]
async fn engines_that_count_no_time_ran_while_requests_did() {
    let world = World::new().await;
    lake::reference::publish(&world.lake).await.expect("published");
    let row = |second: i64| {
        json!({"time": NOON + second * 1_000_000, "kind": "engine", "region": "eu-west-1", "model": "m", "host_id": "i-1",
            "host_type": "p5.48xlarge", "instance": "h:8000", "running": if second <= 30 { 12 } else { 0 }})
    };
    world.write(&DEVICES, &(0..=6).map(|step| row(step * 10)).collect::<Vec<_>>()).await;
    let rows = world.rows(MODELLED).await;
    let joules = rows[0][0].as_f64().expect("joules");
    assert!((joules - 255_865.0).abs() < 60.0, "{joules} J");
    assert_eq!(json!(rows[0][1..]), json!(["board", "load_curve", "estimated", false]));
}
