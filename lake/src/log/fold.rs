//! Making a checkpoint: the Delta library folds a copy of the log in memory, and what it writes there is the checkpoint. It
//! would overwrite what another process is writing.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use service::{Error, Result};
use telemetry::table::Table;
use url::Url;

use crate::store::failure;

/// The objects of a checkpoint of `version`, made of the objects of `log` that lead to it. Blocks its thread.
///
/// # Errors
/// `Invalid` without a version, `Internal`.
pub(super) fn fold(table: &Table, version: i64, log: Vec<(Path, Bytes)>) -> Result<Vec<(Path, Bytes)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::internal("start a runtime for a checkpoint").with_source(error))?;
    runtime.block_on(checkpoint(table, version, log))
}

async fn checkpoint(table: &Table, version: i64, log: Vec<(Path, Bytes)>) -> Result<Vec<(Path, Bytes)>> {
    let invalid = |_| Error::invalid(format!("table {} has no version to checkpoint", table.name));
    let at = u64::try_from(version).map_err(invalid)?;
    let named = |e| Error::internal("name a copy of a log").with_source(e);
    let url = Url::parse(&format!("memory:///{}/", table.name)).map_err(named)?;
    let copy = Arc::new(InMemory::new());
    let mut copied = HashSet::new();
    for (path, body) in log {
        copy.put(&path, body.into()).await.map_err(|e| failure(format!("copy {path}"), e))?;
        copied.insert(path);
    }
    let failed = |what: &str, e: deltalake::DeltaTableError| {
        Error::internal(format!("{what} version {version} of table {} for a checkpoint", table.name)).with_source(e)
    };
    let backend: Arc<dyn ObjectStore> = Arc::clone(&copy) as Arc<dyn ObjectStore>;
    let builder = deltalake::DeltaTableBuilder::from_url(url.clone()).map_err(|e| failed("locate", e))?;
    let loaded = builder.with_storage_backend(backend, url).with_version(at).load().await;
    let loaded = loaded.map_err(|e| failed("load", e))?;
    deltalake::checkpoints::create_checkpoint(&loaded, None).await.map_err(|e| failed("fold", e))?;
    let unread = |e| failure("read back a checkpoint", e);
    let found: Vec<_> = copy.list(None).try_collect().await.map_err(unread)?;
    let mut made = Vec::new();
    for object in found.into_iter().filter(|object| !copied.contains(&object.location)) {
        let body = copy.get(&object.location).await.map_err(unread)?.bytes().await.map_err(unread)?;
        made.push((object.location, body));
    }
    Ok(made)
}
