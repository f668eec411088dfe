//! Samples put together: buckets, sums and counts into histograms and summaries, `_created` into when counting began.

use std::collections::HashMap;

use super::line::{Exemplar, Labels, Sample, nanoseconds};
use super::{Declared, Exposition, Head, Heads, Histogram, Metric, Point, Shape, Summary, Value};

/// What a sample is in its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A value of its own.
    Whole,
    Bucket,
    Quantile,
    Sum,
    Count,
    Created,
}

/// Samples that make one point.
struct Group<'a> {
    family: &'a str,
    declared: Declared,
    parts: Vec<(Part, Sample<'a>)>,
}

/// Most samples that make one point; no histogram has that many buckets, and duplicates are looked for among them.
const PARTS_MAX: usize = 1_024;

/// When series were zero, by family and labels; nanoseconds since 1970-01-01 UTC.
type Created<'a> = HashMap<(&'a str, Labels<'a>), i64>;

/// What tells one point from another: family or name, labels without `le` and `quantile`, time.
type Key<'a> = (&'a str, Labels<'a>, Option<i64>);

/// Puts samples, each with the number of its line, together into metrics.
pub(super) fn gather<'a>(heads: &Heads<'a>, samples: Vec<(usize, Sample<'a>)>, into: &mut Exposition<'a>) {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut places: HashMap<Key<'a>, usize> = HashMap::new();
    let mut created = Created::new();
    for (line, sample) in samples {
        let (family, declared, part) = role(heads, &sample);
        if part == Part::Created {
            if let Some(ns) = nanoseconds(sample.value) {
                created.insert((family, sample.labels), ns);
            }
            continue;
        }
        let own = if part == Part::Whole { sample.name } else { family };
        let key = (own, shared(&sample.labels, part), sample.time_ns);
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            None => groups.push(Group { family, declared, parts: vec![(part, sample)] }),
            Some(group) if part == Part::Whole || group.holds(part, &sample) => {
                into.note(line, "a series stands twice")
            }
            Some(group) if group.parts.len() == PARTS_MAX => into.note(line, "more than 1024 samples of one point"),
            Some(group) => group.parts.push((part, sample)),
        }
    }
    let mut metrics = Metrics { heads, places: HashMap::new(), created, into };
    for group in groups {
        metrics.add(group);
    }
}

/// The labels that all samples of a point have in common.
fn shared<'a>(labels: &Labels<'a>, part: Part) -> Labels<'a> {
    let taken = match part {
        Part::Bucket => "le",
        Part::Quantile => "quantile",
        _ => return labels.clone(),
    };
    labels.iter().filter(|(name, _)| *name != taken).cloned().collect()
}

/// The family of a sample, what it was declared as, and what the sample is in it.
fn role<'a>(heads: &Heads<'a>, sample: &Sample<'a>) -> (&'a str, Declared, Part) {
    let name = sample.name;
    if let Some(family) = name.strip_suffix("_created").and_then(|base| counted(heads, base)) {
        return (family.0, family.1, Part::Created);
    }
    let labelled = |label: &str| sample.labels.iter().any(|(name, _)| *name == label);
    if let Some(head) = heads.get(name) {
        let part =
            if head.declared == Declared::Summary && labelled("quantile") { Part::Quantile } else { Part::Whole };
        return (name, head.declared, part);
    }
    let suffixes =
        ["_bucket", "_sum", "_count", "_total", "_info", "_gcount", "_gsum"].into_iter().filter_map(|suffix| {
            let base = name.strip_suffix(suffix)?;
            Some((suffix, base, heads.get(base)?.declared))
        });
    for (suffix, base, declared) in suffixes {
        let part = match (declared, suffix) {
            (Declared::Histogram, "_bucket") if labelled("le") => Part::Bucket,
            (Declared::Histogram | Declared::Summary, "_sum") => Part::Sum,
            (Declared::Histogram | Declared::Summary, "_count") => Part::Count,
            (Declared::Counter, "_total")
            | (Declared::Info, "_info")
            | (Declared::GaugeHistogram, "_bucket" | "_gcount" | "_gsum") => Part::Whole,
            _ => continue,
        };
        return (base, declared, part);
    }
    (name, Declared::Unknown, Part::Whole)
}

/// The counter, histogram or summary that a `_created` of `base` belongs to; text 0.0.4 declares counters with `_total`.
fn counted<'a>(heads: &Heads<'a>, base: &str) -> Option<(&'a str, Declared)> {
    let with_total = format!("{base}_total");
    let (name, head) = heads.get_key_value(base).or_else(|| heads.get_key_value(with_total.as_str()))?;
    matches!(head.declared, Declared::Counter | Declared::Histogram | Declared::Summary)
        .then_some((*name, head.declared))
}

impl<'a> Group<'a> {
    fn holds(&self, part: Part, sample: &Sample<'a>) -> bool {
        self.parts.iter().any(|(known, held)| *known == part && held.labels == sample.labels)
    }

