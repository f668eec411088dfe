//! Blocks of data files, kept near: in memory and, if configured, on a local disk.
//!
//! ```text
//! ranges ─► aligned blocks ─► memory ─► disk ─► store (one request a block, however many ask)
//! ```
//!
//! Data files never change, so a block is named by its path and place and never stale. Only a store behind a network has such a
//! cache: for a directory the kernel does the same. What would only push everything else out goes past it (see `scan`).

use std::{
    collections::BTreeMap,
    fmt,
    io::{Read, Write},
    ops::Range,
    path::PathBuf,
    sync::Arc,
    time::UNIX_EPOCH,
};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use foyer::{
    BlockEngineConfig, Code, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder, HybridCachePolicy, Source,
};
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};
use service::{Deps, metrics::Counter};
use tokio::sync::OnceCell;

/// Bytes of a block: a page of a few columns lies in one, and a request for it takes little longer than for a page.
const BLOCK_BYTES: u64 = 1 << 20;
/// Blocks of one call that are read at once.
const BLOCKS_AT_ONCE: usize = 16;
/// Bytes of the files that blocks on disk are gathered in.
const DISK_FILE_BYTES: usize = 16 << 20;
/// Fewer bytes hold too few such files to be worth a disk.
const DISK_BYTES_MIN: usize = 8 * DISK_FILE_BYTES;

/// What a cache may take.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// Bytes of blocks in memory.
    pub(crate) memory_bytes: usize,
    /// Bytes of blocks on disk, and where.
    pub(crate) disk: Option<(usize, PathBuf)>,
}

/// A store whose blocks are kept.
pub(crate) struct Cached {
    inner: Arc<dyn ObjectStore>,
    room: Room,
    /// Opened by the first who reads: a disk takes a while. `None` if it cannot be.
    blocks: OnceCell<Option<HybridCache<String, Block>>>,
    memory: Counter,
    disk: Counter,
    store: Counter,
}

/// Part of an object.
#[derive(Clone, Debug)]
struct Block {
    /// Bytes of the whole object.
    object_bytes: u64,
    bytes: Bytes,
}

impl Cached {
    /// A cache in front of a store. Nothing is opened yet.
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, room: Room, deps: &Deps) -> Cached {
        let from = |place: &str| {
            let help = "Blocks of data files that queries asked for, by where they were found.";
            deps.metrics.counter("tokenwatt_query_blocks_total", help, &[("found", place.to_owned())])
        };
        let (memory, disk, store) = (from("memory"), from("disk"), from("store"));
        Cached { inner, room, blocks: OnceCell::new(), memory, disk, store }
    }

    async fn blocks(&self) -> Option<&HybridCache<String, Block>> {
        let open = || async {
            let opened = open(&self.room).await;
            let noted = opened.inspect_err(|error| {
                let error = error.to_string();
                tracing::warn!(error, "the cache of data files cannot be opened; queries read the store each time");
            });
            noted.ok()
        };
        self.blocks.get_or_init(open).await.as_ref()
    }

    async fn block(&self, cache: &HybridCache<String, Block>, path: &Path, number: u64) -> Result<Block> {
        let (inner, location) = (Arc::clone(&self.inner), path.clone());
        let fetch = || async move { fetch(inner.as_ref(), &location, number).await };
        let entry = cache.get_or_fetch(&format!("{path}#{number}"), fetch).await;
        let entry = entry.map_err(|error| match error.downcast_ref::<object_store::Error>() {
            Some(object_store::Error::NotFound { path, .. }) => {
                object_store::Error::NotFound { path: path.clone(), source: error.to_string().into() }
            }
            _ => object_store::Error::Generic { store: "cached", source: error.to_string().into() },
        })?;
        match entry.source() {
            Source::Memory => self.memory.inc(),
            Source::Disk => self.disk.inc(),
            Source::Outer => self.store.inc(),
        }
        Ok(entry.value().clone())
    }

    async fn ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<(u64, Vec<Bytes>)> {
        let Some(cache) = self.blocks().await else {
            return Ok((0, self.inner.get_ranges(path, ranges).await?));
        };
        let numbers = ranges.iter().filter(|range| !range.is_empty()).flat_map(numbers);
        let numbers: std::collections::BTreeSet<u64> = numbers.collect();
        let reads = numbers.into_iter().map(|number| async move {
            Ok::<_, object_store::Error>((number, self.block(cache, path, number).await?))
        });
        let reads: Vec<_> = reads.collect();
        let blocks: BTreeMap<u64, Block> = stream::iter(reads).buffer_unordered(BLOCKS_AT_ONCE).try_collect().await?;
        let object_bytes = blocks.values().next().map_or(0, |block| block.object_bytes);
        let parts = ranges.iter().map(|range| part(path, &blocks, range)).collect::<Result<_>>()?;
        Ok((object_bytes, parts))
    }
}

