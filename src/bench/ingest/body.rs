//! Request bodies: encoded once, with fresh ids and times written over the old ones before each use.
//!
//! Spans come as an engine sends them, a token of each running call per step, or call by call ([`Layout`]). A call is one
//! `llm_request` and its 127 tokens, gaps log-normal, batch size changing from step to step.

mod json;
mod protobuf;
mod spans;

use std::sync::Arc;

use clap::ValueEnum;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use rand::{SeedableRng, rngs::StdRng};
use service::error::{Error, Result};
use telemetry::names;

use super::wire::Encoding;
use spans::{Drawn, attribute, text};

/// Spans of one call: its request span and one per token.
pub(super) const CALL_SPANS: usize = 128;

/// Tokens of a full call.
pub(super) const CALL_TOKENS: usize = CALL_SPANS - 1;

/// An odd number near 2^64 divided by the golden ratio: multiplication by it permutes the 64-bit integers.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// When a sequence begins, and an end that none comes to, nanoseconds since the epoch: times between them have as many digits
/// as those that are written over them.
const START_NS: u64 = 1_800_000_000_000_000_000;
const END_NS: u64 = 1_900_000_000_000_000_000;

/// In which order spans are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::bench) enum Layout {
    /// A token of each running call per step, as an engine with continuous batching sends them.
    Interleaved,
    /// A call's tokens one after the other, as an emitter sends them that keeps them until the call is over.
    ByCall,
}

/// What bodies are like.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Shape {
    pub(in crate::bench) layout: Layout,
    /// Calls that run at a time, where they are interleaved.
    pub(in crate::bench) running: u32,
    /// Spans of a body.
    pub(in crate::bench) spans: usize,
    pub(in crate::bench) encoding: Encoding,
}

/// Bodies that follow one another. Calls go on from one to the next, so each use of the whole takes one stretch of call numbers.
pub(in crate::bench) struct Sequence {
    pub(in crate::bench) bodies: Vec<Body>,
    calls: u64,
}

impl Sequence {
    /// So many bodies; the seed decides their gaps and tenants.
    ///
    /// # Errors
    /// `Internal` if a request cannot be encoded.
    pub(in crate::bench) fn new(shape: &Shape, bodies: usize, seed: u64) -> Result<Sequence> {
        let (drawn, calls) = spans::draw(shape, bodies, &mut StdRng::seed_from_u64(seed));
        let bodies = drawn.into_iter().map(|drawn| Body::new(drawn, shape.encoding)).collect::<Result<_>>()?;
        Ok(Sequence { bodies, calls: u64::from(calls) })
    }

    /// Calls in it: each use takes that many call numbers.
    pub(in crate::bench) fn calls(&self) -> u64 {
        self.calls
    }
}

/// Tokens of one call: a bit for each by its index. The call's number counts from the first of its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) call: u32,
    pub(super) tokens: u128,
}

/// One encoded request and the places of its ids and times.
pub(in crate::bench) struct Body {
    bytes: Vec<u8>,
    encoding: Encoding,
    spans: Vec<Places>,
    held: Arc<[Held]>,
}

/// Which span it is, its byte offsets in a body that are written anew for each use, and its times before the end of the body.
#[derive(Clone, Copy, Default)]
struct Places {
    call: u32,
    place: u32,
    trace_id: usize,
    span_id: usize,
    parent_id: Option<usize>,
    start: usize,
    end: usize,
    start_ns: u64,
    end_ns: u64,
}

impl Body {
    fn new(drawn: Vec<Drawn>, encoding: Encoding) -> Result<Body> {
        let end = drawn.iter().map(|drawn| drawn.span.end_time_unix_nano + 1).max().unwrap_or(END_NS);
        let held = held(&drawn);
        let known = drawn.iter().map(|Drawn { span, call, place }| Places {
            call: *call,
            place: *place,
            start_ns: end - span.start_time_unix_nano,
            end_ns: end - span.end_time_unix_nano,
            ..Places::default()
        });
        let known: Vec<Places> = known.collect();
        let request = request(drawn.into_iter().map(|drawn| drawn.span).collect());
        let (bytes, found) = match encoding {
            Encoding::Protobuf => {
                let bytes = request.encode_to_vec();
                let found = protobuf::spans(&bytes);
                (bytes, found)
            }
            Encoding::Json => {
                let bytes = serde_json::to_vec(&request);
                let bytes = bytes.map_err(|error| Error::internal("encode a body").with_source(error))?;
                let found = json::spans(&bytes);
                (bytes, found)
            }
        };
        let spans = known.into_iter().zip(found).map(|(known, found)| Places {
            call: known.call,
            place: known.place,
            start_ns: known.start_ns,
            end_ns: known.end_ns,
            ..found
        });
        Ok(Body { spans: spans.collect(), bytes, encoding, held })
    }

    /// Token spans in it.
    pub(in crate::bench) fn tokens(&self) -> usize {
        self.spans.iter().filter(|span| span.place > 0).count()
    }

