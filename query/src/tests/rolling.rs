//! A question has one answer, whether windows or raw rows give it.

mod dying;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use service::Deps;
use service::clock::Clock;
use telemetry::table::{BILLING, COSTS_1H, DEVICES, EXCHANGE_RATES, REQUESTS, REQUESTS_1M, TOKENS, Table};

use super::cost::{HOUR, INF2, charge, seen};
use super::world::{NOON, World};
use crate::rollup::{self, ROLLUPS, Rollup, Rollups, Settings, Slo};
use crate::views;
use crate::{Config, Query};

const MINUTE: i64 = 60_000_000;
/// Rows older than this when they are written are late, as the collector has it.
const LATE: i64 = 120_000_000;

/// A clock that is set by hand.
pub(super) struct Hand(AtomicI64);

impl Hand {
    pub(super) fn at(us: i64) -> Arc<Hand> {
        Arc::new(Hand(AtomicI64::new(us)))
    }

    pub(super) fn set(&self, us: i64) {
        self.0.store(us, Ordering::SeqCst);
    }

    pub(super) fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_micros()).expect("a while"), Ordering::SeqCst);
    }

    fn us(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Clock for Hand {
    fn now_ns(&self) -> i64 {
        self.us() * 1_000
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros((self.us() - NOON + 3_600_000_000).unsigned_abs())
    }
}

fn slo(name: &str, indicator: &str, threshold: Option<f64>, measured_at: &str) -> Slo {
    Slo {
        name: name.to_owned(),
        indicator: indicator.to_owned(),
        threshold,
        objective: 0.9,
        window_days: 30,
        measured_at: measured_at.to_owned(),
        region: None,
        model: None,
        tenant: None,
    }
}

/// A lake, a clock and somebody who builds windows.
pub(super) struct Site {
    pub(super) world: World,
    pub(super) clock: Arc<Hand>,
    config: Config,
}

impl Site {
    pub(super) async fn new() -> Site {
        Site::with(|_| ()).await
    }

    /// One whose costs are split by these keys, of the values of which two an hour are told apart.
    pub(super) async fn splitting(keys: &[&str]) -> Site {
        Site::with(|settings| {
            settings.cost.allocation_keys = keys.iter().map(|key| (*key).to_owned()).collect();
            settings.cost.allocation_values_max = 2;
        })
        .await
    }

    /// One whose tables keep their rows for other days than theirs.
    pub(super) async fn keeping(retention_days: BTreeMap<String, u32>) -> Site {
        Site::with(|settings| settings.retention_days = retention_days).await
    }

    async fn with(change: impl FnOnce(&mut Settings)) -> Site {
        let (clock, mut config) = Site::parts();
        change(&mut config.rollup);
        let deps = Deps::new(Arc::clone(&clock) as Arc<dyn Clock>);
        Site { world: World::of(config.clone(), deps).await, clock, config }
    }

    /// Over a store of the caller's making.
    async fn on(store: Arc<dyn object_store::ObjectStore>) -> Site {
        let (clock, config) = Site::parts();
        let deps = Deps::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let lake = lake::Lake::open_on(store, &deps).await.expect("a lake");
        Site { world: World::on(lake, config.clone(), deps).await, clock, config }
    }

    fn parts() -> (Arc<Hand>, Config) {
        let clock = Hand::at(NOON);
        let slo = vec![
            slo("ttft", "ttft_s", Some(0.5), "server"),
            Slo { region: Some("eu-west-1".to_owned()), ..slo("gate", "e2e_s", Some(4.0), "gateway") },
            slo("up", "availability", None, "server"),
        ];
        (clock, Config { rollup: Settings { slo, ..Settings::default() }, ..Config::default() })
    }

    pub(super) fn deps(&self) -> Deps {
        Deps::new(Arc::clone(&self.clock) as Arc<dyn Clock>)
    }

    /// Builds what is due, as a process would that has just begun.
    pub(super) async fn build(&self) {
        self.try_build().await.expect("built");
    }

    async fn try_build(&self) -> service::Result<()> {
        let rollups = Rollups::new(&self.config, self.world.lake.clone(), &self.deps()).expect("a builder");
        rollups.catch_up().await
    }

    /// What builds windows in a process that has just begun, so many files and stretches without rows a round.
    fn bounded(&self, files: usize, empty: usize) -> Rollups {
        let rollups = Rollups::new(&self.config, self.world.lake.clone(), &self.deps()).expect("a builder");
        rollups.bounded(files, empty)
    }

    /// Commits rows as the collector does: with the minutes of those that come late.
    async fn write(&self, table: &'static Table, rows: &[Value]) {
        let late = rows.iter().filter_map(|row| row["time"].as_i64()).filter(|us| *us < self.clock.us() - LATE);
        let minutes: BTreeSet<i64> = late.map(|us| us / MINUTE).collect();
        let list = minutes.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        self.world.write_tagged(table, rows, (!minutes.is_empty()).then_some(list)).await;
    }

    async fn version(&self, table: &str) -> i64 {
        self.world.lake.snapshot(table, None).await.expect("readable").version
    }

    /// Asks every view whole, from windows and from raw rows; a process that has just begun answers like one that has not.
    async fn compare(&self, what: &str) {
        self.compare_those(what, |rollup| rollup.table.name != COSTS_1H.name).await;
    }

    /// The same of hours of cost, whose plans are the largest.
    pub(super) async fn compare_costs(&self, what: &str) {
        self.compare_those(what, |rollup| rollup.table.name == COSTS_1H.name).await;
    }

    async fn compare_those(&self, what: &str, are_meant: impl Fn(&Rollup) -> bool) {
        let deps = self.deps();
        let fresh = crate::build(self.config.clone(), self.world.lake.clone(), deps.clone()).await.expect("a service");
        for rollup in ROLLUPS.into_iter().filter(|rollup| are_meant(rollup)) {
            let name = rollup.view.name;
            let raw = sorted(&fresh, &format!("SELECT * FROM raw.{name}")).await;
            for query in [&fresh, &self.world.query] {
                same(&raw, &sorted(query, &format!("SELECT * FROM {name}")).await, &format!("{name} {what}"));
            }
            let part = "WHERE time >= TIMESTAMP '2026-11-29T12:03:00Z' AND time < TIMESTAMP '2026-11-29T12:08:00Z'";
            let raw = sorted(&fresh, &format!("SELECT * FROM raw.{name} {part}")).await;
            same(
                &raw,
                &sorted(&fresh, &format!("SELECT * FROM {name} {part}")).await,
                &format!("part of {name} {what}"),
            );
        }
        deps.shutdown.walk(Duration::from_secs(1)).await;
    }
}

/// The rows in an order of their own; numbers apart from the rest, since sums of floats depend on their order.
async fn sorted(query: &Query, sql: &str) -> Vec<(String, Vec<f64>)> {
    use telemetry::contract::{QueryApi, SqlRequest};
    let answer = query.sql(SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() }).await;
    let answer = answer.unwrap_or_else(|error| panic!("{error:?} from {sql}"));
    let split = |row: Vec<Value>| {
        let (floats, others): (Vec<_>, Vec<_>) = row.into_iter().partition(Value::is_f64);
        (Value::Array(others).to_string(), floats.iter().filter_map(Value::as_f64).collect())
    };
    let mut rows: Vec<(String, Vec<f64>)> = answer.rows.into_iter().map(split).collect();
    rows.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
    rows
}

