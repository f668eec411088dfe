//! Log records, as they were sent.

use super::logged::Logged;
use super::resource::{Stored, named_text};
use super::row::{Hex, micros, origin};
use super::{Normalizer, Place, window};
use crate::batch::rows::columns;
use crate::batch::tables::Tables;
use crate::decode::view::{Attribute, Item, Value, text};
use crate::decode::wire::{Fields, Malformed, Raw};
use crate::decode::{check, print, schema};
use crate::signal::Signal;

columns! {
    /// Columns of `logs` beyond the dimensions.
    pub(super) Columns of telemetry::table::LOGS: time time_unix_nano observed_unix_nano severity_number severity body
        body_typed event_name trace_id span_id flags dropped_attributes tenant attributes attributes_typed resource
        resource_typed resource_schema_url resource_dropped scope_name scope_version scope_attributes scope_typed
        scope_schema_url scope_dropped resource_entities
}

/// A log record without its attributes.
#[derive(Default)]
struct Record<'a> {
    time: u64,
    observed: u64,
    severity_number: u64,
    severity: &'a str,
    body: Option<&'a [u8]>,
    dropped: u32,
    flags: u32,
    trace_id: &'a [u8],
    span_id: &'a [u8],
    event_name: &'a str,
}

impl<'a> Record<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut record = Self::default();
        for field in Fields::new(bytes) {
            match field? {
                (1, Raw::Fixed64(time)) => record.time = time,
                (11, Raw::Fixed64(time)) => record.observed = time,
                (2, Raw::Varint(number)) => record.severity_number = number,
                (3, Raw::Bytes(severity)) => record.severity = text(severity)?,
                (5, Raw::Bytes(body)) => record.body = Some(body),
                (7, Raw::Varint(count)) => record.dropped = count as u32,
                (8, Raw::Fixed32(flags)) => record.flags = flags,
                (9, Raw::Bytes(id)) => record.trace_id = id,
                (10, Raw::Bytes(id)) => record.span_id = id,
                (12, Raw::Bytes(name)) => record.event_name = text(name)?,
                _ => {}
            }
        }
        Ok(record)
    }

    /// When it happened: its own time, else when it was first seen, else when it was received; microseconds.
    fn time_us(&self, received_us: i64) -> i64 {
        [self.time, self.observed].into_iter().find(|time| *time != 0).map_or(received_us, micros)
    }
}

impl Normalizer {
    /// Appends one log record to `logs`.
    pub(super) fn log<'a>(
        &mut self,
        place: &Place<'_, 'a>,
        bytes: &'a [u8],
        attributes: &mut Vec<Attribute<'a>>,
        tables: &mut Tables,
    ) -> Result<(), Malformed> {
        if place.body.faulty && check::item_fault(Signal::Logs, &schema::LOG_RECORD, bytes)?.is_some() {
            return Ok(());
        }
        let item = Item::read(Signal::Logs, bytes)?;
        if window::late(Signal::Logs, &item, place.body.received_us) {
            return self.quarantine(place, &item, bytes, tables);
        }
        let record = Record::read(bytes)?;
        Attribute::read_all(bytes, 6, attributes)?;
        let columns = &self.columns.logs;
        let time_us = record.time_us(place.body.received_us);
        let tenant = named_text(attributes, telemetry::names::TENANT);
        if let Some(body) = record.body
            && let Value::Text(text) = Value::read(body)?
        {
            let Record { trace_id, span_id, .. } = record;
            self.logged_calls(place, &Logged { text, time_us, trace_id, span_id, tenant }, tables);
        }
        let Some(rows) = tables.logs.rows(time_us) else { return Ok(()) };
        rows.time(columns.time, time_us);
        place.resource.write(rows);
        rows.int(columns.time_unix_nano, record.time as i64);
        rows.int(columns.observed_unix_nano, record.observed as i64);
        rows.int(columns.severity_number, record.severity_number as i64);
        rows.text_some(columns.severity, record.severity);
        let event =
            attributes.iter().find(|attribute| attribute.key == "event.name").and_then(|found| found.value.text());
        let spoken =
            self.redaction.drops_body(record.event_name) || event.is_some_and(|event| self.redaction.drops_body(event));
        if let Some(body) = record.body
            && !spoken
        {
            let mut plain = String::new();
            print::plain(Value::read(body)?, &self.redaction, &mut plain)?;
            rows.text(columns.body, &plain);
            if !matches!(Value::read(body)?, Value::Text(_)) {
                let mut typed = String::new();
                print::message(&schema::ANY_VALUE, body, &self.redaction, &mut typed)?;
                rows.text(columns.body_typed, &typed);
            }
        }
        rows.text_some(columns.event_name, record.event_name);
        rows.text_some(columns.trace_id, Hex::new(record.trace_id).as_str());
        rows.text_some(columns.span_id, Hex::new(record.span_id).as_str());
        rows.int(columns.flags, i64::from(record.flags));
        rows.int(columns.dropped_attributes, i64::from(record.dropped));
        rows.text_opt(columns.tenant, tenant);
        if spoken {
            attributes.retain(|attribute| !self.redaction.drops_within(attribute.key));
        }
        Stored::new(attributes, &self.redaction)?.write(rows, columns.attributes, columns.attributes_typed);
        origin!(columns).write(place, &self.redaction, rows)?;
        rows.end();
        Ok(())
    }
}