    fn value(&self, part: Part) -> Option<f64> {
        self.parts.iter().find(|(known, _)| *known == part).map(|(_, sample)| sample.value)
    }

    /// The histogram that the parts make, if they fit together: bounds rise, counts are whole and do not fall.
    fn histogram(&self) -> Option<Histogram<'a>> {
        let mut buckets: Vec<(f64, u64)> = Vec::new();
        let mut exemplars: Vec<Exemplar<'a>> = Vec::new();
        for (_, sample) in self.parts.iter().filter(|(part, _)| *part == Part::Bucket) {
            let (_, bound) = sample.labels.iter().find(|(name, _)| *name == "le")?;
            let bound: f64 = bound.parse().ok().filter(|bound: &f64| !bound.is_nan())?;
            buckets.push((bound, whole(sample.value)?));
            exemplars.extend(sample.exemplar.as_deref().cloned());
        }
        buckets.sort_by(|one, two| one.0.total_cmp(&two.0));
        let open = buckets.pop_if(|(bound, _)| *bound == f64::INFINITY).map(|(_, count)| count);
        let count = open.or(self.value(Part::Count).and_then(whole))?;
        let mut histogram = Histogram { count, sum: self.value(Part::Sum), exemplars, ..Histogram::default() };
        let mut below = 0;
        for (bound, through) in buckets {
            let rises = histogram.bounds.last().is_none_or(|last| *last < bound);
            if !rises || !bound.is_finite() {
                return None;
            }
            histogram.bounds.push(bound);
            histogram.counts.push(through.checked_sub(below)?);
            below = through;
        }
        histogram.counts.push(count.checked_sub(below)?);
        Some(histogram)
    }

    fn summary(&self) -> Option<Summary> {
        let (count, sum) = (whole(self.value(Part::Count)?)?, self.value(Part::Sum)?);
        let mut quantiles = Vec::new();
        for (_, sample) in self.parts.iter().filter(|(part, _)| *part == Part::Quantile) {
            let (_, quantile) = sample.labels.iter().find(|(name, _)| *name == "quantile")?;
            let quantile: f64 = quantile.parse().ok().filter(|quantile| (0.0..=1.0).contains(quantile))?;
            quantiles.push((quantile, sample.value));
        }
        quantiles.sort_by(|one, two| one.0.total_cmp(&two.0));
        Some(Summary { quantiles, count, sum })
    }
}

/// A count as a whole number; exact up to 2^53, as a float is.
fn whole(value: f64) -> Option<u64> {
    ((0.0..9e18).contains(&value) && value.fract() == 0.0).then_some(value as u64)
}

/// Metrics as they grow.
struct Metrics<'m, 'a> {
    heads: &'m Heads<'a>,
    places: HashMap<(&'a str, Shape), usize>,
    created: Created<'a>,
    into: &'m mut Exposition<'a>,
}

impl<'a> Metrics<'_, 'a> {
    fn add(&mut self, group: Group<'a>) {
        let (family, declared) = (group.family, group.declared);
        let whole = group.parts.first().is_some_and(|(part, _)| *part == Part::Whole);
        let made = match declared {
            Declared::Histogram if !whole => group.histogram().map(|made| (Shape::Histogram, Value::Histogram(made))),
            Declared::Summary if !whole => group.summary().map(|made| (Shape::Summary, Value::Summary(made))),
            _ => None,
        };
        if let Some((shape, value)) = made {
            let Some((part, sample)) = group.parts.first() else { return };
            let labels = shared(&sample.labels, *part);
            let created_ns = self.created_ns(family, &labels);
            let point = Point { labels, time_ns: sample.time_ns, created_ns, value };
            self.push(family, family, declared, shape, point);
            return;
        }
        let counter = declared == Declared::Counter;
        for (_, sample) in group.parts {
            let created_ns = if counter { self.created_ns(family, &sample.labels) } else { None };
            let value = Value::Number(sample.value, sample.exemplar);
            let point = Point { labels: sample.labels, time_ns: sample.time_ns, created_ns, value };
            let shape = if counter { Shape::Counter } else { Shape::Gauge };
            self.push(sample.name, family, declared, shape, point);
        }
    }

    fn created_ns(&self, family: &'a str, labels: &Labels<'a>) -> Option<i64> {
        if self.created.is_empty() { None } else { self.created.get(&(family, labels.clone())).copied() }
    }

    fn push(&mut self, name: &'a str, family: &'a str, declared: Declared, shape: Shape, point: Point<'a>) {
        let metrics = &mut self.into.metrics;
        let place = *self.places.entry((name, shape)).or_insert(metrics.len());
        if let Some(metric) = metrics.get_mut(place) {
            metric.points.push(point);
            return;
        }
        let Head { help, unit, .. } = self.heads.get(family).cloned().unwrap_or_default();
        metrics.push(Metric { name, shape, declared, help, unit, points: vec![point] });
    }
}
