//! Merges cut short at every request to the store, before it is applied and after.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use service::Deps;
use telemetry::table::TOKENS;

use super::tests::{SOON_US, indices, newest};
use super::{Compaction, Times};
use crate::Lake;
use crate::sample::offer;

/// A store that answers so many requests and then none.
#[derive(Debug)]
struct Breaking {
    inner: Arc<InMemory>,
    left: AtomicU32,
    /// Whether the first request that is not answered is applied all the same.
    applies: bool,
}

impl Breaking {
    /// Whether this request is answered; if not, whether it is applied.
    fn next(&self) -> (bool, bool) {
        let spent = |left: u32| left.checked_sub(1);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spent) {
            Ok(1) => (false, self.applies),
            Ok(_) => (true, true),
            Err(_) => (false, false),
        }
    }

    fn broken<T>(&self) -> Result<T> {
        Err(Error::Generic { store: "breaking", source: "connection reset".into() })
    }
}

impl Display for Breaking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Breaking")
    }
}

#[async_trait]
impl ObjectStore for Breaking {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let (answered, applied) = self.next();
        let outcome = if applied { self.inner.put_opts(location, payload, opts).await } else { self.broken() };
        if answered { outcome } else { self.broken() }
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if self.next().0 { self.inner.get_opts(location, options).await } else { self.broken() }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        if self.next().0 { self.inner.list(prefix) } else { stream::once(std::future::ready(self.broken())).boxed() }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        if self.next().0 { self.inner.list_with_delimiter(prefix).await } else { self.broken() }
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

async fn sorted(lake: &Lake) -> Vec<i64> {
    let mut found = indices(lake, &*newest(lake).await).await;
    found.sort_unstable();
    found
}

/// One merge on a store that breaks after so many requests; whether it was finished.
async fn merge_until_broken(inner: &Arc<InMemory>, requests: u32, applies: bool) -> bool {
    let store = Arc::new(Breaking { inner: Arc::clone(inner), left: AtomicU32::new(u32::MAX), applies });
    let lake = Lake::open_on(store.clone(), &Deps::system()).await.expect("a lake");
    // Not as a reader does, or the log would be looked at in the background as well.
    lake.through(&TOKENS, "j").await.expect("readable");
    store.left.store(requests, Ordering::SeqCst);
    matches!(Compaction::new(&Deps::system()).step(&lake, &TOKENS, Times::at(SOON_US)).await, Ok(Some(_)))
}

#[tokio::test]
async fn a_merge_cut_short_at_any_request_leaves_every_row_once_and_the_next_one_finishes() {
    let mut finished = [false; 2];
    for requests in 1..=6 {
        for applies in [false, true] {
            let inner = Arc::new(InMemory::new());
            let lake = Lake::open_on(inner.clone(), &Deps::system()).await.expect("a lake");
            for frame in 0..3 {
                offer(&lake, "j", frame).await.expect("committed");
            }
            finished[usize::from(applies)] |= merge_until_broken(&inner, requests, applies).await;
            // The process is gone; another one looks.
            let fresh = Lake::open_on(inner, &Deps::system()).await.expect("a lake");
            assert_eq!(sorted(&fresh).await, [0, 1, 2], "after {requests} requests");
            assert_eq!(fresh.through(&TOKENS, "j").await.expect("readable"), Some(3));
            while Compaction::new(&Deps::system())
                .step(&fresh, &TOKENS, Times::at(SOON_US))
                .await
                .expect("merged")
                .is_some()
            {}
            assert_eq!((newest(&fresh).await.files.len(), sorted(&fresh).await), (1, vec![0, 1, 2]));
            offer(&fresh, "j", 3).await.expect("the journal goes on");
        }
    }
    assert_eq!(finished, [true; 2], "the last of them had requests enough");
}
