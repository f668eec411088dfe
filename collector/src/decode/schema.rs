//! OTLP 1.11 as data: one description that validation, the JSON reader and the JSON printer share.
//!
//! Numbers, types and JSON names come from opentelemetry-proto; a test compares them with its generated code.

/// A message type.
pub struct Message {
    /// Its fields, the frequent ones first.
    pub fields: &'static [Field],
}

/// A field of a message.
pub struct Field {
    /// Field number on the wire.
    pub number: u32,
    /// Name in OTLP/JSON.
    pub json: &'static str,
    /// Type of one value.
    pub kind: Kind,
    /// Whether it may occur more than once.
    pub repeated: bool,
    /// Whether its absence means something, so that JSON prints even a zero.
    pub presence: bool,
}

/// The type of one value.
#[derive(Clone, Copy)]
pub enum Kind {
    /// UTF-8 text.
    Text,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A trace or span id: bytes, hex in JSON.
    Id,
    /// Varint, true or false.
    Bool,
    /// Varint of at most 32 bits, signed, also of enumerations; a number in JSON.
    Int32,
    /// Varint of at most 32 bits, unsigned; a number in JSON.
    Uint32,
    /// Zigzag varint of at most 32 bits.
    Sint32,
    /// Varint of 64 bits, signed; text in JSON.
    Int64,
    /// Varint of 64 bits, unsigned; text in JSON.
    Uint64,
    /// Four bytes.
    Fixed32,
    /// Eight bytes, unsigned; text in JSON.
    Fixed64,
    /// Eight bytes, signed; text in JSON.
    Sfixed64,
    /// Eight bytes of IEEE 754.
    Double,
    /// A nested message.
    Message(&'static Message),
}

const fn one(number: u32, json: &'static str, kind: Kind) -> Field {
    Field { number, json, kind, repeated: false, presence: false }
}

const fn optional(number: u32, json: &'static str, kind: Kind) -> Field {
    Field { number, json, kind, repeated: false, presence: true }
}

const fn many(number: u32, json: &'static str, kind: Kind) -> Field {
    Field { number, json, kind, repeated: true, presence: false }
}

/// `AnyValue`.
pub static ANY_VALUE: Message = Message {
    fields: &[
        optional(1, "stringValue", Kind::Text),
        optional(3, "intValue", Kind::Int64),
        optional(4, "doubleValue", Kind::Double),
        optional(2, "boolValue", Kind::Bool),
        optional(5, "arrayValue", Kind::Message(&ARRAY_VALUE)),
        optional(6, "kvlistValue", Kind::Message(&KEY_VALUE_LIST)),
        optional(7, "bytesValue", Kind::Bytes),
    ],
};

/// `ArrayValue`.
pub static ARRAY_VALUE: Message = Message { fields: &[many(1, "values", Kind::Message(&ANY_VALUE))] };

/// `KeyValueList`.
pub static KEY_VALUE_LIST: Message = Message { fields: &[many(1, "values", Kind::Message(&KEY_VALUE))] };

/// `KeyValue`.
pub static KEY_VALUE: Message =
    Message { fields: &[one(1, "key", Kind::Text), optional(2, "value", Kind::Message(&ANY_VALUE))] };

/// `InstrumentationScope`.
pub static SCOPE: Message = Message {
    fields: &[
        one(1, "name", Kind::Text),
        one(2, "version", Kind::Text),
        many(3, "attributes", Kind::Message(&KEY_VALUE)),
        one(4, "droppedAttributesCount", Kind::Uint32),
    ],
};

/// `EntityRef`.
pub static ENTITY_REF: Message = Message {
    fields: &[
        one(1, "schemaUrl", Kind::Text),
        one(2, "type", Kind::Text),
        many(3, "idKeys", Kind::Text),
        many(4, "descriptionKeys", Kind::Text),
    ],
};

/// `Resource`.
pub static RESOURCE: Message = Message {
    fields: &[
        many(1, "attributes", Kind::Message(&KEY_VALUE)),
        one(2, "droppedAttributesCount", Kind::Uint32),
        many(3, "entityRefs", Kind::Message(&ENTITY_REF)),
    ],
};

/// `ExportTraceServiceRequest`.
pub static TRACES: Message = Message { fields: &[many(1, "resourceSpans", Kind::Message(&RESOURCE_SPANS))] };

/// `ResourceSpans`.
pub static RESOURCE_SPANS: Message = Message {
    fields: &[
        optional(1, "resource", Kind::Message(&RESOURCE)),
        many(2, "scopeSpans", Kind::Message(&SCOPE_SPANS)),
        one(3, "schemaUrl", Kind::Text),
    ],
};

/// `ScopeSpans`.
pub static SCOPE_SPANS: Message = Message {
    fields: &[
        many(2, "spans", Kind::Message(&SPAN)),
        optional(1, "scope", Kind::Message(&SCOPE)),
        one(3, "schemaUrl", Kind::Text),
    ],
};

/// `Span`.
pub static SPAN: Message = Message {
    fields: &[
        many(9, "attributes", Kind::Message(&KEY_VALUE)),
        one(1, "traceId", Kind::Id),
        one(2, "spanId", Kind::Id),
        one(4, "parentSpanId", Kind::Id),
        one(5, "name", Kind::Text),
        one(6, "kind", Kind::Int32),
        one(7, "startTimeUnixNano", Kind::Fixed64),
        one(8, "endTimeUnixNano", Kind::Fixed64),
        one(16, "flags", Kind::Fixed32),
        optional(15, "status", Kind::Message(&STATUS)),
        one(3, "traceState", Kind::Text),
        many(11, "events", Kind::Message(&EVENT)),
        many(13, "links", Kind::Message(&LINK)),
        one(10, "droppedAttributesCount", Kind::Uint32),
        one(12, "droppedEventsCount", Kind::Uint32),
        one(14, "droppedLinksCount", Kind::Uint32),
    ],
};

/// `Span.Event`.
pub static EVENT: Message = Message {
    fields: &[
        one(1, "timeUnixNano", Kind::Fixed64),
        one(2, "name", Kind::Text),
        many(3, "attributes", Kind::Message(&KEY_VALUE)),
        one(4, "droppedAttributesCount", Kind::Uint32),
    ],
};

/// `Span.Link`.
pub static LINK: Message = Message {
    fields: &[
        one(1, "traceId", Kind::Id),
        one(2, "spanId", Kind::Id),
        one(3, "traceState", Kind::Text),
        many(4, "attributes", Kind::Message(&KEY_VALUE)),
        one(5, "droppedAttributesCount", Kind::Uint32),
        one(6, "flags", Kind::Fixed32),
    ],
};

/// `Status`.
pub static STATUS: Message = Message { fields: &[one(2, "message", Kind::Text), one(3, "code", Kind::Int32)] };

/// `ExportLogsServiceRequest`.
pub static LOGS: Message = Message { fields: &[many(1, "resourceLogs", Kind::Message(&RESOURCE_LOGS))] };

/// `ResourceLogs`.
pub static RESOURCE_LOGS: Message = Message {
    fields: &[
        optional(1, "resource", Kind::Message(&RESOURCE)),
        many(2, "scopeLogs", Kind::Message(&SCOPE_LOGS)),
        one(3, "schemaUrl", Kind::Text),
    ],
};

/// `ScopeLogs`.
pub static SCOPE_LOGS: Message = Message {
    fields: &[
        many(2, "logRecords", Kind::Message(&LOG_RECORD)),
        optional(1, "scope", Kind::Message(&SCOPE)),
        one(3, "schemaUrl", Kind::Text),
    ],
};

/// `LogRecord`.
pub static LOG_RECORD: Message = Message {
    fields: &[
        one(1, "timeUnixNano", Kind::Fixed64),
        one(11, "observedTimeUnixNano", Kind::Fixed64),
        one(2, "severityNumber", Kind::Int32),
        one(3, "severityText", Kind::Text),
        optional(5, "body", Kind::Message(&ANY_VALUE)),
        many(6, "attributes", Kind::Message(&KEY_VALUE)),
        one(7, "droppedAttributesCount", Kind::Uint32),
        one(8, "flags", Kind::Fixed32),
        one(9, "traceId", Kind::Id),
        one(10, "spanId", Kind::Id),
        one(12, "eventName", Kind::Text),
    ],
};

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
        optional(5, "gauge", Kind::Message(&GAUGE)),
        optional(7, "sum", Kind::Message(&SUM)),
        optional(9, "histogram", Kind::Message(&HISTOGRAM)),
        optional(10, "exponentialHistogram", Kind::Message(&EXPONENTIAL_HISTOGRAM)),
        optional(11, "summary", Kind::Message(&SUMMARY)),
        many(12, "metadata", Kind::Message(&KEY_VALUE)),
    ],
};

