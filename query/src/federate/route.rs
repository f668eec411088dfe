//! The files of several lakes as one store: the first part of a path is the lake's name.
//!
//! One store, because then whatever keeps footers or blocks of files by their path cannot take one lake's for another's.

use std::{collections::BTreeMap, fmt, ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};

use super::{Federation, Site};

/// The name that errors call this store by.
const STORE: &str = "lakes";

/// Reads go to the lake that the path names, and what goes wrong there is noted of it. Nothing is written or listed.
pub(super) struct Routed {
    sites: BTreeMap<String, Arc<Site>>,
}

impl Routed {
    pub(super) fn new(federation: &Federation) -> Routed {
        Routed { sites: federation.sites.iter().map(|site| (site.name().to_owned(), Arc::clone(site))).collect() }
    }

    async fn within(&self, location: &Path) -> Result<(&Site, Arc<dyn ObjectStore>, Path)> {
        let unknown = || Error::NotFound { path: location.to_string(), source: "no lake of that name".into() };
        let mut parts = location.parts();
        let site = parts.next().and_then(|name| self.sites.get(name.as_ref())).ok_or_else(unknown)?;
        let lake = site.lake().await.map_err(|error| {
            site.failed(service::error::chain(&error));
            Error::Generic { store: STORE, source: error.into() }
        })?;
        Ok((site, lake.store(), Path::from_iter(parts)))
    }
}

/// Notes what is wrong with a lake. A file that is gone is not: it may have been merged away long ago.
fn noted<T>(site: &Site, outcome: Result<T>) -> Result<T> {
    if let Err(error) = &outcome
        && !matches!(error, Error::NotFound { .. })
    {
        site.failed(error.to_string());
    }
    outcome
}

fn only_reads() -> Error {
    Error::NotSupported { source: "several lakes as one are only read".into() }
}

#[async_trait]
impl ObjectStore for Routed {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (site, store, path) = self.within(location).await?;
        let mut got = noted(site, store.get_opts(&path, options).await)?;
        got.meta.location = location.clone();
        Ok(got)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (site, store, path) = self.within(location).await?;
        noted(site, store.get_ranges(&path, ranges).await)
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(only_reads())
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(only_reads())
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations.and_then(|_| async { Err(only_reads()) }).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::iter([Err(only_reads())]).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(only_reads())
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(only_reads())
    }
}

impl fmt::Debug for Routed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.sites.keys()).finish()
    }
}

impl fmt::Display for Routed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STORE)
    }
}
