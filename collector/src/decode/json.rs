//! OTLP/JSON into the protobuf encoding, in one pass and without a tree in memory.
//!
//! Lenient where senders differ: ids in hex of either case, base64 or arrays of numbers, whole numbers as numbers or text,
//! enumerations as numbers or names, `null` as absent, names in snake case or as Go prints its own structures, unknown fields
//! ignored. An id that is none is passed on as sent, so that its own item is rejected and no other; a body with any other
//! value out of place is read again by [`salvage`], which does the same for that value's item.

mod meter;
mod salvage;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use self::meter::{Meter, Over};
use super::schema::{Field, Kind, Message};
use super::wire::{put_bytes, put_tag, put_varint};

/// Why a body could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// No JSON, or not of that message.
    #[error("the body is not read as OTLP/JSON")]
    Invalid(#[from] serde_json::Error),
    /// More bytes than allowed once it is encoded.
    #[error("the body encodes to more than {0} bytes")]
    TooLarge(usize),
    /// There is no memory to encode into right now.
    #[error("no room to encode the body")]
    NoRoom,
}

/// Encodes a JSON body as that message, in at most `limit` bytes. Memory for as many bytes as the JSON has is taken; `room` is
/// asked for what goes beyond: a number of two characters takes nine bytes.
pub fn encode(
    message: &'static Message,
    json: &[u8],
    limit: usize,
    mut room: impl FnMut(usize) -> bool,
) -> Result<Vec<u8>, JsonError> {
    let mut meter = Meter::new(json.len(), limit, &mut room);
    let mut out = Vec::with_capacity(json.len() / 2);
    let mut reader = serde_json::Deserializer::from_slice(json);
    let mut read = Object { message, out: &mut out, meter: &mut meter }.deserialize(&mut reader);
    read = read.and_then(|()| reader.end());
    if read.is_err() && meter.over.is_none() {
        out.clear();
        meter.again();
        read = salvage::read(message, json, &mut out, &mut meter);
    }
    match (read, meter.over) {
        (Ok(()), _) => Ok(out),
        (Err(_), Some(Over::Limit)) => Err(JsonError::TooLarge(limit)),
        (Err(_), Some(Over::Room)) => Err(JsonError::NoRoom),
        (Err(error), None) => Err(JsonError::Invalid(error)),
    }
}

/// Reads a JSON object as the fields of a message.
struct Object<'o, 'r> {
    message: &'static Message,
    out: &'o mut Vec<u8>,
    meter: &'o mut Meter<'r>,
}

