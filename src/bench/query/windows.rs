//! A day of roll-ups of the whole fleet, an hour a file, in the tables' order.

use arrow::array::RecordBatch;
use service::error::Result;
use telemetry::table::{COSTS_1H, DEVICES_1M, HOSTS_1M, REQUESTS_1M, TOKENS_1M, Table, USAGE_1H};

use super::fleet::{DAY_US, Fleet, HOUR_US, Host, MINUTE_US, MODELS, VERSIONS};
use super::rows::{Columns, Draws};

/// Scale of the histograms: base 2^(1/32).
const SCALE: f64 = 5.0;
/// Rows of a batch, about.
const BATCH_ROWS: usize = 16 * 1024;
/// Observations up to which each is drawn; more are spread as they would lie.
const DRAWN_MAX: i64 = 32;
/// Minutes in an hour.
const MINUTES: i64 = 60;

/// The roll-up tables, smallest windows first.
pub(super) const TABLES: [&Table; 6] = [&REQUESTS_1M, &TOKENS_1M, &HOSTS_1M, &DEVICES_1M, &USAGE_1H, &COSTS_1H];

/// The batches of one table's file of one hour of the day.
///
/// # Errors
/// None that a reader could mend.
pub(super) fn batches(table: &Table, fleet: &Fleet, hour: i64) -> Result<Vec<RecordBatch>> {
    let from_us = DAY_US + hour * HOUR_US;
    match table.name {
        "requests_1m" => requests(fleet, from_us),
        "tokens_1m" => tokens(fleet, from_us),
        "hosts_1m" => each_host(fleet, from_us, hosts),
        "devices_1m" => each_host(fleet, from_us, devices),
        "usage_1h" => usage(fleet, from_us),
        _ => costs(fleet, from_us),
    }
}

/// How busy the fleet is at a time of the day, 0 to 1.
fn load(at_us: i64) -> f64 {
    let day = (at_us - DAY_US) as f64 / (24.0 * HOUR_US as f64);
    0.65 - 0.3 * (day * std::f64::consts::TAU).cos()
}

/// Key of a window: what served it.
struct Served {
    region: &'static str,
    cluster: &'static str,
    model: &'static str,
    gap_s: f64,
    host_type: &'static str,
    version: &'static str,
    /// Where measured and how it ended, or the stall.
    kind: (&'static str, &'static str),
    at_us: i64,
    /// Calls or tokens.
    count: i64,
}

/// Every key for every minute of the hour, in the order region, model, time.
fn served(fleet: &Fleet, from_us: i64, kinds: &[(&'static str, &'static str, f64)], per_host: f64) -> Vec<Served> {
    let mut regions: Vec<_> = fleet.hosts.iter().map(|host| (host.region, host.cluster)).collect();
    regions.sort_unstable();
    regions.dedup();
    let mut rows = Vec::new();
    for (region, cluster) in regions {
        for (model, gap_s) in MODELS {
            let count = |host_type: &str, version: &str| {
                let same = |host: &&Host| {
                    (host.region, host.model, host.host_type, host.version) == (region, model, host_type, version)
                };
                fleet.hosts.iter().filter(same).count() as f64
            };
            let pools =
                ["inf2.48xlarge", "trn1.32xlarge"].into_iter().flat_map(|kind| VERSIONS.map(|version| (kind, version)));
            let pools: Vec<_> = pools.map(|(kind, version)| (kind, version, count(kind, version))).collect();
            for minute in 0..MINUTES {
                let at_us = from_us + minute * MINUTE_US;
                for (host_type, version, hosts) in &pools {
                    for (first, second, share) in kinds {
                        let count = (hosts * per_host * share * load(at_us)) as i64 + 1;
                        let kind = (*first, *second);
                        rows.push(Served { region, cluster, model, gap_s, host_type, version, kind, at_us, count });
                    }
                }
            }
        }
    }
    rows
}

fn served_columns(rows: &[Served]) -> Columns {
    Columns::default()
        .time("time", rows.iter().map(|row| row.at_us))
        .text("region", rows.iter().map(|row| row.region))
        .text("environment", rows.iter().map(|_| "production"))
        .text("cluster", rows.iter().map(|row| row.cluster))
        .text("pool", rows.iter().map(|row| row.host_type))
        .text("model", rows.iter().map(|row| row.model))
        .text("engine", rows.iter().map(|_| "vllm"))
        .text("host_type", rows.iter().map(|row| row.host_type))
        .text("service_version", rows.iter().map(|row| row.version))
}

