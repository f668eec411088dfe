//! Soundness along the schema: whether bytes are a message all the way down.

use super::super::canonical::hex_id;
use super::super::schema::{Kind, Message, Seen, UNREADABLE};
use super::super::view::Packed;
use super::super::wire::{Fields, Malformed, Raw};
use super::Checked;

/// Deepest nesting of messages; attribute values of a few levels are all that emitters send.
pub(in crate::decode) const DEPTH_MAX: u32 = 64;

/// Whether bytes are that message all the way down.
pub(in crate::decode) fn is_sound(message: &'static Message, bytes: &[u8]) -> bool {
    nested_soundness(message, bytes, 0, &mut Checked::default()).is_ok()
}

/// What a nested message may take beside its text, as an attribute that was read or printed as JSON. Bytes.
const NESTED_BYTES: u64 = 32;
/// What a number takes in a list. Bytes.
const NUMBER_BYTES: u64 = 8;

/// Soundness of a message and all below it; `met.odd` is raised where [`super::super::canonical`] has something to mend, and
/// `met.row_bytes` by what the message will take.
pub(super) fn nested_soundness(
    message: &'static Message,
    bytes: &[u8],
    depth: u32,
    met: &mut Checked,
) -> Result<(), Malformed> {
    if depth > DEPTH_MAX {
        return Err(Malformed::Depth);
    }
    let mut seen = Seen::default();
    for field in Fields::new(bytes) {
        let (number, value) = field?;
        match message.field(number) {
            Some(field) => {
                met.odd |= seen.again(field);
                value_soundness(field.kind, field.repeated, value, depth, met)?;
            }
            None if number == UNREADABLE => return Err(Malformed::Unreadable),
            None => {}
        }
    }
    Ok(())
}

/// Soundness of one value of a field.
#[inline]
pub(super) fn value_soundness(
    kind: Kind,
    repeated: bool,
    value: Raw<'_>,
    depth: u32,
    met: &mut Checked,
) -> Result<(), Malformed> {
    match (kind, value) {
        (Kind::Text, Raw::Bytes(text)) => std::str::from_utf8(text).map(|_| ()).map_err(|_| Malformed::Utf8),
        (Kind::Message(message), Raw::Bytes(bytes)) => {
            met.row_bytes += NESTED_BYTES;
            nested_soundness(message, bytes, depth + 1, met)
        }
        (Kind::Id(length), Raw::Bytes(id)) => {
            met.odd |= id.len() != length && hex_id(id, length).is_some();
            Ok(())
        }
        (Kind::Bytes, Raw::Bytes(_))
        | (
            Kind::Bool | Kind::Int32 | Kind::Enum(_) | Kind::Uint32 | Kind::Sint32 | Kind::Int64 | Kind::Uint64,
            Raw::Varint(_),
        )
        | (Kind::Fixed64 | Kind::Sfixed64 | Kind::Double, Raw::Fixed64(_))
        | (Kind::Fixed32, Raw::Fixed32(_)) => Ok(()),
        (kind, Raw::Bytes(packed)) if repeated && kind.packable() => {
            let shortest = match kind {
                Kind::Fixed64 | Kind::Sfixed64 | Kind::Double => 8,
                Kind::Fixed32 => 4,
                _ => 1,
            };
            met.row_bytes += NUMBER_BYTES * (packed.len() / shortest) as u64;
            Packed::new(kind, packed).sound()
        }
        _ => Err(Malformed::Type),
    }
}
