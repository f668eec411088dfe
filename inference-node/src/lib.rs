//! A node of the fleet: serves tokens over OpenAI's API and KServe's, and says what each of them cost.
//!
//! ```text
//! serve, kserve -> admit -> queue -> step { schedule -> engine -> stream } -> record -> OTLP
//! ```
//!
//! [`Config`] -> [`build`] -> [`Node::run`]. Request handlers are async; one thread owns the engine
//! and makes the steps; one thread records. Invariants:
//! 1. The step thread waits for nobody: not for a client, not for the recorder, not for the collector.
//! 2. A client that goes away frees its slots for the next step.
//! 3. Device time adds up: tokens (or call totals), padding and idle are the wall time, to the microsecond.
//! 4. A simulated number never leaves without the note on how it was made.
//!
//! A node in front of another engine ([`proxy`]) has no steps: it relays, and records what it sees.

mod admit;
mod kserve;
mod metrics;
mod queue;
mod record;
mod serve;
mod step;
mod stream;

pub mod config;
pub mod docs;
pub mod engine;
pub mod proxy;
pub mod schedule;
pub mod virtual_time;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use rand::Rng;
use service::channel::{Receiver, bounded};
use service::error::{Error, Kind, Result};
use service::health::{Component, Health};
use service::shutdown::{CancellationToken, Hold, Stage};
use service::uplink::Uplink;
use telemetry::power;
use telemetry::step::PowerCurve;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub use config::Config;

use admit::Entrance;
use engine::{Devices, EngineDescription, EngineError, EngineKind};
use metrics::{Counting, RelayedCalls, Served};
use queue::{Door, Job};
use record::{Exporter, Lost, Outbox, Recorder, origin};
use schedule::Scheduler;
use step::{Driver, Meter, NodeClock, Parts, Tally, Timeline};

/// A node that is bound and loaded, and serves once it runs.
pub struct Node {
    addr: SocketAddr,
    grpc_addr: SocketAddr,
    listener: TcpListener,
    router: Router,
    grpc: (TcpListener, Router),
    steps: Option<Steps>,
    sampling: Option<proxy::Sampling>,
    outbox: Outbox,
    exporter: Exporter,
    engine: EngineDescription,
    health: Health,
    component: Component,
    tls: service::tls::Acceptor,
    limits: service::listen::Limits,
    accept: CancellationToken,
    streams: CancellationToken,
    streams_hold: Hold,
    recorders_hold: Hold,
}

/// What makes the steps, and what it is given to do; a proxy makes none.
type Steps = (Driver, Receiver<Job>);

/// Loads the engine and binds the port. Several nodes in one process get a
/// [`service::Deps::sibling`] each, so that health and metrics are their own.
///
/// # Errors
/// `Invalid` for settings that cannot be, `Conflict` for a port in use.
///
/// # Cancel safety
/// A cancelled build leaves nothing behind.
pub async fn build(config: Config, deps: service::Deps) -> Result<Node> {
    let mut faults = Vec::new();
    config.validate(&mut faults);
    if !faults.is_empty() {
        return Err(Error::invalid(faults.join("; ")));
    }
    let (listener, addr) = bind(config.http_addr).await?;
    let (grpc_listener, grpc_addr) = bind(config.grpc_addr()).await?;
    let work = match config.engine.kind {
        EngineKind::Proxy => behind(&config, &deps)?,
        _ => engine(&config, &deps).await?,
    };
    let name = format!("node.{}", work.recording.instance);
    let held = work.recording.outbox.held();
    let left = move || format!("{} spans were not sent", held.load(Ordering::Relaxed));
    Ok(Node {
        addr,
        grpc_addr,
        listener,
        router: work.router.merge(deps.ops_router()),
        grpc: (grpc_listener, work.grpc),
        steps: work.steps,
        sampling: work.sampling,
        outbox: work.recording.outbox,
        exporter: work.recording.exporter,
        engine: work.engine,
        accept: deps.shutdown.token(Stage::Accept),
        streams: deps.shutdown.token(Stage::Streams),
        streams_hold: deps.shutdown.hold(Stage::Streams, name.clone()),
        recorders_hold: deps.shutdown.hold(Stage::Recorders, name).leaving(left),
        component: work.component,
        health: deps.health,
        tls: deps.tls,
        limits: deps.limits,
    })
}

/// What a node serves with.
struct Work {
    router: Router,
    /// What its second port serves.
    grpc: Router,
    steps: Option<Steps>,
    /// Of the engine behind a proxy.
    sampling: Option<proxy::Sampling>,
    recording: Recording,
    engine: EngineDescription,
    component: Component,
}

