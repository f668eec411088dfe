//! Parameters: `$1` with a type of its own, and its value out of a client's bytes.
//!
//! A value goes to the engine as JSON has it, and the statement says what it is: `$1` of type timestamptz becomes
//! `CAST($1 AS TIMESTAMP(6) WITH TIME ZONE)`. An array becomes as many parameters as it has items, `ARRAY[CAST($1_1 AS …), …]`.

use std::collections::BTreeMap;

use bytes::{Buf, Bytes};
use datafusion::sql::sqlparser::tokenizer::Token;
use jiff::{Timestamp, civil};
use pgwire::api::Type;
use serde_json::Value;

use super::{
    frontend::{Bind, Format},
    refusal::Refusal,
    statement::{offsets, tokens},
};
use crate::encode::postgres::item_of;

/// Most parameters of a statement, counted with the items of arrays.
const PARAMETERS_MAX: usize = 4_096;
/// Days from 1970-01-01 to PostgreSQL's epoch, 2000-01-01.
const EPOCH_DAYS: i64 = 10_957;
const DAY_US: i64 = 86_400_000_000;

/// A question with placeholders.
#[derive(Debug)]
pub(super) struct Placeholders {
    sql: String,
    /// Where each stands in the text, its number and its length.
    found: Vec<(usize, usize, usize)>,
}

/// A question whose placeholders have types and values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bound {
    pub(super) sql: String,
    pub(super) params: BTreeMap<String, Value>,
}

impl Placeholders {
    /// Those of a text.
    ///
    /// # Errors
    /// `42601` where the text is not SQL, `42P02` for a placeholder that is not `$1`, `$2`, ….
    pub(super) fn of(sql: &str) -> Result<Placeholders, Refusal> {
        let tokens = tokens(sql)?;
        let is_placeholder = |token: &Token| matches!(token, Token::Placeholder(_));
        let places = offsets(sql, &tokens, is_placeholder);
        let texts = tokens.iter().filter_map(|token| match &token.token {
            Token::Placeholder(text) => Some(text),
            _ => None,
        });
        let found = places.into_iter().zip(texts).map(|(at, text)| {
            let number = text.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
            let number = number.filter(|number| (1..=PARAMETERS_MAX).contains(number));
            let number = number.ok_or_else(|| Refusal::error("42P02", format!("there is no parameter {text}")))?;
            Ok((at, number, text.len()))
        });
        Ok(Placeholders { found: found.collect::<Result<_, Refusal>>()?, sql: sql.to_owned() })
    }

    /// How many parameters there are.
    pub(super) fn count(&self) -> usize {
        self.found.iter().map(|(_, number, _)| *number).max().unwrap_or(0)
    }

    /// The text with the types that are known, for a description: an array stands for one of a single item.
    pub(super) fn typed(&self, kinds: &[Option<Type>]) -> String {
        self.written(|number| match kinds.get(number - 1).and_then(Option::as_ref) {
            Some(kind) => match item_of(kind) {
                Some(item) => format!("ARRAY[{}]", cast(&format!("${number}_1"), &item, None)),
                None => cast(&format!("${number}"), kind, None),
            },
            None => format!("${number}"),
        })
    }

    /// The text and the values of a Bind.
    ///
    /// # Errors
    /// `08P01` for too many or too few, `22P02` or `22P03` for bytes that are no value of the type.
    pub(super) fn bound(&self, kinds: &[Option<Type>], bind: &Bind) -> Result<Bound, Refusal> {
        let given = bind.parameters.len();
        if given != self.count() {
            let message = format!("the statement has {} parameters, and {given} are given", self.count());
            return Err(Refusal::error("08P01", message));
        }
        bind.formats.check(given)?;
        let values = bind.parameters.iter().enumerate().map(|(index, bytes)| {
            let Some(bytes) = bytes else { return Ok(Given::One(Value::Null)) };
            value(kinds.get(index).and_then(Option::as_ref), bind.formats.of(index), bytes.clone())
        });
        let values = values.collect::<Result<Vec<_>, Refusal>>()?;
        let mut params = BTreeMap::new();
        for (index, value) in values.iter().enumerate() {
            match value {
                Given::One(value) => drop(params.insert(format!("{}", index + 1), value.clone())),
                Given::Many(items) => params.extend(
                    items.iter().enumerate().map(|(at, item)| (format!("{}_{}", index + 1, at + 1), item.clone())),
                ),
            }
        }
        if params.len() > PARAMETERS_MAX {
            return Err(Refusal::error("54000", format!("more than {PARAMETERS_MAX} parameters and items of arrays")));
        }
        let sql = self.written(|number| {
            let kind = kinds.get(number - 1).and_then(Option::as_ref);
            written(number, kind, values.get(number - 1))
        });
        Ok(Bound { sql, params })
    }

