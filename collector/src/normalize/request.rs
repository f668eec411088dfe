//! Inference calls: a span of any emitter, read through the dialects, as one row of `requests`.

use telemetry::names;

use super::dialect::{self, Aliases, Dialect, FIELDS, FIRST_TOKEN_EVENTS, Field, Place as Measured, Ranked, Scale};
use super::models::Model;
use super::quality::{self, Figures, Flags};
use super::resource::{Resource, Stored};
use super::row::{Hex, micros};
use super::{Normalizer, Place};
use crate::batch::rows::{Rows, columns};
use crate::batch::tables::Tables;
use crate::decode::view::{Attribute, Span, Value, text};
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
/// OTLP's number of span status ERROR.
const STATUS_ERROR: u64 = 2;

/// A span's attributes, sorted by what they mean.
pub struct Seen<'a> {
    /// The span.
    pub span: Span<'a>,
    attributes: Vec<Attribute<'a>>,
    fields: [Option<(Ranked, Value<'a>)>; FIELDS],
}

impl<'a> Seen<'a> {
    /// Looks up what every attribute of a span means.
    pub fn new(aliases: &Aliases, span: &Span<'a>, attributes: &[Attribute<'a>]) -> Self {
        let mut fields = [None; FIELDS];
        for attribute in attributes {
            let Some(found @ (rank, alias)) = aliases.get(attribute.key) else { continue };
            if matches!(attribute.value, Value::Empty) {
                continue;
            }
            if let Some(slot) = fields.get_mut(alias.field as usize)
                && slot.is_none_or(|((held, _), _): (Ranked, Value<'_>)| rank < held)
            {
                *slot = Some((found, attribute.value));
            }
        }
        Self { span: *span, attributes: attributes.to_vec(), fields }
    }

    /// Whether the span has that field.
    pub fn has(&self, field: Field) -> bool {
        self.get(field).is_some()
    }

    /// Whether it has an attribute of that key.
    pub fn has_key(&self, key: &str) -> bool {
        self.attributes.iter().any(|attribute| attribute.key == key)
    }

    /// Whether it has an attribute whose key starts so.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        self.attributes.iter().any(|attribute| attribute.key.starts_with(prefix))
    }

    /// The text of the attribute of that key.
    pub fn raw_text(&self, key: &str) -> Option<&'a str> {
        self.attributes.iter().find(|attribute| attribute.key == key).and_then(|found| found.value.text())
    }

    /// A field's text.
    pub fn text(&self, field: Field) -> Option<&'a str> {
        self.get(field).and_then(|(_, value)| value.text())
    }

    /// For whom the call is served.
    pub fn tenant(&self) -> Option<&'a str> {
        self.text(Field::Tenant)
    }

    fn get(&self, field: Field) -> Option<(Ranked, Value<'a>)> {
        self.fields.get(field as usize).copied().flatten()
    }

    fn integer(&self, field: Field) -> Option<i64> {
        self.get(field).and_then(|(_, value)| value.integer())
    }

    /// A field in the unit of its column.
    fn number(&self, field: Field) -> Option<f64> {
        let ((_, alias), value) = self.get(field)?;
        match alias.scale {
            Scale::One => value.number(),
            Scale::Times(factor) => value.number().map(|number| number * factor),
            Scale::RustDuration => rust_duration(value.text()?),
        }
    }

    /// Whether an attribute went into a column, so that it need not be kept as an attribute.
    fn used(&self, aliases: &Aliases, key: &str) -> bool {
        aliases.get(key).is_some_and(|(rank, alias)| {
            let second = alias.field == Field::ResponseModel && self.has(Field::RequestModel);
            !second
                && !matches!(alias.field, Field::Mark | Field::TotalTokens)
                && self.get(alias.field).is_some_and(|((held, _), _)| held == rank)
        })
    }

    fn dialect(&self) -> Option<&'static Dialect> {
        dialect::DIALECTS.iter().copied().find(|dialect| (dialect.is_call)(self))
    }
}

