//! A span's attributes, sorted by what they mean to its emitter, and what is read of a call in them.

use std::collections::{BTreeMap, HashMap};

use super::dialect::{self, Aliases, Dialect, FIELDS, Field, Ranked, Sight};
use super::quality::{Figures, Flags};
use crate::decode::view::{Attribute, Span, Value};

/// A span's attributes, sorted by what they mean to its emitter.
pub(super) struct Seen<'a> {
    /// OTLP span kind.
    pub(super) kind: u64,
    /// OTLP status code.
    pub(super) status_code: u64,
    start_ns: u64,
    dialect: Option<&'static Dialect>,
    is_call: bool,
    fields: [Option<(Ranked, Value<'a>)>; FIELDS],
}

/// What is read of a call before it is mended.
#[derive(Clone, Debug, Default)]
pub struct Reading<'a> {
    /// Its figures.
    pub figures: Figures,
    /// What was found so far.
    pub flags: Flags,
    /// Kind of call.
    pub operation: Option<&'a str>,
    /// Whether the answer is streamed.
    pub stream: Option<bool>,
    /// What failed.
    pub error_type: Option<&'a str>,
    /// What the time to first token measures, where the span or an event says it.
    pub ttft_definition: Option<&'a str>,
}

impl<'a> Seen<'a> {
    /// Whose span it is, and what every attribute of it means.
    pub(super) fn new(aliases: &Aliases, span: &Span<'a>, attributes: &[Attribute<'a>]) -> Self {
        let (dialect, is_call) = Sight { span, attributes }.judge();
        let aliases = aliases.of(dialect);
        let mut seen = Self {
            kind: span.kind,
            status_code: span.status_code,
            start_ns: span.start,
            dialect,
            is_call,
            fields: [None; FIELDS],
        };
        for attribute in attributes {
            if let Some(found) = aliases.get(attribute.key) {
                seen.offer(*found, attribute.value);
            }
        }
        seen
    }

    /// The dialect of the call that the span is, if it is one.
    pub(super) fn call(&self) -> Option<&'static Dialect> {
        self.dialect.filter(|_| self.is_call)
    }

    /// For whom the call is served.
    pub(super) fn tenant(&self) -> Option<&'a str> {
        self.text(Field::Tenant)
    }

    /// Whether a text is longer than its column takes.
    pub(super) fn is_cut(&self) -> bool {
        self.fields.iter().flatten().any(|((_, alias), value)| value.is_cut() && !alias.field.column().is_empty())
    }

    /// Takes a value for a field, unless one that holds before it is there.
    fn offer(&mut self, found: Ranked, value: Value<'a>) {
        if let Some(slot) = self.fields.get_mut(found.1.field as usize)
            && found.1.field.takes(value)
            && slot.is_none_or(|((held, _), _)| found.0 < held)
        {
            *slot = Some((found, value));
        }
    }

    /// Takes the parts of a usage that was sent as a JSON object.
    fn open_usage(&mut self, dialect: &'static Dialect) {
        let Some((_, Value::Text(text))) = self.get(Field::Usage) else { return };
        let Ok(parts) = serde_json::from_str::<BTreeMap<String, serde_json::Value>>(text) else { return };
        for (place, alias) in dialect.usage.iter().enumerate() {
            if let Some(count) = parts.get(alias.key).and_then(serde_json::Value::as_f64) {
                // After every attribute of its own.
                self.offer((u16::MAX - dialect.usage.len() as u16 + place as u16, alias), Value::Double(count));
            }
        }
    }

    pub(super) fn get(&self, field: Field) -> Option<(Ranked, Value<'a>)> {
        self.fields.get(field as usize).copied().flatten()
    }

    /// A field's text.
    pub(super) fn text(&self, field: Field) -> Option<&'a str> {
        self.get(field).and_then(|(_, value)| value.text())
    }

    /// A field in the unit of its column. One that is no number stays an attribute, and is flagged.
    pub(super) fn number(&mut self, field: Field, flags: &mut Flags) -> Option<f64> {
        let ((_, alias), value) = self.get(field)?;
        let number = alias.number(value, self.start_ns);
        self.keep_if(number.is_some(), field, flags);
        number
    }

    /// A field that is a whole number.
    pub(super) fn integer(&mut self, field: Field, flags: &mut Flags) -> Option<i64> {
        let integer = self.get(field)?.1.integer();
        self.keep_if(integer.is_some(), field, flags);
        integer
    }

    fn keep_if(&mut self, could_be_read: bool, field: Field, flags: &mut Flags) {
        flags.raise_if(!could_be_read, Flags::INVALID);
        if let Some(slot) = self.fields.get_mut(field as usize).filter(|_| !could_be_read) {
            *slot = None;
        }
    }

    /// Whether an attribute went into a column, so that it need not be kept as an attribute.
    pub(super) fn used(&self, aliases: &HashMap<&'static str, Ranked>, key: &str) -> bool {
        aliases.get(key).is_some_and(|(rank, alias)| {
            let second = alias.field == Field::ResponseModel && self.get(Field::RequestModel).is_some();
            !second
                && !alias.field.column().is_empty()
                && self.get(alias.field).is_some_and(|((held, _), _)| held == *rank)
        })
    }

    /// The call's figures, and what else its attributes and its name say.
    pub(super) fn read(&mut self, dialect: &'static Dialect, span_name: &str) -> Reading<'a> {
        self.open_usage(dialect);
        let mut flags = dialect.flags;
        let figures = Figures {
            queue_s: self.number(Field::Queue, &mut flags),
            prefill_s: self.number(Field::Prefill, &mut flags),
            decode_s: self.number(Field::Decode, &mut flags),
            ttft_s: self.number(Field::Ttft, &mut flags),
            tpot_s: self.number(Field::Tpot, &mut flags),
            itl_max_s: self.number(Field::ItlMax, &mut flags),
            e2e_s: self.number(Field::E2e, &mut flags),
            input_tokens: self.integer(Field::InputTokens, &mut flags),
            cached_input_tokens: self.integer(Field::CachedInputTokens, &mut flags),
            cache_write_tokens: self.integer(Field::CacheWriteTokens, &mut flags),
            output_tokens: self.integer(Field::OutputTokens, &mut flags),
            reasoning_tokens: self.integer(Field::ReasoningTokens, &mut flags),
            total_tokens: self.integer(Field::TotalTokens, &mut flags),
        };
        let named = dialect.named(span_name);
        Reading {
            figures,
            flags,
            operation: self.text(Field::Operation).or_else(|| named?.operation).and_then(dialect::operation),
            stream: self.get(Field::Stream).and_then(|(_, value)| value.boolean()).or_else(|| named?.stream),
            error_type: self.text(Field::ErrorType),
            ttft_definition: self.text(Field::TtftDefinition),
        }
    }
}
