//! Query strings: names and values, decoded once and written the same way.

use super::rfc3339;
use crate::times::TIMES;

/// Longest value that is read from a URL; longer ones are dropped.
const VALUE_MOST: usize = 256;

/// Names and values of a query string, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Splits and decodes a query string (or a form body, which is written the same way).
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).take(64);
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self(decoded.collect())
    }

    /// A value of bounded length; empty counts as absent, as an untouched form field is.
    pub fn text(&self, name: &str) -> Option<String> {
        self.long_text(name).filter(|value| value.len() <= VALUE_MOST)
    }

    /// A value of any length.
    pub fn long_text(&self, name: &str) -> Option<String> {
        let found = self.0.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// Adds a field.
    pub fn set(&mut self, name: &str, value: String) {
        self.0.push((name.to_owned(), value));
    }

    /// These with a stretch of time, microseconds since the epoch, in place of what says one.
    pub fn within(&self, (from_us, to_us): (i64, i64)) -> Self {
        let mut fields = Self::default();
        fields.set("from", rfc3339(from_us));
        fields.set("to", rfc3339(to_us));
        self.iter()
            .filter(|(name, _)| !TIMES.contains(name))
            .for_each(|(name, value)| fields.set(name, value.to_owned()));
        fields
    }

    /// The fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A path with these fields behind it.
    pub fn link(&self, path: &str) -> String {
        let mut link = path.to_owned();
        for (index, (name, value)) in self.0.iter().enumerate() {
            link.push(if index == 0 { '?' } else { '&' });
            link.push_str(&encode(name));
            link.push('=');
            link.push_str(&encode(value));
        }
        link
    }
}

/// A path of segments, each of which may hold anything.
pub fn path(segments: &[&str]) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        // A space is no plus in a path, and a slash would begin another segment.
        path.push_str(&encode(segment).replace('+', "%20").replace('/', "%2F"));
    }
    path
}

/// A segment of such a path as its page knows it.
pub(crate) fn segment(text: &str) -> String {
    // Fields take a plus for a space, which stands for itself in a path.
    decode(&text.replace('+', "%2B"))
}

/// Percent-encodes all but the letters that a query may hold as they are.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'/' | b',' => {
                out.push(char::from(byte))
            }
            b' ' => out.push('+'),
            other => {
                out.push('%');
                for half in [other >> 4, other & 15] {
                    out.push(char::from_digit(u32::from(half), 16).unwrap_or('0').to_ascii_uppercase());
                }
            }
        }
    }
    out
}

pub(super) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let ahead = rest.clone();
                match (hex(rest.next()), hex(rest.next())) {
                    (Some(high), Some(low)) => bytes.push(high << 4 | low),
                    _ => {
                        // Not an escape: the sign stands for itself.
                        bytes.push(b'%');
                        rest = ahead;
                    }
                }
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: Option<u8>) -> Option<u8> {
    char::from(digit?).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
