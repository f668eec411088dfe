//! The process's own counters and gauges, and their OpenMetrics text.
//!
//! Names start with `tokenwatt_`, end in a unit, and a counter's ends in `_total`. Label values come from
//! small sets; past a limit of series a family folds into `__other__` instead of growing.

mod histogram;
mod render;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::http::{HeaderMap, header};
use axum::routing::get;
use parking_lot::Mutex;

use crate::channel::Sender;

pub use histogram::{Histogram, SECONDS, TOKENS};

/// The most label sets of one family; what comes later is counted under `__other__`.
const SERIES_MAX: usize = 1_000;

/// Content type of the text that [`Registry::render`] returns.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether traces are named beside buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exemplars {
    /// They are.
    Shown,
    /// They are left out.
    Left,
}

impl Exemplars {
    /// Only who asks for OpenMetrics reads exemplars; to parsers of the older text they are a syntax error.
    #[must_use]
    pub fn asked(headers: &HeaderMap) -> Self {
        let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        if accept.contains("openmetrics") { Self::Shown } else { Self::Left }
    }
}

/// All counters and gauges of a process. Clones share them.
#[derive(Clone, Default)]
pub struct Registry {
    families: Arc<Mutex<BTreeMap<String, Family>>>,
}

struct Family {
    kind: FamilyKind,
    help: String,
    series: BTreeMap<Vec<(String, String)>, Series>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FamilyKind {
    Counter,
    Gauge,
    Histogram,
}

enum Series {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
    Observed(Box<dyn Fn() -> Option<f64> + Send>),
}

/// A family of series, described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its name, as a query spells it.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Names of its labels.
    pub labels: Vec<String>,
    /// What it counts or measures.
    pub help: String,
}

/// A number that only grows.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down. It is absent from the text until it is first set.
#[derive(Debug, Clone)]
pub struct Gauge(Arc<AtomicU64>);

impl Default for Gauge {
    fn default() -> Self {
        // NaN stands for "never set": no data is absent, not 0.
        Self(Arc::new(AtomicU64::new(f64::NAN.to_bits())))
    }
}

impl Gauge {
    /// Sets the value.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Adds `delta`, which may be negative; an unset gauge counts as 0.
    pub fn add(&self, delta: f64) {
        let next = |bits| {
            let now = f64::from_bits(bits);
            Some((if now.is_nan() { delta } else { now + delta }).to_bits())
        };
        // The closure never returns None, so the update always succeeds.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// The value; NaN when it was never set.
    #[must_use]
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The counter called `name` (with or without `_total`) with these labels; the same one for the same labels.
    #[must_use]
    pub fn counter(&self, name: &str, help: &str, labels: &[(&str, String)]) -> Counter {
        let family = name.strip_suffix("_total").unwrap_or(name);
        let made = self.series(FamilyKind::Counter, family, help, labels, || Series::Counter(Counter::default()));
        made.counter().unwrap_or_default()
    }

    /// The gauge called `name` with these labels; the same one for the same labels.
    #[must_use]
    pub fn gauge(&self, name: &str, help: &str, labels: &[(&str, String)]) -> Gauge {
        let made = self.series(FamilyKind::Gauge, name, help, labels, || Series::Gauge(Gauge::default()));
        made.gauge().unwrap_or_default()
    }

    /// The histogram of durations called `name` with these labels; the same one for the same labels.
    #[must_use]
    pub fn histogram(&self, name: &str, help: &str, labels: &[(&str, String)]) -> Histogram {
        self.histogram_like(Histogram::of_seconds(SECONDS), name, help, labels)
    }

    /// The histogram of numbers of tokens called `name` with these labels; the same one for the same labels.
    #[must_use]
    pub fn histogram_of_tokens(&self, name: &str, help: &str, labels: &[(&str, String)]) -> Histogram {
        self.histogram_like(Histogram::of_counts(TOKENS), name, help, labels)
    }

    fn histogram_like(&self, new: Histogram, name: &str, help: &str, labels: &[(&str, String)]) -> Histogram {
        match self.series(FamilyKind::Histogram, name, help, labels, || Series::Histogram(new.clone())) {
            Found::Histogram(histogram) => histogram,
            _ => new,
        }
    }

    /// A gauge whose value is asked for at each scrape; `None` leaves it out.
    pub fn observe(
        &self,
        name: &str,
        help: &str,
        labels: &[(&str, String)],
        value: impl Fn() -> Option<f64> + Send + 'static,
    ) {
        let _ = self.series(FamilyKind::Gauge, name, help, labels, || Series::Observed(Box::new(value)));
    }

    /// Shows the depth and the bound of a queue, for as long as it has senders.
    pub fn queue<T: Send + 'static>(&self, sender: &Sender<T>) {
        let label = [("queue", sender.name().to_owned())];
        let (weak, capacity) = (sender.weak(), sender.capacity());
        self.observe("tokenwatt_queue_depth", "Items waiting in the queue.", &label, move || {
            weak.depth().map(|depth| depth as f64)
        });
        let weak = sender.weak();
        self.observe("tokenwatt_queue_capacity", "Most items that can wait in the queue.", &label, move || {
            weak.depth().map(|_| capacity as f64)
        });
    }

