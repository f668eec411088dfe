//! Stores that fail in the ways that lose or double data elsewhere.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use service::clock::SharedClock;
use service::{Deps, Kind};
use telemetry::table::TOKENS;
use url::Url;

use super::{Access, Lake, Store};
use crate::sample::{Hand, offer};
use crate::{Outcome, layout};

/// A store in memory whose PUTs of log entries can be made to fail, before or after they are applied.
#[derive(Debug, Default)]
struct Faulty {
    inner: InMemory,
    /// PUTs still to be refused without effect.
    refuse: AtomicU32,
    /// PUTs still to be applied and then answered with an error.
    lose_answer: AtomicU32,
    /// Whether log entries can be read.
    silent: AtomicBool,
    /// HEADs still to be answered with an error.
    blind: AtomicU32,
    /// Whether conditions of PUTs are ignored.
    careless: bool,
}

impl Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

fn fault() -> Error {
    Error::Generic { store: "faulty", source: "500 internal server error".into() }
}

fn due(counter: &AtomicU32) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, mut opts: PutOptions) -> Result<PutResult> {
        if self.careless {
            opts.mode = PutMode::Overwrite;
        }
        let entry = location.as_ref().contains("_delta_log");
        if entry && due(&self.refuse) {
            return Err(fault());
        }
        let answer = self.inner.put_opts(location, payload, opts).await?;
        if entry && due(&self.lose_answer) { Err(fault()) } else { Ok(answer) }
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if self.silent.load(Ordering::SeqCst) || (options.head && due(&self.blind)) {
            return Err(fault());
        }
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

fn store(faulty: &Arc<Faulty>) -> Store {
    let lake: Arc<dyn ObjectStore> = Arc::clone(faulty) as Arc<dyn ObjectStore>;
    Store { lake, url: Url::parse("memory:///").expect("a URL") }
}

fn lake(faulty: &Arc<Faulty>) -> Lake {
    Lake::on(store(faulty), &Deps::system(), Access::Write)
}

async fn rows_in(faulty: &Arc<Faulty>) -> Option<u64> {
    lake(faulty).snapshot("tokens", None).await.expect("readable").rows()
}

#[tokio::test]
async fn a_commit_that_was_applied_and_answered_with_an_error_is_ours() {
    let faulty = Arc::new(Faulty::default());
    let lake = lake(&faulty);
    for frame in 0..2 {
        faulty.lose_answer.store(1, Ordering::SeqCst);
        let version = i64::try_from(frame).expect("small");
        let outcome = offer(&lake, "j", frame).await.expect("committed");
        assert_eq!(outcome, Outcome::Committed { version });
    }
    assert_eq!(rows_in(&faulty).await, Some(2));
}

#[tokio::test]
async fn a_store_that_recovers_in_time_is_not_noticed() {
    let faulty = Arc::new(Faulty::default());
    faulty.refuse.store(2, Ordering::SeqCst);
    let lake = lake(&faulty);
    let outcome = offer(&lake, "j", 0).await.expect("committed");
    assert_eq!(outcome, Outcome::Committed { version: 0 });
    assert_eq!(rows_in(&faulty).await, Some(1));
}

#[tokio::test]
async fn after_an_outage_the_same_frames_with_other_files_are_counted_once() {
    let faulty = Arc::new(Faulty::default());
    let first = lake(&faulty);
    faulty.refuse.store(u32::MAX, Ordering::SeqCst);
    let error = offer(&first, "j", 0).await.expect_err("an outage");
    assert!(matches!(error.kind(), Kind::Unavailable { .. }), "{error}");
    faulty.refuse.store(0, Ordering::SeqCst);
    // The frames are committed by another process, as after a fail-over, then offered again by the first.
    let second = lake(&faulty);
    offer(&second, "j", 0).await.expect("committed");
    let outcome = offer(&first, "j", 0).await.expect("answered");
    assert_eq!(outcome, Outcome::Through(1));
    assert_eq!(rows_in(&faulty).await, Some(1));
}

#[tokio::test]
async fn readers_keep_the_last_version_while_the_store_is_silent() {
    let faulty = Arc::new(Faulty::default());
    let clock = Arc::new(Hand::default());
    let lake = Lake::on(store(&faulty), &Deps::new(Arc::clone(&clock) as SharedClock), Access::Write);
    offer(&lake, "j", 0).await.expect("committed");
    faulty.silent.store(true, Ordering::SeqCst);
    clock.pass(Duration::from_secs(10));
    assert_eq!(lake.snapshot("tokens", None).await.expect("what was seen last").rows(), Some(1));
    clock.pass(Duration::from_secs(90));
    let error = lake.snapshot("tokens", None).await.expect_err("too long ago");
    assert!(matches!(error.kind(), Kind::Unavailable { .. }), "{error}");
    faulty.silent.store(false, Ordering::SeqCst);
    offer(&lake, "j", 1).await.expect("committed");
    assert_eq!(lake.snapshot("tokens", None).await.expect("readable").rows(), Some(2));
}

/// A look at the log that the store does not answer costs no commit and settles nothing: the next look asks for the same version, and
/// finds that it is gone. What was acknowledged is there once when the log is put back.
#[tokio::test]
async fn a_look_that_is_not_answered_is_made_again_for_the_same_version() {
    let faulty = Arc::new(Faulty::default());
    let clock = Arc::new(Hand::default());
    let lake = Lake::on(store(&faulty), &Deps::new(Arc::clone(&clock) as SharedClock), Access::Write);
    for frame in 0..2 {
        offer(&lake, "j", frame).await.expect("committed");
    }
    clock.pass(LOOKED_FOR_AGAIN);
    faulty.blind.store(1, Ordering::SeqCst);
    assert_eq!(offer(&lake, "j", 2).await.expect("committed"), Outcome::Committed { version: 2 });
    assert_eq!(faulty.blind.load(Ordering::SeqCst), 0, "it was looked for");
    let first = layout::commit_path(&TOKENS, 0);
    let body = faulty.inner.get(&first).await.expect("there").bytes().await.expect("whole");
    faulty.inner.delete(&first).await.expect("removed");
    assert_eq!(offer(&lake, "j", 3).await.expect("no look is due"), Outcome::Committed { version: 3 });
    clock.pass(LOOKED_FOR_AGAIN);
    let error = offer(&lake, "j", 4).await.expect_err("the log was removed");
    assert!(error.message().contains("version 0 of the log"), "{error}");
    faulty.inner.put(&first, body.into()).await.expect("put back");
    assert_eq!(offer(&lake, "j", 4).await.expect("committed"), Outcome::Committed { version: 4 });
    assert_eq!(rows_in(&faulty).await, Some(5));
}

/// Longer than a writer goes without looking for the version it knows.
const LOOKED_FOR_AGAIN: Duration = Duration::from_secs(11);

#[tokio::test]
async fn a_store_that_ignores_conditions_is_refused_at_opening() {
    let faulty = Arc::new(Faulty { careless: true, ..Faulty::default() });
    let error = store(&faulty).ready(Access::Write).await.err().expect("a careless store");
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.hint().is_some_and(|hint| hint.contains("If-None-Match")), "{error:?}");
    assert!(store(&faulty).ready(Access::Read).await.is_ok(), "readers do not mind");
    assert!(store(&Arc::default()).ready(Access::Write).await.is_ok());
}
