//! Machines, a bucket, collectors that die and come back, and weather.

use std::sync::Arc;
use std::time::Duration;

use lake::{Lake, Snapshot};
use object_store::{ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use service::Deps;
use service::clock::{Clock, SharedClock};
use service::error::{Result, chain};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::clock::SimClock;
use super::disk::Machine;
use super::life::Life;
use super::load::{Door, Ledger, Sender};
use super::store::Bucket;
use super::verify::{self, TABLES};
use crate::commit::Commits;
use crate::config::Config;
use crate::pipeline::Pipeline;
use crate::receive;

/// How a life ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// Killed while it does its so-manieth thing to disk or store.
    Killed(u64),
    /// The same, and with it goes the power.
    PowerCut(u64),
    /// Asked to stop after so many milliseconds.
    Stopped(u64),
}

/// Everything that outlives a process.
pub(super) struct World {
    pub(super) clock: SimClock,
    pub(super) bucket: Bucket,
    pub(super) ledger: Ledger,
    /// Set once nobody sends any more.
    pub(super) finish: CancellationToken,
    pub(super) rng: Mutex<StdRng>,
}

/// A machine with a collector on it.
pub(super) struct Site {
    pub(super) machine: Machine,
    pub(super) door: watch::Sender<Option<Door>>,
    pub(super) config: Config,
    /// The health of the process that runs now.
    pub(super) deps: Mutex<Option<Deps>>,
}

impl World {
    pub(super) fn new(clock: &SimClock, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            clock: clock.clone(),
            bucket: Bucket::new(clock, seed ^ 1),
            ledger: Ledger::default(),
            finish: CancellationToken::new(),
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
        })
    }

    pub(super) fn shared_clock(&self) -> SharedClock {
        Arc::new(self.clock.clone())
    }

    /// Keeps a collector running on a site: one life after the other, the last one without end, until all is committed.
    /// A copy of the machine is made after the first.
    pub(super) async fn keep_up(
        self: Arc<Self>,
        site: Arc<Site>,
        endings: Vec<Ending>,
        mut copy: Option<oneshot::Sender<Machine>>,
    ) {
        let mut endings = endings.into_iter();
        loop {
            let ending = endings.next();
            tracing::info!(?ending, now = ?self.clock.monotonic(), "a life begins");
            let life = Arc::new(Life::new(match ending {
                Some(Ending::Killed(steps) | Ending::PowerCut(steps)) => steps,
                _ => u64::MAX,
            }));
            let stop = match ending {
                Some(Ending::Stopped(_)) => CancellationToken::new(),
                _ => self.finish.clone(),
            };
            let asked = async {
                if let Some(Ending::Stopped(after_ms)) = ending {
                    self.clock.sleep(Duration::from_millis(after_ms)).await;
                    stop.cancel();
                }
            };
            let lived = tokio::select! {
                biased;
                () = life.ended() => Ok(()),
                (lived, ()) = async { tokio::join!(self.live(&site, &life, &stop), asked) } => lived,
            };
            tracing::info!(killed = !life.lives(), now = ?self.clock.monotonic(), ok = lived.is_ok(), "a life ends");
            site.door.send_replace(None);
            *site.deps.lock() = None;
            if !life.lives() {
                if matches!(ending, Some(Ending::PowerCut(_))) {
                    site.machine.cut_power();
                }
            } else if let Err(error) = lived {
                // Only what waiting mends may end a collector.
                assert!(error.kind().retry_after().is_some(), "a collector ended: {}", chain(&error));
            } else if self.finish.is_cancelled() && ending.is_none() {
                return;
            }
            life.end();
            if let Some(copy) = copy.take() {
                let _ = copy.send(site.machine.copy(self.rng.lock().random()));
            }
            self.clock.sleep(Duration::from_millis(300)).await;
        }
    }

    async fn live(&self, site: &Site, life: &Arc<Life>, stop: &CancellationToken) -> Result<()> {
        let deps = Deps::new(self.shared_clock());
        *site.deps.lock() = Some(deps.clone());
        let lake = Lake::open_on(self.bucket.store(life), &deps).await?;
        let disk = Arc::new(site.machine.disk(life));
        let commits = Arc::new(Commits::straight(lake.clone(), self.shared_clock()));
        let pipeline = Pipeline::open(site.config.clone(), lake, commits, deps.clone(), disk).await?;
        let (intake, work) = pipeline.start(stop.clone());
        site.door.send_replace(Some(Door { router: receive::router(&intake), life: Arc::clone(life) }));
        drop(intake);
        let closing = async {
            stop.cancelled().await;
            site.door.send_replace(None);
        };
        let (ended, ()) = tokio::join!(work, closing);
        ended
    }

    /// A sender of a site.
    pub(super) fn sender(&self, site: &Site, bodies: u32, pause: Duration, fickle: f64) -> Sender {
        let mut rng = self.rng.lock();
        Sender {
            clock: self.clock.clone(),
            door: site.door.subscribe(),
            ledger: Arc::clone(&self.ledger),
            first: rng.random::<u128>() >> 1,
            bodies,
            pause,
            fickle,
            seed: rng.random(),
        }
    }

    /// Looks at the tables every so often: versions only grow, and what they name is there.
    pub(super) async fn observe(self: Arc<Self>, every: Duration) {
        let reader = self.reader().await;
        let mut versions = [-1; TABLES.len()];
        while !self.finish.is_cancelled() {
            for (snapshot, version) in snapshots(&reader).await.iter().zip(&mut versions) {
                assert!(snapshot.version >= *version, "{} went back", snapshot.table.name);
                *version = snapshot.version;
                if let Some(file) = snapshot.files.last() {
                    self.bucket.objects.head(&file.path.as_str().into()).await.unwrap();
                }
            }
            self.clock.sleep(every).await;
        }
    }

    /// Checks the tables against what was sent.
    pub(super) async fn verify(&self) {
        let reader = self.reader().await;
        verify::verify(&self.bucket, &snapshots(&reader).await, &self.ledger).await;
    }

    async fn reader(&self) -> Lake {
        let store: Arc<dyn ObjectStore> = Arc::clone(&self.bucket.objects) as Arc<dyn ObjectStore>;
        Lake::open_on(store, &Deps::new(self.shared_clock())).await.unwrap()
    }
}

async fn snapshots(reader: &Lake) -> Vec<Arc<Snapshot>> {
    let mut snapshots = Vec::new();
    for table in TABLES {
        snapshots.push(reader.snapshot(table.name, None).await.unwrap());
    }
    snapshots
}

impl Site {
    pub(super) fn new(machine: Machine, config: Config) -> Arc<Self> {
        Arc::new(Self { machine, door: watch::channel(None).0, config, deps: Mutex::default() })
    }
}
