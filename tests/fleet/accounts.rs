//! Device time adds up: for every replica and minute, requests, padding and idle time are the wall time, to the microsecond.

use std::collections::BTreeMap;

use crate::world::{Server, number};

/// One engine sample: when it was taken, and the counters at that time, all in µs.
#[derive(Clone, Copy, Debug)]
struct Sample {
    time_us: i64,
    busy_us: i64,
    padding_us: i64,
}

/// Checks every closed minute of every replica, and that the money of its parts is the money of the node.
pub(super) async fn add_up(server: &Server) {
    let replicas = minute_ends(server).await;
    assert!(replicas.len() >= 5, "only {} replicas", replicas.len());
    let mut windows = 0;
    for (instance, samples) in &replicas {
        for pair in samples.windows(2) {
            window(server, instance, pair[0], pair[1]).await;
            windows += 1;
        }
    }
    assert!(windows >= replicas.len(), "only {windows} closed minutes of {} replicas", replicas.len());
    money_adds_up(server).await;
}

/// The views say the same of time, and split each host's money without losing a unit of its last decimal.
async fn money_adds_up(server: &Server) {
    let time = "SELECT count(*), coalesce(sum(CASE WHEN requests_us + unattributed_us + padding_us + idle_us <> wall_us \
                THEN 1 ELSE 0 END), 0) FROM replica_minutes";
    let [minutes, wrong] = server.numbers(time).await[..] else { panic!("two columns") };
    assert!(minutes > 0 && wrong == 0, "{wrong} of {minutes} replica minutes do not add up");

    // Both sides in one statement read one version, though the fleet goes on.
    let cost = "SELECT count(*), coalesce(sum(CASE WHEN p.parts <> n.cost_usd THEN 1 ELSE 0 END), 0) FROM node_cost n \
                JOIN (SELECT time, host_id, sum(cost_usd) AS parts FROM replica_cost GROUP BY time, host_id) p \
                ON p.time = n.time AND p.host_id = n.host_id WHERE n.cost_usd > 0";
    let [minutes, wrong] = server.numbers(cost).await[..] else { panic!("two columns") };
    assert!(minutes > 0 && wrong == 0, "the parts of {wrong} of {minutes} host minutes are not their cost");

    let requests = "SELECT count(*), coalesce(sum(CASE WHEN q.cost <> r.cost_usd THEN 1 ELSE 0 END), 0) FROM replica_cost r \
                    JOIN (SELECT time, host_id, instance, sum(cost_usd) AS cost FROM request_minute_cost \
                    GROUP BY time, host_id, instance) q \
                    ON q.time = r.time AND q.host_id = r.host_id AND q.instance = r.instance \
                    WHERE r.part = 'requests' AND r.cost_usd > 0";
    let [minutes, wrong] = server.numbers(requests).await[..] else { panic!("two columns") };
    assert!(
        minutes > 0 && wrong == 0,
        "the requests of {wrong} of {minutes} replica minutes do not cost what their part costs"
    );

    let unpriced = "SELECT count(*), count(cost_usd) FROM node_cost WHERE host_type = 'custom-npu.8x'";
    let [minutes, costs] = server.numbers(unpriced).await[..] else { panic!("two columns") };
    assert!(minutes > 0 && costs == 0, "a host without a price has a cost");
}

/// The last sample of each minute by replica, without the minute that is still running.
async fn minute_ends(server: &Server) -> BTreeMap<String, Vec<Sample>> {
    let sql = "SELECT instance, arrow_cast(time, 'Int64') AS at, busy_us, padding_us FROM devices \
               WHERE kind = 'engine' AND busy_us IS NOT NULL ORDER BY instance, at";
    let mut replicas: BTreeMap<String, BTreeMap<i64, Sample>> = BTreeMap::new();
    for row in server.sql(sql).await.rows {
        let sample = Sample { time_us: number(&row[1]), busy_us: number(&row[2]), padding_us: number(&row[3]) };
        let instance = row[0].as_str().expect("an instance").to_owned();
        replicas.entry(instance).or_default().insert(sample.time_us / 60_000_000, sample);
    }
    let closed = |minutes: BTreeMap<i64, Sample>| {
        let mut samples: Vec<Sample> = minutes.into_values().collect();
        samples.pop();
        samples
    };
    replicas.into_iter().map(|(instance, minutes)| (instance, closed(minutes))).collect()
}

async fn window(server: &Server, instance: &str, from: Sample, to: Sample) {
    let sql = format!(
        "SELECT coalesce(sum(device_us), 0) FROM tokens WHERE instance = '{instance}' \
         AND arrow_cast(time, 'Int64') > {} AND arrow_cast(time, 'Int64') <= {}",
        from.time_us, to.time_us
    );
    let requests = server.numbers(&sql).await[0];
    assert_eq!(
        requests,
        to.busy_us - from.busy_us,
        "device time of tokens and of the engine differ: {instance} {from:?} {to:?}"
    );
    let idle = (to.time_us - from.time_us) - requests - (to.padding_us - from.padding_us);
    assert!(idle >= 0, "{instance} was given {} µs more than there were: {from:?} {to:?}", -idle);
}

/// After an orderly end no call lacks a token: what was recorded was sent, and what was sent was committed.
pub(super) async fn every_call_kept_its_tokens(server: &Server) {
    let sql = "SELECT count(*) FROM (SELECT r.trace_id, r.span_id, r.output_tokens AS said, coalesce(sum(t.count), 0) AS kept \
               FROM requests r LEFT JOIN tokens t ON t.trace_id = r.trace_id AND t.request_span_id = r.span_id \
               WHERE r.measured_at = 'server' AND r.status = 'ok' GROUP BY r.trace_id, r.span_id, r.output_tokens) \
               WHERE said <> kept";
    assert_eq!(server.numbers(sql).await, [0], "calls whose tokens are not all there");
}
