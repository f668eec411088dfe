//! The text form, and the two forms of COPY that are made of it.

use std::fmt::Write;

use arrow::{
    array::{Array, AsArray},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Decimal256Type, DurationMicrosecondType, Float32Type, Float64Type,
        Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
    },
};
use bytes::{BufMut, BytesMut};
use jiff::Timestamp;
use serde_json::Value;

use super::is_null;
use crate::encode;

const SECOND_US: i64 = 1_000_000;

/// Writes a value that is not NULL.
pub(in crate::front::postgres) fn text(values: &dyn Array, row: usize, out: &mut BytesMut) {
    match values.data_type() {
        DataType::Boolean => out.put_slice(if values.as_boolean().value(row) { b"t" } else { b"f" }),
        DataType::Int16 => print(out, values.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => print(out, values.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => print(out, values.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => {
            let value = values.as_primitive::<Float32Type>().value(row);
            float(out, f64::from(value), &value, format_args!("{value:e}"));
        }
        DataType::Float64 => {
            let value = values.as_primitive::<Float64Type>().value(row);
            float(out, value, &value, format_args!("{value:e}"));
        }
        DataType::Utf8 => out.put_slice(values.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => out.put_slice(values.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => out.put_slice(values.as_string_view().value(row).as_bytes()),
        DataType::Binary => bytea(values.as_binary::<i32>().value(row), out),
        DataType::Date32 => match values.as_primitive::<Date32Type>().value_as_date(row) {
            Some(date) => print(out, date),
            None => out.put_slice(b"infinity"),
        },
        DataType::Time64(_) => time(values.as_primitive::<Time64MicrosecondType>().value(row), out),
        DataType::Timestamp(_, zone) => {
            instant(values.as_primitive::<TimestampMicrosecondType>().value(row), zone.is_some(), out);
        }
        DataType::Interval(_) => {
            let value = values.as_primitive::<IntervalMonthDayNanoType>().value(row);
            interval(value.months, value.days, value.nanoseconds / 1_000, out);
        }
        DataType::Duration(_) => interval(0, 0, values.as_primitive::<DurationMicrosecondType>().value(row), out),
        DataType::Decimal128(..) => {
            out.put_slice(values.as_primitive::<Decimal128Type>().value_as_string(row).as_bytes())
        }
        DataType::Decimal256(..) => {
            out.put_slice(values.as_primitive::<Decimal256Type>().value_as_string(row).as_bytes())
        }
        DataType::List(item) if !item.data_type().is_nested() => {
            list(values.as_list::<i32>().value(row).as_ref(), out);
        }
        _ => match encode::cell(values, row) {
            Value::String(text) => out.put_slice(text.as_bytes()),
            json => print(out, json),
        },
    }
}

fn print(out: &mut BytesMut, value: impl std::fmt::Display) {
    // Memory does not refuse.
    let _ = write!(out, "{value}");
}

/// As PostgreSQL prints floats: the fewest digits that are read back the same, with an exponent where it is far from 1.
fn float(out: &mut BytesMut, value: f64, plain: &dyn std::fmt::Display, scientific: std::fmt::Arguments<'_>) {
    if value.is_nan() {
        return out.put_slice(b"NaN");
    }
    if value.is_infinite() {
        return out.put_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
    }
    if value != 0.0 && !(1e-5..1e15).contains(&value.abs()) {
        let text = scientific.to_string();
        return match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => print(out, format_args!("{digits}e+{exponent}")),
            _ => print(out, text),
        };
    }
    print(out, plain);
}

fn bytea(bytes: &[u8], out: &mut BytesMut) {
    out.put_slice(b"\\x");
    for byte in bytes {
        print(out, format_args!("{byte:02x}"));
    }
}

fn instant(us: i64, has_zone: bool, out: &mut BytesMut) {
    let Ok(instant) = Timestamp::from_microsecond(us) else {
        return out.put_slice(if us < 0 { b"-infinity" } else { b"infinity" });
    };
    let whole = instant.strftime("%Y-%m-%d %H:%M:%S");
    print(out, whole);
    fraction(us.rem_euclid(SECOND_US), out);
    if has_zone {
        out.put_slice(b"+00");
    }
}

/// Microseconds after the point, without zeros at the end.
fn fraction(us: i64, out: &mut BytesMut) {
    if us != 0 {
        let digits = format!("{us:06}");
        print(out, format_args!(".{}", digits.trim_end_matches('0')));
    }
}

fn time(us: i64, out: &mut BytesMut) {
    let seconds = us / SECOND_US;
    print(out, format_args!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60));
    fraction(us % SECOND_US, out);
}

fn interval(months: i32, days: i32, us: i64, out: &mut BytesMut) {
    let mut blank = "";
    let (years, months) = (months / 12, months % 12);
    for (number, one, many) in [(years, "year", "years"), (months, "mon", "mons"), (days, "day", "days")] {
        if number != 0 {
            print(out, format_args!("{blank}{number} {}", if number == 1 { one } else { many }));
            blank = " ";
        }
    }
    if us != 0 || blank.is_empty() {
        print(out, format_args!("{blank}{}", if us < 0 { "-" } else { "" }));
        time(us.saturating_abs(), out);
    }
}

/// `{1,2,NULL,"a, b"}`.
fn list(items: &dyn Array, out: &mut BytesMut) {
    out.put_u8(b'{');
    let mut item = BytesMut::new();
    for at in 0..items.len() {
        if at > 0 {
            out.put_u8(b',');
        }
        if is_null(items, at) {
            out.put_slice(b"NULL");
            continue;
        }
        item.clear();
        text(items, at, &mut item);
        quoted(&item, out);
    }
    out.put_u8(b'}');
}

fn quoted(item: &[u8], out: &mut BytesMut) {
    let is_special = |byte: &u8| b"{},\"\\".contains(byte) || byte.is_ascii_whitespace();
    if !item.is_empty() && !item.eq_ignore_ascii_case(b"null") && !item.iter().any(is_special) {
        return out.put_slice(item);
    }
    out.put_u8(b'"');
    for byte in item {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

/// A field of COPY's text form, where tabs and line ends would be taken for those between fields.
pub(in crate::front::postgres) fn escaped(field: &[u8], out: &mut BytesMut) {
    for byte in field {
        match byte {
            b'\\' => out.put_slice(b"\\\\"),
            b'\t' => out.put_slice(b"\\t"),
            b'\n' => out.put_slice(b"\\n"),
            b'\r' => out.put_slice(b"\\r"),
            other => out.put_u8(*other),
        }
    }
}

/// A field of CSV; an empty one is quoted, since NULL is written as nothing.
pub(in crate::front::postgres) fn csv(field: &[u8], out: &mut BytesMut) {
    if !field.is_empty() && !field.iter().any(|byte| b",\"\n\r".contains(byte)) {
        return out.put_slice(field);
    }
    out.put_u8(b'"');
    for byte in field {
        if *byte == b'"' {
            out.put_u8(b'"');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}
