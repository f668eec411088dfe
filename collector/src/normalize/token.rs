//! Token spans and token events: the hot path. Nothing is allocated per token.

mod same;
mod turns;

use telemetry::names;

use super::resource::Stored;
use super::row::micros;
use super::window::accepts;
use super::{Normalizer, Place};
use crate::batch::rows::{Rows, Source, columns};
use crate::batch::tables::Tables;
use crate::decode::view::{Attribute, Span, Value};
use crate::decode::wire::{Fields, Malformed, Raw, short_pair, short_text};
pub(super) use same::Alike;
use same::Same;

columns! {
    /// Columns of `tokens` beyond the dimensions.
    pub(super) Columns of telemetry::table::TOKENS: time trace_id request_span_id choice index count batch_size device_us
        stall model tenant attributes attributes_typed
}

/// A token's numbers, each at its place.
type Numbers = [Option<i64>; 5];
const INDEX: usize = 0;
const CHOICE: usize = 1;
const COUNT: usize = 2;
const BATCH: usize = 3;
const DEVICE_US: usize = 4;
/// Numbers of a token that does not say them.
const UNSAID: Numbers = [None, Some(0), Some(1), None, None];

/// More tokens than a call can have.
const INDEX_MAX: i64 = 1_000_000_000;
/// More choices of a call, tokens of a chunk and sequences of a step than any engine makes.
const COUNT_MAX: i64 = 1_000_000;
/// More device time than a token can take, microseconds: a day of it.
pub(super) const DEVICE_US_MAX: i64 = 86_400_000_000;
/// The most that each number can be.
const MOST: [i64; 5] = [INDEX_MAX, COUNT_MAX, COUNT_MAX, COUNT_MAX, DEVICE_US_MAX];

/// What an attribute is that has a column.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meaning {
    Number(usize),
    Stall,
    Model,
    Tenant,
}

impl Meaning {
    /// Which of [`names::TOKEN`] a key is, is told by a few words, since comparing with each name in turn costs as much as all
    /// the rest.
    #[inline]
    fn of(key: &[u8]) -> Option<Self> {
        let (head, tail) = key.split_first_chunk::<16>()?;
        Some(match tail {
            b"index" if head == b"tokenwatt.token." => Meaning::Number(INDEX),
            b"choice" if head == b"tokenwatt.token." => Meaning::Number(CHOICE),
            b"count" if head == b"tokenwatt.token." => Meaning::Number(COUNT),
            b"batch" if head == b"tokenwatt.token." => Meaning::Number(BATCH),
            b"device_us" if head == b"tokenwatt.token." => Meaning::Number(DEVICE_US),
            b"stall" if head == b"tokenwatt.token." => Meaning::Stall,
            b"odel" if head == b"gen_ai.request.m" => Meaning::Model,
            b"" if head == b"tokenwatt.tenant" => Meaning::Tenant,
            _ => return None,
        })
    }

    /// Whether its column holds all that a value says. A count that can not be true, and what should be text and is none, stay
    /// attributes.
    fn takes(self, value: Value<'_>) -> bool {
        match self {
            Meaning::Number(which) => MOST.get(which).is_some_and(|most| value.count(*most).is_some()),
            Meaning::Stall | Meaning::Model | Meaning::Tenant => matches!(value, Value::Text(_)) && !value.is_cut(),
        }
    }
}

/// What a token's attributes say.
#[derive(Clone, Copy)]
struct Token<'a> {
    numbers: Numbers,
    stall: Option<&'a [u8]>,
    model: Option<&'a [u8]>,
    tenant: Option<&'a [u8]>,
    /// Whether there are attributes that no column holds.
    more: bool,
}

impl Default for Token<'_> {
    fn default() -> Self {
        Self { numbers: UNSAID, stall: None, model: None, tenant: None, more: false }
    }
}

