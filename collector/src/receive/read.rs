//! Reading a body within its limit, its share of memory and its time.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use service::error::{Error, Kind, Result};

use super::admit::{Budget, Permit};

/// A sender that has not delivered its body by then is not going to.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Memory taken before the length is known.
const FIRST_BYTES: usize = 16 * 1024;
/// Bytes of a gRPC message's prefix: a flag and a length.
pub(super) const GRPC_PREFIX: usize = 5;

/// What is known of a body's length beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// A header says it.
    Declared(usize),
    /// The body's first bytes say it (gRPC).
    Prefixed,
    /// Nothing says it.
    Unknown,
}

/// Reads a body of at most `limit` bytes.
pub(super) async fn read(body: Body, length: Length, limit: usize, budget: &Budget) -> Result<(Bytes, Permit)> {
    if let Length::Declared(bytes) = length
        && bytes > limit
    {
        return Err(too_large(limit));
    }
    let first = if let Length::Declared(bytes) = length { bytes } else { FIRST_BYTES };
    let permit = budget.take(first).ok_or_else(no_room)?;
    match tokio::time::timeout(READ_TIMEOUT, collect(body, length, limit, permit, first)).await {
        Ok(read) => read,
        Err(_) => Err(Error::new(
            Kind::Unavailable { retry_after: Duration::from_secs(1) },
            "the body did not arrive in time",
        )),
    }
}

async fn collect(
    mut body: Body,
    length: Length,
    limit: usize,
    mut permit: Permit,
    mut paid: usize,
) -> Result<(Bytes, Permit)> {
    let mut chunks: Vec<Bytes> = Vec::new();
    let mut total = 0;
    let mut expected = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Error::invalid("the body ended early").with_source(error))?;
        let Ok(chunk) = frame.into_data() else { continue };
        if chunk.is_empty() {
            continue;
        }
        total += chunk.len();
        chunks.push(chunk);
        if length == Length::Prefixed && expected.is_none() && total >= GRPC_PREFIX {
            let bytes = GRPC_PREFIX + prefixed(&chunks);
            if bytes > limit + GRPC_PREFIX {
                return Err(too_large(limit));
            }
            expected = Some(bytes);
            pay(&mut permit, &mut paid, bytes)?;
        }
        if total > expected.unwrap_or(limit + GRPC_PREFIX) {
            return Err(if expected.is_some() { Error::invalid("more than one message") } else { too_large(limit) });
        }
        pay(&mut permit, &mut paid, total)?;
    }
    Ok((join(chunks, total), permit))
}

fn pay(permit: &mut Permit, paid: &mut usize, bytes: usize) -> Result<()> {
    if bytes > *paid {
        if !permit.grow(bytes - *paid) {
            return Err(no_room());
        }
        *paid = bytes;
    }
    Ok(())
}

/// The length that a gRPC message's prefix declares.
fn prefixed(chunks: &[Bytes]) -> usize {
    let mut prefix = chunks.iter().flat_map(|chunk| chunk.iter().copied()).skip(1);
    let bytes: [u8; 4] = std::array::from_fn(|_| prefix.next().unwrap_or_default());
    u32::from_be_bytes(bytes) as usize
}

fn join(mut chunks: Vec<Bytes>, total: usize) -> Bytes {
    if chunks.len() == 1 {
        return chunks.pop().unwrap_or_default();
    }
    let mut joined = BytesMut::with_capacity(total);
    // Each chunk is freed as soon as it is copied: the body is never there twice.
    chunks.into_iter().for_each(|chunk| joined.extend_from_slice(&chunk));
    joined.freeze()
}

pub(super) fn too_large(limit: usize) -> Error {
    Error::too_large(format!("the body is larger than {limit} bytes")).with_hint("send smaller batches")
}

pub(super) fn no_room() -> Error {
    Error::overloaded("the collector has no room for more bodies right now")
}
