//! Repeated numbers, which protobuf packs into one field.

use crate::decode::schema::Kind;
use crate::decode::wire::{self, Malformed};

/// Numbers that share one length-delimited field.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    kind: PackedKind,
    rest: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
enum PackedKind {
    Varint,
    Eight,
    Four,
}

impl<'a> Packed<'a> {
    /// Reads `bytes` as numbers of that kind.
    pub fn new(kind: Kind, bytes: &'a [u8]) -> Self {
        let kind = match kind {
            Kind::Fixed64 | Kind::Sfixed64 | Kind::Double => PackedKind::Eight,
            Kind::Fixed32 => PackedKind::Four,
            _ => PackedKind::Varint,
        };
        Self { kind, rest: bytes }
    }

    /// Whether all numbers are whole.
    pub fn sound(self) -> Result<(), Malformed> {
        for number in self {
            number?;
        }
        Ok(())
    }
}

impl Iterator for Packed<'_> {
    type Item = Result<u64, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = match self.kind {
            PackedKind::Varint => wire::varint(self.rest),
            PackedKind::Eight => split(self.rest).map(|(bytes, rest)| (u64::from_le_bytes(bytes), rest)),
            PackedKind::Four => split(self.rest).map(|(bytes, rest)| (u64::from(u32::from_le_bytes(bytes)), rest)),
        };
        match read {
            Ok((number, rest)) => {
                self.rest = rest;
                Some(Ok(number))
            }
            Err(malformed) => {
                self.rest = &[];
                Some(Err(malformed))
            }
        }
    }
}

fn split<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8]), Malformed> {
    bytes.split_first_chunk::<N>().map(|(number, rest)| (*number, rest)).ok_or(Malformed::Truncated)
}
