//! Bundled rows as Arrow batches.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{Field, Schema};
use service::Result;
use telemetry::price::{self, Price};
use telemetry::table::schema::{MONEY_PRECISION, MONEY_SCALE};
use telemetry::table::{GRID, POWER_MODELS, PRICES, Table};
use telemetry::{grid, power};

use super::unfit;

/// The prices that come with Tokenwatt.
pub(super) fn prices() -> Result<RecordBatch> {
    of_prices(price::bundled(), None)
}

/// Prices as rows of table `prices`; `book` is the price book that they are from, if they do not come with Tokenwatt.
///
/// # Errors
/// `Internal`.
pub fn of_prices(rows: &[Price], book: Option<&str>) -> Result<RecordBatch> {
    let usd = Decimal128Array::from_iter_values(rows.iter().map(|row| row.usd_per_hour.0));
    let usd = usd.with_precision_and_scale(MONEY_PRECISION, MONEY_SCALE).map_err(|e| unfit(&PRICES, e))?;
    let from = times(rows.iter().map(|row| row.effective_from_us));
    let to: TimestampMicrosecondArray = rows.iter().map(|row| row.effective_to_us).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", Arc::clone(&from)),
        ("host_type", text(rows.iter().map(|row| &row.host_type))),
        ("region", text(rows.iter().map(|row| &row.region))),
        ("zone", optional(rows.iter().map(|row| row.zone.as_deref()))),
        ("option", text(rows.iter().map(|row| &row.option))),
        ("usd_per_hour", Arc::new(usd)),
        ("currency", text(rows.iter().map(|_| "USD"))),
        ("effective_from", from),
        ("effective_to", Arc::new(to.with_timezone("UTC"))),
        ("source", text(rows.iter().map(|row| &row.source))),
        ("as_of", text(rows.iter().map(|row| &row.as_of))),
        ("confidence", text(rows.iter().map(|row| &row.confidence))),
        ("note", optional(rows.iter().map(|row| row.note.as_deref()))),
        ("book", optional(rows.iter().map(|_| book))),
    ];
    batch(&PRICES, columns)
}

/// The power models.
pub(super) fn power_models() -> Result<RecordBatch> {
    let rows = power::bundled();
    let from = times(rows.iter().map(|row| row.effective_from_us));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", Arc::clone(&from)),
        ("device", text(rows.iter().map(|row| &row.device))),
        ("boundary", text(rows.iter().map(|row| &row.boundary))),
        ("idle_w", doubles(rows.iter().map(|row| row.idle_w))),
        ("max_w", doubles(rows.iter().map(|row| row.max_w))),
        ("method", text(rows.iter().map(|row| &row.method))),
        ("effective_from", from),
        ("source", text(rows.iter().map(|row| &row.source))),
        ("as_of", text(rows.iter().map(|row| &row.as_of))),
        ("confidence", text(rows.iter().map(|row| &row.confidence))),
        ("note", optional(rows.iter().map(|row| Some(row.note.as_str()).filter(|note| !note.is_empty())))),
    ];
    batch(&POWER_MODELS, columns)
}

/// Carbon intensity and PUE.
pub(super) fn grid() -> Result<RecordBatch> {
    let rows = grid::bundled();
    let from = times(rows.iter().map(|row| row.effective_from_us));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", Arc::clone(&from)),
        ("region", text(rows.iter().map(|row| &row.region))),
        ("gco2e_per_kwh", doubles(rows.iter().map(|row| row.gco2e_per_kwh))),
        ("pue", doubles(rows.iter().map(|row| row.pue))),
        ("method", text(rows.iter().map(|row| row.method))),
        ("effective_from", from),
        ("source", text(rows.iter().map(|row| &row.source))),
        ("as_of", text(rows.iter().map(|row| &row.as_of))),
        ("confidence", text(rows.iter().map(|row| &row.confidence))),
    ];
    batch(&GRID, columns)
}

fn batch(table: &Table, columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), *name != "time");
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).map_err(|e| unfit(table, e))
}

fn times(us: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from_iter_values(us).with_timezone("UTC"))
}

fn text(values: impl Iterator<Item = impl AsRef<str>>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn optional<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn doubles(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}
