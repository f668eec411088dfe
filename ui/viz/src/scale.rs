//! From a value to a place on the page.

/// How values are spread over the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Equal differences are equally far apart.
    Linear,
    /// Equal ratios are equally far apart; the domain is above zero.
    Log,
}

/// A total function from a domain to a range: what lies outside is clamped, what is no number has
/// no place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    domain: (f64, f64),
    range: (f64, f64),
    spread: Spread,
}

impl Scale {
    /// Spreads equal differences over `range`. A domain without width maps to the middle.
    pub fn linear(domain: (f64, f64), range: (f64, f64)) -> Self {
        Self { domain, range, spread: Spread::Linear }
    }

    /// Spreads equal ratios over `range`. A domain that touches zero is lifted to a tiny ratio of
    /// its top, so that the scale stays total.
    pub fn log(domain: (f64, f64), range: (f64, f64)) -> Self {
        let top = if domain.1 > 0.0 { domain.1 } else { 1.0 };
        let bottom = if domain.0 > 0.0 { domain.0.min(top) } else { top * 1e-6 };
        Self { domain: (bottom, top), range, spread: Spread::Log }
    }

    /// The values at both ends.
    pub fn domain(&self) -> (f64, f64) {
        self.domain
    }

    /// The place of a value, or nothing when it is not a number.
    pub fn at(&self, value: f64) -> Option<f64> {
        if value.is_nan() {
            return None;
        }
        let (low, high) = self.domain;
        let value = value.clamp(low.min(high), low.max(high));
        let (value, low, high) = match self.spread {
            Spread::Linear => (value, low, high),
            Spread::Log => (value.ln(), low.ln(), high.ln()),
        };
        let width = high - low;
        let share = if width.abs() < f64::EPSILON { 0.5 } else { (value - low) / width };
        Some(self.range.0 + share * (self.range.1 - self.range.0))
    }

    /// The place of a value as a share of the range in percent; the range must not be empty.
    pub fn percent(&self, value: f64) -> Option<f64> {
        let width = self.range.1 - self.range.0;
        self.at(value).map(|place| (place - self.range.0) / width * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_domain_meet_the_ends_of_the_range() {
        let scale = Scale::linear((10.0, 20.0), (100.0, 0.0));
        assert_eq!(scale.at(10.0), Some(100.0));
        assert_eq!(scale.at(20.0), Some(0.0));
        assert_eq!(scale.at(15.0), Some(50.0));
    }

    #[test]
    fn what_lies_outside_is_clamped_and_nan_has_no_place() {
        let scale = Scale::linear((0.0, 1.0), (0.0, 10.0));
        assert_eq!(scale.at(-3.0), Some(0.0));
        assert_eq!(scale.at(f64::INFINITY), Some(10.0));
        assert_eq!(scale.at(f64::NAN), None);
    }

    #[test]
    fn a_decade_is_equally_wide_anywhere_on_a_log_scale() {
        let scale = Scale::log((0.001, 1.0), (0.0, 3.0));
        for (value, place) in [(0.001, 0.0), (0.01, 1.0), (0.1, 2.0), (1.0, 3.0)] {
            let found = scale.at(value).unwrap();
            assert!((found - place).abs() < 1e-9, "{value} at {found}");
        }
        assert!(Scale::log((0.0, 0.0), (0.0, 1.0)).at(0.0).unwrap().is_finite());
    }

    #[test]
    fn a_domain_without_width_maps_to_the_middle() {
        assert_eq!(Scale::linear((5.0, 5.0), (0.0, 10.0)).at(5.0), Some(5.0));
    }
}
