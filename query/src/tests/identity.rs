//! Tenants + padding + idle + shared + unattributed = what the nodes cost, to the last of 12 decimals; their joules are the nodes' joules.
//!
//! Fleets are made at random: hosts with one replica or several, with and without device time, with all tokens sent or none, with and
//! without a price, with counters that start anew and samples that stay away.

use serde_json::{Value, json};
use telemetry::table::{BILLING, DEVICES, POWER_MODELS, PRICES, REQUESTS, TOKENS};

use super::rolling::{Draws, Site};
use super::world::{NOON, World};

const MINUTE: i64 = 60_000_000;
const DAY: i64 = 1_440 * MINUTE;
/// Host types: the last has no price.
const TYPES: [&str; 3] = ["inf2.48xlarge", "trn1.32xlarge", "custom-npu.8x"];
const REGIONS: [&str; 3] = ["us-east-1", "eu-west-1", "ap-northeast-1"];

#[derive(Default)]
struct Rows {
    devices: Vec<Value>,
    tokens: Vec<Value>,
    calls: Vec<Value>,
}

/// A host and how it behaves.
struct Host {
    id: String,
    kind: &'static str,
    region: &'static str,
    replicas: i64,
    counts_device_time: bool,
    sends_tokens: bool,
    has_meter: bool,
}

impl Host {
    fn draw(draws: &mut Draws, id: usize) -> Host {
        Host {
            id: format!("i-{id}"),
            kind: TYPES[usize::try_from(draws.below(3)).expect("small")],
            region: REGIONS[usize::try_from(draws.below(3)).expect("small")],
            replicas: 1 + draws.below(3),
            counts_device_time: draws.below(4) > 0,
            sends_tokens: draws.below(3) > 0,
            has_meter: draws.below(3) > 0,
        }
    }

    fn row(&self, at_us: i64, replica: i64, more: Value) -> Value {
        let mut row = json!({
            "time": at_us, "region": self.region, "model": "m", "host_id": self.id, "host_type": self.kind,
            "instance": format!("{}/{replica}", self.id),
        });
        let (Some(fields), Value::Object(more)) = (row.as_object_mut(), more) else { panic!("objects") };
        fields.extend(more);
        row
    }

    /// What it does from `from_us` on, for so many minutes.
    fn live(&self, draws: &mut Draws, from_us: i64, minutes: i64, rows: &mut Rows) {
        for replica in 0..self.replicas {
            self.replica(draws, (from_us, minutes), replica, rows);
        }
        if !self.has_meter {
            return;
        }
        let mut joules = 0.0;
        for step in 0..=minutes * 2 {
            joules += draws.below(90_000) as f64 / 7.0;
            // one of many counters starts anew
            if draws.below(40) == 0 {
                joules = 0.0;
            }
            let meter = json!({"kind": "accelerator", "device": "0", "energy_j": joules, "boundary": "chip"});
            let mut row = self.row(from_us + step * MINUTE / 2, 0, meter);
            row.as_object_mut().expect("an object").remove("instance");
            rows.devices.push(row);
        }
    }

    fn replica(&self, draws: &mut Draws, (from_us, minutes): (i64, i64), replica: i64, rows: &mut Rows) {
        let chips = 1 + draws.below(4);
        let (mut busy, mut padding) = (draws.below(1_000_000), 0);
        for minute in 0..=minutes {
            let at = from_us + minute * MINUTE;
            let named = attributes(&self.id);
            let counters = if self.counts_device_time {
                json!({"kind": "engine", "chips": chips, "busy_us": busy, "padding_us": padding, "attributes": named})
            } else {
                json!({"kind": "engine", "chips": chips, "running": 1, "attributes": named})
            };
            rows.devices.push(self.row(at, replica, counters));
            if minute == minutes {
                break;
            }
            let used = draws.below(50_000_000);
            busy += used;
            padding += draws.below(9_000_000);
            let calls = 1 + draws.below(3);
            for call in 0..calls {
                self.call(draws, (at, used / calls), (replica, minute, call), rows);
            }
        }
    }

