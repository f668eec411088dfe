//! The binary form: fixed-size numbers big-endian, times from 2000-01-01 on, numerics in digits of base 10,000.

use arrow::{
    array::{Array, AsArray},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Decimal256Type, DurationMicrosecondType, Float32Type, Float64Type,
        Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
    },
};
use bytes::{BufMut, BytesMut};
use pgwire::api::Type;

use super::{EPOCH_DAYS, EPOCH_US, is_null, measured, text};
use crate::encode::postgres::item_of;

/// Version of jsonb's binary form.
const JSONB_VERSION: u8 = 1;
/// Sign of a negative numeric.
const NEGATIVE: u16 = 0x4000;

/// Writes a value that is not NULL.
pub(super) fn binary(values: &dyn Array, kind: &Type, row: usize, out: &mut BytesMut) {
    match values.data_type() {
        DataType::Boolean => out.put_u8(u8::from(values.as_boolean().value(row))),
        DataType::Int16 => out.put_i16(values.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => out.put_i32(values.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => out.put_i64(values.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => out.put_f32(values.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => out.put_f64(values.as_primitive::<Float64Type>().value(row)),
        DataType::Binary => out.put_slice(values.as_binary::<i32>().value(row)),
        DataType::Date32 => out.put_i32(values.as_primitive::<Date32Type>().value(row).saturating_sub(EPOCH_DAYS)),
        DataType::Time64(_) => out.put_i64(values.as_primitive::<Time64MicrosecondType>().value(row)),
        DataType::Timestamp(..) => {
            out.put_i64(values.as_primitive::<TimestampMicrosecondType>().value(row).saturating_sub(EPOCH_US));
        }
        DataType::Interval(_) => {
            let value = values.as_primitive::<IntervalMonthDayNanoType>().value(row);
            interval(value.nanoseconds / 1_000, value.days, value.months, out);
        }
        DataType::Duration(_) => {
            interval(values.as_primitive::<DurationMicrosecondType>().value(row), 0, 0, out);
        }
        DataType::Decimal128(..) => numeric(&values.as_primitive::<Decimal128Type>().value_as_string(row), out),
        DataType::Decimal256(..) => numeric(&values.as_primitive::<Decimal256Type>().value_as_string(row), out),
        DataType::List(_) => match item_of(kind) {
            Some(item) => list(values.as_list::<i32>().value(row).as_ref(), &item, out),
            None => json(values, row, out),
        },
        _ if *kind == Type::JSONB => json(values, row, out),
        _ => text(values, row, out),
    }
}

fn json(values: &dyn Array, row: usize, out: &mut BytesMut) {
    out.put_u8(JSONB_VERSION);
    text(values, row, out);
}

fn interval(us: i64, days: i32, months: i32, out: &mut BytesMut) {
    out.put_i64(us);
    out.put_i32(days);
    out.put_i32(months);
}

/// One dimension, its items numbered from 1.
fn list(items: &dyn Array, item: &Type, out: &mut BytesMut) {
    let length = i32::try_from(items.len()).unwrap_or(i32::MAX);
    out.put_i32(i32::from(!items.is_empty()));
    out.put_i32(i32::from((0..items.len()).any(|at| is_null(items, at))));
    out.put_u32(item.oid());
    if items.is_empty() {
        return;
    }
    out.put_i32(length);
    out.put_i32(1);
    for at in 0..items.len() {
        if is_null(items, at) {
            out.put_i32(-1);
        } else {
            measured(out, false, |out| binary(items, item, at, out));
        }
    }
}

/// Digits of base 10,000, aligned to the point, without zeros before and after: `-12345.678` is 1, 2345, 6780 with weight 1.
fn numeric(decimal: &str, out: &mut BytesMut) {
    let (sign, digits) = match decimal.strip_prefix('-') {
        Some(digits) => (NEGATIVE, digits),
        None => (0, decimal),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut groups = Vec::with_capacity(12);
    let lead = whole.len() % 4;
    let (first, rest) = whole.split_at(lead);
    if lead > 0 {
        groups.push(group(first));
    }
    groups.extend(chunks(rest).map(group));
    let mut weight = i16::try_from(groups.len()).unwrap_or(i16::MAX) - 1;
    groups.extend(chunks(fraction).map(|part| group(part) * 10_u16.pow(4 - part.len() as u32)));
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..zeros);
    weight -= i16::try_from(zeros).unwrap_or(0);
    groups.truncate(groups.iter().rposition(|group| *group != 0).map_or(0, |last| last + 1));
    out.put_i16(i16::try_from(groups.len()).unwrap_or(i16::MAX));
    out.put_i16(if groups.is_empty() { 0 } else { weight });
    out.put_u16(if groups.is_empty() { 0 } else { sign });
    out.put_u16(u16::try_from(fraction.len()).unwrap_or(u16::MAX));
    for group in groups {
        out.put_u16(group);
    }
}

fn group(digits: &str) -> u16 {
    digits.parse().unwrap_or(0)
}

/// Four digits each, the last of what is left.
fn chunks(digits: &str) -> impl Iterator<Item = &str> {
    (0..digits.len()).step_by(4).filter_map(move |at| digits.get(at..(at + 4).min(digits.len())))
}
