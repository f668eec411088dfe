//! Token spans and token events: the hot path. Nothing is allocated per token.

use telemetry::names;

use super::resource::Stored;
use super::row::micros;
use super::window::accepts;
use super::{Normalizer, Place};
use crate::batch::rows::{Rows, columns};
use crate::batch::tables::Tables;
use crate::decode::view::{Attribute, Span, Value};
use crate::decode::wire::{Fields, Malformed, Raw, short_pair, short_text};

columns! {
    /// Columns of `tokens` beyond the dimensions.
    pub(super) Columns of telemetry::table::TOKENS: time trace_id request_span_id choice index count batch_size device_us
        stall model tenant attributes attributes_typed
}

/// What a token's attributes say.
struct Token<'a> {
    index: Option<i64>,
    choice: i64,
    count: i64,
    batch: Option<i64>,
    device_us: Option<i64>,
    stall: Option<&'a [u8]>,
    model: Option<&'a [u8]>,
    tenant: Option<&'a [u8]>,
    /// Whether there are attributes without a column.
    more: bool,
}

impl Default for Token<'_> {
    fn default() -> Self {
        let (index, batch, device_us) = (None, None, None);
        let (stall, model, tenant) = (None, None, None);
        Self { index, choice: 0, count: 1, batch, device_us, stall, model, tenant, more: false }
    }
}

