//! Reading a body within its limit, its share of memory and its time.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use service::error::{Error, Kind, Result};

use super::admit::{Budget, Permit};

/// A sender that has not delivered its body by then is not going to.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Memory is taken in multiples of this.
const STRIDE: usize = 16 * 1024;
/// Of a refused body so much is read and forgotten, and for so long.
const DRAIN_BYTES: usize = 8 * 1024 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
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

/// Reads a body of at most `limit` bytes. A body for which there is no room now is refused at once; memory is taken as its bytes
/// arrive, so that a sender that only announces a large one keeps nobody out.
pub(super) async fn read(body: &mut Body, length: Length, limit: usize, budget: &Budget) -> Result<(Bytes, Permit)> {
    if let Length::Declared(bytes) = length {
        if bytes > limit {
            return Err(too_large(limit));
        }
        if !budget.has(bytes) {
            return Err(no_room());
        }
    }
    let paid = Paid { permit: budget.take(0).ok_or_else(no_room)?, bytes: 0, budget };
    match tokio::time::timeout(READ_TIMEOUT, collect(body, length, limit, paid)).await {
        Ok(read) => read,
        Err(_) => Err(Error::new(
            Kind::Unavailable { retry_after: Duration::from_secs(1) },
            "the body did not arrive in time",
        )),
    }
}

/// Reads what is left of a refused body and forgets it, so that its sender gets to reading the answer; within bounds.
pub(super) async fn drain(body: &mut Body) {
    let read = async {
        let mut left = DRAIN_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map(Bytes::len).unwrap_or_default();
            let Some(rest) = left.checked_sub(bytes) else { return };
            left = rest;
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, read).await;
}

async fn collect(body: &mut Body, length: Length, limit: usize, mut paid: Paid<'_>) -> Result<(Bytes, Permit)> {
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
            if !paid.budget.has(bytes.saturating_sub(total)) {
                return Err(no_room());
            }
            expected = Some(bytes);
        }
        if total > expected.unwrap_or(limit + GRPC_PREFIX) {
            return Err(if expected.is_some() { Error::invalid("more than one message") } else { too_large(limit) });
        }
        paid.pay(total)?;
    }
    Ok((join(chunks, total), paid.permit))
}

/// The memory taken for a body so far.
struct Paid<'b> {
    permit: Permit,
    bytes: usize,
    budget: &'b Budget,
}

impl Paid<'_> {
    fn pay(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.bytes {
            // In strides, so that a body of many small chunks does not ask for each of them.
            let wanted = bytes.next_multiple_of(STRIDE);
            if !self.permit.grow(wanted - self.bytes) {
                return Err(no_room());
            }
            self.bytes = wanted;
        }
        Ok(())
    }
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
