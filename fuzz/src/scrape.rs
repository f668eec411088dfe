//! As the collector's module of that name, without the network: what targets show becomes bodies.

mod series;
mod write;

use bytes::Bytes;
use telemetry::prometheus::{self, Exposition, Format, Value};

use series::Series;
use target::Target;
use write::Scraped;

/// As the collector's, without the address.
mod target {
    #[derive(Default)]
    pub(super) struct Target {
        pub(super) derived: Vec<(String, String)>,
        pub(super) labels: Vec<(String, String)>,
        pub(super) promote: Vec<(String, String)>,
    }
}

/// Samples of one answer; small, so that a run meets it.
const SAMPLES_MAX: usize = 200;
/// Time between scrapes.
const EVERY_NS: i64 = 15_000_000_000;

/// Scrapes a target once for each text; a text that cannot be read is a target that does not answer.
pub fn bodies<'t>(format: Format, promote: bool, texts: impl Iterator<Item = &'t [u8]>) -> Vec<Bytes> {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let target = Target {
        derived: vec![pair("service.name", "job"), pair("service.instance.id", "host:8000")],
        labels: vec![pair("cloud.region", "eu")],
        promote: if promote { vec![pair("job", "service.name"), pair("pod", "k8s.pod.name")] } else { Vec::new() },
    };
    let mut series = Series::default();
    let mut now_ns = crate::RECEIVED_US * 1_000;
    let bodies = texts.map(|text| {
        let parsed = prometheus::parse(text, format, SAMPLES_MAX);
        if let Ok(exposition) = &parsed {
            promises(exposition);
        }
        now_ns += EVERY_NS;
        write::body(&target, &mut series, &Scraped { now_ns, took_s: 0.25, exposition: parsed.as_ref().ok() })
    });
    bodies.collect()
}

/// What the reader of the text promises of everything that it reads.
fn promises(exposition: &Exposition<'_>) {
    assert!(exposition.samples <= SAMPLES_MAX);
    assert_eq!(exposition.faults > 0, exposition.fault.is_some());
    let points: Vec<_> = exposition.metrics.iter().flat_map(|metric| &metric.points).collect();
    assert!(points.len() <= exposition.samples, "{} points of {} samples", points.len(), exposition.samples);
    for point in points {
        assert!(point.labels.is_sorted_by(|one, two| one.0 < two.0), "a label stands once, in order");
        match &point.value {
            Value::Number(..) => {}
            Value::Histogram(histogram) => {
                assert_eq!(histogram.counts.len(), histogram.bounds.len() + 1);
                assert_eq!(histogram.counts.iter().sum::<u64>(), histogram.count);
                assert!(histogram.bounds.is_sorted_by(|one, two| one < two));
                assert!(histogram.bounds.iter().all(|bound| bound.is_finite()));
            }
            Value::Summary(summary) => {
                assert!(summary.quantiles.iter().all(|(quantile, _)| (0.0..=1.0).contains(quantile)));
            }
        }
    }
}
