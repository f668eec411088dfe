//! Request bodies: encoded once, with fresh ids and times written over the old ones before each use.
//!
//! A request is a run of calls of 128 spans: one `llm_request` and its 127 tokens, gaps log-normal, batch size changing
//! from step to step. The tokens of a call stand one after the other, as an emitter that batches by call sends them; an engine
//! that sends a token of each running call per step mixes calls, which costs a collector more.

mod json;
mod protobuf;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, span::SpanKind};
use prost::Message;
use rand::{Rng, SeedableRng, rngs::StdRng};
use service::error::{Error, Result};
use telemetry::names;

use super::wire::Encoding;

/// Spans of one call: its request span and one per token.
pub(super) const CALL_SPANS: usize = 128;

/// Tokens of a full call.
pub(super) const CALL_TOKENS: usize = CALL_SPANS - 1;

/// Mean and spread (σ of the logarithm) of the gap between tokens.
const GAP_NS_MEDIAN: f64 = 12e6;
const GAP_SIGMA: f64 = 0.25;

/// Who calls: one of these for each call.
const TENANTS: [&str; 8] = ["acme", "globex", "initech", "umbrella", "stark", "wayne", "tyrell", "cyberdyne"];

/// Share of steps that a prefill of another call holds up.
const HELD_UP: f64 = 0.02;

/// An odd number near 2^64 divided by the golden ratio: multiplication by it permutes the 64-bit integers.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The end of a template, nanoseconds since the epoch: its times have as many digits as those that are written over them.
const END_NS: u64 = 1_900_000_000_000_000_000;

/// One encoded request and the places of its ids and times.
pub(in crate::bench) struct Body {
    bytes: Vec<u8>,
    encoding: Encoding,
    spans: Vec<Places>,
    calls: usize,
}

/// Byte offsets in a body that are written anew for each use, and the span's times before the end of the body.
#[derive(Clone, Copy, Default)]
struct Places {
    trace_id: usize,
    span_id: usize,
    parent_id: Option<usize>,
    start: usize,
    end: usize,
    start_ns: u64,
    end_ns: u64,
}

impl Body {
    /// A body of `spans` spans; the seed decides its gaps.
    ///
    /// # Errors
    /// `Internal` if the request cannot be encoded.
    pub(in crate::bench) fn new(spans: usize, seed: u64, encoding: Encoding) -> Result<Body> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut all = Vec::with_capacity(spans);
        while all.len() < spans {
            call(&mut random, CALL_SPANS.min(spans - all.len()), &mut all);
        }
        let times: Vec<_> = all.iter().map(|span| (span.start_time_unix_nano, span.end_time_unix_nano)).collect();
        let request = request(all);
        let (bytes, mut spans) = match encoding {
            Encoding::Protobuf => {
                let bytes = request.encode_to_vec();
                let spans = protobuf::spans(&bytes);
                (bytes, spans)
            }
            Encoding::Json => {
                let bytes = serde_json::to_vec(&request);
                let bytes = bytes.map_err(|error| Error::internal("encode a body").with_source(error))?;
                let spans = json::spans(&bytes);
                (bytes, spans)
            }
        };
        for (places, (start, end)) in spans.iter_mut().zip(times) {
            (places.start_ns, places.end_ns) = (END_NS - start, END_NS - end);
        }
        Ok(Body { calls: spans.len().div_ceil(CALL_SPANS), bytes, encoding, spans })
    }

    /// Calls in it: each use takes that many call numbers.
    pub(in crate::bench) fn calls(&self) -> usize {
        self.calls
    }

    /// Token spans in it.
    pub(in crate::bench) fn tokens(&self) -> usize {
        self.spans.len() - self.calls
    }

    /// Its bytes; ids and times are those of no call.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A copy with the ids of the calls `first…` of run `run`, ending at `end_ns`.
    pub(in crate::bench) fn fresh(&self, run: u64, first: u64, end_ns: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        self.renew(&mut bytes, run, first, end_ns);
        bytes
    }

    /// Puts such ids and times into a copy that may have been used before.
    pub(super) fn renew(&self, bytes: &mut [u8], run: u64, first: u64, end_ns: u64) {
        for (call, spans) in (first..).zip(self.spans.chunks(CALL_SPANS)) {
            let (trace_id, request_id) = (trace_id(run, call), span_id(call, 0));
            for (place, places) in (0..).zip(spans) {
                self.put(bytes, places.trace_id, &trace_id);
                self.put(bytes, places.span_id, &span_id(call, place));
                if let Some(parent) = places.parent_id {
                    self.put(bytes, parent, &request_id);
                }
                self.put_time(bytes, places.start, end_ns - places.start_ns);
                self.put_time(bytes, places.end, end_ns - places.end_ns);
            }
        }
    }

    fn put(&self, bytes: &mut [u8], at: usize, id: &[u8]) {
        match self.encoding {
            Encoding::Protobuf => bytes[at..][..id.len()].copy_from_slice(id),
            Encoding::Json => json::put_id(&mut bytes[at..], id),
        }
    }

    fn put_time(&self, bytes: &mut [u8], at: usize, ns: u64) {
        match self.encoding {
            Encoding::Protobuf => bytes[at..][..8].copy_from_slice(&ns.to_le_bytes()),
            Encoding::Json => json::put_time(&mut bytes[at..], ns),
        }
    }
}

