//! Inference calls: a span of any emitter, read through the dialects, as one row of `requests`.

use telemetry::names;

use super::dialect::{Dialect, FIRST_TOKEN_EVENTS, Field, Place as Measured, Sight};
use super::models::Model;
use super::outcome::{self, STATUS_ERROR};
use super::quality::{self, Figures, Flags};
use super::resource::{Resource, Stored, named_text};
use super::row::micros;
use super::seen::{Reading, Seen};
use super::token::DEVICE_US_MAX;
use super::{Normalizer, Place};
use crate::batch::rows::{Rows, columns};
use crate::batch::tables::Tables;
use crate::decode::view::{Attribute, Span, cut, text};
use crate::decode::wire::{Fields, Malformed, Raw};

columns! {
    /// Columns of `requests` beyond the dimensions.
    pub(super) Columns of telemetry::table::REQUESTS: time measured_at trace_id span_id parent_span_id request_id engine
        accelerator chips model quantization tensor_parallel tenant operation stream input_tokens cached_input_tokens
        output_tokens reasoning_tokens queue_s prefill_s decode_s ttft_s tpot_s itl_max_s e2e_s device_us_prefill
        device_us_decode status error_type finish_reason ttft_definition token_sampling quality attributes
        attributes_typed
}

/// OTLP's number of span kind SERVER.
const KIND_SERVER: u64 = 2;
/// More chips than one model is spread over.
const CHIPS_MAX: i64 = 1_000_000;

impl Normalizer {
    /// Appends a row to `requests` if the span is a call in some dialect.
    pub(super) fn request<'a>(
        &self,
        place: &Place<'_, 'a>,
        span: &Span<'a>,
        attributes: &mut Vec<Attribute<'a>>,
        mut seen: Seen<'a>,
        tables: &mut Tables,
    ) -> Result<(), Malformed> {
        let Some(dialect) = seen.call() else { return Ok(()) };
        let time_us = micros(span.start);
        let Some(rows) = tables.requests.rows(time_us) else { return Ok(()) };
        let columns = &self.columns.requests;
        let mut reading = seen.read(dialect, span.name);
        (dialect.more)(&Sight { span, attributes }, &place.neighbours, &mut reading)?;
        read_events(span, &mut reading)?;
        let Reading { mut figures, mut flags, .. } = reading;
        if figures.e2e_s.is_none() {
            figures.e2e_s = Some((span.end as i64).wrapping_sub(span.start as i64) as f64 / 1e9);
            flags.raise(Flags::E2E_FROM_SPAN);
        }
        flags.raise(quality::mend(&mut figures));
        let named = seen.text(Field::RequestModel).or_else(|| seen.text(Field::ResponseModel));
        let model = self.models.of(place.resource, named);
        flags.raise_if(matches!(model, Model::Assumed(_)), Flags::ASSUMED_MODEL);
        flags.raise_if(seen.is_cut() || place.resource.is_cut(), Flags::CUT);
        rows.time(columns.time, time_us);
        place.resource.write(rows);
        rows.text(columns.measured_at, measured_at(&seen, dialect, place.resource));
        rows.id(columns.trace_id, span.trace_id);
        rows.id(columns.span_id, span.span_id);
        rows.id(columns.parent_span_id, span.parent_span_id);
        rows.text_opt(columns.model, model.name());
        write_identity(columns, &mut seen, dialect, place.resource, rows);
        rows.text_opt(columns.operation, reading.operation);
        if let Some(stream) = reading.stream {
            rows.flag(columns.stream, stream);
        }
        write_figures(columns, &figures, rows);
        write_outcome(columns, &mut seen, reading.error_type, &mut flags, rows)?;
        if figures.ttft_s.is_some() {
            rows.text(
                columns.ttft_definition,
                reading.ttft_definition.unwrap_or_else(|| ttft_definition(&seen, dialect)),
            );
        }
        rows.text_some(columns.quality, &flags.text());
        let aliases = self.aliases.of(Some(dialect));
        attributes.retain(|attribute| !seen.used(aliases, attribute.key));
        let of_resource =
            place.resource.named(&self.allocation_keys, |key| attributes.iter().any(|own| own.key == key));
        attributes.extend(of_resource.collect::<Vec<_>>());
        Stored::new(attributes, &self.redaction)?.write(rows, columns.attributes, columns.attributes_typed);
        rows.end();
        Ok(())
    }
}

