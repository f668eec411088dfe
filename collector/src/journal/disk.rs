//! The disk under a journal: a trait, so that a simulation can lose power at any write.

mod direct;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock, statvfs};

/// What a journal asks of a disk. Nothing of it is called per body, only per group of them.
pub trait Disk: Send + Sync + 'static {
    /// Makes a directory and those above it, durably.
    ///
    /// # Errors
    /// What the disk says.
    fn make(&self, directory: &Path) -> io::Result<()>;

    /// Locks a file, made if need be, until what is returned is dropped; `None` if another process holds the lock.
    ///
    /// # Errors
    /// What the disk says.
    fn lock(&self, path: &Path) -> io::Result<Option<Lock>>;

    /// What a file has and a copy of it has not.
    ///
    /// # Errors
    /// What the disk says.
    fn identity(&self, path: &Path) -> io::Result<String>;

    /// The files in a directory, in no order.
    ///
    /// # Errors
    /// What the disk says.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;

    /// Opens a file that exists.
    ///
    /// # Errors
    /// What the disk says; `NotFound` among it.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Makes an empty file, whatever was there before.
    ///
    /// # Errors
    /// What the disk says.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// The same for a file that is written from front to back, and read by others only. It may end in fewer than
    /// [`PADDING_MAX`] zeros that nobody wrote.
    ///
    /// # Errors
    /// What the disk says.
    fn create_log(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.create(path)
    }

    /// Gives a file another name, replacing what has it.
    ///
    /// # Errors
    /// What the disk says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the disk says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// What the disk says.
    fn sync(&self, directory: &Path) -> io::Result<()>;

    /// Bytes that this process may still write there.
    ///
    /// # Errors
    /// What the disk says.
    fn free(&self, directory: &Path) -> io::Result<u64>;
}

/// Zeros that may follow what was written to a log; a block of the disk has no more.
pub const PADDING_MAX: u64 = direct::BLOCK as u64;

/// A lock: held until dropped.
pub type Lock = Box<dyn Send + Sync>;

/// A disk that several hold.
pub type SharedDisk = Arc<dyn Disk>;

/// An open file.
pub trait DiskFile: Send {
    /// Its size in bytes.
    ///
    /// # Errors
    /// What the disk says.
    fn size(&self) -> io::Result<u64>;

    /// Reads up to `into.len()` bytes from `at` on; 0 at the end.
    ///
    /// # Errors
    /// What the disk says.
    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes all parts one after the other from `at` on.
    ///
    /// # Errors
    /// What the disk says; some of the bytes may then be there.
    fn write(&mut self, at: u64, parts: &mut [IoSlice<'_>]) -> io::Result<()>;

    /// Cuts it to `size` bytes.
    ///
    /// # Errors
    /// What the disk says.
    fn cut(&mut self, size: u64) -> io::Result<()>;

    /// Makes its bytes and its size durable. After an error nobody knows which of them are.
    ///
    /// # Errors
    /// What the disk says.
    fn sync(&mut self) -> io::Result<()>;

    /// Whether it has a name, so that it can be opened again. One whose name cannot be told is taken to have one.
    fn is_named(&self) -> bool {
        true
    }
}

/// How often a lock is asked for, and the pause between.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The machine's disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn make(&self, directory: &Path) -> io::Result<()> {
        if directory.is_dir() {
            return Ok(());
        }
        let above = directory.parent().filter(|above| !above.as_os_str().is_empty());
        if let Some(above) = above {
            self.make(above)?;
        }
        match fs::create_dir(directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => self.sync(above.unwrap_or(Path::new("."))),
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        // A child that was forked a moment ago has a copy of the handle until it runs its program.
        for _ in 0..LOCK_TRIES {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Box::new(file))),
                Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    fn identity(&self, path: &Path) -> io::Result<String> {
        use std::os::unix::fs::MetadataExt;
        let about = fs::metadata(path)?;
        // Not every file system knows when a file was made; its number alone then has to do.
        let made = about.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        Ok(format!("{:x}-{:x}", about.ino(), made.as_nanos()))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?))
    }

    fn create_log(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(direct::DirectFile::create(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn free(&self, directory: &Path) -> io::Result<u64> {
        let about = statvfs(directory)?;
        Ok(about.f_bavail.saturating_mul(about.f_frsize))
    }
}

impl DiskFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.seek(SeekFrom::Start(at))?;
        Read::read(self, into)
    }

    fn write(&mut self, at: u64, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        self.seek(SeekFrom::Start(at))?;
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            match self.write_vectored(parts) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut parts, written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn is_named(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        self.metadata().map_or(true, |about| about.nlink() > 0)
    }
}
