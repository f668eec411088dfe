//! A file of the journal: a header, then frames, appended only. A frame that is damaged does not hide those after it.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::disk::{Disk, DiskFile, PADDING_MAX};
use super::frame::{self, Stored};

/// First bytes of every segment: what it is, and the version of its format.
pub(super) const MAGIC: [u8; 16] = *b"tokenwatt jrnl 1";
/// Bytes read from disk at once.
const READ_BYTES: usize = 256 * 1024;
/// Bytes in which a frame is searched for at once.
const SEARCH_BYTES: usize = 1 << 20;
/// Numbers that damage may leave out: a segment holds fewer frames.
const GAP_MAX: u64 = 1 << 21;

/// A segment and what it holds.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Number of its first frame, if it has one.
    pub(super) first: u64,
    /// Number of its last frame; the one before its first if it has none.
    pub(super) last: u64,
    /// Sound bytes.
    pub(super) bytes: u64,
    /// Frames of it that cannot be read any more; the file is then kept for whoever can.
    pub(super) damaged: u64,
    /// Digest of each body.
    pub(super) digests: Vec<u128>,
}

/// The name of the segment that begins with that frame.
pub(super) fn name(first: u64) -> String {
    format!("{first:020}.journal")
}

/// The frame in the name of a segment, or of a frame set aside.
pub(super) fn number(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

impl Segment {
    /// An empty segment that begins with frame `first`.
    pub(super) fn empty(path: PathBuf, first: u64) -> Self {
        Self { path, first, last: first.saturating_sub(1), bytes: 0, damaged: 0, digests: Vec::new() }
    }

    /// Reads a segment through, up to its last sound frame or frame `until`, with which the next segment begins: what is there
    /// from then on was never acknowledged. Also says how large the file is.
    pub(super) fn scan(disk: &dyn Disk, path: &Path, first: u64, until: Option<u64>) -> io::Result<(Self, u64)> {
        let mut segment = Self::empty(path.to_owned(), first);
        let mut reader = Reader::open(disk, path, Place { at: 0, next: first }, None)?;
        segment.bytes = reader.place.at;
        while let Some((number, stored)) = reader.next()? {
            if until.is_some_and(|until| number >= until) {
                break;
            }
            segment.damaged += number - segment.last - 1;
            segment.last = number;
            segment.bytes = reader.place.at;
            segment.digests.push(stored.digest);
        }
        Ok((segment, reader.end))
    }

    /// Whether nothing but padding follows its sound bytes in a file of `size` bytes: see [`Disk::create_log`].
    pub(super) fn ends_in_padding(&self, disk: &dyn Disk, size: u64) -> io::Result<bool> {
        if size.saturating_sub(self.bytes) >= PADDING_MAX {
            return Ok(false);
        }
        let mut tail = Vec::new();
        Window { file: disk.open(&self.path)?, at: self.bytes, end: size }.read_to_end(&mut tail)?;
        Ok(tail.iter().all(|byte| *byte == 0))
    }
}

/// A place in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Bytes before it.
    pub(super) at: u64,
    /// Number of the frame that begins there.
    pub(super) next: u64,
}

/// Reads the frames of a segment one by one.
pub(super) struct Reader {
    file: BufReader<Window>,
    /// Where the next frame begins, after the last sound one.
    pub(super) place: Place,
    end: u64,
}