fn requests(fleet: &Fleet, from_us: i64) -> Result<Vec<RecordBatch>> {
    let kinds =
        [("gateway", "error", 0.001), ("gateway", "ok", 0.25), ("server", "error", 0.004), ("server", "ok", 0.996)];
    let rows = served(fleet, from_us, &kinds, 5.5);
    let chunks = rows.chunks(BATCH_ROWS).map(|rows| {
        let columns = served_columns(rows)
            .text("measured_at", rows.iter().map(|row| row.kind.0))
            .text("status", rows.iter().map(|row| row.kind.1))
            .int("requests", rows.iter().map(|row| row.count))
            .text("slo_set", rows.iter().map(|_| "default"))
            .int("good", rows.iter().map(|row| if row.kind.1 == "ok" { row.count - row.count / 200 } else { 0 }));
        let columns = work(columns, || rows.iter().map(|row| (row.count, row.gap_s)));
        let columns = distribution(columns, "ttft", rows.iter().map(|row| (row.count, 0.05 + 3.0 * row.gap_s)));
        let columns = distribution(columns, "tpot", rows.iter().map(|row| (row.count, row.gap_s)));
        let columns = distribution(columns, "e2e", rows.iter().map(|row| (row.count, 100.0 * row.gap_s)));
        distribution(columns, "queue", rows.iter().map(|row| (row.count, 0.004))).batch()
    });
    chunks.collect()
}

fn tokens(fleet: &Fleet, from_us: i64) -> Result<Vec<RecordBatch>> {
    let kinds = [("decode", "ok", 0.98), ("preempted", "ok", 0.0005), ("prefill", "ok", 0.006)];
    let rows = served(fleet, from_us, &kinds, 550.0);
    let chunks = rows.chunks(BATCH_ROWS).map(|rows| {
        let columns = served_columns(rows)
            .text("measured_at", rows.iter().map(|_| "server"))
            .text("status", rows.iter().map(|row| row.kind.1))
            .text("stall", rows.iter().map(|row| row.kind.0))
            .int("tokens", rows.iter().map(|row| row.count))
            .int("device_us", rows.iter().map(|row| (row.count as f64 * row.gap_s * 3e4) as i64));
        let slower = |kind: &str| if kind == "decode" { 1.0 } else { 6.0 };
        distribution(columns, "gap", rows.iter().map(|row| (row.count, row.gap_s * slower(row.kind.0)))).batch()
    });
    chunks.collect()
}

/// Makes a batch of hosts and minutes, of which the common columns are there.
type HostRows = fn(&[(&Host, i64)], Columns) -> Result<RecordBatch>;

/// Rows of every host and minute of the hour, a few hosts a batch.
fn each_host(fleet: &Fleet, from_us: i64, batch: HostRows) -> Result<Vec<RecordBatch>> {
    let chunks = fleet.hosts.chunks(BATCH_ROWS / MINUTES as usize).map(|hosts| {
        let windows =
            hosts.iter().flat_map(|host| (0..MINUTES).map(move |minute| (host, from_us + minute * MINUTE_US)));
        let windows: Vec<_> = windows.collect();
        let columns = host_columns(&windows);
        batch(&windows, columns)
    });
    chunks.collect()
}

fn host_columns(windows: &[(&Host, i64)]) -> Columns {
    Columns::default()
        .time("time", windows.iter().map(|(_, at_us)| *at_us))
        .text("region", windows.iter().map(|(host, _)| host.region))
        .text("environment", windows.iter().map(|_| "production"))
        .text("cluster", windows.iter().map(|(host, _)| host.cluster))
        .text("pool", windows.iter().map(|(host, _)| host.host_type))
        .text("host_id", windows.iter().map(|(host, _)| host.id.as_str()))
        .text("host_type", windows.iter().map(|(host, _)| host.host_type))
}

