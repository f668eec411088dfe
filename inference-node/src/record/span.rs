//! Spans of calls and tokens, built from records.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use telemetry::names;

use super::{CallRecord, Origin, Outcome, StepDetail, StepRecord, TokenMark};
use crate::queue::Call;
use crate::schedule::{Phase, StepKind};

/// Makes spans. Each call of a method makes new span ids for tokens.
pub(super) struct Spans {
    scope: InstrumentationScope,
    /// Attributes that all calls of a node share.
    fixed: Vec<KeyValue>,
    /// Whether cached prompt tokens are known.
    prefix_cache: bool,
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
        Self { scope, fixed, prefix_cache: engine.prefix_cache, ids: StdRng::from_os_rng() }
    }

    /// The span of a call.
    pub(super) fn call(&self, record: &CallRecord) -> SpanData {
        let call = &record.call;
        let mut attributes = self.fixed.clone();
        asked(call, &mut attributes);
        used(record, &mut attributes);
        if self.prefix_cache {
            attributes.push(KeyValue::new(names::CACHED_INPUT_TOKENS, integer(record.cached_tokens)));
        }
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
            Outcome::Expired => {
                attributes.push(KeyValue::new(names::ERROR_TYPE, "deadline_exceeded"));
                Status::error("the call's deadline passed")
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

    /// The spans of a call's phases.
    pub(super) fn phases(&mut self, record: &CallRecord, spans: &mut Vec<SpanData>) {
        let call = &record.call;
        let tenant = call.tenant.as_ref().map(|tenant| KeyValue::new(names::TENANT, Arc::clone(tenant)));
        for (name, begin, end) in record.phases() {
            let id = self.span_id();
            spans.push(SpanData {
                span_context: context(call.trace_id, id),
                parent_span_id: SpanId::from(call.span_id),
                name: Cow::Borrowed(name),
                start_time: time(begin.min(end)),
                end_time: time(end),
                attributes: tenant.iter().cloned().collect(),
                ..self.empty()
            });
        }
    }

    /// The spans of a step's tokens, and of the step itself.
    pub(super) fn step(&mut self, step: StepRecord, spans: &mut Vec<SpanData>) {
        if let Some(detail) = &step.detail {
            // Ids of 0 would be none.
            let trace_id = self.ids.random_range(1..=u128::MAX);
            let id = SpanId::from(self.ids.random_range(1..=u64::MAX));
            let mut links = SpanLinks::default();
            links.links = detail
                .calls
                .iter()
                .map(|(trace, span)| Link::with_context(context(*trace, SpanId::from(*span))))
                .collect();
            spans.push(SpanData {
                span_context: context(trace_id, id),
                name: Cow::Borrowed(names::SPAN_STEP),
                start_time: time(detail.start_ns.min(step.end_ns)),
                end_time: time(step.end_ns),
                attributes: detailed(detail),
                links,
                ..self.empty()
            });
        }
        for mark in step.tokens {
            let id = self.span_id();
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

    /// A new id; 0 would be none.
    pub(super) fn span_id(&mut self) -> SpanId {
        SpanId::from(self.ids.random_range(1..=u64::MAX))
    }

    pub(super) fn empty(&self) -> SpanData {
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

fn detailed(detail: &StepDetail) -> Vec<KeyValue> {
    let plan = &detail.plan;
    let prompts = plan.work.iter().filter(|work| work.phase == Phase::Prefill);
    let (prompts, prompt_tokens) = prompts.fold((0, 0), |(count, sum), work| (count + 1, sum + work.tokens));
    let decoders = u32::try_from(plan.work.len()).unwrap_or(u32::MAX).saturating_sub(prompts);
    let whole = plan.kind == StepKind::Prefill;
    let mut attributes = vec![KeyValue::new(names::STEP_KIND, plan.kind.name())];
    let numbers: [(&'static str, u64); 14] = [
        (names::STEP_NUMBER, detail.number),
        (names::STEP_ACTIVE, plan.work.len() as u64),
        (names::STEP_COMPILED, plan.compiled.into()),
        (names::STEP_BUCKET, plan.bucket.into()),
        (names::STEP_PADDING_TOKENS, plan.padding.into()),
        (names::STEP_TOKENS, plan.tokens().into()),
        // As the step's time depends on them: padding included.
        (names::STEP_PREFILL_TOKENS, (prompt_tokens + if whole { plan.padding } else { 0 }).into()),
        (names::STEP_DECODE_SLOTS, if plan.kind == StepKind::Decode { plan.compiled } else { decoders }.into()),
        (names::STEP_CONTEXT, if decoders == 0 { 0 } else { plan.bucket }.into()),
        (names::STEP_DEVICE_US, detail.device_us),
        (names::STEP_PADDING_US, detail.padding_us),
        (names::STEP_BLOCKS, detail.blocks.total.into()),
        (names::STEP_BLOCKS_FREE, detail.blocks.free.into()),
        (names::STEP_WAITING, detail.load.waiting.into()),
    ];
    attributes.extend(numbers.map(|(name, value)| KeyValue::new(name, integer(value))));
    attributes.extend(detail.budget.map(|tokens| KeyValue::new(names::STEP_BUDGET, i64::from(tokens))));
    let hosts = [names::STEP_SCHEDULE_NS, names::STEP_EXECUTE_NS, names::STEP_WAIT_NS, names::STEP_DELIVER_NS];
    let parts = hosts.into_iter().zip(detail.host.parts());
    attributes.extend(parts.map(|(name, (_, ns))| KeyValue::new(name, integer(ns))));
    if !plan.preempted.is_empty() {
        let lost: u64 = plan.preempted.iter().map(|preempted| u64::from(preempted.lost)).sum();
        attributes.push(KeyValue::new(names::STEP_PREEMPTED, integer(plan.preempted.len() as u64)));
        attributes.push(KeyValue::new(names::STEP_LOST_TOKENS, integer(lost)));
    }
    attributes
}

pub(super) fn context(trace_id: u128, span_id: SpanId) -> SpanContext {
    SpanContext::new(TraceId::from(trace_id), span_id, TraceFlags::SAMPLED, false, TraceState::NONE)
}

pub(super) fn time(ns: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
}

pub(super) fn seconds(ns: i64) -> f64 {
    ns.max(0) as f64 / 1e9
}

pub(super) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
