//! Nothing that OTLP carries is lost: random requests, turned into rows, turned back into OTLP, are what they were.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, Sum, Summary, SummaryDataPoint, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use prost::Message;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::batch::tables::{Buffer, Tables};
use crate::decode::samples::{self, NOW_US};
use crate::decode::{json, schema};
use crate::normalize::{Body, Normalizer, Settings};
use crate::signal::Signal;

/// Where an item stood and what it was, encoded: NaN equals NaN then.
#[derive(Debug, PartialEq)]
struct Placed {
    resource: Vec<u8>,
    resource_url: String,
    scope: Vec<u8>,
    scope_url: String,
    item: Vec<u8>,
}

fn placed(
    resource: &Option<Resource>,
    resource_url: &str,
    scope: &Option<InstrumentationScope>,
    scope_url: &str,
    item: &impl Message,
) -> Placed {
    Placed {
        resource: resource.encode(),
        resource_url: resource_url.to_owned(),
        scope: scope.encode(),
        scope_url: scope_url.to_owned(),
        item: item.encode_to_vec(),
    }
}

trait Encode {
    fn encode(&self) -> Vec<u8>;
}

impl<M: Message> Encode for Option<M> {
    fn encode(&self) -> Vec<u8> {
        self.as_ref().map(Message::encode_to_vec).unwrap_or_default()
    }
}

fn tables(signal: Signal, body: &[u8], faulty: bool) -> Tables {
    let mut normalizer = Normalizer::new(Settings::default()).unwrap();
    let mut tables = Tables::new(|_| 0);
    tables.enter(1, NOW_US);
    normalizer.body(Body { signal, received_us: NOW_US, faulty, bytes: body }, &mut tables).unwrap();
    tables
}

/// One row, read by column.
struct Row<'b>(&'b RecordBatch, usize);

impl Row<'_> {
    fn array(&self, column: &str) -> Option<&dyn Array> {
        let array = self.0.column_by_name(column).unwrap();
        array.is_valid(self.1).then_some(array.as_ref())
    }

    fn some_text(&self, column: &str) -> Option<String> {
        self.array(column).map(|array| array.as_string::<i32>().value(self.1).to_owned())
    }

    fn text(&self, column: &str) -> String {
        self.some_text(column).unwrap_or_default()
    }

    fn some_int(&self, column: &str) -> Option<i64> {
        self.array(column).map(|array| array.as_primitive::<Int64Type>().value(self.1))
    }

    fn int(&self, column: &str) -> i64 {
        self.some_int(column).unwrap()
    }

    fn double(&self, column: &str) -> Option<f64> {
        self.array(column).map(|array| array.as_primitive::<Float64Type>().value(self.1))
    }

    fn ints(&self, column: &str) -> Vec<u64> {
        let Some(array) = self.array(column) else { return Vec::new() };
        array.as_list::<i32>().value(self.1).as_primitive::<Int64Type>().values().iter().map(|n| *n as u64).collect()
    }

    fn doubles(&self, column: &str) -> Vec<f64> {
        let Some(array) = self.array(column) else { return Vec::new() };
        array.as_list::<i32>().value(self.1).as_primitive::<Float64Type>().values().to_vec()
    }

    fn id(&self, column: &str) -> Vec<u8> {
        hex::decode(self.text(column)).unwrap()
    }

    fn position(&self, column: &str, names: &[&str]) -> i32 {
        let name = self.text(column);
        names.iter().position(|known| *known == name).unwrap() as i32
    }

    /// Attributes from their map and the OTLP JSON of those that are not text.
    fn attributes(&self, map: &str, typed: &str) -> Vec<KeyValue> {
        let typed = self.some_text(typed).map(|json| by_key(&json)).unwrap_or_default();
        let Some(array) = self.array(map) else { return Vec::new() };
        let entries = array.as_map().value(self.1);
        let (keys, values) = (entries.column(0).as_string::<i32>(), entries.column(1).as_string::<i32>());
        let value = |at: usize| match typed.get(keys.value(at)) {
            Some(value) => value.clone(),
            None => AnyValue { value: Some(Any::StringValue(values.value(at).to_owned())) },
        };
        (0..entries.len()).map(|at| key_value(keys.value(at), value(at))).collect()
    }

    /// What a column of OTLP JSON holds of a message's repeated field.
    fn list<M: Message + Default>(&self, message: &'static schema::Message, field: &str, column: &str) -> M {
        let Some(list) = self.some_text(column) else { return M::default() };
        decode(message, &format!("{{\"{field}\":{list}}}"))
    }

    fn place<M: Message>(&self, item: &M) -> Placed {
        let resource = Resource {
            attributes: self.attributes("resource", "resource_typed"),
            dropped_attributes_count: self.int("resource_dropped") as u32,
            entity_refs: self.list::<Resource>(&schema::RESOURCE, "entityRefs", "resource_entities").entity_refs,
        };
        let scope = InstrumentationScope {
            name: self.text("scope_name"),
            version: self.text("scope_version"),
            attributes: self.attributes("scope_attributes", "scope_typed"),
            dropped_attributes_count: self.int("scope_dropped") as u32,
        };
        let (resource_url, scope_url) = (self.text("resource_schema_url"), self.text("scope_schema_url"));
        placed(&Some(resource), &resource_url, &Some(scope), &scope_url, item)
    }
}

