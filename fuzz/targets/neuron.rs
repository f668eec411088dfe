//! Lines of neuron-monitor and of the driver's power, into OTLP, into rows.
#![no_main]

use fuzz::signal::Signal;

/// Lines in a run.
const LINES_MAX: usize = 4;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for body in fuzz::neuron::bodies(data.split(|byte| *byte == b'\n').take(LINES_MAX)) {
        fuzz::land_own(Signal::Metrics, &body);
    }
});
