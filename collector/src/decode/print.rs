//! OTLP JSON from the wire encoding: events, links, exemplars, typed attributes, quarantined rows.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::schema::{self, Field, KEY_VALUE, Kind, Message};
use super::view::{self, Attribute, Packed, Value};
use super::wire::{Fields, Malformed, Raw, zigzag};
use crate::normalize::redact::Redaction;

/// Appends a message as an OTLP JSON object, without attributes that must not be stored.
pub fn message(kind: &'static Message, bytes: &[u8], redaction: &Redaction, out: &mut String) -> Result<(), Malformed> {
    out.push('{');
    let mut first = true;
    let spoken = spoken(kind, bytes, redaction)?;
    for field in kind.fields {
        if spoken && field.json == "body" {
            continue;
        }
        if field.repeated {
            repeated(field, bytes, redaction, spoken, &mut first, out)?;
        } else if let Some(value) = last(field, bytes)? {
            name(field.json, &mut first, out);
            scalar(field.kind, value, redaction, out)?;
        }
    }
    out.push('}');
    Ok(())
}

/// Whether a message is an event, of a span or in the log, that holds what somebody said.
fn spoken(kind: &'static Message, bytes: &[u8], redaction: &Redaction) -> Result<bool, Malformed> {
    let name = if std::ptr::eq(kind, &schema::EVENT) {
        2
    } else if std::ptr::eq(kind, &schema::LOG_RECORD) {
        12
    } else {
        return Ok(false);
    };
    for field in Fields::new(bytes) {
        match field? {
            (number, Raw::Bytes(text)) if number == name && redaction.drops_body(view::text(text)?) => return Ok(true),
            (6, Raw::Bytes(attribute)) if name == 12 => {
                let attribute = Attribute::read(attribute)?;
                if attribute.key == "event.name"
                    && attribute.value.text().is_some_and(|text| redaction.drops_body(text))
                {
                    return Ok(true);
                }
            }
            _ => {}
        }
    }
    Ok(false)
}

/// Appends every occurrence of field `number` of a message as a JSON array.
pub fn array(
    kind: &'static Message,
    number: u32,
    bytes: &[u8],
    redaction: &Redaction,
    out: &mut String,
) -> Result<(), Malformed> {
    out.push('[');
    let mut first = true;
    for field in Fields::new(bytes) {
        let (found, value) = field?;
        if let Raw::Bytes(item) = value
            && found == number
        {
            comma(&mut first, out);
            message(kind, item, redaction, out)?;
        }
    }
    out.push(']');
    Ok(())
}

/// Appends the attributes whose value is not text as a JSON object from key to `AnyValue`; nothing if there are none.
pub fn typed(attributes: &[Attribute<'_>], redaction: &Redaction, out: &mut String) -> Result<(), Malformed> {
    let mut first = true;
    for attribute in attributes.iter().filter(|attribute| !matches!(attribute.value, Value::Text(_))) {
        if redaction.drops(attribute.key) {
            continue;
        }
        if first {
            out.push('{');
        }
        comma(&mut first, out);
        quote(attribute.key, out);
        out.push(':');
        message(&schema::ANY_VALUE, attribute.raw, redaction, out)?;
    }
    if !first {
        out.push('}');
    }
    Ok(())
}

/// Appends the attributes that a message holds in field `number` as a JSON object from key to `AnyValue`.
pub fn by_key(bytes: &[u8], number: u32, redaction: &Redaction, out: &mut String) -> Result<(), Malformed> {
    let mut attributes = Vec::new();
    Attribute::read_all(bytes, number, &mut attributes)?;
    out.push('{');
    let mut first = true;
    for attribute in attributes.iter().filter(|attribute| !redaction.drops(attribute.key)) {
        name(attribute.key, &mut first, out);
        message(&schema::ANY_VALUE, attribute.raw, redaction, out)?;
    }
    out.push('}');
    Ok(())
}

/// Appends a value as a reader would write it: text as it is, numbers in digits, arrays and maps as plain JSON.
pub fn plain(value: Value<'_>, redaction: &Redaction, out: &mut String) -> Result<(), Malformed> {
    match value {
        Value::Empty => {}
        Value::Text(text) => out.push_str(&redaction.clean(text)),
        Value::Bool(flag) => out.push_str(if flag { "true" } else { "false" }),
        Value::Int(number) => push(out, format_args!("{number}")),
        Value::Double(number) => push(out, format_args!("{number}")),
        Value::Compound(bytes) => compound(bytes, redaction, out)?,
    }
    Ok(())
}

fn compound(bytes: &[u8], redaction: &Redaction, out: &mut String) -> Result<(), Malformed> {
    for field in Fields::new(bytes) {
        match field? {
            (5, Raw::Bytes(array)) => {
                out.push('[');
                let mut first = true;
                for item in Fields::new(array) {
                    if let (1, Raw::Bytes(value)) = item? {
                        comma(&mut first, out);
                        plain_json(value, redaction, out)?;
                    }
                }
                out.push(']');
            }
            (6, Raw::Bytes(list)) => {
                out.push('{');
                let mut first = true;
                for item in Fields::new(list) {
                    if let (1, Raw::Bytes(entry)) = item? {
                        let entry = Attribute::read(entry)?;
                        if !redaction.drops(entry.key) {
                            name(entry.key, &mut first, out);
                            plain_json(entry.raw, redaction, out)?;
                        }
                    }
                }
                out.push('}');
            }
            (7, Raw::Bytes(bytes)) => STANDARD.encode_string(bytes, out),
            _ => {}
        }
    }
    Ok(())
}

fn plain_json(any_value: &[u8], redaction: &Redaction, out: &mut String) -> Result<(), Malformed> {
    match Value::read(any_value)? {
        Value::Empty => out.push_str("null"),
        Value::Text(text) => quote(&redaction.clean(text), out),
        Value::Double(number) => double(number, out),
        Value::Compound(bytes) if matches!(Fields::new(bytes).read()?, Some((7, _))) => {
            out.push('"');
            compound(bytes, redaction, out)?;
            out.push('"');
        }
        value => plain(value, redaction, out)?,
    }
    Ok(())
}

/// The last value of a field, which is the one that holds; `None` if absent or a zero without meaning.
fn last<'a>(field: &Field, bytes: &'a [u8]) -> Result<Option<Raw<'a>>, Malformed> {
    let mut found = None;
    for read in Fields::new(bytes) {
        let (number, value) = read?;
        if number == field.number {
            found = Some(value);
        }
    }
    let zero = |value: &Raw<'_>| {
        matches!(value, Raw::Varint(0) | Raw::Fixed32(0) | Raw::Fixed64(0)) || matches!(value, Raw::Bytes([]))
    };
    Ok(found.filter(|value| field.presence || !zero(value)))
}

