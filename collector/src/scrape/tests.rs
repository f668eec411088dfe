use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint, metric, number_data_point};
use prost::Message;
use telemetry::prometheus::Format;

use super::*;
use crate::decode::check;

const SECOND: i64 = 1_000_000_000;
/// 2026-09-21.
const NOW: i64 = 1_790_000_000 * SECOND;

fn target(more: impl FnOnce(&mut Scrape)) -> Target {
    let mut group = Scrape { job: "vllm".to_owned(), targets: vec!["10.0.0.1:8000".to_owned()], ..Scrape::default() };
    more(&mut group);
    Target::new(&group, &group.targets[0]).unwrap()
}

/// What one scrape at `now_ns` becomes; without a text the target did not answer.
fn scraped(target: &Target, series: &mut Series, text: Option<&str>, now_ns: i64) -> ExportMetricsServiceRequest {
    let exposition = text.map(|text| prometheus::parse(text.as_bytes(), Format::Text, 1_000).unwrap());
    let body = write::body(target, series, &Scraped { now_ns, took_s: 0.25, exposition: exposition.as_ref() });
    let checked = check::check(Signal::Metrics, &body, |_| false).unwrap();
    assert_eq!(checked.rejected, 0);
    ExportMetricsServiceRequest::decode(body).unwrap()
}

fn metrics(request: &ExportMetricsServiceRequest) -> Vec<&Metric> {
    request.resource_metrics.iter().flat_map(|group| &group.scope_metrics[0].metrics).collect()
}

fn points(request: &ExportMetricsServiceRequest, name: &str) -> Vec<NumberDataPoint> {
    let data = metrics(request).into_iter().filter(|metric| metric.name == name).map(|metric| &metric.data);
    data.flat_map(|data| match data {
        Some(metric::Data::Gauge(gauge)) => gauge.data_points.clone(),
        Some(metric::Data::Sum(sum)) => sum.data_points.clone(),
        _ => Vec::new(),
    })
    .collect()
}