    fn call(
        &self,
        draws: &mut Draws,
        (at, device_us): (i64, i64),
        (replica, minute, call): (i64, i64, i64),
        rows: &mut Rows,
    ) {
        let trace = format!("{}-{replica}-{minute}-{call}-{at}", self.id);
        let attributes = attributes(&trace);
        let tenant = draws.one_of(&["acme", "zeta", "odd & sons"]);
        let tokens = draws.below(4);
        let began = at + draws.below(MINUTE / 2);
        let sampling = if self.sends_tokens { 1.0 } else { 0.0 };
        let of_call = json!({
            "measured_at": "server", "trace_id": trace, "span_id": "1", "tenant": tenant, "output_tokens": tokens, "input_tokens": 7,
            "e2e_s": draws.below(90_000_000) as f64 / 1e6, "token_sampling": sampling,
            "device_us_prefill": device_us / 3, "device_us_decode": device_us / 2, "attributes": attributes,
        });
        rows.calls.push(self.row(began, replica, of_call));
        if !self.sends_tokens {
            return;
        }
        for index in 0..tokens {
            let of_token = json!({"trace_id": trace, "request_span_id": "1", "choice": 0, "index": index, "count": 1, "tenant": tenant,
                "device_us": device_us / (tokens + 1)});
            rows.tokens.push(self.row(began + 1 + index, replica, of_token));
        }
    }
}

/// What a call or a replica says of the allocation keys, by what it is called: one, both, neither, or something else.
fn attributes(name: &str) -> Value {
    let at = name.bytes().fold(7_usize, |sum, byte| (sum * 31 + usize::from(byte)) % 9_973);
    let team = ["ml", "search", "ops", "it's \"ours\"", ""][at % 5];
    match at % 4 {
        0 => json!(null),
        1 => json!({"shelf": "3"}),
        2 => json!({"team": team}),
        _ => json!({"team": team, "cost_center": format!("{}", at % 7)}),
    }
}

fn price(kind: &str, region: &str, from_us: i64, usd_per_hour: &str) -> Value {
    json!({
        "time": from_us, "effective_from": from_us, "host_type": kind, "region": region, "option": "on_demand",
        "usd_per_hour": usd_per_hour, "currency": "USD", "confidence": "published", "as_of": "2026-07-20", "source": "test",
    })
}

/// Prices that no 12 decimals divide, and one that changes on the way; power of what has no meter.
async fn book(world: &World, from_us: i64) {
    let mut prices = Vec::new();
    for (index, region) in REGIONS.iter().enumerate() {
        prices.push(price("inf2.48xlarge", region, from_us - DAY, &format!("1{index}.981271828182")));
        prices.push(price("trn1.32xlarge", region, from_us - DAY, &format!("2{index}.333333333333")));
    }
    prices.push(price("inf2.48xlarge", "eu-west-1", from_us + 2 * MINUTE, "7.000000000001"));
    world.write(&PRICES, &prices).await;
    let model = json!({"time": from_us - DAY, "effective_from": from_us - DAY, "device": "inf2.48xlarge", "boundary": "chip",
        "idle_w": 315.0, "max_w": 2100.0, "method": "tdp", "confidence": "assumed", "source": "test"});
    world.write(&POWER_MODELS, &[model]).await;
}

/// A bill for the hour from `from_us` on: some hosts paid for in full, the minutes in which they were silent too, some in part, some in several
/// charges, some not at all; and one host that nobody heard of.
fn bill(draws: &mut Draws, hosts: &[Host], from_us: i64) -> Vec<Value> {
    let charge = |host: &Host, hours: f64, draws: &mut Draws| {
        let mut usd = || format!("{}.{:012}", draws.below(40), draws.below(1_000_000_000_000));
        json!({"time": from_us, "charge_from": from_us, "charge_to": from_us + 60 * MINUTE, "region": host.region, "host_id": host.id,
            "resource_id": host.id, "host_type": host.kind, "option": "savings_plan", "charge_kind": "host_time", "quantity": hours,
            "currency": "USD", "list_cost": usd(), "effective_cost": usd(), "billed_cost": usd(), "bill": "AWS/1/2026-11", "provider": "AWS",
            "account": "1", "period": "2026-11", "charge_category": "usage", "imported_at": from_us})
    };
    let mut rows = Vec::new();
    for host in hosts {
        match draws.below(4) {
            0 => {}
            1 => rows.push(charge(host, 1.0, draws)),
            2 => rows.push(charge(host, 0.37, draws)),
            _ => rows.extend([charge(host, 0.5, draws), charge(host, 0.5, draws)]),
        }
    }
    let unheard = Host { id: "i-unheard".to_owned(), ..Host::draw(draws, 0) };
    rows.push(charge(&unheard, 1.0, draws));
    rows
}

