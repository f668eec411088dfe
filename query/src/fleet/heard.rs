//! Until when each region was heard of: a region that falls silent is in no figure of the last minute, and costs nothing that anybody sees.

use std::collections::BTreeMap;

use super::series::{Declared, Family, Labels, Measured, sample};

/// For how long a region is missed; after that it is taken for closed.
const MISSED_US: i64 = 24 * 3_600_000_000;
const LAG: Declared = Declared {
    name: "tokenwatt_region_data_lag_seconds",
    kind: "gauge",
    unit: "seconds",
    help: "Time since the end of the newest minute in which a call, a token or a sample of the region was heard of; for a day after it.",
};

/// Regions, and the end of the newest minute of each, microseconds since 1970-01-01 UTC.
#[derive(Debug, Default)]
pub(super) struct Heard(BTreeMap<String, i64>);

impl Heard {
    /// Takes what a minute that ended then has of regions.
    pub(super) fn take(&mut self, measured: &Measured, until_us: i64) {
        let buckets = measured.buckets.iter().map(|(family, labels, _)| (*family, labels));
        let others = measured.increments.iter().chain(&measured.gauges).map(|(family, labels, _)| (*family, labels));
        let totals = measured.totals.iter().map(|(family, labels, ..)| (*family, labels));
        let regions: Vec<_> =
            buckets.chain(others).chain(totals).filter_map(|(family, labels)| region(family, labels)).collect();
        regions.into_iter().for_each(|region| self.learn(region, until_us));
    }

    /// A region was heard of until then.
    pub(super) fn learn(&mut self, region: String, until_us: i64) {
        let known = self.0.entry(region).or_insert(until_us);
        *known = until_us.max(*known);
    }

    /// The lag of each region that was heard of within a day, as text.
    pub(super) fn render(&mut self, now_us: i64) -> String {
        self.0.retain(|_, until_us| now_us - *until_us < MISSED_US);
        let mut text = String::new();
        if !self.0.is_empty() {
            LAG.head(&mut text);
        }
        for (region, until_us) in &self.0 {
            let lag_s = now_us.saturating_sub(*until_us).max(0) as f64 / 1e6;
            sample(&mut text, LAG.name, "", &[("region", region.clone())], lag_s);
        }
        text
    }
}

/// The region of a figure that only telemetry makes: what a host costs may be known of a list or a bill alone.
fn region(family: Family, labels: &Labels) -> Option<String> {
    let is_heard = matches!(
        family,
        Family::Ttft
            | Family::Tpot
            | Family::OutputTokens
            | Family::Requests
            | Family::Utilization
            | Family::Power
            | Family::Energy
    );
    let known = labels.iter().find(|(name, value)| *name == "region" && !value.is_empty() && value != "__other__");
    known.filter(|_| is_heard).map(|(_, region)| region.clone())
}

#[cfg(test)]
mod tests {
    use super::{Family, Heard, Measured};

    const MINUTE: i64 = 60_000_000;

    /// A region without telemetry falls behind though a list says that its hosts cost something; after a day it is missed no longer.
    #[test]
    fn a_silent_region_falls_behind() {
        let mut heard = Heard::default();
        let minute = |regions: &[(&str, Family)]| {
            let gauge = |(region, family): &(&str, Family)| (*family, vec![("region", (*region).to_owned())], 1.0);
            Measured { gauges: regions.iter().map(gauge).collect(), ..Measured::default() }
        };
        heard.take(&minute(&[("a", Family::Power), ("b", Family::Utilization)]), MINUTE);
        heard.take(&minute(&[("a", Family::Power), ("b", Family::CostPerHour), ("", Family::Power)]), 11 * MINUTE);
        heard.learn("b".to_owned(), 0);
        let lag = |region: &str, seconds: i64| {
            format!("tokenwatt_region_data_lag_seconds{{region=\"{region}\"}} {seconds}\n")
        };
        assert!(heard.render(12 * MINUTE).ends_with(&(lag("a", 60) + &lag("b", 660))));
        assert!(heard.render(24 * 60 * MINUTE + MINUTE).ends_with(&lag("a", 85_800)));
        assert_eq!(heard.render(3 * 24 * 60 * MINUTE), "");
    }
}
