//! Log records.

use super::value::{ANY_VALUE, KEY_VALUE, RESOURCE, SCOPE};
use super::{Kind, Message, SPAN_ID, TRACE_ID, many, one, optional};

const SEVERITIES: [&str; 25] = [
    "SEVERITY_NUMBER_UNSPECIFIED",
    "SEVERITY_NUMBER_TRACE",
    "SEVERITY_NUMBER_TRACE2",
    "SEVERITY_NUMBER_TRACE3",
    "SEVERITY_NUMBER_TRACE4",
    "SEVERITY_NUMBER_DEBUG",
    "SEVERITY_NUMBER_DEBUG2",
    "SEVERITY_NUMBER_DEBUG3",
    "SEVERITY_NUMBER_DEBUG4",
    "SEVERITY_NUMBER_INFO",
    "SEVERITY_NUMBER_INFO2",
    "SEVERITY_NUMBER_INFO3",
    "SEVERITY_NUMBER_INFO4",
    "SEVERITY_NUMBER_WARN",
    "SEVERITY_NUMBER_WARN2",
    "SEVERITY_NUMBER_WARN3",
    "SEVERITY_NUMBER_WARN4",
    "SEVERITY_NUMBER_ERROR",
    "SEVERITY_NUMBER_ERROR2",
    "SEVERITY_NUMBER_ERROR3",
    "SEVERITY_NUMBER_ERROR4",
    "SEVERITY_NUMBER_FATAL",
    "SEVERITY_NUMBER_FATAL2",
    "SEVERITY_NUMBER_FATAL3",
    "SEVERITY_NUMBER_FATAL4",
];

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
        one(2, "severityNumber", Kind::Enum(&SEVERITIES)),
        one(3, "severityText", Kind::Text),
        optional(5, "body", Kind::Message(&ANY_VALUE)),
        many(6, "attributes", Kind::Message(&KEY_VALUE)),
        one(7, "droppedAttributesCount", Kind::Uint32),
        one(8, "flags", Kind::Fixed32),
        one(9, "traceId", Kind::Id(TRACE_ID)),
        one(10, "spanId", Kind::Id(SPAN_ID)),
        one(12, "eventName", Kind::Text),
    ],
};
