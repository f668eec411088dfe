//! Spans.

use super::value::{KEY_VALUE, RESOURCE, SCOPE};
use super::{Kind, Message, SPAN_ID, TRACE_ID, many, one, optional};

const SPAN_KINDS: [&str; 6] = [
    "SPAN_KIND_UNSPECIFIED",
    "SPAN_KIND_INTERNAL",
    "SPAN_KIND_SERVER",
    "SPAN_KIND_CLIENT",
    "SPAN_KIND_PRODUCER",
    "SPAN_KIND_CONSUMER",
];

const STATUS_CODES: [&str; 3] = ["STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"];

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
        one(1, "traceId", Kind::Id(TRACE_ID)),
        one(2, "spanId", Kind::Id(SPAN_ID)),
        one(4, "parentSpanId", Kind::Id(SPAN_ID)),
        one(5, "name", Kind::Text),
        one(6, "kind", Kind::Enum(&SPAN_KINDS)),
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
        one(1, "traceId", Kind::Id(TRACE_ID)),
        one(2, "spanId", Kind::Id(SPAN_ID)),
        one(3, "traceState", Kind::Text),
        many(4, "attributes", Kind::Message(&KEY_VALUE)),
        one(5, "droppedAttributesCount", Kind::Uint32),
        one(6, "flags", Kind::Fixed32),
    ],
};

/// `Status`.
static STATUS: Message =
    Message { fields: &[one(2, "message", Kind::Text), one(3, "code", Kind::Enum(&STATUS_CODES))] };
