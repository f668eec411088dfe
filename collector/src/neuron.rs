//! AWS Neuron devices: what `neuron-monitor` prints and what the driver's sysfs says of power becomes OTLP metrics.
//!
//! ```text
//! command | pipe | file ─► source (lines, bounded) ─► telemetry::neuron ─► write (OTLP) ─► intake ─► journal
//! sysfs power percent  ─► power (configured watts)  ─┤
//! neuron-ls            ─► inventory                 ─┘
//! ```
//!
//! A device that is not there sends nothing: neither a missing group, nor a driver without data, becomes a 0.

mod inventory;
mod power;
mod source;
mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use service::clock::SharedClock;
use service::error::{Result, chain};
use service::metrics::{Counter, Registry};
use service::shutdown::CancellationToken;
use telemetry::neuron;
use tokio::time::MissedTickBehavior;

use self::power::Readings;
use self::source::Source;
use self::write::Host;
use crate::receive::Intake;
use crate::signal::Signal;

/// Neuron devices of this host: `[collector.neuron_monitor]`. Off unless `command`, `input`, `ls` or `power` is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct NeuronMonitor {
    /// Program that prints one JSON document per line, with its arguments; started again when it ends.
    pub command: Vec<String>,
    /// Instead of a command: a named pipe, or a file that grows, with the same lines.
    pub input: Option<PathBuf>,
    /// Program that prints which devices there are as JSON, with its arguments, such as `["neuron-ls", "--json-output"]`. It runs
    /// at the start and then hourly.
    pub ls: Vec<String>,
    /// Resource attributes of the host, such as `"host.id"` where the monitor does not know it.
    pub labels: BTreeMap<String, String>,
    /// Power of the devices.
    pub power: Power,
}

/// Power of the devices, from the percentage in sysfs. On when `max_watts` and `idle_watts` are set: AWS publishes no watts.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Power {
    /// Where the driver shows its devices. Default /sys/devices/virtual/neuron_device.
    pub sysfs: PathBuf,
    /// Watts of one device at 100 %.
    pub max_watts: Option<f64>,
    /// Watts of one device at rest, which the driver's percentage leaves out.
    pub idle_watts: Option<f64>,
    /// How often. Default 30s; the driver has a new value each minute.
    #[serde(with = "service::config::duration")]
    pub every: Duration,
}

impl Default for Power {
    fn default() -> Self {
        Self {
            sysfs: PathBuf::from("/sys/devices/virtual/neuron_device"),
            max_watts: None,
            idle_watts: None,
            every: Duration::from_secs(30),
        }
    }
}

impl NeuronMonitor {
    /// Adds one line for every rule broken.
    pub(crate) fn validate(&self, faults: &mut Vec<String>) {
        let mut fault = |text: &str| faults.push(format!("`collector.neuron_monitor`: {text}"));
        if !self.command.is_empty() && self.input.is_some() {
            fault("give either `command` or `input`");
        }
        if self.command.first().is_some_and(String::is_empty) {
            fault("`command` must begin with a program");
        }
        if self.ls.first().is_some_and(String::is_empty) {
            fault("`ls` must begin with a program");
        }
        if !(Duration::from_millis(100)..=Duration::from_secs(3_600)).contains(&self.power.every) {
            fault("`power.every` must lie between 100ms and 1h");
        }
        match (self.power.idle_watts, self.power.max_watts) {
            (None, None) => {}
            (Some(idle), Some(max)) if idle >= 0.0 && max > idle && max.is_finite() => {}
            _ => fault("`power` needs both `idle_watts` and a larger `max_watts`, in watts per device"),
        }
    }
}

/// What becomes of the monitor's lines.
struct Counters {
    documents: Counter,
    faults: Counter,
    dropped: Counter,
    restarts: Counter,
}

impl Counters {
    fn new(registry: &Registry) -> Self {
        let counter =
            |name: &str, help: &str| registry.counter(&format!("tokenwatt_collector_neuron_{name}"), help, &[]);
        Self {
            documents: counter("documents_total", "Documents of neuron-monitor read."),
            faults: counter("faults_total", "Lines that are no document of neuron-monitor, and unreadable power."),
            dropped: counter("dropped_total", "Neuron samples that found no room in time."),
            restarts: counter("restarts_total", "Times that neuron-monitor ended and was started again."),
        }
    }
}

