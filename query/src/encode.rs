//! Answers as bytes.
//!
//! JSON knows no times, decimals or 128-bit numbers: times become RFC 3339 UTC text with microseconds, decimals text
//! with all their digits, maps objects. What JSON cannot say at all (NaN, infinities) is null.

mod file;
pub(crate) mod postgres;

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
        UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
    util::display::{ArrayFormatter, FormatOptions},
};
use jiff::Timestamp;
use serde_json::{Map, Value};

pub(crate) use file::{Encoder, parquet};

/// The batch's rows as JSON values.
pub(crate) fn rows(batch: &RecordBatch) -> Vec<Vec<Value>> {
    (0..batch.num_rows()).map(|row| batch.columns().iter().map(|column| cell(column.as_ref(), row)).collect()).collect()
}

/// The type in SQL's words.
pub(crate) fn sql_type(kind: &DataType) -> String {
    match kind {
        DataType::Timestamp(..) => "TIMESTAMP".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "STRING".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Int32 => "INT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision},{scale})"),
        DataType::List(field) | DataType::LargeList(field) => format!("LIST<{}>", sql_type(field.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                format!("MAP<{}>", fields.iter().map(|field| sql_type(field.data_type())).collect::<Vec<_>>().join(","))
            }
            other => format!("MAP<{other}>"),
        },
        other => other.to_string().to_uppercase(),
    }
}

/// One value as JSON.
pub(crate) fn cell(column: &dyn Array, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        // The column of a bare NULL has no validity to ask.
        DataType::Null => Value::Null,
        DataType::Boolean => column.as_boolean().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).into(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt16 => column.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).into(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into(),
        DataType::Float32 => f64::from(column.as_primitive::<Float32Type>().value(row)).into(),
        DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).into(),
        DataType::Utf8View => column.as_string_view().value(row).into(),
        DataType::Timestamp(unit, _) => time(column, row, *unit),
        DataType::Date32 => {
            column.as_primitive::<Date32Type>().value_as_date(row).map_or(Value::Null, |date| date.to_string().into())
        }
        DataType::Decimal128(..) => column.as_primitive::<Decimal128Type>().value_as_string(row).into(),
        DataType::Map(..) => object(column, row),
        DataType::List(_) => list(column.as_list::<i32>().value(row).as_ref()),
        DataType::LargeList(_) => list(column.as_list::<i64>().value(row).as_ref()),
        DataType::Struct(_) => structure(column, row),
        _ => printed(column, row),
    }
}

fn time(column: &dyn Array, row: usize, unit: TimeUnit) -> Value {
    let instant = match unit {
        TimeUnit::Second => Timestamp::from_second(column.as_primitive::<TimestampSecondType>().value(row)),
        TimeUnit::Millisecond => {
            Timestamp::from_millisecond(column.as_primitive::<TimestampMillisecondType>().value(row))
        }
        TimeUnit::Microsecond => {
            Timestamp::from_microsecond(column.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        TimeUnit::Nanosecond => {
            Timestamp::from_nanosecond(i128::from(column.as_primitive::<TimestampNanosecondType>().value(row)))
        }
    };
    // An instant outside the calendar's range cannot be written down.
    instant.map_or(Value::Null, |instant| format!("{instant:.6}").into())
}

fn object(column: &dyn Array, row: usize) -> Value {
    let entries = column.as_map().value(row);
    let (keys, values) = (entries.column(0), entries.column(1));
    let pairs = (0..entries.len()).map(|at| {
        let key = match cell(keys.as_ref(), at) {
            Value::String(key) => key,
            other => other.to_string(),
        };
        (key, cell(values.as_ref(), at))
    });
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn list(items: &dyn Array) -> Value {
    Value::Array((0..items.len()).map(|at| cell(items, at)).collect())
}

fn structure(column: &dyn Array, row: usize) -> Value {
    let fields = column.as_struct();
    let pairs = fields.column_names().into_iter().zip(fields.columns());
    Value::Object(pairs.map(|(name, values)| (name.to_owned(), cell(values.as_ref(), row))).collect::<Map<_, _>>())
}

fn printed(column: &dyn Array, row: usize) -> Value {
    let options = FormatOptions::default();
    match ArrayFormatter::try_new(column, &options) {
        Ok(formatter) => formatter.value(row).to_string().into(),
        Err(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests;
