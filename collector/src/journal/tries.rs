//! Bodies that a process was about to turn into rows when it ended: what kills each process that tries must not kill the next ones
//! for ever. An error or a panic is told by the process that met it; one that was killed for its memory tells nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use service::error::Result;

use super::disk::Disk;
use super::{Journal, directory, failed};

/// Tries on disk, a line `frame count` for each frame that has not become rows yet.
#[derive(Clone, Default)]
pub(super) struct Tries {
    /// By earlier processes and, of those in `mine`, by this one.
    counts: BTreeMap<u64, u32>,
    /// Frames that this process tries, however often it begins again.
    mine: BTreeSet<u64>,
}

impl Tries {
    pub(super) fn read(disk: &dyn Disk, directory: &Path) -> io::Result<Self> {
        let bytes = match directory::read(disk, &path(directory)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let line = |line: &str| {
            let (frame, count) = line.split_once(' ')?;
            Some((frame.parse().ok()?, count.parse().ok()?))
        };
        let counts = String::from_utf8_lossy(&bytes).lines().filter_map(line).collect();
        Ok(Self { counts, mine: BTreeSet::new() })
    }

    fn write(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        let text: String = self.counts.iter().map(|(frame, count)| format!("{frame} {count}\n")).collect();
        directory::replace(disk, directory, &path(directory), &[text.as_bytes()])
    }
}

pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join("tries")
}

impl Journal {
    /// How many earlier processes ended while they turned frame `number` into rows.
    pub fn tries(&self, number: u64) -> u32 {
        let count = self.tries.counts.get(&number).copied().unwrap_or_default();
        count.saturating_sub(u32::from(self.tries.mine.contains(&number)))
    }

    /// Notes that this process is about to turn frame `number` into rows.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not take it.
    pub fn note_try(&mut self, number: u64) -> Result<()> {
        if self.tries.mine.contains(&number) {
            return Ok(());
        }
        let mut tries = self.tries.clone();
        tries.mine.insert(number);
        *tries.counts.entry(number).or_default() += 1;
        self.keep_tries(tries)
    }

    /// Forgets the tries of frame `number`, which became rows.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not take it.
    pub fn forget_try(&mut self, number: u64) -> Result<()> {
        let mut tries = self.tries.clone();
        if tries.counts.remove(&number).is_none() {
            return Ok(());
        }
        tries.mine.remove(&number);
        self.keep_tries(tries)
    }

    /// Forgets the tries of frames up to `through`, which are committed.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not take it.
    pub(super) fn forget_tries(&mut self, through: u64) -> Result<()> {
        if self.tries.counts.first_key_value().is_none_or(|(frame, _)| *frame > through) {
            return Ok(());
        }
        let mut tries = self.tries.clone();
        tries.counts = tries.counts.split_off(&(through + 1));
        tries.mine = tries.mine.split_off(&(through + 1));
        self.keep_tries(tries)
    }

    /// What is on disk comes first, so that what the disk did not take is tried again.
    fn keep_tries(&mut self, tries: Tries) -> Result<()> {
        let path = path(&self.directory);
        tries.write(&*self.disk, &self.directory).map_err(|error| failed("write", &path, error))?;
        self.tries = tries;
        Ok(())
    }
}
