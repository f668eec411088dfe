//! Energy of a host's processors, from RAPL as the kernel's powercap shows it.
//!
//! ```text
//! /sys/class/powercap/intel-rapl:0/{name, energy_uj, max_energy_range_uj}
//! ```
//!
//! The counters are of whole packages (`package-0`) and, on some machines, of the whole system (`psys`); zones inside a package
//! (`intel-rapl:0:0`) are part of it and not read, so that no joule counts twice. A machine without RAPL, a container that does
//! not see it, or a kernel that lets only root read it: then it is not present, and nothing is 0.
//! Source: the kernel's `Documentation/power/powercap`.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel shows RAPL.
pub const ROOT: &str = "/sys/class/powercap";

/// The zones of a host, and what they have used since they were opened.
#[derive(Debug)]
pub struct Rapl {
    zones: Vec<Zone>,
}

#[derive(Debug)]
struct Zone {
    name: String,
    counter: PathBuf,
    /// The counter begins anew after this value.
    range_uj: u64,
    last_uj: u64,
    joules: f64,
}

/// Energy of one zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Such as `package-0`, or `psys`.
    pub zone: String,
    /// What the energy covers: `chip` for a package, `node` for the whole system.
    pub boundary: &'static str,
    /// Joules since the zones were opened.
    pub joules: f64,
}

impl Rapl {
    /// The zones below `root`; `None` where there is none that can be read.
    #[must_use]
    pub fn open(root: &Path) -> Option<Self> {
        let mut folders: Vec<PathBuf> = fs::read_dir(root)
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| is_outermost(path))
            .collect();
        folders.sort();
        let zones: Vec<Zone> = folders.iter().filter_map(|folder| Zone::open(folder)).collect();
        (!zones.is_empty()).then_some(Self { zones })
    }

    /// What each zone has used. A zone that can no longer be read is left out.
    pub fn read(&mut self) -> Vec<Reading> {
        self.zones.iter_mut().filter_map(Zone::read).collect()
    }
}

/// `intel-rapl:0`, but not `intel-rapl:0:1` inside it, nor the same counters by another way (`intel-rapl-mmio:0`).
fn is_outermost(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_prefix("intel-rapl:")).is_some_and(|index| index.parse::<u32>().is_ok())
}

impl Zone {
    fn open(folder: &Path) -> Option<Self> {
        let name = fs::read_to_string(folder.join("name")).ok()?.trim().to_owned();
        if name != "psys" && !name.starts_with("package") {
            return None;
        }
        let counter = folder.join("energy_uj");
        let range_uj = number(&folder.join("max_energy_range_uj")).filter(|range| *range > 0)?;
        Some(Self { last_uj: number(&counter)?, name, counter, range_uj, joules: 0.0 })
    }

    fn read(&mut self) -> Option<Reading> {
        let now_uj = number(&self.counter)?;
        // A counter that has fallen has gone round once: that takes hours at full load, far longer than between two readings.
        let used_uj = match now_uj.checked_sub(self.last_uj) {
            Some(used) => used,
            None => self.range_uj.saturating_sub(self.last_uj) + now_uj,
        };
        self.last_uj = now_uj;
        self.joules += used_uj as f64 / 1e6;
        let boundary = if self.name == "psys" { "node" } else { "chip" };
        Some(Reading { zone: self.name.clone(), boundary, joules: self.joules })
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn zone(&self, folder: &str, name: &str, uj: &str) {
            let folder = self.0.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in [("name", name), ("energy_uj", uj), ("max_energy_range_uj", "10000000")] {
                fs::write(folder.join(file), format!("{text}\n")).unwrap();
            }
        }
    }

    fn joules(rapl: &mut Rapl) -> Vec<(String, &'static str, f64)> {
        rapl.read().into_iter().map(|reading| (reading.zone, reading.boundary, reading.joules)).collect()
    }

    /// Packages and the whole system are read, zones inside them and second ways to them are not; a counter that goes round goes on.
    #[test]
    fn zones_are_read_once() {
        let tree = Tree::new();
        for (folder, name, uj) in [
            ("intel-rapl", "", ""),
            ("intel-rapl:0", "package-0", "9000000"),
            ("intel-rapl:0:0", "core", "5"),
            ("intel-rapl:0:1", "dram", "5"),
            ("intel-rapl:1", "psys", "100"),
            ("intel-rapl:2", "package-1", "nonsense"),
            ("intel-rapl-mmio:0", "package-0", "5"),
        ] {
            tree.zone(folder, name, uj);
        }
        let mut rapl = Rapl::open(tree.0.path()).unwrap();
        assert_eq!(joules(&mut rapl), [("package-0".to_owned(), "chip", 0.0), ("psys".to_owned(), "node", 0.0)]);
        tree.zone("intel-rapl:0", "package-0", "9500000");
        assert_eq!(joules(&mut rapl)[0].2, 0.5);
        tree.zone("intel-rapl:0", "package-0", "1000000");
        assert_eq!(joules(&mut rapl)[0].2, 2.0, "0.5 J to the end of the counter, 1 J after it");
        fs::remove_file(tree.0.path().join("intel-rapl:0/energy_uj")).unwrap();
        assert_eq!(joules(&mut rapl).len(), 1, "a zone that is gone is left out, not 0");
    }

    /// No powercap, or none that can be read, is no device.
    #[test]
    fn absent_is_absent() {
        assert!(Rapl::open(Path::new("/nowhere")).is_none());
        let tree = Tree::new();
        assert!(Rapl::open(tree.0.path()).is_none());
        tree.zone("intel-rapl:0:0", "core", "1");
        assert!(Rapl::open(tree.0.path()).is_none());
    }
}