/// A node with an engine of its own.
async fn engine(config: &Config, deps: &service::Deps) -> Result<Work> {
    let (engine, devices) = load(config.engine.clone()).await?;
    let about = engine.describe().clone();
    let clock = Arc::new(NodeClock::new(Arc::clone(&deps.clock)));
    let timeline = Timeline::new(Arc::clone(&clock));
    let (recording, recorder) = recording(config, &about, devices.clone(), timeline.reached_ns(), deps)?;

    let gauges = metrics::gauges(&deps.metrics, &about);
    let tally = Tally::new(&deps.metrics, &about);
    let places = (about.slots as usize).saturating_add(config.queue_max as usize);
    let (sender, jobs) = bounded("node.jobs", places);
    let entrance = Entrance {
        engine: about.clone(),
        text: engine.text(),
        door: Door::new(sender, places),
        gauges: Arc::clone(&gauges),
        clock,
        fleet_secret: config.fleet_secret.clone(),
        token_sampling: config.record.token_sampling,
        long: Arc::new(Semaphore::new(admit::long_at_once() as usize)),
        closing: deps.shutdown.token(Stage::Streams),
    };
    let entrance = Arc::new(entrance);
    let grpc = kserve::router(Arc::clone(&entrance), deps.health.clone());
    let meter = meter(devices.as_ref(), deps.clock.now_us(), timeline.reached_ns());
    let scheduler = Scheduler::new(config.schedule.clone().resolved(&about), about.slots, about.max_len);
    let component = deps.health.component(format!("node.{}", recording.instance));
    let driver = Driver::new(Parts {
        engine,
        scheduler,
        timeline,
        tally,
        step_sampling: config.record.step_sampling,
        meter,
        recorder,
        gauges,
        component: component.clone(),
    });
    let outbox = recording.outbox.counting(Counting::Served(Box::new(Served::new(&deps.metrics, &about))));
    let recording = Recording { outbox, ..recording };
    let router = serve::router(entrance);
    Ok(Work { router, grpc, steps: Some((driver, jobs)), sampling: None, recording, engine: about, component })
}

async fn bind(addr: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener = service::listen::bind(addr).await?;
    let bound = listener.local_addr();
    Ok((listener, bound.map_err(|error| Error::internal("cannot read the bound address").with_source(error))?))
}

/// A node in front of another engine. Both of its ports lead there.
fn behind(config: &Config, deps: &service::Deps) -> Result<Work> {
    let about = config.engine.proxy.describe();
    let clock = Arc::new(NodeClock::new(Arc::clone(&deps.clock)));
    let (recording, recorder) = recording(config, &about, None, clock.now_ns(), deps)?;
    let settings = &config.engine.proxy;
    let turns = proxy::Turns::new(settings.concurrency, config.queue_max);
    let calls = RelayedCalls::new(&deps.metrics, settings.engine.name(), settings.model.as_deref(), &turns);
    let recording = Recording { outbox: recording.outbox.counting(Counting::Relayed(calls)), ..recording };
    let sampling = Some(proxy::Sampling::new(settings, &turns, &recorder, &clock));
    let parts = proxy::Parts {
        recorder,
        clock,
        fleet_secret: config.fleet_secret.clone(),
        token_sampling: config.record.token_sampling,
        turns,
        queue_max: config.queue_max,
        closing: deps.shutdown.token(Stage::Streams),
    };
    let router = proxy::router(settings, parts, &deps.metrics)?;
    let component = deps.health.component(format!("node.{}", recording.instance));
    Ok(Work { grpc: router.clone(), router, steps: None, sampling, recording, engine: about, component })
}

/// The recorder without its end at the calls.
struct Recording {
    instance: String,
    outbox: Outbox,
    exporter: Exporter,
}

fn recording(
    config: &Config,
    engine: &EngineDescription,
    devices: Option<Devices>,
    start_ns: i64,
    deps: &service::Deps,
) -> Result<(Recording, Recorder)> {
    let random = format!("{:016x}", rand::rng().random::<u64>());
    let origin = origin(&config.identity, engine, random, config.record.token_sampling);
    let instance = origin.instance.clone();
    let lost = Lost::new(&deps.metrics);
    let (sender, records) = bounded("node.records", config.record.queue_records);
    deps.metrics.queue(&sender);
    let recorder = Recorder::new(sender, lost.clone()).with_phases(config.record.phase_spans);
    let uplink = Uplink::new("node.otlp_endpoint", &config.otlp_endpoint, &config.otlp, record::ATTEMPT)?;
    let (outbox, exporter) = Outbox::new(&config.record, uplink, origin, devices, start_ns, records, lost);
    let held = outbox.held();
    let help = "Spans that wait for the collector to take them.";
    deps.metrics.observe("tokenwatt_node_spans_held", help, &[], move || Some(held.load(Ordering::Relaxed) as f64));
    Ok((Recording { instance, outbox, exporter }, recorder))
}

