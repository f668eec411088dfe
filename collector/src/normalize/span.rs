//! Spans: each into `spans` as it was sent, tokens into `tokens`, inference calls also into `requests`.

use telemetry::names;

use super::dialect::Field;
use super::resource::Stored;
use super::row::{micros, origin};
use super::seen::Seen;
use super::token::Alike;
use super::{Normalizer, Place, window};
use crate::batch::rows::columns;
use crate::batch::tables::Tables;
use crate::decode::view::{Attribute, Item, Span};
use crate::decode::wire::Malformed;
use crate::decode::{check, print, schema};
use crate::signal::Signal;

columns! {
    /// Columns of `spans` beyond the dimensions.
    pub(super) Columns of telemetry::table::SPANS: time trace_id span_id parent_span_id trace_state flags name kind
        time_unix_nano end_unix_nano status status_message events links dropped_attributes dropped_events dropped_links
        tenant attributes attributes_typed resource resource_typed resource_schema_url resource_dropped scope_name
        scope_version scope_attributes scope_typed scope_schema_url scope_dropped resource_entities
}

/// Span kinds by their OTLP number.
const KINDS: [&str; 6] = ["unspecified", "internal", "server", "client", "producer", "consumer"];
/// Span statuses by their OTLP number.
const STATUSES: [&str; 3] = ["unset", "ok", "error"];

impl Normalizer {
    /// Appends the rows of one span.
    pub(super) fn span<'a>(
        &mut self,
        place: &Place<'_, 'a>,
        bytes: &'a [u8],
        attributes: &mut Vec<Attribute<'a>>,
        alike: &mut Alike<'a>,
        tables: &mut Tables,
    ) -> Result<(), Malformed> {
        if place.body.faulty && check::item_fault(Signal::Traces, &schema::SPAN, bytes)?.is_some() {
            return Ok(());
        }
        if self.plain_token(place, bytes, alike, tables)? {
            return Ok(());
        }
        let span = Span::read(bytes, attributes)?;
        let item = Item { name: span.name, time: span.start, end: span.end, ..Item::default() };
        if window::late(Signal::Traces, &item, place.body.received_us) {
            return self.quarantine_span(place, &span, tables);
        }
        if span.name == names::SPAN_TOKEN {
            return self.token(place, &span, attributes, tables);
        }
        let seen = Seen::new(&self.aliases, &span, attributes);
        self.distinct.call(seen.tenant(), seen.text(Field::RequestModel), place.resource);
        self.span_row(place, &span, attributes, seen.tenant(), tables)?;
        if span.has_events {
            self.token_events(place, &span, tables)?;
        }
        self.request(place, &span, attributes, seen, tables)
    }

    fn span_row<'a>(
        &self,
        place: &Place<'_, 'a>,
        span: &Span<'a>,
        attributes: &[Attribute<'a>],
        tenant: Option<&str>,
        tables: &mut Tables,
    ) -> Result<(), Malformed> {
        let columns = &self.columns.spans;
        let time_us = micros(span.start);
        let Some(rows) = tables.spans.rows(time_us) else { return Ok(()) };
        rows.time(columns.time, time_us);
        place.resource.write(rows);
        rows.id(columns.trace_id, span.trace_id);
        rows.id(columns.span_id, span.span_id);
        rows.id(columns.parent_span_id, span.parent_span_id);
        rows.text_some(columns.trace_state, span.trace_state);
        rows.int(columns.flags, i64::from(span.flags));
        rows.text(columns.name, span.name);
        named(rows, columns.kind, &KINDS, span.kind);
        rows.int(columns.time_unix_nano, span.start as i64);
        rows.int(columns.end_unix_nano, span.end as i64);
        if span.has_status {
            named(rows, columns.status, &STATUSES, span.status_code);
            rows.text_some(columns.status_message, &self.redaction.clean(span.status_message));
        }
        if span.has_events {
            let mut events = String::new();
            print::array(&schema::EVENT, 11, span.bytes, &self.redaction, &mut events)?;
            rows.text(columns.events, &events);
        }
        if span.has_links {
            let mut links = String::new();
            print::array(&schema::LINK, 13, span.bytes, &self.redaction, &mut links)?;
            rows.text(columns.links, &links);
        }
        for (count, column) in
            span.dropped.iter().zip([columns.dropped_attributes, columns.dropped_events, columns.dropped_links])
        {
            rows.int(column, i64::from(*count));
        }
        rows.text_opt(columns.tenant, tenant);
        Stored::new(attributes, &self.redaction)?.write(rows, columns.attributes, columns.attributes_typed);
        origin!(columns).write(place, &self.redaction, rows)?;
        rows.end();
        Ok(())
    }
}

/// Puts the name of an enumerated value into a row, or its number if OTLP gained one since.
fn named(rows: &mut crate::batch::rows::Rows, column: usize, known: &[&str], number: u64) {
    match usize::try_from(number).ok().and_then(|place| known.get(place)) {
        Some(name) => rows.text(column, name),
        None => rows.text(column, &number.to_string()),
    }
}
