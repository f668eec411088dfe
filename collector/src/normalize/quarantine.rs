//! Rows whose event time no table accepts: kept whole, filed under their arrival.

use super::row::Hex;
use super::{Normalizer, Place};
use crate::batch::rows::columns;
use crate::batch::tables::Tables;
use crate::decode::print;
use crate::decode::schema::{self, Message};
use crate::decode::view::{Item, Span};
use crate::decode::wire::Malformed;

columns! {
    /// Columns of `quarantine` beyond the dimensions.
    pub(super) Columns of telemetry::table::QUARANTINE: time signal name reason event_unix_nano trace_id span_id body
}

/// Why a row is here; the only reason so far.
const REASON: &str = "event time outside what its table keeps";

impl Normalizer {
    /// Appends an item to `quarantine`.
    pub(super) fn quarantine(
        &self,
        place: &Place<'_, '_>,
        item: &Item<'_>,
        message: &'static Message,
        bytes: &[u8],
        tables: &mut Tables,
    ) -> Result<(), Malformed> {
        let columns = &self.columns.quarantine;
        let received_us = place.body.received_us;
        let Some(rows) = tables.quarantine.rows(received_us) else { return Ok(()) };
        rows.time(columns.time, received_us);
        place.resource.write(rows);
        rows.text(columns.signal, place.body.signal.name());
        rows.text_some(columns.name, item.name);
        rows.text(columns.reason, REASON);
        rows.int(columns.event_unix_nano, item.time as i64);
        rows.text_some(columns.trace_id, Hex::new(item.trace_id).as_str());
        rows.text_some(columns.span_id, Hex::new(item.span_id).as_str());
        let mut body = String::new();
        print::message(message, bytes, &self.redaction, &mut body)?;
        rows.text(columns.body, &body);
        rows.end();
        Ok(())
    }

    /// Appends a span to `quarantine`.
    pub(super) fn quarantine_span(
        &self,
        place: &Place<'_, '_>,
        span: &Span<'_>,
        tables: &mut Tables,
    ) -> Result<(), Malformed> {
        let item = Item {
            name: span.name,
            trace_id: span.trace_id,
            span_id: span.span_id,
            parent_span_id: span.parent_span_id,
            time: span.start,
            end: span.end,
        };
        self.quarantine(place, &item, &schema::SPAN, span.bytes, tables)
    }
}