fn same(raw: &[(String, Vec<f64>)], rolled: &[(String, Vec<f64>)], what: &str) {
    assert_eq!(raw.len(), rolled.len(), "{what}");
    for (raw, rolled) in raw.iter().zip(rolled) {
        assert_eq!(raw.0, rolled.0, "{what}");
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
        assert!(raw.1.len() == rolled.1.len() && raw.1.iter().zip(&rolled.1).all(close), "{what}: {raw:?} {rolled:?}");
    }
}

/// Numbers that look random and are the same each time (SplitMix64).
pub(super) struct Draws(pub(super) u64);

impl Draws {
    pub(super) fn below(&mut self, bound: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        i64::try_from((z ^ (z >> 31)) % bound.unsigned_abs()).expect("small")
    }

    pub(super) fn one_of<'a>(&mut self, values: &[&'a str]) -> &'a str {
        values[usize::try_from(self.below(values.len() as i64)).expect("small")]
    }
}

fn call(draws: &mut Draws, at_us: i64, id: usize, place: &str) -> Value {
    let (ttft, e2e) = (draws.below(1_000_000) as f64 / 1e6, draws.below(9_000_000) as f64 / 1e6);
    let mut row = json!({
        "time": at_us, "region": draws.one_of(&["eu-west-1", "us-east-1"]), "model": draws.one_of(&["a", "b"]),
        "measured_at": place, "trace_id": format!("t{id}"), "span_id": format!("{place}{id}"), "host_id": draws.one_of(&["h1", "h2"]),
        "host_type": "inf2.48xlarge", "status": draws.one_of(&["ok", "ok", "error", "cancelled"]), "tenant": draws.one_of(&["x", "y"]),
        "input_tokens": draws.below(100), "output_tokens": draws.below(50), "e2e_s": e2e, "device_us_decode": draws.below(9_000),
    });
    if draws.below(5) > 0 {
        row["ttft_s"] = json!(ttft);
    }
    row
}

