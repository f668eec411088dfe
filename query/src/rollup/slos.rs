//! Objectives as rows of table `slos`: a row for each change, dated when a process with other settings begins to build.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{Float64Type, TimestampMicrosecondType};
use jiff::{Timestamp, tz::TimeZone};
use lake::{Entry, Outcome, layout};
use service::{Error, Result};
use telemetry::contract::SqlRequest;
use telemetry::table::SLOS;

use super::build::{Builder, failed};
use super::objective::{Objective, Slo, dated};
use super::window::MINUTE_US;

/// The journal of configured objectives; its frames count changes.
const JOURNAL: &str = "configured";
/// Lost races with other processes that begin at the same time.
const RACES_MAX: u32 = 5;
/// Where a row comes from.
const SOURCE: &str = "tokenwatt.toml";

/// The columns of `slos` that an objective is read from, in that order.
pub(crate) const COLUMNS: &str = "SELECT name, indicator, measured_at, threshold, objective, \"window\", region, model, tenant, \
                                  effective_from, effective_to FROM slos";

/// Sees to it that the open rows of `slos` are the objectives of this process. One that changed ends now and begins anew.
///
/// # Errors
/// `Denied`, `Corrupt`, `Unavailable`.
pub(super) async fn publish(builder: &Builder, slos: &[Slo]) -> Result<()> {
    for _ in 0..RACES_MAX {
        let from = builder.lake.through(&SLOS, JOURNAL).await?.unwrap_or(0);
        let request = SqlRequest { sql: format!("{COLUMNS} WHERE source = '{SOURCE}'"), ..SqlRequest::default() };
        let answer = builder.engine.run(request, &builder.reader).await.map_err(failed)?;
        let known = objectives(&answer.batches)?;
        let changes = changes(&known, slos, builder.clock.now_us().div_euclid(MINUTE_US) * MINUTE_US);
        if changes.is_empty() {
            return Ok(());
        }
        let mut adds = Vec::new();
        for objective in &changes {
            let name = layout::file_name(JOURNAL, from, from + 1, &layout::unique());
            adds.push(builder.lake.write(&SLOS, &date(objective.from_us)?, &name, &[row(objective)?]).await?);
        }
        let entry = Entry { journal: JOURNAL.to_owned(), table: SLOS.name, from, to: from + 1, adds };
        if let Outcome::Committed { version } = builder.lake.commit(entry).await? {
            tracing::info!(changes = changes.len(), version, "objectives changed");
            return Ok(());
        }
    }
    Err(Error::unavailable("publish objectives: other processes change them too"))
}

/// Rows that make the open objectives those of `slos` from `now_us` on.
fn changes(known: &[Objective], slos: &[Slo], now_us: i64) -> Vec<Objective> {
    let open = || known.iter().filter(|objective| objective.to_us.is_none());
    let gone = open().filter(|objective| slos.iter().all(|slo| slo.name != objective.slo.name));
    let gone = gone.map(|objective| Objective { to_us: Some(now_us.max(objective.from_us)), ..objective.clone() });
    let new = slos.iter().filter(|slo| open().all(|objective| objective.slo != **slo));
    let new = new.map(|slo| Objective { slo: slo.clone(), from_us: now_us, to_us: None });
    gone.chain(new).collect()
}

/// Objectives of rows that [`COLUMNS`] asks for, each with the time that it holds.
///
/// # Errors
/// `Corrupt` for columns of another type.
pub(crate) fn objectives(batches: &[RecordBatch]) -> Result<Vec<Objective>> {
    read(batches).map(dated)
}

fn read(batches: &[RecordBatch]) -> Result<Vec<Objective>> {
    let mut objectives = Vec::new();
    for batch in batches {
        let texts = |at: usize| -> Result<StringArray> {
            let cast = arrow::compute::cast(batch.column(at), &arrow::datatypes::DataType::Utf8).map_err(unread)?;
            Ok(cast.as_string::<i32>().clone())
        };
        let (name, indicator, place, window) = (texts(0)?, texts(1)?, texts(2)?, texts(5)?);
        let (region, model, tenant) = (texts(6)?, texts(7)?, texts(8)?);
        let threshold = batch.column(3).as_primitive::<Float64Type>();
        let objective = batch.column(4).as_primitive::<Float64Type>();
        let from = batch.column(9).as_primitive::<TimestampMicrosecondType>();
        let to = batch.column(10).as_primitive::<TimestampMicrosecondType>();
        let some = |texts: &StringArray, row: usize| texts.is_valid(row).then(|| texts.value(row).to_owned());
        for row in 0..batch.num_rows() {
            let slo = Slo {
                name: some(&name, row).unwrap_or_default(),
                indicator: some(&indicator, row).unwrap_or_default(),
                threshold: threshold.is_valid(row).then(|| threshold.value(row)),
                objective: objective.value(row),
                window_days: days(&some(&window, row).unwrap_or_default()),
                measured_at: some(&place, row).unwrap_or_default(),
                region: some(&region, row),
                model: some(&model, row),
                tenant: some(&tenant, row),
            };
            // A row from elsewhere that we could not have written judges nothing.
            let mut faults = Vec::new();
            super::objective::validate(std::slice::from_ref(&slo), &mut faults);
            if faults.is_empty() && from.is_valid(row) {
                let to_us = to.is_valid(row).then(|| to.value(row));
                objectives.push(Objective { slo, from_us: from.value(row), to_us });
            }
        }
    }
    Ok(objectives)
}

fn days(window: &str) -> u32 {
    window.strip_suffix('d').and_then(|days| days.parse().ok()).unwrap_or(0)
}

fn row(Objective { slo, from_us, to_us }: &Objective) -> Result<RecordBatch> {
    let time =
        |us: Option<i64>| -> ArrayRef { Arc::new(TimestampMicrosecondArray::from(vec![us]).with_timezone("UTC")) };
    let text = |value: Option<&str>| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
    let number = |value: Option<f64>| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
    let columns = [
        ("time", time(Some(*from_us))),
        ("name", text(Some(&slo.name))),
        ("indicator", text(Some(&slo.indicator))),
        ("measured_at", text(Some(&slo.measured_at))),
        ("threshold", number(slo.threshold)),
        ("objective", number(Some(slo.objective))),
        ("window", text(Some(&format!("{}d", slo.window_days)))),
        ("region", text(slo.region.as_deref())),
        ("model", text(slo.model.as_deref())),
        ("tenant", text(slo.tenant.as_deref())),
        ("effective_from", time(Some(*from_us))),
        ("effective_to", time(*to_us)),
        ("source", text(Some(SOURCE))),
    ];
    RecordBatch::try_from_iter(columns).map_err(|e| Error::internal("an objective as a row").with_source(e))
}

fn date(us: i64) -> Result<String> {
    let at = Timestamp::from_microsecond(us).map_err(|e| Error::internal("date of an objective").with_source(e))?;
    Ok(at.to_zoned(TimeZone::UTC).date().to_string())
}

fn unread(error: arrow::error::ArrowError) -> Error {
    Error::corrupt("read table slos").with_source(error)
}

#[cfg(test)]
mod tests;
