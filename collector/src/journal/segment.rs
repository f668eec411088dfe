//! A file of the journal: a header, then frames, appended only.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::frame::{self, Stored};

/// First bytes of every segment: what it is, and the version of its format.
pub(super) const MAGIC: [u8; 16] = *b"tokenwatt jrnl 1";

/// A segment and what it holds.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Number of its last frame; the one before its first if it has none.
    pub(super) last: u64,
    /// Sound bytes.
    pub(super) bytes: u64,
    /// When its newest body was received, microseconds since 1970-01-01 UTC.
    pub(super) newest_us: i64,
    /// When it was begun, by the clock of the bodies.
    pub(super) oldest_us: i64,
    /// Digest and time of each body.
    pub(super) digests: Vec<(u128, i64)>,
}

/// The name of the segment that begins with that frame.
pub(super) fn name(first: u64) -> String {
    format!("{first:020}.journal")
}

/// The first frame of a segment, by its name.
pub(super) fn first(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(".journal")?.parse().ok()
}

impl Segment {
    /// An empty segment that begins with frame `first`.
    pub(super) fn empty(path: PathBuf, first: u64, now_us: i64) -> Self {
        Self { path, last: first.saturating_sub(1), bytes: 0, newest_us: 0, oldest_us: now_us, digests: Vec::new() }
    }

    /// Reads a segment through, up to its end or its first torn frame.
    pub(super) fn scan(path: &Path, first: u64) -> io::Result<(Self, bool)> {
        let mut segment = Self::empty(path.to_owned(), first, i64::MAX);
        let mut reader = Reader::open(path)?;
        while let Some((number, stored)) = reader.next()? {
            segment.last = number;
            segment.note(&stored);
        }
        segment.bytes = reader.sound;
        let whole = reader.sound == reader.length;
        if segment.digests.is_empty() {
            segment.oldest_us = 0;
        }
        Ok((segment, whole))
    }

    /// Counts a body in.
    pub(super) fn note(&mut self, stored: &Stored) {
        self.newest_us = self.newest_us.max(stored.received_us);
        self.oldest_us = self.oldest_us.min(stored.received_us);
        self.digests.push((stored.digest, stored.received_us));
    }
}

/// Reads the frames of a segment one by one.
pub(super) struct Reader {
    file: BufReader<File>,
    /// Bytes up to the end of the last sound frame.
    pub(super) sound: u64,
    length: u64,
}

impl Reader {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut magic = [0; MAGIC.len()];
        let sound = match file.read_exact(&mut magic) {
            Ok(()) if magic == MAGIC => MAGIC.len() as u64,
            Ok(()) => return Err(io::Error::new(io::ErrorKind::InvalidData, "not a journal of this version")),
            // Torn before the header was written: there is nothing in it.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error),
        };
        Ok(Self { file, sound, length })
    }

    /// The next frame; `None` at the end and at the first torn frame.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, Stored)>> {
        let mut prefix = [0; 8];
        if self.sound == 0 || !filled(self.file.read_exact(&mut prefix))? {
            return Ok(None);
        }
        let Some((length, crc)) = frame::prefix(&prefix) else { return Ok(None) };
        if self.sound + 8 + length as u64 > self.length {
            return Ok(None);
        }
        let mut rest = vec![0; length];
        if !filled(self.file.read_exact(&mut rest))? {
            return Ok(None);
        }
        let Some(read) = frame::decode(rest, crc) else { return Ok(None) };
        self.sound += 8 + length as u64;
        Ok(Some(read))
    }
}

fn filled(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
