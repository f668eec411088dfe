//! The journal: bodies on disk before they are acknowledged, until their rows are committed.
//!
//! ```text
//! append ─► write ─► fdatasync ─► ack          cut ◄─ rows committed
//! start:  lock ─► id ─► scan (a torn tail is cut) ─► read what is not committed
//! ```
//!
//! Invariants:
//! 1. Frames are numbered without gaps in the order of their acks.
//! 2. A segment ends where the next one begins: what a failed append left behind is not read, even if it could not be cut.
//! 3. A segment is removed only when all its rows are committed; its digests stay until no retry can come. One with frames that
//!    cannot be read any more stays under another name, and says so.
//! 4. One process writes a journal: it holds the lock of the directory as long as it lives. A copy of the directory is known
//!    for one, and gets an id of its own once what it was copied with is committed.

pub mod disk;

mod cut;
mod digests;
mod directory;
mod frame;
mod home;
mod room;
mod segment;
mod stretch;
mod tries;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use service::error::{Error, Kind, Result};

pub use cut::Gone;
pub use digests::{Digests, Known, REMEMBERED};
pub use disk::{SharedDisk, SystemDisk};
pub use frame::Stored;
pub use room::Room;
pub use stretch::{Cursor, Read, Stretch};
pub use writer::{Append, run};

use disk::DiskFile;
use segment::{MAGIC, Segment};

/// Bytes after which a new segment is begun.
const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Segments among which the journal's room is divided at least, so that it is given back in pieces.
const SEGMENTS_MIN: u64 = 8;
/// Age after which a segment is closed, so that raw bodies go soon after their rows are committed.
const SEGMENT_AGE: Duration = Duration::from_secs(30);
/// Bytes of a segment rewritten at once.
const REWRITE_BYTES: usize = 1 << 20;
/// How long a sender is asked to wait when the disk does not take its body.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The journal of one collector.
pub struct Journal {
    disk: SharedDisk,
    directory: PathBuf,
    id: String,
    /// What this directory has and one that takes its place has not.
    identity: String,
    copied: bool,
    /// Segments with frames, oldest first; frames are appended to the last if `open` is set.
    segments: VecDeque<Segment>,
    open: Option<Open>,
    next: u64,
    /// Whether a frame was appended since it was opened.
    running: bool,
    /// Files of committed segments that the disk did not give up yet.
    left: VecDeque<Gone>,
    /// Digests of bodies whose segments are gone, and when they may go too.
    faded: VecDeque<(Duration, PathBuf)>,
    aside: BTreeSet<u64>,
    tries: tries::Tries,
    /// Frames that cannot be read any more and were behind the last sound one of their segment when it was opened.
    lost: u64,
    room: Arc<Room>,
    _lock: disk::Lock,
}

/// The segment that is appended to.
struct Open {
    file: Box<dyn DiskFile>,
    since: Duration,
}

impl Journal {
    /// Opens the journal in `directory`, making it if need be, and remembers in `digests` what it holds. `now` is monotonic.
    ///
    /// # Errors
    /// `Conflict` if another process writes it, `Denied` without permission, `Corrupt` if a file is not of this version.
    pub fn open(disk: SharedDisk, directory: &Path, now: Duration, room: Arc<Room>, digests: &Digests) -> Result<Self> {
        directory::make(&*disk, directory)?;
        let lock = directory::lock(&*disk, directory)?;
        let directory::Id { id, copied } = directory::id(&*disk, directory)?;
        let identity = directory::identity(&*disk, directory)?;
        let listed = directory::list(&*disk, directory)?;
        let tries =
            tries::Tries::read(&*disk, directory).map_err(|error| failed("read the tries in", directory, error))?;
        // A body that was set aside is known by its number, so no other gets it.
        let used = listed.aside.last().copied().unwrap_or_default();
        let mut journal = Self {
            disk,
            directory: directory.to_owned(),
            id,
            identity,
            copied,
            segments: VecDeque::new(),
            open: None,
            next: used + 1,
            running: false,
            left: VecDeque::new(),
            faded: VecDeque::new(),
            aside: listed.aside,
            tries,
            lost: 0,
            room,
            _lock: lock,
        };
        journal.remember(listed.digests, now, digests)?;
        let firsts: Vec<u64> = listed.segments.iter().map(|(first, _)| *first).collect();
        for (place, (first, path)) in listed.segments.into_iter().enumerate() {
            journal.take_in(first, &path, firsts.get(place + 1).copied(), digests)?;
        }
        journal.room.used(journal.bytes());
        journal.look();
        Ok(journal)
    }

