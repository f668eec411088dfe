//! Counters that only grow, gauges of the last closed minute, and their OpenMetrics text.

use std::{collections::BTreeMap, fmt::Write};

use service::metrics::Exemplars;

/// Upper bounds of the latency buckets in seconds. They hold 1.0, below which the first token should arrive.
pub(super) const TTFT_BOUNDS: [f64; 14] = [0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0];
/// Upper bounds of the buckets for time per output token in seconds.
pub(super) const TPOT_BOUNDS: [f64; 12] = [0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 1.0, 2.5];

/// A family of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    Ttft,
    Tpot,
    OutputTokens,
    Requests,
    Utilization,
    Power,
    Energy,
    TokensPerJoule,
    Cost,
    CostPerHour,
    CostPerMillion,
    UnpricedHosts,
    LateOutputTokens,
    CostAdjustment,
    SloCalls,
    SloGood,
    SloObjective,
}

/// Label names with their values, in the order in which they are printed.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A histogram's counts: one per bound, cumulative, then the count of all and their sum.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Buckets {
    pub(super) at_most: Vec<f64>,
    pub(super) count: f64,
    pub(super) sum: f64,
    /// The slowest call of the last minute that had one: its trace and how long it took.
    pub(super) slowest: Option<(String, f64)>,
}

/// Minutes for which late rows are still looked for.
pub(super) const LATE_MINUTES: i64 = 2;

/// What one closed minute held.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) buckets: Vec<(Family, Labels, Buckets)>,
    pub(super) increments: Vec<(Family, Labels, f64)>,
    pub(super) gauges: Vec<(Family, Labels, f64)>,
    /// Totals of this minute and of those before it as they are known now, by minutes since 1970-01-01 UTC.
    pub(super) totals: Vec<(Family, Labels, i64, f64)>,
}

/// All series of the fleet.
#[derive(Debug, Default)]
pub(super) struct Series {
    buckets: BTreeMap<(Family, Labels), Buckets>,
    counters: BTreeMap<(Family, Labels), f64>,
    gauges: BTreeMap<(Family, Labels), f64>,
    /// What was counted of each total, so that a later figure is told from the first.
    counted: BTreeMap<(i64, Family, Labels), f64>,
    adjustments: BTreeMap<Labels, f64>,
}

/// What is said of a family before its samples.
pub(super) struct Declared {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) unit: &'static str,
    pub(super) help: &'static str,
}

const FAMILIES: [Family; 17] = [
    Family::Ttft,
    Family::Tpot,
    Family::OutputTokens,
    Family::Requests,
    Family::Utilization,
    Family::Power,
    Family::Energy,
    Family::TokensPerJoule,
    Family::Cost,
    Family::CostPerHour,
    Family::CostPerMillion,
    Family::UnpricedHosts,
    Family::LateOutputTokens,
    Family::CostAdjustment,
    Family::SloCalls,
    Family::SloGood,
    Family::SloObjective,
];

impl Series {
    /// Adds a minute: counters grow by it, gauges become it. What closed minutes turn out to have held beyond what was
    /// counted goes to series of its own.
    pub(super) fn add(&mut self, now: i64, minute: Measured) {
        for (family, labels, buckets) in minute.buckets {
            let total = self.buckets.entry((family, labels)).or_default();
            total.at_most.resize(buckets.at_most.len(), 0.0);
            total.at_most.iter_mut().zip(&buckets.at_most).for_each(|(total, more)| *total += more);
            total.count += buckets.count;
            total.sum += buckets.sum;
            total.slowest = buckets.slowest;
        }
        for (family, labels, increment) in minute.increments {
            // A negative increment would make the counter fall, and every rate after it explode.
            *self.counters.entry((family, labels)).or_default() += increment.max(0.0);
        }
        self.gauges = minute.gauges.into_iter().map(|(family, labels, value)| ((family, labels), value)).collect();
        for (family, labels, at, total) in minute.totals {
            self.total(family, labels, (at, now), total);
        }
        self.counted.retain(|(at, ..), _| now - at <= LATE_MINUTES);
        let adjustments = self.adjustments.iter().map(|(labels, usd)| ((Family::CostAdjustment, labels.clone()), *usd));
        self.gauges.extend(adjustments);
    }

    fn total(&mut self, family: Family, labels: Labels, (at, now): (i64, i64), total: f64) {
        let counted = self.counted.insert((at, family, labels.clone()), total);
        if at == now {
            *self.counters.entry((family, labels)).or_default() += total.max(0.0);
            return;
        }
        // a minute that ended before this process began to count is nobody's correction
        let first = self.counted.keys().map(|(at, ..)| *at).min().unwrap_or(now);
        let Some(more) = counted.or((first < at).then_some(0.0)).map(|counted| total - counted) else { return };
        match family {
            Family::Cost => *self.adjustments.entry(labels).or_default() += more,
            _ => *self.counters.entry((Family::LateOutputTokens, labels)).or_default() += more.max(0.0),
        }
    }

