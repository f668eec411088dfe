//! What targets show at `/metrics`, into OTLP, into rows. The first byte chooses the format and whether labels name the origin; the
//! texts of scrapes that follow each other are parted by the byte 0x1e.
#![no_main]

use fuzz::signal::Signal;
use telemetry::prometheus::Format;

/// Scrapes of one target in a run.
const SCRAPES_MAX: usize = 4;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [choice, texts @ ..] = data else { return };
    let format = if choice % 2 == 0 { Format::Text } else { Format::OpenMetrics };
    let texts = texts.split(|byte| *byte == 0x1e).take(SCRAPES_MAX);
    for body in fuzz::scrape::bodies(format, choice & 2 != 0, texts) {
        fuzz::land_own(Signal::Metrics, &body);
    }
});