    /// Reads the digests of bodies whose segments are gone, the newest as far as they fit.
    fn remember(&mut self, paths: Vec<PathBuf>, now: Duration, digests: &Digests) -> Result<()> {
        let mut read = Vec::new();
        let mut count = 0;
        for path in paths.into_iter().rev() {
            if count >= digests::BODIES_MAX {
                let _ = self.disk.remove(&path);
                continue;
            }
            let known = directory::read_digests(&*self.disk, &path).map_err(|error| failed("read", &path, error))?;
            count += known.len();
            read.push((known, path));
        }
        for (known, path) in read.into_iter().rev() {
            known.into_iter().for_each(|digest| digests.stored(digest));
            self.faded.push_back((now + REMEMBERED, path));
        }
        Ok(())
    }

    fn take_in(&mut self, first: u64, path: &Path, until: Option<u64>, digests: &Digests) -> Result<()> {
        let scanned = Segment::scan(&*self.disk, path, first, until);
        let (mut segment, size) = scanned.map_err(|error| failed("read", path, error))?;
        if size > segment.bytes {
            // A later segment was begun after frames that are missing here, and they had been acknowledged.
            let lost = until.map_or(0, |until| (until - 1).saturating_sub(segment.last));
            (segment.damaged, self.lost) = (segment.damaged + lost, self.lost + lost);
        }
        if segment.damaged > 0 {
            tracing::error!(
                segment = %path.display(), frames = segment.damaged,
                "a journal segment is damaged: frames in it cannot be read; the file is kept"
            );
        } else if size > segment.bytes {
            if !segment.ends_in_padding(&*self.disk, size).map_err(|error| failed("read", path, error))? {
                tracing::warn!(segment = %path.display(), kept = segment.bytes, "the torn tail of a journal segment was cut");
            }
            self.cut_tail(&segment).map_err(|error| failed("cut", path, error))?;
        }
        if until.is_none() && !segment.digests.is_empty() {
            self.rewrite(&segment).map_err(|error| failed("sync", path, error))?;
        }
        self.next = self.next.max(segment.last + 1);
        segment.digests.iter().for_each(|digest| digests.stored(*digest));
        if segment.digests.is_empty() && segment.damaged == 0 {
            self.disk.remove(path).map_err(|error| failed("remove", path, error))?;
        } else {
            self.segments.push_back(segment);
        }
        Ok(())
    }

    /// Makes the last segment durable. Its end may have been written and not synced when the process died, and after a failed
    /// sync the kernel takes lost pages for written ones; a retry must not be told that such a body is safe.
    fn rewrite(&self, segment: &Segment) -> io::Result<()> {
        let mut file = self.disk.open(&segment.path)?;
        let mut chunk = vec![0; REWRITE_BYTES];
        let mut at = 0;
        while at < segment.bytes {
            let count = file.read(at, &mut chunk)?;
            let Some(read) = chunk.get(..count).filter(|read| !read.is_empty()) else { break };
            file.write(at, &mut [IoSlice::new(read)])?;
            at += count as u64;
        }
        file.sync()
    }

    fn cut_tail(&self, segment: &Segment) -> io::Result<()> {
        let mut file = self.disk.open(&segment.path)?;
        file.cut(segment.bytes)?;
        file.sync()
    }

    /// Its id, made once.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether its directory is a copy of another: the original may commit the same frames, and others under their numbers.
    pub fn copied(&self) -> bool {
        self.copied
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        let left: u64 = self.left.iter().map(|gone| gone.bytes).sum();
        left + self.segments.iter().map(|segment| segment.bytes).sum::<u64>()
    }

    /// Number of the last frame; 0 if there never was one.
    pub fn last(&self) -> u64 {
        self.next - 1
    }

    /// Frames that were set aside because they could not be turned into rows.
    pub fn aside(&self) -> &BTreeSet<u64> {
        &self.aside
    }

    /// Frames that were found to be missing when it was opened. Others are met when they are read.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Notes that frame `number` cannot be read, so that its file is kept.
    pub fn damaged(&mut self, number: u64) {
        let segment = self.segments.iter_mut().find(|segment| segment.last >= number && segment.first <= number);
        if let Some(segment) = segment {
            segment.damaged = segment.damaged.max(1);
        }
    }

    /// Whether this process has numbered frames.
    pub fn running(&self) -> bool {
        self.running
    }

    /// Numbers new frames after `number`: the tables know frames that the directory has forgotten.
    pub fn skip_to(&mut self, number: u64) {
        self.next = self.next.max(number + 1);
    }

    /// Looks how much the disk still takes, and whether the directory is still there.
    pub fn look(&self) {
        self.room.set_gone(self.is_gone());
        // A disk that does not tell is not taken for a full one.
        self.room.free(self.disk.free(&self.directory).unwrap_or(u64::MAX));
    }

