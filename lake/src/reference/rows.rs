//! Bundled rows as Arrow batches.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Float64Builder, Int64Array, ListBuilder, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use service::Result;
use telemetry::inventory;
use telemetry::list::Dated;
use telemetry::power::list::Listed;
use telemetry::price::discount::Discount;
use telemetry::price::rate::Rate;
use telemetry::price::{self, Price};
use telemetry::table::schema::{MONEY_PRECISION, MONEY_SCALE};
use telemetry::table::{DISCOUNTS, EXCHANGE_RATES, GRID, INVENTORY, POWER_MODELS, PRICES, Table};
use telemetry::unit::Usd;
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
    let is_usd = |row: &&Price| row.currency == "USD";
    let usd = rows.iter().map(|row| Some(row).filter(is_usd).map(|row| row.per_hour));
    let other = rows.iter().map(|row| Some(row).filter(|row| !is_usd(row)).map(|row| row.per_hour));
    let from = times(rows.iter().map(|row| row.effective_from_us));
    let to: TimestampMicrosecondArray = rows.iter().map(|row| row.effective_to_us).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", Arc::clone(&from)),
        ("host_type", text(rows.iter().map(|row| &row.host_type))),
        ("region", text(rows.iter().map(|row| &row.region))),
        ("zone", optional(rows.iter().map(|row| row.zone.as_deref()))),
        ("option", text(rows.iter().map(|row| &row.option))),
        ("usd_per_hour", money(&PRICES, usd)?),
        ("currency", text(rows.iter().map(|row| &row.currency))),
        ("effective_from", from),
        ("effective_to", Arc::new(to.with_timezone("UTC"))),
        ("source", text(rows.iter().map(|row| &row.source))),
        ("as_of", text(rows.iter().map(|row| &row.as_of))),
        ("confidence", text(rows.iter().map(|row| &row.confidence))),
        ("note", optional(rows.iter().map(|row| row.note.as_deref()))),
        ("book", optional(rows.iter().map(|_| book))),
        ("price_per_hour", money(&PRICES, other)?),
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
        ("load", points(rows.iter().map(|row| &row.curve), |(load, _)| *load)),
        ("load_w", points(rows.iter().map(|row| &row.curve), |(_, watts)| *watts)),
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

/// Discounts as rows of table `discounts`; `contract` names the list.
///
/// # Errors
/// `Internal`.
pub fn of_discounts(rows: &[Discount], contract: &str) -> Result<RecordBatch> {
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("host_type", optional(rows.iter().map(|row| row.host_type.as_deref()))),
        ("region", optional(rows.iter().map(|row| row.region.as_deref()))),
        ("option", text(rows.iter().map(|row| &row.option))),
        ("factor", money(&DISCOUNTS, rows.iter().map(|row| Some(row.factor)))?),
        ("contract", text(rows.iter().map(|_| contract))),
    ];
    columns.splice(0..0, dated(rows.iter().map(|row| &row.dated)));
    batch(&DISCOUNTS, columns)
}

/// Rates as rows of table `exchange_rates`.
///
/// # Errors
/// `Internal`.
pub fn of_rates(rows: &[Rate]) -> Result<RecordBatch> {
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("currency", text(rows.iter().map(|row| &row.currency))),
        ("usd_per_unit", money(&EXCHANGE_RATES, rows.iter().map(|row| Some(row.usd)))?),
    ];
    columns.splice(0..0, dated(rows.iter().map(|row| &row.dated)));
    batch(&EXCHANGE_RATES, columns)
}

