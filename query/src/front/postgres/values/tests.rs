use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int32Array,
        Int64Array, IntervalMonthDayNanoArray, ListArray, MapBuilder, NullArray, RecordBatch, StringArray,
        StringBuilder, StringViewArray, TimestampMicrosecondArray, TimestampNanosecondArray, UInt64Array,
    },
    datatypes::{Int32Type, IntervalMonthDayNano},
};
use bytes::BytesMut;

use super::{csv, escaped, fields};
use crate::front::postgres::{
    frontend::Formats,
    types::{columns, plain_batch},
};

/// The one value of the column, as its type's name and its bytes; `None` for NULL.
fn written(array: ArrayRef, formats: &Formats) -> (String, Option<Vec<u8>>) {
    let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).expect("a batch");
    let columns = columns(&batch.schema(), formats).expect("columns");
    let values = plain_batch(&batch, &columns).expect("plain");
    let mut out = BytesMut::new();
    fields(&columns, &values, 0, &mut out);
    assert_eq!(&out[..2], [0, 1]);
    let length = i32::from_be_bytes(out[2..6].try_into().expect("a length"));
    let value = usize::try_from(length).ok().map(|length| {
        assert_eq!(out.len(), 6 + length);
        out[6..].to_vec()
    });
    (columns[0].kind.name().to_owned(), value)
}

fn text(array: impl Into<ArrayRef>) -> (String, String) {
    let (kind, value) = written(array.into(), &Formats::text());
    (kind, String::from_utf8(value.expect("a value")).expect("UTF-8"))
}

fn binary(array: ArrayRef) -> Vec<u8> {
    written(array, &Formats::binary()).1.expect("a value")
}

fn map() -> ArrayRef {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    builder.keys().append_value("k");
    builder.values().append_value("v\"");
    builder.append(true).expect("a map");
    Arc::new(builder.finish())
}

fn decimal(value: i128, scale: i8) -> ArrayRef {
    Arc::new(Decimal128Array::from(vec![value]).with_precision_and_scale(38, scale).expect("a scale"))
}

#[test]
fn values_as_text() {
    let noon = 1_767_268_800_000_000;
    let utc = |us: i64| Arc::new(TimestampMicrosecondArray::from(vec![us]).with_timezone("UTC")) as ArrayRef;
    let cases: Vec<(ArrayRef, &str, &str)> = vec![
        (Arc::new(BooleanArray::from(vec![true])), "bool", "t"),
        (Arc::new(Int64Array::from(vec![i64::MIN])), "int8", "-9223372036854775808"),
        (Arc::new(UInt64Array::from(vec![u64::MAX])), "numeric", "18446744073709551615"),
        (Arc::new(Float64Array::from(vec![0.1])), "float8", "0.1"),
        (Arc::new(Float64Array::from(vec![1e300])), "float8", "1e+300"),
        (Arc::new(Float64Array::from(vec![2.5e-7])), "float8", "2.5e-7"),
        (Arc::new(Float64Array::from(vec![f64::NEG_INFINITY])), "float8", "-Infinity"),
        (utc(noon), "timestamptz", "2026-01-01 12:00:00+00"),
        (utc(noon + 120), "timestamptz", "2026-01-01 12:00:00.00012+00"),
        (utc(-1), "timestamptz", "1969-12-31 23:59:59.999999+00"),
        (Arc::new(TimestampNanosecondArray::from(vec![1_500])), "timestamp", "1970-01-01 00:00:00.000001"),
        (Arc::new(Date32Array::from(vec![20_454])), "date", "2026-01-01"),
        (decimal(37_500_000_000, 12), "numeric", "0.037500000000"),
        (Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..]])), "bytea", "\\x00ff"),
        (Arc::new(StringViewArray::from(vec!["ä"])), "text", "ä"),
        (map(), "jsonb", r#"{"k":"v\""}"#),
    ];
    for (array, kind, expected) in cases {
        assert_eq!(text(array), (kind.to_owned(), expected.to_owned()));
    }
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), None, Some(3)])]);
    assert_eq!(text(Arc::new(lists) as ArrayRef), ("_int4".to_owned(), "{1,NULL,3}".to_owned()));
    let words: DictionaryArray<Int32Type> = ["a"].into_iter().collect();
    assert_eq!(text(Arc::new(words) as ArrayRef).0, "text");
    assert_eq!(written(Arc::new(NullArray::new(1)), &Formats::text()).1, None);
    assert_eq!(written(Arc::new(Int32Array::from(vec![None])), &Formats::binary()).1, None);
}