/// Calls, most of them seen at a gateway and at a server a moment later.
fn calls(draws: &mut Draws, from_us: i64, to_us: i64, first: usize) -> Vec<Value> {
    let mut rows = Vec::new();
    for id in first..first + 12 {
        let at = from_us + draws.below(to_us - from_us);
        if draws.below(4) > 0 {
            rows.push(call(draws, at, id, "gateway"));
        }
        if draws.below(4) > 0 {
            let served = at + draws.below(20_000_000);
            rows.push(call(draws, served, id, "server"));
        }
    }
    rows
}

fn tokens(draws: &mut Draws, from_us: i64, to_us: i64, first: usize) -> Vec<Value> {
    let start = from_us + draws.below(to_us - from_us);
    let row = |index: i64| {
        json!({
            "time": start + index * 7_000_000, "region": "eu-west-1", "model": "a", "host_id": "h1", "trace_id": format!("t{first}"),
            "request_span_id": "s", "choice": 0, "index": index, "count": 1 + index % 2, "device_us": 100,
        })
    };
    (0..10).map(row).collect()
}

fn samples(draws: &mut Draws, from_us: i64, to_us: i64) -> Vec<Value> {
    // every ten seconds, and on the minute exactly
    let ticks = (from_us / 10_000_000)..(to_us / 10_000_000);
    let row = |tick: i64| {
        let us = tick * 10_000_000;
        [
            json!({"time": us, "region": "eu-west-1", "host_id": "h1", "instance": "i", "kind": "engine", "model": "a",
                "busy_us": (us - NOON) / 2, "padding_us": (us - NOON) / 8, "running": tick % 5, "waiting": 1}),
            json!({"time": us, "region": "eu-west-1", "host_id": "h1", "kind": "accelerator", "device": "0", "utilization": 0.5,
                "utilization_kind": "executing", "power_w": 90.0 + (tick % 3) as f64, "boundary": "chip"}),
        ]
    };
    let _ = draws.below(2);
    ticks.flat_map(row).collect()
}

/// Rows that are on time, late and very late, calls that others supersede, windows built now and then, by one process or the
/// next: at every moment windows and raw rows say the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_say_what_raw_rows_say() {
    for seed in 0..2 {
        let (site, mut draws) = (Site::new().await, Draws(seed));
        site.build().await;
        let mut held: Vec<(&'static Table, Vec<Value>)> = Vec::new();
        for step in 0..9_usize {
            let (from, to) = (site.clock.us(), site.clock.us() + MINUTE);
            site.clock.set(to);
            let first = step * 100;
            let kinds: [(&'static Table, Vec<Value>); 3] = [
                (&REQUESTS, calls(&mut draws, from, to, first)),
                (&TOKENS, tokens(&mut draws, from, to, first)),
                (&DEVICES, samples(&mut draws, from, to)),
            ];
            for (table, rows) in kinds {
                // a part of them comes when it may
                let (now, later): (Vec<_>, Vec<_>) = rows.into_iter().partition(|_| draws.below(6) > 0);
                if !now.is_empty() {
                    site.write(table, &now).await;
                }
                held.push((table, later));
            }
            if draws.below(2) == 0 && !held.is_empty() {
                let (table, rows) = held.remove(usize::try_from(draws.below(held.len() as i64)).expect("small"));
                if !rows.is_empty() {
                    site.write(table, &rows).await;
                }
            }
            if draws.below(3) > 0 {
                site.build().await;
            }
            if step % 3 == 2 {
                site.compare(&format!("after step {step} of seed {seed}")).await;
            }
        }
        for (table, rows) in held.into_iter().filter(|(_, rows)| !rows.is_empty()) {
            site.write(table, &rows).await;
        }
        site.compare(&format!("with all rows of seed {seed}")).await;
        site.compare_costs(&format!("with all rows of seed {seed}")).await;
        site.build().await;
        site.clock.set(NOON + 2 * 3_600_000_000);
        site.build().await;
        site.compare(&format!("at the end of seed {seed}")).await;
        site.compare_costs(&format!("at the end of seed {seed}")).await;
        let rebuilt = site.world.rows("SELECT sum(rebuilt_windows) > 0, count(through) FROM system.rollups").await;
        assert_eq!(rebuilt, [[json!(true), json!(6)]], "seed {seed}");
    }
}

/// Building what is built does nothing; building what only time has passed over does nothing either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_is_built_once() {
    let (site, mut draws) = (Site::new().await, Draws(7));
    site.write(&REQUESTS, &calls(&mut draws, NOON, NOON + MINUTE, 0)).await;
    site.clock.set(NOON + 5 * MINUTE);
    site.build().await;
    let versions = [site.version("requests_1m").await, site.version("slos").await];
    assert!(versions.iter().all(|version| *version >= 0), "{versions:?}");
    site.build().await;
    site.clock.set(NOON + 9 * MINUTE);
    site.build().await;
    assert_eq!([site.version("requests_1m").await, site.version("slos").await], versions);
}

