//! Power of an accelerator chip as a concave curve of its load.

/// Idle and full watts of one chip, and how fast power rises between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerCurve {
    /// Watts when nothing runs.
    pub idle_w: f64,
    /// Watts at full load.
    pub max_w: f64,
}

/// Exponent of the load. Chosen so that a chip at 11 % of its best throughput draws about 70 % of
/// its full power, which is what ML.ENERGY measured for Llama-3.1-8B on an H100 (486 of 688 W);
/// a straight line would under-report decode by half. Carried over to other chips: assumed.
const EXPONENT: f64 = 0.18;

impl PowerCurve {
    /// Watts at `load` from 0 (executing, but nearly nothing) to 1.
    pub fn watts(&self, load: f64) -> f64 {
        self.idle_w + (self.max_w - self.idle_w).max(0.0) * load.clamp(0.0, 1.0).powf(EXPONENT)
    }
}
