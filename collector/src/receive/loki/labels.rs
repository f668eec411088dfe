//! The labels of a stream as its selector writes them: `{app="vllm", pod="a-1"}`.

use std::borrow::Cow;

use service::error::{Error, Result};

use super::PAIRS_MAX;

/// Reads a selector of equalities.
pub(super) fn labels(selector: &str) -> Result<Vec<(&str, Cow<'_, str>)>> {
    let fault = |message: &str| Error::invalid(format!("stream labels: {message}"));
    let inside = selector.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let mut rest = inside.ok_or_else(|| fault("no braces around them"))?.trim();
    let mut found = Vec::new();
    while !rest.is_empty() {
        if found.len() == PAIRS_MAX {
            return Err(fault("more than 128"));
        }
        let (name, after) = rest.split_once('=').ok_or_else(|| fault("a label without a value"))?;
        let after = after.trim_start();
        let (value, after) = match after.strip_prefix('`') {
            Some(raw) => raw.split_once('`').map(|(value, after)| (Cow::Borrowed(value), after)),
            None => quoted(after),
        }
        .ok_or_else(|| fault("a value without quotes"))?;
        found.push((name.trim(), value));
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(more) => more.trim_start(),
            None if after.is_empty() => after,
            None => return Err(fault("no comma between them")),
        };
    }
    Ok(found)
}

/// A text in double quotes as Go writes it, and what follows.
fn quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let inside = text.strip_prefix('"')?;
    let mut escaped = false;
    let end = inside.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    let (value, rest) = inside.split_at_checked(end)?;
    let rest = rest.strip_prefix('"')?;
    Some((if value.contains('\\') { Cow::Owned(unescape(value)) } else { Cow::Borrowed(value) }, rest))
}

/// Undoes Go's escapes; one that is none stands for itself.
fn unescape(value: &str) -> String {
    let mut plain: Vec<u8> = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.extend_from_slice(before.as_bytes());
        let kind = after.chars().next().unwrap_or('\\');
        let after = after.get(kind.len_utf8()..).unwrap_or_default();
        let digits = |length: usize| after.get(..length).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let (taken, written) = match kind {
            'n' => (0, Some('\n')),
            't' => (0, Some('\t')),
            'r' => (0, Some('\r')),
            'u' => (4, digits(4).and_then(char::from_u32)),
            'U' => (8, digits(8).and_then(char::from_u32)),
            '\\' | '"' | '\'' => (0, Some(kind)),
            _ => (0, None),
        };
        let mut buffer = [0; 4];
        if let ('x', Some(byte)) = (kind, digits(2).and_then(|byte| u8::try_from(byte).ok())) {
            plain.push(byte);
            rest = after.get(2..).unwrap_or_default();
        } else if let Some(written) = written {
            plain.extend_from_slice(written.encode_utf8(&mut buffer).as_bytes());
            rest = after.get(taken..).unwrap_or_default();
        } else {
            plain.push(b'\\');
            plain.extend_from_slice(kind.encode_utf8(&mut buffer).as_bytes());
            rest = after;
        }
    }
    plain.extend_from_slice(rest.as_bytes());
    String::from_utf8(plain).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
