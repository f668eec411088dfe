//! Tokens that are alike. A step's token differs from the one before in its ids, times and numbers, and in nothing else: not in
//! its fields, their order, their lengths, nor in any text. So one is read with care and kept as a pattern; another that equals
//! it bit by bit but for these places is told by one comparison, and read where the pattern says.
//!
//! Which pattern to compare with is told by the call: its tokens are like each other, in whatever order calls take turns.

use telemetry::names;

use super::view::Item;
use super::wire::{Fields, Raw, short_pair, varint};

/// Longer spans are no patterns. Bytes.
const BYTES_MAX: usize = 1_024;
/// Patterns kept: tokens of more tenants, models and lengths of numbers are read one by one. None is given up for another, since
/// calls that take turns would then drive out each other's.
const KEPT: usize = 64;
/// Patterns that are made in the hope that they are worth it.
const HOPED: usize = 16;
/// Spans that one pattern must stand for, on average, for more to be worth their making.
const WORTH: usize = 4;
/// Calls whose last pattern is remembered, at best.
const CALLS: usize = 256;
/// Bytes of a varint whose value cannot overflow.
const VARINT_MAX: usize = 9;
/// The tag of a whole number in an `AnyValue`.
const INT: u8 = 0x18;

/// A token that others are like, and where what differs lies in it.
pub struct Pattern<'a> {
    span: &'a [u8],
    /// Bits in which those like it equal it.
    fixed: Vec<u8>,
    trace_id: usize,
    span_id: usize,
    parent_span_id: usize,
    start: usize,
    end: usize,
    numbers: Vec<(&'a [u8], usize)>,
}

impl<'a> Pattern<'a> {
    /// None of a span that others are hardly like. It is one that [`super::check`] found sound.
    fn new(span: &'a [u8]) -> Option<Self> {
        if span.len() > BYTES_MAX {
            return None;
        }
        let mut fixed = vec![0xff; span.len()];
        let mut places = [None; 5];
        let (mut keys, mut numbers) = (Vec::new(), Vec::new());
        let mut fields = Fields::new(span);
        while let Some((number, value)) = fields.read().ok()? {
            let end = span.len() - fields.left();
            let (which, length) = match (number, value) {
                (1, Raw::Bytes(id)) if id.len() == 16 => (0, 16),
                (2, Raw::Bytes(id)) if id.len() == 8 => (1, 8),
                (4, Raw::Bytes(id)) if id.len() == 8 => (2, 8),
                (7, Raw::Fixed64(_)) => (3, 8),
                (8, Raw::Fixed64(_)) => (4, 8),
                (1 | 2 | 4 | 7 | 8, _) => return None,
                (9, Raw::Bytes(attribute)) => {
                    let (key, value) = short_pair(attribute)?;
                    // Of a key that comes twice the last value holds, be it a number or text.
                    if keys.contains(&key) {
                        return None;
                    }
                    keys.push(key);
                    if let Some(length) = whole_number(value) {
                        fixed.get_mut(end - length..end)?.fill(0x80);
                        numbers.push((key, end - length));
                    }
                    continue;
                }
                _ => continue,
            };
            fixed.get_mut(end - length..end)?.fill(0);
            let place: &mut Option<usize> = places.get_mut(which)?;
            if place.replace(end - length).is_some() {
                return None;
            }
        }
        let [trace_id, span_id, parent_span_id, start, end] = places;
        let (trace_id, span_id, parent_span_id) = (trace_id?, span_id?, parent_span_id?);
        Some(Self { span, fixed, trace_id, span_id, parent_span_id, start: start?, end: end?, numbers })
    }

    /// The same, found sooner of a span that does not fit.
    #[inline]
    fn may_fit(&self, span: &[u8]) -> bool {
        let parts = span.as_chunks::<16>().0.iter().zip(self.span.as_chunks().0).zip(self.fixed.as_chunks().0);
        span.len() == self.span.len() && parts.into_iter().all(|((a, b), fixed)| differing(a, b, fixed) == 0)
    }

    /// Whether a span differs from it only where spans may differ.
    #[inline]
    fn fits(&self, span: &[u8]) -> bool {
        if span.len() != self.span.len() {
            return false;
        }
        let parts = span.as_chunks().0.iter().zip(self.span.as_chunks().0).zip(self.fixed.as_chunks().0);
        let found = parts.fold(0, |found, ((a, b), fixed)| found | differing(a, b, fixed));
        // It has a trace id, so it is longer than the last part, which may overlap the one before.
        match (span.last_chunk(), self.span.last_chunk(), self.fixed.last_chunk()) {
            (Some(a), Some(b), Some(fixed)) => found | differing(a, b, fixed) == 0,
            _ => false,
        }
    }

