//! NVIDIA Triton: three spans inside one another, of which the middle one, named as the model, is the call; no tokens.
//!
//! In an ensemble the models of its steps have spans of their own inside it: they name a parent and are no calls. The queue ends
//! where the span `compute` inside begins, and the responses leave in the span `InferRequest` around it, so a call is read
//! together with its neighbours in the same body. A model that answers once has no first token: only of several responses is
//! the first one that.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::field::{Alias, Field, alias};
use super::{Dialect, Place, Reading, Sight, Verdict, call_or_none};
use crate::decode::view::{Span, text};
use crate::decode::wire::{Fields, Malformed, Raw};

pub(super) const DIALECT: Dialect = Dialect {
    engine: Some("triton"),
    measured_at: Place::Server,
    ttft_definition: "first_response",
    aliases: ALIASES,
    more: queue_and_responses,
    gives: "request_id engine model stream queue_s ttft_s e2e_s",
    ..Dialect::new(
        "triton",
        "`triton.model_name`, which is the span's name, and no `triton.trace_parent_id` but 0",
        |sight| {
            let Some(model) = sight.text("triton.model_name") else { return Verdict::Foreign };
            let is_step = sight.value("triton.trace_parent_id").integer().is_some_and(|parent| parent != 0);
            call_or_none(sight.span.name == model && !is_step)
        },
    )
};

const ALIASES: &[Alias] =
    &[alias("triton.model_name", Field::RequestModel), alias("triton.request_id", Field::RequestId)];

/// What the spans of a scope know of the calls next to them, read when it is first asked for.
pub struct Neighbours<'a> {
    scope: &'a [u8],
    read: OnceCell<Read<'a>>,
}

#[derive(Default)]
struct Read<'a> {
    /// Start of the span `compute` inside a call, by the call's span.
    computed: HashMap<&'a [u8], u64>,
    /// The first of several responses of a request, by the span around the call.
    answered: HashMap<&'a [u8], u64>,
}

impl<'a> Neighbours<'a> {
    /// The spans of that scope's message.
    pub fn new(scope: &'a [u8]) -> Self {
        Self { scope, read: OnceCell::new() }
    }

    fn get(&self) -> Result<&Read<'a>, Malformed> {
        if self.read.get().is_none() {
            let _ = self.read.set(Read::new(self.scope)?);
        }
        self.read.get().ok_or(Malformed::Truncated)
    }
}

impl<'a> Read<'a> {
    fn new(scope: &'a [u8]) -> Result<Self, Malformed> {
        let mut read = Self::default();
        let mut scratch = Vec::new();
        for field in Fields::new(scope) {
            let (2, Raw::Bytes(bytes)) = field? else { continue };
            // A span that is not sound is rejected by itself, and says nothing about its neighbours.
            let Ok(span) = Span::read(bytes, &mut scratch) else { continue };
            if span.name == "compute" {
                read.computed.insert(span.parent_span_id, span.start);
            } else if span.name == "InferRequest" {
                let mut responses = Events::new(&span, "INFER_RESPONSE_COMPLETE");
                if let (Some(Ok(first)), Some(Ok(_))) = (responses.next(), responses.next()) {
                    read.answered.insert(span.span_id, first);
                }
            }
        }
        Ok(read)
    }
}

fn queue_and_responses(
    sight: &Sight<'_, '_>,
    neighbours: &Neighbours<'_>,
    reading: &mut Reading<'_>,
) -> Result<(), Malformed> {
    let neighbours = neighbours.get()?;
    let span = sight.span;
    let queued = Events::new(span, "QUEUE_START").next().transpose()?;
    if let (Some(queued), Some(computed)) = (queued, neighbours.computed.get(span.span_id)) {
        reading.figures.queue_s = Some(seconds(queued, *computed));
    }
    if let Some(answered) = neighbours.answered.get(span.parent_span_id) {
        reading.figures.ttft_s = Some(seconds(span.start, *answered));
        reading.stream = Some(true);
    }
    Ok(())
}

/// Seconds from one instant to another, nanoseconds each; negative if they come in the other order.
fn seconds(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.wrapping_sub(from_ns) as i64 as f64 / 1e9
}

/// Times of the events of a span that have that name, nanoseconds.
struct Events<'e> {
    fields: Fields<'e>,
    name: &'static str,
}

impl<'e> Events<'e> {
    fn new(span: &Span<'e>, name: &'static str) -> Self {
        Self { fields: Fields::new(span.bytes), name }
    }
}

impl Iterator for Events<'_> {
    type Item = Result<u64, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.fields.next()? {
                Ok((11, Raw::Bytes(event))) => match time_of(event, self.name) {
                    Ok(Some(time)) => return Some(Ok(time)),
                    Ok(None) => {}
                    Err(malformed) => return Some(Err(malformed)),
                },
                Ok(_) => {}
                Err(malformed) => return Some(Err(malformed)),
            }
        }
    }
}

/// The time of an event, if it has that name.
fn time_of(event: &[u8], wanted: &str) -> Result<Option<u64>, Malformed> {
    let (mut found, mut time) = (false, 0);
    for field in Fields::new(event) {
        match field? {
            (1, Raw::Fixed64(nanos)) => time = nanos,
            (2, Raw::Bytes(name)) => found = text(name)? == wanted,
            _ => {}
        }
    }
    Ok(found.then_some(time))
}
