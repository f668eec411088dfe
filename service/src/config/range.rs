//! Numbers within their bounds: what a service cannot hold is a fault of the settings, not a panic at the start.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{bytes, duration};

/// Adds a fault if `value` lies outside `range`; NaN always does.
pub fn within<T: PartialOrd + Display>(key: &str, value: T, range: RangeInclusive<T>, faults: &mut Vec<String>) {
    if !range.contains(&value) {
        let (least, most) = (range.start(), range.end());
        faults.push(format!("`{key}` is {value}; it must lie between {least} and {most}"));
    }
}

/// The same for a size.
pub fn size(key: &str, value: u64, range: RangeInclusive<u64>, faults: &mut Vec<String>) {
    if !range.contains(&value) {
        let [value, least, most] = [value, *range.start(), *range.end()].map(bytes::format);
        faults.push(format!("`{key}` is {value}; it must lie between {least} and {most}"));
    }
}

/// The same for a duration.
pub fn span(key: &str, value: Duration, range: RangeInclusive<Duration>, faults: &mut Vec<String>) {
    if !range.contains(&value) {
        let [value, least, most] = [value, *range.start(), *range.end()].map(duration::format);
        faults.push(format!("`{key}` is {value}; it must lie between {least} and {most}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds belong to the range; what lies outside is named with its bounds.
    #[test]
    fn bounds_are_named() {
        let mut faults = Vec::new();
        within("a.b", 3, 1..=3, &mut faults);
        size("a.c", 1 << 20, 1 << 10..=1 << 20, &mut faults);
        span("a.d", Duration::from_secs(1), Duration::from_secs(1)..=Duration::from_secs(2), &mut faults);
        assert_eq!(faults, Vec::<String>::new());
        within("a.b", 4, 1..=3, &mut faults);
        within("a.e", f64::NAN, 0.0..=1.0, &mut faults);
        size("a.c", (1 << 20) + 1, 1 << 10..=1 << 20, &mut faults);
        span("a.d", Duration::MAX, Duration::ZERO..=Duration::from_secs(2), &mut faults);
        assert_eq!(faults.len(), 4, "{faults:?}");
        assert_eq!(faults[0], "`a.b` is 4; it must lie between 1 and 3");
        assert!(faults[2].ends_with("must lie between 1KiB and 1MiB"), "{}", faults[2]);
    }
}
