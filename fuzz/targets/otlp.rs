//! Protobuf bodies of all signals into rows. The first byte chooses the signal.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let [signal, body @ ..] = data {
        fuzz::land(fuzz::signal_of(*signal), body);
    }
});
