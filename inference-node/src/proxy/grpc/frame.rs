//! gRPC's framing: a flag, four bytes of length, the message; however messages are cut on the way.

use axum::body::Bytes;
use bytes::BytesMut;

/// Largest message that is read along.
pub(super) const MESSAGE_MAX: usize = 1 << 20;

/// Messages that pass and are read along.
#[derive(Default)]
pub(super) struct Frames {
    pub(super) pending: Vec<u8>,
    /// Bytes of a message that is too long to be read.
    skip: usize,
}

impl Frames {
    /// Whether some of a message has come, and not all of it.
    pub(super) fn is_within(&self) -> bool {
        self.skip > 0 || !self.pending.is_empty()
    }

    /// Gives each message that comes whole; `None` for a compressed one, and where one begins that is too long.
    pub(super) fn read(&mut self, data: &[u8], mut each: impl FnMut(Option<&[u8]>)) {
        let skipped = self.skip.min(data.len());
        self.skip -= skipped;
        self.pending.extend_from_slice(&data[skipped..]);
        let mut at = 0;
        while let Some((head, rest)) = self.pending[at..].split_first_chunk::<5>() {
            let [flag, length @ ..] = *head;
            let length = u32::from_be_bytes(length) as usize;
            if length > MESSAGE_MAX {
                each(None);
                self.skip = length.saturating_sub(rest.len());
                at = (at + 5 + length).min(self.pending.len());
                continue;
            }
            let Some(message) = rest.get(..length) else { break };
            each((flag == 0).then_some(message));
            at += 5 + length;
        }
        self.pending.drain(..at);
    }
}

/// Messages that are let go one by one.
#[derive(Default)]
pub(super) struct Held {
    bytes: BytesMut,
    /// Bytes still to come of a message that is too long to be held.
    passing: usize,
}

/// What comes next of what was held.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A whole message, with its head.
    Message(Bytes),
    /// A message begins that is too long to be held: all of it passes in pieces.
    Long,
    /// A piece of that.
    Piece(Bytes),
}

impl Held {
    pub(super) fn push(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
    }

    /// The next part; `None` until more has come.
    pub(super) fn next(&mut self) -> Option<Part> {
        if self.passing > 0 {
            let count = self.passing.min(self.bytes.len());
            self.passing -= count;
            return (count > 0).then(|| Part::Piece(self.bytes.split_to(count).freeze()));
        }
        let [_, length @ ..] = *self.bytes.first_chunk::<5>()?;
        let whole = 5 + u32::from_be_bytes(length) as usize;
        if whole > 5 + MESSAGE_MAX {
            self.passing = whole;
            return Some(Part::Long);
        }
        (self.bytes.len() >= whole).then(|| Part::Message(self.bytes.split_to(whole).freeze()))
    }

    /// What is left when no more comes.
    pub(super) fn rest(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }
}

/// The message in a frame, unless it is compressed.
pub(super) fn readable(framed: &[u8]) -> Option<&[u8]> {
    framed.split_first_chunk::<5>().filter(|(head, _)| head[0] == 0).map(|(_, message)| message)
}
