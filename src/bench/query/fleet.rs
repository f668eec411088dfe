//! A fleet of 80,000 chips on a day of many calls.

use super::rows::Draws;

/// Start of the day, 2026-07-08, microseconds since 1970-01-01 UTC.
pub(super) const DAY_US: i64 = 1_783_468_800_000_000;
/// The day as it names a partition.
pub(super) const DATE: &str = "2026-07-08";
/// Hours of the day.
pub(super) const DAY_HOURS: i64 = 24;
/// Microseconds in a minute.
pub(super) const MINUTE_US: i64 = 60_000_000;
/// Microseconds in an hour.
pub(super) const HOUR_US: i64 = 60 * MINUTE_US;
/// The hour of the day whose single calls and tokens are there: that from noon.
pub(super) const NOON_HOUR: i64 = 12;
/// Its start.
pub(super) const NOON_US: i64 = DAY_US + NOON_HOUR * HOUR_US;

/// Where: the region, its zone and cluster, and the share of hosts there of 256.
const REGIONS: [(&str, &str, &str, u64); 3] = [
    ("us-east-1", "us-east-1a", "prime-use1", 128),
    ("eu-west-1", "eu-west-1b", "prime-euw1", 80),
    ("ap-northeast-1", "ap-northeast-1c", "prime-apne1", 48),
];
/// What: the model and the median time between two of its tokens, seconds.
pub(super) const MODELS: [(&str, f64); 4] =
    [("llama-3-70b", 0.034), ("llama-3-8b", 0.011), ("mixtral-8x7b", 0.021), ("qwen-2-7b", 0.012)];
/// On what: the instance type, its accelerator, chips and how many hosts of it: 24,000 and 56,000 chips.
const TYPES: [(&str, &str, i64, usize); 2] =
    [("inf2.48xlarge", "inferentia2", 12, 2_000), ("trn1.32xlarge", "trainium1", 16, 3_500)];
/// Releases of the engine that are rolled out.
pub(super) const VERSIONS: [&str; 2] = ["0.9.1", "0.9.2"];
/// Callers.
pub(super) const TENANTS: usize = 200;

/// One host.
pub(super) struct Host {
    pub(super) id: String,
    pub(super) instance: String,
    pub(super) region: &'static str,
    pub(super) zone: &'static str,
    pub(super) cluster: &'static str,
    pub(super) model: &'static str,
    /// Median time between two tokens, seconds.
    pub(super) gap_s: f64,
    pub(super) host_type: &'static str,
    pub(super) accelerator: &'static str,
    pub(super) chips: i64,
    pub(super) version: &'static str,
}

/// All hosts, by id, and the callers.
pub(super) struct Fleet {
    pub(super) hosts: Vec<Host>,
    pub(super) tenants: Vec<String>,
}

impl Fleet {
    /// The same each time; at scale 1 it has 80,000 chips.
    pub(super) fn new(scale: f64) -> Fleet {
        let count = |hosts: usize| ((hosts as f64 * scale) as usize).max(1);
        let kinds = TYPES.iter().flat_map(|kind| std::iter::repeat_n(kind, count(kind.3)));
        let mut hosts: Vec<_> = kinds.enumerate().map(|(number, kind)| host(number as u64, kind)).collect();
        hosts.sort_by(|a, b| a.id.cmp(&b.id));
        Fleet { hosts, tenants: (0..TENANTS).map(|tenant| format!("team-{tenant:03}")).collect() }
    }
}

fn host(number: u64, kind: &(&'static str, &'static str, i64, usize)) -> Host {
    let mut draws = Draws::of(1, number);
    let mut place = draws.below(256);
    let mut region = REGIONS[0];
    for candidate in REGIONS {
        region = candidate;
        if place < candidate.3 {
            break;
        }
        place -= candidate.3;
    }
    let (model, gap_s) = MODELS[draws.below(MODELS.len() as u64) as usize];
    // One host in four has the new release.
    let version = VERSIONS[usize::from(draws.below(4) == 0)];
    let id = format!("i-{:016x}", draws.bits());
    Host {
        instance: format!("{id}/0"),
        id,
        region: region.0,
        zone: region.1,
        cluster: region.2,
        model,
        gap_s,
        host_type: kind.0,
        accelerator: kind.1,
        chips: kind.2,
        version,
    }
}
