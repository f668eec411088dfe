//! The time between two flags: read as it was typed, and refused with what to type instead.

use service::{Error, Result};
use telemetry::record::{instant, rfc3339};

const HOUR_US: i64 = 3_600_000_000;
const DAY_US: i64 = 24 * HOUR_US;
/// Longest stretch: hours of cost are kept for 400 days.
const DAYS_MAX: i64 = 400;

/// From when to when `--from` and `--to` are, µs since the epoch; `now_us` is now.
///
/// # Errors
/// `Invalid` for what is no time, lies in the future, ends before it begins or is longer than anything is kept, with what to do.
pub(super) fn read(from: &str, to: &str, now_us: i64) -> Result<(i64, i64)> {
    let read = |flag: &str, text: &str| {
        let refused = || {
            Error::invalid(format!("--{flag} is {text:?}, which is no time"))
                .with_hint("write a date, such as 2026-11-01, or an instant, such as 2026-11-01T13:00:00Z; without an offset it is UTC")
        };
        instant(text).ok_or_else(refused)
    };
    let (from_us, to_us) = (read("from", from)?, read("to", to)?);
    if to_us <= from_us {
        let error = Error::invalid(format!("--to ({to}) is not after --from ({from})"));
        let hint = match to_us == from_us {
            true => {
                format!("--to is the first instant that is left out: for one day from {from} name the day after it")
            }
            false => format!("to mean the time between them, write --from {to} --to {from}"),
        };
        return Err(error.with_hint(hint));
    }
    if from_us > now_us {
        let hint = format!("it is {} now; look at the year and the month", minute(now_us));
        return Err(
            Error::invalid(format!("--from ({from}) lies in the future, of which nothing is recorded")).with_hint(hint)
        );
    }
    let days = (to_us - from_us) / DAY_US;
    if days > DAYS_MAX {
        let hint = format!("hours of cost are kept for {DAYS_MAX} days; name a stretch of that length at most");
        return Err(Error::invalid(format!("from --from ({from}) to --to ({to}) are {days} days")).with_hint(hint));
    }
    Ok((from_us, to_us))
}

/// The same of whole hours.
///
/// # Errors
/// As [`read`], and for what is not the start of an hour.
pub(super) fn hours(from: &str, to: &str, now_us: i64) -> Result<(i64, i64)> {
    let (from_us, to_us) = read(from, to, now_us)?;
    for (flag, text, us, up) in [("from", from, from_us, 0), ("to", to, to_us, HOUR_US - 1)] {
        if us % HOUR_US != 0 {
            let start = (us + up).div_euclid(HOUR_US) * HOUR_US;
            let hint = format!("cost is kept by whole hours in UTC: take --{flag} {}", rfc3339(start));
            return Err(Error::invalid(format!("--{flag} ({text}) is not the start of an hour")).with_hint(hint));
        }
    }
    Ok((from_us, to_us))
}

/// An instant without its seconds, as people write it.
pub(super) fn minute(us: i64) -> String {
    let whole = rfc3339(us.div_euclid(60_000_000) * 60_000_000);
    whole.trim_end_matches(":00Z").replace('T', " ") + " UTC"
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-30T03:07:00Z";

    fn refused(from: &str, to: &str) -> String {
        let error = hours(from, to, instant(NOW).expect("now")).expect_err(from);
        format!("{error}; {}", error.hint().expect("what to do"))
    }

    /// Each says what is wrong and what to type.
    #[test]
    fn what_is_typed_at_night_is_answered() {
        for (from, to, told) in [
            ("yesterday", "2026-11-30", ["--from is \"yesterday\", which is no time", "write a date"]),
            ("2026-11-01", "30.11.2026", ["--to is \"30.11.2026\"", "without an offset it is UTC"]),
            ("2026-11-30", "2026-11-29", ["is not after --from", "--from 2026-11-29 --to 2026-11-30"]),
            ("2026-11-29", "2026-11-29", ["is not after --from", "name the day after it"]),
            ("2027-11-01", "2027-12-01", ["lies in the future", "it is 2026-11-30 03:07 UTC now"]),
            ("2016-11-01", "2026-11-30", ["are 3681 days", "kept for 400 days"]),
            ("2026-11-29T10:20:00Z", "2026-11-30", ["--from (2026-11-29T10:20:00Z)", "--from 2026-11-29T10:00:00Z"]),
            ("2026-11-29", "2026-11-29T10:20:00Z", ["not the start of an hour", "--to 2026-11-29T11:00:00Z"]),
        ] {
            let refused = refused(from, to);
            told.iter().for_each(|part| assert!(refused.contains(part), "{part} in {refused}"));
        }
        let now = instant(NOW).expect("now");
        assert_eq!(hours("2026-11-01", "2026-12-01", now).map(|(from, to)| to - from).ok(), Some(30 * DAY_US));
        assert!(read("2026-11-29T10:20:00Z", "2026-11-29 10:50:00", now).is_ok());
    }
}
