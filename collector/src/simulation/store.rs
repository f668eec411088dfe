//! An object store that fails in every way that S3 and the network before it are known to.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
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
        Self { objects: Arc::default(), clock: clock.clone(), weather: Arc::new(Mutex::new(weather)) }
    }

    pub(super) fn weather(&self, faults: f64, outage: bool) {
        let mut weather = self.weather.lock();
        (weather.faults, weather.outage) = (faults, outage);
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
    /// Waits for the request to get there and says what becomes of it. A process that is dead waits for ever.
    async fn fate(&self) -> Fate {
        self.step().await;
        let (fate, travel) = {
            let mut weather = self.bucket.weather.lock();
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
        self.bucket.clock.sleep(travel).await;
        match fate {
            Fate::Dropped => self.bucket.clock.sleep(TIMEOUT).await,
            Fate::Slow => self.bucket.clock.sleep(travel * 200).await,
            _ => {}
        }
        fate
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
                    let _ = bucket.objects.put_opts(&location, payload, opts).await;
                });
                self.bucket.clock.sleep(TIMEOUT).await;
                return Err(unavailable());
            }
            Fate::Answered | Fate::AnswerLost | Fate::DroppedAfter | Fate::Slow => {}
        }
        let answer = self.bucket.objects.put_opts(location, payload, opts).await;
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
        self.bucket.objects.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.bucket.objects.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        let found = async move { store.read().await.map(|()| store.bucket.objects.list(prefix.as_ref())) };
        stream::once(found).try_flatten().boxed()
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
