//! A store whose PUTs stay in memory until we decide what becomes of them.

use std::fmt::{self, Display};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// Reads see what was put here, then what lies below; writes and deletes never reach below.
#[derive(Debug)]
pub(crate) struct Scratch {
    written: InMemory,
    below: Arc<dyn ObjectStore>,
}

impl Scratch {
    pub(crate) fn over(below: Arc<dyn ObjectStore>) -> Scratch {
        Scratch { written: InMemory::new(), below }
    }

    /// Everything that was put, by path.
    pub(crate) async fn written(&self) -> Result<Vec<(Path, Bytes)>> {
        let mut objects = Vec::new();
        let files: Vec<_> = self.written.list(None).try_collect().await?;
        for file in files {
            let body = self.written.get(&file.location).await?.bytes().await?;
            objects.push((file.location, body));
        }
        Ok(objects)
    }
}

impl Display for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scratch({})", self.below)
    }
}

#[async_trait]
impl ObjectStore for Scratch {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.written.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.written.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.written.get_opts(location, options.clone()).await {
            Err(Error::NotFound { .. }) => self.below.get_opts(location, options).await,
            answer => answer,
        }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.written.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.below.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.below.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.below.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.written.copy_opts(from, to, options).await
    }
}