/// How many hosts and minutes there are in all, and how many of them do not add up: list, effective and billed cost.
const SUMS: [(&str, &str); 5] = [
    (
        "parts of a host",
        "SELECT count(*), count(CASE WHEN (n.cost_usd IS DISTINCT FROM p.usd) OR (n.effective_cost_usd IS DISTINCT FROM p.effective) \
           OR (n.billed_cost_usd IS DISTINCT FROM p.billed) THEN 1 END), count(n.effective_cost_usd) FROM node_cost AS n \
         LEFT JOIN (SELECT time, host_id, sum(cost_usd) AS usd, sum(effective_cost_usd) AS effective, sum(billed_cost_usd) AS billed \
           FROM replica_cost GROUP BY time, host_id) AS p ON p.time = n.time AND p.host_id = n.host_id",
    ),
    (
        "calls of a host",
        "SELECT count(*), count(CASE WHEN (p.usd IS DISTINCT FROM q.usd) OR (p.effective IS DISTINCT FROM q.effective) \
           OR (p.billed IS DISTINCT FROM q.billed) THEN 1 END), count(p.effective) FROM \
         (SELECT time, host_id, sum(cost_usd) AS usd, sum(effective_cost_usd) AS effective, sum(billed_cost_usd) AS billed \
           FROM replica_cost WHERE part = 'requests' AND weight > 0 GROUP BY time, host_id) AS p \
         LEFT JOIN (SELECT time, host_id, sum(cost_usd) AS usd, sum(effective_cost_usd) AS effective, sum(billed_cost_usd) AS billed \
           FROM request_minute_cost GROUP BY time, host_id) AS q ON p.time = q.time AND p.host_id = q.host_id",
    ),
    (
        "device time of a replica's calls",
        "SELECT count(*), count(CASE WHEN (p.us IS DISTINCT FROM q.us) THEN 1 END), 0 FROM \
         (SELECT time, host_id, instance, sum(device_us) AS us FROM replica_cost WHERE part = 'requests' AND device_us > 0 GROUP BY 1, 2, 3) AS p \
         LEFT JOIN (SELECT time, host_id, instance, sum(device_us) AS us FROM request_minute_cost GROUP BY 1, 2, 3) AS q \
         ON p.time = q.time AND p.host_id = q.host_id AND p.instance = q.instance",
    ),
    (
        "hours of a host",
        "SELECT count(*), count(CASE WHEN (n.usd IS DISTINCT FROM h.usd) OR (n.effective IS DISTINCT FROM h.effective) \
           OR (n.billed IS DISTINCT FROM h.billed) THEN 1 END), count(n.effective) FROM \
         (SELECT CAST(time AS BIGINT) / 3600000000 AS hour, host_id, sum(cost_usd) AS usd, sum(effective_cost_usd) AS effective, \
           sum(billed_cost_usd) AS billed FROM node_cost GROUP BY 1, 2) AS n \
         LEFT JOIN (SELECT CAST(time AS BIGINT) / 3600000000 AS hour, host_id, sum(list_cost) AS usd, sum(effective_cost) AS effective, \
           sum(billed_cost) AS billed FROM costs_hours GROUP BY 1, 2) AS h ON n.hour = h.hour AND n.host_id = h.host_id",
    ),
    (
        "policies that leave nothing out",
        "SELECT count(*), count(CASE WHEN usd IS DISTINCT FROM whole THEN 1 END), 0 FROM \
         (SELECT idle_policy, sum(cost_usd) AS usd FROM allocated_cost WHERE idle_policy <> 'hide' GROUP BY idle_policy) AS a \
         CROSS JOIN (SELECT sum(cost_usd) AS whole FROM node_cost) AS n",
    ),
];
/// The same of allocation keys: under each policy that leaves nothing out an hour's values, those without one among them, are its cost; and
/// nowhere are there more values than are told apart, those that stand for others, and none.
const SUMS_OF_KEYS: [(&str, &str); 2] = [
    (
        "values of a key",
        "SELECT count(*), count(CASE WHEN k.usd IS DISTINCT FROM n.usd THEN 1 END), 0 FROM \
         (SELECT CAST(time AS BIGINT) / 3600000000 AS hour, allocation_key, idle_policy, sum(cost_usd) AS usd FROM cost_per_key \
           WHERE idle_policy <> 'hide' GROUP BY 1, 2, 3) AS k \
         LEFT JOIN (SELECT CAST(time AS BIGINT) / 3600000000 AS hour, sum(cost_usd) AS usd FROM node_cost GROUP BY 1) AS n ON n.hour = k.hour",
    ),
    (
        "values of a key as they were said",
        "SELECT count(*), count(CASE WHEN allocation_value IS NULL OR allocation_value = '' THEN 1 END), 0 FROM cost_per_key",
    ),
];
/// Of [`SUMS`], those that are computed from windows.
const OF_WINDOWS: usize = 3;

