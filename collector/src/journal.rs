//! The journal: bodies on disk before they are acknowledged, until their rows are committed.
//!
//! ```text
//! append ─► write ─► fdatasync ─► ack          cut ◄─ rows committed
//! start:  lock ─► id ─► scan (a torn tail is cut) ─► replay
//! ```
//!
//! Invariants:
//! 1. Frames are numbered without gaps in the order of their acks.
//! 2. A failed append leaves no frame behind: the file is cut back to where it was.
//! 3. A segment is removed only when all its rows are committed; its digests stay until no retry can come.
//! 4. One process writes a journal: it holds the lock of the directory as long as it lives.

mod digests;
mod directory;
mod frame;
mod segment;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use service::error::{Error, Kind, Result};

pub use digests::{Digests, Known, REMEMBERED_US};
pub use frame::Stored;
pub use writer::{Append, run};

use segment::{MAGIC, Reader, Segment};

/// Bytes after which a new segment is begun.
const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Age after which a segment is closed, so that raw bodies go soon after their rows are committed; microseconds.
const SEGMENT_US: i64 = 30_000_000;

/// The journal of one collector.
pub struct Journal {
    directory: PathBuf,
    id: String,
    /// Segments with frames, oldest first; frames are appended to the last if `open` is set.
    segments: VecDeque<Segment>,
    open: Option<File>,
    next: u64,
    /// Digests of bodies whose segments are gone: newest body and file.
    faded: Vec<(i64, PathBuf)>,
    _lock: File,
}

/// A frame as it is read back.
pub type Frame = (u64, Stored);

impl Journal {
    /// Opens the journal in `directory`, making it if need be, and remembers in `digests` what it holds.
    ///
    /// # Errors
    /// `Conflict` if another process writes it, `Denied` without permission, `Corrupt` if a file is not of this version.
    pub fn open(directory: &Path, now_us: i64, digests: &Digests) -> Result<Self> {
        directory::make(directory)?;
        let lock = directory::lock(directory)?;
        let id = directory::id(directory)?;
        let listed = directory::list(directory)?;
        let mut journal = Self {
            directory: directory.to_owned(),
            id,
            segments: VecDeque::new(),
            open: None,
            next: 1,
            faded: Vec::new(),
            _lock: lock,
        };
        for path in listed.digests {
            let read = directory::read_digests(&path).map_err(|error| failed("read", &path, error))?;
            let newest = read.iter().map(|(_, received)| *received).max().unwrap_or_default();
            read.iter().for_each(|(digest, received)| digests.stored(*digest, *received));
            journal.faded.push((newest, path));
        }
        for (first, path) in listed.segments {
            journal.take_in(first, &path, digests)?;
        }
        journal.forget(now_us);
        Ok(journal)
    }

    fn take_in(&mut self, first: u64, path: &Path, digests: &Digests) -> Result<()> {
        let (segment, whole) = Segment::scan(path, first).map_err(|error| failed("read", path, error))?;
        if !whole {
            tracing::warn!(segment = %path.display(), kept = segment.bytes, "the torn tail of a journal segment was cut");
            let file = OpenOptions::new().write(true).open(path).map_err(|error| failed("open", path, error))?;
            file.set_len(segment.bytes).and_then(|()| file.sync_all()).map_err(|error| failed("cut", path, error))?;
        }
        self.next = self.next.max(segment.last + 1);
        segment.digests.iter().for_each(|(digest, received)| digests.stored(*digest, *received));
        if segment.digests.is_empty() {
            fs::remove_file(path).map_err(|error| failed("remove", path, error))?;
        } else {
            self.segments.push_back(segment);
        }
        Ok(())
    }

    /// Its id, made once.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Number of the last frame; 0 if there never was one.
    pub fn last(&self) -> u64 {
        self.next - 1
    }

    /// Numbers new frames after `number`: the tables know frames that the directory has forgotten.
    pub fn skip_to(&mut self, number: u64) {
        self.next = self.next.max(number + 1);
    }

    /// Appends bodies, makes them durable and returns the number of the first.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not take them; none of them is then in the journal.
    pub fn append(&mut self, bodies: &[Stored], now_us: i64) -> Result<u64> {
        let first = self.next;
        let mut bytes = Vec::with_capacity(bodies.iter().map(|stored| stored.body.len() + frame::HEADER).sum());
        for (number, stored) in (first..).zip(bodies) {
            frame::encode(number, stored, &mut bytes);
        }
        self.write(&bytes, now_us).map_err(|error| {
            Error::new(Kind::Unavailable { retry_after: RETRY_AFTER }, "write the journal")
                .with_hint("free space on the disk that holds the state directory")
                .with_source(error)
        })?;
        self.next += bodies.len() as u64;
        if let Some(segment) = self.segments.back_mut() {
            segment.last = self.next - 1;
            bodies.iter().for_each(|stored| segment.note(stored));
        }
        Ok(first)
    }