    /// Which tokens are in it.
    pub(super) fn held(&self) -> Arc<[Held]> {
        Arc::clone(&self.held)
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
        for places in &self.spans {
            let call = first + u64::from(places.call);
            self.put(bytes, places.trace_id, &trace_id(run, call));
            self.put(bytes, places.span_id, &span_id(call, u64::from(places.place)));
            if let Some(parent) = places.parent_id {
                self.put(bytes, parent, &span_id(call, 0));
            }
            self.put_time(bytes, places.start, end_ns - places.start_ns);
            self.put_time(bytes, places.end, end_ns - places.end_ns);
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

/// The tokens of each call, in the order in which calls first come.
fn held(drawn: &[Drawn]) -> Arc<[Held]> {
    let mut held: Vec<Held> = Vec::new();
    for Drawn { call, place, .. } in drawn.iter().filter(|drawn| drawn.place > 0) {
        let token = 1 << (place - 1);
        match held.iter_mut().find(|held| held.call == *call) {
            Some(held) => held.tokens |= token,
            None => held.push(Held { call: *call, tokens: token }),
        }
    }
    held.into()
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

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    const SHAPE: Shape = Shape { layout: Layout::Interleaved, running: 32, spans: 512, encoding: Encoding::Protobuf };

    /// The spans of a use, as a receiver decodes them.
    fn fresh(body: &Body, first: u64, end_ns: u64) -> Vec<Span> {
        let bytes = body.fresh(9, first, end_ns);
        let request: ExportTraceServiceRequest = match body.encoding {
            Encoding::Protobuf => Message::decode(bytes.as_slice()).unwrap(),
            Encoding::Json => serde_json::from_slice(&bytes).unwrap(),
        };
        request.resource_spans.into_iter().flat_map(|group| group.scope_spans).flat_map(|scope| scope.spans).collect()
    }

    fn call(span: &Span) -> u64 {
        call_of(&span.trace_id.iter().map(|byte| format!("{byte:02x}")).collect::<String>()).unwrap()
    }

    fn index(span: &Span) -> u32 {
        let index = span.attributes.iter().find(|attribute| attribute.key == names::TOKEN_INDEX).unwrap();
        match index.value.as_ref().unwrap().value.as_ref().unwrap() {
            opentelemetry_proto::tonic::common::v1::any_value::Value::IntValue(index) => *index as u32,
            other => panic!("{other:?} is no index"),
        }
    }

    /// However they are laid out and encoded, fresh bodies decode to spans with ids of their own, ordered times, and the tokens
    /// that they say they hold.
    #[test]
    fn fresh_bodies_are_valid_and_never_repeat_an_id() {
        for layout in [Layout::Interleaved, Layout::ByCall] {
            for encoding in [Encoding::Protobuf, Encoding::Json] {
                fresh_bodies_are_valid(&Shape { layout, encoding, ..SHAPE });
            }
        }
    }

    fn fresh_bodies_are_valid(shape: &Shape) {
        let sequence = Sequence::new(shape, 4, 7).unwrap();
        let mut seen = HashSet::new();
        let end_ns = 1_900_000_000_000_000_000;
        for round in 0..2 {
            let first = round * sequence.calls();
            for body in &sequence.bodies {
                let spans = fresh(body, first, end_ns);
                assert_eq!(spans.len(), 512);
                let mut tokens: HashMap<u64, u128> = HashMap::new();
                for span in &spans {
                    assert!(seen.insert(span.span_id.clone()));
                    assert!(span.start_time_unix_nano <= span.end_time_unix_nano && span.end_time_unix_nano < end_ns);
                    let call = call(span);
                    assert!((first..first + sequence.calls()).contains(&call));
                    if span.name == names::SPAN_TOKEN {
                        assert_eq!(span.parent_span_id, span_id(call, 0));
                        *tokens.entry(call).or_default() |= 1 << index(span);
                    }
                }
                let held = body.held();
                let held: HashMap<u64, u128> =
                    held.iter().map(|held| (first + u64::from(held.call), held.tokens)).collect();
                assert_eq!(tokens, held);
                assert_eq!(tokens.values().map(|tokens| tokens.count_ones() as usize).sum::<usize>(), body.tokens());
            }
        }
    }

    /// A step has a token of each running call, and a call's tokens go on from body to body without a gap.
    #[test]
    fn calls_are_interleaved_and_go_on() {
        let sequence = Sequence::new(&SHAPE, 8, 3).unwrap();
        let spans: Vec<Span> = sequence.bodies.iter().flat_map(|body| fresh(body, 0, END_NS)).collect();
        let tokens: Vec<&Span> = spans.iter().filter(|span| span.name == names::SPAN_TOKEN).collect();
        for step in tokens.chunks_exact(32) {
            assert_eq!(step.iter().map(|span| call(span)).collect::<HashSet<_>>().len(), 32);
        }
        let mut last: HashMap<u64, u32> = HashMap::new();
        for token in &tokens {
            if let Some(last) = last.insert(call(token), index(token)) {
                assert_eq!(index(token), last + 1);
            }
        }
        let ended = spans.len() - tokens.len();
        assert_eq!(sequence.calls() as usize, 32 + ended);
        assert_eq!(last.values().filter(|last| **last as usize == CALL_TOKENS - 1).count(), ended);
    }

    /// Call by call, a request whose size is no multiple of a call ends in a short call.
    #[test]
    fn the_last_call_is_short() {
        let shape = Shape { layout: Layout::ByCall, spans: 1_000, ..SHAPE };
        let sequence = Sequence::new(&shape, 1, 1).unwrap();
        assert_eq!((sequence.calls(), sequence.bodies[0].tokens()), (8, 992));
        let spans = fresh(&sequence.bodies[0], 0, END_NS);
        assert!(spans.iter().enumerate().all(|(at, span)| call(span) == (at / CALL_SPANS) as u64));
    }
}
