//! Spans of calls and tokens, built from records.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use telemetry::names;

use super::{CallRecord, Origin, Outcome, StepRecord, TokenMark};
use crate::queue::Call;

/// Makes spans. Each call of a method makes new span ids for tokens.
pub(super) struct Spans {
    scope: InstrumentationScope,
    /// Attributes that all calls of a node share.
    fixed: Vec<KeyValue>,
    ids: StdRng,
}

impl Spans {
    pub(super) fn new(origin: &Origin) -> Self {
        let engine = &origin.engine;
        let mut fixed = vec![
            KeyValue::new(names::RESPONSE_MODEL, engine.model.clone()),
            KeyValue::new(names::ENGINE, engine.engine.clone()),
            KeyValue::new(names::TOKEN_SAMPLING, origin.token_sampling),
        ];
        let texts = [(names::ACCELERATOR, &engine.accelerator), (names::QUANTIZATION, &engine.quantization)];
        fixed.extend(texts.into_iter().filter_map(|(name, value)| Some(KeyValue::new(name, value.clone()?))));
        fixed.extend(engine.tensor_parallel.map(|degree| KeyValue::new(names::TENSOR_PARALLEL, i64::from(degree))));
        let scope = InstrumentationScope::builder("tokenwatt.node").with_version(env!("CARGO_PKG_VERSION")).build();
        Self { scope, fixed, ids: StdRng::from_os_rng() }
    }

    /// The span of a call.
    pub(super) fn call(&self, record: &CallRecord) -> SpanData {
        let call = &record.call;
        let mut attributes = self.fixed.clone();
        asked(call, &mut attributes);
        used(record, &mut attributes);
        latencies(record, &mut attributes);
        let status = match &record.outcome {
            Outcome::Complete => Status::Unset,
            Outcome::Cancelled => {
                attributes.push(KeyValue::new(names::ERROR_TYPE, "cancelled"));
                Status::error("the client went away")
            }
            Outcome::Failed(message) => {
                attributes.push(KeyValue::new(names::ERROR_TYPE, "engine_error"));
                Status::error(message.clone())
            }
        };
        SpanData {
            span_context: context(call.trace_id, SpanId::from(call.span_id)),
            parent_span_id: call.parent_span_id.map_or(SpanId::INVALID, SpanId::from),
            parent_span_is_remote: call.parent_span_id.is_some(),
            span_kind: SpanKind::Server,
            name: Cow::Borrowed(names::SPAN_REQUEST),
            start_time: time(call.arrival_ns),
            end_time: time(record.end_ns),
            attributes,
            status,
            ..self.empty()
        }
    }

    /// The spans of a step's tokens.
    pub(super) fn tokens(&mut self, step: StepRecord, spans: &mut Vec<SpanData>) {
        for mark in step.tokens {
            // A span id of 0 would be no id.
            let id = SpanId::from(self.ids.random_range(1..=u64::MAX));
            spans.push(SpanData {
                span_context: context(mark.call.trace_id, id),
                parent_span_id: SpanId::from(mark.call.span_id),
                span_kind: SpanKind::Internal,
                name: Cow::Borrowed(names::SPAN_TOKEN),
                start_time: time(mark.start_ns.min(step.end_ns)),
                end_time: time(step.end_ns),
                attributes: token(&mark, step.batch),
                ..self.empty()
            });
        }
    }

