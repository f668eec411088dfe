//! The object store under a lake: a directory or an S3 bucket, opened, probed, and with errors that say what to do.

mod durable;

use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ObjectStore, ObjectStoreExt, PutMode, RetryConfig, path::Path};
use service::{Error, Kind, Result};
use url::Url;
use uuid::Uuid;

use durable::Durable;

/// How long one request to S3 is tried again before the caller hears of it; callers try again themselves.
const RETRY_TIMEOUT: Duration = Duration::from_secs(15);

/// What a lake is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading only: nothing is created or probed.
    Read,
    /// Reading and writing: the store is probed for what commits rely on.
    Write,
}

/// An opened store.
pub(crate) struct Store {
    /// Paths relative to the lake.
    pub(crate) lake: Arc<dyn ObjectStore>,
    /// The lake's folder, with a slash at its end.
    pub(crate) url: Url,
}

impl Store {
    /// Opens a directory, a `file://` URL or `s3://bucket/prefix`.
    ///
    /// # Errors
    /// `Invalid` for an unknown kind of place, `NotFound`, `Denied`, `Unavailable`; `Conflict` if the store ignores conditions.
    pub(crate) async fn open(place: &str, access: Access) -> Result<Store> {
        let store = match place.split_once("://") {
            Some(("s3" | "s3a", _)) => s3(place, AmazonS3Builder::from_env())?,
            Some(("file", _)) => {
                let not_local = || Error::invalid(format!("`{place}` is no local directory"));
                let url = Url::parse(place).map_err(|e| not_local().with_source(e))?;
                directory(&url.to_file_path().map_err(|()| not_local())?, access)?
            }
            Some((scheme, _)) => {
                return Err(Error::invalid(format!("a lake cannot lie on `{scheme}://`"))
                    .with_hint("give a directory, file:///path or s3://bucket/prefix"));
            }
            None => directory(FilePath::new(place), access)?,
        };
        store.ready(access).await
    }

    /// A store that somebody else has made.
    pub(crate) fn over(store: Arc<dyn ObjectStore>) -> Result<Store> {
        let wrong = |e| Error::internal("name a store in memory").with_source(e);
        let url = Url::parse("memory:///").map_err(wrong)?;
        Ok(Store { lake: store, url })
    }

    /// The store, once it has shown that it can do what `access` asks of it.
    pub(crate) async fn ready(self, access: Access) -> Result<Store> {
        match access {
            Access::Write => self.probe().await?,
            Access::Read => self.reachable().await?,
        }
        Ok(self)
    }

    /// Deletes objects; those that are gone already are fine.
    pub(crate) async fn delete(&self, paths: Vec<Path>) -> Result<()> {
        let mut outcomes = self.lake.delete_stream(stream::iter(paths.into_iter().map(Ok)).boxed());
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(failure("delete what nobody needs", error)),
            }
        }
        Ok(())
    }

    /// Writes one small object twice: the second time it must be refused.
    async fn probe(&self) -> Result<()> {
        let path = Path::from(format!("_tokenwatt/probe-{}", Uuid::new_v4().simple()));
        let unwritable = |e| self.unusable("write to", e);
        self.lake.put_opts(&path, "1".into(), PutMode::Create.into()).await.map_err(unwritable)?;
        let second = self.lake.put_opts(&path, "2".into(), PutMode::Create.into()).await;
        // What stays behind after a failure here is one byte that nobody reads.
        let _ = self.lake.delete(&path).await;
        match second {
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(()),
            Err(error) => Err(unwritable(error)),
            Ok(_) => Err(Error::conflict(format!("the store at {} overwrites objects that must not exist", self.url))
                .with_hint(
                    "commits need PUT with If-None-Match; this store ignores it, so two writers would lose data",
                )),
        }
    }

    async fn reachable(&self) -> Result<()> {
        self.lake.list_with_delimiter(None).await.map(|_| ()).map_err(|e| self.unusable("read", e))
    }

    fn unusable(&self, verb: &str, error: object_store::Error) -> Error {
        let failed = failure(format!("{verb} the lake at {}", self.url), error);
        match failed.hint() {
            None if self.url.scheme() == "s3" => failed.with_hint(
                "is the endpoint up (AWS_ENDPOINT_URL, AWS_REGION), and are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY set?",
            ),
            _ => failed,
        }
    }
}

/// The error of a request to a store.
pub(crate) fn failure(action: impl Into<String>, error: object_store::Error) -> Error {
    let (kind, hint) = judge(&error);
    let failed = Error::new(kind, action).with_source(error);
    match hint {
        Some(hint) => failed.with_hint(hint),
        None => failed,
    }
}