fn value(point: &NumberDataPoint) -> Option<f64> {
    match point.value {
        Some(number_data_point::Value::AsDouble(value)) => Some(value),
        _ => None,
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.clone()) {
        Some(any_value::Value::StringValue(text)) => text,
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}

/// A scrape says of itself whether it succeeded, and a target that is down shows nothing else; its gauges end once.
#[test]
fn a_target_that_goes_down_ends_its_gauges() {
    let (target, mut series) = (target(|_| {}), Series::default());
    let text = "# TYPE g gauge\ng{a=\"b\"} 3\n# TYPE c counter\nc 5\n";
    let up = scraped(&target, &mut series, Some(text), NOW);
    assert_eq!(value(&points(&up, "up")[0]), Some(1.0));
    assert_eq!(value(&points(&up, "scrape_samples_scraped")[0]), Some(2.0));
    assert_eq!(value(&points(&up, "scrape_duration_seconds")[0]), Some(0.25));
    assert_eq!(value(&points(&up, "g")[0]), Some(3.0));

    let down = scraped(&target, &mut series, None, NOW + SECOND);
    assert_eq!(value(&points(&down, "up")[0]), Some(0.0));
    let ended = &points(&down, "g")[0];
    assert_eq!((value(ended), ended.flags, ended.time_unix_nano), (None, 1, (NOW + SECOND) as u64));
    assert_eq!(texts(&ended.attributes)["a"], "b");
    assert!(points(&down, "c").is_empty(), "a counter has no value that could be said to end");
    assert!(points(&scraped(&target, &mut series, None, NOW + 2 * SECOND), "g").is_empty());

    let back = scraped(&target, &mut series, Some("# TYPE c counter\nc 6\n"), NOW + 3 * SECOND);
    assert_eq!(points(&back, "c")[0].start_time_unix_nano, 0, "the counter went on, it did not begin anew");
}

/// A series that a target no longer shows ends; one that comes back is there again.
#[test]
fn a_gauge_that_is_no_longer_shown_ends() {
    let (target, mut series) = (target(|_| {}), Series::default());
    scraped(&target, &mut series, Some("g{pod=\"a\"} 1\ng{pod=\"b\"} 1\n"), NOW);
    let second = points(&scraped(&target, &mut series, Some("g{pod=\"b\"} 1\n"), NOW + SECOND), "g");
    let ended: Vec<_> = second.iter().filter(|point| point.flags == 1).collect();
    assert_eq!((second.len(), ended.len()), (2, 1));
    assert_eq!(texts(&ended[0].attributes)["pod"], "a");
    assert_eq!(points(&scraped(&target, &mut series, Some("g{pod=\"a\"} 1\n"), NOW + 2 * SECOND), "g").len(), 2);
}

/// The start of a counter is unknown until it is reset; then it is the last reading, so that no interval spans the reset.
#[test]
fn the_start_moves_when_a_counter_falls() {
    let (target, mut series) = (target(|_| {}), Series::default());
    let mut start = |value: &str, at: i64| {
        let text = format!("# TYPE c counter\nc {value}\n");
        points(&scraped(&target, &mut series, Some(&text), NOW + at * SECOND), "c")[0].start_time_unix_nano
    };
    assert_eq!(start("10", 0), 0);
    assert_eq!(start("12", 1), 0);
    assert_eq!(start("1", 2), (NOW + SECOND) as u64);
    assert_eq!(start("1", 3), (NOW + SECOND) as u64);
    assert_eq!(start("NaN", 4), (NOW + SECOND) as u64);
    assert_eq!(start("5", 5), (NOW + SECOND) as u64);
}

/// What a target says of when it began to count is believed, and a new `_created` is a reset.
#[test]
fn created_is_the_start() {
    let (target, mut series) = (target(|_| {}), Series::default());
    let mut start = |created: i64, at: i64| {
        let text = format!("# TYPE c_total counter\nc_total 7\n# TYPE c_created gauge\nc_created {created}\n");
        let request = scraped(&target, &mut series, Some(&text), NOW + at * SECOND);
        assert!(points(&request, "c_created").is_empty());
        points(&request, "c_total")[0].start_time_unix_nano
    };
    let second = NOW / SECOND;
    assert_eq!(start(second - 50, 0), (NOW - 50 * SECOND) as u64);
    assert_eq!(start(second + 1, 2), (NOW + SECOND) as u64);
}

/// Classic buckets arrive as OTLP has them; a histogram whose count falls was reset.
#[test]
fn histograms_are_cumulative_and_reset() {
    let (target, mut series) = (target(|_| {}), Series::default());
    let mut read = |below: u64, all: u64, at: i64| {
        let text = format!(
            "# TYPE h histogram\nh_bucket{{le=\"0.5\"}} {below} # {{trace_id=\"{:032x}\",span_id=\"{:016x}\",k=\"v\"}} 0.25\n\
             h_bucket{{le=\"+Inf\"}} {all}\nh_sum 9\nh_count {all}\n",
            7, 8
        );
        let request = scraped(&target, &mut series, Some(&text), NOW + at * SECOND);
        let found = metrics(&request).into_iter().find(|metric| metric.name == "h").cloned();
        let Some(metric::Data::Histogram(histogram)) = found.unwrap().data else { panic!("no histogram") };
        assert_eq!(histogram.aggregation_temporality, 2);
        histogram.data_points[0].clone()
    };
    let point = read(3, 4, 0);
    assert_eq!((point.count, point.bucket_counts, point.explicit_bounds), (4, vec![3, 1], vec![0.5]));
    let exemplar = &point.exemplars[0];
    assert_eq!((exemplar.trace_id.len(), exemplar.span_id.len()), (16, 8));
    assert_eq!(texts(&exemplar.filtered_attributes), BTreeMap::from([("k".to_owned(), "v".to_owned())]));
    assert_eq!(exemplar.time_unix_nano, NOW as u64);
    assert_eq!(read(1, 1, 1).start_time_unix_nano, NOW as u64);
}

/// A sample with a time of its own that has not changed is the same sample, and is not stored again.
#[test]
fn a_sample_with_its_own_time_is_taken_once() {
    let (target, mut series) = (target(|_| {}), Series::default());
    let text = "g 3 1789999999000\n";
    let first = points(&scraped(&target, &mut series, Some(text), NOW), "g");
    assert_eq!(first[0].time_unix_nano, (NOW - SECOND) as u64);
    assert!(points(&scraped(&target, &mut series, Some(text), NOW + SECOND), "g").is_empty());
    let newer = points(&scraped(&target, &mut series, Some("g 3 1790000000000\n"), NOW + 2 * SECOND), "g");
    assert_eq!(newer.len(), 1);
}

/// Where a series comes from: its own labels win over the settings, those over `target_info`, that over the address.
#[test]
fn labels_become_the_resource() {
    let target = target(|group| {
        group.labels.insert("cloud.region".to_owned(), "us-east-1".to_owned());
        group.promote.insert("Hostname".to_owned(), "host.name".to_owned());
        group.promote.insert("region".to_owned(), "cloud.region".to_owned());
    });
    let text = "# TYPE target_info gauge\ntarget_info{service_name=\"engine\",cloud_region=\"elsewhere\",team=\"x\"} 1\n\
        power{Hostname=\"h1\",gpu=\"0\"} 1\npower{Hostname=\"h2\",gpu=\"0\",region=\"eu-west-1\"} 2\nother 3\n";
    let request = scraped(&target, &mut Series::default(), Some(text), NOW);
    let resources: Vec<BTreeMap<String, String>> =
        request.resource_metrics.iter().map(|group| texts(&group.resource.as_ref().unwrap().attributes)).collect();
    assert_eq!(resources.len(), 3);
    let [own, first, second] = &resources[..] else { panic!("three origins") };
    for (key, expected) in [
        ("service.name", "engine"),
        ("service.instance.id", "10.0.0.1:8000"),
        ("server.port", "8000"),
        ("cloud.region", "us-east-1"),
        ("team", "x"),
    ] {
        assert_eq!(own[key], expected);
    }
    assert_eq!((first["host.name"].as_str(), first["cloud.region"].as_str()), ("h1", "us-east-1"));
    assert_eq!((second["host.name"].as_str(), second["cloud.region"].as_str()), ("h2", "eu-west-1"));
    let labels = texts(&points(&request, "power")[0].attributes);
    assert_eq!(labels, BTreeMap::from([("gpu".to_owned(), "0".to_owned())]));
}

/// However many labels `target_info` has, a resource keeps at most 128 of them.
#[test]
fn a_target_describes_itself_within_bounds() {
    let line = |letter: char| {
        let labels: Vec<String> = (0..50).map(|number| format!("{letter}{number}=\"v\"")).collect();
        format!("target_info{{{}}} 1\n", labels.join(","))
    };
    let text = format!("# TYPE target_info gauge\n{}{}{}{}other 3\n", line('a'), line('b'), line('c'), line('d'));
    let request = scraped(&target(|_| {}), &mut Series::default(), Some(&text), NOW);
    let resource = texts(&request.resource_metrics[0].resource.as_ref().unwrap().attributes);
    let described = resource.values().filter(|value| *value == "v").count();
    assert_eq!(described, 128, "{resource:?}");
}

/// Names, units and types are kept as OTLP spells them.
#[test]
fn metadata_survives() {
    let text = "# HELP t A time.\n# TYPE t gauge\n# UNIT t seconds\nt 1\nodd 2\n";
    let request = scraped(&target(|_| {}), &mut Series::default(), Some(text), NOW);
    let found = |name: &str| metrics(&request).into_iter().find(|metric| metric.name == name).unwrap().clone();
    let time = found("t");
    assert_eq!((time.description.as_str(), time.unit.as_str(), time.metadata.len()), ("A time.", "s", 0));
    assert_eq!(texts(&found("odd").metadata)["prometheus.type"], "unknown");
}

/// Targets are spread over the interval, each at its own place; what is no target is told.
#[test]
fn targets_are_urls() {
    let with = |text: &str| target::url(text, "/metrics").map(|url| url.to_string());
    assert_eq!(with("a:1").as_deref(), Ok("http://a:1/metrics"));
    assert_eq!(with("https://a/federate?match=x").as_deref(), Ok("https://a/federate?match=x"));
    assert_eq!(with("[::1]:9100").as_deref(), Ok("http://[::1]:9100/metrics"));
    assert!(with("ftp://a").is_err());
    assert!(with("a b").is_err());
    let mut faults = Vec::new();
    Scrape { targets: vec!["http://".to_owned()], timeout: Duration::from_secs(60), ..Scrape::default() }
        .validate(&mut faults);
    assert_eq!(faults.len(), 3, "{faults:?}");
    let spread = target(|group| group.targets = vec!["10.0.0.2:8000".to_owned()]);
    assert!(spread.jitter < Duration::from_secs(15));
    assert_ne!(spread.jitter, target(|_| {}).jitter);
}
