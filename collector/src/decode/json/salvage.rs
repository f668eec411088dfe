//! A body of which some values are not what OTLP/JSON has there: what depends on such a value is marked as unreadable, so that
//! it is rejected and counted, and everything else is kept.
//!
//! Each value is found before it is read, so one that fails does not end the reading. That costs a second look at every byte
//! for each level above the items, and so it is done only for bodies that the fast way refuses.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Error;
use serde_json::value::RawValue;

use super::meter::Meter;
use super::{Key, Member};
use crate::decode::schema::{self, Field, Kind, Message};
use crate::decode::wire::{put_bytes, put_tag, put_varint};

/// Reads a whole body as that message.
pub(super) fn read(
    message: &'static Message,
    json: &[u8],
    out: &mut Vec<u8>,
    meter: &mut Meter<'_>,
) -> Result<(), Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    Holder { message, out, meter }.deserialize(&mut reader)?;
    reader.end()
}

/// Reads a JSON object as a message that holds groups, scopes or items: in these a fault is kept from spreading.
struct Holder<'o, 'r> {
    message: &'static Message,
    out: &'o mut Vec<u8>,
    meter: &'o mut Meter<'r>,
}

impl<'de> DeserializeSeed<'de> for Holder<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Holder<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            let value: &RawValue = map.next_value()?;
            let read = match Key::of(self.message, &key) {
                Key::Field(field) => self.field(field, value),
                Key::Wrapper => self.nested(self.message, value).map(|nested| self.out.extend_from_slice(&nested)),
                Key::Unknown => Ok(()),
            };
            read.map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

impl<'r> Holder<'_, 'r> {
    fn field(&mut self, field: &'static Field, value: &RawValue) -> Result<(), Error> {
        match field.kind {
            Kind::Message(_) if field.repeated => {
                let mut reader = serde_json::Deserializer::from_str(value.get());
                Elements { field, holder: self }.deserialize(&mut reader)
            }
            Kind::Message(message) if message.is_holder() => {
                let nested = self.nested(message, value)?;
                put_bytes(field.number, &nested, self.out);
                Ok(())
            }
            _ => {
                let read = self.strictly(value, |out, meter| Member::of(field, out, meter))?;
                if !read {
                    mark(self.out);
                }
                Ok(())
            }
        }
    }

    /// One group, scope, metric, item or attribute.
    fn element(&mut self, field: &'static Field, value: &RawValue) -> Result<(), Error> {
        let Kind::Message(message) = field.kind else { return Ok(()) };
        if message.is_holder() {
            let nested = self.nested(message, value)?;
            put_bytes(field.number, &nested, self.out);
        } else if !self.strictly(value, |out, meter| Member::element(field, out, meter))? {
            let mut unreadable = Vec::new();
            mark(&mut unreadable);
            put_bytes(field.number, &unreadable, self.out);
        }
        Ok(())
    }

    fn nested(&mut self, message: &'static Message, value: &RawValue) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let mut reader = serde_json::Deserializer::from_str(value.get());
        Holder { message, out: &mut out, meter: &mut *self.meter }.deserialize(&mut reader)?;
        Ok(out)
    }

    /// Reads a value the fast way; false if it is not what belongs there, and then nothing is written.
    fn strictly(
        &mut self,
        value: &RawValue,
        member: impl for<'a> FnOnce(&'a mut Vec<u8>, &'a mut Meter<'r>) -> Member<'a, 'r>,
    ) -> Result<bool, Error> {
        let before = self.out.len();
        let mut reader = serde_json::Deserializer::from_str(value.get());
        let read = member(&mut *self.out, &mut *self.meter).deserialize(&mut reader);
        match read {
            Ok(()) => Ok(true),
            Err(error) if self.meter.over.is_some() => Err(error),
            Err(_) => {
                self.out.truncate(before);
                Ok(false)
            }
        }
    }
}

fn mark(out: &mut Vec<u8>) {
    put_tag(schema::UNREADABLE, 0, out);
    put_varint(1, out);
}

/// Reads a JSON array whose elements are messages.
struct Elements<'h, 'o, 'r> {
    field: &'static Field,
    holder: &'h mut Holder<'o, 'r>,
}

impl<'de> DeserializeSeed<'de> for Elements<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "an array for {}", self.field.json)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(value) = seq.next_element::<&RawValue>()? {
            self.holder.element(self.field, value).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}