/// Takes from the events what no attribute gave: the time to first token, and the type of an exception.
fn read_events<'a>(span: &Span<'a>, reading: &mut Reading<'a>) -> Result<(), Malformed> {
    if !span.has_events {
        return Ok(());
    }
    for field in Fields::new(span.bytes) {
        let (11, Raw::Bytes(event)) = field? else { continue };
        let (mut name, mut time) = ("", 0);
        for field in Fields::new(event) {
            match field? {
                (1, Raw::Fixed64(nanos)) => time = nanos,
                (2, Raw::Bytes(bytes)) => name = text(bytes)?,
                _ => {}
            }
        }
        if reading.figures.ttft_s.is_none() && FIRST_TOKEN_EVENTS.contains(&name) && time >= span.start {
            reading.figures.ttft_s = Some((time - span.start) as f64 / 1e9);
            reading.ttft_definition = reading.ttft_definition.or(Some(name));
        } else if reading.error_type.is_none() && span.status_code == STATUS_ERROR && name == "exception" {
            let mut attributes = Vec::new();
            Attribute::read_all(event, 3, &mut attributes)?;
            reading.error_type = named_text(&attributes, "exception.type");
        }
    }
    Ok(())
}

fn measured_at<'a>(seen: &Seen<'a>, dialect: &Dialect, resource: &Resource<'a>) -> &'a str {
    let said = seen.text(Field::MeasuredAt).or_else(|| resource.get(names::MEASURED_AT).text());
    if let Some(said @ ("client" | "gateway" | "server")) = said {
        return said;
    }
    match dialect.measured_at {
        Measured::Server => "server",
        Measured::Gateway => "gateway",
        Measured::ByKind | Measured::ServerOrGateway if seen.kind == KIND_SERVER => "server",
        Measured::ByKind => "client",
        Measured::ServerOrGateway => "gateway",
    }
}

fn ttft_definition(seen: &Seen<'_>, dialect: &'static Dialect) -> &'static str {
    match seen.get(Field::Ttft) {
        Some(((_, alias), _)) if !alias.definition.is_empty() => alias.definition,
        _ => dialect.ttft_definition,
    }
}

fn write_identity(columns: &Columns, seen: &mut Seen<'_>, dialect: &Dialect, resource: &Resource<'_>, rows: &mut Rows) {
    rows.text_opt(columns.request_id, seen.text(Field::RequestId));
    rows.int_opt(columns.chips, resource.chips());
    rows.text_opt(columns.tenant, seen.tenant());
    for (column, field, key, known) in [
        (columns.engine, Field::Engine, names::ENGINE, dialect.engine),
        (columns.accelerator, Field::Accelerator, names::ACCELERATOR, None),
        (columns.quantization, Field::Quantization, names::QUANTIZATION, None),
    ] {
        rows.text_opt(column, seen.text(field).or_else(|| resource.get(key).text()).or(known));
    }
    let degree = seen.get(Field::TensorParallel).and_then(|(_, value)| value.count(CHIPS_MAX));
    rows.int_opt(columns.tensor_parallel, degree.or_else(|| resource.get(names::TENSOR_PARALLEL).count(CHIPS_MAX)));
}

/// Writes tokens and seconds.
pub(super) fn write_figures(columns: &Columns, figures: &Figures, rows: &mut Rows) {
    for (column, tokens) in [
        (columns.input_tokens, figures.input_tokens),
        (columns.cached_input_tokens, figures.cached_input_tokens),
        (columns.output_tokens, figures.output_tokens),
        (columns.reasoning_tokens, figures.reasoning_tokens),
    ] {
        rows.int_opt(column, tokens);
    }
    for (column, seconds) in [
        (columns.queue_s, figures.queue_s),
        (columns.prefill_s, figures.prefill_s),
        (columns.decode_s, figures.decode_s),
        (columns.ttft_s, figures.ttft_s),
        (columns.tpot_s, figures.tpot_s),
        (columns.itl_max_s, figures.itl_max_s),
        (columns.e2e_s, figures.e2e_s),
    ] {
        rows.double_opt(column, seconds);
    }
}

fn write_outcome(
    columns: &Columns,
    seen: &mut Seen<'_>,
    error: Option<&str>,
    flags: &mut Flags,
    rows: &mut Rows,
) -> Result<(), Malformed> {
    for (column, field) in
        [(columns.device_us_prefill, Field::DeviceUsPrefill), (columns.device_us_decode, Field::DeviceUsDecode)]
    {
        let us = seen.integer(field, flags);
        let believed = us.filter(|us| (0..=DEVICE_US_MAX).contains(us));
        flags.raise_if(believed != us, Flags::INVALID);
        rows.int_opt(column, believed);
    }
    let sampling = seen.number(Field::TokenSampling, flags).filter(|share| (0.0..=1.0).contains(share));
    rows.double_opt(columns.token_sampling, sampling);
    let finish = match seen.get(Field::FinishReason) {
        Some((_, value)) => outcome::finish_reason(value)?,
        None => String::new(),
    };
    rows.text_some(columns.finish_reason, cut(&finish));
    rows.text_opt(columns.error_type, error);
    rows.text(columns.status, outcome::status(seen.status_code, &finish, error));
    Ok(())
}