    /// Whether what is written would be lost with the process, since its files are no longer where the next one looks for them.
    fn is_gone(&self) -> bool {
        let there = match directory::identity_of(&*self.disk, &self.directory) {
            Ok(found) => found == self.identity,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        !there || self.open.as_ref().is_some_and(|open| !open.file.is_named())
    }

    /// Appends bodies, makes them durable and returns the number of the first.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not take them; none of them is then in the journal.
    pub fn append(&mut self, bodies: &[Stored], now: Duration) -> Result<u64> {
        if self.is_gone() {
            return Err(room::gone());
        }
        let first = self.next;
        let headers: Vec<_> = (first..).zip(bodies).map(|(number, stored)| frame::header(number, stored)).collect();
        let parts = headers.iter().zip(bodies).flat_map(|(header, stored)| [&header[..], &stored.body[..]]);
        let mut parts: Vec<IoSlice<'_>> = parts.map(IoSlice::new).collect();
        self.write(&mut parts, now).map_err(|error| {
            Error::new(Kind::Unavailable { retry_after: RETRY_AFTER }, "write the journal")
                .with_hint("free space on the disk that holds the state directory")
                .with_source(error)
        })?;
        self.next += bodies.len() as u64;
        self.running = true;
        if let Some(segment) = self.segments.back_mut() {
            segment.last = self.next - 1;
            segment.digests.extend(bodies.iter().map(|stored| stored.digest));
        }
        self.room.used(self.bytes());
        Ok(first)
    }

    fn write(&mut self, parts: &mut [IoSlice<'_>], now: Duration) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let most = SEGMENT_BYTES.min(self.room.bytes_max() / SEGMENTS_MIN);
        let full = self.segments.back().is_none_or(|segment| segment.bytes >= most);
        let open = match self.open.take().filter(|open| !full && now.saturating_sub(open.since) < SEGMENT_AGE) {
            Some(open) => open,
            None => self.begin(now)?,
        };
        let open = self.open.insert(open);
        let Some(segment) = self.segments.back_mut() else { return Err(io::ErrorKind::NotFound.into()) };
        match open.file.write(segment.bytes, parts).and_then(|()| open.file.sync()) {
            Ok(()) => {
                segment.bytes += length as u64;
                Ok(())
            }
            Err(error) => {
                self.give_up();
                Err(error)
            }
        }
    }

    /// Ends the open segment after a failed write: the kernel may have dropped pages, so it is not appended to again.
    fn give_up(&mut self) {
        let (Some(mut open), Some(segment)) = (self.open.take(), self.segments.back()) else { return };
        let cut = open.file.cut(segment.bytes).and_then(|()| open.file.sync());
        if let Err(error) = cut {
            // Nothing is read beyond the sound bytes, and after a restart the next segment says where this one ends.
            tracing::error!(%error, "a journal segment could not be cut back after a failed write");
        }
        if segment.digests.is_empty() {
            // Frames will be written under the same name, into an emptied file.
            let _ = self.disk.remove(&segment.path);
            self.segments.pop_back();
        }
    }

    fn begin(&mut self, now: Duration) -> io::Result<Open> {
        let path = self.directory.join(segment::name(self.next));
        // A name that exists belongs to a begin that failed half way; it holds no frame that was acknowledged.
        let mut file = self.disk.create_log(&path)?;
        file.write(0, &mut [IoSlice::new(&MAGIC)])?;
        file.sync()?;
        self.disk.sync(&self.directory)?;
        let mut segment = Segment::empty(path, self.next);
        segment.bytes = MAGIC.len() as u64;
        self.segments.push_back(segment);
        Ok(Open { file, since: now })
    }

    /// Keeps a body that cannot be turned into rows in a file of its own; from here on it is passed over.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not take it.
    pub fn set_aside(&mut self, number: u64, stored: &Stored) -> Result<PathBuf> {
        let path = self.directory.join(segment::name(number)).with_extension("aside");
        let parts: [&[u8]; 3] = [&MAGIC, &frame::header(number, stored), &stored.body];
        directory::replace(&*self.disk, &self.directory, &path, &parts)
            .map_err(|error| failed("write", &path, error))?;
        self.aside.insert(number);
        Ok(path)
    }

    /// Where frame `number`, or the first one after it, lies.
    pub fn stretch(&self, number: u64) -> Option<Stretch> {
        let segment = self.segments.iter().find(|segment| segment.last >= number)?;
        Some(Stretch::new(Arc::clone(&self.disk), segment))
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
