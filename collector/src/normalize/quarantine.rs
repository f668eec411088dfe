//! Rows whose event time no table accepts: kept whole, filed under their arrival.
//!
//! A row's `body` is an OTLP/JSON request that holds it alone, with its resource and scope: posted to the path of its signal
//! (with a time that can be meant) it is put back.

use super::row::Hex;
use super::{Normalizer, Place};
use crate::batch::rows::columns;
use crate::batch::tables::Tables;
use crate::decode::print;
use crate::decode::schema;
use crate::decode::view::{Item, Span};
use crate::decode::wire::{Fields, Malformed, Raw, put_bytes, put_raw};
use crate::signal::Signal;

columns! {
    /// Columns of `quarantine` beyond the dimensions.
    pub(super) Columns of telemetry::table::QUARANTINE: time signal name reason event_unix_nano trace_id span_id body
}

/// Why a row is here; the only reason so far.
const REASON: &str = "event time outside what its table keeps";

impl Normalizer {
    /// Appends an item to `quarantine`; `bytes` are its span, log record, or metric with this point alone.
    pub(super) fn quarantine(
        &self,
        place: &Place<'_, '_>,
        item: &Item<'_>,
        bytes: &[u8],
        tables: &mut Tables,
    ) -> Result<(), Malformed> {
        let columns = &self.columns.quarantine;
        let received_us = place.body.received_us;
        let Some(rows) = tables.quarantine.rows(received_us) else { return Ok(()) };
        let message = match place.body.signal {
            Signal::Traces => &schema::TRACES,
            Signal::Logs => &schema::LOGS,
            Signal::Metrics | Signal::Own | Signal::Alerts => &schema::METRICS,
        };
        let mut body = String::new();
        print::message(message, &request(place, bytes), &self.redaction, &mut body)?;
        rows.time(columns.time, received_us);
        place.resource.write(rows);
        rows.text(columns.signal, place.body.signal.name());
        rows.text_some(columns.name, item.name);
        rows.text(columns.reason, REASON);
        rows.int(columns.event_unix_nano, item.time as i64);
        rows.text_some(columns.trace_id, Hex::new(item.trace_id).as_str());
        rows.text_some(columns.span_id, Hex::new(item.span_id).as_str());
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
        self.quarantine(place, &item, span.bytes, tables)
    }
}

/// A metric with one of its points; `data` is its field that holds them.
pub(super) fn metric_of(metric: &[u8], data: u32, point: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut alone = Vec::new();
    for field in Fields::new(metric) {
        match field? {
            (number, Raw::Bytes(points)) if number == data => {
                let mut kept = Vec::new();
                for field in Fields::new(points) {
                    match field? {
                        (1, _) => {}
                        (number, value) => put_raw(number, value, &mut kept),
                    }
                }
                put_bytes(1, point, &mut kept);
                put_bytes(number, &kept, &mut alone);
            }
            (number, value) => put_raw(number, value, &mut alone),
        }
    }
    Ok(alone)
}

/// The request that holds one item of a place. The three signals number their fields alike.
fn request(place: &Place<'_, '_>, item: &[u8]) -> Vec<u8> {
    let mut scope = Vec::new();
    put_bytes(1, place.scope.scope, &mut scope);
    put_bytes(2, item, &mut scope);
    put_bytes(3, place.scope.schema_url.as_bytes(), &mut scope);
    let mut group = Vec::new();
    put_bytes(1, place.resource.raw, &mut group);
    put_bytes(2, &scope, &mut group);
    put_bytes(3, place.resource.schema_url.as_bytes(), &mut group);
    let mut request = Vec::new();
    put_bytes(1, &group, &mut request);
    request
}
