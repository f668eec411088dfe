//! The scraper: what engines and exporters show at `/metrics` becomes OTLP metrics, as if they had sent it.
//!
//! ```text
//! target ─► fetch (bounded, in time) ─► parse ─► series (starts, resets, ends) ─► write (OTLP) ─► intake ─► journal
//! ```
//!
//! Invariants:
//! 1. A target that does not answer has `up` 0, and its gauges end: nothing is repeated that was not read.
//! 2. A counter's start is known or 0 (unknown); it moves when the counter falls, so that no interval spans a reset.
//! 3. At most [`CONCURRENT_MAX`] answers are in memory at once, each bounded.

mod client;
mod fetch;
mod series;
mod target;
mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use service::clock::SharedClock;
use service::error::{Error, Result, chain};
use service::metrics::{Counter, Registry};
use service::shutdown::CancellationToken;
use telemetry::prometheus::{self, Exposition};
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior};

use self::client::Client;
use self::fetch::Fetched;
use self::series::Series;
use self::target::Target;
use self::write::Scraped;
use crate::receive::Intake;
use crate::signal::Signal;

/// Answers in memory at once.
const CONCURRENT_MAX: usize = 8;

/// Targets that are scraped alike: `[[collector.scrape]]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scrape {
    /// Name of the group; becomes `service.name` where no label says otherwise.
    pub job: String,
    /// `host:port`, or a URL if it is not plain HTTP or has a path of its own.
    pub targets: Vec<String>,
    /// Path of targets that have none. Default /metrics.
    pub path: String,
    /// How often. Default 15s.
    #[serde(with = "service::config::duration")]
    pub interval: Duration,
    /// Time for one answer, at most the interval. Default 10s.
    #[serde(with = "service::config::duration")]
    pub timeout: Duration,
    /// Resource attributes of the targets, such as `"cloud.region"` and `"host.id"`.
    pub labels: BTreeMap<String, String>,
    /// Labels of series that say where they come from, and the resource attribute each becomes. Prometheus'
    /// `honor_labels` is `{ job = "service.name", instance = "service.instance.id" }`.
    pub promote: BTreeMap<String, String>,
    /// File with the bearer token to show; read anew for each scrape.
    pub token_file: Option<PathBuf>,
    /// PEM file with the authorities that vouch for `https` targets, instead of the public ones; read anew for each scrape.
    pub ca: Option<PathBuf>,
    /// PEM file with the client certificate that is shown to `https` targets; read anew for each scrape.
    pub cert: Option<PathBuf>,
    /// PEM file with its private key.
    pub key: Option<PathBuf>,
    /// Largest answer, inflated. Default 8MiB.
    #[serde(with = "service::config::bytes")]
    pub body_max: u64,
    /// Most samples of one answer; a larger one is refused whole. Default 50000.
    pub samples_max: usize,
}

impl Default for Scrape {
    fn default() -> Self {
        Self {
            job: String::new(),
            targets: Vec::new(),
            path: "/metrics".to_owned(),
            interval: Duration::from_secs(15),
            timeout: Duration::from_secs(10),
            labels: BTreeMap::new(),
            promote: BTreeMap::new(),
            token_file: None,
            ca: None,
            cert: None,
            key: None,
            body_max: 8 << 20,
            samples_max: 50_000,
        }
    }
}

/// Largest answer and most samples that any settings allow: [`CONCURRENT_MAX`] of them must fit into memory.
const BODY_MAX: u64 = 64 << 20;
const SAMPLES_MAX: usize = 1_000_000;

