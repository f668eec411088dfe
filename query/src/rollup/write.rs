//! From windows to files, and from files to one commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use jiff::{Timestamp, tz::TimeZone};
use lake::{Entry, FileAdd, Lake, Outcome, layout};
use service::{Error, Kind, Result};
use telemetry::table::Table;

use super::Rollup;

/// A round of a roll-up, and how many were committed before it.
pub(super) struct Round {
    pub(super) rollup: &'static Rollup,
    pub(super) rounds: u64,
}

/// Under what name a roll-up commits: its frames count rounds.
pub(super) fn journal(rollup: &Rollup) -> String {
    format!("rollup-{}", rollup.table.name)
}

/// Writes the windows of a stretch that begins at `start_us` as a file with these tags; `None` where there are no rows.
///
/// # Errors
/// `Invalid`, `Denied`, `Unavailable`.
pub(super) async fn file(
    lake: &Lake,
    round: &Round,
    start_us: i64,
    (batches, tags): (&[RecordBatch], &BTreeMap<String, String>),
) -> Result<Option<FileAdd>> {
    let table = round.rollup.table;
    let batches = batches.iter().filter(|batch| batch.num_rows() > 0).map(|batch| stored(table, batch));
    let batches = batches.collect::<Result<Vec<_>>>()?;
    if batches.is_empty() {
        return Ok(None);
    }
    let start =
        Timestamp::from_microsecond(start_us).map_err(|e| Error::internal("start of a window").with_source(e))?;
    let date = start.to_zoned(TimeZone::UTC).date().to_string();
    let name = layout::file_name(&journal(round.rollup), round.rounds, round.rounds + 1, &layout::unique());
    let mut add = lake.write(table, &date, &name, &batches).await?;
    add.tags.extend(tags.clone());
    Ok(Some(add))
}

/// Puts the files in the place of those they were computed to replace; false if another process has been faster.
///
/// # Errors
/// `Denied`, `Corrupt`; `Unavailable`, after which all of it has happened or nothing.
pub(super) async fn commit(lake: &Lake, round: &Round, adds: Vec<FileAdd>, removes: Vec<String>) -> Result<bool> {
    let (from, to) = (round.rounds, round.rounds + 1);
    let entry = Entry { journal: journal(round.rollup), table: round.rollup.table.name, from, to, adds };
    match lake.replace(entry, removes).await {
        Ok(Outcome::Committed { .. }) => Ok(true),
        Ok(Outcome::Through(_)) => Ok(false),
        Err(refused) if refused.kind() == Kind::Conflict => Ok(false),
        Err(failed) => Err(failed),
    }
}

/// The batch with the columns and types of the table.
fn stored(table: &'static Table, batch: &RecordBatch) -> Result<RecordBatch> {
    let unfit = |e| Error::internal(format!("windows of {}", table.name)).with_source(e);
    let schema = table.schema();
    let columns = schema.fields().iter().map(|field| {
        let column = batch.column_by_name(field.name());
        let column =
            column.ok_or_else(|| Error::internal(format!("windows of {} without {}", table.name, field.name())))?;
        arrow::compute::cast(column, field.data_type()).map_err(unfit)
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    RecordBatch::try_new(Arc::clone(&schema), columns).map_err(unfit)
}
