//! One body in the journal: a header of fixed size, then the bytes as they were received.
//!
//! ```text
//! length u32 · crc32 u32 · number u64 · received µs i64 · digest u128 · signal u8 · compression u8 · encoding u8 · flags u8 · body
//! ```
//! All little-endian. `length` counts what follows the CRC, which covers the same bytes.

use bytes::Bytes;

use crate::decode::inflate::Compression;
use crate::receive::Encoding;
use crate::signal::Signal;

/// Bytes before a body.
pub(super) const HEADER: usize = 44;
/// Bytes of length and CRC, which the length does not count.
pub(super) const PREFIX: usize = 8;
/// Longest body; receivers refuse larger ones, so a longer length is a torn or foreign frame.
pub(super) const BODY_MAX: usize = 256 * 1024 * 1024;

const FAULTY: u8 = 1;

/// A body and what must be known to read it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// What it carries.
    pub signal: Signal,
    /// How it is compressed.
    pub compression: Compression,
    /// Protobuf or JSON.
    pub encoding: Encoding,
    /// Whether some of its items were rejected.
    pub faulty: bool,
    /// When it was received, microseconds since 1970-01-01 UTC.
    pub received_us: i64,
    /// What a retry of it is recognised by.
    pub digest: u128,
    /// The bytes as received.
    pub body: Bytes,
}

/// What stands before the body of frame `number`.
pub(super) fn header(number: u64, stored: &Stored) -> [u8; HEADER] {
    let mut fields = Vec::with_capacity(HEADER - PREFIX);
    fields.extend_from_slice(&number.to_le_bytes());
    fields.extend_from_slice(&stored.received_us.to_le_bytes());
    fields.extend_from_slice(&stored.digest.to_le_bytes());
    fields.push(stored.signal.code());
    fields.push(stored.compression.code());
    fields.push(stored.encoding.code());
    fields.push(if stored.faulty { FAULTY } else { 0 });
    let mut crc = crc32fast::Hasher::new();
    crc.update(&fields);
    crc.update(&stored.body);
    let length = (HEADER - PREFIX + stored.body.len()) as u32;
    let mut header = [0; HEADER];
    let bytes = length.to_le_bytes().into_iter().chain(crc.finalize().to_le_bytes()).chain(fields);
    header.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    header
}

/// What the first eight bytes of a frame say: the length of the rest and its CRC; `None` if no frame begins so.
pub(super) fn prefix(bytes: &[u8; PREFIX]) -> Option<(usize, u32)> {
    let (length, crc) = bytes.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    let crc = u32::from_le_bytes(*crc.first_chunk::<4>()?);
    ((HEADER - PREFIX)..=(HEADER - PREFIX + BODY_MAX)).contains(&length).then_some((length, crc))
}

/// Reads what follows the prefix; `None` if the CRC does not fit or a code is unknown.
pub(super) fn decode(rest: Vec<u8>, crc: u32) -> Option<(u64, Stored)> {
    if crc32fast::hash(&rest) != crc {
        return None;
    }
    let (number, tail) = rest.split_first_chunk::<8>()?;
    let (received, tail) = tail.split_first_chunk::<8>()?;
    let (digest, tail) = tail.split_first_chunk::<16>()?;
    let [signal, compression, encoding, flags, ..] = *tail else { return None };
    let stored = Stored {
        signal: Signal::from_code(signal)?,
        compression: Compression::from_code(compression)?,
        encoding: Encoding::from_code(encoding)?,
        faulty: flags & FAULTY != 0,
        received_us: i64::from_le_bytes(*received),
        digest: u128::from_le_bytes(*digest),
        body: Bytes::new(),
    };
    let number = u64::from_le_bytes(*number);
    Some((number, Stored { body: Bytes::from(rest).slice(HEADER - PREFIX..), ..stored }))
}
