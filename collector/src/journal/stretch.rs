//! Reading frames back from disk a piece at a time, without holding the journal meanwhile.

use std::path::PathBuf;

use service::error::Result;

use super::disk::SharedDisk;
use super::failed;
use super::frame::Stored;
use super::segment::{Place, Reader, Segment};

/// The sound bytes of a segment, as they were when it was asked for.
pub struct Stretch {
    disk: SharedDisk,
    path: PathBuf,
    first: u64,
    end: u64,
}

/// How far a segment has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    path: PathBuf,
    place: Place,
}

#[cfg(test)]
impl Cursor {
    /// The frame after those that were read.
    pub(super) fn place_next(&self) -> u64 {
        self.place.next
    }
}

impl Stretch {
    pub(super) fn new(disk: SharedDisk, segment: &Segment) -> Self {
        Self { disk, path: segment.path.clone(), first: segment.first, end: segment.bytes }
    }

    /// Shows frames from `number` on to `visit` while it says so; `cursor` is where the last call ended.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not give them.
    pub fn read(
        &self,
        number: u64,
        cursor: Option<Cursor>,
        mut visit: impl FnMut(u64, Stored) -> bool,
    ) -> Result<Cursor> {
        let known = cursor.filter(|cursor| cursor.path == self.path && cursor.place.next <= number);
        let place = known.map_or(Place { at: 0, next: self.first }, |cursor| cursor.place);
        let unreadable = |error| failed("read", &self.path, error);
        let mut reader = Reader::open(&*self.disk, &self.path, place, Some(self.end)).map_err(unreadable)?;
        while let Some((found, stored)) = reader.next().map_err(unreadable)? {
            if found >= number && !visit(found, stored) {
                break;
            }
        }
        Ok(Cursor { path: self.path.clone(), place: reader.place })
    }
}