    fn written(&self, write: impl Fn(usize) -> String) -> String {
        let mut text = String::with_capacity(self.sql.len());
        let mut from = 0;
        for (at, number, length) in &self.found {
            text.push_str(self.sql.get(from..*at).unwrap_or_default());
            text.push_str(&write(*number));
            from = at + length;
        }
        text.push_str(self.sql.get(from..).unwrap_or_default());
        text
    }
}

/// A parameter's value, or those of an array.
enum Given {
    One(Value),
    Many(Vec<Value>),
}

fn written(number: usize, kind: Option<&Type>, value: Option<&Given>) -> String {
    match (kind, value) {
        (Some(kind), Some(Given::Many(items))) => {
            let item = item_of(kind).unwrap_or(Type::TEXT);
            let items = items.iter().enumerate();
            let items = items.map(|(at, value)| cast(&format!("${number}_{}", at + 1), &item, Some(value)));
            format!("ARRAY[{}]", items.collect::<Vec<_>>().join(", "))
        }
        (Some(kind), Some(Given::One(value))) => cast(&format!("${number}"), kind, Some(value)),
        _ => format!("${number}"),
    }
}

/// The placeholder as a value of the type.
fn cast(placeholder: &str, kind: &Type, value: Option<&Value>) -> String {
    let name = match *kind {
        Type::BOOL => "BOOLEAN",
        Type::INT2 => "SMALLINT",
        Type::INT4 => "INT",
        Type::INT8 | Type::OID => "BIGINT",
        Type::FLOAT4 => "REAL",
        Type::FLOAT8 => "DOUBLE",
        Type::NUMERIC => return format!("CAST({placeholder} AS DECIMAL(38, {}))", scale(value)),
        Type::DATE => "DATE",
        Type::TIME => "TIME",
        Type::TIMESTAMP => "TIMESTAMP(6)",
        Type::TIMESTAMPTZ => "TIMESTAMP(6) WITH TIME ZONE",
        Type::INTERVAL => "INTERVAL",
        Type::BYTEA => return format!("decode({placeholder}, 'hex')"),
        _ => "VARCHAR",
    };
    format!("CAST({placeholder} AS {name})")
}

/// Digits after the point, as many as the value has; those of our own money where there is none yet.
fn scale(value: Option<&Value>) -> usize {
    const MONEY: usize = 12;
    match value {
        Some(Value::String(digits)) => digits.split_once('.').map_or(0, |(_, fraction)| fraction.len().min(38)),
        _ => MONEY,
    }
}

fn value(kind: Option<&Type>, format: Format, bytes: Bytes) -> Result<Given, Refusal> {
    let Some(kind) = kind else { return Ok(Given::One(Value::String(utf8(&bytes)?))) };
    match (item_of(kind), format) {
        (Some(item), Format::Text) => items(&utf8(&bytes)?)?
            .into_iter()
            .map(|text| text.map_or(Ok(Value::Null), |text| from_text(&item, text)))
            .collect::<Result<_, _>>()
            .map(Given::Many),
        (Some(item), Format::Binary) => array(&item, bytes).map(Given::Many),
        (None, Format::Text) => from_text(kind, utf8(&bytes)?).map(Given::One),
        (None, Format::Binary) => from_binary(kind, bytes).map(Given::One),
    }
}

