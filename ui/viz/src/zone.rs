//! Local time without a table of zones: how far a zone is from UTC in a stretch of time is told by whoever knows.

use serde::{Deserialize, Serialize};

/// A time zone over a stretch of time. The default is UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// What holds from when on, in order; before the first the first holds. Empty is UTC.
    changes: Vec<Change>,
}

/// From an instant on a zone is so far from UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// µs since the epoch.
    pub from_us: i64,
    /// Seconds ahead of UTC.
    pub ahead_s: i32,
    /// What its time is called then ("IST", "+05:30").
    pub name: String,
}

impl Zone {
    /// The zone with these changes.
    pub fn new(mut changes: Vec<Change>) -> Self {
        changes.sort_by_key(|change| change.from_us);
        Self { changes }
    }

    /// Whether it is UTC.
    pub fn is_utc(&self) -> bool {
        self.changes.is_empty()
    }

    /// The same with what matters between two instants alone.
    pub fn within(&self, from_us: i64, to_us: i64) -> Self {
        let first = self.changes.partition_point(|change| change.from_us <= from_us).saturating_sub(1);
        let end = self.changes.partition_point(|change| change.from_us <= to_us).max(first + 1).min(self.changes.len());
        Self { changes: self.changes.get(first..end).unwrap_or_default().to_vec() }
    }

    /// What clocks of the zone show, as µs since an epoch of its own.
    pub fn local_us(&self, at_us: i64) -> i64 {
        at_us.saturating_add(self.at(at_us).map_or(0, |change| i64::from(change.ahead_s) * 1_000_000))
    }

    /// What its time is called at an instant.
    pub fn name(&self, at_us: i64) -> &str {
        self.at(at_us).map_or("UTC", |change| &change.name)
    }

    fn at(&self, at_us: i64) -> Option<&Change> {
        let next = self.changes.partition_point(|change| change.from_us <= at_us);
        self.changes.get(next.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;
    /// 2026-10-25T01:00:00Z, when clocks in Ireland go back from 02:00 to 01:00.
    const BACK: i64 = 1_792_890_000_000_000;

    fn dublin() -> Zone {
        let change = |from_us, ahead_s, name: &str| Change { from_us, ahead_s, name: name.to_owned() };
        Zone::new(vec![change(BACK, 0, "GMT"), change(BACK - 5_000 * HOUR, 3_600, "IST")])
    }

    #[test]
    fn the_hour_that_comes_twice_is_told_apart() {
        let zone = dublin();
        let (first, second) = (BACK - HOUR / 2, BACK + HOUR / 2);
        assert_eq!(zone.local_us(first), zone.local_us(second));
        assert_eq!((zone.name(first), zone.name(second)), ("IST", "GMT"));
        assert_eq!(Zone::default().local_us(BACK), BACK);
        assert_eq!(Zone::default().name(BACK), "UTC");
    }

    #[test]
    fn what_matters_in_a_stretch_is_kept() {
        let zone = dublin();
        for (from, to, left) in [(BACK - HOUR, BACK + HOUR, 2), (BACK + 1, BACK + HOUR, 1), (BACK - HOUR, BACK - 1, 1)]
        {
            let within = zone.within(from, to);
            assert_eq!(within.changes.len(), left);
            for at in [from, to] {
                assert_eq!((within.local_us(at), within.name(at)), (zone.local_us(at), zone.name(at)));
            }
        }
        assert!(Zone::default().within(0, 1).is_utc());
    }
}