    /// What a span that fits holds of an item.
    #[inline]
    pub fn item<'s>(&self, span: &'s [u8]) -> Item<'s> {
        Item {
            name: names::SPAN_TOKEN,
            trace_id: self.trace_id(span),
            span_id: bytes(span, self.span_id, 8),
            parent_span_id: self.parent_span_id(span),
            time: fixed64(span, self.start),
            end: self.end(span),
        }
    }

    /// The trace id of a span that fits.
    #[inline]
    pub fn trace_id<'s>(&self, span: &'s [u8]) -> &'s [u8] {
        bytes(span, self.trace_id, 16)
    }

    /// The parent span id of a span that fits.
    #[inline]
    pub fn parent_span_id<'s>(&self, span: &'s [u8]) -> &'s [u8] {
        bytes(span, self.parent_span_id, 8)
    }

    /// When a span that fits ended, nanoseconds since the epoch.
    #[inline]
    pub fn end(&self, span: &[u8]) -> u64 {
        fixed64(span, self.end)
    }

    /// The attributes whose whole numbers differ: their keys, and where in a span that fits their value lies; see [`number`].
    pub fn numbers(&self) -> &[(&'a [u8], usize)] {
        &self.numbers
    }
}

/// The bits of a part in which spans differ that may not.
#[inline]
fn differing(a: &[u8; 16], b: &[u8; 16], fixed: &[u8; 16]) -> u128 {
    (u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b)) & u128::from_ne_bytes(*fixed)
}

/// The whole number at `at`.
#[inline]
pub fn number(span: &[u8], at: usize) -> i64 {
    span.get(at..).and_then(|rest| varint(rest).ok()).map_or(0, |(number, _)| number as i64)
}

#[inline]
fn bytes(span: &[u8], at: usize, length: usize) -> &[u8] {
    span.get(at..at + length).unwrap_or_default()
}

#[inline]
fn fixed64(span: &[u8], at: usize) -> u64 {
    span.get(at..).and_then(|rest| rest.first_chunk()).copied().map_or(0, u64::from_le_bytes)
}

/// Bytes of the whole number at the end of an `AnyValue` that holds one and nothing else.
fn whole_number(value: &[u8]) -> Option<usize> {
    let [INT, number @ ..] = value else { return None };
    (number.len() <= VARINT_MAX && matches!(varint(number), Ok((_, [])))).then_some(number.len())
}

/// The patterns of one body, each with what else its reader knows of it.
pub struct Patterns<'a, T> {
    known: Vec<(Pattern<'a>, T)>,
    /// The pattern that the last token of a call fitted, by a few bits of its trace id.
    last: [u8; CALLS],
    /// Where the trace id lies in most spans.
    trace_id: usize,
    /// Spans that fitted one, and spans that became one.
    found: usize,
    made: usize,
}

impl<T> Default for Patterns<'_, T> {
    fn default() -> Self {
        Self { known: Vec::new(), last: [0; CALLS], trace_id: 0, found: 0, made: 0 }
    }
}

impl<'a, T> Patterns<'a, T> {
    /// The number of the pattern that a span fits.
    #[inline]
    pub fn find(&mut self, span: &[u8]) -> Option<usize> {
        let last = self.last.get_mut(place_of(bytes(span, self.trace_id, 16), CALLS))?;
        let place = usize::from(*last);
        let (pattern, _) = self.known.get(place)?;
        if !pattern.fits(span) {
            let place = self.known.iter().position(|(pattern, _)| pattern.may_fit(span) && pattern.fits(span))?;
            *last = place as u8;
            self.found += 1;
            return Some(place);
        }
        self.found += 1;
        Some(place)
    }

    /// A pattern by its number.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&(Pattern<'a>, T)> {
        self.known.get(number)
    }

    /// Makes a token that was found sound a pattern, with what `more` says of it, unless they have hardly been of use so far.
    /// Its number, if it became one.
    pub fn add(&mut self, span: &'a [u8], more: impl FnOnce(&Pattern<'a>) -> T) -> Option<usize> {
        if self.known.len() >= KEPT || self.made > HOPED + self.found / WORTH {
            return None;
        }
        self.made += 1;
        let pattern = Pattern::new(span)?;
        self.trace_id = pattern.trace_id;
        let more = more(&pattern);
        self.known.push((pattern, more));
        Some(self.known.len() - 1)
    }
}

/// An odd number near 2^64 divided by the golden ratio: multiplication by it spreads low bits over high ones.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// One of `places`, a power of two, for a trace id: most are random, and the ends of those that are not differ.
#[inline]
pub fn place_of(trace_id: &[u8], places: usize) -> usize {
    let half = |bytes: Option<&[u8; 8]>| bytes.copied().map_or(0, u64::from_le_bytes);
    let mixed = half(trace_id.first_chunk()).wrapping_mul(SCATTER) ^ half(trace_id.last_chunk());
    (mixed.wrapping_mul(SCATTER) >> 32) as usize & (places - 1)
}

