//! The protobuf wire format, read in place.

/// Why bytes are not the message they claim to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end inside a field.
    #[error("the message ends inside a field")]
    Truncated,
    /// A varint of more than ten bytes.
    #[error("a varint is longer than ten bytes")]
    Varint,
    /// A tag with a wire type that proto3 does not have, or field number 0.
    #[error("a field has an invalid tag")]
    Tag,
    /// A known field with the wrong wire type.
    #[error("a field has the wrong wire type")]
    Type,
    /// A string that is not UTF-8.
    #[error("a string is not valid UTF-8")]
    Utf8,
    /// Messages nested deeper than any emitter nests them.
    #[error("messages are nested too deeply")]
    Depth,
    /// A part that could not be read as OTLP/JSON; see [`super::schema::UNREADABLE`].
    #[error("a field has a value that OTLP/JSON does not allow there")]
    Unreadable,
}

/// One field's value as the wire carries it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Raw<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64(u64),
    /// Wire type 2.
    Bytes(&'a [u8]),
    /// Wire type 5.
    Fixed32(u32),
}

/// The fields of one message in the order in which they were sent.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Reads the fields of a message's bytes.
    #[inline(always)]
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Bytes that are not read yet.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next field: its number and its value.
    #[inline(always)]
    pub fn read(&mut self) -> Result<Option<(u32, Raw<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| Malformed::Tag)?;
        if number == 0 || number > 0x1fff_ffff {
            return Err(Malformed::Tag);
        }
        let value = match tag & 7 {
            0 => Raw::Varint(self.varint()?),
            1 => Raw::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed::Truncated)?;
                Raw::Bytes(self.take(length)?)
            }
            5 => Raw::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(Malformed::Tag),
        };
        Ok(Some((number, value)))
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, Malformed> {
        let (value, rest) = varint(self.rest)?;
        self.rest = rest;
        Ok(value)
    }

    #[inline(always)]
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Raw<'a>), Malformed>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        match self.read() {
            Ok(None) => None,
            Ok(Some(field)) => Some(Ok(field)),
            Err(malformed) => {
                self.rest = &[];
                Some(Err(malformed))
            }
        }
    }
}

/// The values of fields 1 and 2 of a message that has these two and nothing else, each of less than 128 bytes: how an attribute
/// is written nearly always. None if it is another message, or the same one written otherwise.
#[inline(always)]
pub fn short_pair(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let [0x0a, length @ ..0x80, rest @ ..] = message else { return None };
    let (first, rest) = rest.split_at_checked(usize::from(*length))?;
    let [0x12, length @ ..0x80, second @ ..] = rest else { return None };
    (second.len() == usize::from(*length)).then_some((first, second))
}

/// The value of field 1 of a message that has only this one, of less than 128 bytes; else none.
#[inline(always)]
pub fn short_text(message: &[u8]) -> Option<&[u8]> {
    let [0x0a, length @ ..0x80, text @ ..] = message else { return None };
    (text.len() == usize::from(*length)).then_some(text)
}

/// Reads one varint and returns what follows it.
#[inline(always)]
pub fn varint(bytes: &[u8]) -> Result<(u64, &[u8]), Malformed> {
    match bytes {
        [first, rest @ ..] if *first < 0x80 => Ok((u64::from(*first), rest)),
        [first, second, rest @ ..] if *second < 0x80 => Ok((u64::from(*first & 0x7f) | u64::from(*second) << 7, rest)),
        _ => long_varint(bytes),
    }
}

fn long_varint(bytes: &[u8]) -> Result<(u64, &[u8]), Malformed> {
    let mut value = 0_u64;
    for (position, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * position);
        if *byte < 0x80 {
            // The tenth byte has room for one bit.
            if position == 9 && *byte > 1 {
                return Err(Malformed::Varint);
            }
            return Ok((value, bytes.get(position + 1..).unwrap_or_default()));
        }
    }
    Err(if bytes.len() < 10 { Malformed::Truncated } else { Malformed::Varint })
}

/// Appends a varint.
pub fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a tag: field number and wire type.
pub fn put_tag(number: u32, wire_type: u8, out: &mut Vec<u8>) {
    put_varint(u64::from(number) << 3 | u64::from(wire_type), out);
}

/// Appends a length-delimited field.
pub fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_tag(number, 2, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a field as it was read.
pub fn put_raw(number: u32, value: Raw<'_>, out: &mut Vec<u8>) {
    match value {
        Raw::Varint(value) => {
            put_tag(number, 0, out);
            put_varint(value, out);
        }
        Raw::Fixed64(bits) => {
            put_tag(number, 1, out);
            out.extend_from_slice(&bits.to_le_bytes());
        }
        Raw::Bytes(bytes) => put_bytes(number, bytes, out),
        Raw::Fixed32(bits) => {
            put_tag(number, 5, out);
            out.extend_from_slice(&bits.to_le_bytes());
        }
    }
}

/// The signed value of a zigzag varint.
pub fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
