//! Where the files stand, on disk: written whole or not at all, before lines are sent and after they arrived.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use service::error::{Error, Kind, Result};

use super::file::{Identity, Standing};

/// Version of the file's format.
const VERSION: u32 = 1;

/// The state of all followed files.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    /// Whether there was a state before: what is not in it is a new file.
    pub(super) known: bool,
    /// Where files stood.
    pub(super) files: Vec<Standing>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct Stored {
    version: u32,
    files: Vec<Standing>,
    sending: Option<Sending>,
}

/// Lines on their way into the journal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Sending {
    /// What the journal knows them by, 32 hex digits.
    digest: String,
    /// Device and inode of each file, and the offset it stands at once they are stored.
    pub(super) moves: Vec<(u64, u64, u64)>,
}

impl Sending {
    pub(super) fn new(digest: u128, moves: impl Iterator<Item = (Identity, u64)>) -> Self {
        let moves = moves.map(|((device, inode), offset)| (device, inode, offset)).collect();
        Self { digest: format!("{digest:032x}"), moves }
    }
}

impl State {
    /// Reads the state; lines that were on their way have arrived if the journal holds their digest.
    pub(super) fn open(directory: &Path, holds: impl Fn(u128) -> bool) -> Result<Self> {
        let path = directory.join("tail.json");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { path, known: false, files: Vec::new() });
            }
            Err(error) => return Err(Error::unavailable(format!("read {}", path.display())).with_source(error)),
        };
        let corrupt = |text: &str| {
            Error::new(Kind::Corrupt, format!("{} {text}", path.display()))
                .with_hint("move it away to follow all files from where `from` says")
        };
        let mut stored: Stored = serde_json::from_slice(&bytes)
            .map_err(|error| corrupt("is not the state of followed files").with_source(error))?;
        if stored.version != VERSION {
            return Err(corrupt("was written by another version"));
        }
        if let Some(sending) = stored.sending.take()
            && u128::from_str_radix(&sending.digest, 16).is_ok_and(holds)
        {
            for (device, inode, offset) in sending.moves {
                let moved = stored.files.iter_mut().find(|file| file.identity() == (device, inode));
                moved.into_iter().for_each(|file| file.offset = offset);
            }
        }
        Ok(Self { path, known: true, files: stored.files })
    }

    /// Writes where files stand and what is on its way.
    pub(super) fn write(&mut self, files: Vec<Standing>, sending: Option<Sending>) -> io::Result<()> {
        let bytes = serde_json::to_vec(&Stored { version: VERSION, files, sending })?;
        let temporary = self.path.with_extension("new");
        let mut file = File::create(&temporary)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        if let Some(directory) = self.path.parent() {
            File::open(directory)?.sync_all()?;
        }
        self.known = true;
        Ok(())
    }
}
