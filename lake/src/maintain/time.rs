//! What time it is, as far as deleting goes.
//!
//! Files age by the store's clock, never by ours. In a directory the store's clock is the machine's, and a machine that is set
//! to another year must not empty the lake. So the time of the last sweep is noted in the lake, and a leap from there is doubted
//! until the clock has gone on for as long as the leap, at most a day: time enough to notice. A lake that nobody ran for a while
//! only deletes a little later.

use std::time::Duration;

use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use service::metrics::Gauge;
use service::{Deps, Error, Result};

use crate::lake::Lake;
use crate::store::failure;

/// Longest time for which a leap is doubted. Microseconds.
const DOUBT_US_MAX: i64 = 86_400_000_000;

/// The note in the lake. Times are microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    /// The last time that was believed.
    believed_us: i64,
    /// The time to which the clock leapt from there, while it is doubted.
    leapt_us: Option<i64>,
}

/// What is to be made of what the clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict {
    note: Note,
    /// When the clock will be believed, if it is not.
    believed_from_us: Option<i64>,
}

/// Judges clocks.
pub(super) struct Time {
    leap_us: i64,
    doubted: Gauge,
}

impl Time {
    pub(super) fn new(leap: Duration, deps: &Deps) -> Time {
        let help = "1 while the clock has leapt and nothing is deleted for that reason.";
        let doubted = deps.metrics.gauge("tokenwatt_lake_clock_doubted", help, &[]);
        Time { leap_us: i64::try_from(leap.as_micros()).unwrap_or(i64::MAX), doubted }
    }

    /// The time, if it is to be believed that it is `now_us`.
    ///
    /// # Errors
    /// `Unavailable`, `Denied`.
    pub(super) async fn judge(&self, lake: &Lake, now_us: i64) -> Result<Option<i64>> {
        let note = read(lake).await?;
        let verdict = judge(note, now_us, self.leap_us);
        if note != Some(verdict.note) {
            write(lake, verdict.note).await?;
        }
        self.doubted.set(f64::from(u8::from(verdict.believed_from_us.is_some())));
        let Some(from_us) = verdict.believed_from_us else { return Ok(Some(now_us)) };
        let hours = (now_us - verdict.note.believed_us) / 3_600_000_000;
        let until =
            jiff::Timestamp::from_microsecond(from_us).map_or_else(|_| from_us.to_string(), |at| at.to_string());
        tracing::warn!(
            hours,
            until,
            "the clock has leapt ahead since the last sweep, or nobody ran; nothing is deleted until then. Is the clock right?"
        );
        Ok(None)
    }
}

fn judge(note: Option<Note>, now_us: i64, leap_us: i64) -> Verdict {
    let believed = Verdict { note: Note { believed_us: now_us, leapt_us: None }, believed_from_us: None };
    let Some(Note { believed_us, leapt_us }) = note else { return believed };
    let gap_us = now_us.saturating_sub(believed_us);
    if gap_us <= leap_us {
        return believed;
    }
    // Doubts begin anew if the clock went back since, for then it was wrong.
    let leapt_us = leapt_us.filter(|leapt_us| *leapt_us <= now_us).unwrap_or(now_us);
    let doubted_us = leapt_us.saturating_sub(believed_us).min(DOUBT_US_MAX);
    let from_us = leapt_us.saturating_add(doubted_us);
    if now_us >= from_us {
        return believed;
    }
    Verdict { note: Note { believed_us, leapt_us: Some(leapt_us) }, believed_from_us: Some(from_us) }
}

fn path() -> Path {
    Path::from("_tokenwatt/time.json")
}

/// The note; `None` if there is none that can be read.
async fn read(lake: &Lake) -> Result<Option<Note>> {
    let failed = |e| failure("read what time it was", e);
    match lake.store().get(&path()).await {
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        answer => Ok(serde_json::from_slice(&answer.map_err(failed)?.bytes().await.map_err(failed)?).ok()),
    }
}

async fn write(lake: &Lake, note: Note) -> Result<()> {
    let body = serde_json::to_vec(&note).map_err(|e| Error::internal("note the time").with_source(e))?;
    lake.store().put(&path(), body.into()).await.map_err(|e| failure("note the time", e)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_US: i64 = 3_600_000_000;
    /// Some time in 2026.
    const NOON_US: i64 = 1_795_953_600_000_000;

    /// Times of sweeps, and which of them are believed.
    fn believed(sweeps: &[i64]) -> Vec<bool> {
        let mut note = None;
        let judged = sweeps.iter().map(|now_us| {
            let verdict = judge(note, *now_us, HOUR_US);
            note = Some(verdict.note);
            verdict.believed_from_us.is_none()
        });
        judged.collect()
    }

    #[test]
    fn a_leap_is_believed_once_the_clock_went_on_for_as_long() {
        let at = |hours: i64| NOON_US + hours * HOUR_US;
        assert_eq!(
            believed(&[at(0), at(1), at(9), at(10), at(16), at(17), at(18)]),
            [true, true, false, false, false, true, true]
        );
    }

    #[test]
    fn a_leap_of_years_is_doubted_for_a_day_and_forgotten_when_the_clock_is_put_right() {
        let year_us = 365 * 24 * HOUR_US;
        let (wrong, right) = (NOON_US + 100 * year_us, NOON_US + HOUR_US / 2);
        assert_eq!(believed(&[NOON_US, wrong, wrong + 23 * HOUR_US, right, right]), [true, false, false, true, true]);
        assert_eq!(believed(&[NOON_US, wrong, wrong + 24 * HOUR_US]), [true, false, true]);
        assert_eq!(
            believed(&[NOON_US, wrong, NOON_US + year_us, NOON_US + year_us + HOUR_US]),
            [true, false, false, false]
        );
    }

    #[test]
    fn a_clock_that_goes_back_is_believed_and_deletes_less() {
        assert_eq!(believed(&[NOON_US, NOON_US - 48 * HOUR_US]), [true, true]);
    }
}