/// Power models as rows of table `power_models`; `list` names the list that they are from.
///
/// # Errors
/// `Internal`.
pub fn of_power_models(rows: &[Listed], list: &str) -> Result<RecordBatch> {
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("device", text(rows.iter().map(|row| &row.device))),
        ("boundary", text(rows.iter().map(|row| &row.boundary))),
        ("idle_w", doubles(rows.iter().map(|row| row.idle_w))),
        ("max_w", doubles(rows.iter().map(|row| row.max_w))),
        ("load", points(rows.iter().map(|row| &row.curve), |(load, _)| *load)),
        ("load_w", points(rows.iter().map(|row| &row.curve), |(_, watts)| *watts)),
        ("method", text(rows.iter().map(|row| &row.method))),
        ("list", text(rows.iter().map(|_| list))),
    ];
    columns.splice(0..0, dated(rows.iter().map(|row| &row.dated)));
    batch(&POWER_MODELS, columns)
}

/// Grid factors as rows of table `grid`; `list` names the list that they are from.
///
/// # Errors
/// `Internal`.
pub fn of_grid(rows: &[grid::list::Listed], list: &str) -> Result<RecordBatch> {
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("region", text(rows.iter().map(|row| &row.region))),
        ("gco2e_per_kwh", doubles(rows.iter().map(|row| row.gco2e_per_kwh))),
        ("pue", doubles(rows.iter().map(|row| row.pue))),
        ("method", optional(rows.iter().map(|row| row.method))),
        ("list", text(rows.iter().map(|_| list))),
    ];
    columns.splice(0..0, dated(rows.iter().map(|row| &row.dated)));
    batch(&GRID, columns)
}

/// Hosts as rows of table `inventory`; `list` names the list that they are from.
///
/// # Errors
/// `Internal`.
pub fn of_inventory(rows: &[inventory::Listed], list: &str) -> Result<RecordBatch> {
    let chips: Int64Array = rows.iter().map(|row| row.chips).collect();
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("host_id", text(rows.iter().map(|row| &row.host_id))),
        ("host_type", text(rows.iter().map(|row| &row.host_type))),
        ("region", text(rows.iter().map(|row| &row.region))),
        ("zone", optional(rows.iter().map(|row| row.zone.as_deref()))),
        ("option", optional(rows.iter().map(|row| row.option.as_deref()))),
        ("account", optional(rows.iter().map(|row| row.account.as_deref()))),
        ("chips", Arc::new(chips)),
        ("list", text(rows.iter().map(|_| list))),
    ];
    columns.splice(0..0, dated(rows.iter().map(|row| &row.dated)));
    batch(&INVENTORY, columns)
}

/// One side of the curves; unknown where there is none.
fn points<'a>(curves: impl Iterator<Item = &'a Vec<(f64, f64)>>, of: fn(&(f64, f64)) -> f64) -> ArrayRef {
    let element = Field::new("element", DataType::Float64, true);
    let mut lists = ListBuilder::new(Float64Builder::new()).with_field(element);
    for curve in curves {
        curve.iter().for_each(|point| lists.values().append_value(of(point)));
        lists.append(!curve.is_empty());
    }
    Arc::new(lists.finish())
}

/// When facts hold and who says so; `time` is the start.
fn dated<'a>(rows: impl Iterator<Item = &'a Dated> + Clone) -> Vec<(&'static str, ArrayRef)> {
    let from = times(rows.clone().map(|row| row.from_us));
    let to: TimestampMicrosecondArray = rows.clone().map(|row| row.to_us).collect();
    vec![
        ("time", Arc::clone(&from)),
        ("effective_from", from),
        ("effective_to", Arc::new(to.with_timezone("UTC"))),
        ("source", text(rows.clone().map(|row| &row.source))),
        ("as_of", text(rows.clone().map(|row| &row.as_of))),
        ("confidence", text(rows.clone().map(|row| &row.confidence))),
        ("note", optional(rows.map(|row| row.note.as_deref()))),
    ]
}

fn money(table: &Table, amounts: impl Iterator<Item = Option<Usd>>) -> Result<ArrayRef> {
    let amounts: Decimal128Array = amounts.map(|amount| amount.map(|amount| amount.0)).collect();
    let amounts = amounts.with_precision_and_scale(MONEY_PRECISION, MONEY_SCALE).map_err(|e| unfit(table, e))?;
    Ok(Arc::new(amounts))
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
