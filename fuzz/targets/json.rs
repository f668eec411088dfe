//! OTLP/JSON into protobuf, into rows, and printed and read again. The first byte chooses the signal.
#![no_main]

use fuzz::decode::{canonical, json, print};
use fuzz::normalize::redact::Redaction;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [signal, body @ ..] = data else { return };
    let signal = fuzz::signal_of(*signal);
    let message = fuzz::message_of(signal);
    let Ok(encoded) = json::encode(message, body, 1 << 22, |_| true) else { return };
    assert!(encoded.len() <= 1 << 22);
    fuzz::land(signal, &encoded);
    // A printed body is read as what was printed.
    let Ok(plain) = canonical::canonical(message, &encoded) else { return };
    let mut printed = String::new();
    if print::message(message, &plain, &Redaction::default(), &mut printed).is_ok() {
        let again = json::encode(message, printed.as_bytes(), 1 << 24, |_| true).expect("what we print we read");
        let mut reprinted = String::new();
        print::message(message, &again, &Redaction::default(), &mut reprinted).expect("what we read we print");
        assert!(printed == reprinted || !has_whole_ids(&printed), "{printed}\n{reprinted}");
    }
});

/// Whether all ids are of their length. Others are no ids and are rejected, and the hex of some can be read as base64.
fn has_whole_ids(printed: &str) -> bool {
    [("\"traceId\":\"", 32), ("\"spanId\":\"", 16), ("\"parentSpanId\":\"", 16)].iter().all(|(key, length)| {
        printed.split(key).skip(1).all(|rest| rest.find('"') == Some(*length))
    })
}
