//! Reading frames back from disk a piece at a time, without holding the journal meanwhile.

use std::ops::RangeInclusive;
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
    last: u64,
    end: u64,
}

/// How far a segment has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    path: PathBuf,
    place: Place,
}

impl Cursor {
    /// The frame after those that were read.
    pub fn next(&self) -> u64 {
        self.place.next
    }
}

/// What came of reading.
pub struct Read {
    /// Where to go on.
    pub cursor: Cursor,
    /// Frames that cannot be read any more.
    pub damaged: Vec<RangeInclusive<u64>>,
}

impl Stretch {
    pub(super) fn new(disk: SharedDisk, segment: &Segment) -> Self {
        Self { disk, path: segment.path.clone(), first: segment.first, last: segment.last, end: segment.bytes }
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
    ) -> Result<Read> {
        let known = cursor.filter(|cursor| cursor.path == self.path && cursor.place.next <= number);
        let place = known.map_or(Place { at: 0, next: self.first }, |cursor| cursor.place);
        let unreadable = |error| failed("read", &self.path, error);
        let mut reader = Reader::open(&*self.disk, &self.path, place, Some(self.end)).map_err(unreadable)?;
        let mut damaged = Vec::new();
        loop {
            let expected = reader.place.next;
            let found = reader.next().map_err(unreadable)?;
            let until = found.as_ref().map_or(self.last + 1, |(found, _)| *found);
            if expected.max(number) < until {
                damaged.push(expected.max(number)..=until - 1);
            }
            match found {
                Some((found, stored)) => {
                    if found >= number && !visit(found, stored) {
                        break;
                    }
                }
                None => {
                    reader.place = Place { at: self.end, next: reader.place.next.max(self.last + 1) };
                    break;
                }
            }
        }
        Ok(Read { cursor: Cursor { path: self.path.clone(), place: reader.place }, damaged })
    }
}