impl Scrape {
    /// Adds one line for every rule broken.
    pub(crate) fn validate(&self, faults: &mut Vec<String>) {
        let mut fault = |text: String| faults.push(format!("`collector.scrape` of job `{}`: {text}", self.job));
        if self.job.is_empty() {
            fault("`job` must name the group".to_owned());
        }
        if self.targets.is_empty() {
            fault("`targets` must name at least one".to_owned());
        }
        for target in &self.targets {
            if let Err(error) = target::url(target, &self.path) {
                fault(format!("target `{target}` is neither host:port nor an http(s) URL: {error}"));
            }
        }
        if !(Duration::from_millis(100)..=Duration::from_secs(3_600)).contains(&self.interval) {
            fault("`interval` must lie between 100ms and 1h".to_owned());
        }
        if self.timeout.is_zero() || self.timeout > self.interval {
            fault("`timeout` must be positive and not exceed `interval`".to_owned());
        }
        if self.cert.is_some() != self.key.is_some() {
            fault("`cert` and `key` belong together; give both or none".to_owned());
        }
        if !(1 << 10..=BODY_MAX).contains(&self.body_max) {
            fault("`body_max` must lie between 1KiB and 64MiB".to_owned());
        }
        if !(1..=SAMPLES_MAX).contains(&self.samples_max) {
            fault("`samples_max` must lie between 1 and 1000000".to_owned());
        }
    }
}

/// Scrapes all targets until `stop`.
///
/// # Errors
/// `Invalid` for a target that has no address.
pub(crate) async fn run(
    groups: Vec<Scrape>,
    intake: Intake,
    clock: SharedClock,
    metrics: Registry,
    stop: CancellationToken,
) -> Result<()> {
    if groups.is_empty() {
        return Ok(());
    }
    let slots = Arc::new(Semaphore::new(CONCURRENT_MAX));
    let mut scrapers = Vec::new();
    for group in groups.into_iter().map(Arc::new) {
        let counters = Counters::new(&metrics, &group.job);
        let client = Arc::new(Client::of(&group));
        for text in &group.targets {
            scrapers.push(Scraper {
                target: Target::new(&group, text)?,
                group: Arc::clone(&group),
                client: Arc::clone(&client),
                slots: Arc::clone(&slots),
                intake: intake.clone(),
                clock: Arc::clone(&clock),
                counters: counters.clone(),
                series: Series::default(),
                up: true,
            });
        }
    }
    drop(intake);
    futures::future::join_all(scrapers.into_iter().map(|scraper| scraper.run(stop.clone()))).await;
    Ok(())
}

/// What becomes of scrapes, by job.
#[derive(Clone)]
struct Counters {
    answered: Counter,
    failed: Counter,
    samples: Counter,
    faults: Counter,
    dropped: Counter,
}

impl Counters {
    fn new(registry: &Registry, job: &str) -> Self {
        let counter = |name: &str, help: &str, more: &[(&str, &str)]| {
            let labels: Vec<(&str, String)> =
                [("job", job)].iter().chain(more).map(|(name, value)| (*name, (*value).to_owned())).collect();
            registry.counter(&format!("tokenwatt_collector_scrape{name}"), help, &labels)
        };
        Self {
            answered: counter("s_total", "Scrapes by outcome.", &[("outcome", "answered")]),
            failed: counter("s_total", "Scrapes by outcome.", &[("outcome", "failed")]),
            samples: counter("_samples_total", "Samples read by scrapes.", &[]),
            faults: counter("_faults_total", "Lines of scraped text that could not be read.", &[]),
            dropped: counter("_dropped_total", "Scrapes that found no room until the next was due.", &[]),
        }
    }
}

/// One target and what is known of it.
struct Scraper {
    target: Target,
    group: Arc<Scrape>,
    client: Arc<Client>,
    slots: Arc<Semaphore>,
    intake: Intake,
    clock: SharedClock,
    counters: Counters,
    series: Series,
    up: bool,
}

