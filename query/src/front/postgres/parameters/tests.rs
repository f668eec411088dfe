use bytes::Bytes;
use pgwire::api::Type;
use serde_json::{Value, json};

use super::{Given, Placeholders, numeric, value};
use crate::front::postgres::frontend::{Bind, Format, Formats};

fn bind(parameters: &[Option<&'static [u8]>], formats: Formats) -> Bind {
    Bind {
        portal: String::new(),
        statement: String::new(),
        formats,
        parameters: parameters.iter().map(|value| value.map(Bytes::from_static)).collect(),
        results: Formats::text(),
    }
}

fn decoded(kind: Type, format: Format, bytes: &'static [u8]) -> Result<Value, &'static str> {
    match value(Some(&kind), format, Bytes::from_static(bytes)) {
        Ok(Given::One(value)) => Ok(value),
        Ok(Given::Many(items)) => Ok(Value::Array(items)),
        Err(refusal) => Err(refusal.code()),
    }
}

#[test]
fn placeholders_get_their_types() {
    let found = Placeholders::of("SELECT '$1', $2 -- $3\n, \"$4\" FROM ö WHERE a > $1 AND b = ANY($2)").expect("SQL");
    assert_eq!(found.count(), 2);
    let kinds = [Some(Type::TIMESTAMPTZ), Some(Type::TEXT_ARRAY)];
    let typed = "SELECT '$1', ARRAY[CAST($2_1 AS VARCHAR)] -- $3\n, \"$4\" FROM ö \
                 WHERE a > CAST($1 AS TIMESTAMP(6) WITH TIME ZONE) AND b = ANY(ARRAY[CAST($2_1 AS VARCHAR)])";
    assert_eq!(found.typed(&kinds), typed);
    assert_eq!(found.typed(&[]), found.sql);
    assert_eq!(Placeholders::of("SELECT 1").expect("SQL").count(), 0);
    for wrong in ["SELECT $0", "SELECT $x", "SELECT $99999"] {
        assert_eq!(Placeholders::of(wrong).err().map(|refusal| refusal.code()), Some("42P02"), "{wrong}");
    }
}

#[test]
fn values_are_bound() {
    let found = Placeholders::of("SELECT $1, $2, $3").expect("SQL");
    let kinds = [Some(Type::NUMERIC), Some(Type::INT4_ARRAY), None];
    let bound = found.bound(&kinds, &bind(&[Some(b"0.0375"), Some(b"{1,NULL}"), Some(b"x")], Formats::text()));
    let bound = bound.expect("bound");
    assert_eq!(bound.sql, "SELECT CAST($1 AS DECIMAL(38, 4)), ARRAY[CAST($2_1 AS INT), CAST($2_2 AS INT)], $3");
    assert_eq!(json!(bound.params), json!({"1": "0.0375", "2_1": 1, "2_2": null, "3": "x"}));
    let few = found.bound(&kinds, &bind(&[None], Formats::text()));
    assert_eq!(few.err().map(|refusal| refusal.code()), Some("08P01"));
    let empty = Placeholders::of("SELECT $1").expect("SQL");
    let empty = empty.bound(&[Some(Type::TEXT_ARRAY)], &bind(&[Some(b"{}")], Formats::text())).expect("bound");
    assert_eq!(empty.sql, "SELECT ARRAY[]");
}

#[test]
fn values_out_of_bytes() {
    use Format::{Binary, Text};
    for (kind, format, bytes, expected) in [
        (Type::BOOL, Text, &b"t"[..], json!(true)),
        (Type::BOOL, Binary, b"\0", json!(false)),
        (Type::INT8, Text, b"-7", json!(-7)),
        (Type::INT2, Binary, b"\xff\xfe", json!(-2)),
        (Type::FLOAT8, Text, b"NaN", json!("NaN")),
        (Type::FLOAT8, Binary, &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0], json!(1.5)),
        (Type::TEXT, Binary, b"it's", json!("it's")),
        (Type::DATE, Binary, b"\0\0\0\x01", json!("2000-01-02")),
        (Type::TIMESTAMPTZ, Binary, b"\0\0\0\0\0\0\0\x01", json!("2000-01-01T00:00:00.000001Z")),
        (Type::TIMESTAMP, Binary, &[0xff; 8], json!("1999-12-31T23:59:59.999999")),
        (Type::BYTEA, Text, b"\\x00ff", json!("00ff")),
        (Type::BYTEA, Binary, b"\0\xff", json!("00ff")),
        (Type::NUMERIC, Text, b"-1.50", json!("-1.50")),
        (Type::TEXT_ARRAY, Text, br#"{a,"b,\"c",NULL,"NULL",""}"#, json!(["a", "b,\"c", null, "NULL", ""])),
        (
            Type::INT4_ARRAY,
            Binary,
            b"\0\0\0\x01\0\0\0\x01\0\0\0\x17\0\0\0\x02\0\0\0\x01\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff",
            json!([7, null]),
        ),
    ] {
        assert_eq!(decoded(kind.clone(), format, bytes), Ok(expected), "{kind} {format:?}");
    }
}

#[test]
fn bytes_that_are_no_value_are_refused() {
    use Format::{Binary, Text};
    for (kind, format, bytes, code) in [
        (Type::INT4, Text, &b"1; DROP TABLE t"[..], "22P02"),
        (Type::INT4, Binary, b"\0", "22P03"),
        (Type::NUMERIC, Text, b"1e400", "22P02"),
        (Type::NUMERIC, Text, b".", "22P02"),
        (Type::NUMERIC, Binary, b"\xff\xff\0\0\0\0\0\0", "22P03"),
        (Type::TIMESTAMP, Binary, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "22P03"),
        (Type::TIME, Binary, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "22P03"),
        (Type::TEXT, Text, b"\xff", "22021"),
        (Type::TEXT_ARRAY, Text, b"{{a},{b}}", "22P02"),
        (Type::TEXT_ARRAY, Text, b"{\"a", "22P02"),
        (Type::TEXT_ARRAY, Text, b"{a,}", "22P02"),
        (Type::INT4_ARRAY, Binary, b"\0\0\0\x01\0\0\0\0\0\0\0\x17\x7f\xff\xff\xff\0\0\0\x01", "22P03"),
    ] {
        assert_eq!(decoded(kind.clone(), format, bytes), Err(code), "{kind} {bytes:?}");
    }
}

#[test]
fn numerics_out_of_groups() {
    let of = |words: &[u16]| numeric(words.iter().flat_map(|word| word.to_be_bytes()).collect());
    assert_eq!(of(&[0, 0, 0, 0]).as_deref(), Some("0"));
    assert_eq!(of(&[3, 1, 0x4000, 3, 1, 2345, 6780]).as_deref(), Some("-12345.678"));
    assert_eq!(of(&[1, 0xffff, 0, 12, 375]).as_deref(), Some("0.037500000000"));
    assert_eq!(of(&[1, 1, 0, 0, 1]).as_deref(), Some("10000"));
    assert_eq!(of(&[1, 0, 0xc000, 0, 1]), None, "NaN is no decimal");
}
