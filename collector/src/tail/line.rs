//! Lines cut out of what was read: CRI (`time stream P|F text`), Docker's JSON, or plain. Parts of a line are joined.
//!
//! Cutting keeps no state: what is not whole yet is not consumed, and is read again with what follows it.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;

use super::Format;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// When the runtime saw it, nanoseconds since 1970-01-01 UTC; 0 is unknown.
    pub(super) time_ns: u64,
    /// `stdout` or `stderr`, if the runtime says it.
    pub(super) stream: Option<&'static str>,
    pub(super) text: Cow<'a, [u8]>,
    /// A piece of a line that was too long, or had no end.
    pub(super) piece: bool,
}

/// What was cut out of a chunk.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cut<'a> {
    pub(super) lines: Vec<Line<'a>>,
    /// Bytes that need not be read again.
    pub(super) consumed: usize,
}

/// Cuts whole lines out of a chunk; with `last` what is not whole is cut out too, as pieces.
pub(super) fn cut(chunk: &[u8], format: Format, last: bool) -> Cut<'_> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut open: Vec<Line<'_>> = Vec::new();
    let (mut whole_lines, mut consumed, mut at) = (0, 0, 0);
    for part in chunk.split_inclusive(|byte| *byte == b'\n') {
        at += part.len();
        let Some(part) = part.strip_suffix(b"\n") else {
            if last {
                let (mut line, _) = read(part, format);
                line.piece = true;
                join(line, &mut open, &mut lines);
            }
            break;
        };
        let (line, whole) = read(part.strip_suffix(b"\r").unwrap_or(part), format);
        if whole {
            join(line, &mut open, &mut lines);
        } else {
            match open.iter_mut().find(|begun| begun.stream == line.stream) {
                Some(begun) => begun.text.to_mut().extend_from_slice(&line.text),
                None => open.push(line),
            }
        }
        if open.is_empty() {
            (whole_lines, consumed) = (lines.len(), at);
        }
    }
    if last {
        lines.extend(open.into_iter().map(|line| Line { piece: true, ..line }));
        return Cut { lines, consumed: chunk.len() };
    }
    lines.truncate(whole_lines);
    Cut { lines, consumed }
}

/// Ends a line that may have begun before.
fn join<'a>(line: Line<'a>, open: &mut Vec<Line<'a>>, lines: &mut Vec<Line<'a>>) {
    match open.iter().position(|begun| begun.stream == line.stream) {
        Some(place) => {
            let mut begun = open.swap_remove(place);
            begun.text.to_mut().extend_from_slice(&line.text);
            begun.piece |= line.piece;
            lines.push(begun);
        }
        None => lines.push(line),
    }
}

/// Reads one line, and says whether it is whole.
fn read(line: &[u8], format: Format) -> (Line<'_>, bool) {
    let known = match format {
        Format::Auto => cri(line).or_else(|| docker(line)),
        Format::Plain => None,
    };
    known.unwrap_or((Line { time_ns: 0, stream: None, text: Cow::Borrowed(line), piece: false }, true))
}

fn stream(name: &str) -> Option<&'static str> {
    ["stdout", "stderr"].into_iter().find(|known| *known == name)
}

fn nanoseconds(time: &str) -> Option<u64> {
    u64::try_from(time.parse::<Timestamp>().ok()?.as_nanosecond()).ok()
}

/// `2026-11-29T12:00:00.123456789Z stdout F text`; the tag is `P` while the line goes on.
fn cri(line: &[u8]) -> Option<(Line<'_>, bool)> {
    let mut words = line.splitn(4, |byte| *byte == b' ');
    let mut word = || std::str::from_utf8(words.next()?).ok();
    let (time_ns, stream) = (nanoseconds(word()?)?, stream(word()?)?);
    let whole = match word()?.split(':').next()? {
        "F" => true,
        "P" => false,
        _ => return None,
    };
    let text = Cow::Borrowed(words.next().unwrap_or_default());
    Some((Line { time_ns, stream: Some(stream), text, piece: false }, whole))
}

#[derive(Deserialize)]
struct Docker {
    log: String,
    stream: Option<String>,
    time: String,
}

/// `{"log":"text\n","stream":"stdout","time":"…"}`; a text without an end of line goes on.
fn docker(line: &[u8]) -> Option<(Line<'_>, bool)> {
    if !line.starts_with(b"{") {
        return None;
    }
    let read: Docker = serde_json::from_slice(line).ok()?;
    let time_ns = nanoseconds(&read.time)?;
    let whole = read.log.ends_with('\n');
    let text = read.log.trim_end_matches(['\r', '\n']).as_bytes().to_vec();
    let stream = read.stream.and_then(|name| stream(&name));
    Some((Line { time_ns, stream, text: Cow::Owned(text), piece: false }, whole))
}