fn repeated(
    field: &Field,
    bytes: &[u8],
    redaction: &Redaction,
    spoken: bool,
    first: &mut bool,
    out: &mut String,
) -> Result<(), Malformed> {
    let mut open = false;
    for read in Fields::new(bytes) {
        let (number, value) = read?;
        if number != field.number || dropped(field.kind, value, redaction, spoken)? {
            continue;
        }
        match value {
            Raw::Bytes(packed) if field.kind.packable() => {
                for number in Packed::new(field.kind, packed) {
                    element(field, first, &mut open, out);
                    scalar(field.kind, widen(field.kind, number?), redaction, out)?;
                }
            }
            value => {
                element(field, first, &mut open, out);
                scalar(field.kind, value, redaction, out)?;
            }
        }
    }
    if open {
        out.push(']');
    }
    Ok(())
}

fn element(field: &Field, first: &mut bool, open: &mut bool, out: &mut String) {
    if *open {
        out.push(',');
    } else {
        name(field.json, first, out);
        out.push('[');
        *open = true;
    }
}

fn dropped(kind: Kind, value: Raw<'_>, redaction: &Redaction, spoken: bool) -> Result<bool, Malformed> {
    match (kind, value) {
        (Kind::Message(nested), Raw::Bytes(bytes)) if std::ptr::eq(nested, &KEY_VALUE) => {
            let key = Attribute::read(bytes)?.key;
            Ok(redaction.drops(key) || (spoken && redaction.drops_within(key)))
        }
        _ => Ok(false),
    }
}

fn widen(kind: Kind, number: u64) -> Raw<'static> {
    match kind {
        Kind::Fixed64 | Kind::Sfixed64 | Kind::Double => Raw::Fixed64(number),
        Kind::Fixed32 => Raw::Fixed32(number as u32),
        _ => Raw::Varint(number),
    }
}

fn scalar(kind: Kind, value: Raw<'_>, redaction: &Redaction, out: &mut String) -> Result<(), Malformed> {
    match (kind, value) {
        (Kind::Text, Raw::Bytes(bytes)) => quote(&redaction.clean(view::text(bytes)?), out),
        (Kind::Bytes, Raw::Bytes(bytes)) => {
            out.push('"');
            STANDARD.encode_string(bytes, out);
            out.push('"');
        }
        (Kind::Id(_), Raw::Bytes(bytes)) => push(out, format_args!("\"{}\"", hex::encode(bytes))),
        (Kind::Message(nested), Raw::Bytes(bytes)) => message(nested, bytes, redaction, out)?,
        (Kind::Bool, Raw::Varint(flag)) => out.push_str(if flag == 0 { "false" } else { "true" }),
        (Kind::Uint32, Raw::Varint(number)) => push(out, format_args!("{}", number as u32)),
        (Kind::Int32 | Kind::Enum(_), Raw::Varint(number)) => push(out, format_args!("{}", number as i32)),
        (Kind::Sint32, Raw::Varint(number)) => push(out, format_args!("{}", zigzag(number))),
        (Kind::Int64, Raw::Varint(number)) => push(out, format_args!("\"{}\"", number as i64)),
        (Kind::Uint64, Raw::Varint(number)) | (Kind::Fixed64, Raw::Fixed64(number)) => {
            push(out, format_args!("\"{number}\""));
        }
        (Kind::Sfixed64, Raw::Fixed64(number)) => push(out, format_args!("\"{}\"", number as i64)),
        (Kind::Fixed32, Raw::Fixed32(number)) => push(out, format_args!("{number}")),
        (Kind::Double, Raw::Fixed64(bits)) => double(f64::from_bits(bits), out),
        _ => return Err(Malformed::Type),
    }
    Ok(())
}

/// Appends a number as OTLP JSON has it: what JSON cannot spell is text.
fn double(number: f64, out: &mut String) {
    if number.is_finite() {
        push(out, format_args!("{number:?}"));
    } else {
        push(
            out,
            format_args!(
                "\"{}\"",
                if number.is_nan() {
                    "NaN"
                } else if number > 0.0 {
                    "Infinity"
                } else {
                    "-Infinity"
                }
            ),
        );
    }
}

/// Appends a JSON string.
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => push(out, format_args!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
}

fn name(json: &str, first: &mut bool, out: &mut String) {
    comma(first, out);
    quote(json, out);
    out.push(':');
}

fn comma(first: &mut bool, out: &mut String) {
    if !std::mem::take(first) {
        out.push(',');
    }
}

/// Writing to a `String` cannot fail.
fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}