/// [`Patterns::last`] has room for their numbers.
const _: () = assert!(KEPT <= 1 << u8::BITS && CALLS.is_power_of_two());

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
    use opentelemetry_proto::tonic::trace::v1::Span;
    use prost::Message as _;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::signal::Signal;

    fn token(random: &mut StdRng) -> Span {
        let attribute = |key: &str, value| KeyValue {
            key: key.into(),
            value: Some(AnyValue { value: Some(value) }),
            ..KeyValue::default()
        };
        let start = random.random();
        Span {
            trace_id: random.random::<[u8; 16]>().to_vec(),
            span_id: random.random::<[u8; 8]>().to_vec(),
            parent_span_id: random.random::<[u8; 8]>().to_vec(),
            name: "token".into(),
            kind: 1,
            start_time_unix_nano: start,
            end_time_unix_nano: start ^ 4_711,
            attributes: vec![
                attribute("tokenwatt.token.stall", Value::StringValue("decode".into())),
                attribute("tokenwatt.token.index", Value::IntValue(random.random_range(0..128))),
                attribute("tokenwatt.token.device_us", Value::IntValue(random.random_range(128..16_384))),
                attribute("share", Value::DoubleValue(0.5)),
            ],
            ..Span::default()
        }
    }

    /// Whatever fits a pattern is read as if it were read alone; one that differs elsewhere does not fit.
    #[test]
    fn what_fits_is_read_alike() {
        let mut random = StdRng::seed_from_u64(5);
        let first = token(&mut random).encode_to_vec();
        let mut patterns = Patterns::default();
        patterns.add(&first, |pattern| pattern.numbers().to_vec());
        let mut broken = 0;
        for round in 0..20_000 {
            let span = token(&mut random);
            let mut bytes = span.encode_to_vec();
            if round % 2 == 1 {
                let at = random.random_range(0..bytes.len());
                bytes[at] ^= 1 << random.random_range(0..8);
            }
            let Some(found) = patterns.find(&bytes) else {
                assert_eq!(round % 2, 1, "{span:?}");
                broken += 1;
                continue;
            };
            let (pattern, numbers) = patterns.get(found).unwrap();
            assert!(pattern.may_fit(&bytes));
            assert_eq!(
                format!("{:?}", pattern.item(&bytes)),
                format!("{:?}", Item::read(Signal::Traces, &bytes).unwrap())
            );
            let read = Span::decode(bytes.as_slice()).unwrap();
            let ints = read.attributes.iter().filter_map(|attribute| match attribute.value.as_ref()?.value {
                Some(Value::IntValue(int)) => Some((attribute.key.clone(), int)),
                _ => None,
            });
            let found = numbers.iter().map(|(key, at)| (String::from_utf8(key.to_vec()).unwrap(), number(&bytes, *at)));
            assert_eq!(found.collect::<Vec<_>>(), ints.collect::<Vec<_>>());
            let alike = Span { attributes: Vec::new(), ..Span::decode(first.as_slice()).unwrap() };
            assert_eq!((&read.name, read.kind), (&alike.name, alike.kind));
            assert_eq!(read.attributes.last(), span.attributes.last());
        }
        assert!(broken > 2_000, "{broken}");
    }

    /// A field that comes twice holds by its last value, an id of another length is a fault: neither makes a pattern.
    #[test]
    fn what_is_odd_is_no_pattern() {
        let sound = token(&mut StdRng::seed_from_u64(5));
        assert!(Pattern::new(&sound.encode_to_vec()).is_some());
        let twice = [sound.encode_to_vec(), Span { name: String::new(), ..sound.clone() }.encode_to_vec()].concat();
        assert!(Pattern::new(&twice).is_none());
        for odd in [
            Span { trace_id: vec![1; 8], ..sound.clone() },
            Span { parent_span_id: Vec::new(), ..sound.clone() },
            Span { trace_state: "x".repeat(2_000), ..sound },
        ] {
            assert!(Pattern::new(&odd.encode_to_vec()).is_none(), "{odd:?}");
        }
    }

    /// Where no two spans are alike, few patterns are made.
    #[test]
    fn patterns_are_made_as_far_as_they_are_of_use() {
        let mut random = StdRng::seed_from_u64(5);
        let spans: Vec<Vec<u8>> = (0..100)
            .map(|length| Span { trace_state: "x".repeat(length), ..token(&mut random) }.encode_to_vec())
            .collect();
        let mut patterns = Patterns::default();
        for span in &spans {
            assert_eq!(patterns.find(span), None);
            patterns.add(span, |_| ());
        }
        assert_eq!((patterns.known.len(), patterns.made), (HOPED + 1, HOPED + 1));
    }
}