impl<'a> Token<'a> {
    fn read(attributes: &[Attribute<'a>]) -> Result<Self, Malformed> {
        let mut token = Self::default();
        attributes.iter().try_for_each(|attribute| token.take(attribute.key.as_bytes(), attribute.raw))?;
        Ok(token)
    }

    /// Takes an attribute: its key and its `AnyValue`.
    #[inline]
    fn take(&mut self, key: &[u8], value: &'a [u8]) -> Result<(), Malformed> {
        match Meaning::of(key) {
            Some(Meaning::Number(which)) => self.number(which, Value::read(value)?),
            Some(Meaning::Stall) => self.stall = self.text(value)?,
            Some(Meaning::Model) => self.model = self.text(value)?,
            Some(Meaning::Tenant) => self.tenant = self.text(value)?,
            None => self.more = true,
        }
        Ok(())
    }

    #[inline]
    fn number(&mut self, which: usize, value: Value<'_>) {
        let (Some(place), Some(most)) = (self.numbers.get_mut(which), MOST.get(which)) else { return };
        let count = value.count(*most);
        self.more |= count.is_none();
        *place = count.or(UNSAID.get(which).copied().flatten());
    }

    /// The text of an `AnyValue` as [`Value::text`] gives it. Its bytes are enough: they are compared with the row before, and
    /// text that repeats need not be found to be UTF-8 again.
    #[inline]
    fn text(&mut self, value: &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
        if let Some(short) = short_text(value) {
            return Ok((!short.is_empty()).then_some(short));
        }
        let value = Value::read(value)?;
        self.more |= !Meaning::Stall.takes(value);
        Ok(value.text().map(str::as_bytes))
    }
}

/// A span of the name `token` with nothing to store but what has a column: read in one pass, without a list of attributes.
struct Plain<'a> {
    trace_id: &'a [u8],
    request_span_id: &'a [u8],
    end: u64,
    token: Token<'a>,
}

impl<'a> Plain<'a> {
    /// None if it is another span, or a token that says more.
    fn read(bytes: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let mut plain = Self { trace_id: &[], request_span_id: &[], end: 0, token: Token::default() };
        let mut named = false;
        for field in Fields::new(bytes) {
            match field? {
                (9, Raw::Bytes(attribute)) => plain.attribute(attribute)?,
                (1, Raw::Bytes(id)) => plain.trace_id = id,
                (4, Raw::Bytes(id)) => plain.request_span_id = id,
                (5, Raw::Bytes(name)) if name == names::SPAN_TOKEN.as_bytes() => named = true,
                (5, _) => return Ok(None),
                (8, Raw::Fixed64(time)) => plain.end = time,
                _ => {}
            }
        }
        plain.request_span_id = said(plain.request_span_id);
        Ok((named && !plain.token.more).then_some(plain))
    }

    #[inline]
    fn attribute(&mut self, bytes: &'a [u8]) -> Result<(), Malformed> {
        if let Some((key, value)) = short_pair(bytes) {
            return self.token.take(key, value);
        }
        let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
        for field in Fields::new(bytes) {
            match field? {
                (1, Raw::Bytes(bytes)) => key = bytes,
                (2, Raw::Bytes(bytes)) => value = bytes,
                _ => {}
            }
        }
        self.token.take(key, value)
    }
}

/// An id; none if it is spelled in zeros.
#[inline]
fn said(id: &[u8]) -> &[u8] {
    if id.iter().all(|byte| *byte == 0) { &[] } else { id }
}