async fn adds_up(world: &World, what: &str, sums: &[(&str, &str)], is_billed: bool) {
    for (sums, sql) in sums {
        let row = world.rows(sql).await.remove(0);
        let [of, wrong] = [&row[0], &row[1]].map(|number| number.as_i64().expect("a count"));
        assert!(of > 0 && wrong == 0, "{what}: {wrong} of {of} {sums} do not add up");
        let billed = row[2].as_i64().expect("a count");
        assert_eq!(
            billed > 0,
            is_billed && !["policies", "device time", "values"].iter().any(|of| sums.starts_with(of)),
            "{what}: {sums}"
        );
    }
    let joules = "SELECT (SELECT sum(joules) FROM host_energy) AS hosts, (SELECT sum(energy_j) FROM costs_hours) AS hours, \
        (SELECT sum(joules) FROM replica_energy) AS replicas, (SELECT count(*) FROM replica_energy WHERE NOT joules >= 0.0) AS negative";
    let row = world.rows(joules).await.remove(0);
    let [hosts, hours, replicas] = [&row[0], &row[1], &row[2]].map(|number| number.as_f64().expect("joules"));
    assert!(hosts > 0.0 && row[3] == json!(0), "{what}: {row:?}");
    for sum in [hours, replicas] {
        assert!((sum / hosts - 1.0).abs() <= 1e-9, "{what}: {row:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_fleets_add_up() {
    for seed in 0..2 {
        let keys = ["team", "cost_center"];
        let (site, mut draws, mut rows) = (Site::splitting(&keys).await, Draws(seed), Rows::default());
        let world = &site.world;
        book(world, NOON).await;
        // one host of the first kind, metered, is always there
        let first = Host { kind: TYPES[0], has_meter: true, counts_device_time: true, ..Host::draw(&mut draws, 0) };
        let others = (1..12).map(|id| Host::draw(&mut draws, id)).collect::<Vec<_>>();
        let hosts: Vec<Host> = std::iter::once(first).chain(others).collect();
        for host in &hosts {
            host.live(&mut draws, NOON, 4, &mut rows);
        }
        world.write(&BILLING, &bill(&mut draws, &hosts, NOON)).await;
        for (table, rows) in [(&DEVICES, &rows.devices), (&TOKENS, &rows.tokens), (&REQUESTS, &rows.calls)] {
            world.write(table, rows).await;
        }
        adds_up(world, &format!("seed {seed} from raw rows"), &SUMS, true).await;
        adds_up(world, &format!("seed {seed} by keys from raw rows"), &SUMS_OF_KEYS, true).await;
        site.clock.set(NOON + 90 * MINUTE);
        site.build().await;
        adds_up(world, &format!("seed {seed} from windows"), &SUMS[OF_WINDOWS..], true).await;
        adds_up(world, &format!("seed {seed} by keys from windows"), &SUMS_OF_KEYS, true).await;
        // two of each an hour, those that stand for the others, and none
        let most = "SELECT allocation_key, count(DISTINCT allocation_value) FROM cost_per_key GROUP BY allocation_key ORDER BY allocation_key";
        assert_eq!(
            world.rows(most).await,
            keys.map(|key| [json!(key), json!(4)]).into_iter().rev().collect::<Vec<_>>(),
            "seed {seed}"
        );
        let answer = world.ask("SELECT sum(list_cost) FROM costs_hours").await;
        assert!(answer.served_by.contains("costs_1h through"), "{}", answer.served_by);
    }
}

/// However samples of a host's replicas and meter lie, an hour of it is charged once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_hour_is_charged_for_an_hour_at_most() {
    let (site, mut draws, mut devices) = (Site::new().await, Draws(5), Vec::new());
    let world = &site.world;
    book(world, NOON).await;
    for id in 0..12 {
        let host = Host { kind: TYPES[0], ..Host::draw(&mut draws, id) };
        // the longest step: much shorter than a minute, about one, about two
        let most = [15, 65, 119][id % 3] * 1_000_000;
        for source in 0..=host.replicas {
            let (mut at, mut busy) = (NOON, 0);
            while at <= NOON + 60 * MINUTE {
                let more = match source {
                    0 => json!({"kind": "accelerator", "device": "0", "power_w": 100.0}),
                    _ => json!({"kind": "engine", "chips": 1, "busy_us": busy, "padding_us": 0}),
                };
                let mut row = host.row(at, source, more);
                if source == 0 {
                    row.as_object_mut().expect("an object").remove("instance");
                }
                devices.push(row);
                let step = most / 2 + draws.below(most / 2);
                (at, busy) = (at + step, busy + step / 2);
            }
        }
    }
    world.write(&DEVICES, &devices).await;
    let sql = "SELECT host_id, sum(charged_us), min(charged_us) FROM node_cost GROUP BY host_id ORDER BY host_id";
    let hosts = world.rows(sql).await;
    assert_eq!(hosts.len(), 12);
    for row in hosts {
        let [all, least] = [&row[1], &row[2]].map(|us| us.as_i64().expect("microseconds"));
        assert!((57 * MINUTE..=60 * MINUTE).contains(&all) && least >= 0, "{row:?}");
    }
    let row = world.rows(SUMS[0].1).await.remove(0);
    assert!(row[0].as_i64() > Some(600) && row[1] == json!(0), "{row:?}");
}

/// Every minute of two hours of fifty nodes, and a bill for the first: from raw rows and, the same, from windows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hours_of_fifty_nodes_add_up() {
    let (site, mut draws, mut rows) = (Site::new().await, Draws(23), Rows::default());
    let world = &site.world;
    book(world, NOON).await;
    let hosts: Vec<Host> = (0..50).map(|id| Host::draw(&mut draws, id)).collect();
    for host in &hosts {
        host.live(&mut draws, NOON, 120, &mut rows);
    }
    world.write(&BILLING, &bill(&mut draws, &hosts, NOON)).await;
    for (table, rows) in [(&DEVICES, &rows.devices), (&TOKENS, &rows.tokens), (&REQUESTS, &rows.calls)] {
        world.write(table, rows).await;
    }
    let minutes = world.rows("SELECT count(DISTINCT host_id), count(*) FROM node_cost").await;
    assert_eq!(minutes[0][0], json!(51));
    assert!(minutes[0][1].as_i64() >= Some(6_000), "{minutes:?}");
    adds_up(world, "two hours", &SUMS, true).await;
    site.clock.set(NOON + 180 * MINUTE);
    site.build().await;
    adds_up(world, "two hours from windows", &SUMS[OF_WINDOWS..], true).await;
}