    fn empty(&self) -> SpanData {
        SpanData {
            span_context: SpanContext::NONE,
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: Cow::Borrowed(""),
            start_time: UNIX_EPOCH,
            end_time: UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

/// What the client asked for.
fn asked(call: &Call, attributes: &mut Vec<KeyValue>) {
    attributes.extend([
        KeyValue::new(names::OPERATION, call.operation),
        KeyValue::new(names::REQUEST_MODEL, Arc::clone(&call.model)),
        KeyValue::new(names::REQUEST_ID, call.id.clone()),
        KeyValue::new(names::RESPONSE_ID, call.id.clone()),
        KeyValue::new(names::REQUEST_STREAM, call.stream),
    ]);
    if let Some(tenant) = &call.tenant {
        attributes.push(KeyValue::new(names::TENANT, Arc::clone(tenant)));
    }
    let asked = &call.asked;
    attributes.extend(asked.max_tokens.map(|tokens| KeyValue::new(names::REQUEST_MAX_TOKENS, i64::from(tokens))));
    attributes.extend(asked.temperature.map(|value| KeyValue::new(names::REQUEST_TEMPERATURE, value)));
    attributes.extend(asked.top_p.map(|value| KeyValue::new(names::REQUEST_TOP_P, value)));
    attributes.extend(asked.choices.map(|choices| KeyValue::new(names::REQUEST_CHOICES, i64::from(choices))));
}

/// What the call used.
fn used(record: &CallRecord, attributes: &mut Vec<KeyValue>) {
    attributes.extend([
        KeyValue::new(names::INPUT_TOKENS, integer(record.call.input_tokens)),
        KeyValue::new(names::OUTPUT_TOKENS, integer(record.output_tokens)),
        KeyValue::new(names::DEVICE_US_PREFILL, integer(record.device_us_prefill)),
        KeyValue::new(names::DEVICE_US_DECODE, integer(record.device_us_decode)),
    ]);
    let reasons = record.finish.iter().flatten().map(|reason| StringValue::from(reason.name()));
    attributes.push(KeyValue::new(names::FINISH_REASONS, Value::Array(Array::String(reasons.collect()))));
}

/// How long each part took; what did not happen is not sent.
fn latencies(record: &CallRecord, attributes: &mut Vec<KeyValue>) {
    let arrival = Some(record.call.arrival_ns);
    let last = (record.output_tokens > 0 && record.outcome == Outcome::Complete).then_some(record.end_ns);
    for (name, from, until) in [
        (names::LATENCY_QUEUE, arrival, record.scheduled_ns),
        (names::LATENCY_PREFILL, record.scheduled_ns, record.first_ns),
        (names::LATENCY_TTFT, arrival, record.content_ns),
        (names::LATENCY_DECODE, record.first_ns, last),
        (names::LATENCY_INFERENCE, record.scheduled_ns, last),
        (names::LATENCY_E2E, arrival, Some(record.end_ns)),
    ] {
        if let (Some(from), Some(until)) = (from, until) {
            attributes.push(KeyValue::new(name, seconds(until - from)));
        }
    }
    attributes.extend(record.gap_max_ns.map(|gap| KeyValue::new(names::ITL_MAX, seconds(gap))));
}

fn token(mark: &TokenMark, batch: u32) -> Vec<KeyValue> {
    let mut attributes = Vec::with_capacity(7);
    attributes.extend([
        KeyValue::new(names::REQUEST_MODEL, Arc::clone(&mark.call.model)),
        KeyValue::new(names::TOKEN_INDEX, i64::from(mark.index)),
        KeyValue::new(names::TOKEN_CHOICE, i64::from(mark.choice)),
        KeyValue::new(names::TOKEN_BATCH, i64::from(batch)),
        KeyValue::new(names::TOKEN_DEVICE_US, integer(mark.device_us)),
        KeyValue::new(names::TOKEN_STALL, mark.stall.name()),
    ]);
    if let Some(tenant) = &mark.call.tenant {
        attributes.push(KeyValue::new(names::TENANT, Arc::clone(tenant)));
    }
    attributes
}

fn context(trace_id: u128, span_id: SpanId) -> SpanContext {
    SpanContext::new(TraceId::from(trace_id), span_id, TraceFlags::SAMPLED, false, TraceState::NONE)
}

fn time(ns: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
}

fn seconds(ns: i64) -> f64 {
    ns.max(0) as f64 / 1e9
}

fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