    /// The whole text, with the closing `# EOF`, without exemplars.
    #[must_use]
    pub fn render(&self) -> String {
        self.page(Exemplars::Left)
    }

    fn page(&self, exemplars: Exemplars) -> String {
        let mut text = self.render_open(exemplars);
        text.push_str("# EOF\n");
        text
    }

    /// The text without `# EOF`, for a page that has more to say.
    #[must_use]
    pub fn render_open(&self, exemplars: Exemplars) -> String {
        let mut text = String::new();
        for (name, family) in self.families.lock().iter() {
            render::family(&mut text, name, family, exemplars);
        }
        text
    }

    /// What there is, in order of names: for documentation.
    #[must_use]
    pub fn families(&self) -> Vec<Described> {
        let describe = |(name, family): (&String, &Family)| {
            let (suffix, kind) = match family.kind {
                FamilyKind::Counter => ("_total", "counter"),
                FamilyKind::Gauge => ("", "gauge"),
                FamilyKind::Histogram => ("", "histogram"),
            };
            let labels = family.series.keys().next().into_iter().flatten().map(|(label, _)| label.clone());
            Described { name: format!("{name}{suffix}"), kind, labels: labels.collect(), help: family.help.clone() }
        };
        self.families.lock().iter().map(describe).collect()
    }

    /// Route `/metrics`.
    pub fn router(&self) -> Router {
        let registry = self.clone();
        let page = move |headers: HeaderMap| {
            let text = registry.page(Exemplars::asked(&headers));
            async move { ([(header::CONTENT_TYPE, CONTENT_TYPE)], text) }
        };
        Router::new().route("/metrics", get(page))
    }

    fn series(
        &self,
        kind: FamilyKind,
        name: &str,
        help: &str,
        labels: &[(&str, String)],
        make: impl FnOnce() -> Series,
    ) -> Found {
        let mut families = self.families.lock();
        let family = families.entry(name.to_owned()).or_insert_with(|| Family {
            kind,
            help: help.to_owned(),
            series: BTreeMap::new(),
        });
        if family.kind != kind {
            // Two parts of the program disagree about a name; the first stands and the second counts unseen.
            tracing::error!(metric = name, "metric registered twice with different kinds");
            return Found::None;
        }
        let mut key: Vec<_> = labels.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        key.sort();
        if !family.series.contains_key(&key) && family.series.len() >= SERIES_MAX {
            key.iter_mut().for_each(|(_, value)| "__other__".clone_into(value));
        }
        let series = family.series.entry(key).or_insert_with(make);
        match series {
            Series::Counter(counter) => Found::Counter(counter.clone()),
            Series::Gauge(gauge) => Found::Gauge(gauge.clone()),
            Series::Histogram(histogram) => Found::Histogram(histogram.clone()),
            Series::Observed(_) => Found::None,
        }
    }
}

enum Found {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
    None,
}

impl Found {
    fn counter(self) -> Option<Counter> {
        if let Self::Counter(counter) = self { Some(counter) } else { None }
    }

    fn gauge(self) -> Option<Gauge> {
        if let Self::Gauge(gauge) = self { Some(gauge) } else { None }
    }
}

#[cfg(test)]
mod tests;