/// Trace id of a call: the run, and the call's number scattered so that it looks random to an encoder.
fn trace_id(run: u64, call: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&call.wrapping_add(1).wrapping_mul(SCATTER).to_be_bytes());
    id[8..].copy_from_slice(&(run ^ call.wrapping_mul(SCATTER).rotate_left(17)).to_be_bytes());
    id
}

/// The call's number, from its trace id.
pub(super) fn call_of(trace_id: &str) -> Option<u64> {
    let scattered = u64::from_str_radix(trace_id.get(..16)?, 16).ok()?;
    Some(scattered.wrapping_mul(inverse(SCATTER)).wrapping_sub(1))
}

/// The multiplicative inverse modulo 2^64, by Newton's iteration.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut round = 0;
    while round < 6 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
        round += 1;
    }
    x
}

fn span_id(call: u64, place: u64) -> [u8; 8] {
    (call * CALL_SPANS as u64 + place + 1).wrapping_mul(SCATTER).to_be_bytes()
}

/// One call of `spans` spans; times are nanoseconds before the end of the body.
fn call(random: &mut StdRng, spans: usize, all: &mut Vec<Span>) {
    let tokens = spans - 1;
    let gaps: Vec<u64> = (0..tokens).map(|_| gap_ns(random)).collect();
    let total: u64 = gaps.iter().sum();
    let prefill = 80_000_000;
    let tenant = TENANTS[random.random_range(0..TENANTS.len())];
    all.push(request_span(tenant, tokens, total, prefill));
    let mut left = total;
    for (index, gap) in gaps.iter().enumerate() {
        let start = if index == 0 { total + prefill } else { left };
        left -= gap;
        let batch = random.random_range(1..=48);
        let held_up = index == 0 || random.random_bool(HELD_UP);
        let stall = if held_up { "prefill" } else { "decode" };
        all.push(Span {
            attributes: token(tenant, index, batch, gap / 1_000 / batch, stall),
            ..token_span(start, left)
        });
    }
}

/// A log-normal gap, by the sum of twelve uniforms (Irwin–Hall), which is near enough to a normal.
fn gap_ns(random: &mut StdRng) -> u64 {
    let normal: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    (GAP_NS_MEDIAN * (GAP_SIGMA * normal).exp()) as u64
}

fn request_span(tenant: &str, tokens: usize, decode_ns: u64, prefill_ns: u64) -> Span {
    let seconds = |ns: u64| Value::DoubleValue(ns as f64 / 1e9);
    Span {
        name: names::SPAN_REQUEST.into(),
        kind: SpanKind::Server.into(),
        parent_span_id: Vec::new(),
        attributes: vec![
            attribute(names::REQUEST_MODEL, text("llama-3.1-8b")),
            attribute(names::TENANT, text(tenant)),
            attribute(names::INPUT_TOKENS, Value::IntValue(512)),
            attribute(names::OUTPUT_TOKENS, Value::IntValue(tokens as i64)),
            attribute(names::LATENCY_TTFT, seconds(prefill_ns)),
            attribute(names::LATENCY_E2E, seconds(prefill_ns + decode_ns)),
        ],
        ..span(prefill_ns + decode_ns, 0)
    }
}

