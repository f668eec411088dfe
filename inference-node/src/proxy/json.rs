//! Members of a JSON object as they lie in its bytes, so that one is taken out or put in without writing the rest anew.

use std::ops::Range;

/// Where a member of the outermost object lies.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    /// Name and value, without commas.
    whole: Range<usize>,
    value: Range<usize>,
}

/// The bytes without the member `key`; the same bytes where there is none.
pub(super) fn without(json: &[u8], key: &str) -> Vec<u8> {
    let Some(member) = find(json, key) else { return json.to_vec() };
    let (mut from, mut to) = (member.whole.start, member.whole.end);
    let after = to + blanks(&json[to..]);
    let before = json[..from].trim_ascii_end().len();
    if json.get(after) == Some(&b',') {
        to = after + 1;
    } else if json[..before].ends_with(b",") {
        from = before - 1;
    }
    [&json[..from], &json[to..]].concat()
}

/// The bytes with `key` set to `value`, which is JSON; unchanged where they are no object.
pub(super) fn with(json: &[u8], key: &str, value: &str) -> Vec<u8> {
    if let Some(member) = find(json, key) {
        return [&json[..member.value.start], value.as_bytes(), &json[member.value.end..]].concat();
    }
    let open = blanks(json);
    if json.get(open) != Some(&b'{') {
        return json.to_vec();
    }
    let is_empty = json.get(open + 1 + blanks(&json[open + 1..])) == Some(&b'}');
    let comma = if is_empty { "" } else { "," };
    [&json[..=open], format!("\"{key}\":{value}{comma}").as_bytes(), &json[open + 1..]].concat()
}

/// The bytes of a member's value.
pub(super) fn value<'a>(json: &'a [u8], key: &str) -> Option<&'a [u8]> {
    find(json, key).map(|member| &json[member.value])
}

/// Goes through the outermost object alone. What is no JSON object has no members.
fn find(json: &[u8], key: &str) -> Option<Member> {
    let mut at = blanks(json);
    if json.get(at) != Some(&b'{') {
        return None;
    }
    at += 1;
    loop {
        at += blanks(json.get(at..)?);
        if json.get(at) != Some(&b'"') {
            return None;
        }
        let name = at..at + text(&json[at..])?;
        at = name.end + blanks(json.get(name.end..)?);
        if json.get(at) != Some(&b':') {
            return None;
        }
        at += 1;
        at += blanks(json.get(at..)?);
        let held = at..at + length(json.get(at..)?)?;
        if &json[name.start + 1..name.end - 1] == key.as_bytes() {
            return Some(Member { whole: name.start..held.end, value: held });
        }
        at = held.end + blanks(json.get(held.end..)?);
        if json.get(at) != Some(&b',') {
            return None;
        }
        at += 1;
    }
}

fn blanks(json: &[u8]) -> usize {
    json.len() - json.trim_ascii_start().len()
}

/// Length of the text that begins here, quotes included.
fn text(json: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Length of the value that begins here.
fn length(json: &[u8]) -> Option<usize> {
    match json.first()? {
        b'"' => text(json),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0_usize, 0);
            loop {
                match json.get(at)? {
                    b'"' => at += text(&json[at..])? - 1,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        _ => Some(json.iter().position(|byte| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace())?),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    /// Taking a member out and putting one in does what the same would do to the parsed object, wherever it stands, and leaves
    /// every other byte alone.
    #[test]
    fn members_are_cut_and_set() {
        let texts = [
            r#"{"usage":{"a":[1,"}\"{"]},"x":1}"#,
            r#"{"x":"usage\":","usage" : null , "y":[{"usage":2}]}"#,
            "\n{ \"x\" : -1.5e3 ,\n\"usage\":\"t\\\\\"\n}",
            r#"{"usage":true}"#,
            r#"{"x":{"usage":1}}"#,
            "{}",
            " { } ",
        ];
        for text in texts {
            let mut expected = parsed(text.as_bytes());
            expected.as_object_mut().unwrap().remove("usage");
            assert_eq!(parsed(&without(text.as_bytes(), "usage")), expected, "{text}");
            let mut expected = parsed(text.as_bytes());
            expected["usage"] = json!({"b": "c"});
            assert_eq!(parsed(&with(text.as_bytes(), "usage", r#"{"b":"c"}"#)), expected, "{text}");
            let held = value(text.as_bytes(), "usage").map(parsed);
            assert_eq!(held.as_ref(), parsed(text.as_bytes()).get("usage"), "{text}");
        }
        assert_eq!(without(br#"{"a": 1,  "usage": 2}"#, "usage"), br#"{"a": 1}"#);
    }

    /// Bytes that are no object, or end early, or hold random marks, are left as they are or changed, but never a panic.
    #[test]
    fn broken_bytes() {
        for text in [
            "",
            "[",
            "1",
            "{",
            "{\"",
            "{\"usage",
            "{\"usage\"",
            "{\"usage\":",
            "{\"usage\":{",
            "{\"a\":1 \"usage\":2}",
            "}",
        ] {
            assert_eq!(without(text.as_bytes(), "usage"), text.as_bytes());
        }
        let whole = br#"{"x":"usage\":","usage" : {"a":[1,"}\"{"]} , "y":[{"usage":2}]}"#;
        for at in 0..whole.len() {
            for mark in *b"\"{}[],:\\ 1\xff" {
                let mut bytes = whole.to_vec();
                bytes[at] = mark;
                let _ = (without(&bytes, "usage"), with(&bytes, "usage", "1"), without(&bytes[..at], "usage"));
            }
        }
    }
}
