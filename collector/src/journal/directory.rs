//! The journal's directory: lock, id, files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use service::error::{Error, Result};

use super::{failed, segment};

/// What lies in a journal's directory, oldest first.
pub(super) struct Listed {
    pub(super) segments: Vec<(u64, PathBuf)>,
    pub(super) digests: Vec<PathBuf>,
}

/// Makes the directory and checks that it can be written to.
pub(super) fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).map_err(|error| {
        failed("create", directory, error).with_hint("choose a directory that this user may write to: --state DIR")
    })
}

/// Locks the directory for this process; the lock goes with the file handle.
pub(super) fn lock(directory: &Path) -> Result<File> {
    let path = directory.join("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(|error| {
        failed("open", &path, error).with_hint("choose a directory that this user may write to: --state DIR")
    })?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
        Error::conflict(format!("{} is in use by another process", directory.display()))
            .with_hint("stop the other tokenwatt, or give this one its own --state DIR")
            .with_source(io::Error::from(error))
    })?;
    Ok(file)
}

/// The journal's id; made and stored at the first call.
pub(super) fn id(directory: &Path) -> Result<String> {
    let path = directory.join("id");
    match fs::read_to_string(&path) {
        Ok(text) if uuid::Uuid::parse_str(text.trim()).is_ok() => return Ok(text.trim().to_owned()),
        Ok(_) => return Err(Error::corrupt(format!("{} holds no id", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed("read", &path, error)),
    }
    let id = uuid::Uuid::new_v4().simple().to_string();
    replace(directory, &path, id.as_bytes()).map_err(|error| failed("write", &path, error))?;
    Ok(id)
}

/// Lists segments and digests.
pub(super) fn list(directory: &Path) -> Result<Listed> {
    let mut listed = Listed { segments: Vec::new(), digests: Vec::new() };
    let entries = fs::read_dir(directory).map_err(|error| failed("list", directory, error))?;
    for entry in entries {
        let path = entry.map_err(|error| failed("list", directory, error))?.path();
        if let Some(first) = segment::first(&path) {
            listed.segments.push((first, path));
        } else if path.extension().is_some_and(|extension| extension == "digests") {
            listed.digests.push(path);
        }
    }
    listed.segments.sort();
    listed.digests.sort();
    Ok(listed)
}

/// Bytes of one digest and its time.
const DIGEST: usize = 24;

/// Writes digests whose segment is about to go.
pub(super) fn write_digests(directory: &Path, path: &Path, digests: &[(u128, i64)]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(digests.len() * DIGEST);
    for (digest, received_us) in digests {
        bytes.extend_from_slice(&digest.to_le_bytes());
        bytes.extend_from_slice(&received_us.to_le_bytes());
    }
    replace(directory, path, &bytes)
}

/// Reads digests back.
pub(super) fn read_digests(path: &Path) -> io::Result<Vec<(u128, i64)>> {
    let bytes = fs::read(path)?;
    let read = bytes.chunks_exact(DIGEST).filter_map(|chunk| {
        let (digest, time) = chunk.split_first_chunk::<16>()?;
        Some((u128::from_le_bytes(*digest), i64::from_le_bytes(*time.first_chunk()?)))
    });
    Ok(read.collect())
}

/// Writes a file whole or not at all.
fn replace(directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync(directory)
}

/// Makes names in the directory durable.
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
