//! Frames of a journal as they are read after a crash: header, compression, encoding, rows.
#![no_main]

use fuzz::decode::{inflate, json};
use fuzz::signal::{Encoding, Signal};

/// Small, so that a run meets it often.
const LIMIT: usize = 1 << 18;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(stored) = fuzz::journal::read(data) else { return };
    let Ok(body) = inflate::inflate(stored.compression, &stored.body, LIMIT, |_| true) else { return };
    match (stored.signal, stored.encoding) {
        (Signal::Own, _) => fuzz::own(&body),
        (Signal::Alerts, _) => fuzz::alerts(&body),
        (signal, Encoding::Protobuf) => fuzz::land(signal, &body),
        (signal, Encoding::Json) => {
            if let Ok(body) = json::encode(fuzz::message_of(signal), &body, LIMIT, |_| true) {
                fuzz::land(signal, &body);
            }
        }
    }
});