#[test]
fn intervals_as_postgresql_prints_them() {
    let printed = |months, days, nanoseconds| {
        let value = IntervalMonthDayNano::new(months, days, nanoseconds);
        text(Arc::new(IntervalMonthDayNanoArray::from(vec![value])) as ArrayRef).1
    };
    assert_eq!(printed(14, 1, 3_723_500_000_000), "1 year 2 mons 1 day 01:02:03.5");
    assert_eq!(printed(0, -3, -1_000_000_000), "-3 days -00:00:01");
    assert_eq!(printed(0, 0, 0), "00:00:00");
}

#[test]
fn values_as_bytes() {
    let noon = Arc::new(TimestampMicrosecondArray::from(vec![946_684_800_000_001]).with_timezone("UTC"));
    assert_eq!(binary(noon), 1_i64.to_be_bytes(), "times count from 2000 on");
    assert_eq!(binary(Arc::new(Date32Array::from(vec![10_956]))), (-1_i32).to_be_bytes());
    assert_eq!(binary(Arc::new(Float64Array::from(vec![1.5]))), 1.5_f64.to_be_bytes());
    assert_eq!(binary(Arc::new(StringArray::from(vec!["x"]))), b"x");
    assert_eq!(binary(map()), b"\x01{\"k\":\"v\\\"\"}");
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(7), None])]);
    let head = [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1];
    assert_eq!(binary(Arc::new(list)), [&head[..], &[0, 0, 0, 4, 0, 0, 0, 7, 255, 255, 255, 255]].concat());
    let empty = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([])]);
    assert_eq!(binary(Arc::new(empty)), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23]);
}

/// Numerics as PostgreSQL's `numeric_send` has them: digits, weight, sign, scale, then groups of four.
#[test]
fn numerics_as_bytes() {
    let groups = |array: ArrayRef| -> Vec<u16> {
        binary(array).chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect()
    };
    assert_eq!(groups(decimal(0, 12)), [0, 0, 0, 12]);
    assert_eq!(groups(decimal(-12_345_678, 3)), [3, 1, 0x4000, 3, 1, 2345, 6780]);
    assert_eq!(groups(decimal(37_500_000_000, 12)), [1, 0xffff, 0, 12, 375]);
    assert_eq!(groups(decimal(1, 12)), [1, 0xfffd, 0, 12, 1]);
    assert_eq!(groups(decimal(10_000, 0)), [1, 1, 0, 0, 1]);
    assert_eq!(groups(decimal(100_000_000, 4)), [1, 1, 0, 4, 1]);
    assert_eq!(groups(decimal(i128::MAX, 0)).len(), 4 + 10);
}

#[test]
fn fields_of_copies() {
    let made = |write: fn(&[u8], &mut BytesMut), field: &str| {
        let mut out = BytesMut::new();
        write(field.as_bytes(), &mut out);
        String::from_utf8(out.to_vec()).expect("UTF-8")
    };
    assert_eq!(made(escaped, "a\tb\\\n"), "a\\tb\\\\\\n");
    assert_eq!(made(csv, "a,\"b\""), "\"a,\"\"b\"\"\"");
    assert_eq!((made(csv, ""), made(csv, "plain")), ("\"\"".to_owned(), "plain".to_owned()));
}
