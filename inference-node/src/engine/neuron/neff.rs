//! Compiled graphs on their way to the ranks: each file is read once, and forgotten when every rank has it.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::manifest::Manifest;

/// The files of all graphs, shared by the ranks while they load.
pub(super) struct Neffs {
    files: Vec<Mutex<File>>,
}

struct File {
    bytes: Option<Arc<[u8]>>,
    /// Ranks that still need it.
    waiting: u32,
}

impl Neffs {
    pub(super) fn new(manifest: &Manifest) -> Self {
        let file = |_| Mutex::new(File { bytes: None, waiting: manifest.tensor_parallel });
        Self { files: manifest.graphs.iter().map(file).collect() }
    }

    /// The bytes of graph `index`, for one rank. The first one reads them, and the others wait for it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn take(&self, index: usize, path: &Path) -> std::io::Result<Arc<[u8]>> {
        let Some(file) = self.files.get(index) else { return std::fs::read(path).map(Arc::from) };
        let mut file = file.lock();
        let bytes = match file.bytes.take() {
            Some(bytes) => bytes,
            None => Arc::from(std::fs::read(path)?),
        };
        file.waiting = file.waiting.saturating_sub(1);
        if file.waiting > 0 {
            file.bytes = Some(Arc::clone(&bytes));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file is read by the first rank alone, and nobody holds its bytes once the last one has loaded it.
    #[test]
    fn a_file_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decode.neff");
        let neffs = Neffs { files: vec![Mutex::new(File { bytes: None, waiting: 3 })] };
        assert!(neffs.take(0, &path).is_err(), "nothing is there yet");
        std::fs::write(&path, b"graph").unwrap();
        let first = neffs.take(0, &path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let others = [neffs.take(0, &path).unwrap(), neffs.take(0, &path).unwrap()];
        assert!(others.iter().all(|other| Arc::ptr_eq(other, &first)));
        assert_eq!((&*first, Arc::strong_count(&first)), (&b"graph"[..], 3));
    }
}
