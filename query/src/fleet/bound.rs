//! How many series a family may have: a region or model that is a mistake must not fill a monitoring system.
//!
//! The first label sets that come keep their names for as long as the process runs. Of those beyond the bound, counters and histograms are
//! added up under `__other__`, so that sums stay whole, and gauges are left out, for two of them are no third.

use std::collections::{BTreeMap, BTreeSet};

use super::series::{Buckets, Family, Labels, Measured};

/// What a place is called that has no series of its own.
const OTHER: &str = "__other__";
/// Labels whose values come from telemetry.
const PLACES: [&str; 2] = ["region", "model"];

/// The label sets that have series.
#[derive(Debug)]
pub(super) struct Bound {
    series_max: usize,
    known: BTreeMap<Family, BTreeSet<Labels>>,
    /// Label sets beyond the bound, as many as are remembered.
    beyond: BTreeSet<Labels>,
}

impl Bound {
    /// At most `series_max` label sets of each family.
    pub(super) fn new(series_max: usize) -> Bound {
        Bound { series_max, known: BTreeMap::new(), beyond: BTreeSet::new() }
    }

    /// How many label sets are beyond the bound; no more than the bound are counted.
    pub(super) fn folded(&self) -> usize {
        self.beyond.len()
    }

    /// The same minute within the bound.
    pub(super) fn fold(&mut self, minute: Measured) -> Measured {
        let mut buckets: BTreeMap<(Family, Labels), Buckets> = BTreeMap::new();
        for (family, labels, more) in minute.buckets {
            add(buckets.entry((family, self.named(family, labels))).or_default(), more);
        }
        let mut increments: BTreeMap<(Family, Labels), f64> = BTreeMap::new();
        for (family, labels, more) in minute.increments {
            *increments.entry((family, self.named(family, labels))).or_default() += more.max(0.0);
        }
        let mut totals: BTreeMap<(Family, Labels, i64), f64> = BTreeMap::new();
        for (family, labels, minute, more) in minute.totals {
            *totals.entry((family, self.named(family, labels), minute)).or_default() += more;
        }
        let gauges = minute.gauges.into_iter().filter(|(family, labels, _)| self.admits(*family, labels));
        Measured {
            gauges: gauges.collect(),
            buckets: buckets.into_iter().map(|((family, labels), buckets)| (family, labels, buckets)).collect(),
            increments: increments.into_iter().map(|((family, labels), more)| (family, labels, more)).collect(),
            totals: totals.into_iter().map(|((family, labels, at), total)| (family, labels, at, total)).collect(),
        }
    }

    fn admits(&mut self, family: Family, labels: &Labels) -> bool {
        let known = self.known.entry(family).or_default();
        if known.contains(labels) || (known.len() < self.series_max && known.insert(labels.clone())) {
            return true;
        }
        if self.beyond.len() < self.series_max {
            self.beyond.insert(labels.clone());
        }
        false
    }

    fn named(&mut self, family: Family, mut labels: Labels) -> Labels {
        if !self.admits(family, &labels) {
            for (_, value) in labels.iter_mut().filter(|(name, _)| PLACES.contains(name)) {
                *value = OTHER.to_owned();
            }
        }
        labels
    }
}

fn add(sum: &mut Buckets, more: Buckets) {
    sum.at_most.resize(more.at_most.len(), 0.0);
    sum.at_most.iter_mut().zip(&more.at_most).for_each(|(sum, more)| *sum += more);
    sum.count += more.count;
    sum.sum += more.sum;
    let seconds = |slowest: &Option<(String, f64)>| slowest.as_ref().map_or(f64::NEG_INFINITY, |(_, seconds)| *seconds);
    if seconds(&more.slowest) > seconds(&sum.slowest) {
        sum.slowest = more.slowest;
    }
}

#[cfg(test)]
mod tests {
    use super::{Bound, Buckets, Family, Labels, Measured};

    fn region(name: &str) -> Labels {
        vec![("region", name.to_owned()), ("measured_at", "server".to_owned())]
    }

    fn minute(names: &[&str]) -> Measured {
        let buckets =
            || Buckets { at_most: vec![1.0, 2.0], count: 2.0, sum: 3.0, slowest: Some(("t".to_owned(), 1.5)) };
        Measured {
            buckets: names.iter().map(|name| (Family::Ttft, region(name), buckets())).collect(),
            increments: names.iter().map(|name| (Family::Requests, region(name), 10.0)).collect(),
            gauges: names.iter().map(|name| (Family::Power, region(name), 700.0)).collect(),
            totals: names.iter().map(|name| (Family::Cost, region(name), 7, 0.5)).collect(),
        }
    }

    /// The first keep their names, sums stay whole, and no gauge speaks for several places.
    #[test]
    fn what_is_beyond_the_bound_is_added_up() {
        let mut bound = Bound::new(2);
        let first = bound.fold(minute(&["a", "b"]));
        assert_eq!((first.buckets.len(), first.gauges.len(), bound.folded()), (2, 2, 0));
        let second = bound.fold(minute(&["c", "b", "d"]));
        let names = |labels: &Labels| labels[0].1.clone();
        let requests: Vec<_> = second.increments.iter().map(|(_, labels, more)| (names(labels), *more)).collect();
        assert_eq!(requests, [("__other__".to_owned(), 20.0), ("b".to_owned(), 10.0)]);
        assert!(second.increments.iter().all(|(_, labels, _)| labels[1].1 == "server"));
        let totals: Vec<_> = second.totals.iter().map(|(_, labels, at, usd)| (names(labels), *at, *usd)).collect();
        assert_eq!(totals, [("__other__".to_owned(), 7, 1.0), ("b".to_owned(), 7, 0.5)]);
        let (_, labels, folded) = &second.buckets[0];
        assert_eq!(
            (names(labels), folded.count, folded.at_most.clone()),
            ("__other__".to_owned(), 4.0, vec![2.0, 4.0])
        );
        assert_eq!(folded.slowest, Some(("t".to_owned(), 1.5)));
        let gauges: Vec<_> = second.gauges.iter().map(|(_, labels, _)| names(labels)).collect();
        assert_eq!(gauges, ["b"]);
        assert_eq!(bound.folded(), 2);
    }
}
