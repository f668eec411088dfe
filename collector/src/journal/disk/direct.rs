//! A file that is written past the kernel's cache. A body in the journal is nearly always removed before anybody reads it: to
//! give it pages of the cache costs more than all else that is done to it on its way to the disk.
//!
//! Such writes begin and end at blocks. So the last block is kept, and written again with what is appended to it: the bytes it
//! had stay the same, and a power cut in the middle leaves them as they were.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_setfl};

use super::DiskFile;

/// What writes begin and end at: no block of a disk is larger.
pub(super) const BLOCK: usize = 4_096;
/// Bytes written at once; a usual group of bodies fits.
const BUFFER: usize = 4 << 20;

/// A file written from front to back.
pub(super) struct DirectFile {
    file: File,
    buffer: Buffer,
    /// Bytes written so far; those of a block that is not full lie in the buffer.
    end: u64,
}

impl DirectFile {
    /// Makes an empty file, whatever was there before. On a file system that only writes through the cache, so does it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = match options.custom_flags(DIRECT).open(path) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => options.custom_flags(0).open(path)?,
            file => file?,
        };
        Ok(Self { file, buffer: Buffer::new(), end: 0 })
    }

    /// From here on it is written through the cache.
    fn indirect(&self) -> io::Result<()> {
        Ok(fcntl_setfl(&self.file, OFlags::empty())?)
    }

    /// Writes whole blocks.
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        match self.file.write_all_at(bytes, at) {
            // The file system wants more of an address or a length than that it is a multiple of a block.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                self.indirect()?;
                self.file.write_all_at(bytes, at)
            }
            written => written,
        }
    }
}

#[cfg(target_os = "linux")]
const DIRECT: i32 = OFlags::DIRECT.bits().cast_signed();
#[cfg(not(target_os = "linux"))]
const DIRECT: i32 = 0;

impl DiskFile for DirectFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn is_named(&self) -> bool {
        self.file.is_named()
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.indirect()?;
        self.file.read_at(into, at)
    }

    fn write(&mut self, at: u64, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        if at != self.end {
            return Err(io::Error::new(ErrorKind::InvalidInput, "a log is written from front to back"));
        }
        let mut filled = (at % BLOCK as u64) as usize;
        let mut from = at - filled as u64;
        // After a failure the buffer is not what the file has.
        self.end = u64::MAX;
        for part in parts {
            let mut rest = &part[..];
            while !rest.is_empty() {
                rest = self.buffer.fill(&mut filled, rest);
                if filled == BUFFER {
                    self.put(from, self.buffer.get(BUFFER))?;
                    (from, filled) = (from + BUFFER as u64, 0);
                }
            }
        }
        let padded = self.buffer.pad(filled);
        self.put(from, self.buffer.get(padded))?;
        self.buffer.keep_last(filled);
        self.end = from + filled as u64;
        Ok(())
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Memory that begins at a block.
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    fn new() -> Self {
        let bytes = vec![0; BUFFER + BLOCK];
        let start = bytes.as_ptr().align_offset(BLOCK);
        Self { bytes, start }
    }

    fn get(&self, length: usize) -> &[u8] {
        self.bytes.get(self.start..self.start + length).unwrap_or_default()
    }

    fn get_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.start + BUFFER).unwrap_or_default()
    }

    /// Takes as much as there is room for, and gives back the rest.
    fn fill<'a>(&mut self, filled: &mut usize, bytes: &'a [u8]) -> &'a [u8] {
        let (fits, rest) = bytes.split_at(bytes.len().min(BUFFER - *filled));
        let end = *filled + fits.len();
        if let Some(place) = self.get_mut().get_mut(*filled..end) {
            place.copy_from_slice(fits);
        }
        *filled = end;
        rest
    }

    /// Fills the last block with zeros; how many bytes there are then.
    fn pad(&mut self, filled: usize) -> usize {
        let padded = filled.next_multiple_of(BLOCK);
        if let Some(padding) = self.get_mut().get_mut(filled..padded) {
            padding.fill(0);
        }
        padded
    }

    /// Moves the block that is not full to where the next write begins.
    fn keep_last(&mut self, filled: usize) {
        let last = filled - filled % BLOCK;
        self.get_mut().copy_within(last..filled, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is appended stands in the file, at every size around those of blocks and of the buffer.
    #[test]
    fn what_is_appended_stands_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut file = DirectFile::create(&path).unwrap();
        let sizes = [16, 1, BLOCK - 17, BLOCK, 3, 2 * BLOCK - 3, BUFFER, 7, BUFFER - 7, BUFFER - 1, 5, 2 * BUFFER + 5];
        let mut written = Vec::new();
        for (number, size) in (1_u8..).zip(sizes) {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8 ^ number).collect();
            let (head, tail) = bytes.split_at(size / 3);
            file.write(written.len() as u64, &mut [IoSlice::new(head), IoSlice::new(&[]), IoSlice::new(tail)]).unwrap();
            file.sync().unwrap();
            written.extend_from_slice(&bytes);
            let (read, padding) = (std::fs::read(&path).unwrap(), written.len().next_multiple_of(BLOCK));
            assert_eq!(read.len(), padding, "after {size}");
            assert!(read.starts_with(&written) && read[written.len()..].iter().all(|byte| *byte == 0), "after {size}");
        }
        let mut some = [0; 100];
        assert_eq!(file.read(BLOCK as u64 - 50, &mut some).unwrap(), 100);
        assert_eq!(some, written[BLOCK - 50..][..100]);
        file.cut(written.len() as u64).unwrap();
        assert_eq!(file.size().unwrap(), written.len() as u64);
    }

    /// Only its end is written: another place would need what is there.
    #[test]
    fn another_place_than_the_end_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = DirectFile::create(&directory.path().join("log")).unwrap();
        file.write(0, &mut [IoSlice::new(b"abc")]).unwrap();
        assert_eq!(file.write(2, &mut [IoSlice::new(b"x")]).unwrap_err().kind(), ErrorKind::InvalidInput);
        file.write(3, &mut [IoSlice::new(b"d")]).unwrap();
    }
}
