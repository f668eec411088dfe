//! Power of the devices: the driver's percentage, put between the watts that somebody configured.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use telemetry::neuron;

use super::Power;

/// The driver's line below a device's folder.
const LINE: &str = "stats/power/utilization";
/// Longest line of it that is looked at.
const LINE_MAX: usize = 256;

/// What was read of all devices.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    /// Devices with a new value.
    pub(super) watts: Vec<Watts>,
    /// Lines that could not be understood.
    pub(super) faults: u64,
}

/// Mean power of one device in one minute.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Watts {
    /// Such as `neuron0`.
    pub(super) device: String,
    /// When the minute ended, nanoseconds since 1970-01-01 UTC.
    pub(super) time_ns: u64,
    pub(super) watts: f64,
}

/// Reads the devices, each minute once.
pub(super) struct Readings {
    sysfs: PathBuf,
    idle_watts: f64,
    max_watts: f64,
    /// The minute read last, by device.
    seen: BTreeMap<String, i64>,
}

impl Readings {
    pub(super) fn new(settings: &Power) -> Option<Self> {
        let (idle_watts, max_watts) = (settings.idle_watts?, settings.max_watts?);
        Some(Self { sysfs: settings.sysfs.clone(), idle_watts, max_watts, seen: BTreeMap::new() })
    }

    /// Devices whose minute is a new one. No driver, or a driver without data, is no device.
    pub(super) fn read(&mut self) -> Found {
        let mut found = Found::default();
        let Ok(entries) = fs::read_dir(&self.sysfs) else { return found };
        let mut devices: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.strip_prefix("neuron").is_some_and(|index| index.parse::<u32>().is_ok()))
            .collect();
        devices.sort();
        for device in devices {
            let Ok(line) = fs::read_to_string(self.sysfs.join(&device).join(LINE)) else { continue };
            let line = line.get(..line.floor_char_boundary(LINE_MAX)).unwrap_or_default();
            let read = match neuron::power(line) {
                Ok(Some(read)) => read,
                Ok(None) => continue,
                Err(_) => {
                    found.faults += 1;
                    continue;
                }
            };
            if self.seen.insert(device.clone(), read.epoch_s) == Some(read.epoch_s) {
                continue;
            }
            let Some(time_ns) = u64::try_from(read.epoch_s).ok().and_then(|s| s.checked_mul(1_000_000_000)) else {
                found.faults += 1;
                continue;
            };
            let watts = self.idle_watts + read.average * (self.max_watts - self.idle_watts);
            found.watts.push(Watts { device, time_ns, watts });
        }
        found
    }
}
