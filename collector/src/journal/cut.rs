//! What is committed goes: its digests are noted, then its file is removed without the journal.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use service::error::Result;

use super::digests::REMEMBERED;
use super::disk::SharedDisk;
use super::segment::Segment;
use super::{Journal, SEGMENT_AGE, directory, failed};

/// A segment that the journal let go of.
#[must_use = "its file stays"]
pub struct Gone {
    disk: SharedDisk,
    /// None if the file is kept.
    path: Option<PathBuf>,
    pub(super) bytes: u64,
}

impl Gone {
    /// Removes its file, which takes some time where the disk discards what was on it.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not obey; then it is for [`Journal::leave`].
    pub fn remove(&self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        match self.disk.remove(path) {
            // An earlier try was told of an error and removed it all the same.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|error| failed("remove", path, error)),
        }
    }
}

impl Journal {
    /// Lets go of what is committed: the oldest segment, if its frames are all at most `through`; its file is the caller's to
    /// remove. One at a time, and removed without the journal, since bodies that come in are not to wait for a disk that discards.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not obey; the next cut tries again.
    pub fn cut(&mut self, through: u64, now: Duration) -> Result<Option<Gone>> {
        self.forget_tries(through)?;
        let ripe = self.open.as_ref().is_some_and(|open| now.saturating_sub(open.since) >= SEGMENT_AGE);
        if (ripe || self.room.check().is_err()) && self.last() <= through {
            self.open = None;
        }
        let active = self.segments.len() == 1 && self.open.is_some();
        let mut gone = self.left.pop_front();
        if gone.is_none()
            && let Some(segment) = self.segments.front().filter(|segment| segment.last <= through && !active)
        {
            let bytes = segment.bytes;
            let path = self.fade(segment).map_err(|(action, path, error)| failed(action, &path, error))?;
            self.faded.push_back((now + REMEMBERED, segment.path.with_extension("digests")));
            self.segments.pop_front();
            gone = Some(Gone { disk: Arc::clone(&self.disk), path, bytes });
        }
        while let Some((_, path)) = self.faded.pop_front_if(|(until, _)| *until <= now) {
            let _ = self.disk.remove(&path);
        }
        self.room.used(self.bytes());
        Ok(gone)
    }

    /// Keeps in mind what could not be removed; the next cut begins with it.
    pub fn leave(&mut self, gone: Gone) {
        self.left.push_back(gone);
        self.room.used(self.bytes());
    }

    /// Notes a segment's digests, so that its file can go; that of a damaged one is kept under another name.
    fn fade(&self, segment: &Segment) -> Result<Option<PathBuf>, (&'static str, PathBuf, io::Error)> {
        let (disk, from) = (&*self.disk, &segment.path);
        let path = from.with_extension("digests");
        directory::write_digests(disk, &self.directory, &path, &segment.digests)
            .map_err(|error| ("write", path, error))?;
        if segment.damaged == 0 {
            return Ok(Some(from.clone()));
        }
        let kept = disk.rename(from, &from.with_extension("damaged"));
        kept.map(|()| None).map_err(|error| ("rename", from.clone(), error))
    }

    /// Begins anew under an id of its own, for a copy of another journal all of whose frames are committed.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not obey.
    pub fn renew(&mut self, now: Duration) -> Result<()> {
        self.open = None;
        while self.cut(self.last(), now)?.is_some() {}
        // The frames must be gone for good before they could be taken for frames of the new id, also those in files that the disk did
        // not give up before.
        for (_, path) in directory::list(&*self.disk, &self.directory)?.segments {
            self.disk.remove(&path).map_err(|error| failed("remove", &path, error))?;
        }
        self.disk.sync(&self.directory).map_err(|error| failed("sync", &self.directory, error))?;
        self.id = directory::renew_id(&*self.disk, &self.directory)?;
        self.copied = false;
        Ok(())
    }
}