impl Reader {
    /// Reads from `place` on, up to byte `end` or the end of the file.
    pub(super) fn open(disk: &dyn Disk, path: &Path, mut place: Place, end: Option<u64>) -> io::Result<Self> {
        let file = disk.open(path)?;
        let size = file.size()?;
        let end = end.map_or(size, |end| end.min(size));
        let mut file = BufReader::with_capacity(READ_BYTES, Window { file, at: place.at, end });
        if place.at == 0 {
            let mut magic = [0; MAGIC.len()];
            if filled(file.read_exact(&mut magic))? {
                place.at = MAGIC.len() as u64;
            }
            let mut reader = Self { file, place, end };
            // Damage does not make it another version's file: that one's frames would not be sound. One that was torn before its
            // header was written begins with zeros, and so may one whose header alone was lost.
            if place.at > 0 && magic != MAGIC {
                if magic != [0; MAGIC.len()] && reader.sound()?.is_none() {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "not a journal of this version"));
                }
                reader.go_to(place);
            }
            return Ok(reader);
        }
        Ok(Self { file, place, end })
    }

    /// The next sound frame; `None` if there is none. Numbers that it leaves out are of damaged frames.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, Stored)>> {
        if let Some(found) = self.sound()? {
            return Ok(Some(found));
        }
        match self.search()? {
            Some(place) => {
                self.go_to(place);
                self.sound()
            }
            None => Ok(None),
        }
    }

    fn go_to(&mut self, place: Place) {
        self.place = place;
        self.file.consume(self.file.buffer().len());
        self.file.get_mut().at = place.at;
    }

    /// The sound frame that follows where the damaged one says that it ends: if its length is whole, what a sender put into its body
    /// is not looked at.
    fn beyond(&mut self, damaged: Place) -> io::Result<Option<Place>> {
        let mut prefix = [0; frame::PREFIX];
        self.go_to(damaged);
        if !filled(self.file.read_exact(&mut prefix))? {
            return Ok(None);
        }
        let Some((length, _)) = frame::prefix(&prefix) else { return Ok(None) };
        let after = Place { at: damaged.at + (frame::PREFIX + length) as u64, next: damaged.next + 1 };
        if after.at >= self.end {
            return Ok(None);
        }
        self.go_to(after);
        let found = self.sound()?.map(|_| after);
        self.place = damaged;
        Ok(found)
    }

    /// Looks for a sound frame of a later number beyond a damaged one: where it should end, else byte by byte.
    fn search(&mut self) -> io::Result<Option<Place>> {
        let damaged = self.place;
        if damaged.at == 0 {
            return Ok(None);
        }
        if let Some(place) = self.beyond(damaged)? {
            return Ok(Some(place));
        }
        let mut chunk = vec![0; SEARCH_BYTES + frame::HEADER];
        let mut at = damaged.at;
        while at < self.end {
            let count = self.read_at(at, &mut chunk)?;
            let headers = chunk.get(..count).unwrap_or_default().windows(frame::HEADER).take(SEARCH_BYTES);
            for (start, header) in (at..).zip(headers) {
                let Some(next) = self.plausible(start, header) else { continue };
                self.go_to(Place { at: start, next });
                if self.sound()?.is_some() {
                    return Ok(Some(Place { at: start, next }));
                }
                self.place = damaged;
            }
            at += SEARCH_BYTES as u64;
        }
        self.place = damaged;
        Ok(None)
    }

    /// The number in what may be the header of a frame after the last sound one.
    fn plausible(&self, at: u64, header: &[u8]) -> Option<u64> {
        let (length, _) = frame::prefix(header.first_chunk()?)?;
        let number = u64::from_le_bytes(*header.get(frame::PREFIX..)?.first_chunk()?);
        let fits = at + (frame::PREFIX + length) as u64 <= self.end;
        let follows = (1..=GAP_MAX).contains(&number.checked_sub(self.place.next)?);
        (fits && follows).then_some(number)
    }

    /// Fills `into` as far as there are bytes.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let window = self.file.get_mut();
        let most = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX).min(into.len());
        let mut count = 0;
        while let Some(rest) = into.get_mut(count..most).filter(|rest| !rest.is_empty()) {
            match window.file.read(at + count as u64, rest)? {
                0 => break,
                read => count += read,
            }
        }
        Ok(count)
    }

    /// The frame that begins here, if it is sound.
    fn sound(&mut self) -> io::Result<Option<(u64, Stored)>> {
        let mut prefix = [0; frame::PREFIX];
        if self.place.at == 0 || !filled(self.file.read_exact(&mut prefix))? {
            return Ok(None);
        }
        let Some((length, crc)) = frame::prefix(&prefix) else { return Ok(None) };
        let after = self.place.at + (frame::PREFIX + length) as u64;
        if after > self.end {
            return Ok(None);
        }
        let mut rest = vec![0; length];
        if !filled(self.file.read_exact(&mut rest))? {
            return Ok(None);
        }
        let Some((number, stored)) = frame::decode(rest, crc) else { return Ok(None) };
        // Frames are numbered without gaps: another number is damage, or was written by somebody else.
        if number != self.place.next {
            return Ok(None);
        }
        self.place = Place { at: after, next: number + 1 };
        Ok(Some((number, stored)))
    }
}

fn filled(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The bytes of a file from one place to another.
struct Window {
    file: Box<dyn DiskFile>,
    at: u64,
    end: u64,
}

impl Read for Window {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let length = into.len().min(left);
        let Some(into) = into.get_mut(..length) else { return Ok(0) };
        let count = self.file.read(self.at, into)?;
        self.at += count as u64;
        Ok(count)
    }
}