    fn write(&mut self, bytes: &[u8], now_us: i64) -> io::Result<()> {
        let full = |segment: &Segment| segment.bytes >= SEGMENT_BYTES || now_us - segment.oldest_us >= SEGMENT_US;
        if self.segments.back().is_none_or(full) {
            self.open = None;
        }
        let file = match &mut self.open {
            Some(file) => file,
            None => {
                let (segment, file) = self.begin(now_us)?;
                self.segments.push_back(segment);
                self.open.insert(file)
            }
        };
        let Some(segment) = self.segments.back_mut() else { return Err(io::ErrorKind::NotFound.into()) };
        let written = file.seek(SeekFrom::Start(segment.bytes)).and_then(|_| file.write_all(bytes));
        match written.and_then(|()| file.sync_data()) {
            Ok(()) => {
                segment.bytes += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                // After a failed sync the kernel may have dropped pages: this file is not appended to again.
                let cut = file.set_len(segment.bytes).and_then(|()| file.sync_all());
                self.open = None;
                if segment.digests.is_empty() {
                    let _ = fs::remove_file(&segment.path);
                    self.segments.pop_back();
                }
                if let Err(cut) = cut {
                    tracing::error!(error = %cut, "a journal segment could not be cut back after a failed write");
                }
                Err(error)
            }
        }
    }

    fn begin(&self, now_us: i64) -> io::Result<(Segment, File)> {
        let path = self.directory.join(segment::name(self.next));
        // A name that exists belongs to a begin that failed half way; it holds no frame.
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        file.write_all(&MAGIC)?;
        file.sync_all()?;
        directory::sync(&self.directory)?;
        let mut segment = Segment::empty(path, self.next, now_us);
        segment.bytes = MAGIC.len() as u64;
        Ok((segment, file))
    }

    /// Removes what is committed: segments whose frames are all at most `through`.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not obey; the next cut tries again.
    pub fn cut(&mut self, through: u64, now_us: i64) -> Result<()> {
        if self.segments.back().is_some_and(|last| last.last <= through && now_us - last.oldest_us >= SEGMENT_US) {
            self.open = None;
        }
        while let Some(segment) = self.segments.front() {
            let active = self.segments.len() == 1 && self.open.is_some();
            if segment.last > through || active {
                break;
            }
            if segment.newest_us > now_us - REMEMBERED_US {
                let path = segment.path.with_extension("digests");
                directory::write_digests(&self.directory, &path, &segment.digests)
                    .map_err(|error| failed("write", &path, error))?;
                self.faded.push((segment.newest_us, path));
            }
            fs::remove_file(&segment.path).map_err(|error| failed("remove", &segment.path, error))?;
            self.segments.pop_front();
        }
        self.forget(now_us);
        Ok(())
    }

    /// Removes digests that no retry can ask for any more.
    fn forget(&mut self, now_us: i64) {
        self.faded.retain(|(newest_us, path)| {
            let keep = *newest_us > now_us - REMEMBERED_US;
            if !keep {
                let _ = fs::remove_file(path);
            }
            keep
        });
    }

    /// Whether there are frames after `after`.
    pub fn holds(&self, after: u64) -> bool {
        self.segments.iter().any(|segment| segment.last > after)
    }

    /// The frames after `after` in order, read as they are asked for.
    pub fn frames(&self, after: u64) -> Frames {
        let segments = self.segments.iter().filter(|segment| segment.last > after);
        Frames { paths: segments.map(|segment| segment.path.clone()).collect(), reader: None, after }
    }
}

/// How long a sender is asked to wait when the disk does not take its body.
const RETRY_AFTER: std::time::Duration = std::time::Duration::from_secs(2);

/// Reads frames back, one at a time.
pub struct Frames {
    paths: VecDeque<PathBuf>,
    reader: Option<Reader>,
    after: u64,
}

impl Iterator for Frames {
    type Item = Result<Frame>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(reader) = &mut self.reader else {
                let path = self.paths.pop_front()?;
                match Reader::open(&path) {
                    Ok(reader) => self.reader = Some(reader),
                    Err(error) => return Some(Err(failed("open", &path, error))),
                }
                continue;
            };
            match reader.next() {
                Ok(Some((number, _))) if number <= self.after => {}
                Ok(Some(frame)) => return Some(Ok(frame)),
                Ok(None) => self.reader = None,
                Err(error) => return Some(Err(Error::unavailable("read the journal").with_source(error))),
            }
        }
    }
}

fn failed(action: &str, path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Kind::Denied,
        io::ErrorKind::InvalidData => Kind::Corrupt,
        _ => Kind::Unavailable { retry_after: RETRY_AFTER },
    };
    Error::new(kind, format!("{action} {}", path.display())).with_source(error)
}
