//! Costs by configured allocation keys, in cases worked out by hand.

use std::sync::Arc;

use serde_json::{Value, json};
use service::Deps;
use service::clock::Clock;
use telemetry::allocation;
use telemetry::contract::{QueryApi, SqlRequest};
use telemetry::table::{BUDGETS, DEVICES, PRICES, REQUESTS, TOKENS};

use super::rolling::Hand;
use super::world::{NOON, World};
use crate::rollup::{Rollups, Settings};
use crate::{Config, Query};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// A service that splits by these keys.
fn splitting(keys: &[&str]) -> Config {
    let allocation_keys = keys.iter().map(|key| (*key).to_owned()).collect();
    let cost = allocation::Settings { allocation_keys, ..allocation::Settings::default() };
    Config { rollup: Settings { cost, ..Settings::default() }, ..Config::default() }
}

fn on(replica: &str, at_us: i64, more: Value) -> Value {
    let mut row = json!({"time": at_us, "region": "eu-central-1", "model": "m", "host_id": "i-1", "host_type": "inf2.48xlarge", "instance": replica});
    let (Some(fields), Value::Object(more)) = (row.as_object_mut(), more) else { panic!("objects") };
    fields.extend(more);
    row
}

/// An engine that ran for 30 s of the minute from `at_us`, and what its resource says.
fn engine(at_us: i64, of_resource: &Value) -> [Value; 2] {
    [(at_us, 0), (at_us + MINUTE, 30 * SECOND)].map(|(at, busy)| {
        on("r", at, json!({"kind": "engine", "chips": 12, "busy_us": busy, "padding_us": 0, "attributes": of_resource}))
    })
}

/// A call of so many seconds of device time, whose tokens were sent, and its token.
fn call(at_us: i64, name: &str, device_s: i64, attributes: &Value) -> [Value; 2] {
    let at = at_us + 10 * SECOND;
    let call = json!({"measured_at": "server", "trace_id": format!("{name}-{at}"), "span_id": "1", "e2e_s": 30.0, "status": "ok", "tenant": "t",
        "token_sampling": 1.0, "output_tokens": 1, "device_us_prefill": 0, "device_us_decode": device_s * SECOND, "attributes": attributes});
    let token = json!({"trace_id": format!("{name}-{at}"), "request_span_id": "1", "choice": 0, "index": 0, "count": 1,
        "device_us": device_s * SECOND, "tenant": "t"});
    [on("r", at, call), on("r", at + 20 * SECOND, token)]
}

/// A minute of the host: an engine that says `of_resource`, and calls.
async fn minute(world: &World, at_us: i64, of_resource: &Value, calls: &[[Value; 2]]) {
    world.write(&DEVICES, &engine(at_us, of_resource)).await;
    let of = |at: usize| calls.iter().map(|rows| rows[at].clone()).collect::<Vec<_>>();
    world.write(&REQUESTS, &of(0)).await;
    world.write(&TOKENS, &of(1)).await;
}

/// 21.6 USD an hour are 0.36 a minute.
async fn price(world: &World) {
    let price = json!({"time": NOON - 900 * MINUTE, "effective_from": NOON - 900 * MINUTE, "host_type": "inf2.48xlarge", "region": "eu-central-1",
        "option": "on_demand", "usd_per_hour": "21.6", "currency": "USD", "confidence": "published", "as_of": "2026-07-20", "source": "test"});
    world.write(&PRICES, &[price]).await;
}

async fn shown(world: &World, key: &str, policy: &str) -> Vec<Vec<Value>> {
    let sql = format!(
        "SELECT allocation_value, part, sum(cost_usd) FROM cost_per_key WHERE allocation_key = '{key}' AND idle_policy = '{policy}' \
         AND cost_usd > 0 GROUP BY allocation_value, part ORDER BY part, allocation_value"
    );
    world.rows(&sql).await
}

fn lines(lines: &[(&str, &str, &str)]) -> Vec<Vec<Value>> {
    lines.iter().map(|(value, part, usd)| vec![json!(value), json!(part), json!(usd)]).collect()
}