impl Normalizer {
    /// Appends a span to `tokens` if it is a plain token whose time is accepted; false leaves it to the general way.
    #[inline]
    pub(super) fn plain_token<'a>(
        &mut self,
        place: &Place<'_, 'a>,
        bytes: &'a [u8],
        alike: &mut Alike<'a>,
        tables: &mut Tables,
    ) -> Result<bool, Malformed> {
        if let Some(found) = alike.patterns.find(bytes)
            && alike.wait(place, bytes, found)
        {
            if alike.turns.is_full() {
                self.write_tokens(place.resource, place.source, alike, tables);
            }
            return Ok(true);
        }
        let Some(plain) = Plain::read(bytes)? else { return Ok(false) };
        let time_us = micros(plain.end);
        if !accepts(&telemetry::table::TOKENS, time_us, place.body.received_us) {
            return Ok(false);
        }
        self.origins += 1;
        let made = alike.patterns.add(bytes, |pattern| Same::new(self.origins, plain.token, pattern));
        if !made.is_some_and(|made| alike.wait(place, bytes, made))
            && let Some(rows) = tables.tokens.rows(time_us)
        {
            self.columns_of(place, (plain.trace_id, plain.request_span_id), time_us, &plain.token, rows);
            rows.end();
        }
        Ok(true)
    }

    /// Appends a token span to `tokens`.
    pub(super) fn token<'a>(
        &mut self,
        place: &Place<'_, 'a>,
        span: &Span<'a>,
        attributes: &mut Vec<Attribute<'a>>,
        tables: &mut Tables,
    ) -> Result<(), Malformed> {
        let time_us = micros(span.end);
        let Some(rows) = tables.tokens.rows(time_us) else { return Ok(()) };
        self.token_row(place, (span.trace_id, span.parent_span_id), time_us, attributes, rows)
    }

    /// Appends the token events of a span to `tokens`: the same names on an event of the request span.
    pub(super) fn token_events<'a>(
        &mut self,
        place: &Place<'_, 'a>,
        span: &Span<'a>,
        tables: &mut Tables,
    ) -> Result<(), Malformed> {
        let mut attributes = Vec::new();
        for field in Fields::new(span.bytes) {
            let (11, Raw::Bytes(event)) = field? else { continue };
            let mut time_us = 0;
            let mut named = false;
            for field in Fields::new(event) {
                match field? {
                    (1, Raw::Fixed64(nanos)) => time_us = micros(nanos),
                    (2, Raw::Bytes(name)) => named = name == names::SPAN_TOKEN.as_bytes(),
                    _ => {}
                }
            }
            if !named || !accepts(&telemetry::table::TOKENS, time_us, place.body.received_us) {
                continue;
            }
            let Some(rows) = tables.tokens.rows(time_us) else { return Ok(()) };
            Attribute::read_all(event, 3, &mut attributes)?;
            self.token_row(place, (span.trace_id, span.span_id), time_us, &mut attributes, rows)?;
        }
        Ok(())
    }

    fn token_row<'a>(
        &self,
        place: &Place<'_, 'a>,
        ids: (&[u8], &[u8]),
        time_us: i64,
        attributes: &mut Vec<Attribute<'a>>,
        rows: &mut Rows,
    ) -> Result<(), Malformed> {
        let columns = &self.columns.tokens;
        let token = Token::read(attributes)?;
        self.columns_of(place, ids, time_us, &token, rows);
        if token.more {
            attributes.retain(says_more);
            Stored::new(attributes, &self.redaction)?.write(rows, columns.attributes, columns.attributes_typed);
        }
        rows.end();
        Ok(())
    }

    /// Writes a token that is like no other; `ids` are those of its trace and its request span.
    fn columns_of(&self, place: &Place<'_, '_>, ids: (&[u8], &[u8]), time_us: i64, token: &Token<'_>, rows: &mut Rows) {
        let columns = &self.columns.tokens;
        let (resource, texts) = rows.enter(Source { group: place.source, pattern: 0 });
        if resource {
            place.resource.hold(rows);
        }
        if resource || texts {
            [columns.stall, columns.tenant, columns.model].into_iter().for_each(|column| rows.hold(column, None));
        }
        columns.write(time_us, ids, &token.numbers, rows);
        rows.checked_opt(columns.stall, token.stall);
        rows.checked_opt(columns.tenant, token.tenant);
        match token.model {
            Some(named) => rows.checked(columns.model, named),
            None => rows.text_opt(columns.model, self.models.of(place.resource, None).name()),
        }
    }
}

impl Columns {
    /// Writes what differs from token to token.
    #[inline]
    fn write(&self, time_us: i64, (trace_id, request_span_id): (&[u8], &[u8]), numbers: &Numbers, rows: &mut Rows) {
        rows.time(self.time, time_us);
        rows.id(self.trace_id, trace_id);
        rows.id(self.request_span_id, request_span_id);
        let columns = [self.index, self.choice, self.count, self.batch_size, self.device_us];
        for (column, number) in columns.into_iter().zip(numbers) {
            rows.int_opt(column, *number);
        }
    }
}

fn utf8(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Whether an attribute says what no column holds.
fn says_more(attribute: &Attribute<'_>) -> bool {
    let is_taken = Meaning::of(attribute.key.as_bytes()).is_some_and(|meaning| meaning.takes(attribute.value));
    !is_taken && !matches!(attribute.value, Value::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name of a token's attributes is known, and nothing that only resembles one.
    #[test]
    fn names_are_told_apart() {
        let column_names = names::TOKEN.iter().map(|name| name.name).chain([names::REQUEST_MODEL, names::TENANT]);
        for name in column_names {
            let mut token = Token::default();
            token.take(name.as_bytes(), &[0x18, 3]).unwrap();
            let text = [names::TOKEN_STALL, names::REQUEST_MODEL, names::TENANT].contains(&name);
            assert_eq!(token.more, text, "{name}: 3 is no text");
            let set = token.numbers.iter().filter(|number| **number == Some(3)).count();
            assert_eq!(set, usize::from(!text), "{name}");
            for resembling in [name.replace("token", "taken"), format!("{name}x"), name[1..].to_owned()] {
                let mut token = Token::default();
                token.take(resembling.as_bytes(), b"\x0a\x01x").unwrap();
                assert!(token.more || resembling == name, "{resembling}");
            }
        }
    }
}
