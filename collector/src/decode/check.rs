//! Proof that a body is sound, before it is journalled: what passes here can always be turned into rows.
//!
//! Bytes that are not the message they claim to be fail the whole body. A single span, data point or log record with a
//! fault of its own is rejected alone and counted, so that one bad item never sinks a batch.

mod sound;
mod usual;

use telemetry::names;

use super::alike::Patterns;
use super::schema::{self, Field, Kind, Message, Seen, UNREADABLE};
use super::view::{Group, Item, Scope};
use super::wire::{Fields, Malformed, Raw};
use crate::batch::rows::ROW_BYTES;
use crate::signal::Signal;
pub(super) use sound::{DEPTH_MAX, is_sound};
use sound::{nested_soundness, value_soundness};

/// What a sound body holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Items that will become rows.
    pub accepted: u64,
    /// Items that will not, because each has a fault.
    pub rejected: u64,
    /// The first fault met.
    pub fault: Option<Fault>,
    /// How many items were rejected for each fault, in the order of [`Fault::ALL`].
    pub faults: [u64; Fault::ALL.len()],
    /// Items that were taken out before: their sender may not write for their tenant.
    pub foreign: u64,
    /// Accepted items whose event time no table accepts.
    pub quarantined: u64,
    /// A log record without any time: two such bodies may be equal and yet both be meant.
    pub timeless: bool,
    /// Parts of a message sent apart, or ids as hex text: [`super::canonical`] mends it, and then the body is checked again.
    pub odd: bool,
    /// A group, scope or metric with a fault of its own, be it one without items.
    pub unsound: bool,
    /// Bytes of resources, scopes and metrics, each counted once for every row that repeats it.
    pub shared_bytes: u64,
    /// Memory that its rows will take beside their text, and the largest of what is read on the way, reckoned from how many items
    /// and parts of items there are: an item of two bytes is a row like any other.
    pub row_bytes: u64,
}

impl Checked {
    /// Whether turning the body into rows needs another look at each of its parts.
    pub fn is_faulty(&self) -> bool {
        self.rejected > 0 || self.odd || self.unsound
    }
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
    /// Arrays and maps nested deeper than any emitter nests them.
    Depth,
    /// A value that OTLP/JSON does not have there.
    Unreadable,
}

/// Longest id of a log record that is kept as it was sent. OTLP has ids of 16 and 8 bytes, or none.
const LOG_ID_MAX: usize = 16;

impl Fault {
    /// All faults, in the order in which they are declared.
    pub const ALL: [Fault; 6] =
        [Fault::TraceId, Fault::SpanId, Fault::ParentSpanId, Fault::Utf8, Fault::Depth, Fault::Unreadable];

    /// Its name as a label of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Fault::TraceId => "trace_id",
            Fault::SpanId => "span_id",
            Fault::ParentSpanId => "parent_span_id",
            Fault::Utf8 => "utf8",
            Fault::Depth => "depth",
            Fault::Unreadable => "unreadable",
        }
    }

    /// What the sender reads.
    pub fn message(self) -> &'static str {
        match self {
            Fault::TraceId => "trace id is not 16 bytes with at least one that is not zero",
            Fault::SpanId => "span id is not 8 bytes with at least one that is not zero",
            Fault::ParentSpanId => "parent span id is neither empty nor 8 bytes",
            Fault::Utf8 => "text is not valid UTF-8",
            Fault::Depth => "values are nested more than 32 deep",
            Fault::Unreadable => "JSON has a value of another type than OTLP has there",
        }
    }
}

/// Checks a whole body; `late` tells whether an item's event time is one that no table accepts.
pub fn check(signal: Signal, body: &[u8], late: impl Fn(&Item<'_>) -> bool) -> Result<Checked, Malformed> {
    let mut check = Check { signal, late, checked: Checked::default(), alike: Patterns::default() };
    for field in Fields::new(body) {
        if let (1, Raw::Bytes(group)) = field? {
            check.group(group)?;
        }
    }
    Ok(check.checked)
}

/// What the items of a group, a scope or a metric have in common.
#[derive(Clone, Copy)]
struct Shared {
    /// A fault that all of them suffer.
    fault: Option<Fault>,
    /// Bytes that every row repeats, and those that a token's row does.
    bytes: u64,
    token_bytes: u64,
}

/// The most that a token's row repeats: its dimensions.
const TOKEN_BYTES: u64 = 4_096;

/// The check of one body.
struct Check<'a, L> {
    signal: Signal,
    late: L,
    checked: Checked,
    /// Tokens that were found sound.
    alike: Patterns<'a, ()>,
}

