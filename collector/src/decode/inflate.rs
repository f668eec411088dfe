//! Compression undone, never past a cap: a small body that would grow to gigabytes costs no more than the cap.

use std::io::{self, Read};

use bytes::Bytes;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Identity,
    /// gzip (RFC 1952), also of several members.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// Why a body could not be inflated.
#[derive(Debug, thiserror::Error)]
pub enum InflateError {
    /// More bytes than allowed.
    #[error("the body inflates to more than {0} bytes")]
    TooLarge(usize),
    /// There is no memory to inflate into right now.
    #[error("no room to inflate the body")]
    NoRoom,
    /// Not what the header says.
    #[error("the body is not valid {0}")]
    Invalid(&'static str, #[source] io::Error),
}

/// First buffer, and the least by which it grows.
const STEP: usize = 64 * 1024;

impl Compression {
    /// The compression of a `Content-Encoding` or `grpc-encoding` header.
    pub fn from_header(name: &str) -> Option<Self> {
        match name.trim() {
            "" | "identity" | "none" => Some(Compression::Identity),
            "gzip" | "x-gzip" => Some(Compression::Gzip),
            "zstd" => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// Its code in the journal.
    pub fn code(self) -> u8 {
        match self {
            Compression::Identity => 0,
            Compression::Gzip => 1,
            Compression::Zstd => 2,
        }
    }

    /// The compression with that code.
    pub fn from_code(code: u8) -> Option<Self> {
        [Compression::Identity, Compression::Gzip, Compression::Zstd].into_iter().find(|kind| kind.code() == code)
    }
}

/// Inflates `body` to at most `limit` bytes; `room` is asked for every further stretch of memory before it is taken.
pub fn inflate(
    compression: Compression,
    body: &Bytes,
    limit: usize,
    room: impl FnMut(usize) -> bool,
) -> Result<Bytes, InflateError> {
    match compression {
        Compression::Identity if body.len() > limit => Err(InflateError::TooLarge(limit)),
        Compression::Identity => Ok(body.clone()),
        Compression::Gzip => drain(flate2::bufread::MultiGzDecoder::new(body.as_ref()), "gzip", limit, room),
        Compression::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(body.as_ref())
                .and_then(|mut decoder| decoder.window_log_max(WINDOW_LOG_MAX).map(|()| decoder))
                .map_err(|error| InflateError::Invalid("zstd", error))?;
            drain(decoder, "zstd", limit, room)
        }
    }
}

/// Largest zstd window, 8 MiB: what RFC 8878 recommends decoders to support, and no more memory than that.
const WINDOW_LOG_MAX: u32 = 23;

fn drain(
    mut from: impl Read,
    name: &'static str,
    limit: usize,
    mut room: impl FnMut(usize) -> bool,
) -> Result<Bytes, InflateError> {
    let mut out = Vec::new();
    let mut filled = 0;
    loop {
        if filled == out.len() {
            let length = (out.len() * 2).max(STEP).min(limit + 1);
            if filled == length {
                return Err(InflateError::TooLarge(limit));
            }
            if !room(length - out.len()) {
                return Err(InflateError::NoRoom);
            }
            out.reserve_exact(length - out.len());
            out.resize(length, 0);
        }
        let Some(free) = out.get_mut(filled..) else { return Err(InflateError::TooLarge(limit)) };
        match from.read(free) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(InflateError::Invalid(name, error)),
        }
        if filled > limit {
            return Err(InflateError::TooLarge(limit));
        }
    }
    out.truncate(filled);
    Ok(Bytes::from(out))
}
