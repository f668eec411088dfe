//! One followed file: who it is, how far it was read, and what is new in it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// Device and inode: what a file is as long as it exists.
pub(super) type Identity = (u64, u64);

/// Where a file stands, as the state keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Standing {
    /// Where it was found.
    pub(super) path: PathBuf,
    pub(super) device: u64,
    pub(super) inode: u64,
    /// Bytes whose lines are in the journal.
    pub(super) offset: u64,
    /// Digest of the first `head_length` bytes, which tells a file from one that later gets its inode.
    pub(super) head: u64,
    pub(super) head_length: u64,
}

/// Bytes that tell one file from another.
const HEAD_LENGTH: u64 = 256;

impl Standing {
    pub(super) fn identity(&self) -> Identity {
        (self.device, self.inode)
    }
}

/// A file that is open.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) standing: Standing,
    /// Index of its settings.
    pub(super) group: usize,
    /// Its name leads to another file, or nowhere, by now: it is read to its end and then let go.
    pub(super) gone: bool,
    file: File,
    /// Its size when it was looked at last, and since when it has not grown.
    size: u64,
    still_since: Duration,
}

/// What was read of a file.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    /// No more is to be waited for: what has no end of line yet is a line.
    pub(super) last: bool,
    /// The file did not hold what it held before, and is read from its start.
    pub(super) restarted: bool,
}

/// A line without an end is taken as one after this time.
const STILL_AFTER: Duration = Duration::from_secs(5);
/// A file without a name is let go after this time: its writer may not have noticed yet that it was renamed.
const FINISHED_AFTER: Duration = Duration::from_secs(10);
const _: () = assert!(FINISHED_AFTER.as_secs() > STILL_AFTER.as_secs());

/// The identity of the file that a path leads to.
pub(super) fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Looks for a file that was renamed, in the folder of its name and in that of what its name leads to.
pub(super) fn renamed(path: &Path, wanted: Identity) -> Option<PathBuf> {
    let target = fs::canonicalize(path).ok();
    let folders = [path.parent(), target.as_deref().and_then(Path::parent)];
    folders.into_iter().flatten().find_map(|folder| {
        let entries = fs::read_dir(folder).ok()?;
        entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| identity(path).is_ok_and(|it| it == wanted))
    })
}

impl Followed {
    /// Opens a file at a path; what is known of it holds if it is the same file.
    pub(super) fn open(path: &Path, known: Option<Standing>, group: usize) -> io::Result<Self> {
        let file = File::open(path)?;
        let found = file.metadata()?;
        let (device, inode) = (found.dev(), found.ino());
        let new = Standing { path: path.to_owned(), device, inode, offset: 0, head: 0, head_length: 0 };
        let standing = known.filter(|known| known.identity() == (device, inode)).unwrap_or(new);
        Ok(Self { standing, group, gone: false, file, size: 0, still_since: Duration::ZERO })
    }

    /// Begins with what is written from now on.
    pub(super) fn skip(&mut self) -> io::Result<()> {
        self.standing.offset = self.file.metadata()?.len();
        Ok(())
    }

    /// Reads at most `limit` new bytes; nothing if there are none.
    pub(super) fn read(&mut self, limit: usize, now: Duration) -> io::Result<Chunk> {
        let mut chunk = Chunk::default();
        let size = self.file.metadata()?.len();
        if size != self.size || size < self.standing.offset {
            (self.size, self.still_since) = (size, now);
            if size < self.standing.offset || !self.same_head()? {
                chunk.restarted = self.standing.offset > 0;
                (self.standing.offset, self.standing.head, self.standing.head_length) = (0, 0, 0);
            }
            self.learn_head(size)?;
        }
        let wanted = usize::try_from(size - self.standing.offset).unwrap_or(usize::MAX).min(limit);
        chunk.bytes.resize(wanted, 0);
        let mut filled = 0;
        while let Some(free) = chunk.bytes.get_mut(filled..).filter(|free| !free.is_empty()) {
            match self.file.read_at(free, self.standing.offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        chunk.bytes.truncate(filled);
        let at_end = self.standing.offset + filled as u64 == size;
        chunk.last = at_end && now.saturating_sub(self.still_since) >= STILL_AFTER;
        Ok(chunk)
    }

    /// Whether it was read to its end, has no name any more, and nobody has written to it for a while.
    pub(super) fn finished(&self, now: Duration) -> bool {
        let still = now.saturating_sub(self.still_since) >= FINISHED_AFTER;
        self.gone && self.standing.offset >= self.size && still
    }

    fn same_head(&self) -> io::Result<bool> {
        let length = self.standing.head_length;
        Ok(length == 0 || self.head(length)? == Some(self.standing.head))
    }

    fn learn_head(&mut self, size: u64) -> io::Result<()> {
        let length = size.min(HEAD_LENGTH);
        if length > self.standing.head_length
            && let Some(head) = self.head(length)?
        {
            (self.standing.head, self.standing.head_length) = (head, length);
        }
        Ok(())
    }

    fn head(&self, length: u64) -> io::Result<Option<u64>> {
        let mut bytes = vec![0; usize::try_from(length.min(HEAD_LENGTH)).unwrap_or_default()];
        match self.file.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(Some(xxh3_64(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}
