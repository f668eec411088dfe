//! What lies in the messages of `grpc_service.proto` of KServe's protocol, version 2, as far as a record needs it.

use crate::proxy::read::Output;

/// Model and id of a `ModelInferRequest`; `None` if it is none.
pub(super) fn asked(message: &[u8]) -> Option<(Option<&str>, String)> {
    let (mut model, mut id) = (None, String::new());
    fields(message, |number, field| match (number, field) {
        (1, Field::Bytes(bytes)) => model = std::str::from_utf8(bytes).ok(),
        (3, Field::Bytes(bytes)) => id = String::from_utf8_lossy(bytes).into_owned(),
        _ => {}
    })?;
    Some((model, id))
}

/// Error and answer in a `ModelStreamInferResponse`.
pub(super) fn streamed(message: &[u8]) -> (Option<String>, Option<&[u8]>) {
    let (mut error, mut inner) = (None, None);
    fields(message, |number, field| match (number, field) {
        (1, Field::Bytes(bytes)) if !bytes.is_empty() => error = Some(String::from_utf8_lossy(bytes).into_owned()),
        (2, Field::Bytes(bytes)) => inner = Some(bytes),
        _ => {}
    });
    (error, inner)
}

/// What an answer holds for the record.
#[derive(Default)]
pub(super) struct Answer<'a> {
    pub(super) id: &'a str,
    pub(super) is_last: bool,
    /// Whether it says if it is the last.
    pub(super) is_marked: bool,
    pub(super) output: Output<'a>,
}

impl<'a> Answer<'a> {
    /// Reads a `ModelInferResponse`.
    pub(super) fn read(message: &'a [u8]) -> Option<Self> {
        let mut answer = Self::default();
        let (mut names, mut contents, mut raw) = (Vec::new(), Vec::new(), Vec::new());
        fields(message, |number, field| match (number, field) {
            (1, Field::Bytes(bytes)) => answer.output.model = std::str::from_utf8(bytes).ok(),
            (3, Field::Bytes(bytes)) => answer.id = std::str::from_utf8(bytes).unwrap_or_default(),
            (4, Field::Bytes(bytes)) => {
                let mark = last(bytes);
                answer.is_marked |= mark.is_some();
                answer.is_last |= mark == Some(true);
            }
            (5, Field::Bytes(bytes)) => {
                let (name, inside) = tensor(bytes);
                names.push(name);
                contents.push(inside);
            }
            (6, Field::Bytes(bytes)) => raw.push(bytes),
            _ => {}
        })?;
        for (at, name) in names.into_iter().enumerate() {
            let bytes = raw.get(at).copied();
            match name {
                b"text_output" => answer.output.text_bytes = Some(bytes.map_or_else(|| contents[at], text_bytes)),
                b"num_output_tokens" => answer.output.tokens = bytes.and_then(number),
                b"num_input_tokens" => answer.output.input_tokens = bytes.and_then(number),
                _ => {}
            }
        }
        Some(answer)
    }
}

/// Triton's mark of the last answer, `triton_final_response`, if the parameter is that.
fn last(entry: &[u8]) -> Option<bool> {
    let (mut name, mut value) = (&b""[..], false);
    fields(entry, |number, field| match (number, field) {
        (1, Field::Bytes(bytes)) => name = bytes,
        (2, Field::Bytes(bytes)) => {
            fields(bytes, |number, field| value |= matches!((number, field), (1, Field::Number(1))));
        }
        _ => {}
    });
    (name == b"triton_final_response").then_some(value)
}

/// Name of an output tensor, and the length of the texts that lie in it.
fn tensor(message: &[u8]) -> (&[u8], usize) {
    let (mut name, mut length) = (&b""[..], 0);
    fields(message, |number, field| match (number, field) {
        (1, Field::Bytes(bytes)) => name = bytes,
        (5, Field::Bytes(bytes)) => {
            fields(bytes, |number, field| {
                if let (8, Field::Bytes(text)) = (number, field) {
                    length += text.len();
                }
            });
        }
        _ => {}
    });
    (name, length)
}

/// Length of raw texts: each has four bytes with its length before it.
fn text_bytes(raw: &[u8]) -> usize {
    let (mut rest, mut sum) = (raw, 0_usize);
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some(after) = after.get(length..) else { return sum };
        sum += length;
        rest = after;
    }
    sum
}

/// A raw unsigned number of 4 or 8 bytes.
fn number(raw: &[u8]) -> Option<u64> {
    match raw.len() {
        4 => Some(u32::from_le_bytes(raw.try_into().ok()?).into()),
        8 => Some(u64::from_le_bytes(raw.try_into().ok()?)),
        _ => None,
    }
}

/// One field of a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Goes through the fields of a message. `None` if it is none.
fn fields<'a>(message: &'a [u8], mut each: impl FnMut(u64, Field<'a>)) -> Option<()> {
    let mut rest = message;
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut rest)?),
            1 => take(&mut rest, 8).map(|_| Field::Other)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Field::Bytes(take(&mut rest, length)?)
            }
            5 => take(&mut rest, 4).map(|_| Field::Other)?,
            _ => return None,
        };
        each(tag >> 3, field);
    }
    Some(())
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}
