//! A directory whose objects survive a power cut once their PUT is answered.
//!
//! `object_store` writes a file and links it into place, but leaves it to the kernel when the bytes reach the disk. A journal is
//! cut when its rows are committed, so a commit must not be forgotten: file and folder are flushed before we answer.

use std::fmt::{self, Display};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use uuid::Uuid;

/// A local file system with durable PUTs below `root`.
#[derive(Debug)]
pub(super) struct Durable {
    inner: LocalFileSystem,
    root: PathBuf,
}

impl Durable {
    pub(super) fn new(inner: LocalFileSystem, root: PathBuf) -> Durable {
        Durable { inner, root }
    }
}

impl Display for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Durable({})", self.root.display())
    }
}

#[async_trait]
impl ObjectStore for Durable {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let create = match opts.mode {
            PutMode::Create => true,
            PutMode::Overwrite => false,
            PutMode::Update(_) => return self.inner.put_opts(location, payload, opts).await,
        };
        let (path, root) = (self.inner.path_to_filesystem(location)?, self.root.clone());
        let written = tokio::task::spawn_blocking(move || put(&root, &path, &payload, create));
        let written = written.await.map_err(|source| object_store::Error::JoinError { source })?;
        written.map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => {
                object_store::Error::AlreadyExists { path: location.to_string(), source: source.into() }
            }
            _ => object_store::Error::Generic { store: "directory", source: source.into() },
        })?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// Writes beside the target, flushes, and moves into place.
fn put(root: &FilePath, path: &FilePath, payload: &PutPayload, create: bool) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "no file name"));
    };
    if create && path.exists() {
        // Saves writing the bytes; the link below is what decides.
        return Err(ErrorKind::AlreadyExists.into());
    }
    make_folder(root, folder)?;
    // A dot in front hides it from every reader of the table.
    let staged = folder.join(format!(".{}.{}.tmp", name.to_string_lossy(), Uuid::new_v4().simple()));
    let moved = stage(&staged, payload)
        .and_then(|()| if create { fs::hard_link(&staged, path) } else { fs::rename(&staged, path) });
    if create || moved.is_err() {
        let _ = fs::remove_file(&staged);
    }
    moved?;
    flush_folder(folder)
}

fn stage(staged: &FilePath, payload: &PutPayload) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(staged)?;
    for part in payload {
        file.write_all(part)?;
    }
    file.sync_data()
}

/// Makes a folder and flushes each one above it that it is new in.
fn make_folder(root: &FilePath, folder: &FilePath) -> io::Result<()> {
    if folder.is_dir() || !folder.starts_with(root) {
        return Ok(());
    }
    let Some(above) = folder.parent() else { return Ok(()) };
    make_folder(root, above)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => flush_folder(above),
    }
}

fn flush_folder(folder: &FilePath) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use object_store::local::LocalFileSystem;
    use object_store::path::Path;
    use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode};

    use super::Durable;

    fn store(folder: &tempfile::TempDir) -> Durable {
        let inner = LocalFileSystem::new_with_prefix(folder.path()).expect("a folder");
        Durable::new(inner, folder.path().canonicalize().expect("a folder"))
    }

    #[tokio::test]
    async fn of_many_writers_of_one_object_one_wins_and_nothing_is_left_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder);
        let path = Path::from("table/log/1.json");
        let puts = (0..20).map(|n| store.put_opts(&path, format!("writer {n}").into(), PutMode::Create.into()));
        let outcomes = futures::future::join_all(puts).await;
        let winners: Vec<_> = (0..20).filter(|n| outcomes[*n].is_ok()).collect();
        assert_eq!(winners.len(), 1);
        let lost = outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::AlreadyExists { .. }))).count();
        assert_eq!(lost, 19);
        let body = store.get(&path).await.expect("there").bytes().await.expect("readable");
        assert_eq!(body, format!("writer {}", winners[0]));
        assert_eq!(std::fs::read_dir(folder.path().join("table/log")).expect("a folder").count(), 1);
    }

    #[tokio::test]
    async fn an_overwrite_replaces_the_whole_object() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder);
        let path = Path::from("note");
        for text in ["a long first text", "short"] {
            store.put(&path, text.into()).await.expect("written");
        }
        assert_eq!(store.get(&path).await.expect("there").bytes().await.expect("readable"), "short");
    }
}
