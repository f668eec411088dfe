//! Attributes by which costs are split: of a call or a sample itself, else of its resource.

use opentelemetry_proto::tonic::metrics::v1::ScopeMetrics;
use prost::Message;

use super::{
    Data, ExportMetricsServiceRequest, ExportTraceServiceRequest, Gauge, KeyValue, Metric, NOW_US, Number,
    NumberDataPoint, Resource, ResourceMetrics, ResourceSpans, SERVER, START_NS, ScopeSpans, double, read, span, text,
};
use crate::batch::tables::Tables;
use crate::normalize::redact::{Redaction, Rules};
use crate::normalize::{Body, Normalizer, Settings};
use crate::signal::Signal;

/// Rows of a body where costs are split by `team`, `cost_center` and `owner`, the last of which is never stored.
fn rows(signal: Signal, bytes: &[u8]) -> Tables {
    let allocation_keys = ["team", "cost_center", "owner"].map(str::to_owned).to_vec();
    let redaction = Redaction::new(Rules { drop: vec!["owner".to_owned()], ..Rules::default() });
    let mut normalizer = Normalizer::new(Settings { allocation_keys, redaction, ..Settings::default() }).unwrap();
    let mut tables = Tables::new(|_| 0);
    tables.enter(1, NOW_US);
    normalizer.body(Body { signal, received_us: NOW_US, faulty: false, bytes }, &mut tables).unwrap();
    tables
}

fn resource() -> Option<Resource> {
    let attributes =
        [("service.name", "engine"), ("team", "ops"), ("cost_center", "47"), ("owner", "me"), ("shelf", "3")];
    Some(Resource { attributes: attributes.map(|(key, value)| text(key, value)).to_vec(), ..Resource::default() })
}

/// What a call says itself stands before what its resource says; nothing else of the resource comes in, and what is not to be stored is not.
#[test]
fn a_call_takes_the_keys_of_its_resource() {
    let call = |own: Vec<KeyValue>| {
        let scope = ScopeSpans {
            spans: vec![span("llm_request", SERVER, [vec![double("gen_ai.latency.e2e", 1.0)], own].concat())],
            ..ScopeSpans::default()
        };
        let group = ResourceSpans { resource: resource(), scope_spans: vec![scope], ..ResourceSpans::default() };
        let bytes = ExportTraceServiceRequest { resource_spans: vec![group] }.encode_to_vec();
        let mut tables = rows(Signal::Traces, &bytes);
        let mut call = read(&mut tables.requests).remove(0);
        call.retain(|column, _| column.starts_with("attributes."));
        call.into_iter().map(|(column, value)| format!("{column}={value}")).collect::<Vec<_>>()
    };
    assert_eq!(call(vec![]), ["attributes.cost_center=47", "attributes.team=ops"]);
    assert_eq!(call(vec![text("team", "ml")]), ["attributes.cost_center=47", "attributes.team=ml"]);
}

#[test]
fn a_sample_takes_the_keys_of_its_resource() {
    let point = NumberDataPoint {
        time_unix_nano: START_NS,
        value: Some(Number::AsDouble(410.0)),
        attributes: vec![text("hw.id", "0"), text("hw.type", "gpu")],
        ..NumberDataPoint::default()
    };
    let power = Metric {
        name: "hw.power".into(),
        unit: "W".into(),
        data: Some(Data::Gauge(Gauge { data_points: vec![point] })),
        ..Metric::default()
    };
    let scope = ScopeMetrics { metrics: vec![power], ..ScopeMetrics::default() };
    let group = ResourceMetrics { resource: resource(), scope_metrics: vec![scope], ..ResourceMetrics::default() };
    let bytes = ExportMetricsServiceRequest { resource_metrics: vec![group] }.encode_to_vec();
    let sample = read(&mut rows(Signal::Metrics, &bytes).devices).remove(0);
    let of = |key: &str| sample.get(&format!("attributes.{key}")).map(String::as_str);
    assert_eq!([of("team"), of("cost_center"), of("owner"), of("shelf")], [Some("ops"), Some("47"), None, None]);
}