/// Loading a model can take seconds and belongs on a thread of its own.
async fn load(config: engine::Config) -> Result<(Box<dyn engine::Engine>, Option<Devices>)> {
    let loaded = tokio::task::spawn_blocking(move || engine::build(&config)).await;
    let loaded = loaded.map_err(|error| Error::internal("loading the model failed").with_source(error))?;
    loaded.map_err(|error| match error {
        EngineError::Load { .. } | EngineError::Input { .. } => Error::new(Kind::Invalid, error.to_string()),
        EngineError::Step { .. } | EngineError::Lost { .. } => Error::internal(error.to_string()),
    })
}

/// A power meter, if the chips' watts are known; unknown hardware has no watts.
fn meter(devices: Option<&Devices>, now_us: i64, start_ns: i64) -> Option<Meter> {
    let model = power::at(power::bundled(), &devices?.model, now_us)?;
    let curve = PowerCurve { idle_w: model.idle_w?, max_w: model.max_w? };
    Some(Meter::new(curve, start_ns))
}

impl Node {
    /// Where OpenAI's API listens.
    pub fn http_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where the KServe API listens.
    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc_addr
    }

    /// What the engine is.
    pub fn engine(&self) -> &EngineDescription {
        &self.engine
    }

    /// Serves until the shutdown: no longer ready in stage accept, no new calls from stage streams
    /// on, then all running calls end, then all records are sent.
    ///
    /// # Errors
    /// `Internal` if the listener, the step thread or the recorder break, or a lost device does not come back.
    ///
    /// # Cancel safety
    /// A dropped run ends all calls; records not yet sent are lost.
    pub async fn run(self) -> Result<()> {
        let Self { listener, router, grpc, steps, sampling, outbox, exporter, health, component, .. } = self;
        let (tls, limits, accept, streams) = (self.tls, self.limits, self.accept, self.streams);
        let runtime = tokio::runtime::Handle::current();
        // Steps may end before the shutdown, where a lost device does not come back: then nothing more is served.
        let closing = streams.child_token();
        let ended = closing.clone().drop_guard();
        let steps = tokio::task::spawn_blocking(move || {
            let Some((driver, jobs)) = steps else {
                ended.disarm();
                return Ok(());
            };
            let _ended = ended;
            name_thread("node.step");
            driver.run(jobs, &runtime)
        });
        let recorder = tokio::task::spawn_blocking(move || record_until_done(outbox, exporter));
        component.ready();
        let draining = async {
            accept.cancelled().await;
            health.drain();
            std::future::pending::<()>().await;
        };
        let serving = async {
            let http = service::listen::serve_http(listener, &tls, limits, router, closing.clone());
            let (http, grpc) = tokio::join!(http, service::listen::serve_http(grpc.0, &tls, limits, grpc.1, closing));
            http.and(grpc)
        };
        let sampling = async {
            match sampling {
                Some(sampling) => sampling.run().await,
                None => std::future::pending().await,
            }
        };
        // The routers, and with them the only way to send jobs, are gone when serving ends.
        let served = tokio::select! {
            served = serving => served,
            () = draining => Ok(()),
            () = sampling => Ok(()),
        };
        component.starting();
        let stepped = steps.await.map_err(|error| Error::internal("the step thread broke").with_source(error));
        let stepped =
            stepped.and_then(|ran| ran.map_err(|error| Error::internal("the engine is gone").with_source(error)));
        drop(self.streams_hold);
        let recorded = recorder.await.map_err(|error| Error::internal("the recorder broke").with_source(error));
        drop(self.recorders_hold);
        served.and(stepped).and(recorded.and_then(|recorded| recorded))
    }
}

/// Names the thread for whoever looks at the process; the runtime's threads are all called the same. At most 15 bytes are kept.
fn name_thread(name: &str) {
    if let Err(error) = std::fs::write("/proc/thread-self/comm", name) {
        tracing::debug!(%error, name, "a thread has no name");
    }
}

/// Longest time that connections of the recorder's own runtime may take to close.
const RUNTIME_END: Duration = Duration::from_secs(1);

/// The recorder's thread has a runtime of its own, so that neither requests nor a busy fleet in
/// the same process slow it down, nor it them.
fn record_until_done(outbox: Outbox, exporter: Exporter) -> Result<()> {
    name_thread("node.record");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::internal("cannot start the recorder").with_source(error))?;
    let ((), sent) = runtime.block_on(async { tokio::join!(outbox.run(), exporter.run()) });
    runtime.shutdown_timeout(RUNTIME_END);
    sent
}