/// How busy a host is in a minute, 0 to 1, the same whoever asks.
fn busy(host: &Host, at_us: i64) -> f64 {
    let mut draws = Draws::of(4, at_us as u64);
    let salt = host.id.bytes().fold(0_u64, |salt, byte| salt.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let own = Draws::of(salt, draws.bits()).share();
    (load(at_us) + 0.2 * own - 0.1).clamp(0.0, 1.0)
}

/// Calls of a host in a minute.
fn calls(host: &Host, at_us: i64) -> i64 {
    (busy(host, at_us) * 9.0) as i64
}

fn hosts(windows: &[(&Host, i64)], columns: Columns) -> Result<RecordBatch> {
    let counts: Vec<_> = windows.iter().map(|(host, at_us)| calls(host, *at_us)).collect();
    let columns = columns
        .text("model", windows.iter().map(|(host, _)| host.model))
        .int("requests", counts.iter().copied())
        .int("tokens", counts.iter().map(|count| count * 100));
    let columns = work(columns, || counts.iter().zip(windows).map(|(count, (host, _))| (*count, host.gap_s)));
    let columns = columns
        .int("padding_us", windows.iter().map(|(host, at_us)| (busy(host, *at_us) * 4e6) as i64))
        .int("idle_us", windows.iter().map(|(host, at_us)| ((1.0 - busy(host, *at_us)) * 5.6e7) as i64))
        .int("wall_us", windows.iter().map(|_| MINUTE_US));
    let ttft = counts.iter().zip(windows).map(|(count, (host, _))| (*count, 0.05 + 3.0 * host.gap_s));
    distribution(columns, "ttft", ttft).batch()
}

fn devices(windows: &[(&Host, i64)], columns: Columns) -> Result<RecordBatch> {
    let shares: Vec<_> = windows.iter().map(|(host, at_us)| busy(host, *at_us)).collect();
    // An accelerator draws 45 W idle and 160 W busy.
    let watts = |share: f64, host: &Host| host.chips as f64 * (45.0 + 115.0 * share);
    let power: Vec<_> = shares.iter().zip(windows).map(|(share, (host, _))| watts(*share, host)).collect();
    columns
        .text("kind", windows.iter().map(|_| "accelerator"))
        .int("devices", windows.iter().map(|(host, _)| host.chips))
        .int("samples", windows.iter().map(|(host, _)| host.chips * 6))
        .double("utilization", shares.iter().copied())
        .text("utilization_kind", windows.iter().map(|_| "executing"))
        .double("power_w", power.iter().copied())
        .double("energy_j", power.iter().map(|watts| watts * 60.0))
        .text("boundary", windows.iter().map(|_| "chip"))
        .text("energy_method", windows.iter().map(|_| "energy_counter"))
        .double("coverage", windows.iter().map(|_| 1.0))
        .double("gap_s", windows.iter().map(|_| 10.0))
        .double("running", shares.iter().map(|share| share * 48.0))
        .double("waiting", shares.iter().map(|share| (share - 0.8).max(0.0) * 20.0))
        .double("kv_usage", shares.iter().map(|share| share * 0.9))
        .batch()
}

fn usage(fleet: &Fleet, from_us: i64) -> Result<Vec<RecordBatch>> {
    // Any minute of the hour gives every key once.
    let keys = served(fleet, from_us, &[("server", "ok", 1.0)], 330.0);
    let keys: Vec<_> = keys.iter().filter(|key| key.at_us == from_us).collect();
    let rows: Vec<_> = fleet
        .tenants
        .iter()
        .enumerate()
        .flat_map(|(rank, tenant)| keys.iter().map(move |key| (tenant.as_str(), *key, key.count / (rank as i64 + 3))))
        .collect();
    let keys = || rows.iter().map(|(_, key, _)| *key);
    let columns = Columns::default()
        .time("time", keys().map(|key| key.at_us))
        .text("region", keys().map(|key| key.region))
        .text("environment", keys().map(|_| "production"))
        .text("cluster", keys().map(|key| key.cluster))
        .text("pool", keys().map(|key| key.host_type))
        .text("model", keys().map(|key| key.model))
        .text("engine", keys().map(|_| "vllm"))
        .text("host_type", keys().map(|key| key.host_type))
        .text("service_version", keys().map(|key| key.version))
        .text("measured_at", keys().map(|_| "server"))
        .text("status", keys().map(|_| "ok"))
        .text("tenant", rows.iter().map(|(tenant, ..)| *tenant))
        .text("namespace", rows.iter().map(|_| "inference"))
        .int("requests", rows.iter().map(|(.., count)| *count))
        .int("good", rows.iter().map(|(.., count)| count - count / 200));
    Ok(vec![work(columns, || rows.iter().map(|(_, key, count)| (*count, key.gap_s))).batch()?])
}

/// Callers that share a host in an hour.
const TENANTS_PER_HOST: usize = 8;

fn costs(fleet: &Fleet, from_us: i64) -> Result<Vec<RecordBatch>> {
    let mut rows = Vec::new();
    for (number, host) in fleet.hosts.iter().enumerate() {
        // Picodollars: an hour of the instance, in parts by use.
        let hour = if host.chips == 16 { 21_500_000_000_000 } else { 12_980_000_000_000_i128 };
        let part = hour / (TENANTS_PER_HOST as i128 + 2);
        rows.push(("", host, "idle", part));
        rows.push(("", host, "padding", part));
        for place in 0..TENANTS_PER_HOST {
            let tenant = &fleet.tenants[(number * 7 + place * 13) % fleet.tenants.len()];
            rows.push((tenant.as_str(), host, "requests", part));
        }
    }
    rows.sort_by_key(|row| (row.0.is_empty(), row.0, row.1.region));
    let chunks = rows.chunks(BATCH_ROWS).map(|rows| {
        let hosts: Vec<_> = rows.iter().map(|row| (row.1, from_us)).collect();
        host_columns(&hosts)
            .text_known("tenant", rows.iter().map(|row| (!row.0.is_empty()).then_some(row.0)))
            .text("namespace", rows.iter().map(|_| "inference"))
            .text("model", rows.iter().map(|row| row.1.model))
            .text("part", rows.iter().map(|row| row.2))
            .text("currency", rows.iter().map(|_| "USD"))
            .money("list_cost", rows.iter().map(|row| row.3))?
            .money("effective_cost", rows.iter().map(|row| row.3 * 7 / 10))?
            .double("energy_j", rows.iter().map(|row| row.1.chips as f64 * 36_000.0))
            .int("device_us", rows.iter().map(|_| 300_000_000))
            .int("tokens", rows.iter().map(|row| if row.2 == "requests" { 4_000 } else { 0 }))
            .text("basis", rows.iter().map(|_| "allocation"))
            .text("method", rows.iter().map(|_| "device time"))
            .text("confidence", rows.iter().map(|_| "published"))
            .batch()
    });
    chunks.collect()
}

/// Tokens and device time of so many calls on hosts with such a gap between tokens.
fn work<I: Iterator<Item = (i64, f64)>>(columns: Columns, calls: impl Fn() -> I) -> Columns {
    columns
        .int("input_tokens", calls().map(|(count, _)| count * 600))
        .int("cached_input_tokens", calls().map(|(count, _)| count * 200))
        .int("output_tokens", calls().map(|(count, _)| count * 100))
        .int("device_us_prefill", calls().map(|(count, gap_s)| (count as f64 * gap_s * 3e5) as i64))
        .int("device_us_decode", calls().map(|(count, gap_s)| (count as f64 * gap_s * 3e6) as i64))
}

/// A histogram per row: so many observations around a median.
fn distribution(columns: Columns, name: &str, rows: impl Iterator<Item = (i64, f64)>) -> Columns {
    let made: Vec<_> = rows.enumerate().map(|(row, (count, median))| histogram(row as u64, count, median)).collect();
    let column = |part: &str| format!("{name}_{part}");
    let sum = |histogram: &Histogram| {
        histogram.indexes.iter().zip(&histogram.counts).map(|(index, count)| middle(*index) * *count as f64).sum()
    };
    columns
        .int(&column("scale"), made.iter().map(|_| SCALE as i64))
        .int(&column("zero"), made.iter().map(|_| 0))
        .ints(&column("idx"), made.iter().map(|made| made.indexes.as_slice()))
        .ints(&column("cnt"), made.iter().map(|made| made.counts.as_slice()))
        .int(&column("count"), made.iter().map(|made| made.counts.iter().sum()))
        .double(&column("sum"), made.iter().map(sum))
        .double(&column("min"), made.iter().map(|made| made.indexes.first().map_or(0.0, |index| middle(*index))))
        .double(&column("max"), made.iter().map(|made| made.indexes.last().map_or(0.0, |index| middle(*index))))
}

struct Histogram {
    indexes: Vec<i64>,
    counts: Vec<i64>,
}

/// The middle of a bucket on the scale of the histogram.
fn middle(index: i64) -> f64 {
    ((index as f64 + 0.5) / SCALE.exp2()).exp2()
}

fn histogram(row: u64, count: i64, median: f64) -> Histogram {
    let mut draws = Draws::of(5, row);
    let centre = (draws.around(median, 0.1).log2() * SCALE.exp2()) as i64;
    let mut buckets = std::collections::BTreeMap::<i64, i64>::new();
    if count <= DRAWN_MAX {
        for _ in 0..count {
            *buckets.entry(centre + (draws.normal() * 14.0) as i64).or_default() += 1;
        }
    } else {
        for offset in -40..=40_i64 {
            let weight = (-0.5 * (offset as f64 / 14.0).powi(2)).exp() / 35.0;
            let there = (count as f64 * weight) as i64;
            if there > 0 {
                buckets.insert(centre + offset, there);
            }
        }
    }
    let (indexes, counts) = buckets.into_iter().unzip();
    Histogram { indexes, counts }
}
