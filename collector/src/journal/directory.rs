//! The journal's directory: lock, id, files.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};

use service::error::{Error, Result};

use super::disk::{Disk, Lock};
use super::{failed, segment};

/// What lies in a journal's directory, oldest first.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) segments: Vec<(u64, PathBuf)>,
    pub(super) digests: Vec<PathBuf>,
    /// Frames that were set aside.
    pub(super) aside: BTreeSet<u64>,
}

/// Makes the directory and checks that it can be written to.
pub(super) fn make(disk: &dyn Disk, directory: &Path) -> Result<()> {
    disk.make(directory).map_err(|error| {
        failed("create", directory, error).with_hint("choose a directory that this user may write to: --state DIR")
    })
}

/// Locks the directory for this process.
pub(super) fn lock(disk: &dyn Disk, directory: &Path) -> Result<Lock> {
    let path = lock_path(directory);
    let lock = disk.lock(&path).map_err(|error| {
        failed("open", &path, error).with_hint("choose a directory that this user may write to: --state DIR")
    })?;
    lock.ok_or_else(|| {
        Error::conflict(format!("{} is in use by another process", directory.display()))
            .with_hint("stop the other tokenwatt, or give this one its own --state DIR")
    })
}

/// The lock file is never replaced, so it also tells this directory from a copy of it.
fn lock_path(directory: &Path) -> PathBuf {
    directory.join("lock")
}

/// The journal's id, and whether the directory is a copy of the one it was made for.
pub(super) struct Id {
    pub(super) id: String,
    pub(super) copied: bool,
}

/// Reads the journal's id; made and stored at the first call.
pub(super) fn id(disk: &dyn Disk, directory: &Path) -> Result<Id> {
    let path = directory.join("id");
    let text = match read(disk, &path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Id { id: renew_id(disk, directory)?, copied: false });
        }
        Err(error) => return Err(failed("read", &path, error)),
    };
    let mut words = text.split_whitespace();
    let id = words.next().filter(|id| uuid::Uuid::parse_str(id).is_ok());
    let id = id.ok_or_else(|| Error::corrupt(format!("{} holds no id", path.display())))?.to_owned();
    let identity = identity(disk, directory)?;
    match words.next() {
        Some(known) => Ok(Id { copied: known != identity, id }),
        // Made by a version that did not note where it was made.
        None => {
            write_id(disk, directory, &id)?;
            Ok(Id { id, copied: false })
        }
    }
}

/// Gives the journal a new id.
pub(super) fn renew_id(disk: &dyn Disk, directory: &Path) -> Result<String> {
    let id = uuid::Uuid::new_v4().simple().to_string();
    write_id(disk, directory, &id)?;
    Ok(id)
}

fn write_id(disk: &dyn Disk, directory: &Path, id: &str) -> Result<()> {
    let path = directory.join("id");
    let text = format!("{id} {}\n", identity(disk, directory)?);
    replace(disk, directory, &path, &[text.as_bytes()]).map_err(|error| failed("write", &path, error))
}

/// What the directory has and a copy of it, or another in its place, has not.
pub(super) fn identity(disk: &dyn Disk, directory: &Path) -> Result<String> {
    identity_of(disk, directory).map_err(|error| failed("look at", &lock_path(directory), error))
}

/// The same, with what the disk says.
pub(super) fn identity_of(disk: &dyn Disk, directory: &Path) -> io::Result<String> {
    disk.identity(&lock_path(directory))
}

/// Lists segments, digests and what was set aside.
pub(super) fn list(disk: &dyn Disk, directory: &Path) -> Result<Listed> {
    let mut listed = Listed::default();
    for path in disk.list(directory).map_err(|error| failed("list", directory, error))? {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("journal") => listed.segments.extend(segment::number(&path).map(|first| (first, path.clone()))),
            Some("digests") => listed.digests.push(path),
            Some("aside") => listed.aside.extend(segment::number(&path)),
            _ => {}
        }
    }
    listed.segments.sort();
    listed.digests.sort();
    Ok(listed)
}

/// Bytes of one digest.
const DIGEST: usize = 16;
/// Bytes between two digests: older versions noted a time beside each.
const STRIDE: usize = 24;

/// Writes digests whose segment is about to go.
pub(super) fn write_digests(disk: &dyn Disk, directory: &Path, path: &Path, digests: &[u128]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(digests.len() * STRIDE);
    for digest in digests {
        bytes.extend_from_slice(&digest.to_le_bytes());
        bytes.extend_from_slice(&[0; STRIDE - DIGEST]);
    }
    replace(disk, directory, path, &[&bytes])
}

/// Reads digests back.
pub(super) fn read_digests(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u128>> {
    let bytes = read(disk, path)?;
    let read = bytes.chunks_exact(STRIDE).filter_map(|chunk| chunk.first_chunk::<DIGEST>());
    Ok(read.map(|digest| u128::from_le_bytes(*digest)).collect())
}

/// Largest file that is read whole: digests of all bodies that are remembered.
const WHOLE_MAX: u64 = 1 << 30;

/// A file's bytes.
pub(super) fn read(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let mut file = disk.open(path)?;
    let size = file.size()?;
    if size > WHOLE_MAX {
        return Err(io::Error::new(ErrorKind::InvalidData, "larger than it can be"));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(filled as u64, rest)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Writes a file whole or not at all.
pub(super) fn replace(disk: &dyn Disk, directory: &Path, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = disk.create(&temporary)?;
    let mut parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    file.write(0, &mut parts)?;
    file.sync()?;
    disk.rename(&temporary, path)?;
    disk.sync(directory)
}
