//! Proof that a body is sound, before it is journalled: what passes here can always be turned into rows.
//!
//! Bytes that are not the message they claim to be fail the whole body. A single span, data point or log record with a
//! fault of its own is rejected alone and counted, so that one bad item never sinks a batch.

use super::schema::{self, Field, Kind, Message};
use super::view::{Group, Item, Scope};
use super::wire::{Fields, Malformed, Raw};
use crate::signal::Signal;

/// Deepest nesting of messages; attribute values of a few levels are all that emitters send.
const DEPTH_MAX: u32 = 64;

/// What a sound body holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Items that will become rows.
    pub accepted: u64,
    /// Items that will not, because each has a fault.
    pub rejected: u64,
    /// The first fault met.
    pub fault: Option<Fault>,
    /// Accepted items whose event time no table accepts.
    pub quarantined: u64,
    /// A log record without any time: two such bodies may be equal and yet both be meant.
    pub timeless: bool,
}

/// Why one item is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not 16 bytes, or all zero.
    TraceId,
    /// Not 8 bytes, or all zero.
    SpanId,
    /// Neither empty nor 8 bytes.
    ParentSpanId,
    /// Text that is not UTF-8.
    Utf8,
}

impl Fault {
    /// What the sender reads.
    pub fn message(self) -> &'static str {
        match self {
            Fault::TraceId => "trace id is not 16 bytes with at least one that is not zero",
            Fault::SpanId => "span id is not 8 bytes with at least one that is not zero",
            Fault::ParentSpanId => "parent span id is neither empty nor 8 bytes",
            Fault::Utf8 => "text is not valid UTF-8",
        }
    }
}