impl Normalizer {
    /// Appends a row to `requests` if the span is a call in some dialect.
    pub(super) fn request<'a>(
        &self,
        place: &Place<'_, 'a>,
        span: &Span<'a>,
        attributes: &mut Vec<Attribute<'a>>,
        seen: Seen<'a>,
        tables: &mut Tables,
    ) -> Result<(), Malformed> {
        let Some(dialect) = seen.dialect() else { return Ok(()) };
        let time_us = micros(span.start);
        let Some(rows) = tables.requests.rows(time_us) else { return Ok(()) };
        let columns = &self.columns.requests;
        let mut figures = figures(&seen);
        let first = first_token(span, &mut figures)?;
        let mut flags = Flags::default();
        if figures.e2e_s.is_none() {
            figures.e2e_s = Some((span.end as i64).wrapping_sub(span.start as i64) as f64 / 1e9);
            flags.raise(Flags::E2E_FROM_SPAN);
        }
        flags.raise(quality::mend(&mut figures));
        let named = seen.text(Field::RequestModel).or_else(|| seen.text(Field::ResponseModel));
        let model = self.models.of(place.resource, named);
        if matches!(model, Model::Assumed(_)) {
            flags.raise(Flags::ASSUMED_MODEL);
        }

        rows.time(columns.time, time_us);
        place.resource.write(rows);
        rows.text(columns.measured_at, measured_at(&seen, dialect));
        rows.text(columns.trace_id, Hex::new(span.trace_id).as_str());
        rows.text(columns.span_id, Hex::new(span.span_id).as_str());
        rows.text(columns.parent_span_id, Hex::new(span.parent_span_id).as_str());
        rows.text_opt(columns.model, model.name());
        write_identity(columns, &seen, dialect, place.resource, rows);
        write_figures(columns, &figures, rows);
        write_outcome(columns, &seen, rows)?;
        if figures.ttft_s.is_some() {
            rows.text(columns.ttft_definition, first.unwrap_or_else(|| ttft_definition(&seen, dialect)));
        }
        rows.text_some(columns.quality, &flags.text());
        attributes.retain(|attribute| !seen.used(&self.aliases, attribute.key));
        Stored::new(attributes, &self.redaction)?.write(rows, columns.attributes, columns.attributes_typed);
        rows.end();
        Ok(())
    }
}

fn figures(seen: &Seen<'_>) -> Figures {
    Figures {
        queue_s: seen.number(Field::Queue),
        prefill_s: seen.number(Field::Prefill),
        decode_s: seen.number(Field::Decode),
        ttft_s: seen.number(Field::Ttft),
        tpot_s: seen.number(Field::Tpot),
        itl_max_s: seen.number(Field::ItlMax),
        e2e_s: seen.number(Field::E2e),
        input_tokens: seen.integer(Field::InputTokens),
        cached_input_tokens: seen.integer(Field::CachedInputTokens),
        output_tokens: seen.integer(Field::OutputTokens),
        reasoning_tokens: seen.integer(Field::ReasoningTokens),
        total_tokens: seen.integer(Field::TotalTokens),
    }
}

/// Takes the time to first token from an event, where no attribute gives it; returns the event's name.
fn first_token<'a>(span: &Span<'a>, figures: &mut Figures) -> Result<Option<&'a str>, Malformed> {
    if figures.ttft_s.is_some() || !span.has_events {
        return Ok(None);
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
        if FIRST_TOKEN_EVENTS.contains(&name) && time >= span.start {
            figures.ttft_s = Some((time - span.start) as f64 / 1e9);
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn measured_at<'a>(seen: &Seen<'a>, dialect: &Dialect) -> &'a str {
    if let Some(said @ ("client" | "gateway" | "server")) = seen.text(Field::MeasuredAt) {
        return said;
    }
    match dialect.measured_at {
        Measured::Server => "server",
        Measured::Gateway => "gateway",
        Measured::ByKind | Measured::ServerOrGateway if seen.span.kind == KIND_SERVER => "server",
        Measured::ByKind => "client",
        Measured::ServerOrGateway => "gateway",
    }
}

fn ttft_definition<'a>(seen: &Seen<'a>, dialect: &'static Dialect) -> &'a str {
    let of_alias = || match seen.get(Field::Ttft) {
        Some(((_, alias), _)) if !alias.definition.is_empty() => alias.definition,
        _ => dialect.ttft_definition,
    };
    seen.text(Field::TtftDefinition).unwrap_or_else(of_alias)
}

