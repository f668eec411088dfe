//! Spans of the usual form, checked and read in one pass: nearly all that come in. Anything that is not as every SDK writes it
//! is left to the general way along the schema, which decides what it is.

use telemetry::names;

use crate::decode::view::Item;
use crate::decode::wire::{Fields, Raw, short_pair, short_text};

/// The name that nearly all spans have.
const TOKEN: &[u8] = names::SPAN_TOKEN.as_bytes();

/// Longer spans may have so many attributes that these are to be counted, which the general way does. Bytes.
const BYTES_MAX: usize = 64 * 1024;

/// What an item holds of a span of the usual form; None if it is another, sound or not.
pub(super) fn span(bytes: &[u8]) -> Option<Item<'_>> {
    if bytes.len() > BYTES_MAX {
        return None;
    }
    let mut item = Item::default();
    for field in Fields::new(bytes) {
        match field.ok()? {
            (9, Raw::Bytes(bytes)) => attribute(bytes)?,
            (1, Raw::Bytes(id)) if id.len() == 16 => item.trace_id = id,
            (2, Raw::Bytes(id)) if id.len() == 8 => item.span_id = id,
            (4, Raw::Bytes(id)) if id.len() == 8 => item.parent_span_id = id,
            (5, Raw::Bytes(TOKEN)) => item.name = names::SPAN_TOKEN,
            (5, Raw::Bytes(name)) => item.name = std::str::from_utf8(name).ok()?,
            (6 | 10 | 12 | 14, Raw::Varint(_)) | (16, Raw::Fixed32(_)) => {}
            (7, Raw::Fixed64(time)) => item.time = time,
            (8, Raw::Fixed64(time)) => item.end = time,
            _ => return None,
        }
    }
    Some(item)
}

/// A key, then a value.
#[inline]
fn attribute(bytes: &[u8]) -> Option<()> {
    let (key, value) = short_pair(bytes).or_else(|| pair(bytes))?;
    text(key)?;
    if let Some(value) = short_text(value) {
        return text(value);
    }
    let mut fields = Fields::new(value);
    match fields.read() {
        Ok(Some((1, Raw::Bytes(value)))) => text(value)?,
        Ok(Some((2 | 3, Raw::Varint(_)) | (4, Raw::Fixed64(_)))) => {}
        _ => return None,
    }
    matches!(fields.read(), Ok(None)).then_some(())
}

/// The same of any length.
fn pair(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut fields = Fields::new(bytes);
    let Ok(Some((1, Raw::Bytes(key)))) = fields.read() else { return None };
    let Ok(Some((2, Raw::Bytes(value)))) = fields.read() else { return None };
    matches!(fields.read(), Ok(None)).then_some((key, value))
}

/// Most text is ASCII, which is seen faster.
#[inline]
fn text(bytes: &[u8]) -> Option<()> {
    (bytes.is_ascii() || std::str::from_utf8(bytes).is_ok()).then_some(())
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
    use opentelemetry_proto::tonic::trace::v1::{Span, Status};
    use prost::Message as _;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::span;
    use crate::decode::check::{Checked, check};
    use crate::decode::view::Item;
    use crate::decode::wire::put_bytes;
    use crate::signal::Signal;

    fn attribute(key: &str, value: Value) -> KeyValue {
        KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
    }

    fn usual() -> Span {
        Span {
            trace_id: vec![7; 16],
            span_id: vec![8; 8],
            parent_span_id: vec![9; 8],
            flags: 257,
            name: "token".into(),
            kind: 2,
            start_time_unix_nano: 1_790_000_000_000_000_000,
            end_time_unix_nano: 1_790_000_000_100_000_000,
            attributes: vec![
                attribute("a", Value::StringValue("héllo".into())),
                attribute("b", Value::IntValue(-1)),
                attribute("c", Value::DoubleValue(0.5)),
                attribute("d", Value::BoolValue(true)),
            ],
            dropped_attributes_count: 1,
            ..Span::default()
        }
    }

    /// The check of a body with this span alone, by way of a status that makes it unusual and means nothing.
    fn general(bytes: &[u8]) -> Option<Checked> {
        let mut unusual = bytes.to_vec();
        put_bytes(15, &[], &mut unusual);
        let (mut scope, mut group, mut body) = (Vec::new(), Vec::new(), Vec::new());
        put_bytes(2, &unusual, &mut scope);
        put_bytes(2, &scope, &mut group);
        put_bytes(1, &group, &mut body);
        check(Signal::Traces, &body, |_| false).ok()
    }

    /// What passes for usual is sound along the schema too, and is read the same, whichever bytes are broken.
    #[test]
    fn the_usual_form_is_sound() {
        let sound = usual().encode_to_vec();
        let mut random = StdRng::seed_from_u64(11);
        let (mut taken, mut left) = (0, 0);
        for round in 0..20_000 {
            let mut bytes = sound.clone();
            for _ in 0..round % 4 {
                let at = random.random_range(0..bytes.len());
                bytes[at] = if random.random() { random.random() } else { bytes[at] ^ 1 << random.random_range(0..8) };
            }
            if round % 16 == 15 {
                bytes.truncate(random.random_range(0..bytes.len()));
            }
            let Some(item) = span(&bytes) else {
                left += 1;
                continue;
            };
            taken += 1;
            assert_eq!(format!("{item:?}"), format!("{:?}", Item::read(Signal::Traces, &bytes).unwrap()));
            let checked = general(&bytes).unwrap();
            let zero = |id: &[u8]| id.iter().all(|byte| *byte == 0);
            if !zero(item.trace_id) && !zero(item.span_id) {
                assert_eq!((checked.accepted, checked.rejected), (1, 0), "{bytes:02x?}");
            }
        }
        assert!(taken > 5_000 && left > 2_000, "{taken} usual, {left} not");
    }

    /// A span that says more is left to the schema.
    #[test]
    fn what_is_unusual_is_left_alone() {
        assert!(span(&usual().encode_to_vec()).is_some());
        for unusual in [
            Span { status: Some(Status::default()), ..usual() },
            Span { trace_state: "a=b".into(), ..usual() },
            Span { trace_id: vec![7; 32], ..usual() },
            Span { attributes: vec![KeyValue::default()], ..usual() },
        ] {
            assert!(span(&unusual.encode_to_vec()).is_none(), "{unusual:?}");
        }
    }
}