async fn open(room: &Room) -> foyer::Result<HybridCache<String, Block>> {
    let builder = HybridCacheBuilder::new()
        .with_policy(HybridCachePolicy::WriteOnInsertion)
        .memory(room.memory_bytes)
        .with_weighter(|key: &String, block: &Block| key.len() + block.bytes.len())
        .storage();
    match &room.disk {
        Some((bytes, directory)) if *bytes >= DISK_BYTES_MIN => {
            let device = FsDeviceBuilder::new(directory).with_capacity(*bytes).build()?;
            let engine = BlockEngineConfig::new(device).with_block_size(DISK_FILE_BYTES);
            builder.with_engine_config(engine).build().await
        }
        _ => builder.build().await,
    }
}

async fn fetch(store: &dyn ObjectStore, path: &Path, number: u64) -> Result<Block> {
    let from = number * BLOCK_BYTES;
    let range = GetRange::Bounded(from..from + BLOCK_BYTES);
    let answer = store.get_opts(path, GetOptions { range: Some(range), ..GetOptions::default() }).await?;
    let object_bytes = answer.meta.size;
    Ok(Block { object_bytes, bytes: answer.bytes().await? })
}

/// The blocks that a range touches.
fn numbers(range: &Range<u64>) -> Range<u64> {
    range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES)
}

/// A range, cut out of its blocks and put together if it touches several.
fn part(path: &Path, blocks: &BTreeMap<u64, Block>, range: &Range<u64>) -> Result<Bytes> {
    let cut = |number: u64| {
        let block = &blocks.get(&number)?.bytes;
        let within = |at: u64| usize::try_from(at.saturating_sub(number * BLOCK_BYTES)).ok();
        let end = within(range.end.min((number + 1) * BLOCK_BYTES))?;
        let start = within(range.start)?;
        (end <= block.len()).then(|| block.slice(start..end))
    };
    let beyond = || object_store::Error::Generic {
        store: "cached",
        source: format!("{path} ends before byte {}", range.end).into(),
    };
    let mut cuts = numbers(range).filter(|_| !range.is_empty()).map(|number| cut(number).ok_or_else(beyond));
    let first = cuts.next().transpose()?.unwrap_or_default();
    let Some(second) = cuts.next().transpose()? else { return Ok(first) };
    let mut whole = BytesMut::with_capacity(usize::try_from(range.end - range.start).unwrap_or(0));
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&second);
    for cut in cuts {
        whole.extend_from_slice(&cut?);
    }
    Ok(whole.freeze())
}

impl Code for Block {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        self.object_bytes.encode(writer)?;
        self.bytes.encode(writer)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Block> {
        Ok(Block { object_bytes: u64::decode(reader)?, bytes: Bytes::decode(reader)? })
    }

    fn estimated_size(&self) -> usize {
        self.object_bytes.estimated_size() + self.bytes.estimated_size()
    }
}

#[async_trait]
impl ObjectStore for Cached {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let GetOptions { range: Some(GetRange::Bounded(range)), head: false, version: None, .. } = &options else {
            return self.inner.get_opts(location, options).await;
        };
        let is_conditional = options.if_match.is_some()
            || options.if_none_match.is_some()
            || options.if_modified_since.is_some()
            || options.if_unmodified_since.is_some();
        if is_conditional || self.blocks().await.is_none() {
            return self.inner.get_opts(location, options).await;
        }
        let range = range.clone();
        let (size, mut parts) = self.ranges(location, std::slice::from_ref(&range)).await?;
        let bytes = parts.pop().unwrap_or_default();
        // When it was written is not kept; nobody asks that of a range.
        let meta = ObjectMeta {
            location: location.clone(),
            last_modified: UNIX_EPOCH.into(),
            size,
            e_tag: None,
            version: None,
        };
        let payload = GetResultPayload::Stream(stream::once(async move { Ok(bytes) }).boxed());
        Ok(GetResult { payload, meta, range, attributes: object_store::Attributes::default() })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        Ok(self.ranges(location, ranges).await?.1)
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

impl fmt::Debug for Cached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cached({:?})", self.inner)
    }
}

impl fmt::Display for Cached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cached {}", self.inner)
    }
}

#[cfg(test)]
mod tests;
