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
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UpdateVersion,
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

    /// Replaces an object that still has this ETag. Processes exclude each other by a lock on a file beside it.
    async fn update(&self, location: &Path, payload: PutPayload, expected: &UpdateVersion) -> Result<PutResult> {
        let (path, root) = (self.inner.path_to_filesystem(location)?, self.root.clone());
        let changed = |source| object_store::Error::Precondition { path: location.to_string(), source };
        let found = match self.inner.head(location).await {
            Err(error @ object_store::Error::NotFound { .. }) => return Err(changed(error.into())),
            found => found?,
        };
        let lock = beside(&path, "lock");
        let held = blocking(move || lock_file(&lock)).await?;
        // Looked at again under the lock: what was found above only showed that there is a folder.
        let now = self.inner.head(location).await?;
        if now.e_tag.is_none() || now.e_tag != expected.e_tag {
            return Err(changed(format!("its ETag is {:?}, was {:?}", now.e_tag, found.e_tag).into()));
        }
        blocking(move || put(&root, &path, &payload, false)).await?;
        let written = self.inner.head(location).await?;
        drop(held);
        Ok(PutResult { e_tag: written.e_tag, version: None })
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|source| object_store::Error::JoinError { source })?;
    done.map_err(|source| object_store::Error::Generic { store: "directory", source: source.into() })
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
            PutMode::Update(expected) => return self.update(location, payload, &expected).await,
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
    let (Some(folder), Some(_)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "no file name"));
    };
    if create && path.exists() {
        // Saves writing the bytes; the link below is what decides. Whoever hears that it is there relies on it, also if the
        // attempt that made it could not flush.
        flush_folder(folder)?;
        return Err(ErrorKind::AlreadyExists.into());
    }
    make_folder(root, folder)?;
    let staged = beside(path, &format!("{}.tmp", Uuid::new_v4().simple()));
    let moved = stage(&staged, payload)
        .and_then(|()| if create { fs::hard_link(&staged, path) } else { fs::rename(&staged, path) });
    if create || moved.is_err() {
        let _ = fs::remove_file(&staged);
    }
    match moved {
        // Another was faster, and may not have flushed yet.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => flush_folder(folder).and(Err(error)),
        moved => moved.and_then(|()| flush_folder(folder)),
    }
}

/// A file beside `path`; the dot in front hides it from every reader of the table.
fn beside(path: &FilePath, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{ending}"))
}

/// Waits for the lock, which the kernel gives back when the file is closed, also by a crash.
fn lock_file(path: &FilePath) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    file.lock()?;
    Ok(file)
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
    #[cfg(test)]
    tests::FLUSHED.with_borrow_mut(|flushed| flushed.push(folder.to_owned()));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use object_store::local::LocalFileSystem;
    use object_store::path::Path;
    use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};

    use std::cell::RefCell;
    use std::io::ErrorKind;
    use std::path::PathBuf;

    use super::{Durable, put};

    thread_local! {
        /// Folders flushed by this thread.
        pub(super) static FLUSHED: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
    }

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

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_many_updates_of_one_version_one_wins_and_those_of_an_older_one_lose() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder);
        let path = Path::from("notes/lease");
        let update = |tag: Option<String>| PutMode::Update(UpdateVersion { e_tag: tag, version: None });
        let absent = store.put_opts(&path, "x".into(), update(None).into()).await.expect_err("nothing there");
        assert!(matches!(absent, Error::Precondition { .. }), "{absent}");
        store.put_opts(&path, "first".into(), PutMode::Create.into()).await.expect("created");
        let first = store.head(&path).await.expect("there").e_tag;
        let puts = (0..20).map(|n| store.put_opts(&path, format!("{n}").into(), update(first.clone()).into()));
        let outcomes = futures::future::join_all(puts).await;
        let won: Vec<_> = outcomes.iter().flatten().collect();
        assert_eq!(won.len(), 1);
        assert_eq!(won[0].e_tag, store.head(&path).await.expect("there").e_tag);
        let late = store.put_opts(&path, "late".into(), update(first).into()).await.expect_err("an older version");
        assert!(matches!(late, Error::Precondition { .. }), "{late}");
    }

    #[test]
    fn whoever_hears_that_an_object_is_there_can_rely_on_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a folder");
        let path = root.join("1.json");
        put(&root, &path, &"first".into(), true).expect("written");
        // One is there to be seen; the other turns up between the look and the link.
        let late = root.join("2.json");
        std::os::unix::fs::symlink(root.join("nowhere"), &late).expect("linked");
        for path in [&path, &late] {
            FLUSHED.take();
            let refused = put(&root, path, &"second".into(), true).expect_err("there already");
            assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
            assert_eq!(FLUSHED.take(), [root.as_path()], "{}", path.display());
        }
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
