//! As the collector's module of that name, without the devices: what neuron-monitor prints becomes bodies.

mod write;

use bytes::Bytes;
use telemetry::neuron;

use power::Watts;
use write::Host;

/// As the collector's, without the driver.
mod power {
    pub(super) struct Watts {
        pub(super) device: String,
        pub(super) time_ns: u64,
        pub(super) watts: f64,
    }
}

/// What every line becomes: a document of the monitor, or the driver's line of a device's power.
pub fn bodies<'l>(lines: impl Iterator<Item = &'l [u8]>) -> Vec<Bytes> {
    let mut host = Host::default();
    let body = |line: &[u8]| match neuron::parse(line) {
        Ok(report) => {
            host.learn(&report);
            write::report(&host, &report, crate::RECEIVED_US as u64 * 1_000)
        }
        Err(_) => write::power(&host, &[watts(std::str::from_utf8(line).ok()?)?]),
    };
    lines.filter_map(body).collect()
}

fn watts(line: &str) -> Option<Watts> {
    let power = neuron::power(line).ok().flatten()?;
    assert!((0.0..=1.0).contains(&power.average));
    let time_ns = u64::try_from(power.epoch_s).ok()?.checked_mul(1_000_000_000)?;
    Some(Watts { device: "neuron0".to_owned(), time_ns, watts: 100.0 + 400.0 * power.average })
}
