//! OTLP/JSON into the protobuf encoding, in one pass and without a tree in memory.
//!
//! Lenient where senders differ: ids in hex of either case or base64, whole numbers as numbers or text, `null` as absent,
//! unknown fields ignored. An id that is neither is passed on as sent, so that its own item is rejected and no other.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::schema::{Field, Kind, Message};
use super::wire::{put_bytes, put_tag, put_varint};

/// Encodes a JSON body as that message.
pub fn encode(message: &'static Message, json: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(json.len() / 2);
    let mut reader = serde_json::Deserializer::from_slice(json);
    Object { message, out: &mut out }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(out)
}

/// Reads a JSON object as the fields of a message.
struct Object<'o> {
    message: &'static Message,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            match self.message.named(&key) {
                Some(field) if matches!(field.kind, Kind::Double) && !field.repeated => {
                    double(map.next_value()?, field, self.out)?;
                }
                Some(field) => map.next_value_seed(Member { field, out: &mut *self.out })?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Reads one JSON value as one field.
struct Member<'o> {
    field: &'static Field,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.field.kind {
            Kind::Text => "text",
            Kind::Bytes => "base64",
            Kind::Id => "an id in hex",
            Kind::Bool => "true or false",
            Kind::Double => "a number",
            Kind::Message(_) => "an object",
            _ => "a whole number",
        };
        write!(out, "{what} for {}", self.field.json)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let Kind::Message(message) = self.field.kind else {
            return Err(A::Error::custom(format_args!("{} is an object", self.field.json)));
        };
        let mut nested = Vec::new();
        Object { message, out: &mut nested }.visit_map(map)?;
        put_bytes(self.field.number, &nested, self.out);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if !self.field.repeated {
            return Err(A::Error::custom(format_args!("{} is an array", self.field.json)));
        }
        if matches!(self.field.kind, Kind::Double) {
            while let Some(number) = seq.next_element()? {
                double(number, self.field, self.out)?;
            }
            return Ok(());
        }
        while seq.next_element_seed(Member { field: self.field, out: &mut *self.out })?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        match self.field.kind {
            Kind::Bool => self.varint(u64::from(value)),
            _ => return Err(E::custom(format_args!("{} is true or false", self.field.json))),
        }
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.integer(i128::from(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.integer(i128::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        if value.fract() == 0.0 && value.abs() < 1e19 {
            return self.integer(value as i128);
        }
        Err(E::custom(format_args!("{} is not a whole number", self.field.json)))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        match self.field.kind {
            Kind::Text => put_bytes(self.field.number, value.as_bytes(), self.out),
            Kind::Id => put_bytes(self.field.number, &id(value), self.out),
            Kind::Bytes => {
                let bytes =
                    base64(value).ok_or_else(|| E::custom(format_args!("{} is not base64", self.field.json)))?;
                put_bytes(self.field.number, &bytes, self.out);
            }
            Kind::Bool => match value {
                "true" => self.varint(1),
                "false" => self.varint(0),
                _ => return Err(E::custom(format_args!("{} is not true or false", self.field.json))),
            },
            Kind::Message(_) => return Err(E::custom(format_args!("{} is text", self.field.json))),
            _ => {
                let number: i128 =
                    value.parse().map_err(|_| E::custom(format_args!("{} is not a whole number", self.field.json)))?;
                return self.integer(number);
            }
        }
        Ok(())
    }
}

/// Reads a number to the last bit, which serde_json does not; text spells what JSON numbers cannot.
fn double<E: serde::de::Error>(json: &RawValue, field: &Field, out: &mut Vec<u8>) -> Result<(), E> {
    let text = json.get().trim_matches('"');
    if text == "null" {
        return Ok(());
    }
    let number: f64 = text.parse().map_err(|_| E::custom(format_args!("{} is not a number", field.json)))?;
    put_tag(field.number, 1, out);
    out.extend_from_slice(&number.to_bits().to_le_bytes());
    Ok(())
}

impl Member<'_> {
    fn integer<E: serde::de::Error>(self, value: i128) -> Result<(), E> {
        let range = || E::custom(format_args!("{} is out of range", self.field.json));
        match self.field.kind {
            Kind::Uint64 => self.varint(u64::try_from(value).map_err(|_| range())?),
            Kind::Fixed64 => self.fixed64(u64::try_from(value).map_err(|_| range())?),
            Kind::Int64 => self.varint(i64::try_from(value).map_err(|_| range())? as u64),
            Kind::Sfixed64 => self.fixed64(i64::try_from(value).map_err(|_| range())? as u64),
            Kind::Int32 => self.varint(i64::from(i32::try_from(value).map_err(|_| range())?) as u64),
            Kind::Uint32 => self.varint(u64::from(u32::try_from(value).map_err(|_| range())?)),
            Kind::Sint32 => {
                let number = i64::from(i32::try_from(value).map_err(|_| range())?);
                self.varint(((number << 1) ^ (number >> 63)) as u64);
            }
            Kind::Fixed32 => {
                let number = u32::try_from(value).map_err(|_| range())?;
                put_tag(self.field.number, 5, self.out);
                self.out.extend_from_slice(&number.to_le_bytes());
            }
            Kind::Bool => self.varint(u64::from(value != 0)),
            Kind::Text | Kind::Bytes | Kind::Id | Kind::Double | Kind::Message(_) => {
                return Err(E::custom(format_args!("{} is a number", self.field.json)));
            }
        }
        Ok(())
    }

    fn varint(self, value: u64) {
        put_tag(self.field.number, 0, self.out);
        put_varint(value, self.out);
    }

    fn fixed64(self, bits: u64) {
        put_tag(self.field.number, 1, self.out);
        self.out.extend_from_slice(&bits.to_le_bytes());
    }
}

/// An id from hex, or from base64 as strict proto3 JSON has it; else the text, which no id is.
fn id(text: &str) -> Vec<u8> {
    if let Ok(bytes) = hex::decode(text) {
        return bytes;
    }
    match text.len() {
        11 | 12 | 22 | 24 => base64(text).unwrap_or_else(|| text.as_bytes().to_vec()),
        _ => text.as_bytes().to_vec(),
    }
}

fn base64(text: &str) -> Option<Vec<u8>> {
    [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD].into_iter().find_map(|engine| engine.decode(text).ok())
}
