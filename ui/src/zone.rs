//! In whose local time a page is told: `tz` of its URL, else UTC.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use leptos::prelude::use_context;
use viz::zone::{Change, Zone};

use crate::urlstate::{Scope, rfc3339};

/// Changes of the clock that a stretch of time is told with at most: two hundred years of two a year.
const CHANGES_MOST: usize = 400;

/// Zones that are offered; any other of the IANA database can be typed.
pub(crate) const OFFERED: [&str; 12] = [
    "America/Los_Angeles",
    "America/New_York",
    "America/Sao_Paulo",
    "Asia/Kolkata",
    "Asia/Singapore",
    "Asia/Tokyo",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/Helsinki",
    "Europe/London",
    "UTC",
];

/// The zone of a page while it is rendered.
#[derive(Clone)]
pub(crate) struct Local {
    name: String,
    rules: TimeZone,
}

impl Local {
    /// That of a scope. A name that this machine has no rules of was dropped when the URL was read.
    pub(crate) fn of(scope: &Scope) -> Self {
        let known = scope.tz.as_deref().and_then(|name| Some((name, TimeZone::get(name).ok()?)));
        let (name, rules) = known.unwrap_or(("UTC", TimeZone::UTC));
        Self { name: name.to_owned(), rules }
    }

    /// The zone between two instants, as charts carry it.
    fn over(&self, (from_us, to_us): (i64, i64)) -> Zone {
        let Ok(from) = Timestamp::from_microsecond(from_us) else { return Zone::default() };
        if self.rules == TimeZone::UTC {
            return Zone::default();
        }
        let first = self.rules.to_offset_info(from);
        let first = Change { from_us, ahead_s: first.offset().seconds(), name: first.abbreviation().to_owned() };
        let later = self.rules.following(from).take(CHANGES_MOST).map(|change| Change {
            from_us: change.timestamp().as_microsecond(),
            ahead_s: change.offset().seconds(),
            name: change.abbreviation().to_owned(),
        });
        Zone::new(std::iter::once(first).chain(later.take_while(|change| change.from_us <= to_us)).collect())
    }
}

/// The zone of the page that is being rendered, between two instants.
pub(crate) fn over(span_us: (i64, i64)) -> Zone {
    use_context::<Local>().map(|local| local.over(span_us)).unwrap_or_default()
}

/// Its name, as headings have it.
pub(crate) fn name() -> String {
    use_context::<Local>().map_or_else(|| "UTC".to_owned(), |local| local.name)
}

/// Time of day of an instant, and whose time that is.
pub(crate) fn clock(at_us: i64) -> String {
    viz::hover::clock(at_us, &over((at_us, at_us)))
}

/// What clocks show at an instant, as RFC 3339 without a zone.
pub(crate) fn local(at_us: i64) -> String {
    rfc3339(over((at_us, at_us)).local_us(at_us)).trim_end_matches('Z').to_owned()
}

/// What the zone's time is called at an instant ("IST").
pub(crate) fn abbreviation(at_us: i64) -> String {
    over((at_us, at_us)).name(at_us).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-10-25T01:00:00Z: clocks in Ireland go back.
    const BACK: i64 = 1_792_890_000_000_000;

    #[test]
    fn a_named_zone_knows_when_its_clocks_change() {
        let local = Local::of(&Scope::parse("tz=Europe/Dublin"));
        assert_eq!(local.name, "Europe/Dublin");
        const DAY: i64 = 86_400_000_000;
        // In and about the range, decades from it, and on both sides of a change.
        for (at, shown) in [
            (BACK - 1_000_000, "01:59:59 IST"),
            (BACK, "01:00:00 GMT"),
            (BACK - 300 * DAY, "01:00:00 GMT"),
            (BACK - 20 * 365 * DAY - 100 * DAY, "02:00:00 IST"),
            (0, "01:00:00 IST"),
        ] {
            assert_eq!(viz::hover::clock(at, &local.over((at, at))), shown, "{at}");
        }
        let decades = local.over((0, BACK + DAY));
        for at in [BACK - 1, BACK, 0] {
            assert_eq!(decades.name(at), local.over((at, at)).name(at), "a long stretch says the same of {at}");
        }
        let utc = Local::of(&Scope::parse("tz=Mars/Olympus"));
        assert_eq!((utc.name.as_str(), utc.over((0, BACK)).is_utc()), ("UTC", true));
    }
}
