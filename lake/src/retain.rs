//! Retention: files all of whose rows are older than their table keeps them leave the table.
//!
//! A file goes as a whole or not at all; rows that are due stay as long as a younger one lies in the same file. The bytes stay
//! where they are until [`crate::vacuum`] finds that nobody can want them any more.

use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use service::{Kind, Result};
use telemetry::table::Table;

use crate::commit::Effect;
use crate::lake::{Lake, Swap};
use crate::snapshot::File;

/// Microseconds in a day.
const DAY_US: i64 = 86_400_000_000;
/// Files dropped by one version.
const FILES_MAX: usize = 1_000;

/// Drops what a table has kept for `days` days; returns how many files.
///
/// # Errors
/// `Corrupt`, `Unavailable`.
pub(crate) async fn retain(lake: &Lake, table: &'static Table, days: u32, now_us: i64) -> Result<usize> {
    let snapshot = lake.shelf(table.name)?.head.lock().await?.state.snapshot();
    let since_us = now_us.saturating_sub(i64::from(days).saturating_mul(DAY_US));
    let expired: Vec<_> = snapshot.files.iter().filter(|file| is_older(file, since_us)).collect();
    let mut dropped = 0;
    for files in expired.chunks(FILES_MAX) {
        let removes = files.iter().map(|file| file.path.clone()).collect();
        let swap = Swap { adds: Vec::new(), removes, effect: Effect::Drop, sweeps: 0, now_us };
        match lake.swap(table, swap).await {
            Ok(_) => dropped += files.len(),
            // One of them was replaced meanwhile; the next look sees by what.
            Err(refused) if refused.kind() == Kind::Conflict => {}
            Err(failed) => return Err(failed),
        }
    }
    if dropped > 0 {
        tracing::info!(table = table.name, files = dropped, days, "dropped rows that were kept long enough");
    }
    Ok(dropped)
}

/// Whether every row of a file is older than an instant. A file that does not say is judged by its date.
fn is_older(file: &Arc<File>, since_us: i64) -> bool {
    match file.newest_time_us() {
        Some(newest_us) => newest_us < since_us,
        None => end_of(&file.date).is_some_and(|end_us| end_us <= since_us),
    }
}

/// End of a UTC date, microseconds since 1970-01-01 UTC.
fn end_of(date: &str) -> Option<i64> {
    let next = date.parse::<Date>().ok()?.tomorrow().ok()?;
    Some(next.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond())
}

#[cfg(test)]
mod tests;
