//! The columns of an answer, and what their values are turned into before they are written.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Field, IntervalUnit, SchemaRef, TimeUnit},
};
use pgwire::{api::Type, messages::data::FieldDescription};

use super::{
    frontend::{Format, Formats},
    refusal::Refusal,
};
use crate::encode::postgres::{kind, modifier, size};

/// A column of an answer, as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) format: Format,
    /// What its values are turned into before they are written: one type for each way to write.
    plain: DataType,
    modifier: i32,
}

/// Key of the metadata by which the catalog's columns of object ids are known.
const OID_KEY: &str = "pg.oid_alias";

/// The columns of an answer.
///
/// # Errors
/// If the formats are for another number of columns.
pub(super) fn columns(schema: &SchemaRef, formats: &Formats) -> Result<Vec<Column>, Refusal> {
    formats.check(schema.fields().len())?;
    Ok(schema.fields().iter().enumerate().map(|(index, field)| column(field, formats.of(index))).collect())
}

fn column(field: &Field, format: Format) -> Column {
    let plain = plain(field.data_type());
    let is_oid = plain == DataType::Int32 && field.metadata().contains_key(OID_KEY);
    let kind = if is_oid { Type::OID } else { kind(&plain) };
    let modifier = modifier(&plain);
    Column { name: field.name().clone(), kind, format, plain, modifier }
}

impl Column {
    /// What a client is told of it before the rows.
    pub(super) fn description(&self) -> FieldDescription {
        let (kind, size) = (self.kind.oid(), size(&self.kind));
        FieldDescription::new(self.name.replace('\0', "\u{fffd}"), 0, 0, kind, size, self.modifier, self.format.code())
    }
}

/// The batch with each column turned into the type it is written from.
///
/// # Errors
/// If a value has no place in that type: an instant outside of PostgreSQL's years, say.
pub(super) fn plain_batch(batch: &RecordBatch, columns: &[Column]) -> Result<Vec<ArrayRef>, Refusal> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let turned = batch.columns().iter().zip(columns).map(|(array, column)| {
        if array.data_type() == &column.plain {
            return Ok(Arc::clone(array));
        }
        cast_with_options(array, &column.plain, &strict)
            .map_err(|error| Refusal::error("22003", format!("column {}: {error}", column.name)))
    });
    turned.collect()
}

/// The type a column is written from. What stands for itself as text or JSON stays as it is.
fn plain(kind: &DataType) -> DataType {
    match kind {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Float16 => DataType::Float32,
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Duration(_) => DataType::Duration(TimeUnit::Microsecond),
        DataType::Dictionary(_, values) => plain(values),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => {
            DataType::List(Arc::new(Field::new(item.name(), plain(item.data_type()), true)))
        }
        other => other.clone(),
    }
}
