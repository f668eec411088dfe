//! Token spans and token events: the hot path. Nothing is allocated per token.

use telemetry::names;

use super::resource::Stored;
use super::row::{Hex, micros};
use super::window::accepts;
use super::{Normalizer, Place};
use crate::batch::rows::{Rows, columns};
use crate::batch::tables::Tables;
use crate::decode::view::{Attribute, Span, Value};
use crate::decode::wire::{Fields, Malformed, Raw};

columns! {
    /// Columns of `tokens` beyond the dimensions.
    pub(super) Columns of telemetry::table::TOKENS: time trace_id request_span_id choice index count batch_size device_us
        stall model tenant attributes attributes_typed
}

/// What a token's attributes say.
#[derive(Default)]
struct Token<'a> {
    index: Option<i64>,
    choice: i64,
    count: i64,
    batch: Option<i64>,
    device_us: Option<i64>,
    stall: Option<&'a str>,
    model: Option<&'a str>,
    tenant: Option<&'a str>,
    /// Whether there are attributes without a column.
    more: bool,
}

impl<'a> Token<'a> {
    fn read(attributes: &[Attribute<'a>]) -> Self {
        let mut token = Self { count: 1, ..Self::default() };
        for attribute in attributes {
            let value = attribute.value;
            token.more |= !is_taken(attribute);
            match attribute.key {
                names::TOKEN_INDEX => token.index = value.count(INDEX_MAX),
                names::TOKEN_CHOICE => token.choice = value.count(COUNT_MAX).unwrap_or_default(),
                names::TOKEN_COUNT => token.count = value.count(COUNT_MAX).unwrap_or(1),
                names::TOKEN_BATCH => token.batch = value.count(COUNT_MAX),
                names::TOKEN_DEVICE_US => token.device_us = value.count(DEVICE_US_MAX),
                names::TOKEN_STALL => token.stall = value.text(),
                names::REQUEST_MODEL => token.model = value.text(),
                names::TENANT => token.tenant = value.text(),
                _ => {}
            }
        }
        token
    }

    fn write(&self, columns: &Columns, rows: &mut Rows) {
        rows.int_opt(columns.index, self.index);
        rows.int(columns.choice, self.choice);
        rows.int(columns.count, self.count);
        rows.int_opt(columns.batch_size, self.batch);
        rows.int_opt(columns.device_us, self.device_us);
        rows.text_opt(columns.stall, self.stall);
        rows.text_opt(columns.tenant, self.tenant);
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

impl Normalizer {
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
        let token = Token::read(attributes);
        rows.time(columns.time, time_us);
        place.resource.write(rows);
        rows.text(columns.trace_id, Hex::new(trace_id).as_str());
        rows.text(columns.request_span_id, Hex::new(request_span_id).as_str());
        token.write(columns, rows);
        let model = match token.model {
            Some(named) => Some(named),
            None => self.models.of(place.resource, None).name(),
        };
        rows.text_opt(columns.model, model);
        if token.more {
            attributes.retain(|attribute| !is_taken(attribute) && !is_empty(attribute.value));
            Stored::new(attributes, &self.redaction)?.write(rows, columns.attributes, columns.attributes_typed);
        }
        rows.end();
        Ok(())
    }
}

fn is_empty(value: Value<'_>) -> bool {
    matches!(value, Value::Empty)
}