fn token(tenant: &str, index: usize, batch: u64, device_us: u64, stall: &str) -> Vec<KeyValue> {
    vec![
        attribute(names::REQUEST_MODEL, text("llama-3.1-8b")),
        attribute(names::TENANT, text(tenant)),
        attribute(names::TOKEN_INDEX, Value::IntValue(index as i64)),
        attribute(names::TOKEN_BATCH, Value::IntValue(batch as i64)),
        attribute(names::TOKEN_DEVICE_US, Value::IntValue(device_us as i64)),
        attribute(names::TOKEN_STALL, text(stall)),
    ]
}

fn token_span(start: u64, end: u64) -> Span {
    Span {
        name: names::SPAN_TOKEN.into(),
        kind: SpanKind::Internal.into(),
        parent_span_id: vec![1; 8],
        ..span(start, end)
    }
}

fn span(start: u64, end: u64) -> Span {
    Span {
        trace_id: vec![1; 16],
        span_id: vec![1; 8],
        start_time_unix_nano: END_NS - 1 - start,
        end_time_unix_nano: END_NS - 1 - end,
        ..Span::default()
    }
}

fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let resource = [
        (names::SERVICE_NAME, "bench"),
        (names::SERVICE_INSTANCE_ID, "bench-0"),
        (names::CLOUD_REGION, "us-east-1"),
        (names::CLOUD_ZONE, "us-east-1a"),
        (names::HOST_ID, "i-0bench"),
        (names::HOST_TYPE, "inf2.48xlarge"),
    ];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: resource.iter().map(|(key, value)| attribute(key, text(value))).collect(),
                ..Resource::default()
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope { name: "tokenwatt.bench".into(), ..Default::default() }),
                spans,
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn text(value: &str) -> Value {
    Value::StringValue(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fresh body decodes to spans with the new ids, ordered times, and as many tokens as it says.
    #[test]
    fn fresh_bodies_are_valid_and_never_repeat_an_id() {
        for encoding in [Encoding::Protobuf, Encoding::Json] {
            fresh_bodies_are_valid(&Body::new(512, 7, encoding).unwrap());
        }
    }

    fn fresh_bodies_are_valid(body: &Body) {
        let mut seen = std::collections::HashSet::new();
        let end_ns = 1_900_000_000_000_000_000;
        for round in 0..2 {
            let first = round * body.calls() as u64;
            let bytes = body.fresh(9, first, end_ns);
            let request: ExportTraceServiceRequest = match body.encoding {
                Encoding::Protobuf => Message::decode(bytes.as_slice()).unwrap(),
                Encoding::Json => serde_json::from_slice(&bytes).unwrap(),
            };
            let spans = &request.resource_spans[0].scope_spans[0].spans;
            assert_eq!(spans.len(), 512);
            assert_eq!(spans.iter().filter(|span| span.name == names::SPAN_TOKEN).count(), body.tokens());
            for (number, span) in spans.iter().enumerate() {
                assert!(seen.insert(span.span_id.clone()));
                assert!(span.start_time_unix_nano <= span.end_time_unix_nano && span.end_time_unix_nano < end_ns);
                let trace: String = span.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(call_of(&trace), Some(first + (number / CALL_SPANS) as u64));
            }
            assert_eq!(spans[1].parent_span_id, spans[0].span_id);
            assert_eq!(spans[1].trace_id, spans[0].trace_id);
        }
    }

    /// A request whose size is no multiple of a call ends in a short call.
    #[test]
    fn the_last_call_is_short() {
        let body = Body::new(1_000, 1, Encoding::Protobuf).unwrap();
        assert_eq!((body.calls(), body.tokens()), (8, 992));
    }
}