/// Checks a whole body; `late` tells whether an item's event time is one that no table accepts.
pub fn check(signal: Signal, body: &[u8], late: impl Fn(&Item<'_>) -> bool) -> Result<Checked, Malformed> {
    let mut checked = Checked::default();
    for field in Fields::new(body) {
        if let (1, Raw::Bytes(group)) = field? {
            check_group(signal, group, &late, &mut checked)?;
        }
    }
    Ok(checked)
}

fn check_group(
    signal: Signal,
    bytes: &[u8],
    late: &impl Fn(&Item<'_>) -> bool,
    checked: &mut Checked,
) -> Result<(), Malformed> {
    let group = group_sound(bytes)?;
    for field in Fields::new(bytes) {
        if let (2, Raw::Bytes(scope)) = field? {
            let sound = scope_sound(scope)? && group;
            for field in Fields::new(scope) {
                if let (2, Raw::Bytes(item)) = field? {
                    check_record(signal, item, sound, late, checked)?;
                }
            }
        }
    }
    Ok(())
}

/// Splits what lies in a scope into items: a metric into its points, a span or log record into itself.
fn check_record(
    signal: Signal,
    bytes: &[u8],
    sound: bool,
    late: &impl Fn(&Item<'_>) -> bool,
    checked: &mut Checked,
) -> Result<(), Malformed> {
    let Signal::Metrics = signal else {
        let message = if signal == Signal::Traces { &schema::SPAN } else { &schema::LOG_RECORD };
        return check_item(signal, message, bytes, sound, late, checked);
    };
    let head = metric_sound(bytes)?;
    for field in Fields::new(bytes) {
        let (number, Raw::Bytes(data)) = field? else { continue };
        let Some(message) = point_message(number) else { continue };
        for point in Fields::new(data) {
            if let (1, Raw::Bytes(point)) = point? {
                check_item(signal, message, point, sound && head, late, checked)?;
            }
        }
    }
    Ok(())
}

fn check_item(
    signal: Signal,
    message: &'static Message,
    bytes: &[u8],
    sound: bool,
    late: &impl Fn(&Item<'_>) -> bool,
    checked: &mut Checked,
) -> Result<(), Malformed> {
    let read = if sound { sound_item(signal, message, bytes)? } else { Err(Fault::Utf8) };
    let item = match read {
        Ok(item) => item,
        Err(fault) => {
            checked.rejected += 1;
            checked.fault.get_or_insert(fault);
            return Ok(());
        }
    };
    checked.accepted += 1;
    checked.timeless |= item.time == 0;
    if late(&item) {
        checked.quarantined += 1;
    }
    Ok(())
}

/// The message of the points that a metric holds in field `number`.
pub fn point_message(number: u32) -> Option<&'static Message> {
    match number {
        5 | 7 => Some(&schema::NUMBER_POINT),
        9 => Some(&schema::HISTOGRAM_POINT),
        10 => Some(&schema::EXPONENTIAL_POINT),
        11 => Some(&schema::SUMMARY_POINT),
        _ => None,
    }
}

/// The fault of one span, log record or data point, if it has one.
///
/// # Errors
/// When the bytes are not such a message at all.
pub fn item_fault(signal: Signal, message: &'static Message, bytes: &[u8]) -> Result<Option<Fault>, Malformed> {
    Ok(sound_item(signal, message, bytes)?.err())
}

fn sound_item<'a>(
    signal: Signal,
    message: &'static Message,
    bytes: &'a [u8],
) -> Result<Result<Item<'a>, Fault>, Malformed> {
    if !tolerate(soundness(message, bytes))? {
        return Ok(Err(Fault::Utf8));
    }
    let item = Item::read(signal, bytes)?;
    if signal != Signal::Traces {
        return Ok(Ok(item));
    }
    let all_zero = |id: &[u8]| id.iter().all(|byte| *byte == 0);
    Ok(if item.trace_id.len() != 16 || all_zero(item.trace_id) {
        Err(Fault::TraceId)
    } else if item.span_id.len() != 8 || all_zero(item.span_id) {
        Err(Fault::SpanId)
    } else if !matches!(item.parent_span_id.len(), 0 | 8) {
        Err(Fault::ParentSpanId)
    } else {
        Ok(item)
    })
}

/// Whether the text of a group's resource is UTF-8; all its items suffer if not.
pub fn group_sound(bytes: &[u8]) -> Result<bool, Malformed> {
    tolerate(Group::read(bytes).and_then(|group| soundness(&schema::RESOURCE, group.resource)))
}

/// Whether the text of a scope's head is UTF-8; all its items suffer if not.
pub fn scope_sound(bytes: &[u8]) -> Result<bool, Malformed> {
    tolerate(Scope::read(bytes).and_then(|scope| soundness(&schema::SCOPE, scope.scope)))
}

/// Whether the text of a metric, which all its points share, is UTF-8.
pub fn metric_sound(bytes: &[u8]) -> Result<bool, Malformed> {
    let mut sound = true;
    for field in Fields::new(bytes) {
        let (number, value) = field?;
        let Some(field) = schema::METRIC.field(number) else { continue };
        match (field.kind, value) {
            (Kind::Message(data), Raw::Bytes(bytes)) if point_message(number).is_some() => {
                data_soundness(data, bytes)?;
            }
            (kind, value) => sound &= tolerate(value_soundness(kind, field.repeated, value, 1))?,
        }
    }
    Ok(sound)
}

/// Soundness of a gauge, sum or histogram without its points.
fn data_soundness(message: &'static Message, bytes: &[u8]) -> Result<(), Malformed> {
    for field in Fields::new(bytes) {
        let (number, value) = field?;
        match (message.field(number), value) {
            (Some(Field { kind: Kind::Message(_), .. }), Raw::Bytes(_)) | (None, _) => {}
            (Some(field), _) => value_soundness(field.kind, field.repeated, value, 2)?,
        }
    }
    Ok(())
}

/// Whether `bytes` are that message all the way down.
pub fn soundness(message: &'static Message, bytes: &[u8]) -> Result<(), Malformed> {
    nested_soundness(message, bytes, 0)
}

fn nested_soundness(message: &'static Message, bytes: &[u8], depth: u32) -> Result<(), Malformed> {
    if depth > DEPTH_MAX {
        return Err(Malformed::Depth);
    }
    for field in Fields::new(bytes) {
        let (number, value) = field?;
        if let Some(field) = message.field(number) {
            value_soundness(field.kind, field.repeated, value, depth)?;
        }
    }
    Ok(())
}

#[inline]
fn value_soundness(kind: Kind, repeated: bool, value: Raw<'_>, depth: u32) -> Result<(), Malformed> {
    match (kind, value) {
        (Kind::Text, Raw::Bytes(text)) => std::str::from_utf8(text).map(|_| ()).map_err(|_| Malformed::Utf8),
        (Kind::Message(message), Raw::Bytes(bytes)) => nested_soundness(message, bytes, depth + 1),
        (Kind::Bytes | Kind::Id, Raw::Bytes(_))
        | (Kind::Bool | Kind::Int32 | Kind::Uint32 | Kind::Sint32 | Kind::Int64 | Kind::Uint64, Raw::Varint(_))
        | (Kind::Fixed64 | Kind::Sfixed64 | Kind::Double, Raw::Fixed64(_))
        | (Kind::Fixed32, Raw::Fixed32(_)) => Ok(()),
        (kind, Raw::Bytes(packed)) if repeated && kind.packable() => super::view::Packed::new(kind, packed).sound(),
        _ => Err(Malformed::Type),
    }
}

/// Turns "not UTF-8" into false, since only the item that holds the text suffers; everything else fails the body.
fn tolerate(result: Result<(), Malformed>) -> Result<bool, Malformed> {
    match result {
        Ok(()) => Ok(true),
        Err(Malformed::Utf8) => Ok(false),
        Err(malformed) => Err(malformed),
    }
}