fn key_value(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn by_key(json: &str) -> BTreeMap<String, AnyValue> {
    // Each value stays text until it is read as OTLP/JSON: serde_json rounds doubles.
    let values: BTreeMap<String, Box<serde_json::value::RawValue>> = serde_json::from_str(json).unwrap();
    values.into_iter().map(|(key, value)| (key, decode(&schema::ANY_VALUE, value.get()))).collect()
}

fn decode<M: Message + Default>(message: &'static schema::Message, json: &str) -> M {
    M::decode(json::encode(message, json.as_bytes(), 1 << 20, |_| true).unwrap().as_slice()).unwrap()
}

fn read(buffer: &mut Buffer, rebuild: impl Fn(&Row<'_>) -> Placed) -> Vec<Placed> {
    let Some(closed) = buffer.close(1).unwrap() else { return Vec::new() };
    assert_eq!(closed.batches.len(), 1, "the samples lie on one day");
    let batch = &closed.batches[0].1;
    (0..batch.num_rows()).map(|row| rebuild(&Row(batch, row))).collect()
}

fn span(row: &Row<'_>) -> Placed {
    let kinds = ["unspecified", "internal", "server", "client", "producer", "consumer"];
    row.place(&Span {
        trace_id: row.id("trace_id"),
        span_id: row.id("span_id"),
        parent_span_id: row.id("parent_span_id"),
        trace_state: row.text("trace_state"),
        flags: row.int("flags") as u32,
        name: row.text("name"),
        kind: row.position("kind", &kinds),
        start_time_unix_nano: row.int("time_unix_nano") as u64,
        end_time_unix_nano: row.int("end_unix_nano") as u64,
        attributes: row.attributes("attributes", "attributes_typed"),
        dropped_attributes_count: row.int("dropped_attributes") as u32,
        events: row.list::<Span>(&schema::SPAN, "events", "events").events,
        dropped_events_count: row.int("dropped_events") as u32,
        links: row.list::<Span>(&schema::SPAN, "links", "links").links,
        dropped_links_count: row.int("dropped_links") as u32,
        status: row.some_text("status").map(|_| Status {
            code: row.position("status", &["unset", "ok", "error"]),
            message: row.text("status_message"),
        }),
    })
}

fn log(row: &Row<'_>) -> Placed {
    let typed = row.some_text("body_typed").map(|json| decode(&schema::ANY_VALUE, &json));
    let plain = || row.some_text("body").map(|text| AnyValue { value: Some(Any::StringValue(text)) });
    row.place(&LogRecord {
        time_unix_nano: row.int("time_unix_nano") as u64,
        observed_time_unix_nano: row.int("observed_unix_nano") as u64,
        severity_number: row.int("severity_number") as i32,
        severity_text: row.text("severity"),
        body: typed.or_else(plain),
        attributes: row.attributes("attributes", "attributes_typed"),
        dropped_attributes_count: row.int("dropped_attributes") as u32,
        flags: row.int("flags") as u32,
        trace_id: row.id("trace_id"),
        span_id: row.id("span_id"),
        event_name: row.text("event_name"),
    })
}

fn metric(row: &Row<'_>, data: Data) -> Placed {
    let metadata = row.some_text("metadata").map(|json| by_key(&json)).unwrap_or_default();
    row.place(&Metric {
        name: row.text("name"),
        description: row.text("description"),
        unit: row.text("unit"),
        metadata: metadata.into_iter().map(|(key, value)| key_value(&key, value)).collect(),
        data: Some(data),
    })
}

fn temporality(row: &Row<'_>) -> i32 {
    row.position("temporality", &["unspecified", "delta", "cumulative"])
}

fn exemplars(row: &Row<'_>) -> Vec<Exemplar> {
    row.list::<NumberDataPoint>(&schema::NUMBER_POINT, "exemplars", "exemplars").exemplars
}

fn number(row: &Row<'_>) -> Placed {
    let value = match row.some_int("value_int") {
        Some(number) => Some(number_data_point::Value::AsInt(number)),
        None => row.double("value").map(number_data_point::Value::AsDouble),
    };
    let data_points = vec![NumberDataPoint {
        attributes: row.attributes("attributes", "attributes_typed"),
        start_time_unix_nano: row.int("start_unix_nano") as u64,
        time_unix_nano: row.int("time_unix_nano") as u64,
        exemplars: exemplars(row),
        flags: row.int("flags") as u32,
        value,
    }];
    let Some(monotonic) = row.array("monotonic") else { return metric(row, Data::Gauge(Gauge { data_points })) };
    let is_monotonic = monotonic.as_boolean().value(row.1);
    metric(row, Data::Sum(Sum { data_points, aggregation_temporality: temporality(row), is_monotonic }))
}

fn histogram(row: &Row<'_>) -> Placed {
    match row.text("kind").as_str() {
        "histogram" => classic(row),
        "exponential_histogram" => exponential(row),
        _ => summary(row),
    }
}

fn classic(row: &Row<'_>) -> Placed {
    let data_points = vec![HistogramDataPoint {
        attributes: row.attributes("attributes", "attributes_typed"),
        start_time_unix_nano: row.int("start_unix_nano") as u64,
        time_unix_nano: row.int("time_unix_nano") as u64,
        count: row.int("count") as u64,
        sum: row.double("sum"),
        bucket_counts: row.ints("counts"),
        explicit_bounds: row.doubles("bounds"),
        exemplars: exemplars(row),
        flags: row.int("flags") as u32,
        min: row.double("min"),
        max: row.double("max"),
    }];
    metric(row, Data::Histogram(Histogram { data_points, aggregation_temporality: temporality(row) }))
}

fn exponential(row: &Row<'_>) -> Placed {
    let buckets = |offset: &str, counts: &str| {
        row.some_int(offset).map(|offset| Buckets { offset: offset as i32, bucket_counts: row.ints(counts) })
    };
    let data_points = vec![ExponentialHistogramDataPoint {
        attributes: row.attributes("attributes", "attributes_typed"),
        start_time_unix_nano: row.int("start_unix_nano") as u64,
        time_unix_nano: row.int("time_unix_nano") as u64,
        count: row.int("count") as u64,
        sum: row.double("sum"),
        scale: row.int("scale") as i32,
        zero_count: row.int("zero_count") as u64,
        positive: buckets("positive_offset", "positive_counts"),
        negative: buckets("negative_offset", "negative_counts"),
        flags: row.int("flags") as u32,
        exemplars: exemplars(row),
        min: row.double("min"),
        max: row.double("max"),
        zero_threshold: row.double("zero_threshold").unwrap(),
    }];
    let aggregation_temporality = temporality(row);
    metric(row, Data::ExponentialHistogram(ExponentialHistogram { data_points, aggregation_temporality }))
}

fn summary(row: &Row<'_>) -> Placed {
    let pairs = row.doubles("quantiles").into_iter().zip(row.doubles("quantile_values"));
    let data_points = vec![SummaryDataPoint {
        attributes: row.attributes("attributes", "attributes_typed"),
        start_time_unix_nano: row.int("start_unix_nano") as u64,
        time_unix_nano: row.int("time_unix_nano") as u64,
        count: row.int("count") as u64,
        sum: row.double("sum").unwrap(),
        quantile_values: pairs.map(|(quantile, value)| ValueAtQuantile { quantile, value }).collect(),
        flags: row.int("flags") as u32,
    }];
    metric(row, Data::Summary(Summary { data_points }))
}

/// A metric of each of its points.
fn split(metric: &Metric) -> Vec<Metric> {
    let one = |data| Metric { data: Some(data), ..metric.clone() };
    match metric.data.clone().unwrap() {
        Data::Gauge(Gauge { data_points }) => {
            data_points.into_iter().map(|point| one(Data::Gauge(Gauge { data_points: vec![point] }))).collect()
        }
        Data::Sum(sum) => sum
            .data_points
            .iter()
            .map(|point| one(Data::Sum(Sum { data_points: vec![point.clone()], ..sum.clone() })))
            .collect(),
        Data::Histogram(histogram) => histogram
            .data_points
            .iter()
            .map(|point| one(Data::Histogram(Histogram { data_points: vec![point.clone()], ..histogram.clone() })))
            .collect(),
        Data::ExponentialHistogram(histogram) => {
            let of = |point: &ExponentialHistogramDataPoint| {
                let data_points = vec![point.clone()];
                one(Data::ExponentialHistogram(ExponentialHistogram { data_points, ..histogram.clone() }))
            };
            histogram.data_points.iter().map(of).collect()
        }
        Data::Summary(Summary { data_points }) => {
            data_points.into_iter().map(|point| one(Data::Summary(Summary { data_points: vec![point] }))).collect()
        }
    }
}

#[test]
fn spans_come_back_as_they_were_sent() {
    let mut rng = StdRng::seed_from_u64(11);
    for round in 0..200 {
        let request = samples::traces(&mut rng);
        let mut expected = Vec::new();
        for group in &request.resource_spans {
            for scope in &group.scope_spans {
                let place = |item| placed(&group.resource, &group.schema_url, &scope.scope, &scope.schema_url, item);
                expected.extend(scope.spans.iter().map(place));
            }
        }
        let mut tables = tables(Signal::Traces, &request.encode_to_vec(), round % 2 == 1);
        assert_eq!(read(&mut tables.spans, span), expected, "round {round}");
    }
}

#[test]
fn log_records_come_back_as_they_were_sent() {
    let mut rng = StdRng::seed_from_u64(12);
    for round in 0..200 {
        let request = samples::logs(&mut rng);
        let mut expected = Vec::new();
        for group in &request.resource_logs {
            for scope in &group.scope_logs {
                let place = |item| placed(&group.resource, &group.schema_url, &scope.scope, &scope.schema_url, item);
                expected.extend(scope.log_records.iter().map(place));
            }
        }
        let mut tables = tables(Signal::Logs, &request.encode_to_vec(), round % 2 == 1);
        assert_eq!(read(&mut tables.logs, log), expected, "round {round}");
    }
}

#[test]
fn points_of_every_kind_come_back_as_they_were_sent() {
    let mut rng = StdRng::seed_from_u64(13);
    for round in 0..200 {
        let request = samples::metrics(&mut rng);
        let (mut numbers, mut histograms) = (Vec::new(), Vec::new());
        for group in &request.resource_metrics {
            for scope in &group.scope_metrics {
                for metric in scope.metrics.iter().flat_map(split) {
                    let item = placed(&group.resource, &group.schema_url, &scope.scope, &scope.schema_url, &metric);
                    match metric.data {
                        Some(Data::Gauge(_) | Data::Sum(_)) => numbers.push(item),
                        _ => histograms.push(item),
                    }
                }
            }
        }
        let mut tables = tables(Signal::Metrics, &request.encode_to_vec(), round % 2 == 1);
        assert_eq!(read(&mut tables.metrics, number), numbers, "round {round}");
        assert_eq!(read(&mut tables.histograms, histogram), histograms, "round {round}");
    }
}