/// The answer says which windows served it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_names_its_resolution() {
    let (site, mut draws) = (Site::new().await, Draws(8));
    site.write(&REQUESTS, &calls(&mut draws, NOON, NOON + MINUTE, 0)).await;
    let sql = "SELECT sum(requests) FROM requests_minutes";
    assert_eq!(site.world.ask(sql).await.served_by, "raw rows");
    site.clock.set(NOON + 4 * MINUTE);
    site.build().await;
    assert_eq!(site.world.ask(sql).await.served_by, "requests_1m through 2026-11-29T12:03Z, raw rows after");
    site.write(&REQUESTS, &calls(&mut draws, NOON, NOON + 1, 50)).await;
    let late = site.world.ask(sql).await.served_by;
    assert!(late.starts_with("requests_1m through 2026-11-29T12:03Z, raw rows after and for"), "{late}");
    assert_eq!(site.world.ask("SELECT count(*) FROM requests").await.served_by, "raw rows");
}

/// Sums count a call once, distributions and objectives take every call measured at their place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_counts_once_and_is_judged_where_it_was_measured() {
    let site = Site::new().await;
    site.build().await;
    let row = |place: &str, span: &str, ttft: f64, status: &str| {
        json!({"time": NOON + 1_000_000, "region": "eu-west-1", "model": "a", "measured_at": place, "trace_id": span, "span_id": place,
            "ttft_s": ttft, "e2e_s": 5.0, "status": status, "output_tokens": 10})
    };
    let rows = [
        row("gateway", "1", 0.3, "ok"),
        row("server", "1", 0.2, "ok"),
        row("server", "2", 0.7, "ok"),
        row("server", "3", 0.1, "error"),
    ];
    site.write(&REQUESTS, &rows).await;
    site.clock.set(NOON + 4 * MINUTE);
    site.build().await;
    let sql = "SELECT measured_at, sum(requests), sum(measured), sum(output_tokens), sum(ttft_count), sum(good) \
        FROM requests_1m GROUP BY measured_at ORDER BY measured_at";
    let found = site.world.rows(sql).await;
    // the call at the gateway took 5 s, its objective is 4
    assert_eq!(found[0], [json!("gateway"), json!(0), json!(1), json!(null), json!(1), json!(0)]);
    assert_eq!(found[1], [json!("server"), json!(3), json!(3), json!(30), json!(3), json!(1)]);
    let sets =
        site.world.rows("SELECT slo_set, slo_met, sum(measured) FROM requests_1m GROUP BY 1, 2 ORDER BY 1, 2").await;
    let expected = json!([["gate", null, 1], ["ttft,up", "ttft,up", 1], ["ttft,up", "up", 1], ["ttft,up", null, 1]]);
    assert_eq!(json!(sets), expected);
    // nine tenths must be good
    let burns =
        "SELECT slo, region, objective, calls, good, round(burn_5m, 3), round(burn_3d, 3) FROM slo_burn ORDER BY slo";
    let expected = json!([
        ["gate", "eu-west-1", 0.9, 1, 0, 10.0, 10.0],
        ["ttft", null, 0.9, 3, 1, 6.667, 6.667],
        ["up", null, 0.9, 3, 2, 3.333, 3.333],
    ]);
    assert_eq!(json!(site.world.rows(burns).await), expected);
    site.world.query.fleet.add(NOON / MINUTE).await.expect("measured");
    let page = site.world.query.fleet.page(crate::fleet::Exemplars::Left).await;
    for line in [
        r#"tokenwatt_slo_calls_total{region="eu-west-1",model="a",slo="ttft"} 3"#,
        r#"tokenwatt_slo_good_calls_total{region="eu-west-1",model="a",slo="ttft"} 1"#,
        r#"tokenwatt_slo_good_calls_total{region="eu-west-1",model="a",slo="gate"} 0"#,
        r#"tokenwatt_slo_objective_ratio{slo="up"} 0.9"#,
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
    }
}