impl<'de> DeserializeSeed<'de> for Object<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Object<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            match Key::of(self.message, &key) {
                Key::Field(field) if matches!(field.kind, Kind::Double) && !field.repeated => {
                    self.meter.count(NUMBER_BYTES)?;
                    double(map.next_value()?, field, self.out)?;
                }
                Key::Field(field) => {
                    map.next_value_seed(Member::of(field, &mut *self.out, &mut *self.meter))?;
                }
                Key::Wrapper => {
                    let (message, out, meter) = (self.message, &mut *self.out, &mut *self.meter);
                    map.next_value_seed(Object { message, out, meter })?;
                }
                Key::Unknown => {
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

/// What a name stands for in an object.
enum Key {
    Field(&'static Field),
    /// What Go puts around the member of a oneof: its value holds further fields of the same message.
    Wrapper,
    Unknown,
}

impl Key {
    fn of(message: &'static Message, name: &str) -> Self {
        match message.named(name).or_else(|| message.nearly_named(name)) {
            Some(field) => Key::Field(field),
            None if matches!(name, "Value" | "Data") && message.has_choice() => Key::Wrapper,
            None if matches!(name, "Sum_" | "Min_" | "Max_") => Key::Wrapper,
            None => Key::Unknown,
        }
    }
}

/// The most that a number takes with its tag.
const NUMBER_BYTES: usize = 12;

/// Reads one JSON value as one field.
struct Member<'o, 'r> {
    field: &'static Field,
    /// Whether it is the whole list of a field that occurs more than once, and not one element.
    list: bool,
    out: &'o mut Vec<u8>,
    meter: &'o mut Meter<'r>,
}

impl<'o, 'r> Member<'o, 'r> {
    /// A field's value, a list if it occurs more than once.
    fn of(field: &'static Field, out: &'o mut Vec<u8>, meter: &'o mut Meter<'r>) -> Self {
        Self { field, list: field.repeated, out, meter }
    }

    /// One of the values of a field that occurs more than once.
    fn element(field: &'static Field, out: &'o mut Vec<u8>, meter: &'o mut Meter<'r>) -> Self {
        Self { field, list: false, out, meter }
    }

    fn not_a_list<E: serde::de::Error>(&self) -> Result<(), E> {
        match self.list {
            true => Err(E::custom(format_args!("{} is no array", self.field.json))),
            false => Ok(()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Member<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Member<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.field.kind {
            Kind::Text => "text",
            Kind::Bytes => "base64",
            Kind::Id(_) => "an id in hex",
            Kind::Bool => "true or false",
            Kind::Double => "a number",
            Kind::Message(_) => "an object",
            _ => "a whole number",
        };
        write!(out, "{what} for {}", self.field.json)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        self.not_a_list()?;
        let Kind::Message(message) = self.field.kind else {
            return Err(A::Error::custom(format_args!("{} is an object", self.field.json)));
        };
        let mut nested = Vec::new();
        Object { message, out: &mut nested, meter: &mut *self.meter }.visit_map(map)?;
        put_bytes(self.field.number, &nested, self.out);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        match self.field.kind {
            Kind::Bytes | Kind::Id(_) if !self.list => {
                let mut bytes = Vec::new();
                while let Some(byte) = seq.next_element::<u8>()? {
                    self.meter.count(1)?;
                    bytes.push(byte);
                }
                put_bytes(self.field.number, &bytes, self.out);
            }
            _ if !self.list => {
                return Err(A::Error::custom(format_args!("{} is an array", self.field.json)));
            }
            Kind::Double => {
                while let Some(number) = seq.next_element()? {
                    self.meter.count(NUMBER_BYTES)?;
                    double(number, self.field, self.out)?;
                }
            }
            _ => {
                let (field, out, meter) = (self.field, self.out, self.meter);
                while seq.next_element_seed(Member::element(field, &mut *out, &mut *meter))?.is_some() {}
            }
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.not_a_list()?;
        match self.field.kind {
            Kind::Bool => self.varint(u64::from(value))?,
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
        self.not_a_list()?;
        self.meter.count(value.len())?;
        match self.field.kind {
            Kind::Text => put_bytes(self.field.number, value.as_bytes(), self.out),
            Kind::Id(length) => put_bytes(self.field.number, &id(value, length), self.out),
            Kind::Bytes => {
                let bytes =
                    base64(value).ok_or_else(|| E::custom(format_args!("{} is not base64", self.field.json)))?;
                put_bytes(self.field.number, &bytes, self.out);
            }
            Kind::Bool => match value {
                "true" => self.varint(1)?,
                "false" => self.varint(0)?,
                _ => return Err(E::custom(format_args!("{} is not true or false", self.field.json))),
            },
            Kind::Message(_) => return Err(E::custom(format_args!("{} is text", self.field.json))),
            Kind::Enum(names) if names.contains(&value) => {
                let number = names.iter().position(|name| *name == value).unwrap_or_default();
                self.varint(number as u64)?;
            }
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

impl Member<'_, '_> {
    fn integer<E: serde::de::Error>(self, value: i128) -> Result<(), E> {
        self.not_a_list()?;
        let range = || E::custom(format_args!("{} is out of range", self.field.json));
        match self.field.kind {
            Kind::Uint64 => self.varint(u64::try_from(value).map_err(|_| range())?),
            Kind::Fixed64 => self.fixed64(u64::try_from(value).map_err(|_| range())?),
            Kind::Int64 => self.varint(i64::try_from(value).map_err(|_| range())? as u64),
            Kind::Sfixed64 => self.fixed64(i64::try_from(value).map_err(|_| range())? as u64),
            Kind::Int32 | Kind::Enum(_) => self.varint(i64::from(i32::try_from(value).map_err(|_| range())?) as u64),
            Kind::Uint32 => self.varint(u64::from(u32::try_from(value).map_err(|_| range())?)),
            Kind::Sint32 => {
                let number = i64::from(i32::try_from(value).map_err(|_| range())?);
                self.varint(((number << 1) ^ (number >> 63)) as u64)
            }
            Kind::Fixed32 => {
                let number = u32::try_from(value).map_err(|_| range())?;
                self.meter.count(NUMBER_BYTES)?;
                put_tag(self.field.number, 5, self.out);
                self.out.extend_from_slice(&number.to_le_bytes());
                Ok(())
            }
            Kind::Bool => self.varint(u64::from(value != 0)),
            Kind::Text | Kind::Bytes | Kind::Id(_) | Kind::Double | Kind::Message(_) => {
                Err(E::custom(format_args!("{} is a number", self.field.json)))
            }
        }
    }

    fn varint<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.meter.count(NUMBER_BYTES)?;
        put_tag(self.field.number, 0, self.out);
        put_varint(value, self.out);
        Ok(())
    }

    fn fixed64<E: serde::de::Error>(self, bits: u64) -> Result<(), E> {
        self.meter.count(NUMBER_BYTES)?;
        put_tag(self.field.number, 1, self.out);
        self.out.extend_from_slice(&bits.to_le_bytes());
        Ok(())
    }
}

/// An id of `length` bytes from hex, or from base64 as strict proto3 JSON has it; else the text, which no id is.
fn id(text: &str, length: usize) -> Vec<u8> {
    let plain = hex::decode(text).ok();
    let read = plain.clone().filter(|bytes| bytes.len() == length);
    let read = read.or_else(|| base64(text).filter(|bytes| bytes.len() == length));
    read.or(plain).unwrap_or_else(|| text.as_bytes().to_vec())
}

fn base64(text: &str) -> Option<Vec<u8>> {
    [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD].into_iter().find_map(|engine| engine.decode(text).ok())
}