fn write_identity(columns: &Columns, seen: &Seen<'_>, dialect: &Dialect, resource: &Resource<'_>, rows: &mut Rows) {
    let or_resource = |field, key| seen.text(field).or_else(|| resource.get(key).text());
    if let Some((_, id)) = seen.get(Field::RequestId) {
        rows.text_opt(columns.request_id, id.text());
    }
    rows.text_opt(columns.engine, or_resource(Field::Engine, names::ENGINE).or(dialect.engine));
    rows.text_opt(columns.accelerator, or_resource(Field::Accelerator, names::ACCELERATOR));
    rows.int_opt(columns.chips, resource.chips());
    rows.text_opt(columns.quantization, or_resource(Field::Quantization, names::QUANTIZATION));
    let degree = seen.integer(Field::TensorParallel).or_else(|| resource.get(names::TENSOR_PARALLEL).integer());
    rows.int_opt(columns.tensor_parallel, degree);
    rows.text_opt(columns.tenant, seen.tenant());
    rows.text_opt(columns.operation, seen.text(Field::Operation));
    if let Some(stream) = seen.get(Field::Stream).and_then(|(_, value)| value.boolean()) {
        rows.flag(columns.stream, stream);
    }
}

fn write_figures(columns: &Columns, figures: &Figures, rows: &mut Rows) {
    rows.int_opt(columns.input_tokens, figures.input_tokens);
    rows.int_opt(columns.cached_input_tokens, figures.cached_input_tokens);
    rows.int_opt(columns.output_tokens, figures.output_tokens);
    rows.int_opt(columns.reasoning_tokens, figures.reasoning_tokens);
    rows.double_opt(columns.queue_s, figures.queue_s);
    rows.double_opt(columns.prefill_s, figures.prefill_s);
    rows.double_opt(columns.decode_s, figures.decode_s);
    rows.double_opt(columns.ttft_s, figures.ttft_s);
    rows.double_opt(columns.tpot_s, figures.tpot_s);
    rows.double_opt(columns.itl_max_s, figures.itl_max_s);
    rows.double_opt(columns.e2e_s, figures.e2e_s);
}

fn write_outcome(columns: &Columns, seen: &Seen<'_>, rows: &mut Rows) -> Result<(), Malformed> {
    let not_negative = |field| seen.integer(field).filter(|us| *us >= 0);
    rows.int_opt(columns.device_us_prefill, not_negative(Field::DeviceUsPrefill));
    rows.int_opt(columns.device_us_decode, not_negative(Field::DeviceUsDecode));
    let sampling = seen.number(Field::TokenSampling).filter(|share| (0.0..=1.0).contains(share));
    rows.double_opt(columns.token_sampling, sampling);
    let finish = match seen.get(Field::FinishReason) {
        Some((_, value)) => finish_reason(value)?,
        None => String::new(),
    };
    rows.text_some(columns.finish_reason, &finish);
    let error = seen.text(Field::ErrorType);
    rows.text_opt(columns.error_type, error);
    let cancelled =
        |reason: &str| matches!(reason, "abort" | "aborted" | "cancelled" | "canceled" | "client_disconnected");
    let status = if cancelled(&finish) || error.is_some_and(cancelled) {
        "cancelled"
    } else if seen.span.status_code == STATUS_ERROR || error.is_some() {
        "error"
    } else {
        "ok"
    };
    rows.text(columns.status, status);
    Ok(())
}

/// Finish reasons come as an array of text, as text that holds a JSON array (SGLang), or as plain text.
fn finish_reason(value: Value<'_>) -> Result<String, Malformed> {
    match value {
        Value::Text(text) => match serde_json::from_str::<Vec<String>>(text) {
            Ok(reasons) => Ok(reasons.join(",")),
            Err(_) => Ok(text.to_owned()),
        },
        Value::Compound(bytes) => {
            let mut reasons = Vec::new();
            for field in Fields::new(bytes) {
                let (5, Raw::Bytes(array)) = field? else { continue };
                for item in Fields::new(array) {
                    if let (1, Raw::Bytes(reason)) = item?
                        && let Value::Text(reason) = Value::read(reason)?
                    {
                        reasons.push(reason);
                    }
                }
            }
            Ok(reasons.join(","))
        }
        _ => Ok(String::new()),
    }
}

/// Seconds of what Rust prints for a duration: `1.234567ms`, `2.5s`, `830µs`, `900ns`.
fn rust_duration(text: &str) -> Option<f64> {
    let units = [("ms", 1e-3), ("µs", 1e-6), ("μs", 1e-6), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0)];
    units.iter().find_map(|(unit, factor)| {
        let number: f64 = text.trim().strip_suffix(unit)?.parse().ok()?;
        Some(number * factor)
    })
}
