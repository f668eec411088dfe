//! Samples of engine and chips as OTLP metrics.

use opentelemetry::{KeyValue, Value};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{self as common, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric,
    number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use telemetry::names;

use super::processor::Processors;
use super::{Origin, ProxyLoad};
use crate::engine::Devices;
use crate::step::{HostTime, KINDS, Taken};

/// Makes metrics of samples.
pub(super) struct Metrics {
    resource: Resource,
    scope: common::InstrumentationScope,
    /// Attributes of the engine's own points.
    engine: Vec<common::KeyValue>,
    /// Attributes of each chip's points.
    chips: Vec<Vec<common::KeyValue>>,
    devices: Option<Devices>,
    processors: Option<Processors>,
    start_ns: u64,
}

/// Which part of an accelerator's power the modelled watts cover.
const BOUNDARY: &str = "chip";

impl Metrics {
    /// `start_ns` is when the cumulative counters were 0.
    pub(super) fn new(
        origin: &Origin,
        devices: Option<Devices>,
        processors: Option<Processors>,
        start_ns: i64,
    ) -> Self {
        let model = text(names::REQUEST_MODEL, &origin.engine.model);
        let engine = vec![text(names::HW_ID, &origin.instance), text(names::HW_TYPE, "engine"), model.clone()];
        let chip = |devices: &Devices, index: u32| {
            vec![
                text(names::HW_ID, &format!("{}{}", devices.name, devices.first + index)),
                // OpenTelemetry has no other type for an accelerator; vendor and model tell it from a GPU.
                text(names::HW_TYPE, "gpu"),
                text(names::HW_VENDOR, &devices.vendor),
                text(names::HW_MODEL, &devices.model),
                model.clone(),
            ]
        };
        let chips = devices.iter().flat_map(|devices| (0..devices.count).map(move |index| chip(devices, index)));
        Self {
            resource: Resource { attributes: origin.attributes.iter().map(attribute).collect(), ..Resource::default() },
            scope: common::InstrumentationScope {
                name: "tokenwatt.node".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..common::InstrumentationScope::default()
            },
            engine,
            chips: chips.collect(),
            devices,
            processors,
            start_ns: u64::try_from(start_ns).unwrap_or(0),
        }
    }

    /// One export request for a sample.
    pub(super) fn request(&mut self, taken: &Taken) -> ExportMetricsServiceRequest {
        let mut metrics = self.of_engine(taken);
        metrics.extend(self.of_chips(taken));
        metrics.extend(self.of_processors(taken.now.time_ns));
        self.export(metrics)
    }

    /// One export request for a proxy: what the engine has to do, and what the processors used; `None` if nobody here knows either.
    pub(super) fn of_load(&mut self, load: &ProxyLoad) -> Option<ExportMetricsServiceRequest> {
        let mut metrics = self.of_processors(load.time_ns);
        if let Some(calls) = &load.calls {
            let point = |count: u32| vec![self.point_at(load.time_ns, &self.engine, whole(count.into()))];
            metrics.push(gauge(names::ENGINE_RUNNING, "{request}", point(calls.running)));
            metrics.push(gauge(names::ENGINE_WAITING, "{request}", point(calls.waiting)));
        }
        (!metrics.is_empty()).then(|| self.export(metrics))
    }

    fn export(&self, metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
        let scope = ScopeMetrics { scope: Some(self.scope.clone()), metrics, schema_url: String::new() };
        let resource = ResourceMetrics {
            resource: Some(self.resource.clone()),
            scope_metrics: vec![scope],
            schema_url: String::new(),
        };
        ExportMetricsServiceRequest { resource_metrics: vec![resource] }
    }

    fn of_engine(&self, taken: &Taken) -> Vec<Metric> {
        let now = &taken.now;
        let point = |value| vec![self.point(taken, &self.engine, value)];
        let mut metrics = self.of_steps(taken);
        metrics.extend([
            counter(names::ENGINE_PREEMPTIONS, "{request}", point(whole(now.totals.scheduler.preemptions))),
            counter(names::ENGINE_PREFIX_QUERIES, "{token}", point(whole(now.totals.scheduler.prefix_queries))),
            counter(names::ENGINE_PREFIX_HITS, "{token}", point(whole(now.totals.scheduler.prefix_hits))),
            counter(names::ENGINE_LOST_TOKENS, "{token}", point(whole(now.totals.scheduler.lost_tokens))),
            counter(names::ENGINE_COMPUTED_TOKENS, "{token}", point(whole(now.totals.computed_tokens))),
            counter(names::ENGINE_PADDING_TOKENS, "{token}", point(whole(now.totals.padding_tokens))),
            counter(names::ENGINE_BUSY_US, "us", point(whole(now.busy_us))),
            counter(names::ENGINE_PADDING_US, "us", point(whole(now.padding_us))),
            gauge(names::ENGINE_RUNNING, "{request}", point(whole(now.load.running.into()))),
            gauge(names::ENGINE_WAITING, "{request}", point(whole(now.load.waiting.into()))),
            gauge(names::ENGINE_KV_USAGE, "1", point(real(now.load.kv_usage))),
        ]);
        if now.blocks.total > 0 {
            metrics.push(gauge(names::ENGINE_BLOCKS, "{block}", point(whole(now.blocks.total.into()))));
            metrics.push(gauge(names::ENGINE_BLOCKS_FREE, "{block}", point(whole(now.blocks.free.into()))));
        }
        metrics
    }

    /// Counts by kind of step and part of the host's time.
    fn of_steps(&self, taken: &Taken) -> Vec<Metric> {
        let totals = &taken.now.totals;
        let labelled = |label: &str, value: &str, count: u64| {
            let attributes: Vec<_> = self.engine.iter().cloned().chain([text(label, value)]).collect();
            self.point(taken, &attributes, whole(count))
        };
        let kinds = KINDS.iter().zip(totals.steps).map(|(kind, count)| labelled(names::STEP_KIND, kind.name(), count));
        let parts = HostTime::default().parts().into_iter().zip(totals.host_us);
        let parts = parts.map(|((part, _), us)| labelled(names::HOST_PART, part, us));
        vec![
            counter(names::ENGINE_STEPS, "{step}", kinds.collect()),
            counter(names::ENGINE_HOST_US, "us", parts.collect()),
        ]
    }

    fn of_chips(&self, taken: &Taken) -> Vec<Metric> {
        let Some(devices) = &self.devices else { return Vec::new() };
        let points = |value: number_data_point::Value, more: &[common::KeyValue]| {
            let point = |chip: &Vec<common::KeyValue>| {
                let attributes: Vec<_> = chip.iter().chain(more).cloned().collect();
                self.point(taken, &attributes, value)
            };
            self.chips.iter().map(point).collect::<Vec<_>>()
        };
        let modelled = [
            text(names::ENERGY_METHOD, "load_curve"),
            text(names::BOUNDARY, BOUNDARY),
            text(names::CONFIDENCE, "assumed"),
        ];
        let executing = [text(names::UTILIZATION_KIND, "executing")];
        let mut metrics = Vec::new();
        metrics.extend(taken.power_w.map(|watts| gauge(names::HW_POWER, "W", points(real(watts), &modelled))));
        metrics
            .extend(taken.now.energy_j.map(|joules| counter(names::HW_ENERGY, "J", points(real(joules), &modelled))));
        metrics.extend(taken.executing.map(|share| gauge(names::HW_UTILIZATION, "1", points(real(share), &executing))));
        for (name, bytes) in
            [(names::HW_MEMORY_USAGE, devices.memory_used_bytes), (names::HW_MEMORY_LIMIT, devices.memory_total_bytes)]
        {
            metrics.extend(bytes.map(|bytes| gauge(name, "By", points(whole(bytes), &[]))));
        }
        metrics
    }

    /// What the processors under a `cpu` engine used, by their own counters.
    fn of_processors(&mut self, time_ns: i64) -> Vec<Metric> {
        let used = self.processors.as_mut().map(|processors| processors.read(time_ns)).unwrap_or_default();
        let (mut energy, mut power) = (Vec::new(), Vec::new());
        for used in used {
            let attributes = [
                text(names::HW_ID, &used.zone),
                text(names::HW_TYPE, "host"),
                text(names::ENERGY_METHOD, "energy_counter"),
                text(names::BOUNDARY, used.boundary),
                text(names::CONFIDENCE, "measured"),
            ];
            energy.push(self.point_at(time_ns, &attributes, real(used.joules)));
            power.extend(used.watts.map(|watts| self.point_at(time_ns, &attributes, real(watts))));
        }
        let mut metrics = Vec::new();
        if !energy.is_empty() {
            metrics.push(counter(names::HW_ENERGY, "J", energy));
        }
        if !power.is_empty() {
            metrics.push(gauge(names::HW_POWER, "W", power));
        }
        metrics
    }

    /// A point at the sample's time, cut to the microsecond as tokens are.
    fn point(
        &self,
        taken: &Taken,
        attributes: &[common::KeyValue],
        value: number_data_point::Value,
    ) -> NumberDataPoint {
        self.point_at(taken.now.time_ns, attributes, value)
    }

    fn point_at(
        &self,
        time_ns: i64,
        attributes: &[common::KeyValue],
        value: number_data_point::Value,
    ) -> NumberDataPoint {
        NumberDataPoint {
            attributes: attributes.to_vec(),
            start_time_unix_nano: self.start_ns,
            time_unix_nano: u64::try_from(time_ns).unwrap_or(0),
            value: Some(value),
            ..NumberDataPoint::default()
        }
    }
}

fn gauge(name: &str, unit: &str, data_points: Vec<NumberDataPoint>) -> Metric {
    metric(name, unit, metric::Data::Gauge(Gauge { data_points }))
}

fn counter(name: &str, unit: &str, data_points: Vec<NumberDataPoint>) -> Metric {
    let aggregation_temporality = AggregationTemporality::Cumulative.into();
    metric(name, unit, metric::Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic: true }))
}

fn metric(name: &str, unit: &str, data: metric::Data) -> Metric {
    Metric { name: name.to_owned(), unit: unit.to_owned(), data: Some(data), ..Metric::default() }
}

fn whole(value: u64) -> number_data_point::Value {
    number_data_point::Value::AsInt(i64::try_from(value).unwrap_or(i64::MAX))
}

fn real(value: f64) -> number_data_point::Value {
    number_data_point::Value::AsDouble(value)
}

fn text(key: &str, value: &str) -> common::KeyValue {
    pair(key, any_value::Value::StringValue(value.to_owned()))
}

fn pair(key: &str, value: any_value::Value) -> common::KeyValue {
    common::KeyValue {
        key: key.to_owned(),
        value: Some(common::AnyValue { value: Some(value) }),
        ..common::KeyValue::default()
    }
}

/// A resource attribute; they are texts and whole numbers.
fn attribute(attribute: &KeyValue) -> common::KeyValue {
    let value = match &attribute.value {
        Value::I64(value) => any_value::Value::IntValue(*value),
        value => any_value::Value::StringValue(value.as_str().into_owned()),
    };
    pair(attribute.key.as_str(), value)
}
