//! Power of an accelerator chip as a concave curve of its load.

use super::rows::{self, GpuRow};
use super::{hardware, least};

/// Idle and full watts of one chip, and how fast power rises between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerCurve {
    /// Watts when nothing runs.
    pub idle_w: f64,
    /// Watts at full load.
    pub max_w: f64,
}

impl PowerCurve {
    /// Exponent of the load: the hundredth that repeats the GPU rows best, as a test recomputes. A straight line
    /// would under-report decode by half. Carried over to other chips: assumed.
    pub const EXPONENT: f64 = 0.28;

    /// Watts at `load` from 0 (executing, but nearly nothing) to 1.
    pub fn watts(&self, load: f64) -> f64 {
        self.at(load, Self::EXPONENT)
    }

    fn at(&self, load: f64, exponent: f64) -> f64 {
        self.idle_w + (self.max_w - self.idle_w).max(0.0) * load.clamp(0.0, 1.0).powf(exponent)
    }
}

/// Share of its full power that a chip draws at rest, where nobody published it: that of a GB200 compute tray.
const IDLE_SHARE: f64 = 0.15;

/// Mean error of the curve over the GPU rows with another exponent.
pub(super) fn error(exponent: f64) -> f64 {
    let of = |row: &GpuRow| {
        let curve = PowerCurve { idle_w: IDLE_SHARE * row.full_w()?, max_w: row.full_w()? };
        let most = rows::gpu().iter().filter(|other| other.deployment_key() == row.deployment_key());
        let most = most.map(|other| other.tokens_per_s).fold(0.0, f64::max);
        Some((curve.at(row.tokens_per_s / most, exponent) / row.watts - 1.0).abs())
    };
    least::mean(rows::gpu().iter().filter_map(of))
}

impl GpuRow {
    fn deployment_key(&self) -> (&str, u32, &str) {
        (&self.gpu, self.gpus, &self.model)
    }

    /// Thermal design power.
    fn full_w(&self) -> Option<f64> {
        hardware(&self.gpu)?.full_w
    }
}
