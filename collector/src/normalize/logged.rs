//! Calls of which only a line of a log tells; the line also stays in `logs`.

use xxhash_rust::xxh3::{Xxh3, xxh3_128_with_seed};

use super::dialect::webui::{self, Line};
use super::models::Model;
use super::quality::{self, Figures, Flags};
use super::request::write_figures;
use super::row::Hex;
use super::window::accepts;
use super::{Normalizer, Place};
use crate::batch::tables::Tables;

/// A log record whose body is text.
pub(super) struct Logged<'l> {
    /// Its body.
    pub(super) text: &'l str,
    /// When it was written, microseconds since 1970-01-01 UTC: the end of the call.
    pub(super) time_us: i64,
    /// The trace in which it was written, if any.
    pub(super) trace_id: &'l [u8],
    /// The span in which it was written, if any.
    pub(super) span_id: &'l [u8],
    /// For whom the call was served, if the record says it.
    pub(super) tenant: Option<&'l str>,
}

impl Normalizer {
    /// Appends to `requests` the calls that a log record tells of.
    pub(super) fn logged_calls(&self, place: &Place<'_, '_>, logged: &Logged<'_>, tables: &mut Tables) {
        let mut record = None;
        for (index, line) in (0..).zip(webui::lines(logged.text)) {
            let digest = *record.get_or_insert_with(|| digest(place, logged));
            // The same record sent again gives the same ids, so that its calls can be told from others.
            let id = xxh3_128_with_seed(&digest.to_be_bytes(), index).to_be_bytes();
            self.logged_call(place, logged, line, &id, tables);
        }
    }

    fn logged_call(&self, place: &Place<'_, '_>, logged: &Logged<'_>, line: Line, id: &[u8; 16], tables: &mut Tables) {
        let mut figures = Figures {
            e2e_s: Some(line.seconds),
            input_tokens: Some(line.input_tokens),
            output_tokens: Some(line.output_tokens),
            ..Figures::default()
        };
        let mut flags = Flags::FROM_LOG;
        flags.raise_if(!line.is_consistent, Flags::CONTRADICTORY);
        flags.raise(quality::mend(&mut figures));
        let took_us = figures.e2e_s.map_or(0, |seconds| (seconds * 1e6) as i64);
        let start_us = logged.time_us - took_us;
        let is_kept = accepts(&telemetry::table::REQUESTS, start_us, place.body.received_us);
        let time_us = if is_kept { start_us } else { logged.time_us };
        let columns = &self.columns.requests;
        let Some(rows) = tables.requests.rows(time_us) else { return };
        let model = self.models.of(place.resource, None);
        flags.raise_if(matches!(model, Model::Assumed(_)), Flags::ASSUMED_MODEL);
        rows.time(columns.time, time_us);
        place.resource.write(rows);
        rows.text(columns.measured_at, "server");
        let trace_id = if logged.trace_id.is_empty() { id } else { logged.trace_id };
        rows.text(columns.trace_id, Hex::new(trace_id).as_str());
        rows.text(columns.span_id, Hex::new(&id[..8]).as_str());
        rows.text(columns.parent_span_id, Hex::new(logged.span_id).as_str());
        rows.text(columns.engine, webui::ENGINE);
        rows.int_opt(columns.chips, place.resource.chips());
        rows.text_opt(columns.model, model.name());
        rows.text_opt(columns.tenant, logged.tenant);
        write_figures(columns, &figures, rows);
        rows.text(columns.status, "ok");
        rows.text_some(columns.quality, &flags.text());
        rows.end();
    }
}

/// A digest of a record and of where it was written.
fn digest(place: &Place<'_, '_>, logged: &Logged<'_>) -> u128 {
    let mut hasher = Xxh3::new();
    for dimension in place.resource.dimensions().iter().flatten() {
        hasher.update(dimension.as_bytes());
        hasher.update(&[0xff]);
    }
    hasher.update(&logged.time_us.to_be_bytes());
    hasher.update(logged.text.as_bytes());
    hasher.digest128()
}
