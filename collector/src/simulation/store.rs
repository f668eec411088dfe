//! An object store that fails in every way that S3 and the network before it are known to.

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use service::clock::Clock;

use super::clock::SimClock;
use super::life::Life;

/// How long a client waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How late a request may arrive whose client has given up.
const LATE_MS: u64 = 60_000;

/// The bucket and the way to it; it outlives every process.
#[derive(Clone)]
pub(super) struct Bucket {
    pub(super) objects: Arc<InMemory>,
    /// When each object was written by the bucket's clock, which is right; nanoseconds since 1970-01-01 UTC.
    written_ns: Arc<Mutex<HashMap<Path, u64>>>,
    clock: SimClock,
    weather: Arc<Mutex<Weather>>,
}

/// What requests meet.
struct Weather {
    /// Share of requests that meet a fault.
    faults: f64,
    /// Whether nothing answers.
    outage: bool,
    rng: StdRng,
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// 500 or 503, nothing done.
    Refused,
    /// Done, then 500.
    AnswerLost,
    /// 409: said to be there already, and is not.
    Conflict,
    /// 412.
    Precondition,
    /// No answer in time, nothing done.
    Dropped,
    /// No answer in time, and done.
    DroppedAfter,
    /// No answer in time, and done later.
    Late,
    /// Answered after a while.
    Slow,
}

const FAULTS: [Fate; 8] = [
    Fate::Refused,
    Fate::AnswerLost,
    Fate::Conflict,
    Fate::Precondition,
    Fate::Dropped,
    Fate::DroppedAfter,
    Fate::Late,
    Fate::Slow,
];

impl Bucket {
    pub(super) fn new(clock: &SimClock, seed: u64) -> Self {
        let weather = Weather { faults: 0.0, outage: false, rng: StdRng::seed_from_u64(seed) };
        let (objects, written_ns, clock) = (Arc::default(), Arc::default(), clock.clone());
        Self { objects, written_ns, clock, weather: Arc::new(Mutex::new(weather)) }
    }

    pub(super) fn weather(&self, faults: f64, outage: bool) {
        let mut weather = self.weather.lock();
        (weather.faults, weather.outage) = (faults, outage);
    }

    async fn put(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let answer = self.objects.put_opts(location, payload, opts).await?;
        self.written_ns.lock().insert(location.clone(), self.clock.true_ns());
        Ok(answer)
    }

    /// What is known of an object, by the bucket's clock.
    fn dated(&self, meta: ObjectMeta) -> ObjectMeta {
        let Some(ns) = self.written_ns.lock().get(&meta.location).copied() else { return meta };
        ObjectMeta { last_modified: (UNIX_EPOCH + Duration::from_nanos(ns)).into(), ..meta }
    }

    /// Whether a call between two processes gets there, and whether its answer comes back.
    pub(super) async fn call(&self) -> (bool, bool) {
        let fate = self.fate().await;
        match fate {
            Fate::Answered | Fate::Slow | Fate::Conflict | Fate::Precondition => (true, true),
            Fate::AnswerLost | Fate::DroppedAfter | Fate::Late => (true, false),
            Fate::Refused | Fate::Dropped => (false, false),
        }
    }

    /// Waits for a request to get there and says what becomes of it.
    async fn fate(&self) -> Fate {
        let (fate, travel) = {
            let mut weather = self.weather.lock();
            let travel = Duration::from_millis(weather.rng.random_range(1..20));
            let faults = weather.faults;
            let fate = match (weather.outage, weather.rng.random_bool(faults)) {
                (true, _) if weather.rng.random_bool(0.5) => Fate::Dropped,
                (true, _) => Fate::Refused,
                (false, true) => FAULTS[weather.rng.random_range(0..FAULTS.len())],
                (false, false) => Fate::Answered,
            };
            (fate, travel)
        };
        self.clock.sleep(travel).await;
        match fate {
            Fate::Dropped => self.clock.sleep(TIMEOUT).await,
            Fate::Slow => self.clock.sleep(travel * 200).await,
            _ => {}
        }
        fate
    }

    /// The store as one life of a process has it.
    pub(super) fn store(&self, life: &Arc<Life>) -> Arc<dyn ObjectStore> {
        Arc::new(SimStore { bucket: self.clone(), life: Arc::clone(life) })
    }
}

#[derive(Clone)]
struct SimStore {
    bucket: Bucket,
    life: Arc<Life>,
}

impl SimStore {
    /// What becomes of a request. A process that is dead waits for ever.
    async fn fate(&self) -> Fate {
        self.step().await;
        self.bucket.fate().await
    }

    async fn step(&self) {
        if !self.life.step() {
            std::future::pending::<()>().await;
        }
    }

    /// The fate of a request that changes nothing.
    async fn read(&self) -> Result<()> {
        match self.fate().await {
            Fate::Answered | Fate::Slow => Ok(()),
            _ => Err(unavailable()),
        }
    }
}

fn unavailable() -> Error {
    Error::Generic { store: "simulated", source: "503 slow down".into() }
}

impl Display for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimStore")
    }
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimStore")
    }
}

#[async_trait]
impl ObjectStore for SimStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let fate = self.fate().await;
        let path = location.to_string();
        // The probe at opening is refused in other ways, too, but says another thing of some of them.
        let probe = location.as_ref().starts_with("_tokenwatt");
        match fate {
            Fate::Conflict | Fate::Precondition if probe => return Err(unavailable()),
            Fate::Refused | Fate::Dropped => return Err(unavailable()),
            Fate::Conflict => return Err(Error::AlreadyExists { path, source: "409 conflict".into() }),
            Fate::Precondition => return Err(Error::Precondition { path, source: "412 precondition failed".into() }),
            Fate::Late => {
                let (bucket, location) = (self.bucket.clone(), location.clone());
                let late = Duration::from_millis(bucket.weather.lock().rng.random_range(0..LATE_MS));
                // The network knows nothing of the process: the request arrives even if its sender is dead.
                tokio::spawn(async move {
                    bucket.clock.sleep(late).await;
                    let _ = bucket.put(&location, payload, opts).await;
                });
                self.bucket.clock.sleep(TIMEOUT).await;
                return Err(unavailable());
            }
            Fate::Answered | Fate::AnswerLost | Fate::DroppedAfter | Fate::Slow => {}
        }
        let answer = self.bucket.put(location, payload, opts).await;
        self.step().await;
        match fate {
            Fate::AnswerLost => Err(unavailable()),
            Fate::DroppedAfter => {
                self.bucket.clock.sleep(TIMEOUT).await;
                Err(unavailable())
            }
            _ => answer,
        }
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.read().await?;
        self.bucket.objects.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.read().await?;
        let mut found = self.bucket.objects.get_opts(location, options).await?;
        found.meta = self.bucket.dated(found.meta);
        Ok(found)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let delete = move |location: Result<Path>| {
            let store = store.clone();
            async move {
                let location = location?;
                let fate = store.fate().await;
                if !matches!(fate, Fate::Answered | Fate::Slow | Fate::AnswerLost | Fate::DroppedAfter) {
                    return Err(unavailable());
                }
                store.bucket.objects.delete(&location).await?;
                store.step().await;
                if matches!(fate, Fate::Answered | Fate::Slow) { Ok(location) } else { Err(unavailable()) }
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        let bucket = store.bucket.clone();
        let found = async move { store.read().await.map(|()| store.bucket.objects.list(prefix.as_ref())) };
        stream::once(found).try_flatten().map_ok(move |meta| bucket.dated(meta)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.read().await?;
        self.bucket.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.read().await?;
        self.bucket.objects.copy_opts(from, to, options).await
    }
}
