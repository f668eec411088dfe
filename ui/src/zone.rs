//! In whose local time a page is told: `tz` of its URL, else UTC.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use leptos::prelude::use_context;
use viz::zone::{Change, Zone};

use crate::urlstate::{Scope, rfc3339};

/// Time around a page's range whose changes of the clock are known, µs: stamps may lie outside of it.
const AROUND_US: i64 = 400 * 86_400_000_000;
/// Changes that are told at most: a few years' for any zone.
const CHANGES_MOST: usize = 64;

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

/// The zone of a page while it is rendered, and its name.
#[derive(Clone)]
pub(crate) struct Local {
    pub(crate) name: String,
    pub(crate) zone: Zone,
}

impl Local {
    /// That of a scope. A name that this machine has no rules of was dropped when the URL was read.
    pub(crate) fn of(scope: &Scope, now_us: i64) -> Self {
        let (from, to) = scope.resolve(now_us);
        let known = scope.tz.as_deref().and_then(|name| Some((name, TimeZone::get(name).ok()?)));
        match known {
            Some((name, zone)) => {
                let around = (from.saturating_sub(AROUND_US), to.max(now_us).saturating_add(AROUND_US));
                Self { name: name.to_owned(), zone: changes(&zone, around) }
            }
            None => Self { name: "UTC".to_owned(), zone: Zone::default() },
        }
    }
}

fn changes(zone: &TimeZone, (from_us, to_us): (i64, i64)) -> Zone {
    let Ok(from) = Timestamp::from_microsecond(from_us) else { return Zone::default() };
    let first = zone.to_offset_info(from);
    let first = Change { from_us, ahead_s: first.offset().seconds(), name: first.abbreviation().to_owned() };
    let later = zone.following(from).take(CHANGES_MOST).map(|change| Change {
        from_us: change.timestamp().as_microsecond(),
        ahead_s: change.offset().seconds(),
        name: change.abbreviation().to_owned(),
    });
    Zone::new(std::iter::once(first).chain(later.take_while(|change| change.from_us <= to_us)).collect())
}

/// The zone of the page that is being rendered.
pub(crate) fn zone() -> Zone {
    use_context::<Local>().map(|local| local.zone).unwrap_or_default()
}

/// Its name, as headings have it.
pub(crate) fn name() -> String {
    use_context::<Local>().map_or_else(|| "UTC".to_owned(), |local| local.name)
}

/// Time of day of an instant, and whose time that is.
pub(crate) fn clock(at_us: i64) -> String {
    viz::hover::clock(at_us, &zone())
}

/// What clocks show at an instant, as RFC 3339 without a zone.
pub(crate) fn local(at_us: i64) -> String {
    rfc3339(zone().local_us(at_us)).trim_end_matches('Z').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-10-25T01:00:00Z: clocks in Ireland go back.
    const BACK: i64 = 1_792_890_000_000_000;

    #[test]
    fn a_named_zone_knows_when_its_clocks_change() {
        let scope = Scope::parse("tz=Europe/Dublin&from=2026-10-25T00:00&to=2026-10-25T03:00");
        let local = Local::of(&scope, BACK);
        assert_eq!(local.name, "Europe/Dublin");
        let clock = |at| viz::hover::clock(at, &local.zone);
        assert_eq!(clock(BACK - 1_000_000), "01:59:59 IST");
        assert_eq!(clock(BACK), "01:00:00 GMT");
        assert_eq!(clock(BACK - 300 * 86_400_000_000), "01:00:00 GMT", "the winter before");
        let utc = Local::of(&Scope::parse("tz=Mars/Olympus"), BACK);
        assert_eq!((utc.name.as_str(), utc.zone.is_utc()), ("UTC", true));
    }
}
