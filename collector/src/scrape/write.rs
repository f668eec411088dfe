//! A scrape as one OTLP request: a group for the target, and one more for each set of labels that name another origin.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use telemetry::prometheus::{Declared, Exposition, Metric, Point, Shape, Value};

use super::series::{Gauge, Promoted, Series, key};
use super::target::Target;
use crate::decode::view::cut;
use crate::encode::metric::{self, Data, Head, Interval};
use crate::encode::{attribute, group};
use crate::labels::canonical;

/// Scope of what was scraped.
const SCOPE: &str = "tokenwatt.scrape";
/// The metric in which a target says what it is.
const TARGET_INFO: &str = "target_info";

/// What came of one scrape.
pub(super) struct Scraped<'s, 'a> {
    /// When the target was asked, nanoseconds since 1970-01-01 UTC.
    pub(super) now_ns: i64,
    /// How long it took, seconds.
    pub(super) took_s: f64,
    /// Absent if the target did not answer, or not sensibly.
    pub(super) exposition: Option<&'s Exposition<'a>>,
}

/// Metrics of one origin.
struct Origin {
    promoted: Promoted,
    /// Encoded metrics.
    items: Vec<u8>,
    /// Encoded points of the metric at hand.
    points: Vec<u8>,
}

struct Writer<'w> {
    target: &'w Target,
    series: &'w mut Series,
    now_ns: u64,
    /// The first is the target itself.
    origins: Vec<Origin>,
    places: HashMap<Promoted, usize>,
    /// Origins with points of the metric at hand.
    touched: Vec<usize>,
}

/// Most labels of `target_info` that become attributes of the resource.
const DESCRIBED_MAX: usize = 128;

/// Writes a request and takes the scrape into what is remembered of the target.
pub(super) fn body(target: &Target, series: &mut Series, scraped: &Scraped<'_, '_>) -> Bytes {
    let now_ns = u64::try_from(scraped.now_ns).unwrap_or_default();
    let mut writer =
        Writer { target, series, now_ns, origins: Vec::new(), places: HashMap::new(), touched: Vec::new() };
    writer.touch(&Promoted::default());
    writer.series.begin();
    let mut described = Vec::new();
    let gone = match scraped.exposition {
        Some(exposition) => {
            for metric in &exposition.metrics {
                if metric.name == TARGET_INFO {
                    described.extend(metric.points.iter().flat_map(|point| &point.labels));
                } else {
                    writer.metric(metric);
                }
            }
            writer.series.end()
        }
        None => writer.series.lose(),
    };
    gone.iter().for_each(|gauge| writer.ended(gauge));
    let samples = scraped.exposition.map_or(0, |exposition| exposition.samples);
    writer.own("up", "whether the target answered", "1", f64::from(u8::from(scraped.exposition.is_some())));
    writer.own("scrape_duration_seconds", "time that the scrape took", "s", scraped.took_s);
    writer.own("scrape_samples_scraped", "samples that the target showed", "{sample}", samples as f64);
    described.truncate(DESCRIBED_MAX);
    let described = described.iter().map(|(label, value)| (canonical(label), value.as_ref()));
    writer.finish(&described.collect::<Vec<_>>())
}

