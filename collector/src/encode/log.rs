//! Log records.

use super::{attribute, fixed64, message, text, varint};
use crate::decode::wire::put_bytes;

/// A log record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// When it happened, nanoseconds since 1970-01-01 UTC; 0 is unknown.
    pub(crate) time_ns: u64,
    /// When it was first seen, nanoseconds since 1970-01-01 UTC; 0 is unknown.
    pub(crate) observed_ns: u64,
    /// Severity as its emitter spells it, empty if it has none.
    pub(crate) severity: &'a str,
    /// The line.
    pub(crate) body: &'a str,
    /// 16 bytes, or empty.
    pub(crate) trace_id: Vec<u8>,
    /// 8 bytes, or empty.
    pub(crate) span_id: Vec<u8>,
    /// What else is known of it.
    pub(crate) attributes: Vec<(&'a str, &'a str)>,
}

/// Appends a record to the items of a scope.
pub(crate) fn record(record: &Record<'_>, out: &mut Vec<u8>) {
    message(2, out, |written| {
        if record.time_ns != 0 {
            fixed64(1, record.time_ns, written);
        }
        if record.observed_ns != 0 {
            fixed64(11, record.observed_ns, written);
        }
        if let Some(number) = severity_number(record.severity) {
            varint(2, number, written);
        }
        text(3, record.severity, written);
        message(5, written, |any| put_bytes(1, record.body.as_bytes(), any));
        record.attributes.iter().for_each(|(key, value)| attribute(6, key, value, written));
        for (number, id) in [(9, &record.trace_id), (10, &record.span_id)] {
            if !id.is_empty() {
                put_bytes(number, id, written);
            }
        }
    });
}

/// OTLP's number of a severity, for the spellings in use.
pub(crate) fn severity_number(severity: &str) -> Option<u64> {
    const SPELLINGS: [(&[&str], u64); 6] = [
        (&["trace", "trc"], 1),
        (&["debug", "dbg"], 5),
        (&["info", "information", "informational", "inf", "notice"], 9),
        (&["warn", "warning", "wrn"], 13),
        (&["error", "err", "eror"], 17),
        (&["fatal", "critical", "crit", "alert", "emerg", "emergency", "panic"], 21),
    ];
    let spelled = |known: &&str| known.eq_ignore_ascii_case(severity.trim());
    SPELLINGS.iter().find(|(known, _)| known.iter().any(spelled)).map(|(_, number)| *number)
}

/// A trace or span id in hex: 8 or 16 bytes that are not all zero.
pub(crate) fn id(text: &str) -> Option<Vec<u8>> {
    let id = hex::decode(text).ok()?;
    (matches!(id.len(), 8 | 16) && id.iter().any(|byte| *byte != 0)).then_some(id)
}
