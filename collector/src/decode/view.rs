//! Messages read in place: fields borrowed from the body, in any order, nothing allocated.

mod packed;

pub use packed::Packed;

use super::schema::UNREADABLE;
use super::wire::{Fields, Malformed, Raw, short_pair, short_text, varint};
use crate::signal::Signal;

/// `ResourceSpans`, `ResourceMetrics` or `ResourceLogs` without what it groups.
#[derive(Clone, Copy, Debug, Default)]
pub struct Group<'a> {
    /// The `Resource` message, wherever in the group it stood.
    pub resource: &'a [u8],
    /// Schema of the resource.
    pub schema_url: &'a str,
    /// Whether a part of it could not be read as OTLP/JSON.
    pub unreadable: bool,
}

impl<'a> Group<'a> {
    /// Reads the group's head.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut group = Self::default();
        for field in Fields::new(bytes) {
            match field? {
                (1, Raw::Bytes(resource)) => group.resource = resource,
                (3, Raw::Bytes(url)) => group.schema_url = text(url)?,
                (UNREADABLE, _) => group.unreadable = true,
                _ => {}
            }
        }
        Ok(group)
    }
}

/// `ScopeSpans`, `ScopeMetrics` or `ScopeLogs` without its items, which are fields 2 of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope<'a> {
    /// The `InstrumentationScope` message.
    pub scope: &'a [u8],
    /// Name of the scope.
    pub name: &'a str,
    /// Version of the scope.
    pub version: &'a str,
    /// Attributes its sender dropped.
    pub dropped: u32,
    /// Schema of the scope's items.
    pub schema_url: &'a str,
    /// Whether a part of it could not be read as OTLP/JSON.
    pub unreadable: bool,
    /// Bytes of all that is no item.
    pub bytes: u64,
    /// Messages in which its scope was sent.
    pub parts: u32,
}

impl<'a> Scope<'a> {
    /// Reads the scope's head. Its items are read where they are used: a list of them could be eight times as long as the scope.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut scope = Self::default();
        let mut readable = Ok(());
        for field in Fields::new(bytes) {
            match field? {
                (1, Raw::Bytes(head)) => {
                    scope.scope = head;
                    scope.bytes += head.len() as u64;
                    scope.parts += 1;
                }
                (3, Raw::Bytes(url)) => {
                    scope.bytes += url.len() as u64;
                    readable = readable.and(text(url).map(|url| scope.schema_url = url));
                }
                (UNREADABLE, _) => scope.unreadable = true,
                _ => {}
            }
        }
        readable?;
        for field in Fields::new(scope.scope) {
            match field? {
                (1, Raw::Bytes(name)) => scope.name = text(name)?,
                (2, Raw::Bytes(version)) => scope.version = text(version)?,
                (4, Raw::Varint(dropped)) => scope.dropped = dropped as u32,
                _ => {}
            }
        }
        Ok(scope)
    }
}

/// What validation must know of a span, a log record or a data point.
#[derive(Clone, Copy, Debug, Default)]
pub struct Item<'a> {
    /// Span name, empty for others.
    pub name: &'a str,
    /// Trace id as sent.
    pub trace_id: &'a [u8],
    /// Span id as sent.
    pub span_id: &'a [u8],
    /// Parent span id as sent.
    pub parent_span_id: &'a [u8],
    /// Start of a span, else the event time, nanoseconds; 0 is unknown.
    pub time: u64,
    /// End of a span, else the event time, nanoseconds.
    pub end: u64,
}