impl Scraper {
    async fn run(mut self, stop: CancellationToken) {
        let mut due = tokio::time::interval_at(Instant::now() + self.target.jitter, self.group.interval);
        due.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            // Cancel safe: a scrape that is cut short has stored nothing, or all of it.
            tokio::select! {
                () = async { due.tick().await; self.scrape().await } => {}
                () = stop.cancelled() => return,
            }
        }
    }

    async fn scrape(&mut self) {
        let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else { return };
        let (now_ns, began) = (self.clock.now_ns(), self.clock.monotonic());
        let fetched = match tokio::time::timeout(self.group.timeout, self.fetch()).await {
            Ok(fetched) => fetched,
            Err(_) => Err(Error::unavailable("no whole answer in time")),
        };
        let took_s = self.clock.monotonic().saturating_sub(began).as_secs_f64();
        let body = self.read(fetched, now_ns, took_s).await;
        drop(slot);
        match tokio::time::timeout(self.group.interval, self.intake.deliver(Signal::Metrics, body)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                self.counters.dropped.inc();
                tracing::error!(url = self.target.shown, error = chain(&error), "a scrape could not be stored");
            }
            Err(_) => self.counters.dropped.inc(),
        }
    }

    async fn fetch(&self) -> Result<Fetched> {
        let token = match &self.group.token_file {
            Some(path) => Some(tokio::fs::read_to_string(path).await.map_err(|error| {
                Error::unavailable(format!("read the bearer token in {}", path.display())).with_source(error)
            })?),
            None => None,
        };
        let limit = usize::try_from(self.group.body_max).unwrap_or(usize::MAX);
        let timeout_s = self.group.timeout.as_secs_f64();
        fetch::fetch(&self.client.get().await?, &self.target.url, token.as_deref().map(str::trim), limit, timeout_s)
            .await
    }

    /// Turns an answer, or its absence, into a body; off the I/O threads, since an answer may hold many samples.
    async fn read(&mut self, fetched: Result<Fetched>, now_ns: i64, took_s: f64) -> Bytes {
        let (target, samples_max) = (self.target.clone(), self.group.samples_max);
        let mut series = std::mem::take(&mut self.series);
        let read = tokio::task::spawn_blocking(move || {
            let outcome = fetched.and_then(|fetched| fetched.text().map(|text| (fetched.format, text)));
            let parsed = match &outcome {
                Ok((format, text)) => prometheus::parse(text, *format, samples_max)
                    .map_err(|error| Error::invalid("read the answer").with_source(error)),
                Err(error) => Err(Error::new(error.kind(), chain(error))),
            };
            let scraped = Scraped { now_ns, took_s, exposition: parsed.as_ref().ok() };
            let body = write::body(&target, &mut series, &scraped);
            (series, body, parsed.map(|exposition| Read::of(&exposition)))
        });
        let (series, body, outcome) = match read.await {
            Ok(read) => read,
            // The reader is at fault, not the collector: this target is down, and all others go on.
            Err(error) => {
                let mut series = Series::default();
                let scraped = Scraped { now_ns, took_s, exposition: None };
                let body = write::body(&self.target, &mut series, &scraped);
                (series, body, Err(Error::internal("read the answer").with_source(error)))
            }
        };
        self.series = series;
        self.note(outcome);
        body
    }

    /// Counts a scrape, and says once when a target goes or comes back.
    fn note(&mut self, outcome: Result<Read>) {
        let was_up = std::mem::replace(&mut self.up, outcome.is_ok());
        match outcome {
            Ok(read) => {
                self.counters.answered.inc();
                self.counters.samples.add(read.samples);
                self.counters.faults.add(read.faults);
                if !was_up {
                    tracing::info!(url = self.target.shown, "a target answers again");
                }
                if let Some(fault) = read.fault {
                    tracing::debug!(url = self.target.shown, fault, "a line of a scrape could not be read");
                }
            }
            Err(error) => {
                self.counters.failed.inc();
                if was_up {
                    tracing::warn!(url = self.target.shown, error = chain(&error), "a target cannot be scraped");
                }
            }
        }
    }
}

/// What is counted of an exposition.
struct Read {
    samples: u64,
    faults: u64,
    fault: Option<String>,
}

impl Read {
    fn of(exposition: &Exposition<'_>) -> Self {
        let fault = exposition.fault.map(|fault| fault.to_string());
        Self { samples: exposition.samples as u64, faults: exposition.faults, fault }
    }
}
