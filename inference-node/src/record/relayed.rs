//! Spans of calls that went through the proxy.

use std::borrow::Cow;
use std::sync::Arc;

use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::SpanData;
use telemetry::names;

use super::span::{Spans, context, integer, seconds, time};
use crate::proxy::{Asked, End, Mark, Relayed};

impl Spans {
    /// Adds the spans of a call's chunks, and of the call itself at its end.
    pub(super) fn relayed(&mut self, relayed: &Relayed, spans: &mut Vec<SpanData>) {
        for mark in &relayed.marks {
            let id = self.span_id();
            spans.push(SpanData {
                span_context: context(relayed.asked.trace_id, id),
                parent_span_id: SpanId::from(relayed.asked.span_id),
                span_kind: SpanKind::Internal,
                name: Cow::Borrowed(names::SPAN_TOKEN),
                start_time: time(mark.start_ns),
                end_time: time(mark.end_ns),
                attributes: chunk(&relayed.asked, mark),
                ..self.empty()
            });
        }
        if let Some(end) = &relayed.end {
            spans.push(self.relayed_call(&relayed.asked, end));
        }
    }

    fn relayed_call(&self, asked: &Asked, end: &End) -> SpanData {
        let mut attributes = vec![
            KeyValue::new(names::ENGINE, asked.engine),
            KeyValue::new(names::MEASURED_AT, asked.measured_at),
            KeyValue::new(names::TTFT_DEFINITION, "first_content_chunk"),
        ];
        of_request(asked, &mut attributes);
        of_answer(end, &mut attributes);
        of_time(asked, end, &mut attributes);
        let status = match end.error {
            None => Status::Unset,
            Some(kind) => {
                attributes.push(KeyValue::new(names::ERROR_TYPE, kind));
                Status::error(end.message.clone().unwrap_or_default())
            }
        };
        SpanData {
            span_context: context(asked.trace_id, SpanId::from(asked.span_id)),
            parent_span_id: asked.parent_span_id.map_or(SpanId::INVALID, SpanId::from),
            parent_span_is_remote: asked.parent_span_id.is_some(),
            span_kind: SpanKind::Server,
            name: Cow::Borrowed(names::SPAN_REQUEST),
            start_time: time(asked.arrival_ns),
            end_time: time(end.end_ns),
            attributes,
            status,
            ..self.empty()
        }
    }
}

fn of_request(asked: &Asked, attributes: &mut Vec<KeyValue>) {
    attributes.push(KeyValue::new(names::OPERATION, asked.operation));
    attributes.push(KeyValue::new(names::REQUEST_STREAM, asked.stream));
    attributes.extend(asked.model.as_ref().map(|model| KeyValue::new(names::REQUEST_MODEL, Arc::clone(model))));
    attributes.extend(asked.tenant.as_ref().map(|tenant| KeyValue::new(names::TENANT, Arc::clone(tenant))));
    attributes.extend(asked.max_tokens.map(|tokens| KeyValue::new(names::REQUEST_MAX_TOKENS, tokens)));
    attributes.extend(asked.temperature.map(|value| KeyValue::new(names::REQUEST_TEMPERATURE, value)));
    attributes.extend(asked.top_p.map(|value| KeyValue::new(names::REQUEST_TOP_P, value)));
    attributes.extend(asked.choices.map(|choices| KeyValue::new(names::REQUEST_CHOICES, choices)));
}

/// What the answer says of itself; what it does not say is not sent.
fn of_answer(end: &End, attributes: &mut Vec<KeyValue>) {
    let said = &end.said;
    for (name, text) in
        [(names::RESPONSE_MODEL, &said.model), (names::REQUEST_ID, &said.id), (names::RESPONSE_ID, &said.id)]
    {
        attributes.extend(text.clone().map(|text| KeyValue::new(name, text)));
    }
    for (name, tokens) in [
        (names::INPUT_TOKENS, said.input_tokens),
        (names::CACHED_INPUT_TOKENS, said.cached_tokens),
        (names::OUTPUT_TOKENS, said.output_tokens),
        (names::REASONING_TOKENS, said.reasoning_tokens),
    ] {
        attributes.extend(tokens.map(|tokens| KeyValue::new(name, integer(tokens))));
    }
    attributes.extend(end.counted.map(|counted| KeyValue::new(names::OUTPUT_TOKENS_SOURCE, counted.name())));
    attributes.push(KeyValue::new(names::TOKEN_SAMPLING, if end.sampled { 1.0 } else { 0.0 }));
    if !said.finish_reasons.is_empty() {
        let reasons = said.finish_reasons.iter().cloned().map(StringValue::from);
        attributes.push(KeyValue::new(names::FINISH_REASONS, Value::Array(Array::String(reasons.collect()))));
    }
}

fn of_time(asked: &Asked, end: &End, attributes: &mut Vec<KeyValue>) {
    let arrival = Some(asked.arrival_ns);
    for (name, from, until) in [
        (names::LATENCY_QUEUE, arrival, end.dispatched_ns),
        (names::LATENCY_TTFT, arrival, end.first_ns),
        (names::LATENCY_DECODE, end.first_ns, end.first_ns.and(end.error.is_none().then_some(end.end_ns))),
        (names::LATENCY_E2E, arrival, Some(end.end_ns)),
    ] {
        if let (Some(from), Some(until)) = (from, until) {
            attributes.push(KeyValue::new(name, seconds(until - from)));
        }
    }
    attributes.extend(end.gap_max_ns.map(|gap| KeyValue::new(names::ITL_MAX, seconds(gap))));
}

fn chunk(asked: &Asked, mark: &Mark) -> Vec<KeyValue> {
    let mut attributes = Vec::with_capacity(5);
    attributes.extend([
        KeyValue::new(names::TOKEN_INDEX, i64::from(mark.index)),
        KeyValue::new(names::TOKEN_CHOICE, i64::from(mark.choice)),
        KeyValue::new(names::TOKEN_COUNT, i64::from(mark.count)),
    ]);
    attributes.extend(asked.model.as_ref().map(|model| KeyValue::new(names::REQUEST_MODEL, Arc::clone(model))));
    attributes.extend(asked.tenant.as_ref().map(|tenant| KeyValue::new(names::TENANT, Arc::clone(tenant))));
    attributes
}
