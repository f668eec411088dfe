//! Compressed bodies, bombs among them. The first byte chooses the compression.
#![no_main]

use bytes::Bytes;
use fuzz::decode::inflate::{Compression, inflate};

/// Small, so that a run meets it often.
const LIMIT: usize = 1 << 18;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [choice, body @ ..] = data else { return };
    let compression = if choice % 2 == 0 { Compression::Gzip } else { Compression::Zstd };
    let mut taken = 0;
    let inflated = inflate(compression, &Bytes::copy_from_slice(body), LIMIT, |more| {
        taken += more;
        true
    });
    assert!(taken <= LIMIT + 1, "{taken} bytes were asked for");
    if let Ok(inflated) = inflated {
        assert!(inflated.len() <= LIMIT);
    }
});