    /// The text without `# EOF`.
    pub(super) fn render(&self, lag_s: Option<f64>, exemplars: Exemplars) -> String {
        let mut text = String::new();
        for family in FAMILIES {
            self.family(&mut text, family, exemplars);
        }
        if let Some(lag_s) = lag_s {
            let declared = Declared {
                name: "tokenwatt_data_lag_seconds",
                kind: "gauge",
                unit: "seconds",
                help: "Time since the newest event that is visible to queries.",
            };
            declared.head(&mut text);
            sample(&mut text, declared.name, "", &[], lag_s);
        }
        text
    }

    fn family(&self, text: &mut String, family: Family, exemplars: Exemplars) {
        let declared = family.declared();
        let of = |key: &(Family, Labels)| key.0 == family;
        if !self.buckets.keys().chain(self.counters.keys()).chain(self.gauges.keys()).any(of) {
            return;
        }
        declared.head(text);
        for ((_, labels), buckets) in self.buckets.iter().filter(|(key, _)| of(key)) {
            let slowest = buckets.slowest.as_ref().filter(|_| exemplars == Exemplars::Shown);
            histogram(text, declared.name, labels, (buckets, family.bounds()), slowest);
        }
        for ((_, labels), value) in self.counters.iter().filter(|(key, _)| of(key)) {
            sample(text, declared.name, "_total", labels, *value);
        }
        for ((_, labels), value) in self.gauges.iter().filter(|(key, _)| of(key)) {
            sample(text, declared.name, "", labels, *value);
        }
    }
}

impl Family {
    fn bounds(self) -> &'static [f64] {
        match self {
            Family::Ttft => &TTFT_BOUNDS,
            Family::Tpot => &TPOT_BOUNDS,
            _ => &[],
        }
    }

    fn declared(self) -> Declared {
        let (name, kind, unit) = match self {
            Family::Ttft => ("tokenwatt_ttft_seconds", "histogram", "seconds"),
            Family::Tpot => ("tokenwatt_time_per_output_token_seconds", "histogram", "seconds"),
            Family::OutputTokens => ("tokenwatt_output_tokens", "counter", ""),
            Family::Requests => ("tokenwatt_requests", "counter", ""),
            Family::Utilization => ("tokenwatt_device_utilization_ratio", "gauge", "ratio"),
            Family::Power => ("tokenwatt_power_watts", "gauge", "watts"),
            Family::Energy => ("tokenwatt_energy_joules", "counter", "joules"),
            Family::TokensPerJoule => ("tokenwatt_tokens_per_joule", "gauge", ""),
            Family::Cost => ("tokenwatt_cost_usd", "counter", "usd"),
            Family::CostPerHour => ("tokenwatt_cost_usd_per_hour", "gauge", ""),
            Family::CostPerMillion => ("tokenwatt_cost_usd_per_million_output_tokens", "gauge", ""),
            Family::LateOutputTokens => ("tokenwatt_late_output_tokens", "counter", ""),
            Family::CostAdjustment => ("tokenwatt_cost_usd_adjustment", "gauge", ""),
            Family::UnpricedHosts => ("tokenwatt_unpriced_hosts", "gauge", ""),
            Family::SloCalls => ("tokenwatt_slo_calls", "counter", ""),
            Family::SloGood => ("tokenwatt_slo_good_calls", "counter", ""),
            Family::SloObjective => ("tokenwatt_slo_objective_ratio", "gauge", "ratio"),
        };
        Declared { name, kind, unit, help: self.help() }
    }

    fn help(self) -> &'static str {
        match self {
            Family::Ttft => "Time to first token of calls that ended, by where it was measured.",
            Family::Tpot => "(e2e - TTFT) / (output tokens - 1) of calls that ended.",
            Family::OutputTokens => "Tokens that left the engines.",
            Family::Requests => "Calls that ended, by where they were measured; sum over one measured_at.",
            Family::Utilization => "Mean utilization in the last closed minute, by kind; kinds are never one number.",
            Family::Power => "Mean power in the last closed minute, by what it covers and how far it can be trusted.",
            Family::Energy => "Energy, by what it covers and how far it can be trusted.",
            Family::TokensPerJoule => "Output tokens per joule of the same hosts in the last closed minute.",
            Family::Cost => "Cost at list price of hosts seen; hosts without a price are not in it.",
            Family::CostPerHour => "List price per hour of the hosts seen in the last closed minute.",
            Family::CostPerMillion => {
                "Cost per million output tokens in the last closed minute, idle and padding included."
            }
            Family::LateOutputTokens => "Tokens that became visible after their minute was counted.",
            Family::CostAdjustment => "Corrections of minutes whose cost was counted before it was complete.",
            Family::SloCalls => {
                "Calls that ended and count for an objective; those of more than a quarter of an hour do not."
            }
            Family::SloGood => "Those of them that were good.",
            Family::SloObjective => "Share of calls that must be good.",
            Family::UnpricedHosts => "Hosts without a price in the last closed minute; their cost is unknown, not 0.",
        }
    }
}

