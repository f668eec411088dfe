//! Everything OTLP carries, losslessly.

use super::{ATTRIBUTES, DIMENSIONS, ORIGIN, Role, Table, double, doubles, flag, int, ints, text};

/// Spans.
pub const SPANS: Table = Table {
    name: "spans",
    doc: "every span but `token` ones, as it was sent",
    groups: &[
        DIMENSIONS,
        &[
            text("trace_id", "trace id, 32 hex digits"),
            text("span_id", "span id, 16 hex digits"),
            text("parent_span_id", "parent span id, 16 hex digits, empty for a root"),
            text("trace_state", "W3C tracestate"),
            int("flags", "1", "W3C trace flags and context bits"),
            text("name", "span name"),
            text("kind", "internal, server, client, producer, consumer or unspecified"),
            int("time_unix_nano", "ns", "start, nanoseconds since the epoch"),
            int("end_unix_nano", "ns", "end, nanoseconds since the epoch"),
            text("status", "unset, ok or error"),
            text("status_message", "what the emitter says of the status"),
            text("events", "OTLP JSON array of its events"),
            text("links", "OTLP JSON array of its links"),
            int("dropped_attributes", "1", "attributes dropped before sending"),
            int("dropped_events", "1", "events dropped before sending"),
            int("dropped_links", "1", "links dropped before sending"),
            text("tenant", "for whom the work was done"),
        ],
        ATTRIBUTES,
        ORIGIN,
    ],
    order: &["service", "time"],
    retention_days: Some(30),
    role: Role::Bulk,
};

/// Log records.
pub const LOGS: Table = Table {
    name: "logs",
    doc: "one log record",
    groups: &[
        DIMENSIONS,
        &[
            int("time_unix_nano", "ns", "event time, nanoseconds since the epoch, 0 if not sent"),
            int("observed_unix_nano", "ns", "when the record was first seen, nanoseconds since the epoch"),
            int("severity_number", "1", "OTLP severity, 1 to 24"),
            text("severity", "severity as the emitter spells it"),
            text("body", "body as text"),
            text("body_typed", "OTLP JSON of a body that is not a string"),
            text("event_name", "name of the event"),
            text("trace_id", "trace id, 32 hex digits"),
            text("span_id", "span id, 16 hex digits"),
            int("flags", "1", "W3C trace flags"),
            int("dropped_attributes", "1", "attributes dropped before sending"),
            text("tenant", "for whom the work was done"),
        ],
        ATTRIBUTES,
        ORIGIN,
    ],
    order: &["service", "time"],
    retention_days: Some(30),
    role: Role::Bulk,
};

/// Gauges and sums.
pub const METRICS: Table = Table {
    name: "metrics",
    doc: "one data point of a gauge or a sum",
    groups: &[
        DIMENSIONS,
        &[
            text("name", "metric name"),
            text("description", "what the emitter says it is"),
            text("unit", "unit as sent"),
            text("kind", "gauge or sum"),
            text("temporality", "delta, cumulative or unspecified"),
            flag("monotonic", "whether the sum never falls"),
            int("start_unix_nano", "ns", "start of the interval, nanoseconds since the epoch"),
            int("time_unix_nano", "ns", "end of the interval, nanoseconds since the epoch"),
            double("value", "", "value, also of integers"),
            int("value_int", "", "value of a point that was sent as an integer"),
            int("flags", "1", "data point flags"),
            text("exemplars", "OTLP JSON array of exemplars"),
            map_metadata(),
            text("tenant", "for whom the work was done"),
        ],
        ATTRIBUTES,
        ORIGIN,
    ],
    order: &["service", "time"],
    retention_days: Some(30),
    role: Role::Bulk,
};

/// Histograms, exponential histograms and summaries.
pub const HISTOGRAMS: Table = Table {
    name: "histograms",
    doc: "one data point of a histogram, an exponential histogram or a summary",
    groups: &[
        DIMENSIONS,
        &[
            text("name", "metric name"),
            text("description", "what the emitter says it is"),
            text("unit", "unit as sent"),
            text("kind", "histogram, exponential_histogram or summary"),
            text("temporality", "delta, cumulative or unspecified"),
            int("start_unix_nano", "ns", "start of the interval, nanoseconds since the epoch"),
            int("time_unix_nano", "ns", "end of the interval, nanoseconds since the epoch"),
            int("count", "1", "observations"),
            double("sum", "", "sum of the observations"),
            double("min", "", "smallest observation"),
            double("max", "", "largest observation"),
            doubles("bounds", "upper bounds of the classic buckets, the last one open"),
            ints("counts", "observations per classic bucket"),
            int("scale", "1", "exponential: base is 2^(2^-scale)"),
            int("zero_count", "1", "exponential: observations in the zero bucket"),
            double("zero_threshold", "", "exponential: half-width of the zero bucket"),
            int("positive_offset", "1", "exponential: index of the first positive bucket"),
            ints("positive_counts", "exponential: observations per positive bucket"),
            int("negative_offset", "1", "exponential: index of the first negative bucket"),
            ints("negative_counts", "exponential: observations per negative bucket"),
            doubles("quantiles", "summary: quantiles, 0 to 1"),
            doubles("quantile_values", "summary: value at each quantile"),
            int("flags", "1", "data point flags"),
            text("exemplars", "OTLP JSON array of exemplars"),
            map_metadata(),
            text("tenant", "for whom the work was done"),
        ],
        ATTRIBUTES,
        ORIGIN,
    ],
    order: &["service", "time"],
    retention_days: Some(30),
    role: Role::Bulk,
};

const fn map_metadata() -> super::Column {
    text("metadata", "OTLP JSON of the metric's metadata, by key")
}