fn judge(error: &object_store::Error) -> (Kind, Option<&'static str>) {
    use object_store::Error as E;
    match error {
        E::NotFound { .. } => (Kind::NotFound, Some("the bucket or directory must exist")),
        E::AlreadyExists { .. } | E::Precondition { .. } => (Kind::Conflict, None),
        E::PermissionDenied { .. } => {
            (Kind::Denied, Some("the credentials do not allow this; tables need get, put, list and delete"))
        }
        E::Unauthenticated { .. } => {
            (Kind::Denied, Some("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use an instance role"))
        }
        E::InvalidPath { .. } | E::NotSupported { .. } | E::NotImplemented { .. } => (Kind::Internal, None),
        E::UnknownConfigurationKey { .. } => (Kind::Invalid, None),
        _ => match io_kind(error) {
            Some(std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem) => {
                (Kind::Denied, Some("the directory must be writable"))
            }
            Some(std::io::ErrorKind::NotADirectory) => {
                (Kind::Invalid, Some("a file stands where a directory is needed"))
            }
            _ => (Error::unavailable("").kind(), None),
        },
    }
}

fn io_kind(error: &(dyn std::error::Error + 'static)) -> Option<std::io::ErrorKind> {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(io) = current.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        cause = current.source();
    }
    None
}

fn directory(path: &FilePath, access: Access) -> Result<Store> {
    let shown = path.display();
    if access == Access::Write {
        std::fs::create_dir_all(path).map_err(|e| unusable(format!("create the lake directory {shown}"), e))?;
    }
    let absolute = path.canonicalize().map_err(|e| unusable(format!("open the lake directory {shown}"), e))?;
    let odd = || Error::invalid(format!("the lake directory {shown} has a name that is no URL"));
    let url = Url::from_directory_path(&absolute).map_err(|()| odd())?;
    let local = || LocalFileSystem::new_with_prefix(&absolute).map_err(|e| failure(format!("open {shown}"), e));
    let lake: Arc<dyn ObjectStore> = match access {
        Access::Read => Arc::new(local()?),
        Access::Write => Arc::new(Durable::new(local()?, absolute.clone())),
    };
    Ok(Store { lake, url })
}

fn unusable(action: String, error: std::io::Error) -> Error {
    let failed = match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(action).with_hint("nothing has been written there yet"),
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            Error::denied(action).with_hint("the directory must be writable")
        }
        _ => Error::invalid(action).with_hint("give a directory that can be created and written"),
    };
    failed.with_source(error)
}

/// A bucket, or a prefix in it. `builder` holds credentials, endpoint and region.
pub(crate) fn s3(place: &str, builder: AmazonS3Builder) -> Result<Store> {
    let wrong = || Error::invalid(format!("`{place}` is no S3 location")).with_hint("write s3://bucket/prefix");
    let mut url = Url::parse(place).map_err(|e| wrong().with_source(e))?;
    let bucket = url.host_str().filter(|bucket| !bucket.is_empty()).ok_or_else(wrong)?.to_owned();
    let prefix = Path::from_url_path(url.path()).map_err(|e| wrong().with_source(e))?;
    url.set_path(&if prefix.as_ref().is_empty() { "/".to_owned() } else { format!("/{prefix}/") });
    let retry = RetryConfig { backoff: BackoffConfig::default(), max_retries: 10, retry_timeout: RETRY_TIMEOUT };
    let store = builder
        .with_bucket_name(bucket)
        .with_retry(retry)
        .build()
        .map_err(|e| failure(format!("configure S3 for {place}"), e))?;
    let lake: Arc<dyn ObjectStore> = match prefix.as_ref() {
        "" => Arc::new(store),
        _ => Arc::new(PrefixStore::new(store, prefix)),
    };
    Ok(Store { lake, url })
}

#[cfg(test)]
mod tests {
    use super::{Access, Store};
    use service::Kind;

    #[tokio::test]
    async fn a_directory_is_made_for_writers_and_not_for_readers() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("a/b");
        let place = place.to_str().expect("utf-8");
        let error = Store::open(place, Access::Read).await.err().expect("nothing there");
        assert_eq!(error.kind(), Kind::NotFound);
        let store = Store::open(place, Access::Write).await.expect("made");
        assert!(store.url.as_str().ends_with("/a/b/"), "{}", store.url);
        Store::open(&format!("file://{place}"), Access::Read).await.expect("there now");
        let left = std::fs::read_dir(folder.path().join("a/b/_tokenwatt")).expect("probe folder").count();
        assert_eq!(left, 0, "the probe is removed");
    }

    #[tokio::test]
    async fn a_place_that_cannot_hold_a_lake_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "x").expect("a file");
        for place in [format!("{}/lake", file.display()), "ftp://host/x".to_owned(), "s3://".to_owned()] {
            let error = Store::open(&place, Access::Write).await.err().expect(&place);
            assert!(matches!(error.kind(), Kind::Invalid | Kind::Denied), "{place}: {error}");
            assert!(error.hint().is_some(), "{place}: {error}");
        }
    }
}