impl<'a> Item<'a> {
    /// Reads what the signal's item holds of it.
    pub fn read(signal: Signal, bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut item = Self::default();
        let mut observed = 0;
        for field in Fields::new(bytes) {
            match (signal, field?) {
                (Signal::Traces, (1, Raw::Bytes(id))) | (Signal::Logs, (9, Raw::Bytes(id))) => item.trace_id = id,
                (Signal::Traces, (2, Raw::Bytes(id))) | (Signal::Logs, (10, Raw::Bytes(id))) => item.span_id = id,
                (Signal::Traces, (4, Raw::Bytes(id))) => item.parent_span_id = id,
                (Signal::Traces, (5, Raw::Bytes(name))) => item.name = text(name)?,
                (Signal::Traces, (7, Raw::Fixed64(time)))
                | (Signal::Metrics, (3, Raw::Fixed64(time)))
                | (Signal::Logs, (1, Raw::Fixed64(time))) => item.time = time,
                (Signal::Traces, (8, Raw::Fixed64(time))) => item.end = time,
                (Signal::Logs, (11, Raw::Fixed64(time))) => observed = time,
                _ => {}
            }
        }
        if signal == Signal::Logs && item.time == 0 {
            item.time = observed;
        }
        if signal != Signal::Traces {
            item.end = item.time;
        }
        Ok(item)
    }
}

/// A span without its attributes, which [`Span::read`] hands out separately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span<'a> {
    /// The whole message, for what is printed rather than read.
    pub bytes: &'a [u8],
    /// Trace id.
    pub trace_id: &'a [u8],
    /// Span id.
    pub span_id: &'a [u8],
    /// Parent span id, empty for a root.
    pub parent_span_id: &'a [u8],
    /// W3C tracestate.
    pub trace_state: &'a str,
    /// Span name.
    pub name: &'a str,
    /// OTLP span kind.
    pub kind: u64,
    /// Start, nanoseconds since the epoch.
    pub start: u64,
    /// End, nanoseconds since the epoch.
    pub end: u64,
    /// W3C trace flags and context bits.
    pub flags: u32,
    /// OTLP status code.
    pub status_code: u64,
    /// What the emitter says of the status.
    pub status_message: &'a str,
    /// Attributes, events and links dropped by the sender.
    pub dropped: [u32; 3],
    /// Whether it has a status message at all: one without fields differs from none on the wire.
    pub has_status: bool,
    /// Whether it has events.
    pub has_events: bool,
    /// Whether it has links.
    pub has_links: bool,
}

impl<'a> Span<'a> {
    /// Reads a span in one pass; its attributes replace what `attributes` held.
    pub fn read(bytes: &'a [u8], attributes: &mut Vec<Attribute<'a>>) -> Result<Self, Malformed> {
        attributes.clear();
        let mut span = Self { bytes, ..Self::default() };
        for field in Fields::new(bytes) {
            match field? {
                (9, Raw::Bytes(attribute)) => attributes.push(Attribute::read(attribute)?),
                (1, Raw::Bytes(id)) => span.trace_id = id,
                (2, Raw::Bytes(id)) => span.span_id = id,
                (3, Raw::Bytes(state)) => span.trace_state = text(state)?,
                (4, Raw::Bytes(id)) => span.parent_span_id = id,
                (5, Raw::Bytes(name)) => span.name = text(name)?,
                (6, Raw::Varint(kind)) => span.kind = kind,
                (7, Raw::Fixed64(time)) => span.start = time,
                (8, Raw::Fixed64(time)) => span.end = time,
                (10, Raw::Varint(count)) => span.dropped[0] = count as u32,
                (12, Raw::Varint(count)) => span.dropped[1] = count as u32,
                (14, Raw::Varint(count)) => span.dropped[2] = count as u32,
                (11, Raw::Bytes(_)) => span.has_events = true,
                (13, Raw::Bytes(_)) => span.has_links = true,
                (15, Raw::Bytes(status)) => span.read_status(status)?,
                (16, Raw::Fixed32(flags)) => span.flags = flags,
                _ => {}
            }
        }
        // Some senders spell "no parent" in zeros.
        if span.parent_span_id.iter().all(|byte| *byte == 0) {
            span.parent_span_id = &[];
        }
        Ok(span)
    }

    fn read_status(&mut self, bytes: &'a [u8]) -> Result<(), Malformed> {
        self.has_status = true;
        for field in Fields::new(bytes) {
            match field? {
                (2, Raw::Bytes(message)) => self.status_message = text(message)?,
                (3, Raw::Varint(code)) => self.status_code = code,
                _ => {}
            }
        }
        Ok(())
    }
}

