//! A process that dies between any two of its writes leaves windows that are right.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use serde_json::json;
use telemetry::table::{DEVICES, PRICES, REQUESTS, RESTATEMENTS, TOKENS};

use super::super::cost::{INF2, price, seen};
use super::super::restatements::{import_discount, import_price};
use super::{Draws, MINUTE, NOON, Site, calls, tokens};

/// A store that takes so many more writes and then answers nothing but errors.
#[derive(Debug)]
struct Mortal {
    inner: InMemory,
    /// Writes left; below zero it is dead.
    left: AtomicI64,
    /// Whether the write that killed it was applied all the same.
    last_words: bool,
}

impl Display for Mortal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mortal")
    }
}

impl Mortal {
    fn dead() -> Error {
        Error::Generic { store: "mortal", source: "the connection was reset".into() }
    }

    fn check(&self) -> Result<()> {
        if self.left.load(Ordering::SeqCst) < 0 { Err(Mortal::dead()) } else { Ok(()) }
    }
}

#[async_trait]
impl ObjectStore for Mortal {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let left = self.left.fetch_sub(1, Ordering::SeqCst) - 1;
        if left < -1 || (left == -1 && !self.last_words) {
            return Err(Mortal::dead());
        }
        let answer = self.inner.put_opts(location, payload, opts).await?;
        self.check().map(|()| answer)
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.check()?;
        self.inner.get_opts(location, options).await
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

/// Writes that the store is left to live for; a round of all roll-ups takes fewer.
const ENOUGH: i64 = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_may_die_between_any_two_writes() {
    for writes in 0..9_i64 {
        let last_words = writes % 2 == 0;
        let store = Arc::new(Mortal { inner: InMemory::new(), left: AtomicI64::new(ENOUGH), last_words });
        let site = Site::on(Arc::clone(&store) as Arc<dyn ObjectStore>).await;
        let mut draws = Draws(writes.unsigned_abs());
        site.write(&REQUESTS, &calls(&mut draws, NOON, NOON + 2 * MINUTE, 0)).await;
        site.write(&TOKENS, &tokens(&mut draws, NOON, NOON + 2 * MINUTE, 0)).await;
        site.clock.set(NOON + 5 * MINUTE);
        store.left.store(writes, Ordering::SeqCst);
        let outcome = site.try_build().await;
        let died = store.left.load(Ordering::SeqCst) < 0;
        assert_eq!(outcome.is_err(), died, "{outcome:?} after {writes} writes");
        store.left.store(ENOUGH, Ordering::SeqCst);
        site.compare(&format!("after {writes} writes and a death")).await;
        site.build().await;
        site.compare(&format!("after {writes} writes, a death and another life")).await;
        let sums = "SELECT sum(requests), sum(output_tokens) FROM";
        let stored = site.world.rows(&format!("{sums} requests_1m")).await;
        assert_eq!(stored, site.world.rows(&format!("{sums} raw.requests_minutes")).await, "after {writes} writes");
        assert_ne!(stored[0][0], json!(null));
    }
}

/// An hour at 60 USD is restated to 90 by a process that dies, and a discount comes before the next one finishes; meanwhile small files are
/// merged. However far the first came, the history leads from 60 to what the hour is, each line beginning where the one before ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_of_an_hour_has_no_gap_whenever_a_process_dies() {
    for writes in 0..6_i64 {
        let last_words = writes % 2 == 0;
        let store = Arc::new(Mortal { inner: InMemory::new(), left: AtomicI64::new(ENOUGH), last_words });
        let site = Site::on(Arc::clone(&store) as Arc<dyn ObjectStore>).await;
        site.world.write(&PRICES, &[price(INF2, "on_demand", "60", json!({}))]).await;
        site.world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
        site.clock.set(NOON + 90 * MINUTE);
        site.build().await;
        import_price(&site, "mine", 90, NOON - 60 * MINUTE).await;
        store.left.store(writes, Ordering::SeqCst);
        let outcome = site.try_build().await;
        let died = store.left.load(Ordering::SeqCst) < 0;
        assert_eq!(outcome.is_err(), died, "{outcome:?} after {writes} writes");
        store.left.store(ENOUGH, Ordering::SeqCst);
        import_discount(&site, "edp").await;
        // the day is over, so that what lies in it becomes one file
        site.clock.set(NOON + 13 * 60 * MINUTE);
        site.world.lake.compact(&RESTATEMENTS, &site.deps()).await.expect("merged");
        site.build().await;
        let sql =
            "SELECT list_before, effective_before, list_after, effective_after FROM restatements ORDER BY restated_at";
        let history = site.world.rows(sql).await;
        let mut now = vec![json!("60.000000000000"), json!(null)];
        for line in &history {
            assert_eq!(line[..2], now[..], "after {writes} writes: {history:?}");
            now = line[2..].to_vec();
        }
        let stored = site.world.rows("SELECT sum(list_cost), sum(effective_cost) FROM costs_1h").await;
        assert_eq!(stored, [now], "after {writes} writes: {history:?}");
        assert_eq!(stored[0], [json!("90.000000000000"), json!("45.000000000000")]);
    }
}

/// What the next round leaves behind it is merged like anything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_is_merged_once_its_round_is_over() {
    let site = Site::new().await;
    site.world.write(&PRICES, &[price(INF2, "on_demand", "60", json!({}))]).await;
    site.world.write(&DEVICES, &seen("i-1", INF2, 0, 60)).await;
    site.clock.set(NOON + 90 * MINUTE);
    site.build().await;
    let compact = async || {
        site.world.lake.compact(&RESTATEMENTS, &site.deps()).await.expect("merged");
        let snapshot = site.world.lake.snapshot(RESTATEMENTS.name, None).await.expect("readable");
        let merged = snapshot.files.iter().filter(|file| file.tags.contains_key("level")).count();
        (snapshot.files.len(), merged, snapshot.rows())
    };
    for (usd, files) in [(90, (1, 0, Some(1))), (80, (2, 1, Some(2))), (70, (2, 1, Some(3)))] {
        import_price(&site, "mine", usd, NOON - 60 * MINUTE).await;
        site.clock.advance(std::time::Duration::from_secs(13 * 3_600));
        site.build().await;
        assert_eq!(compact().await, files, "at {usd} USD");
    }
}
