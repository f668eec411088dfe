//! OTLP requests written: what receivers of other formats read becomes a body like any other sender's.
//!
//! The counterpart of `decode`: bytes of the protobuf encoding, without objects in between. Text goes in as UTF-8, so
//! that what is written here always passes the check of the intake.

pub(crate) mod log;
pub(crate) mod metric;

use crate::decode::wire::{put_bytes, put_tag, put_varint};

/// Appends a nested message as field `number`.
pub(crate) fn message(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    put_bytes(number, &inner, out);
}

/// Appends text as field `number`, if there is any.
pub(crate) fn text(number: u32, value: &str, out: &mut Vec<u8>) {
    if !value.is_empty() {
        put_bytes(number, value.as_bytes(), out);
    }
}

/// Appends eight bytes as field `number`.
pub(crate) fn fixed64(number: u32, bits: u64, out: &mut Vec<u8>) {
    put_tag(number, 1, out);
    out.extend_from_slice(&bits.to_le_bytes());
}

/// Appends a varint as field `number`.
pub(crate) fn varint(number: u32, value: u64, out: &mut Vec<u8>) {
    put_tag(number, 0, out);
    put_varint(value, out);
}

/// Appends a text attribute, a `KeyValue`, as field `number`.
pub(crate) fn attribute(number: u32, key: &str, value: &str, out: &mut Vec<u8>) {
    message(number, out, |pair| {
        text(1, key, pair);
        // An empty text is a value too, so it is written.
        message(2, pair, |any| put_bytes(1, value.as_bytes(), any));
    });
}

/// Appends a whole number as an attribute.
pub(crate) fn integer(number: u32, key: &str, value: i64, out: &mut Vec<u8>) {
    message(number, out, |pair| {
        text(1, key, pair);
        message(2, pair, |any| varint(3, value as u64, any));
    });
}

/// Appends a `ResourceMetrics` or `ResourceLogs`, which are built alike: `resource` holds encoded attributes in field 1,
/// `items` encoded metrics or log records in field 2.
pub(crate) fn group(resource: &[u8], scope: &str, items: &[u8], out: &mut Vec<u8>) {
    message(1, out, |group| {
        put_bytes(1, resource, group);
        message(2, group, |scoped| {
            message(1, scoped, |head| {
                text(1, scope, head);
                text(2, env!("CARGO_PKG_VERSION"), head);
            });
            scoped.extend_from_slice(items);
        });
    });
}