fn utf8(bytes: &[u8]) -> Result<String, Refusal> {
    let text = std::str::from_utf8(bytes).map_err(|_| Refusal::error("22021", "a parameter is not UTF-8"))?;
    Ok(text.to_owned())
}

fn from_text(kind: &Type, text: String) -> Result<Value, Refusal> {
    let refused = || Refusal::error("22P02", format!("invalid input for type {}: \"{text}\"", kind.name()));
    Ok(match *kind {
        Type::BOOL => match text.to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => Value::Bool(true),
            "f" | "false" | "n" | "no" | "off" | "0" => Value::Bool(false),
            _ => return Err(refused()),
        },
        Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => text.parse::<i64>().map_err(|_| refused())?.into(),
        Type::FLOAT4 | Type::FLOAT8 => float(text.parse().map_err(|_| refused())?),
        Type::NUMERIC if !is_decimal(&text) => return Err(refused()),
        Type::BYTEA => text.strip_prefix("\\x").map(str::to_owned).ok_or_else(refused)?.into(),
        _ => text.into(),
    })
}

/// Digits with at most one point, no exponent.
fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    digits.len() > usize::from(digits.contains('.')) && all(whole) && all(fraction)
}

/// JSON knows no infinities; as texts they are cast like the rest.
fn float(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or_else(|| Value::String(value.to_string()), Value::Number)
}

fn from_binary(kind: &Type, mut bytes: Bytes) -> Result<Value, Refusal> {
    let length = bytes.len();
    let wrong = || Refusal::error("22P03", format!("{length} bytes are no value of type {}", kind.name()));
    let sized = |wanted: usize| if length == wanted { Ok(()) } else { Err(wrong()) };
    Ok(match *kind {
        Type::BOOL => sized(1).map(|()| Value::Bool(bytes.get_u8() != 0))?,
        Type::INT2 => sized(2).map(|()| bytes.get_i16().into())?,
        Type::INT4 => sized(4).map(|()| bytes.get_i32().into())?,
        Type::OID => sized(4).map(|()| bytes.get_u32().into())?,
        Type::INT8 => sized(8).map(|()| bytes.get_i64().into())?,
        Type::FLOAT4 => sized(4).map(|()| float(bytes.get_f32().into()))?,
        Type::FLOAT8 => sized(8).map(|()| float(bytes.get_f64()))?,
        Type::DATE => {
            sized(4)?;
            let days = i64::from(bytes.get_i32()) + EPOCH_DAYS;
            instant(days.checked_mul(DAY_US), "%Y-%m-%d").ok_or_else(wrong)?
        }
        Type::TIMESTAMP | Type::TIMESTAMPTZ => {
            sized(8)?;
            let us = bytes.get_i64().checked_add(EPOCH_DAYS * DAY_US);
            let form = if *kind == Type::TIMESTAMP { "%Y-%m-%dT%H:%M:%S.%6f" } else { "%Y-%m-%dT%H:%M:%S.%6fZ" };
            instant(us, form).ok_or_else(wrong)?
        }
        Type::TIME => {
            sized(8)?;
            let midnight = civil::Time::midnight();
            let time = midnight.checked_add(jiff::SignedDuration::from_micros(bytes.get_i64())).map_err(|_| wrong())?;
            time.strftime("%H:%M:%S.%6f").to_string().into()
        }
        Type::NUMERIC => numeric(bytes).ok_or_else(wrong)?.into(),
        Type::BYTEA => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        Type::JSONB => utf8(bytes.get(1..).unwrap_or_default())?.into(),
        Type::INTERVAL => {
            sized(16)?;
            let (us, days, months) = (bytes.get_i64(), bytes.get_i32(), bytes.get_i32());
            format!("{months} months {days} days {us} microseconds").into()
        }
        _ => utf8(&bytes)?.into(),
    })
}

fn instant(us: Option<i64>, form: &str) -> Option<Value> {
    let instant = Timestamp::from_microsecond(us?).ok()?;
    Some(instant.strftime(form).to_string().into())
}

