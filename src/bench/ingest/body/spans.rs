//! The spans of a sequence of bodies, in the order in which an emitter sends them.
//!
//! ```text
//! interleaved   step 1: a b c d   step 2: a b c d   …     calls go on from body to body; a call's request span is its last
//! by call       a: request, tokens   b: request, tokens …     calls end with their body; the last may be short
//! ```
//!
//! A call is 127 tokens and one `llm_request`, whoever sends them in whatever order.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use rand::{Rng, rngs::StdRng};
use telemetry::names;

use super::{CALL_SPANS, CALL_TOKENS, END_NS, Layout, START_NS, Shape};

/// Median and spread (σ of the logarithm) of the gap between tokens.
const GAP_NS_MEDIAN: f64 = 12e6;
const GAP_SIGMA: f64 = 0.25;

/// Time from a call's arrival to its first step.
const PREFILL_NS: u64 = 80_000_000;

/// The most by which a token leaves after the one before it in its step.
const STAGGER_NS_MAX: u64 = 20_000;

/// Most sequences of a step.
const BATCH_MAX: u64 = 48;

/// Share of steps that a prefill of another call holds up.
const HELD_UP: f64 = 0.02;

/// Who calls: one of these for each call.
const TENANTS: [&str; 8] = ["acme", "globex", "initech", "umbrella", "stark", "wayne", "tyrell", "cyberdyne"];

/// A span, and which of the sequence's spans it is.
pub(super) struct Drawn {
    pub(super) span: Span,
    /// Its call's number in the sequence.
    pub(super) call: u32,
    /// 0 is the call's request span; its tokens follow by their index.
    pub(super) place: u32,
}

/// The spans of each of `bodies` bodies, and how many calls there are in all of them.
pub(super) fn draw(shape: &Shape, bodies: usize, random: &mut StdRng) -> (Vec<Vec<Drawn>>, u32) {
    match shape.layout {
        Layout::Interleaved => interleaved(shape, bodies, random),
        Layout::ByCall => by_call(shape, bodies, random),
    }
}

fn by_call(shape: &Shape, bodies: usize, random: &mut StdRng) -> (Vec<Vec<Drawn>>, u32) {
    let mut calls = 0;
    let mut body = || {
        let mut drawn = Vec::with_capacity(shape.spans);
        while drawn.len() < shape.spans {
            call(random, calls, CALL_SPANS.min(shape.spans - drawn.len()), &mut drawn);
            calls += 1;
        }
        drawn
    };
    let drawn = (0..bodies).map(|_| body()).collect();
    (drawn, calls)
}

/// One call of `spans` spans that ends with its body, each token at a time and in a batch of its own.
fn call(random: &mut StdRng, call: u32, spans: usize, all: &mut Vec<Drawn>) {
    let tokens = spans - 1;
    let gaps: Vec<u64> = (0..tokens).map(|_| gap_ns(random)).collect();
    let total: u64 = gaps.iter().sum();
    let tenant = TENANTS[random.random_range(0..TENANTS.len())];
    let end = END_NS - 1;
    let arrival = end - total - PREFILL_NS;
    all.push(Drawn { span: request_span(tenant, tokens, arrival, end), call, place: 0 });
    let (mut start, mut left) = (arrival, arrival + PREFILL_NS);
    for (index, gap) in (0..).zip(gaps) {
        left += gap;
        let step = Step::draw(random, gap, index == 0);
        all.push(Drawn { span: token_span(tenant, index, &step, start, left), call, place: index + 1 });
        start = left;
    }
}

/// A call that is running.
struct Running {
    call: u32,
    tenant: &'static str,
    /// Index of its next token.
    next: u32,
    arrival: u64,
    /// When its token before left; its arrival at first.
    left: u64,
}

impl Running {
    fn new(random: &mut StdRng, call: u32, next: u32, now: u64) -> Self {
        let tenant = TENANTS[random.random_range(0..TENANTS.len())];
        Self { call, tenant, next, arrival: now, left: now }
    }
}

