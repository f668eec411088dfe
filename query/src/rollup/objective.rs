//! Service level objectives: as configured, as table `slos` dates them, and as the expressions that judge a call.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::views::View;

/// What a view that judges calls says where there are no objectives.
const NONE: &str = "CAST(NULL AS VARCHAR) AS slo_set, CAST(NULL AS VARCHAR) AS slo_met";
/// What can be measured of a call.
const INDICATORS: [&str; 6] = ["ttft_s", "tpot_s", "e2e_s", "queue_s", "itl_max_s", "availability"];
/// Where a call can be measured.
const PLACES: [&str; 3] = ["server", "gateway", "client"];
/// Objectives that may be configured: each adds two expressions to every query of raw calls.
const OBJECTIVES_MAX: usize = 32;
/// Longest name.
const NAME_MAX: usize = 48;
/// Days of the longest window: as long as roll-ups are kept.
const WINDOW_DAYS_MAX: u32 = 400;

/// One objective, under `[[slo]]` of `tokenwatt.toml`: a share of calls that must be good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// Id: lower case letters, digits, `-` and `_`.
    pub name: String,
    /// What is measured: `ttft_s`, `tpot_s`, `e2e_s`, `queue_s`, `itl_max_s` (seconds), or `availability`.
    pub indicator: String,
    /// Largest value of a good call, in seconds; none for `availability`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Share of calls that must be good, such as 0.99.
    pub objective: f64,
    /// Period over which it holds, in days. Default 30.
    #[serde(default = "month")]
    pub window_days: u32,
    /// Where calls are measured: `server` (default), `gateway` or `client`.
    #[serde(default = "server")]
    pub measured_at: String,
    /// Calls of this region alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Calls of this model alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Calls of this tenant alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

fn month() -> u32 {
    30
}

fn server() -> String {
    "server".to_owned()
}

/// An objective, and when it holds. Microseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Objective {
    pub(crate) slo: Slo,
    pub(crate) from_us: i64,
    /// `None` while it is open.
    pub(crate) to_us: Option<i64>,
}

/// Adds a line for everything that is wrong with the objectives.
pub fn validate(slos: &[Slo], faults: &mut Vec<String>) {
    if slos.len() > OBJECTIVES_MAX {
        faults.push(format!("there are {} [[slo]], more than {OBJECTIVES_MAX}", slos.len()));
    }
    let mut names = BTreeSet::new();
    for slo in slos {
        slo.validate(faults);
        if !names.insert(&slo.name) {
            faults.push(format!("slo `{}` is there twice", slo.name));
        }
    }
}

impl Slo {
    fn validate(&self, faults: &mut Vec<String>) {
        let name = &self.name;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(plain) {
            faults.push(format!("slo `{name}`: a name is 1 to {NAME_MAX} lower case letters, digits, - and _"));
        }
        if !INDICATORS.contains(&self.indicator.as_str()) {
            faults.push(format!("slo `{name}`: `indicator` is one of {}", INDICATORS.join(", ")));
        }
        match (self.indicator.as_str(), self.threshold) {
            ("availability", Some(_)) => faults.push(format!("slo `{name}`: availability has no `threshold`")),
            ("availability", None) => {}
            (_, Some(seconds)) if seconds.is_finite() && seconds > 0.0 => {}
            _ => faults.push(format!("slo `{name}` needs a `threshold` in seconds, above 0")),
        }
        if !(self.objective > 0.0 && self.objective < 1.0) {
            faults.push(format!("slo `{name}`: `objective` is a share between 0 and 1, such as 0.99"));
        }
        if !(1..=WINDOW_DAYS_MAX).contains(&self.window_days) {
            faults.push(format!("slo `{name}`: `window_days` must lie between 1 and {WINDOW_DAYS_MAX}"));
        }
        if !PLACES.contains(&self.measured_at.as_str()) {
            faults.push(format!("slo `{name}`: `measured_at` is one of {}", PLACES.join(", ")));
        }
    }
}

/// Rows of table `slos` as objectives: a row of a name ends where the next begins.
pub(crate) fn dated(mut rows: Vec<Objective>) -> Vec<Objective> {
    // Of two rows from one instant the one that ends comes last, and stands.
    rows.sort_by(|a, b| (&a.slo.name, a.from_us, a.to_us).cmp(&(&b.slo.name, b.from_us, b.to_us)));
    let mut dated: Vec<Objective> = Vec::new();
    for row in rows {
        if let Some(last) = dated.last_mut().filter(|last| last.slo.name == row.slo.name) {
            last.to_us = Some(last.to_us.map_or(row.from_us, |to| to.min(row.from_us)));
        }
        dated.push(row);
    }
    dated.retain(|objective| objective.to_us.is_none_or(|to| to > objective.from_us));
    dated
}

/// Whether the view judges calls by the objectives in force.
pub(crate) fn judges(view: &View) -> bool {
    view.sql.contains(NONE)
}

/// The view's query with these objectives.
pub(crate) fn judging(view: &View, objectives: &[Objective]) -> String {
    if objectives.is_empty() { view.sql.to_owned() } else { view.sql.replace(NONE, &columns(objectives)) }
}

/// The columns that judge a call: `slo_set`, the objectives that it counts for, and `slo_met`, those that it met.
///
/// A call counts for an objective that covers it if what is measured is known of it, or if it failed, which is never good.
fn columns(objectives: &[Objective]) -> String {
    let covered = objectives.iter().map(|objective| (objective, covers(objective)));
    let set: Vec<_> = covered.clone().map(|(objective, covers)| named(objective, &covers)).collect();
    let met: Vec<_> = covered
        .map(|(objective, covers)| named(objective, &format!("{covers} AND {}", is_good(&objective.slo))))
        .collect();
    let list = |names: Vec<String>| format!("nullif(concat_ws(',', {}), '')", names.join(", "));
    format!("{} AS slo_set, {} AS slo_met", list(set), list(met))
}

fn named(Objective { slo, .. }: &Objective, condition: &str) -> String {
    format!("CASE WHEN {condition} THEN '{}' END", slo.name)
}

fn covers(Objective { slo, from_us, to_us }: &Objective) -> String {
    let mut condition = format!("measured_at = {} AND CAST(time AS BIGINT) >= {from_us}", text(&slo.measured_at));
    if let Some(to_us) = to_us {
        let _ = write!(condition, " AND CAST(time AS BIGINT) < {to_us}");
    }
    for (column, value) in [("region", &slo.region), ("model", &slo.model), ("tenant", &slo.tenant)] {
        if let Some(value) = value {
            let _ = write!(condition, " AND {column} = {}", text(value));
        }
    }
    let known = match slo.threshold {
        Some(_) => format!("({} IS NOT NULL OR status = 'error')", slo.indicator),
        None => "status IN ('ok', 'error')".to_owned(),
    };
    format!("{condition} AND {known}")
}

fn is_good(slo: &Slo) -> String {
    let succeeded = "coalesce(status, '') <> 'error'";
    match slo.threshold {
        Some(threshold) => format!("{succeeded} AND {} <= {threshold:?}", slo.indicator),
        None => succeeded.to_owned(),
    }
}

/// A text as SQL writes it.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

#[cfg(test)]
mod tests;
