#![expect(clippy::single_range_in_vec_init, reason = "the ranges asked for are a list, also where it is one")]

use std::sync::atomic::{AtomicUsize, Ordering};

use object_store::{ObjectStoreExt, memory::InMemory};

use super::*;

/// A store that counts what it is asked for.
#[derive(Debug)]
struct Counting {
    inner: InMemory,
    gets: AtomicUsize,
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counting")
    }
}

#[async_trait]
impl ObjectStore for Counting {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        // Whoever asks at the same time gets the chance to.
        tokio::task::yield_now().await;
        self.inner.get_opts(location, options).await
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
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

/// Three blocks, the last one short, whose bytes tell where they are from.
async fn stored() -> (Arc<Counting>, Path, Vec<u8>) {
    let bytes: Vec<u8> = (0..BLOCK_BYTES * 2 + 1_000).map(|at| (at % 251) as u8).collect();
    let (store, path) = (InMemory::new(), Path::from("t/a.parquet"));
    store.put(&path, bytes.clone().into()).await.expect("put");
    (Arc::new(Counting { inner: store, gets: AtomicUsize::new(0) }), path, bytes)
}

fn cached(store: &Arc<Counting>, disk: Option<(usize, PathBuf)>) -> Cached {
    let room = Room { memory_bytes: 64 << 20, disk };
    Cached::new(Arc::clone(store) as Arc<dyn ObjectStore>, room, &Deps::system())
}

#[tokio::test]
async fn ranges_come_out_as_they_went_in_and_a_block_is_read_once() {
    let (store, path, bytes) = stored().await;
    let cache = cached(&store, None);
    let end = bytes.len() as u64;
    let ranges = [0..10, BLOCK_BYTES - 5..BLOCK_BYTES + 5, 7..7, 3..end, end - 1..end, BLOCK_BYTES..2 * BLOCK_BYTES];
    for _ in 0..2 {
        let parts = cache.get_ranges(&path, &ranges).await.expect("readable");
        for (part, range) in parts.iter().zip(&ranges) {
            assert_eq!(part.as_ref(), &bytes[range.start as usize..range.end as usize], "{range:?}");
        }
    }
    assert_eq!(cache.get_range(&path, 5..9).await.expect("readable").as_ref(), &bytes[5..9]);
    assert_eq!(store.gets.load(Ordering::SeqCst), 3, "one request a block");
}

#[tokio::test]
async fn many_who_ask_for_one_block_at_once_cost_one_request() {
    let (store, path, _) = stored().await;
    let cache = cached(&store, None);
    let ranges = [0..100];
    let asks = (0..20).map(|_| cache.get_ranges(&path, &ranges));
    futures::future::try_join_all(asks).await.expect("readable");
    assert_eq!(store.gets.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_object_that_is_gone_or_too_short_is_an_error_and_not_remembered() {
    let (store, path, bytes) = stored().await;
    let cache = cached(&store, None);
    let gone = Path::from("t/b.parquet");
    let error = cache.get_ranges(&gone, &[0..1]).await.expect_err("gone");
    assert!(matches!(error, object_store::Error::NotFound { .. }), "{error:?}");
    store.inner.put(&gone, "x".into()).await.expect("put");
    assert_eq!(cache.get_ranges(&gone, &[0..1]).await.expect("there now")[0].as_ref(), b"x");
    let beyond = bytes.len() as u64 + 1;
    assert!(cache.get_ranges(&path, &[0..beyond]).await.is_err());
}

#[tokio::test]
async fn blocks_on_disk_are_found_by_the_next_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let (store, path, bytes) = stored().await;
    let disk = Some((DISK_BYTES_MIN, directory.path().to_owned()));
    let first = cached(&store, disk.clone());
    first.get_ranges(&path, &[0..bytes.len() as u64]).await.expect("readable");
    let opened = first.blocks().await.expect("opened");
    opened.close().await.expect("closed");
    let second = cached(&store, disk);
    let again = second.get_ranges(&path, &[10..20]).await.expect("readable");
    assert_eq!(again[0].as_ref(), &bytes[10..20]);
    assert_eq!(store.gets.load(Ordering::SeqCst), 3, "nothing was read again");
}