/// Pauses before a source is opened again: doubled from the first to the last, and the first again once it said something.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LAST: Duration = Duration::from_secs(60);
/// How often the devices are listed: they change when the host starts.
const INVENTORY_EVERY: Duration = Duration::from_secs(3_600);
/// How long a sample waits for room before it is given up for the next.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads the devices until `stop`.
///
/// # Errors
/// None: what goes wrong with a source is tried again.
pub(crate) async fn run(
    settings: NeuronMonitor,
    intake: Intake,
    clock: SharedClock,
    metrics: Registry,
    stop: CancellationToken,
) -> Result<()> {
    let watches = !settings.command.is_empty() || settings.input.is_some();
    if !watches && settings.ls.is_empty() && settings.power.max_watts.is_none() {
        return Ok(());
    }
    let host = Host::new(&settings.labels);
    let readings = Readings::new(&settings.power);
    let mut monitor = Monitor { settings, intake, clock, counters: Counters::new(&metrics), host, readings };
    // Cancel safe: a sample cut short is stored or not, and none is owed to anybody.
    tokio::select! {
        () = monitor.watch(watches) => {}
        () = stop.cancelled() => {}
    }
    Ok(())
}

struct Monitor {
    settings: NeuronMonitor,
    intake: Intake,
    clock: SharedClock,
    counters: Counters,
    host: Host,
    readings: Option<Readings>,
}

impl Monitor {
    async fn watch(&mut self, watches: bool) {
        let mut due = tokio::time::interval(self.settings.power.every);
        due.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut listed = tokio::time::interval(INVENTORY_EVERY);
        listed.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pause = PAUSE_FIRST;
        let mut source: Option<Source> = None;
        let mut again = tokio::time::Instant::now();
        loop {
            // Cancel safe: a line that is half read stays in its source, and ticks come again.
            tokio::select! {
                _ = due.tick(), if self.readings.is_some() => self.power().await,
                _ = listed.tick(), if !self.settings.ls.is_empty() => self.inventory().await,
                () = tokio::time::sleep_until(again), if watches && source.is_none() => {
                    source = self.open().await;
                    if source.is_none() {
                        again = tokio::time::Instant::now() + pause;
                        pause = (2 * pause).min(PAUSE_LAST);
                    }
                }
                line = next(&mut source), if source.is_some() => match line {
                    Some(line) => {
                        pause = PAUSE_FIRST;
                        self.document(&line).await;
                    }
                    None => {
                        source = None;
                        self.counters.restarts.inc();
                        tracing::warn!(again_s = pause.as_secs(), "neuron-monitor ended");
                        again = tokio::time::Instant::now() + pause;
                        pause = (2 * pause).min(PAUSE_LAST);
                    }
                },
            }
        }
    }

    async fn open(&self) -> Option<Source> {
        match Source::open(&self.settings).await {
            Ok(source) => Some(source),
            Err(error) => {
                tracing::warn!(error = chain(&error), "neuron-monitor cannot be read; it is tried again");
                None
            }
        }
    }

    async fn document(&mut self, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        match neuron::parse(line) {
            Ok(report) => {
                self.counters.documents.inc();
                self.host.learn(&report);
                let body = write::report(&self.host, &report, self.now_ns());
                self.deliver(body).await;
            }
            Err(error) => {
                self.counters.faults.inc();
                tracing::debug!(error = chain(&error), "a line of neuron-monitor could not be read");
            }
        }
    }

    async fn inventory(&mut self) {
        match inventory::devices(&self.settings.ls).await {
            Ok(devices) => {
                self.counters.documents.inc();
                self.host.count(&devices);
                self.deliver(write::inventory(&self.host, &devices, self.now_ns())).await;
            }
            Err(error) => {
                self.counters.faults.inc();
                tracing::warn!(error = chain(&error), "neuron-ls cannot be read; it is tried again in an hour");
            }
        }
    }

    async fn power(&mut self) {
        let Some(mut readings) = self.readings.take() else { return };
        let read = tokio::task::spawn_blocking(move || {
            let found = readings.read();
            (readings, found)
        });
        // A reader that panicked is not asked again.
        let Ok((readings, found)) = read.await else { return };
        self.readings = Some(readings);
        self.counters.faults.add(found.faults);
        if !found.watts.is_empty() {
            self.deliver(write::power(&self.host, &found.watts)).await;
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.clock.now_ns()).unwrap_or_default()
    }

    async fn deliver(&self, body: Option<Bytes>) {
        let Some(body) = body else { return };
        match tokio::time::timeout(PATIENCE, self.intake.deliver(Signal::Metrics, body)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                self.counters.dropped.inc();
                tracing::error!(error = chain(&error), "a Neuron sample could not be stored");
            }
            Err(_) => self.counters.dropped.inc(),
        }
    }
}

/// The next line of a source, faults of reading being its end.
async fn next(source: &mut Option<Source>) -> Option<Vec<u8>> {
    source.as_mut()?.next().await.unwrap_or_else(|error| {
        tracing::debug!(%error, "read neuron-monitor");
        None
    })
}
