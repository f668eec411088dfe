//! Metrics and their data points.

use super::value::{KEY_VALUE, RESOURCE, SCOPE};
use super::{Kind, Message, SPAN_ID, TRACE_ID, choice, many, one, optional};

const TEMPORALITIES: [&str; 3] =
    ["AGGREGATION_TEMPORALITY_UNSPECIFIED", "AGGREGATION_TEMPORALITY_DELTA", "AGGREGATION_TEMPORALITY_CUMULATIVE"];

/// `ExportMetricsServiceRequest`.
pub static METRICS: Message = Message { fields: &[many(1, "resourceMetrics", Kind::Message(&RESOURCE_METRICS))] };

/// `ResourceMetrics`.
pub static RESOURCE_METRICS: Message = Message {
    fields: &[
        optional(1, "resource", Kind::Message(&RESOURCE)),
        many(2, "scopeMetrics", Kind::Message(&SCOPE_METRICS)),
        one(3, "schemaUrl", Kind::Text),
    ],
};

/// `ScopeMetrics`.
pub static SCOPE_METRICS: Message = Message {
    fields: &[
        many(2, "metrics", Kind::Message(&METRIC)),
        optional(1, "scope", Kind::Message(&SCOPE)),
        one(3, "schemaUrl", Kind::Text),
    ],
};

/// `Metric`.
pub static METRIC: Message = Message {
    fields: &[
        one(1, "name", Kind::Text),
        one(2, "description", Kind::Text),
        one(3, "unit", Kind::Text),
        choice(5, "gauge", Kind::Message(&GAUGE)),
        choice(7, "sum", Kind::Message(&SUM)),
        choice(9, "histogram", Kind::Message(&HISTOGRAM)),
        choice(10, "exponentialHistogram", Kind::Message(&EXPONENTIAL_HISTOGRAM)),
        choice(11, "summary", Kind::Message(&SUMMARY)),
        many(12, "metadata", Kind::Message(&KEY_VALUE)),
    ],
};

/// `Gauge`.
pub static GAUGE: Message = Message { fields: &[many(1, "dataPoints", Kind::Message(&NUMBER_POINT))] };

/// `Sum`.
pub static SUM: Message = Message {
    fields: &[
        many(1, "dataPoints", Kind::Message(&NUMBER_POINT)),
        one(2, "aggregationTemporality", Kind::Enum(&TEMPORALITIES)),
        one(3, "isMonotonic", Kind::Bool),
    ],
};

/// `Histogram`.
pub static HISTOGRAM: Message = Message {
    fields: &[
        many(1, "dataPoints", Kind::Message(&HISTOGRAM_POINT)),
        one(2, "aggregationTemporality", Kind::Enum(&TEMPORALITIES)),
    ],
};

/// `ExponentialHistogram`.
pub static EXPONENTIAL_HISTOGRAM: Message = Message {
    fields: &[
        many(1, "dataPoints", Kind::Message(&EXPONENTIAL_POINT)),
        one(2, "aggregationTemporality", Kind::Enum(&TEMPORALITIES)),
    ],
};

/// `Summary`.
pub static SUMMARY: Message = Message { fields: &[many(1, "dataPoints", Kind::Message(&SUMMARY_POINT))] };

/// `NumberDataPoint`.
pub static NUMBER_POINT: Message = Message {
    fields: &[
        many(7, "attributes", Kind::Message(&KEY_VALUE)),
        one(2, "startTimeUnixNano", Kind::Fixed64),
        one(3, "timeUnixNano", Kind::Fixed64),
        choice(4, "asDouble", Kind::Double),
        choice(6, "asInt", Kind::Sfixed64),
        many(5, "exemplars", Kind::Message(&EXEMPLAR)),
        one(8, "flags", Kind::Uint32),
    ],
};

/// `HistogramDataPoint`.
pub static HISTOGRAM_POINT: Message = Message {
    fields: &[
        many(9, "attributes", Kind::Message(&KEY_VALUE)),
        one(2, "startTimeUnixNano", Kind::Fixed64),
        one(3, "timeUnixNano", Kind::Fixed64),
        one(4, "count", Kind::Fixed64),
        optional(5, "sum", Kind::Double),
        many(6, "bucketCounts", Kind::Fixed64),
        many(7, "explicitBounds", Kind::Double),
        many(8, "exemplars", Kind::Message(&EXEMPLAR)),
        one(10, "flags", Kind::Uint32),
        optional(11, "min", Kind::Double),
        optional(12, "max", Kind::Double),
    ],
};

/// `ExponentialHistogramDataPoint`.
pub static EXPONENTIAL_POINT: Message = Message {
    fields: &[
        many(1, "attributes", Kind::Message(&KEY_VALUE)),
        one(2, "startTimeUnixNano", Kind::Fixed64),
        one(3, "timeUnixNano", Kind::Fixed64),
        one(4, "count", Kind::Fixed64),
        optional(5, "sum", Kind::Double),
        one(6, "scale", Kind::Sint32),
        one(7, "zeroCount", Kind::Fixed64),
        optional(8, "positive", Kind::Message(&BUCKETS)),
        optional(9, "negative", Kind::Message(&BUCKETS)),
        one(10, "flags", Kind::Uint32),
        many(11, "exemplars", Kind::Message(&EXEMPLAR)),
        optional(12, "min", Kind::Double),
        optional(13, "max", Kind::Double),
        one(14, "zeroThreshold", Kind::Double),
    ],
};

/// `ExponentialHistogramDataPoint.Buckets`.
pub static BUCKETS: Message =
    Message { fields: &[one(1, "offset", Kind::Sint32), many(2, "bucketCounts", Kind::Uint64)] };

/// `SummaryDataPoint`.
pub static SUMMARY_POINT: Message = Message {
    fields: &[
        many(7, "attributes", Kind::Message(&KEY_VALUE)),
        one(2, "startTimeUnixNano", Kind::Fixed64),
        one(3, "timeUnixNano", Kind::Fixed64),
        one(4, "count", Kind::Fixed64),
        one(5, "sum", Kind::Double),
        many(6, "quantileValues", Kind::Message(&QUANTILE)),
        one(8, "flags", Kind::Uint32),
    ],
};

/// `SummaryDataPoint.ValueAtQuantile`.
pub static QUANTILE: Message = Message { fields: &[one(1, "quantile", Kind::Double), one(2, "value", Kind::Double)] };

/// `Exemplar`.
pub static EXEMPLAR: Message = Message {
    fields: &[
        many(7, "filteredAttributes", Kind::Message(&KEY_VALUE)),
        one(2, "timeUnixNano", Kind::Fixed64),
        choice(3, "asDouble", Kind::Double),
        choice(6, "asInt", Kind::Sfixed64),
        one(4, "spanId", Kind::Id(SPAN_ID)),
        one(5, "traceId", Kind::Id(TRACE_ID)),
    ],
};
