//! What devices and hosts draw, where no meter says so.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::dated;

pub mod curve;
pub mod list;
mod page;

pub use page::markdown;

/// The power of one device or host type, from a date on.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerModel {
    /// Accelerator, such as `inferentia2`, or host type, such as `inf2.48xlarge`.
    pub device: String,
    /// What the watts cover: `component`, `chip`, `board`, `node` or `facility`.
    pub boundary: String,
    /// Power at rest, W.
    pub idle_w: Option<f64>,
    /// Power at full load, W.
    pub max_w: Option<f64>,
    /// Load points from 0 to 1 and watts at each; empty without a curve.
    pub curve: Vec<(f64, f64)>,
    /// What the figure is: `measured`, `load_curve` or `tdp`.
    pub method: String,
    /// First instant at which it holds, µs since the epoch.
    pub effective_from_us: i64,
    /// Where it was read.
    pub source: String,
    /// When the source was read.
    pub as_of: String,
    /// `measured`, `published`, `estimated` or `assumed`, from firm to weak.
    pub confidence: String,
    /// Why an assumed figure was chosen.
    pub note: String,
}

#[derive(Deserialize)]
struct Row {
    device: String,
    boundary: String,
    idle_w: Option<f64>,
    max_w: Option<f64>,
    load: String,
    load_w: String,
    method: String,
    effective_from: String,
    source: String,
    as_of: String,
    confidence: String,
    note: String,
}

static BUNDLED: LazyLock<Vec<PowerModel>> = LazyLock::new(|| {
    dated::rows::<Row>(include_str!("../../data/power_models.csv")).filter_map(PowerModel::from_row).collect()
});

/// Power models that come with Tokenwatt.
pub fn bundled() -> &'static [PowerModel] {
    &BUNDLED
}

/// The model of a device at an instant: the newest in force. `None` is unknown.
pub fn at<'a>(models: &'a [PowerModel], device: &str, instant_us: i64) -> Option<&'a PowerModel> {
    models
        .iter()
        .filter(|model| model.device == device && model.effective_from_us <= instant_us)
        .max_by_key(|model| model.effective_from_us)
}

impl PowerModel {
    fn from_row(row: Row) -> Option<PowerModel> {
        let numbers =
            |text: &str| text.split_whitespace().map(|number| number.parse().ok()).collect::<Option<Vec<f64>>>();
        let (load, watts) = (numbers(&row.load)?, numbers(&row.load_w)?);
        if load.len() != watts.len() {
            return None;
        }
        Some(PowerModel {
            curve: load.into_iter().zip(watts).collect(),
            effective_from_us: dated::start_of(&row.effective_from)?,
            device: row.device,
            boundary: row.boundary,
            idle_w: row.idle_w,
            max_w: row.max_w,
            method: row.method,
            source: row.source,
            as_of: row.as_of,
            confidence: row.confidence,
            note: row.note,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::curve::{fitted, full_w};
    use super::{at, bundled};

    const LATE_2026: i64 = 1_796_000_000_000_000;

    #[test]
    fn every_bundled_row_is_understood() {
        let lines = include_str!("../../data/power_models.csv").lines().count();
        assert_eq!(bundled().len(), lines - 1);
    }

    #[test]
    fn watts_that_no_vendor_published_say_that_they_are_assumed_and_why() {
        for device in ["inferentia2", "trainium1", "inf2.48xlarge", "trn1.32xlarge"] {
            let model = at(bundled(), device, LATE_2026).expect(device);
            assert_eq!(model.confidence, "assumed", "{device}");
            assert!(!model.note.is_empty(), "{device} gives no reason");
        }
        assert_eq!(at(bundled(), "custom-npu.8x", LATE_2026), None);
    }

    /// Curves begin at rest, end at full load and rise all the way; those of GPUs that were measured are the fit that docs/power.md prints,
    /// to the tenth of a watt in which they are written.
    #[test]
    fn curves_of_hosts_are_the_fitted_ones() {
        for model in bundled().iter().filter(|model| !model.curve.is_empty()) {
            let (first, last) = (model.curve[0], model.curve[model.curve.len() - 1]);
            assert_eq!((first.0, last.0, Some(last.1)), (0.0, 1.0, model.max_w), "{}", model.device);
            assert!(model.idle_w.is_none_or(|idle| idle == first.1), "{}", model.device);
            assert!(model.curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{}", model.device);
            assert_eq!(model.method, "load_curve", "{}", model.device);
        }
        for (host_type, gpu, count) in [
            ("p5.4xlarge", "H100", 1.0),
            ("p5.48xlarge", "H100", 8.0),
            ("p5en.48xlarge", "H100", 8.0),
            ("p6-b200.48xlarge", "B200", 8.0),
        ] {
            let (fit, full_w) = (fitted(gpu).expect("a fit"), full_w(gpu).expect("watts"));
            let model = at(bundled(), host_type, LATE_2026).expect(host_type);
            for (load, watts) in &model.curve {
                let wanted = count * fit.watts(full_w, *load);
                assert!((watts - wanted).abs() <= 0.051, "{host_type} at {load}: {watts} W, the fit says {wanted}");
            }
        }
    }

    #[test]
    fn idle_is_never_above_full_load() {
        for model in bundled() {
            if let (Some(idle), Some(max)) = (model.idle_w, model.max_w) {
                assert!(idle <= max, "{}", model.device);
            }
        }
    }
}