/// The engine runs for half of the minute: 15 s for ml, 10 s for search, 5 s for a call that names no team. Requests are 0.18, half, a third
/// and a sixth of it; idle is 0.18 and nobody's. Shared, it doubles what each pays. Of `user` each has one, and the money is the same.
#[tokio::test]
async fn calls_say_whose_they_are() {
    let world = World::of(splitting(&["team", "user"]), Deps::system()).await;
    price(&world).await;
    let calls = [
        call(NOON, "a", 15, &json!({"team": "ml", "user": "u"})),
        call(NOON, "b", 10, &json!({"team": "search", "user": "u"})),
        call(NOON, "c", 5, &json!({"user": "u"})),
    ];
    minute(&world, NOON, &json!(null), &calls).await;
    let show = [
        ("__unattributed__", "idle", "0.180000000000"),
        ("__unattributed__", "requests", "0.030000000000"),
        ("ml", "requests", "0.090000000000"),
        ("search", "requests", "0.060000000000"),
    ];
    assert_eq!(shown(&world, "team", "show").await, lines(&show));
    assert_eq!(shown(&world, "team", "hide").await, lines(&show[1..]));
    let share = [
        ("__unattributed__", "requests", "0.060000000000"),
        ("ml", "requests", "0.180000000000"),
        ("search", "requests", "0.120000000000"),
    ];
    assert_eq!(shown(&world, "team", "share").await, lines(&share));
    let of_user = [("__unattributed__", "idle", "0.180000000000"), ("u", "requests", "0.180000000000")];
    assert_eq!(shown(&world, "user", "show").await, lines(&of_user));
    // idle time of a host without a price is not lost in what is shared: its line stays, and says that its cost is unknown
    let unpriced = engine(NOON, &json!(null)).map(|mut sample| {
        (sample["host_id"], sample["host_type"], sample["instance"]) =
            (json!("i-2"), json!("custom-npu.8x"), json!("i-2/0"));
        sample
    });
    world.write(&DEVICES, &unpriced).await;
    let sql = "SELECT DISTINCT allocation_value, basis FROM cost_per_key WHERE idle_policy = 'share' AND part = 'idle' AND allocation_key = 'team' \
               AND cost_usd IS NULL";
    assert_eq!(world.rows(sql).await, [[json!("__unattributed__"), json!("no price")]]);
    assert_eq!(shown(&world, "team", "share").await, lines(&share));
}

/// A node that says whose it is: calls that say nothing are its, its idle too, whatever the policy; a call that says otherwise is another's.
#[tokio::test]
async fn a_node_says_whose_the_rest_is() {
    let world = World::of(splitting(&["team"]), Deps::system()).await;
    price(&world).await;
    let calls = [call(NOON, "a", 20, &json!({"team": "ml"})), call(NOON, "c", 10, &json!({"other": "x"}))];
    minute(&world, NOON, &json!({"team": "ops"}), &calls).await;
    let expected = [
        ("ops", "idle", "0.180000000000"),
        ("ml", "requests", "0.120000000000"),
        ("ops", "requests", "0.060000000000"),
    ];
    assert_eq!(shown(&world, "team", "show").await, lines(&expected));
    assert_eq!(shown(&world, "team", "share").await, lines(&expected));
    assert_eq!(shown(&world, "team", "hide").await, lines(&expected[1..]));
}

/// A replica says one key and its node another: each is taken from whoever says it.
#[tokio::test]
async fn a_replica_and_its_node_say_a_key_each() {
    let world = World::of(splitting(&["team", "cost_center"]), Deps::system()).await;
    price(&world).await;
    minute(&world, NOON, &json!({"team": "ops"}), &[call(NOON, "c", 30, &json!({}))]).await;
    let of_node = [NOON, NOON + MINUTE].map(|at| {
        let mut sample =
            on("r", at, json!({"kind": "accelerator", "device": "0", "attributes": {"cost_center": "47"}}));
        sample["instance"] = json!(null);
        sample
    });
    world.write(&DEVICES, &of_node).await;
    for (key, value) in [("team", "ops"), ("cost_center", "47")] {
        let shown = shown(&world, key, "show").await;
        let of_calls: Vec<_> = shown.iter().filter(|line| line[1] == "requests").map(|line| &line[0]).collect();
        assert_eq!(of_calls, [value], "{key}");
    }
}

/// A replica whose samples of an hour agree on the team and not on the cost centre is the team's: what is said alike of one key does not wait for
/// the others. The centre is nobody's, until another sample of the host names one.
#[tokio::test]
async fn samples_agree_key_by_key() {
    let world = World::of(splitting(&["team", "cost_center"]), Deps::system()).await;
    price(&world).await;
    minute(&world, NOON, &json!({"team": "ops", "cost_center": "1"}), &[call(NOON, "c", 30, &json!({}))]).await;
    let mut moved = engine(NOON, &json!({"team": "ops", "cost_center": "2"}))[1].clone();
    moved["time"] = json!(NOON + 30 * SECOND);
    moved["busy_us"] = json!(15 * SECOND);
    world.write(&DEVICES, &[moved]).await;
    let halves = |value: &'static str| [(value, "idle", "0.180000000000"), (value, "requests", "0.180000000000")];
    assert_eq!(shown(&world, "team", "show").await, lines(&halves("ops")));
    assert_eq!(shown(&world, "cost_center", "show").await, lines(&halves("__unattributed__")));
    let of_node = [NOON, NOON + MINUTE].map(|at| {
        let more = json!({"kind": "accelerator", "device": "0", "attributes": {"cost_center": "47"}, "instance": null});
        on("r", at, more)
    });
    world.write(&DEVICES, &of_node).await;
    assert_eq!(shown(&world, "cost_center", "show").await, lines(&halves("47")));
}

