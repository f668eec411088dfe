//! What an encoded body may take: a few characters of JSON can become more bytes than they are.

/// Counts the bytes written, and asks for memory as they grow past what was taken beforehand.
pub(super) struct Meter<'r> {
    written: usize,
    paid: usize,
    limit: usize,
    room: &'r mut dyn FnMut(usize) -> bool,
    /// Why the encoding was given up, if not for the JSON itself.
    pub(super) over: Option<Over>,
}

/// What did not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The largest body allowed.
    Limit,
    /// The memory free right now.
    Room,
}

/// Bytes asked for in one go.
const STEP: usize = 64 * 1024;

impl<'r> Meter<'r> {
    /// Nothing written; memory for `paid` bytes is taken.
    pub(super) fn new(paid: usize, limit: usize, room: &'r mut dyn FnMut(usize) -> bool) -> Self {
        Self { written: 0, paid, limit, room, over: None }
    }

    /// What was written is thrown away.
    pub(super) fn again(&mut self) {
        self.written = 0;
    }

    /// Counts bytes that are about to be written.
    pub(super) fn count<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.written += bytes;
        if self.written <= self.paid {
            return Ok(());
        }
        if self.written > self.limit {
            self.over = Some(Over::Limit);
            return Err(E::custom("too large"));
        }
        let more = STEP.max(self.written - self.paid);
        if !(self.room)(more) {
            self.over = Some(Over::Room);
            return Err(E::custom("no room"));
        }
        self.paid += more;
        Ok(())
    }
}
