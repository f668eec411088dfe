//! Just enough of the protobuf wire format to find the spans' fixed-width fields in our own bodies.

use super::Places;

/// Places of every span in an encoded trace request.
pub(super) fn spans(bytes: &[u8]) -> Vec<Places> {
    let mut found = Vec::new();
    for resource_spans in fields(bytes, 0, bytes.len()).filter(|field| field.number == 1) {
        for scope_spans in resource_spans.inner(bytes).filter(|field| field.number == 2) {
            for span in scope_spans.inner(bytes).filter(|field| field.number == 2) {
                found.push(places(bytes, &span));
            }
        }
    }
    found
}

fn places(bytes: &[u8], span: &Field) -> Places {
    let mut places = Places::default();
    for field in span.inner(bytes) {
        match field.number {
            1 => places.trace_id = field.at,
            2 => places.span_id = field.at,
            4 if field.len > 0 => places.parent_id = Some(field.at),
            7 => places.start = field.at,
            8 => places.end = field.at,
            _ => {}
        }
    }
    places
}

/// One field: its number, and where its payload lies.
struct Field {
    number: u64,
    at: usize,
    len: usize,
}

impl Field {
    fn inner<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = Field> + use<'a> {
        fields(bytes, self.at, self.at + self.len)
    }
}

fn fields(bytes: &[u8], from: usize, to: usize) -> impl Iterator<Item = Field> {
    let mut at = from;
    std::iter::from_fn(move || {
        if at >= to {
            return None;
        }
        let key = varint(bytes, &mut at);
        let begin = at;
        let field = match key & 7 {
            0 => {
                varint(bytes, &mut at);
                Field { number: key >> 3, at: begin, len: at - begin }
            }
            1 => Field { number: key >> 3, at, len: 8 },
            2 => {
                let len = varint(bytes, &mut at) as usize;
                Field { number: key >> 3, at, len }
            }
            _ => Field { number: key >> 3, at, len: 4 },
        };
        at = field.at + field.len;
        Some(field)
    })
}

fn varint(bytes: &[u8], at: &mut usize) -> u64 {
    let mut value = 0;
    let mut shift = 0;
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
        shift += 7;
    }
}
