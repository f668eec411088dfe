//! OTLP 1.11 as data: one description that validation, the JSON reader and the JSON printer share.
//!
//! Numbers, types and JSON names come from opentelemetry-proto; a test compares them with its generated code.

mod logs;
mod metrics;
mod traces;
mod value;

pub use logs::{LOG_RECORD, LOGS, RESOURCE_LOGS, SCOPE_LOGS};
pub use metrics::{
    BUCKETS, EXEMPLAR, EXPONENTIAL_HISTOGRAM, EXPONENTIAL_POINT, GAUGE, HISTOGRAM, HISTOGRAM_POINT, METRIC, METRICS,
    NUMBER_POINT, QUANTILE, RESOURCE_METRICS, SCOPE_METRICS, SUM, SUMMARY, SUMMARY_POINT,
};
pub use traces::{EVENT, LINK, RESOURCE_SPANS, SCOPE_SPANS, SPAN, TRACES};
pub use value::{ANY_VALUE, ENTITY_REF, KEY_VALUE, RESOURCE, SCOPE};

/// A message type.
pub struct Message {
    /// Its fields, the frequent ones first.
    pub fields: &'static [Field],
}

/// A field of a message.
pub struct Field {
    /// Field number on the wire.
    pub number: u32,
    /// Name in OTLP/JSON.
    pub json: &'static str,
    /// Type of one value.
    pub kind: Kind,
    /// Whether it may occur more than once.
    pub repeated: bool,
    /// Whether its absence means something, so that JSON prints even a zero.
    pub presence: bool,
    /// Whether it is a member of the message's oneof: of those the one sent last holds, and the others do not exist.
    pub exclusive: bool,
}

/// The type of one value.
#[derive(Clone, Copy)]
pub enum Kind {
    /// UTF-8 text.
    Text,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A trace or span id of so many bytes; hex in JSON.
    Id(usize),
    /// Varint, true or false.
    Bool,
    /// Varint of at most 32 bits, signed; a number in JSON.
    Int32,
    /// Varint of an enumeration, whose names some senders put in place of the number.
    Enum(&'static [&'static str]),
    /// Varint of at most 32 bits, unsigned; a number in JSON.
    Uint32,
    /// Zigzag varint of at most 32 bits.
    Sint32,
    /// Varint of 64 bits, signed; text in JSON.
    Int64,
    /// Varint of 64 bits, unsigned; text in JSON.
    Uint64,
    /// Four bytes.
    Fixed32,
    /// Eight bytes, unsigned; text in JSON.
    Fixed64,
    /// Eight bytes, signed; text in JSON.
    Sfixed64,
    /// Eight bytes of IEEE 754.
    Double,
    /// A nested message.
    Message(&'static Message),
}

/// Bytes of a trace id.
const TRACE_ID: usize = 16;
/// Bytes of a span id.
const SPAN_ID: usize = 8;

/// Field that no OTLP message has: it marks a message of which a part could not be read as OTLP/JSON, so that the items that
/// depend on it are rejected, and no others.
pub const UNREADABLE: u32 = 0x1fff_ffff;

const fn one(number: u32, json: &'static str, kind: Kind) -> Field {
    Field { number, json, kind, repeated: false, presence: false, exclusive: false }
}

const fn optional(number: u32, json: &'static str, kind: Kind) -> Field {
    Field { number, json, kind, repeated: false, presence: true, exclusive: false }
}

const fn choice(number: u32, json: &'static str, kind: Kind) -> Field {
    Field { number, json, kind, repeated: false, presence: true, exclusive: true }
}

const fn many(number: u32, json: &'static str, kind: Kind) -> Field {
    Field { number, json, kind, repeated: true, presence: false, exclusive: false }
}

impl Message {
    /// The field of that number.
    #[inline]
    pub fn field(&self, number: u32) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.number == number)
    }

    /// The field of that JSON name.
    pub fn named(&self, json: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.json == json)
    }

    /// The field of a name that some senders spell otherwise: `start_time_unix_nano`, or `StringValue` as Go prints its own
    /// structures.
    pub fn nearly_named(&self, spelled: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| same_name(field.json, spelled))
    }

    /// Whether it holds groups, scopes or items, and is no part of an item itself.
    pub fn is_holder(&self) -> bool {
        HOLDERS.iter().any(|holder| std::ptr::eq(*holder, self))
    }

    /// Whether one of its fields is a member of a oneof.
    pub fn has_choice(&self) -> bool {
        self.fields.iter().any(|field| field.exclusive)
    }
}

/// Messages that hold groups, scopes or items.
static HOLDERS: [&Message; 15] = [
    &TRACES,
    &RESOURCE_SPANS,
    &SCOPE_SPANS,
    &LOGS,
    &RESOURCE_LOGS,
    &SCOPE_LOGS,
    &METRICS,
    &RESOURCE_METRICS,
    &SCOPE_METRICS,
    &METRIC,
    &GAUGE,
    &SUM,
    &HISTOGRAM,
    &EXPONENTIAL_HISTOGRAM,
    &SUMMARY,
];

/// Whether `spelled` is `json` in snake case, or with its first letter in upper case.
fn same_name(json: &str, spelled: &str) -> bool {
    let mut expected = json.chars();
    let (mut first, mut upper) = (true, false);
    for character in spelled.chars() {
        if character == '_' && !first {
            upper = true;
            continue;
        }
        let read = match (first, upper) {
            (true, _) => character.to_ascii_lowercase(),
            (false, true) => character.to_ascii_uppercase(),
            (false, false) => character,
        };
        if expected.next() != Some(read) {
            return false;
        }
        (first, upper) = (false, false);
    }
    !upper && expected.next().is_none()
}

impl Kind {
    /// Whether several values may share one length-delimited field.
    pub fn packable(self) -> bool {
        !matches!(self, Kind::Text | Kind::Bytes | Kind::Id(_) | Kind::Message(_))
    }
}

/// Which messages and which member of its oneof a message has shown so far.
#[derive(Default)]
pub struct Seen(u32);

impl Seen {
    /// Whether the field is a further part of one that was there, or a further member of the oneof.
    #[inline]
    pub fn again(&mut self, field: &Field) -> bool {
        let bit = match (field.exclusive, field.kind) {
            (true, _) => 1,
            (false, Kind::Message(_)) if !field.repeated => 1 << field.number.min(31),
            _ => return false,
        };
        let again = self.0 & bit != 0;
        self.0 |= bit;
        again
    }
}
