//! Reads along in an answer on its way: when the first content left, how much there was, and what the node says about tokens.
//!
//! Frames are parsed as JSON only until the first one with content, and where a frame carries usage or an end; all others are
//! counted by their line alone.

use std::time::Duration;

use memchr::memmem;
use serde::Deserialize;
use telemetry::openai::{DONE, Usage};

/// Largest line or whole answer read along; in larger ones nothing more is seen.
const BYTES_MAX: usize = 1 << 20;

/// Longest name or id noted, in bytes, and most ends of choices; records wait by the thousand.
const TEXT_BYTES_MAX: usize = 256;
const ENDS_MAX: usize = 128;

/// What was seen of an answer. All times since the arrival of the call.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Seen {
    /// Frames with content, in a streamed answer.
    pub(crate) content_frames: Option<u64>,
    pub(crate) first_content: Option<Duration>,
    pub(crate) usage: Option<Usage>,
    pub(crate) finish_reasons: Vec<String>,
    pub(crate) model: Option<String>,
    pub(crate) id: Option<String>,
}

/// Reads along in one answer.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    mode: Mode,
    /// The part of a line, or of a whole answer, that has come so far.
    pending: Vec<u8>,
    /// The frame that ends a stream has come.
    done: bool,
    /// An error has come within the stream.
    failed: bool,
    seen: Seen,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Mode {
    /// An event stream.
    Events,
    /// One JSON document.
    Whole,
    #[default]
    Blind,
}

/// The fields of a frame, or of a whole answer, that are recorded.
#[derive(Debug, Deserialize)]
struct Frame {
    id: Option<String>,
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    delta: Option<Delta>,
    text: Option<String>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Delta {
    content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<serde::de::IgnoredAny>,
}

impl Observer {
    /// For an event stream.
    pub(crate) fn events() -> Self {
        let seen = Seen { content_frames: Some(0), ..Seen::default() };
        Self { mode: Mode::Events, seen, ..Self::default() }
    }

    /// For an answer that cannot be read along, such as a compressed one: what it holds stays unknown.
    pub(crate) fn blind() -> Self {
        Self::default()
    }

    /// For a JSON document.
    pub(crate) fn whole() -> Self {
        Self { mode: Mode::Whole, ..Self::default() }
    }

    /// Reads the next bytes, which left at `at`.
    pub(crate) fn see(&mut self, bytes: &[u8], at: Duration) {
        match self.mode {
            Mode::Blind => {}
            Mode::Whole => self.keep(bytes),
            Mode::Events => {
                let mut rest = bytes;
                while let Some(end) = memchr::memchr(b'\n', rest) {
                    let (line, after) = rest.split_at(end);
                    if self.pending.is_empty() {
                        self.line(line, at);
                    } else {
                        self.keep(line);
                        let whole = std::mem::take(&mut self.pending);
                        self.line(&whole, at);
                    }
                    rest = after.get(1..).unwrap_or_default();
                }
                self.keep(rest);
            }
        }
    }

    /// Whether the stream said that it is at its end.
    pub(crate) fn done(&self) -> bool {
        self.done
    }

    /// Whether the node said within the stream that it failed.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    /// Whether a stream may end here: something said that it does, or an error came, or it was not read along to here.
    pub(crate) fn may_end(&self) -> bool {
        self.done || self.failed || self.mode != Mode::Events || !self.seen.finish_reasons.is_empty()
    }

    /// What was seen, now that no more bytes come.
    pub(crate) fn finish(mut self) -> Seen {
        if self.mode == Mode::Whole
            && let Ok(frame) = serde_json::from_slice::<Frame>(&self.pending)
        {
            self.note(frame);
        }
        self.seen
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.mode == Mode::Blind {
            return;
        }
        if self.pending.len() + bytes.len() > BYTES_MAX {
            // Counts would be wrong from here on, and wrong is worse than unknown.
            self.mode = Mode::Blind;
            self.pending = Vec::new();
            self.seen.content_frames = None;
            return;
        }
        self.pending.extend_from_slice(bytes);
    }

    fn line(&mut self, line: &[u8], at: Duration) {
        let Some(data) = line.strip_prefix(b"data:") else { return };
        let data = data.trim_ascii();
        if data == DONE.as_bytes() {
            self.done = true;
        }
        if data.is_empty() || self.done {
            return;
        }
        let telling = self.seen.first_content.is_none()
            || memmem::find(data, b"\"prompt_tokens\"").is_some()
            || memmem::find(data, b"\"finish_reason\":\"").is_some()
            || memmem::find(data, b"\"finish_reason\": \"").is_some()
            || memmem::find(data, b"\"error\"").is_some();
        let content = if telling { self.parse(data) } else { true };
        if content {
            self.seen.first_content.get_or_insert(at);
            self.seen.content_frames = self.seen.content_frames.map(|frames| frames + 1);
        }
    }

    /// Notes what the frame says; gives whether it has content.
    fn parse(&mut self, data: &[u8]) -> bool {
        let Ok(frame) = serde_json::from_slice::<Frame>(data) else { return false };
        let content = frame.choices.iter().any(Choice::has_content);
        self.failed |= frame.error.is_some();
        self.note(frame);
        content
    }

    fn note(&mut self, frame: Frame) {
        let seen = &mut self.seen;
        let short = |text: &String| text.len() <= TEXT_BYTES_MAX;
        seen.id = seen.id.take().or(frame.id.filter(short));
        seen.model = seen.model.take().or(frame.model.filter(short));
        if frame.usage.is_some() {
            seen.usage = frame.usage;
        }
        let ends = frame.choices.into_iter().filter_map(|choice| choice.finish_reason).filter(short);
        seen.finish_reasons.extend(ends.take(ENDS_MAX.saturating_sub(seen.finish_reasons.len())));
    }
}

impl Choice {
    fn has_content(&self) -> bool {
        let filled = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        let delta = self.delta.as_ref().is_some_and(|delta| {
            filled(&delta.content)
                || filled(&delta.reasoning_content)
                || filled(&delta.reasoning)
                || delta.tool_calls.is_some()
        });
        delta || filled(&self.text)
    }
}

#[cfg(test)]
mod tests;
