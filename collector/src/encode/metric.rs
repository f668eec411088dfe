//! Metrics and their points.

use super::{attribute, fixed64, message, text, varint};

/// What is said of a metric once for all its points.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: &'a str,
    pub(crate) unit: &'a str,
    /// `prometheus.type` of a metric whose data does not tell it.
    pub(crate) declared: Option<&'a str>,
}

/// What a metric's points are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    Gauge,
    /// A sum that never falls, since its start.
    Counter,
    /// A sum that never falls, of one interval.
    Delta,
    /// Cumulative.
    Histogram,
    Summary,
}

/// The interval of a point, nanoseconds since 1970-01-01 UTC; a start of 0 is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) start_ns: u64,
    pub(crate) time_ns: u64,
}

/// `AGGREGATION_TEMPORALITY_DELTA` and `_CUMULATIVE`.
const DELTA: u64 = 1;
const CUMULATIVE: u64 = 2;
/// `DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK`.
const NO_RECORDED_VALUE: u64 = 1;

/// Appends a metric to the items of a scope; `points` are encoded, each in field 1.
pub(crate) fn metric(head: Head<'_>, data: Data, points: &[u8], out: &mut Vec<u8>) {
    let (field, temporality, monotonic) = match data {
        Data::Gauge => (5, None, false),
        Data::Counter => (7, Some(CUMULATIVE), true),
        Data::Delta => (7, Some(DELTA), true),
        Data::Histogram => (9, Some(CUMULATIVE), false),
        Data::Summary => (11, None, false),
    };
    message(2, out, |metric| {
        text(1, head.name, metric);
        text(2, head.description, metric);
        text(3, head.unit, metric);
        message(field, metric, |data| {
            data.extend_from_slice(points);
            if let Some(temporality) = temporality {
                varint(2, temporality, data);
            }
            if monotonic {
                varint(3, 1, data);
            }
        });
        if let Some(declared) = head.declared {
            attribute(12, "prometheus.type", declared, metric);
        }
    });
}

/// Appends attributes of a point: field 9 of a histogram's, 7 of all others.
pub(crate) fn attributes<'a>(data: Data, pairs: impl Iterator<Item = (&'a str, &'a str)>, out: &mut Vec<u8>) {
    let field = if data == Data::Histogram { 9 } else { 7 };
    pairs.for_each(|(key, value)| attribute(field, key, value, out));
}

fn interval(interval: Interval, point: &mut Vec<u8>) {
    if interval.start_ns != 0 {
        fixed64(2, interval.start_ns, point);
    }
    fixed64(3, interval.time_ns, point);
}

/// Appends a number; `attributes` and `exemplars` are encoded.
pub(crate) fn number(when: Interval, value: f64, attributes: &[u8], exemplars: &[u8], out: &mut Vec<u8>) {
    message(1, out, |point| {
        interval(when, point);
        fixed64(4, value.to_bits(), point);
        point.extend_from_slice(exemplars);
        point.extend_from_slice(attributes);
    });
}

/// Appends the end of a series: a point that says that there is no value.
pub(crate) fn ended(time_ns: u64, attributes: &[u8], out: &mut Vec<u8>) {
    message(1, out, |point| {
        interval(Interval { start_ns: 0, time_ns }, point);
        point.extend_from_slice(attributes);
        varint(8, NO_RECORDED_VALUE, point);
    });
}

/// Appends a histogram; `attributes` and `exemplars` are encoded.
pub(crate) fn histogram(
    when: Interval,
    histogram: &telemetry::prometheus::Histogram<'_>,
    attributes: &[u8],
    exemplars: &[u8],
    out: &mut Vec<u8>,
) {
    message(1, out, |point| {
        interval(when, point);
        fixed64(4, histogram.count, point);
        if let Some(sum) = histogram.sum {
            fixed64(5, sum.to_bits(), point);
        }
        message(6, point, |counts| histogram.counts.iter().for_each(|count| counts.extend(count.to_le_bytes())));
        message(7, point, |bounds| histogram.bounds.iter().for_each(|bound| bounds.extend(bound.to_le_bytes())));
        point.extend_from_slice(exemplars);
        point.extend_from_slice(attributes);
    });
}

/// Appends a summary; `attributes` are encoded.
pub(crate) fn summary(when: Interval, summary: &telemetry::prometheus::Summary, attributes: &[u8], out: &mut Vec<u8>) {
    message(1, out, |point| {
        interval(when, point);
        fixed64(4, summary.count, point);
        fixed64(5, summary.sum.to_bits(), point);
        for (quantile, value) in &summary.quantiles {
            message(6, point, |pair| {
                fixed64(1, quantile.to_bits(), pair);
                fixed64(2, value.to_bits(), pair);
            });
        }
        point.extend_from_slice(attributes);
    });
}

/// Appends an exemplar to a point: field 8 of a histogram's, 5 of a number's. Ids become ids if they are ones.
pub(crate) fn exemplar(data: Data, exemplar: &telemetry::prometheus::Exemplar<'_>, time_ns: u64, out: &mut Vec<u8>) {
    let field = if data == Data::Histogram { 8 } else { 5 };
    message(field, out, |written| {
        let own = exemplar.time_ns.and_then(|time| u64::try_from(time).ok());
        fixed64(2, own.unwrap_or(time_ns), written);
        fixed64(3, exemplar.value.to_bits(), written);
        for (label, value) in &exemplar.labels {
            match (*label, super::log::id(value)) {
                ("trace_id", Some(id)) if id.len() == 16 => crate::decode::wire::put_bytes(5, &id, written),
                ("span_id", Some(id)) if id.len() == 8 => crate::decode::wire::put_bytes(4, &id, written),
                _ => attribute(7, label, value, written),
            }
        }
    });
}