/// Two replicas of one host that say different teams are each its own; of the host itself nothing is said, and nothing is guessed.
#[tokio::test]
async fn replicas_of_several_owners_are_told_apart() {
    let world = World::of(splitting(&["team"]), Deps::system()).await;
    price(&world).await;
    let replica = |name: &str, team: Value| {
        engine(NOON, &json!({"team": team})).map(|mut sample| {
            sample["instance"] = json!(name);
            sample["chips"] = json!(6);
            sample
        })
    };
    world.write(&DEVICES, &[replica("r", json!("ml")), replica("s", json!("ops"))].concat()).await;
    // half of the host each, half of its time idle; nobody's tokens came, so the other half is nobody's in particular
    let expected = [
        ("ml", "idle", "0.090000000000"),
        ("ops", "idle", "0.090000000000"),
        ("ml", "unattributed", "0.090000000000"),
        ("ops", "unattributed", "0.090000000000"),
    ];
    assert_eq!(shown(&world, "team", "show").await, lines(&expected));
}

/// Where no key is configured no row has one, and calls of different teams are one row.
#[tokio::test]
async fn a_fleet_without_keys_has_the_rows_it_had() {
    let world = World::new().await;
    price(&world).await;
    let calls = [call(NOON, "a", 20, &json!({"team": "ml"})), call(NOON, "c", 10, &json!({"team": "ops"}))];
    minute(&world, NOON, &json!({"team": "ops"}), &calls).await;
    let rows = world.rows("SELECT count(*), count(allocation) FROM costs_hours WHERE part = 'requests'").await;
    assert_eq!(rows, [[json!(1), json!(0)]]);
    assert_eq!(world.rows("SELECT count(*) FROM cost_per_key").await, [[json!(0)]]);
}

async fn values(query: &Query) -> Vec<Vec<Value>> {
    let sql = "SELECT time, allocation_key, allocation_value, sum(cost_usd) FROM cost_per_key WHERE idle_policy = 'show' \
               GROUP BY time, allocation_key, allocation_value ORDER BY allocation_key, time, allocation_value";
    let request = SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() };
    query.sql(request).await.expect("answered").rows
}

/// An hour that was split before a key was configured has no value of it, and one that was split by a key which is configured no longer
/// keeps its own. Each hour is the whole of its cost either way, and a budget of the key counts the hours that have it.
#[tokio::test]
async fn a_change_of_keys_leaves_hours_that_are_split() {
    let clock = Hand::at(NOON);
    let deps = || Deps::new(Arc::clone(&clock) as Arc<dyn Clock>);
    let world = World::of(splitting(&[]), deps()).await;
    price(&world).await;
    // well within their hours: what closes a minute on the hour is of the hour before
    let at = |hour: i64| NOON + hour * HOUR + 10 * MINUTE;
    let ml = |hour: i64| call(at(hour), "a", 30, &json!({"team": "ml", "app": "chat"}));
    let build = |keys: &'static [&'static str]| {
        let rollups = Rollups::new(&splitting(keys), world.lake.clone(), &deps()).expect("a builder");
        async move { rollups.catch_up().await.expect("built") }
    };
    for (hour, keys) in [(0, &[] as &[&str]), (1, &["team"]), (2, &["app"])] {
        minute(&world, at(hour), &json!(null), &[ml(hour)]).await;
        clock.set(NOON + hour * HOUR + 90 * MINUTE);
        build(keys).await;
    }
    // the third hour is not over for longer than a call may take when the last is built, so all are from windows or the raw rows after
    let usd = |hour: i64, key: &str, value: Value, usd: &str| {
        vec![json!(format!("2026-11-29T{}:00:00.000000Z", 12 + hour)), json!(key), value, json!(usd)]
    };
    let (half, whole) = ("0.180000000000", "0.360000000000");
    let nobodys = || json!("__unattributed__");
    let expected = [
        usd(0, "app", json!(null), whole),
        usd(1, "app", json!(null), whole),
        usd(2, "app", nobodys(), half),
        usd(2, "app", json!("chat"), half),
        usd(1, "team", nobodys(), half),
        usd(1, "team", json!("ml"), half),
    ];
    let query = crate::build(splitting(&["app"]), world.lake.clone(), deps()).await.expect("a service");
    assert_eq!(values(&query).await, expected);
    let budget = |key: &str, value: &str| {
        json!({"time": NOON, "effective_from": NOON, "name": value, "allocation_key": key, "allocation_value": value, "amount": "0.2",
            "currency": "USD", "period": "day", "enforcement": "soft", "source": "tokenwatt.toml"})
    };
    world.write(&BUDGETS, &[budget("team", "ml"), budget("app", "chat"), budget("app", "__unattributed__")]).await;
    let sql = "SELECT name, spent_usd, idle_policy FROM budget_status ORDER BY name";
    let rows = world.rows(sql).await;
    assert_eq!(rows, ["__unattributed__", "chat", "ml"].map(|name| [json!(name), json!(half), json!("show")]));
}