impl<'a> Token<'a> {
    fn read(attributes: &[Attribute<'a>]) -> Result<Self, Malformed> {
        let mut token = Self::default();
        attributes.iter().try_for_each(|attribute| token.take(attribute.key.as_bytes(), attribute.raw))?;
        Ok(token)
    }

    /// Takes an attribute: its key and its `AnyValue`. Which of [`names::TOKEN`] it is, is told by a few words, since comparing
    /// with each name in turn costs as much as all the rest.
    #[inline]
    fn take(&mut self, key: &[u8], value: &'a [u8]) -> Result<(), Malformed> {
        let Some((head, tail)) = key.split_first_chunk::<16>() else {
            self.more = true;
            return Ok(());
        };
        match tail {
            b"index" if head == b"tokenwatt.token." => self.index = self.counted(value, INDEX_MAX)?,
            b"batch" if head == b"tokenwatt.token." => self.batch = self.counted(value, COUNT_MAX)?,
            b"device_us" if head == b"tokenwatt.token." => self.device_us = self.counted(value, DEVICE_US_MAX)?,
            b"stall" if head == b"tokenwatt.token." => self.stall = text(value)?,
            b"odel" if head == b"gen_ai.request.m" => self.model = text(value)?,
            b"" if head == b"tokenwatt.tenant" => self.tenant = text(value)?,
            b"choice" if head == b"tokenwatt.token." => {
                self.choice = self.counted(value, COUNT_MAX)?.unwrap_or_default();
            }
            b"count" if head == b"tokenwatt.token." => self.count = self.counted(value, COUNT_MAX)?.unwrap_or(1),
            _ => self.more = true,
        }
        Ok(())
    }

    /// A count that can be true; another stays an attribute.
    #[inline]
    fn counted(&mut self, value: &'a [u8], most: i64) -> Result<Option<i64>, Malformed> {
        let count = Value::read(value)?.count(most);
        self.more |= count.is_none();
        Ok(count)
    }

    #[inline]
    fn write(&self, columns: &Columns, rows: &mut Rows) {
        rows.int_opt(columns.index, self.index);
        rows.int(columns.choice, self.choice);
        rows.int(columns.count, self.count);
        rows.int_opt(columns.batch_size, self.batch);
        rows.int_opt(columns.device_us, self.device_us);
        rows.checked_opt(columns.stall, self.stall);
        rows.checked_opt(columns.tenant, self.tenant);
    }
}

/// The text of an `AnyValue` as [`Value::text`] gives it. Its bytes are enough: they are compared with the row before, and text
/// that repeats need not be found to be UTF-8 again.
#[inline]
fn text(value: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    match short_text(value) {
        Some(short) => Ok((!short.is_empty()).then_some(short)),
        None => Ok(Value::read(value)?.text().map(str::as_bytes)),
    }
}

/// More tokens than a call can have.
const INDEX_MAX: i64 = 1_000_000_000;
/// More choices of a call, tokens of a chunk and sequences of a step than any engine makes.
const COUNT_MAX: i64 = 1_000_000;
/// More device time than a token can take, microseconds: a day of it.
pub(super) const DEVICE_US_MAX: i64 = 86_400_000_000;

/// Whether an attribute goes into a column of its own. One whose value can not be true does not: it stays an attribute.
fn is_taken(attribute: &Attribute<'_>) -> bool {
    let most = match attribute.key {
        names::TOKEN_INDEX => INDEX_MAX,
        names::TOKEN_CHOICE | names::TOKEN_COUNT | names::TOKEN_BATCH => COUNT_MAX,
        names::TOKEN_DEVICE_US => DEVICE_US_MAX,
        names::TOKEN_STALL | names::REQUEST_MODEL | names::TENANT => return true,
        _ => return false,
    };
    attribute.value.count(most).is_some()
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
        if plain.request_span_id.iter().all(|byte| *byte == 0) {
            plain.request_span_id = &[];
        }
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

impl Normalizer {
    /// Appends a span to `tokens` if it is a plain token whose time is accepted; false leaves it to the general way.
    #[inline]
    pub(super) fn plain_token(
        &self,
        place: &Place<'_, '_>,
        bytes: &[u8],
        tables: &mut Tables,
    ) -> Result<bool, Malformed> {
        let Some(plain) = Plain::read(bytes)? else { return Ok(false) };
        let time_us = micros(plain.end);
        if !accepts(&telemetry::table::TOKENS, time_us, place.body.received_us) {
            return Ok(false);
        }
        if let Some(rows) = tables.tokens.rows(time_us) {
            self.columns_of(place, plain.trace_id, plain.request_span_id, time_us, &plain.token, rows);
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
        self.token_row(place, span.trace_id, span.parent_span_id, time_us, attributes, rows)
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
            self.token_row(place, span.trace_id, span.span_id, time_us, &mut attributes, rows)?;
        }
        Ok(())
    }

    fn token_row<'a>(
        &self,
        place: &Place<'_, 'a>,
        trace_id: &[u8],
        request_span_id: &[u8],
        time_us: i64,
        attributes: &mut Vec<Attribute<'a>>,
        rows: &mut Rows,
    ) -> Result<(), Malformed> {
        let columns = &self.columns.tokens;
        let token = Token::read(attributes)?;
        self.columns_of(place, trace_id, request_span_id, time_us, &token, rows);
        if token.more {
            attributes.retain(|attribute| !is_taken(attribute) && !is_empty(attribute.value));
            Stored::new(attributes, &self.redaction)?.write(rows, columns.attributes, columns.attributes_typed);
        }
        rows.end();
        Ok(())
    }

    #[inline]
    fn columns_of(
        &self,
        place: &Place<'_, '_>,
        trace_id: &[u8],
        request_span_id: &[u8],
        time_us: i64,
        token: &Token<'_>,
        rows: &mut Rows,
    ) {
        let columns = &self.columns.tokens;
        if rows.enter(place.source) {
            place.resource.hold(rows);
        }
        rows.time(columns.time, time_us);
        rows.id(columns.trace_id, trace_id);
        rows.id(columns.request_span_id, request_span_id);
        token.write(columns, rows);
        match token.model {
            Some(named) => rows.checked(columns.model, named),
            None => rows.text_opt(columns.model, self.models.of(place.resource, None).name()),
        }
    }
}

fn is_empty(value: Value<'_>) -> bool {
    matches!(value, Value::Empty)
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
            assert!(!token.more, "{name}");
            let ints = [token.index, token.batch, token.device_us, Some(token.choice).filter(|choice| *choice > 0)];
            let set = ints.iter().flatten().count() + usize::from(token.count == 3);
            let text = [names::TOKEN_STALL, names::REQUEST_MODEL, names::TENANT].contains(&name);
            assert_eq!(set, usize::from(!text), "{name}");
            for resembling in [name.replace("token", "taken"), format!("{name}x"), name[1..].to_owned()] {
                let mut token = Token::default();
                token.take(resembling.as_bytes(), b"\x0a\x01x").unwrap();
                assert!(token.more || resembling == name, "{resembling}");
            }
        }
    }
}