impl Writer<'_> {
    /// The points of an origin for the metric at hand; an origin that is new is made.
    fn touch(&mut self, promoted: &Promoted) -> Option<&mut Vec<u8>> {
        let next = self.origins.len();
        let place = *self.places.entry(Arc::clone(promoted)).or_insert(next);
        if place == next {
            self.origins.push(Origin { promoted: Arc::clone(promoted), items: Vec::new(), points: Vec::new() });
        }
        let origin = self.origins.get_mut(place)?;
        if origin.points.is_empty() {
            self.touched.push(place);
        }
        Some(&mut origin.points)
    }

    fn promoted(&self, point: &Point<'_>) -> Promoted {
        let of = |label: &str| point.labels.iter().find(|(name, _)| *name == label).map(|(_, value)| value.to_string());
        let named = self.target.promote.iter().filter_map(|(label, name)| Some((name.clone(), of(label)?)));
        Arc::new(named.collect())
    }

    fn metric(&mut self, metric: &Metric<'_>) {
        let data = match metric.shape {
            Shape::Counter => Data::Counter,
            Shape::Gauge => Data::Gauge,
            Shape::Histogram => Data::Histogram,
            Shape::Summary => Data::Summary,
        };
        for point in &metric.points {
            self.point(metric, data, point, &self.promoted(point));
        }
        let declared = (data == Data::Gauge && metric.declared != Declared::Gauge).then(|| metric.declared.name());
        let head = Head { name: metric.name, description: cut(&metric.help), unit: unit(metric.unit), declared };
        self.flush(head, data);
    }

    fn point(&mut self, metric: &Metric<'_>, data: Data, point: &Point<'_>, promoted: &Promoted) {
        let own = |label: &str| !self.target.promote.iter().any(|(moved, _)| moved == label);
        let pairs = point.labels.iter().filter(|(label, _)| own(label)).map(|(label, value)| (*label, value.as_ref()));
        let mut attributes = Vec::new();
        metric::attributes(data, pairs, &mut attributes);
        let explicit = point.time_ns.and_then(|time| u64::try_from(time).ok());
        let time_ns = explicit.unwrap_or(self.now_ns);
        let gauge = (data == Data::Gauge).then(|| {
            let (name, attributes) = (metric.name.to_owned(), attributes.clone());
            Box::new(Gauge { name, attributes, promoted: Arc::clone(promoted) })
        });
        let key = key(metric.name, metric.shape, point);
        let Some(start_ns) = self.series.see(key, point, time_ns, gauge) else { return };
        let when = Interval { start_ns, time_ns };
        let Some(points) = self.touch(promoted) else { return };
        let mut exemplars = Vec::new();
        match &point.value {
            Value::Number(value, exemplar) => {
                exemplar.iter().for_each(|found| metric::exemplar(data, found, time_ns, &mut exemplars));
                metric::number(when, *value, &attributes, &exemplars, points);
            }
            Value::Histogram(histogram) => {
                histogram.exemplars.iter().for_each(|found| metric::exemplar(data, found, time_ns, &mut exemplars));
                metric::histogram(when, histogram, &attributes, &exemplars, points);
            }
            Value::Summary(summary) => metric::summary(when, summary, &attributes, points),
        }
    }

    fn ended(&mut self, gauge: &Gauge) {
        let now_ns = self.now_ns;
        if let Some(points) = self.touch(&gauge.promoted) {
            metric::ended(now_ns, &gauge.attributes, points);
        }
        self.flush(Head { name: &gauge.name, ..Head::default() }, Data::Gauge);
    }

    /// A metric of the scrape itself.
    fn own(&mut self, name: &str, description: &str, unit: &str, value: f64) {
        let when = Interval { start_ns: 0, time_ns: self.now_ns };
        if let Some(points) = self.touch(&Promoted::default()) {
            metric::number(when, value, &[], &[], points);
        }
        self.flush(Head { name, description, unit, declared: None }, Data::Gauge);
    }

    /// Closes the metric at hand in every origin that has points of it.
    fn flush(&mut self, head: Head<'_>, data: Data) {
        for place in self.touched.drain(..) {
            if let Some(origin) = self.origins.get_mut(place)
                && !origin.points.is_empty()
            {
                metric::metric(head, data, &origin.points, &mut origin.items);
                origin.points.clear();
            }
        }
    }

    fn finish(self, described: &[(&str, &str)]) -> Bytes {
        let mut out = Vec::new();
        for origin in &self.origins {
            let mut resource = Vec::new();
            let strong = self.target.labels.iter().chain(origin.promoted.iter());
            let strong: Vec<(&str, &str)> = strong.map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let weak = self.target.derived.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            let mut written: Vec<&str> = Vec::new();
            // The strongest comes first: what the series say of their origin, the settings, the target, its address.
            for (key, value) in strong.iter().rev().copied().chain(described.iter().copied()).chain(weak) {
                if !written.contains(&key) {
                    attribute(1, key, value, &mut resource);
                    written.push(key);
                }
            }
            group(&resource, SCOPE, &origin.items, &mut out);
        }
        Bytes::from(out)
    }
}

/// A unit of OpenMetrics in UCUM, as OTLP has it; one that is not known stays as it is.
fn unit(declared: &str) -> &str {
    match declared {
        "seconds" => "s",
        "bytes" => "By",
        "joules" => "J",
        "watts" => "W",
        "celsius" => "Cel",
        "ratio" => "1",
        "percent" => "%",
        "volts" => "V",
        "amperes" => "A",
        "grams" => "g",
        "meters" => "m",
        other => other,
    }
}
