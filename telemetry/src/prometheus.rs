//! The text that Prometheus clients expose, read in place: format 0.0.4 and OpenMetrics 1.0.
//!
//! ```text
//! text ─► line (one sample, or what is said of a family) ─► family ─► metrics with points, as OTLP knows them
//! ```
//!
//! A line that cannot be read costs that line and is counted; the rest of the exposition stands. A histogram or summary
//! whose lines do not fit together is not bent into shape: its samples are kept one by one as gauges under their own names.

mod family;
mod line;

use std::borrow::Cow;
use std::collections::HashMap;

pub use line::{Exemplar, Labels};

/// Which of the two formats a text is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `text/plain; version=0.0.4`: timestamps are milliseconds.
    Text,
    /// `application/openmetrics-text; version=1.0.0`: timestamps are seconds, and the text ends with `# EOF`.
    OpenMetrics,
}

impl Format {
    /// The format that a `Content-Type` names; anything but OpenMetrics is read as text, as Prometheus does.
    #[must_use]
    pub fn of(content_type: &str) -> Self {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        if media.eq_ignore_ascii_case("application/openmetrics-text") { Self::OpenMetrics } else { Self::Text }
    }
}

/// What a family was declared as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Declared {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Classic buckets, cumulative.
    Histogram,
    /// Classic buckets that go up and down.
    GaugeHistogram,
    /// Quantiles.
    Summary,
    /// Text in labels, value 1.
    Info,
    /// One series per state, value 0 or 1.
    StateSet,
    /// Not declared.
    #[default]
    Unknown,
}

impl Declared {
    fn named(kind: &str) -> Option<Self> {
        Some(match kind {
            "counter" => Self::Counter,
            "gauge" => Self::Gauge,
            "histogram" => Self::Histogram,
            "gaugehistogram" => Self::GaugeHistogram,
            "summary" => Self::Summary,
            "info" => Self::Info,
            "stateset" => Self::StateSet,
            "unknown" | "untyped" => Self::Unknown,
            _ => return None,
        })
    }

    /// Its name in OpenMetrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::GaugeHistogram => "gaugehistogram",
            Self::Summary => "summary",
            Self::Info => "info",
            Self::StateSet => "stateset",
            Self::Unknown => "unknown",
        }
    }
}

/// What a metric's points are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Cumulative and monotonic numbers.
    Counter,
    /// Numbers.
    Gauge,
    /// Explicit-bucket histograms, cumulative in time.
    Histogram,
    /// Quantiles.
    Summary,
}

/// A whole exposition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposition<'a> {
    /// Metrics in the order in which they first appear.
    pub metrics: Vec<Metric<'a>>,
    /// Lines that held a sample.
    pub samples: usize,
    /// Lines that could not be read.
    pub faults: u64,
    /// The first of them.
    pub fault: Option<Fault>,
}

/// Points of one name and shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric<'a> {
    /// Name as exposed: a counter's with `_total` where the exposition has it, a histogram's without `_bucket`.
    pub name: &'a str,
    /// What its points are.
    pub shape: Shape,
    /// What its family was declared as.
    pub declared: Declared,
    /// What the exposition says it is, empty if nothing.
    pub help: Cow<'a, str>,
    /// Unit as declared, such as `seconds`; empty if none is.
    pub unit: &'a str,
    /// The points.
    pub points: Vec<Point<'a>>,
}

/// One point of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Point<'a> {
    /// Labels in order of their names, without `le` and `quantile` where those became part of the value.
    pub labels: Labels<'a>,
    /// Explicit time, nanoseconds since 1970-01-01 UTC.
    pub time_ns: Option<i64>,
    /// When a counter, histogram or summary was zero (`_created`), nanoseconds since 1970-01-01 UTC.
    pub created_ns: Option<i64>,
    /// The value.
    pub value: Value<'a>,
}

/// The value of a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Of a counter or gauge.
    Number(f64, Option<Box<Exemplar<'a>>>),
    /// Of a histogram.
    Histogram(Histogram<'a>),
    /// Of a summary.
    Summary(Summary),
}

/// A histogram as OTLP has it: `counts[i]` observations lie in `(bounds[i - 1], bounds[i]]`, the last above all bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram<'a> {
    /// Upper bounds, rising, finite.
    pub bounds: Vec<f64>,
    /// Observations per bucket, one more than bounds.
    pub counts: Vec<u64>,
    /// All observations: the sum of `counts`.
    pub count: u64,
    /// Sum of the observations, if exposed.
    pub sum: Option<f64>,
    /// Exemplars of the buckets.
    pub exemplars: Vec<Exemplar<'a>>,
}

/// A summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Quantile, 0 to 1, and its value.
    pub quantiles: Vec<(f64, f64)>,
    /// Observations.
    pub count: u64,
    /// Sum of the observations.
    pub sum: f64,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct Fault {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub message: &'static str,
}

/// Why a text is no exposition at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// OpenMetrics without its last line: the text is not whole.
    #[error("the text does not end with `# EOF`: it was cut off on the way")]
    Truncated,
    /// More samples than allowed.
    #[error("more than {0} samples")]
    TooMany(usize),
}

/// What is known of a family from its `HELP`, `TYPE` and `UNIT`.
#[derive(Clone, Debug, Default)]
struct Head<'a> {
    declared: Declared,
    help: Cow<'a, str>,
    unit: &'a str,
}

/// Families by name.
type Heads<'a> = HashMap<&'a str, Head<'a>>;

/// Reads an exposition of at most `samples_max` samples.
///
/// # Errors
/// If the text is cut off or has too many samples; a line with a fault is counted in the result instead.
pub fn parse(text: &[u8], format: Format, samples_max: usize) -> Result<Exposition<'_>, Unreadable> {
    let mut heads = Heads::new();
    let mut samples = Vec::new();
    let mut exposition = Exposition::default();
    let mut ended = false;
    for (at, bytes) in text.split(|byte| *byte == b'\n').enumerate() {
        let read = match std::str::from_utf8(bytes).map(str::trim_ascii) {
            Err(_) => Err("not valid UTF-8"),
            Ok("") => continue,
            Ok(_) if ended => Err("text after `# EOF`"),
            Ok("# EOF") if format == Format::OpenMetrics => {
                ended = true;
                continue;
            }
            Ok(line) if line.starts_with('#') => line::comment(line, &mut heads),
            Ok(line) => line::sample(line, format).map(|sample| samples.push((at + 1, sample))),
        };
        if let Err(message) = read {
            exposition.note(at + 1, message);
        }
        if samples.len() > samples_max {
            return Err(Unreadable::TooMany(samples_max));
        }
    }
    if format == Format::OpenMetrics && !ended {
        return Err(Unreadable::Truncated);
    }
    exposition.samples = samples.len();
    family::gather(&heads, samples, &mut exposition);
    Ok(exposition)
}

impl Exposition<'_> {
    fn note(&mut self, line: usize, message: &'static str) {
        self.faults += 1;
        self.fault.get_or_insert(Fault { line, message });
    }
}

#[cfg(test)]
mod tests;
