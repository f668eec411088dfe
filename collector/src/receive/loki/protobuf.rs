//! `logproto.PushRequest`, walked in place.

use std::borrow::Cow;

use service::error::{Error, Result};

use super::{Out, PAIRS_MAX, Stream, broken, labels};
use crate::decode::wire::{Fields, Malformed, Raw};

/// Walks a whole push.
pub(super) fn walk(body: &[u8], out: &mut Out<'_>) -> Result<()> {
    for field in Fields::new(body) {
        if let (1, Raw::Bytes(stream)) = field.map_err(malformed)? {
            walk_stream(stream, out)?;
        }
    }
    Ok(())
}

fn malformed(error: Malformed) -> Error {
    broken("the body is no push request", error)
}

fn walk_stream(bytes: &[u8], out: &mut Out<'_>) -> Result<()> {
    let mut selector = Cow::Borrowed("{}");
    for field in Fields::new(bytes) {
        if let (1, Raw::Bytes(text)) = field.map_err(malformed)? {
            selector = String::from_utf8_lossy(text);
        }
    }
    let pairs = labels::labels(&selector)?;
    let mut stream = Stream::new(pairs.iter().map(|(name, value)| (*name, value.as_ref())));
    for field in Fields::new(bytes) {
        if let (2, Raw::Bytes(entry)) = field.map_err(malformed)? {
            walk_entry(entry, &mut stream, out)?;
        }
    }
    stream.end(out)
}

fn walk_entry(bytes: &[u8], stream: &mut Stream<'_>, out: &mut Out<'_>) -> Result<()> {
    let mut time_ns = 0;
    let mut line = Cow::Borrowed("");
    let mut metadata: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    for field in Fields::new(bytes) {
        match field.map_err(malformed)? {
            (1, Raw::Bytes(timestamp)) => time_ns = nanoseconds(timestamp)?,
            // A line is what a program wrote, which need not be UTF-8.
            (2, Raw::Bytes(text)) => line = String::from_utf8_lossy(text),
            (3 | 4, Raw::Bytes(_)) if metadata.len() == PAIRS_MAX => {
                return Err(Error::invalid("a line has more than 128 pairs of structured metadata"));
            }
            (3 | 4, Raw::Bytes(pair)) => metadata.push(label(pair)?),
            _ => {}
        }
    }
    stream.line(time_ns, &line, metadata.iter().map(|(name, value)| (name.as_ref(), value.as_ref())), out)
}

fn label(bytes: &[u8]) -> Result<(Cow<'_, str>, Cow<'_, str>)> {
    let (mut name, mut value) = (Cow::default(), Cow::default());
    for field in Fields::new(bytes) {
        match field.map_err(malformed)? {
            (1, Raw::Bytes(text)) => name = String::from_utf8_lossy(text),
            (2, Raw::Bytes(text)) => value = String::from_utf8_lossy(text),
            _ => {}
        }
    }
    Ok((name, value))
}

/// `google.protobuf.Timestamp`; a time before 1970 is none.
fn nanoseconds(bytes: &[u8]) -> Result<u64> {
    let (mut seconds, mut nanos) = (0_u64, 0_u64);
    for field in Fields::new(bytes) {
        match field.map_err(malformed)? {
            (1, Raw::Varint(value)) => seconds = value,
            (2, Raw::Varint(value)) => nanos = value,
            _ => {}
        }
    }
    Ok(seconds.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(nanos)).unwrap_or_default())
}