impl<'a, L: Fn(&Item<'_>) -> bool> Check<'a, L> {
    fn group(&mut self, bytes: &'a [u8]) -> Result<(), Malformed> {
        let checked = &mut self.checked;
        let group = group_fault(bytes, checked)?;
        checked.unsound |= group.is_some();
        let resource = message_bytes(bytes, checked)?;
        for field in Fields::new(bytes) {
            if let (2, Raw::Bytes(bytes)) = field? {
                self.scope(bytes, group, resource)?;
            }
        }
        Ok(())
    }

    fn scope(&mut self, bytes: &'a [u8], group: Option<Fault>, resource: u64) -> Result<(), Malformed> {
        let checked = &mut self.checked;
        let scope = Scope::read(bytes);
        let head = match &scope {
            Ok(scope) => {
                checked.odd |= scope.parts > 1;
                scope.bytes
            }
            Err(_) => message_bytes(bytes, checked)?,
        };
        let fault = group.or(scope_fault(scope, checked)?);
        checked.unsound |= fault.is_some();
        let shared = Shared { fault, bytes: resource + head, token_bytes: resource.min(TOKEN_BYTES) };
        for field in Fields::new(bytes) {
            if let (2, Raw::Bytes(item)) = field? {
                self.record(item, shared)?;
            }
        }
        Ok(())
    }

    /// Splits what lies in a scope into items: a metric into its points, a span or log record into itself.
    fn record(&mut self, bytes: &'a [u8], shared: Shared) -> Result<(), Malformed> {
        match self.signal {
            Signal::Metrics => {}
            Signal::Traces => return self.item(&schema::SPAN, bytes, shared),
            Signal::Logs | Signal::Own | Signal::Alerts => return self.item(&schema::LOG_RECORD, bytes, shared),
        }
        let fault = shared.fault.or(metric_fault(bytes, &mut self.checked)?);
        self.checked.unsound |= fault.is_some();
        let mut head = bytes.len();
        for field in Fields::new(bytes) {
            if let (number, Raw::Bytes(data)) = field?
                && point_message(number).is_some()
            {
                head = head.saturating_sub(data.len());
            }
        }
        let shared = Shared { fault, bytes: shared.bytes + head as u64, ..shared };
        for field in Fields::new(bytes) {
            let (number, Raw::Bytes(data)) = field? else { continue };
            let Some(message) = point_message(number) else { continue };
            for point in Fields::new(data) {
                if let (1, Raw::Bytes(point)) = point? {
                    self.item(message, point, shared)?;
                }
            }
        }
        Ok(())
    }

    fn item(&mut self, message: &'static Message, bytes: &'a [u8], shared: Shared) -> Result<(), Malformed> {
        let read = match shared.fault {
            Some(fault) => Err(fault),
            None => {
                let usual = self.usual(bytes);
                sound_item(self.signal, message, bytes, usual, &mut self.checked)?
            }
        };
        let checked = &mut self.checked;
        let item = match read {
            Ok(item) => item,
            Err(fault) => {
                checked.rejected += 1;
                checked.faults[fault as usize] += 1;
                checked.fault.get_or_insert(fault);
                return Ok(());
            }
        };
        checked.accepted += 1;
        checked.timeless |= item.time == 0;
        let token = self.signal == Signal::Traces && item.name == names::SPAN_TOKEN;
        checked.shared_bytes += if token { shared.token_bytes } else { shared.bytes };
        checked.row_bytes += if token { ROW_BYTES } else { 2 * ROW_BYTES } as u64;
        if (self.late)(&item) {
            checked.quarantined += 1;
        }
        Ok(())
    }

    /// A span that is sound because one like it was, or because it is of the usual form.
    #[inline]
    fn usual(&mut self, bytes: &'a [u8]) -> Option<Item<'a>> {
        if self.signal != Signal::Traces {
            return None;
        }
        if let Some((pattern, ())) = self.alike.find(bytes).and_then(|found| self.alike.get(found)) {
            return Some(pattern.item(bytes));
        }
        let item = usual::span(bytes)?;
        if item.name == names::SPAN_TOKEN {
            self.alike.add(bytes, |_| ());
        }
        Some(item)
    }
}

/// Bytes of what a group or scope holds beside its items: field 1, which may come in parts.
fn message_bytes(bytes: &[u8], checked: &mut Checked) -> Result<u64, Malformed> {
    let (mut parts, mut total) = (0, 0);
    for field in Fields::new(bytes) {
        match field? {
            (1, Raw::Bytes(part)) => {
                parts += 1;
                total += part.len() as u64;
            }
            (3, Raw::Bytes(url)) => total += url.len() as u64,
            _ => {}
        }
    }
    checked.odd |= parts > 1;
    Ok(total)
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
    let usual = if signal == Signal::Traces { usual::span(bytes) } else { None };
    Ok(sound_item(signal, message, bytes, usual, &mut Checked::default())?.err())
}

