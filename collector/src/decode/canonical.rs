//! What few senders do and protobuf allows, made what all others do, so that the rest of the code need not know of it: the parts
//! of a message sent apart are joined, of a oneof sent twice the last stays, and ids sent as hex text become ids.
//!
//! [`super::check`] finds out whether a body needs it; hardly any does. Doing it twice changes nothing.

use super::check::{self, DEPTH_MAX};
use super::schema::{Kind, Message, UNREADABLE};
use super::wire::{Fields, Malformed, Raw, put_bytes, put_raw};

/// The message in its plain form. Unknown fields are left out. What has a fault and is rejected for it stays as it is, byte by
/// byte: there may be more faults behind the one that was found.
///
/// # Errors
/// If the bytes are not such a message, down to its items.
pub fn canonical(message: &'static Message, bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::with_capacity(bytes.len());
    write(message, bytes, 0, &mut out)?;
    Ok(out)
}

fn write(message: &'static Message, bytes: &[u8], depth: u32, out: &mut Vec<u8>) -> Result<(), Malformed> {
    if depth > DEPTH_MAX {
        out.extend_from_slice(bytes);
        return Ok(());
    }
    let chosen = chosen(message, bytes)?;
    // Messages that occur once by their type; parts of one that follow one another are the parts of one message.
    let mut joined: Vec<(u32, &'static Message, Vec<u8>)> = Vec::new();
    for (place, field) in Fields::new(bytes).enumerate() {
        let (number, value) = field?;
        let Some(field) = message.field(number) else {
            if number == UNREADABLE {
                put_raw(number, value, out);
            }
            continue;
        };
        if field.exclusive && chosen.is_none_or(|(held, since)| held != number || place < since) {
            continue;
        }
        match (field.kind, value) {
            (Kind::Message(nested), Raw::Bytes(bytes)) if field.repeated => {
                put_bytes(number, &part(message, nested, bytes, depth)?, out);
            }
            (Kind::Message(nested), Raw::Bytes(bytes)) => {
                match joined.iter_mut().find(|(known, ..)| *known == number) {
                    Some((.., parts)) => parts.extend_from_slice(bytes),
                    None => joined.push((number, nested, bytes.to_vec())),
                }
            }
            (Kind::Id(length), Raw::Bytes(text)) => match hex_id(text, length) {
                Some(id) => put_bytes(number, &id, out),
                None => put_bytes(number, text, out),
            },
            (_, value) => put_raw(number, value, out),
        }
    }
    for (number, nested, parts) in joined {
        put_bytes(number, &part(message, nested, &parts, depth)?, out);
    }
    Ok(())
}

/// A message within `parent`. One with a fault keeps its order too, so that the same fault is met first again.
fn part(parent: &Message, nested: &'static Message, bytes: &[u8], depth: u32) -> Result<Vec<u8>, Malformed> {
    if parent.is_holder() && !nested.is_holder() && !check::is_sound(nested, bytes) {
        return Ok(bytes.to_vec());
    }
    let mut inner = Vec::with_capacity(bytes.len());
    write(nested, bytes, depth + 1, &mut inner)?;
    Ok(inner)
}

/// The member of the message's oneof that holds, and the place from which on its occurrences count.
fn chosen(message: &Message, bytes: &[u8]) -> Result<Option<(u32, usize)>, Malformed> {
    let mut chosen: Option<(u32, usize)> = None;
    if !message.has_choice() {
        return Ok(chosen);
    }
    for (place, field) in Fields::new(bytes).enumerate() {
        let (number, _) = field?;
        let Some(field) = message.field(number).filter(|field| field.exclusive) else { continue };
        // A message that is sent again is joined to what was sent of it, a number or text replaces it.
        if !matches!(field.kind, Kind::Message(_)) || chosen.is_none_or(|(held, _)| held != number) {
            chosen = Some((number, place));
        }
    }
    Ok(chosen)
}

/// The id of `length` bytes that a text of hex digits spells.
pub(super) fn hex_id(text: &[u8], length: usize) -> Option<Vec<u8>> {
    if text.len() != 2 * length {
        return None;
    }
    hex::decode(text).ok()
}
