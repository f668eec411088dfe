//! Where the benchmark writes, and what that disk can do.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use service::error::{Error, Result};

/// Appends made to learn what a sync costs.
const PROBES: usize = 101;

/// The directory of a run; one that the run made is removed with it.
pub(in crate::bench) struct Place {
    path: PathBuf,
    ours: bool,
}

/// What the disk is.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    /// Type of the file system, as mounted.
    pub(super) file_system: String,
    /// Median time of an fdatasync after a 4 KiB append.
    pub(super) fdatasync_p50: Duration,
}

impl Place {
    /// The given directory, or a new one under the current directory.
    pub(in crate::bench) fn open(dir: Option<&Path>) -> Result<Place> {
        let (path, ours) = match dir {
            Some(dir) => (dir.to_owned(), false),
            None => (PathBuf::from(format!("tokenwatt-bench-{}", std::process::id())), true),
        };
        let created = std::fs::create_dir_all(&path).and_then(|()| path.canonicalize());
        let path = created.map_err(|error| failed("create", &path, error))?;
        Ok(Place { path, ours })
    }

    /// Absolute path.
    pub(in crate::bench) fn path(&self) -> &Path {
        &self.path
    }

    /// Learns file system and sync time.
    pub(super) fn probe(&self) -> Result<Disk> {
        let name = self.path.join("probe");
        let times = self.sync_times(&name);
        let _ = std::fs::remove_file(&name);
        let mut times = times.map_err(|error| failed("write to", &self.path, error))?;
        times.sort_unstable();
        Ok(Disk { file_system: self.file_system()?, fdatasync_p50: times[PROBES / 2] })
    }

    fn sync_times(&self, name: &Path) -> std::io::Result<Vec<Duration>> {
        let mut file = File::create(name)?;
        (0..PROBES)
            .map(|_| {
                file.write_all(&[0x5a; 4096])?;
                let begun = Instant::now();
                file.sync_data()?;
                Ok(begun.elapsed())
            })
            .collect()
    }

    /// The type of the mount with the longest path above ours.
    fn file_system(&self) -> Result<String> {
        let mounts = std::fs::read_to_string("/proc/self/mounts")
            .map_err(|error| failed("find the mount of", &self.path, error))?;
        let above = mounts.lines().filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let (at, kind) = (fields.next()?, fields.next()?);
            self.path.starts_with(at).then_some((at.len(), kind))
        });
        Ok(above.max_by_key(|(length, _)| *length).map_or("unknown", |(_, kind)| kind).to_owned())
    }
}

fn failed(action: &str, path: &Path, error: std::io::Error) -> Error {
    Error::invalid(format!("{action} {}", path.display())).with_source(error)
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "the benchmark's files stay behind");
        }
    }
}
