//! Compression undone, never past a cap: a small body that would grow to gigabytes costs no more than the cap.

use std::io::{self, Read};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;

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
        match name.trim().to_ascii_lowercase().as_str() {
            "" | "identity" | "none" => Some(Compression::Identity),
            "gzip" | "x-gzip" => Some(Compression::Gzip),
            "zstd" => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// Its name in a header.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Identity => "identity",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
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
        Compression::Gzip => drain(|| Ok(MultiGzDecoder::new(body.as_ref())), "gzip", limit, room),
        Compression::Zstd => {
            let open = || {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(body.as_ref())?;
                decoder.window_log_max(WINDOW_LOG_MAX)?;
                Ok(decoder)
            };
            drain(open, "zstd", limit, room)
        }
    }
}

/// Largest zstd window, 8 MiB: what RFC 8878 recommends decoders to support, and no more memory than that.
const WINDOW_LOG_MAX: u32 = 23;

/// Bytes inflated before the rest is measured: most bodies are smaller, and a bomb costs no more memory than this.
const UNMEASURED: usize = 4 * 1024 * 1024;

fn drain<R: Read>(
    open: impl Fn() -> io::Result<R>,
    name: &'static str,
    limit: usize,
    mut room: impl FnMut(usize) -> bool,
) -> Result<Bytes, InflateError> {
    let invalid = |error| InflateError::Invalid(name, error);
    let mut from = open().map_err(invalid)?;
    let mut out = Vec::new();
    let mut filled = 0;
    loop {
        if filled == out.len() {
            if filled == UNMEASURED && !fits(open().map_err(invalid)?, limit).map_err(invalid)? {
                return Err(InflateError::TooLarge(limit));
            }
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
            Err(error) => return Err(invalid(error)),
        }
        if filled > limit {
            return Err(InflateError::TooLarge(limit));
        }
    }
    out.truncate(filled);
    Ok(Bytes::from(out))
}

/// Whether it ends within `limit` bytes.
fn fits(mut from: impl Read, limit: usize) -> io::Result<bool> {
    let mut scratch = vec![0; STEP];
    let mut total = 0;
    while total <= limit {
        match from.read(&mut scratch) {
            Ok(0) => return Ok(true),
            Ok(read) => total += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// A buffer doubles from [`STEP`], so it is exactly [`UNMEASURED`] long at some point.
const _: () = assert!(UNMEASURED.is_power_of_two() && STEP.is_power_of_two());