/// An attribute.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attribute<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its value, read.
    pub value: Value<'a>,
    /// Its `AnyValue` message as sent.
    pub raw: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// Reads a `KeyValue`.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if let Some((key, value)) = short_pair(bytes) {
            return Ok(Self { key: text(key)?, value: Value::read(value)?, raw: value });
        }
        let mut attribute = Self::default();
        for field in Fields::new(bytes) {
            match field? {
                (1, Raw::Bytes(key)) => attribute.key = text(key)?,
                (2, Raw::Bytes(value)) => {
                    attribute.raw = value;
                    attribute.value = Value::read(value)?;
                }
                _ => {}
            }
        }
        Ok(attribute)
    }

    /// Replaces `attributes` by those that `message` holds in its field `number`.
    pub fn read_all(message: &'a [u8], number: u32, attributes: &mut Vec<Self>) -> Result<(), Malformed> {
        attributes.clear();
        for field in Fields::new(message) {
            let (found, value) = field?;
            if let Raw::Bytes(bytes) = value
                && found == number
            {
                attributes.push(Self::read(bytes)?);
            }
        }
        Ok(())
    }
}

/// An attribute value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Value<'a> {
    /// No value was set.
    #[default]
    Empty,
    /// Text.
    Text(&'a str),
    /// True or false.
    Bool(bool),
    /// Whole number.
    Int(i64),
    /// Floating point number.
    Double(f64),
    /// An array, map or bytes: its `AnyValue` message.
    Compound(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Reads an `AnyValue`; of several values set, the last holds.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if let Some(short) = short_text(bytes) {
            return text(short).map(Value::Text);
        }
        if let [0x18, number @ ..] = bytes
            && let Ok((number, [])) = varint(number)
        {
            return Ok(Value::Int(number as i64));
        }
        let mut value = Value::Empty;
        for field in Fields::new(bytes) {
            value = match field? {
                (1, Raw::Bytes(bytes)) => Value::Text(text(bytes)?),
                (2, Raw::Varint(flag)) => Value::Bool(flag != 0),
                (3, Raw::Varint(number)) => Value::Int(number as i64),
                (4, Raw::Fixed64(bits)) => Value::Double(f64::from_bits(bits)),
                (5..=7, Raw::Bytes(_)) => Value::Compound(bytes),
                _ => value,
            };
        }
        Ok(value)
    }

    /// The value as a number, also of text that holds one.
    pub fn number(self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(number as f64),
            Value::Double(number) => Some(number),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// The value as a whole number, also of a float without a fraction or text that holds one.
    pub fn integer(self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(number),
            Value::Text(text) => text.trim().parse().ok(),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(number as i64),
            _ => None,
        }
    }

    /// The value as a whole number from 0 to `most`; what is beyond can not be true, and sums of it would overflow.
    pub fn count(self, most: i64) -> Option<i64> {
        self.integer().filter(|count| (0..=most).contains(count))
    }

    /// The value as text for a column, if it is text that is not empty: at most [`TEXT_BYTES_MAX`] of it.
    #[inline]
    pub fn text(self) -> Option<&'a str> {
        match self {
            Value::Text("") => None,
            Value::Text(text) if text.len() <= TEXT_BYTES_MAX => Some(text),
            Value::Text(text) => Some(cut(text)),
            _ => None,
        }
    }

    /// Whether [`Self::text`] leaves something out.
    pub fn is_cut(self) -> bool {
        matches!(self, Value::Text(text) if text.len() > TEXT_BYTES_MAX)
    }

    /// The value as true or false, also of text that says so.
    pub fn boolean(self) -> Option<bool> {
        match self {
            Value::Bool(flag) => Some(flag),
            Value::Text("true" | "True") => Some(true),
            Value::Text("false" | "False") => Some(false),
            _ => None,
        }
    }
}

/// Longest text in a column that rows are grouped or found by, such as a model or a host. No name is longer; what is, is kept
/// whole where a span, a record or a point is kept as it was sent.
pub const TEXT_BYTES_MAX: usize = 1_024;

/// The first characters of a text, at most [`TEXT_BYTES_MAX`] bytes.
pub fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or(text)
}

/// Text of a field.
#[inline]
pub fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::Utf8)
}