/// An item, or its fault; `usual` is what is known of it already.
fn sound_item<'a>(
    signal: Signal,
    message: &'static Message,
    bytes: &'a [u8],
    usual: Option<Item<'a>>,
    met: &mut Checked,
) -> Result<Result<Item<'a>, Fault>, Malformed> {
    let item = match usual {
        Some(item) => item,
        None => match tolerate(nested_soundness(message, bytes, 0, met))? {
            Some(fault) => return Ok(Err(fault)),
            None => Item::read(signal, bytes)?,
        },
    };
    if signal == Signal::Logs && item.trace_id.len().max(item.span_id.len()) > LOG_ID_MAX {
        // A record need not be of a trace, but what it says of one has to be an id.
        return Ok(Err(if item.trace_id.len() > LOG_ID_MAX { Fault::TraceId } else { Fault::SpanId }));
    }
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

/// Whether a group's resource is sound; all its items suffer if not.
pub fn group_sound(bytes: &[u8]) -> Result<bool, Malformed> {
    Ok(group_fault(bytes, &mut Checked::default())?.is_none())
}

fn group_fault(bytes: &[u8], met: &mut Checked) -> Result<Option<Fault>, Malformed> {
    tolerate(Group::read(bytes).and_then(|group| match group.unreadable {
        true => Err(Malformed::Unreadable),
        false => nested_soundness(&schema::RESOURCE, group.resource, 0, met),
    }))
}

/// Whether a scope's head is sound; all its items suffer if not.
pub fn scope_sound(bytes: &[u8]) -> Result<bool, Malformed> {
    Ok(scope_fault(Scope::read(bytes), &mut Checked::default())?.is_none())
}

fn scope_fault(scope: Result<Scope<'_>, Malformed>, met: &mut Checked) -> Result<Option<Fault>, Malformed> {
    tolerate(scope.and_then(|scope| match scope.unreadable {
        true => Err(Malformed::Unreadable),
        false => nested_soundness(&schema::SCOPE, scope.scope, 0, met),
    }))
}

/// Whether what all points of a metric share is sound.
pub fn metric_sound(bytes: &[u8]) -> Result<bool, Malformed> {
    Ok(metric_fault(bytes, &mut Checked::default())?.is_none())
}

fn metric_fault(bytes: &[u8], met: &mut Checked) -> Result<Option<Fault>, Malformed> {
    let mut fault = None;
    let mut seen = Seen::default();
    for field in Fields::new(bytes) {
        let (number, value) = field?;
        let Some(field) = schema::METRIC.field(number) else {
            fault = fault.or((number == UNREADABLE).then_some(Fault::Unreadable));
            continue;
        };
        met.odd |= seen.again(field);
        let read = match (field.kind, value) {
            (Kind::Message(data), Raw::Bytes(bytes)) if point_message(number).is_some() => data_soundness(data, bytes),
            (kind, value) => value_soundness(kind, field.repeated, value, 1, met),
        };
        fault = fault.or(tolerate(read)?);
    }
    Ok(fault)
}

/// Soundness of a gauge, sum or histogram without its points.
fn data_soundness(message: &'static Message, bytes: &[u8]) -> Result<(), Malformed> {
    let mut unreadable = false;
    for field in Fields::new(bytes) {
        let (number, value) = field?;
        match (message.field(number), value) {
            (None, _) => unreadable |= number == UNREADABLE,
            (Some(Field { kind: Kind::Message(_), .. }), Raw::Bytes(_)) => {}
            (Some(field), _) => value_soundness(field.kind, field.repeated, value, 2, &mut Checked::default())?,
        }
    }
    if unreadable { Err(Malformed::Unreadable) } else { Ok(()) }
}

/// Turns a malformation that only the item suffers which holds it into a fault; everything else fails the body.
fn tolerate(result: Result<(), Malformed>) -> Result<Option<Fault>, Malformed> {
    match result {
        Ok(()) => Ok(None),
        Err(Malformed::Utf8) => Ok(Some(Fault::Utf8)),
        Err(Malformed::Depth) => Ok(Some(Fault::Depth)),
        Err(Malformed::Unreadable) => Ok(Some(Fault::Unreadable)),
        Err(malformed) => Err(malformed),
    }
}