/// What a step gives all its tokens.
struct Step {
    batch: u64,
    device_us: u64,
    stall: &'static str,
}

impl Step {
    fn draw(random: &mut StdRng, gap: u64, prefill: bool) -> Self {
        let batch = random.random_range(1..=BATCH_MAX);
        let held_up = prefill || random.random_bool(HELD_UP);
        Self { batch, device_us: gap / 1_000 / batch, stall: if held_up { "prefill" } else { "decode" } }
    }
}

/// Steps of `shape.running` calls that began at different times; where one ends, the next begins.
fn interleaved(shape: &Shape, bodies: usize, random: &mut StdRng) -> (Vec<Vec<Drawn>>, u32) {
    let wanted = bodies * shape.spans;
    let mut now = START_NS;
    let mut calls = shape.running;
    let mut running: Vec<Running> = (0..shape.running)
        .map(|call| Running::new(random, call, call * CALL_TOKENS as u32 / shape.running, now))
        .collect();
    let mut drawn = Vec::with_capacity(wanted + 2 * running.len());
    while drawn.len() < wanted {
        let gap = gap_ns(random);
        now += gap;
        let step = Step::draw(random, gap, false);
        let mut left = now;
        for of in &mut running {
            left += random.random_range(1..=STAGGER_NS_MAX);
            let step = if of.next == 0 { &Step { stall: "prefill", ..step } } else { &step };
            let span = token_span(of.tenant, of.next, step, of.left, left);
            drawn.push(Drawn { span, call: of.call, place: of.next + 1 });
            (of.left, of.next) = (left, of.next + 1);
        }
        for of in running.iter_mut().filter(|of| of.next as usize == CALL_TOKENS) {
            let span = request_span(of.tenant, CALL_TOKENS, of.arrival, of.left);
            drawn.push(Drawn { span, call: of.call, place: 0 });
            *of = Running::new(random, calls, 0, left);
            calls += 1;
        }
        now = left;
    }
    drawn.truncate(wanted);
    let mut drawn = drawn.into_iter();
    ((0..bodies).map(|_| drawn.by_ref().take(shape.spans).collect()).collect(), calls)
}

/// A log-normal gap, by the sum of twelve uniforms (Irwin–Hall), which is near enough to a normal.
fn gap_ns(random: &mut StdRng) -> u64 {
    let normal: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    (GAP_NS_MEDIAN * (GAP_SIGMA * normal).exp()) as u64
}

fn request_span(tenant: &str, tokens: usize, start: u64, end: u64) -> Span {
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
            attribute(names::LATENCY_TTFT, seconds(PREFILL_NS)),
            attribute(names::LATENCY_E2E, seconds(end - start)),
        ],
        ..span(start, end)
    }
}

fn token_span(tenant: &str, index: u32, step: &Step, start: u64, end: u64) -> Span {
    Span {
        name: names::SPAN_TOKEN.into(),
        kind: SpanKind::Internal.into(),
        parent_span_id: vec![1; 8],
        attributes: vec![
            attribute(names::REQUEST_MODEL, text("llama-3.1-8b")),
            attribute(names::TENANT, text(tenant)),
            attribute(names::TOKEN_INDEX, Value::IntValue(i64::from(index))),
            attribute(names::TOKEN_BATCH, Value::IntValue(step.batch as i64)),
            attribute(names::TOKEN_DEVICE_US, Value::IntValue(step.device_us as i64)),
            attribute(names::TOKEN_STALL, text(step.stall)),
        ],
        ..span(start, end)
    }
}

fn span(start: u64, end: u64) -> Span {
    Span {
        trace_id: vec![1; 16],
        span_id: vec![1; 8],
        start_time_unix_nano: start,
        end_time_unix_nano: end,
        ..Span::default()
    }
}

pub(super) fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

pub(super) fn text(value: &str) -> Value {
    Value::StringValue(value.into())
}
