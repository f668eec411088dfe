//! Machines, a bucket, collectors that die and come back, and weather.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use lake::{Lake, maintain};
use object_store::ObjectStore;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use service::Deps;
use service::clock::{Clock, SharedClock};
use service::error::{Result, chain};
use service::shutdown::Stage;
use telemetry::table::{SPANS, TOKENS, Table};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use super::clock::SimClock;
use super::disk::Machine;
use super::life::Life;
use super::load::{Door, Ledger, Sender};
use super::store::Bucket;
use super::verify::{self, TABLES};
use crate::commit::peer::{Dial, Line};
use crate::commit::{Commits, Fleet};
use crate::config::Config;
use crate::pipeline::Pipeline;
use crate::receive;
use crate::receive::commit::Desk;

/// Leases that rivals hold, each its own.
const OWN_LEASES: [&str; 6] =
    ["committer-1", "committer-2", "committer-3", "maintenance-1", "maintenance-2", "maintenance-3"];

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
    /// What collectors of this world do beside receiving.
    pub(super) habits: Habits,
    /// Where collectors take entries of others, by address.
    desks: Mutex<BTreeMap<String, watch::Receiver<Option<Door>>>>,
    reader: tokio::sync::Mutex<verify::Reader>,
}

/// What collectors do beside receiving.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habits {
    /// They offer themselves for maintenance of the lake.
    pub(super) maintain: bool,
    /// They commit together.
    pub(super) share: bool,
    /// Each believes that it holds every lease.
    pub(super) rivals: bool,
}

/// A machine with a collector on it.
pub(super) struct Site {
    pub(super) machine: Machine,
    pub(super) door: watch::Sender<Option<Door>>,
    pub(super) config: Config,
    /// Where others find its desk.
    pub(super) address: String,
    /// The health of the process that runs now.
    pub(super) deps: Mutex<Option<Deps>>,
}

impl World {
    pub(super) fn new(clock: &SimClock, seed: u64, habits: Habits) -> Arc<Self> {
        let (bucket, ledger) = (Bucket::new(clock, seed ^ 1), Ledger::default());
        Arc::new(Self {
            clock: clock.clone(),
            reader: verify::Reader::new(&bucket, &ledger).into(),
            bucket,
            ledger,
            finish: CancellationToken::new(),
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
            habits,
            desks: Mutex::default(),
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

    async fn live(self: &Arc<Self>, site: &Site, life: &Arc<Life>, stop: &CancellationToken) -> Result<()> {
        let deps = Deps::new(self.shared_clock());
        *site.deps.lock() = Some(deps.clone());
        let lake = Lake::open_on(self.bucket.store(life), &deps).await?;
        let disk = Arc::new(site.machine.disk(life));
        let commits = Arc::new(self.commits(site, &lake, &deps));
        if self.habits.maintain {
            lake.maintain_in_background(self.maintenance(site), &deps);
        }
        let desk = receive::commit::router(Desk { commits: Arc::clone(&commits), token: None });
        let pipeline = Pipeline::open(site.config.clone(), lake, commits, deps.clone(), disk).await?;
        let (intake, work) = pipeline.start(stop.clone());
        let router = receive::router(&intake).merge(desk);
        site.door.send_replace(Some(Door { router, life: Arc::clone(life) }));
        drop(intake);
        let closing = async {
            stop.cancelled().await;
            // Leases are given back.
            deps.shutdown.token(Stage::Accept).cancel();
            site.door.send_replace(None);
        };
        let (ended, ()) = tokio::join!(work, closing);
        ended
    }

    /// How a site's entries get into the log.
    fn commits(self: &Arc<Self>, site: &Site, lake: &Lake, deps: &Deps) -> Commits {
        if !self.habits.share {
            return Commits::straight(lake.clone(), self.shared_clock());
        }
        self.desks.lock().insert(site.address.clone(), site.door.subscribe());
        let lease = if self.habits.rivals { site.lease("committer") } else { "committer" };
        let keeper = lake.keep_lease(lease, Some(site.address.clone()), true, deps);
        let world = Arc::clone(self);
        let dial: Dial = Box::new(move |address| Ok(world.line(address)));
        let fleet = Fleet { every: Duration::from_millis(500), token: None, dial };
        Commits::shared(lake.clone(), keeper, fleet, deps)
    }

    /// A way to a site's desk that loses requests and answers.
    fn line(self: &Arc<Self>, address: &str) -> Line {
        let (world, door) = (Arc::clone(self), self.desks.lock().get(address).cloned());
        BoxCloneSyncService::new(tower::service_fn(move |request: Request<tonic::body::Body>| {
            let (world, door) = (Arc::clone(&world), door.as_ref().and_then(|door| door.borrow().clone()));
            async move {
                let lost = || Status::unavailable("connection reset");
                let Some(door) = door else { return Err(lost()) };
                let (there, back) = world.bucket.call().await;
                if !there {
                    return Err(lost());
                }
                tokio::select! {
                    biased;
                    () = door.life.ended() => Err(lost()),
                    answer = door.router.oneshot(request.map(Body::new)) => match (back, answer) {
                        (true, Ok(answer)) => Ok(answer.map(tonic::body::Body::new)),
                        _ => Err(lost()),
                    },
                }
            }
        }))
    }

    fn maintenance(&self, site: &Site) -> maintain::Settings {
        let kept = |table: &Table| (table.name.to_owned(), 1);
        maintain::Settings {
            keep_replaced: verify::GRACE,
            keep_orphans: Duration::from_secs(20),
            retention_days: [&TOKENS, &SPANS].map(kept).into(),
            habits: maintain::Habits {
                lease: if self.habits.rivals { site.lease("maintenance") } else { "maintenance" },
                look_every: Duration::from_secs(2),
                sweep_every: Duration::from_secs(8),
                commits_per_checkpoint: 5,
                leap: Duration::from_secs(365 * 86_400),
            },
        }
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
            late: self.habits.maintain,
            seed: rng.random(),
        }
    }

    /// Looks at the tables every so often.
    pub(super) async fn observe(self: Arc<Self>, every: Duration) {
        let lake = self.lake().await;
        while !self.finish.is_cancelled() {
            self.reader.lock().await.look(&lake, &self.clock).await;
            self.clock.sleep(every).await;
        }
    }

    /// Checks the tables against what was sent, and again after all that can be merged was merged.
    pub(super) async fn verify(&self) {
        let lake = self.lake().await;
        let mut reader = self.reader.lock().await;
        reader.verify(&lake, &self.clock).await;
        if self.habits.maintain {
            let deps = Deps::new(self.shared_clock());
            for table in TABLES {
                lake.compact(table, &deps).await.unwrap();
            }
            reader.verify(&lake, &self.clock).await;
        }
    }

    async fn lake(&self) -> Lake {
        let store: Arc<dyn ObjectStore> = Arc::clone(&self.bucket.objects) as Arc<dyn ObjectStore>;
        Lake::open_on(store, &Deps::new(self.shared_clock())).await.unwrap()
    }
}

impl Site {
    pub(super) fn new(number: usize, machine: Machine, config: Config) -> Arc<Self> {
        let (door, address) = (watch::channel(None).0, format!("http://site-{number}"));
        Arc::new(Self { machine, door, config, address, deps: Mutex::default() })
    }

    /// A lease of its own, which nobody else asks for.
    fn lease(&self, job: &str) -> &'static str {
        let own = |name: &&&str| name.strip_prefix(job).is_some_and(|number| self.address.ends_with(number));
        OWN_LEASES.iter().find(own).unwrap()
    }
}
