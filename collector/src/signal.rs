//! What a body carries, and how it is encoded.

/// The signal of a body: where it came in decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metric data points.
    Metrics,
    /// Log records.
    Logs,
    /// The collector's own counters, journalled like everything else.
    Own,
    /// Notifications of Alertmanager.
    Alerts,
}

impl Signal {
    /// The three signals that OTLP exports.
    pub const OTLP: [Signal; 3] = [Signal::Traces, Signal::Metrics, Signal::Logs];

    /// The signals that others send.
    pub const SENT: [Signal; 4] = [Signal::Traces, Signal::Metrics, Signal::Logs, Signal::Alerts];

    /// Lowercase name, as in metrics and in table `quarantine`.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Traces => "traces",
            Signal::Metrics => "metrics",
            Signal::Logs => "logs",
            Signal::Own => "own",
            Signal::Alerts => "alerts",
        }
    }

    /// What partial success counts, as OTLP/JSON spells it.
    pub fn rejected_json(self) -> &'static str {
        match self {
            Signal::Traces => "rejectedSpans",
            Signal::Metrics | Signal::Own => "rejectedDataPoints",
            Signal::Logs => "rejectedLogRecords",
            Signal::Alerts => "rejectedAlerts",
        }
    }

    /// Its code in the journal.
    pub fn code(self) -> u8 {
        match self {
            Signal::Traces => 1,
            Signal::Metrics => 2,
            Signal::Logs => 3,
            Signal::Own => 4,
            Signal::Alerts => 5,
        }
    }

    /// The signal with that code.
    pub fn from_code(code: u8) -> Option<Self> {
        Signal::SENT.into_iter().chain([Signal::Own]).find(|signal| signal.code() == code)
    }
}

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Protobuf.
    Protobuf,
    /// OTLP/JSON.
    Json,
}

impl Encoding {
    /// Its code in the journal.
    pub fn code(self) -> u8 {
        match self {
            Encoding::Protobuf => 0,
            Encoding::Json => 1,
        }
    }

    /// The encoding with that code.
    pub fn from_code(code: u8) -> Option<Self> {
        [Encoding::Protobuf, Encoding::Json].into_iter().find(|encoding| encoding.code() == code)
    }
}
