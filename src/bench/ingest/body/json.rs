//! Just enough of OTLP/JSON to find the spans' ids and times in our own bodies, all of which have a fixed width.

use super::Places;

/// Places of every span in an encoded trace request.
pub(super) fn spans(bytes: &[u8]) -> Vec<Places> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(trace_id) = value_of(bytes, "traceId", at) {
        let mut places = Places { trace_id, ..Places::default() };
        at = trace_id;
        for (key, place) in [("spanId", &mut places.span_id), ("startTimeUnixNano", &mut places.start)] {
            *place = value_of(bytes, key, at).unwrap_or(at);
        }
        let parent = value_of(bytes, "parentSpanId", at).filter(|parent| *parent < places.start);
        places.parent_id = parent.filter(|parent| bytes[*parent] != b'"');
        places.end = value_of(bytes, "endTimeUnixNano", at).unwrap_or(at);
        at = places.end;
        found.push(places);
    }
    found
}

/// Where the text of the next member of that name begins.
fn value_of(bytes: &[u8], key: &str, from: usize) -> Option<usize> {
    let member = format!("\"{key}\":\"");
    let at = bytes[from..].windows(member.len()).position(|window| window == member.as_bytes())?;
    Some(from + at + member.len())
}

/// Writes an id in hex digits.
pub(super) fn put_id(place: &mut [u8], id: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, digits) in id.iter().zip(place.chunks_exact_mut(2)) {
        digits[0] = DIGITS[usize::from(byte >> 4)];
        digits[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// Writes a time of nineteen digits.
pub(super) fn put_time(place: &mut [u8], mut ns: u64) {
    for digit in place[..19].iter_mut().rev() {
        *digit = b'0' + (ns % 10) as u8;
        ns /= 10;
    }
}