fn of_view(name: &str) -> &'static Rollup {
    views::by_name(name).and_then(rollup::of).expect("a roll-up")
}

/// A backlog of 60 hours with calls is worked off in rounds, the oldest first, each in a process of its own, of so many files and no more, and every
/// hour is there once. The bound is that of the program.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_writes_so_many_files_and_the_next_goes_on() {
    let site = Site::new().await;
    let hours: Vec<i64> = (1..=60).map(|hour| NOON - hour * HOUR).rev().collect();
    for hour in &hours {
        let date = jiff::Timestamp::from_microsecond(*hour).expect("a time").to_zoned(jiff::tz::TimeZone::UTC).date();
        let call = json!({"time": hour + MINUTE, "region": "eu-west-1", "model": "a", "measured_at": "server", "trace_id": hour.to_string(),
            "span_id": "1", "status": "ok", "e2e_s": 1.0});
        site.world.write_on(&date.to_string(), &REQUESTS, &[call]).await;
    }
    let rollup = of_view("requests_minutes");
    for (written, more) in [(24, true), (48, true), (60, false), (60, false)] {
        let rollups = Rollups::new(&site.config, site.world.lake.clone(), &site.deps()).expect("a builder");
        assert_eq!(rollups.round(rollup).await.expect("a round").0, more, "{written}");
        let files = site.world.lake.snapshot(REQUESTS_1M.name, None).await.expect("readable").files.len();
        assert_eq!(files, written);
        let sql = "SELECT count(*), sum(requests), CAST(max(time) AS BIGINT) FROM requests_1m";
        let last = hours[written - 1] + MINUTE;
        assert_eq!(site.world.rows(sql).await, [[json!(written), json!(written), json!(last)]], "the oldest first");
    }
}

/// A bill in euros without a rate speaks of eight hours of which nothing is known, between others that have rows. Two files and three stretches without
/// rows are a round: it takes three to come to the next hour with rows, though nothing can be written down on the way, and each stretch is looked at
/// once. With a rate the eight hours have rows, and with the three others they are six rounds of two files at most; what they come to is the bill, to
/// the last decimal: 8 EUR at 1.25 USD.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_looks_at_so_many_stretches_and_the_next_goes_on() {
    let site = Site::new().await;
    let rollup = of_view("costs_hours");
    site.world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    site.clock.set(NOON + 90 * MINUTE);
    let rollups = site.bounded(2, 3);
    assert_eq!(rollups.round(rollup).await.expect("a round"), (false, 0));
    let more =
        json!({"currency": "EUR", "time": NOON + HOUR, "charge_from": NOON + HOUR, "charge_to": NOON + 9 * HOUR});
    site.world.write(&BILLING, &[charge("i-9", INF2, "on_demand", 8.0, ["16", "8", "8"], more)]).await;
    site.world.write(&DEVICES, &seen("i-1", INF2, 9 * 60 + 1, 10 * 60)).await;
    site.clock.set(NOON + 10 * HOUR + 30 * MINUTE);
    for (more, known) in [(true, 3), (true, 6), (false, 8), (false, 8)] {
        assert_eq!(rollups.round(rollup).await.expect("a round"), (more, known));
    }
    let hours = async || site.world.rows("SELECT count(DISTINCT time), sum(effective_cost) FROM costs_1h").await;
    // the hour before noon has the sample at noon
    assert_eq!(hours().await, [[json!(3), json!(null)]]);
    // a process that has just begun knows nothing of what was looked at, and comes to the same
    while site.bounded(2, 3).round(rollup).await.expect("a round").0 {}
    let rate = json!({"time": NOON - HOUR, "effective_from": NOON - HOUR, "currency": "EUR", "usd_per_unit": "1.25", "source": "test"});
    site.world.write(&EXCHANGE_RATES, &[rate]).await;
    for (more, known) in [(true, 3), (true, 5), (true, 7), (true, 9), (true, 11), (false, 11)] {
        assert_eq!(rollups.round(rollup).await.expect("a round").0, more, "at {known} hours");
        assert_eq!(hours().await[0][0], json!(known));
    }
    assert_eq!(hours().await, [[json!(11), json!("10.000000000000")]]);
    assert!(!rollups.round(rollup).await.expect("a round").0);
}