/// `Gauge`.
pub static GAUGE: Message = Message { fields: &[many(1, "dataPoints", Kind::Message(&NUMBER_POINT))] };

/// `Sum`.
pub static SUM: Message = Message {
    fields: &[
        many(1, "dataPoints", Kind::Message(&NUMBER_POINT)),
        one(2, "aggregationTemporality", Kind::Int32),
        one(3, "isMonotonic", Kind::Bool),
    ],
};

/// `Histogram`.
pub static HISTOGRAM: Message = Message {
    fields: &[many(1, "dataPoints", Kind::Message(&HISTOGRAM_POINT)), one(2, "aggregationTemporality", Kind::Int32)],
};

/// `ExponentialHistogram`.
pub static EXPONENTIAL_HISTOGRAM: Message = Message {
    fields: &[many(1, "dataPoints", Kind::Message(&EXPONENTIAL_POINT)), one(2, "aggregationTemporality", Kind::Int32)],
};

/// `Summary`.
pub static SUMMARY: Message = Message { fields: &[many(1, "dataPoints", Kind::Message(&SUMMARY_POINT))] };

/// `NumberDataPoint`.
pub static NUMBER_POINT: Message = Message {
    fields: &[
        many(7, "attributes", Kind::Message(&KEY_VALUE)),
        one(2, "startTimeUnixNano", Kind::Fixed64),
        one(3, "timeUnixNano", Kind::Fixed64),
        optional(4, "asDouble", Kind::Double),
        optional(6, "asInt", Kind::Sfixed64),
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
        optional(3, "asDouble", Kind::Double),
        optional(6, "asInt", Kind::Sfixed64),
        one(4, "spanId", Kind::Id),
        one(5, "traceId", Kind::Id),
    ],
};

impl Message {
    /// The field of that number.
    #[inline]
    pub fn field(&self, number: u32) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.number == number)
    }

    /// The field of that JSON name.
    pub fn named(&self, json: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.json == json)
    }
}

impl Kind {
    /// Whether several values may share one length-delimited field.
    pub fn packable(self) -> bool {
        !matches!(self, Kind::Text | Kind::Bytes | Kind::Id | Kind::Message(_))
    }
}
