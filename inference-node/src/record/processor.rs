//! Energy and power of the processors that an engine runs on.

use std::collections::HashMap;

use service::rapl::Rapl;

use super::Origin;
use crate::config::RecordConfig;

/// The processors of this host.
pub(super) struct Processors {
    rapl: Rapl,
    /// Time and joules at the sample before, by zone.
    before: HashMap<String, (i64, f64)>,
    start_ns: i64,
}

/// What one zone used.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Used {
    pub(super) zone: String,
    pub(super) boundary: &'static str,
    /// Joules since the start.
    pub(super) joules: f64,
    /// Mean watts since the sample before.
    pub(super) watts: Option<f64>,
}

impl Processors {
    /// The processors, if it is they who compute, and if they count their energy.
    pub(super) fn open(config: &RecordConfig, origin: &Origin, start_ns: i64) -> Option<Self> {
        let compute = config.processors.unwrap_or(origin.engine.engine == "cpu");
        let rapl = if compute { Rapl::open(&config.rapl) } else { None };
        Some(Self { rapl: rapl?, before: HashMap::new(), start_ns })
    }

    /// Reads the counters for a sample at `now_ns`.
    pub(super) fn read(&mut self, now_ns: i64) -> Vec<Used> {
        let mut all = Vec::new();
        for reading in self.rapl.read() {
            let (before_ns, before_j) =
                self.before.insert(reading.zone.clone(), (now_ns, reading.joules)).unwrap_or((self.start_ns, 0.0));
            let passed_s = (now_ns - before_ns) as f64 / 1e9;
            let watts = (passed_s > 0.0).then(|| (reading.joules - before_j) / passed_s);
            all.push(Used { zone: reading.zone, boundary: reading.boundary, joules: reading.joules, watts });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::config::Identity;
    use crate::engine::EngineDescription;
    use crate::record::metric::Metrics;
    use crate::record::origin;
    use crate::schedule::Policy;
    use crate::step::{Sample, Taken};

    fn engine(name: &str) -> Origin {
        let engine = EngineDescription {
            engine: name.to_owned(),
            model: "m".to_owned(),
            quantization: None,
            tensor_parallel: None,
            accelerator: None,
            chips: None,
            slots: 1,
            max_len: 8,
            prompt_max: 8,
            policy: Policy::TokenBudget,
            prefix_cache: false,
            calibration_error: None,
            likelihoods: false,
            simulated: None,
        };
        origin(&Identity::default(), &engine, "i".to_owned(), 1.0)
    }

    fn zone(root: &Path, uj: u64) {
        let folder = root.join("intel-rapl:0");
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in [
            ("name", "package-0".to_owned()),
            ("energy_uj", uj.to_string()),
            ("max_energy_range_uj", "1000000000".to_owned()),
        ] {
            fs::write(folder.join(file), text).unwrap();
        }
    }

    /// A `cpu` node sends joules and mean watts of its processors, labelled; other engines, and hosts without RAPL, send none. A proxy does
    /// where it is told that its engine computes on them, and a `cpu` node does not where it is told not to.
    #[test]
    fn processors_of_a_cpu_node() {
        let root = tempfile::tempdir().unwrap();
        let origin = engine("cpu");
        let config = RecordConfig { rapl: root.path().to_owned(), ..RecordConfig::default() };
        let told = |processors| RecordConfig { processors: Some(processors), ..config.clone() };
        assert!(Processors::open(&config, &origin, 0).is_none(), "not present is not 0");
        assert!(Processors::open(&told(true), &origin, 0).is_none(), "not present is not 0");
        zone(root.path(), 5_000_000);
        assert!(Processors::open(&config, &engine("llama_cpp"), 0).is_none());
        assert!(Processors::open(&told(true), &engine("llama_cpp"), 0).is_some());
        assert!(Processors::open(&told(false), &origin, 0).is_none());
        let processors = Processors::open(&config, &origin, 1_000_000_000).unwrap();
        let mut metrics = Metrics::new(&origin, None, Some(processors), 1_000_000_000);
        zone(root.path(), 65_000_000);
        let now = Sample { time_ns: 5_000_000_000, ..Sample::default() };
        let request = metrics.request(&Taken { now, executing: None, power_w: None });
        let all = &request.resource_metrics[0].scope_metrics[0].metrics;
        let said = |name: &str| format!("{:?}", all.iter().find(|metric| metric.name == name).unwrap());
        let (energy, power) = (said("hw.energy"), said("hw.power"));
        assert!(energy.contains("AsDouble(60.0)") && power.contains("AsDouble(15.0)"), "{energy} {power}");
        for label in ["package-0", "\"host\"", "energy_counter", "chip", "measured"] {
            assert!(energy.contains(label) && power.contains(label), "{label}: {energy}");
        }
    }
}