/// A numeric's groups of four digits as a decimal; `None` if they are none.
fn numeric(mut bytes: Bytes) -> Option<String> {
    const NEGATIVE: u16 = 0x4000;
    if bytes.len() < 8 {
        return None;
    }
    let (count, weight) = (usize::from(bytes.get_u16()), i32::from(bytes.get_i16()));
    let (sign, scale) = (bytes.get_u16(), usize::from(bytes.get_u16()));
    if bytes.len() != count * 2 || count > 40 || scale > 76 || !(-20..=20).contains(&weight) || sign & !NEGATIVE != 0 {
        return None;
    }
    let groups: Vec<u16> = (0..count).map(|_| bytes.get_u16()).collect();
    if groups.iter().any(|group| *group > 9_999) {
        return None;
    }
    let group = |at: i32| usize::try_from(at).ok().and_then(|at| groups.get(at)).copied().unwrap_or(0);
    let whole: String = (0..=weight).map(|at| format!("{:04}", group(at))).collect();
    let places = i32::try_from(scale.div_ceil(4)).unwrap_or(0);
    let fraction: String = (0..places).map(|at| format!("{:04}", group(weight + 1 + at))).collect();
    let whole = Some(whole.trim_start_matches('0')).filter(|digits| !digits.is_empty()).unwrap_or("0");
    let fraction = fraction.get(..scale)?;
    let point = if scale == 0 { "" } else { "." };
    Some(format!("{}{whole}{point}{fraction}", if sign == NEGATIVE { "-" } else { "" }))
}

/// The items of a one-dimensional array in binary.
fn array(item: &Type, mut bytes: Bytes) -> Result<Vec<Value>, Refusal> {
    let wrong = || Refusal::error("22P03", "the bytes are no array of one dimension");
    if bytes.len() < 12 {
        return Err(wrong());
    }
    let (dimensions, _nulls, oid) = (bytes.get_i32(), bytes.get_i32(), bytes.get_u32());
    if dimensions == 0 {
        return Ok(Vec::new());
    }
    if dimensions != 1 || bytes.len() < 8 {
        return Err(wrong());
    }
    let item = if oid == item.oid() { item.clone() } else { Type::from_oid(oid).unwrap_or_else(|| item.clone()) };
    let (count, _lower) = (bytes.get_i32(), bytes.get_i32());
    let count = usize::try_from(count).ok().filter(|count| *count <= PARAMETERS_MAX).ok_or_else(wrong)?;
    (0..count)
        .map(|_| {
            if bytes.len() < 4 {
                return Err(wrong());
            }
            match bytes.get_i32() {
                -1 => Ok(Value::Null),
                length => match usize::try_from(length).ok().filter(|length| *length <= bytes.len()) {
                    Some(length) => from_binary(&item, bytes.split_to(length)),
                    None => Err(wrong()),
                },
            }
        })
        .collect()
}

/// The items of a one-dimensional array in text, `{a,NULL,"b,c"}`.
fn items(text: &str) -> Result<Vec<Option<String>>, Refusal> {
    let wrong = || Refusal::error("22P02", format!("\"{text}\" is no array of one dimension"));
    let inner = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or_else(wrong)?;
    let mut items = Vec::new();
    let mut characters = inner.chars().peekable();
    while characters.peek().is_some() {
        let (mut item, mut quoted, mut inside) = (String::new(), false, false);
        loop {
            match characters.next() {
                Some('"') => (quoted, inside) = (true, !inside),
                Some('\\') => item.extend(characters.next()),
                Some(',') if !inside => {
                    // What follows a comma is an item, even if it is nothing.
                    if characters.peek().is_none() {
                        return Err(wrong());
                    }
                    break;
                }
                Some('{' | '}') if !inside => return Err(wrong()),
                Some(character) => item.push(character),
                None if inside => return Err(wrong()),
                None => break,
            }
        }
        let is_null = !quoted && item.trim().eq_ignore_ascii_case("null");
        items.push((!is_null).then(|| if quoted { item } else { item.trim().to_owned() }));
    }
    Ok(items)
}

#[cfg(test)]
mod tests;
