//! A recorded call as an OpenTelemetry span.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use telemetry::names;

use super::Record;
use crate::config::Identity;

/// HTTP status that the client got; OpenTelemetry's name.
const HTTP_STATUS: &str = "http.response.status_code";
/// Address of the node; OpenTelemetry's name.
const SERVER_ADDRESS: &str = "server.address";

/// The span; `None` for a record without a place in a trace, which is no call.
pub(super) fn of(record: &Record) -> Option<SpanData> {
    let place = record.place?;
    let start = UNIX_EPOCH + Duration::from_nanos(u64::try_from(record.started_ns).unwrap_or(0));
    let context = SpanContext::new(
        TraceId::from_bytes(place.trace_id),
        SpanId::from_bytes(place.span_id),
        TraceFlags::new(place.flags),
        false,
        TraceState::NONE,
    );
    Some(SpanData {
        span_context: context,
        parent_span_id: place.parent.map_or(SpanId::INVALID, SpanId::from_bytes),
        parent_span_is_remote: place.parent.is_some(),
        span_kind: SpanKind::Client,
        name: names::SPAN_REQUEST.into(),
        start_time: start,
        end_time: end(start, record.e2e),
        attributes: attributes(record),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: record.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: InstrumentationScope::builder("tokenwatt.gateway")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    })
}

fn end(start: SystemTime, e2e: Duration) -> SystemTime {
    start.checked_add(e2e).unwrap_or(start)
}

fn attributes(record: &Record) -> Vec<KeyValue> {
    let mut list = List(Vec::with_capacity(24));
    list.text(names::MEASURED_AT, Some("gateway"));
    list.text(names::OPERATION, Some(record.operation));
    list.text(names::TENANT, record.tenant.as_deref());
    asked(record, &mut list);
    let seen = &record.seen;
    list.text(names::RESPONSE_MODEL, seen.model.as_deref());
    list.text(names::RESPONSE_ID, seen.id.as_deref());
    if !seen.finish_reasons.is_empty() {
        let reasons: Vec<StringValue> = seen.finish_reasons.iter().map(|reason| reason.clone().into()).collect();
        list.push(names::FINISH_REASONS, Value::Array(Array::String(reasons)));
    }
    list.seconds(names::LATENCY_TTFT, seen.first_content);
    list.seconds(names::LATENCY_E2E, Some(record.e2e));
    tokens(record, &mut list);
    list.text(names::ERROR_TYPE, record.error);
    list.int(HTTP_STATUS, (record.status > 0).then_some(i64::from(record.status)));
    list.text(SERVER_ADDRESS, record.node.as_ref().map(|(url, _)| url.as_str()));
    list.int(names::GATEWAY_ATTEMPTS, Some(i64::from(record.attempts)));
    list.0
}

fn asked(record: &Record, list: &mut List) {
    let asked = &record.asked;
    list.text(names::REQUEST_MODEL, asked.model.as_deref());
    list.int(names::REQUEST_MAX_TOKENS, asked.max_completion_tokens.or(asked.max_tokens));
    list.double(names::REQUEST_TEMPERATURE, asked.temperature);
    list.double(names::REQUEST_TOP_P, asked.top_p);
    list.int(names::REQUEST_CHOICES, asked.n);
    list.push(names::REQUEST_STREAM, Value::Bool(asked.stream.unwrap_or(false)));
}

/// What the node says about tokens; where it says nothing, the frames with content are counted and labelled so.
fn tokens(record: &Record, list: &mut List) {
    let seen = &record.seen;
    if let Some(usage) = &seen.usage {
        let int = |tokens: u64| i64::try_from(tokens).ok();
        let cached = usage.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens);
        let reasoning = usage.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
        list.int(names::INPUT_TOKENS, int(usage.prompt_tokens));
        list.int(names::OUTPUT_TOKENS, int(usage.completion_tokens));
        list.int(names::CACHED_INPUT_TOKENS, cached.and_then(int));
        list.int(names::REASONING_TOKENS, reasoning.and_then(int));
        list.text(names::OUTPUT_TOKENS_SOURCE, Some("usage"));
    } else if let Some(frames) = seen.content_frames {
        list.int(names::OUTPUT_TOKENS, i64::try_from(frames).ok());
        list.text(names::OUTPUT_TOKENS_SOURCE, Some("chunks"));
    }
}

/// Attributes; what is unknown is left out.
struct List(Vec<KeyValue>);

impl List {
    fn push(&mut self, name: &'static str, value: Value) {
        self.0.push(KeyValue::new(name, value));
    }

    fn text(&mut self, name: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.push(name, Value::String(value.to_owned().into()));
        }
    }

    fn int(&mut self, name: &'static str, value: Option<i64>) {
        if let Some(value) = value {
            self.push(name, Value::I64(value));
        }
    }

    fn double(&mut self, name: &'static str, value: Option<f64>) {
        if let Some(value) = value {
            self.push(name, Value::F64(value));
        }
    }

    fn seconds(&mut self, name: &'static str, value: Option<Duration>) {
        self.double(name, value.map(|value| value.as_secs_f64()));
    }
}

/// Resource attributes of records of one region.
pub(super) fn resource(identity: &Identity, region: &str) -> Resource {
    let known = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let attributes = [
        (names::SERVICE_NAME, Some(identity.service.clone())),
        (names::SERVICE_VERSION, Some(env!("CARGO_PKG_VERSION").to_owned())),
        (names::SERVICE_INSTANCE_ID, known(&identity.instance)),
        (names::CLOUD_REGION, known(&Some(region.to_owned()))),
        (names::CLOUD_ZONE, known(&identity.zone)),
        (names::ENVIRONMENT, known(&identity.environment)),
        (names::K8S_CLUSTER, known(&identity.cluster)),
        (names::K8S_NAMESPACE, known(&identity.namespace)),
    ];
    let attributes = attributes.into_iter().filter_map(|(name, value)| Some(KeyValue::new(name, value?)));
    Resource::builder_empty().with_attributes(attributes).build()
}