impl Declared {
    pub(super) fn head(&self, text: &mut String) {
        let Declared { name, kind, unit, help } = self;
        let _ = writeln!(text, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(text, "# HELP {name} {help}");
    }
}

fn histogram(
    text: &mut String,
    name: &str,
    labels: &Labels,
    (buckets, bounds): (&Buckets, &[f64]),
    mut slowest: Option<&(String, f64)>,
) {
    let all = std::iter::once((f64::INFINITY, buckets.count));
    for (bound, count) in bounds.iter().copied().zip(buckets.at_most.iter().copied()).chain(all) {
        let mut labels = labels.clone();
        labels.push(("le", if bound.is_finite() { format!("{bound:?}") } else { "+Inf".to_owned() }));
        sample(text, name, "_bucket", &labels, count);
        if let Some((trace, seconds)) = slowest.take_if(|(_, seconds)| *seconds <= bound) {
            text.pop();
            let _ = writeln!(text, " # {{trace_id=\"{}\"}} {seconds}", escaped(trace));
        }
    }
    sample(text, name, "_count", labels, buckets.count);
    sample(text, name, "_sum", labels, buckets.sum);
}

pub(super) fn sample(text: &mut String, name: &str, suffix: &str, labels: &[(&'static str, String)], value: f64) {
    text.push_str(name);
    text.push_str(suffix);
    if !labels.is_empty() {
        let pairs: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let _ = write!(text, "{{{}}}", pairs.join(","));
    }
    let _ = writeln!(text, " {value}");
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::{Buckets, Exemplars, Family, Measured, Series, TTFT_BOUNDS};

    fn eu() -> Vec<(&'static str, String)> {
        vec![("region", "eu-west-1".to_owned())]
    }

    #[test]
    fn one_second_is_a_bucket() {
        assert!(TTFT_BOUNDS.contains(&1.0) && TTFT_BOUNDS.is_sorted());
    }

    #[test]
    fn counters_add_and_gauges_become() {
        let mut series = Series::default();
        let mut at_most = vec![0.0; TTFT_BOUNDS.len()];
        at_most[8] = 2.0;
        for (minute, watts) in [(7, 900.0), (8, 800.0)] {
            series.add(
                minute,
                Measured {
                    totals: vec![],
                    buckets: vec![(
                        Family::Ttft,
                        eu(),
                        Buckets {
                            at_most: at_most.clone(),
                            count: 3.0,
                            sum: 4.5,
                            slowest: Some(("abc".to_owned(), 2.0)),
                        },
                    )],
                    increments: vec![(Family::OutputTokens, eu(), 10.0), (Family::Energy, eu(), -1.0)],
                    gauges: vec![(Family::Power, eu(), watts)],
                },
            );
        }
        let text = series.render(None, Exemplars::Shown);
        for line in [
            r#"tokenwatt_ttft_seconds_bucket{region="eu-west-1",le="1.0"} 4"#,
            r#"tokenwatt_ttft_seconds_bucket{region="eu-west-1",le="+Inf"} 6"#,
            r##"tokenwatt_ttft_seconds_bucket{region="eu-west-1",le="2.5"} 0 # {trace_id="abc"} 2"##,
            r#"tokenwatt_ttft_seconds_sum{region="eu-west-1"} 9"#,
            r#"tokenwatt_output_tokens_total{region="eu-west-1"} 20"#,
            r#"tokenwatt_energy_joules_total{region="eu-west-1"} 0"#,
            r#"tokenwatt_power_watts{region="eu-west-1"} 800"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn corrections_of_closed_minutes_stand_apart() {
        let mut series = Series::default();
        let minute = |totals| Measured { totals, ..Measured::default() };
        series.add(
            7,
            minute(vec![
                (Family::OutputTokens, eu(), 6, 99.0),
                (Family::OutputTokens, eu(), 7, 10.0),
                (Family::Cost, eu(), 7, 1.0),
            ]),
        );
        series.add(
            8,
            minute(vec![
                (Family::OutputTokens, eu(), 7, 13.0),
                (Family::OutputTokens, eu(), 8, 10.0),
                (Family::Cost, eu(), 7, 0.75),
            ]),
        );
        let text = series.render(None, Exemplars::Left);
        for line in [
            r#"tokenwatt_output_tokens_total{region="eu-west-1"} 20"#,
            r#"tokenwatt_late_output_tokens_total{region="eu-west-1"} 3"#,
            r#"tokenwatt_cost_usd_total{region="eu-west-1"} 1"#,
            r#"tokenwatt_cost_usd_adjustment{region="eu-west-1"} -0.25"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn no_data_is_absent() {
        assert_eq!(Series::default().render(None, Exemplars::Left), "");
        assert!(Series::default().render(Some(1.5), Exemplars::Left).contains("tokenwatt_data_lag_seconds 1.5"));
    }
}