/// A price that is imported later restates the hours that it is for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_price_restates_hours_that_are_built() {
    let (site, mut draws, mut rows) = (Site::new().await, Draws(3), Rows::default());
    let host = Host { kind: TYPES[2], region: "eu-west-1", ..Host::draw(&mut draws, 0) };
    host.live(&mut draws, NOON, 3, &mut rows);
    site.world.write(&DEVICES, &rows.devices).await;
    site.world.write(&REQUESTS, &rows.calls).await;
    site.clock.set(NOON + 90 * MINUTE);
    site.build().await;
    let sql = "SELECT sum(list_cost) FROM costs_hours";
    assert_eq!(site.world.rows(sql).await, [[json!(null)]], "no price is no cost");
    site.world.write(&PRICES, &[price(TYPES[2], "eu-west-1", NOON - DAY, "60.0")]).await;
    let restated = site.world.rows(sql).await;
    // three minutes of a dollar each
    assert_eq!(restated, [[json!("3.000000000000")]]);
    site.build().await;
    assert_eq!(site.world.rows("SELECT sum(list_cost) FROM costs_1h").await, restated);
}

/// A thousand nodes through a month: each is heard of every other day, for a minute at an hour that moves: 15,000 of its 43 million host-minutes.
/// What that covers is sums over many hosts, days and files; minutes that follow each other are those of the other tests here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_month_of_a_thousand_nodes_adds_up() {
    let (site, mut draws) = (Site::new().await, Draws(11));
    let world = &site.world;
    let start = NOON - NOON % DAY - 29 * DAY;
    book(world, start).await;
    let hosts: Vec<Host> = (0..1_000).map(|id| Host { replicas: 1, ..Host::draw(&mut draws, id) }).collect();
    for day in 0..30_usize {
        let mut rows = Rows::default();
        let from = start + day as i64 * DAY + draws.below(1_000) * MINUTE;
        for host in hosts.iter().skip(day % 2).step_by(2) {
            host.live(&mut draws, from, 1, &mut rows);
        }
        let at = jiff::Timestamp::from_microsecond(from).expect("a time").to_zoned(jiff::tz::TimeZone::UTC);
        let date = at.date().to_string();
        for (table, rows) in [(&DEVICES, &rows.devices), (&TOKENS, &rows.tokens), (&REQUESTS, &rows.calls)] {
            world.write_on(&date, table, rows).await;
        }
    }
    let nodes = world.rows("SELECT count(DISTINCT host_id), count(*) FROM node_cost").await;
    assert_eq!(nodes[0][0], json!(1_000));
    assert!(nodes[0][1].as_i64() >= Some(15_000), "{nodes:?}");
    adds_up(world, "a month", &SUMS[..=OF_WINDOWS], false).await;
}
