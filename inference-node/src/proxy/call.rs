//! One call through the proxy: what is known of it, and what it tells the recorder, once, however it ends.

use std::sync::Arc;

use serde::de::IgnoredAny;
use telemetry::openai::DONE;
use telemetry::unit::share;

use super::read::{Chunk, Counted, Output, Reader, Said};
use super::relay::data;
use crate::record::Recorder;
use crate::step::NodeClock;

/// What is known when a call arrives.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) trace_id: u128,
    pub(crate) span_id: u64,
    pub(crate) parent_span_id: Option<u64>,
    pub(crate) arrival_ns: i64,
    pub(crate) operation: &'static str,
    pub(crate) stream: bool,
    /// Model that the client, the path or the settings name.
    pub(crate) model: Option<Arc<str>>,
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) max_tokens: Option<i64>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) choices: Option<i64>,
    /// Name of the engine behind the proxy.
    pub(crate) engine: &'static str,
    /// `gateway` or `server`.
    pub(crate) measured_at: &'static str,
}

/// A chunk that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) choice: u32,
    /// Tokens of the choice before it.
    pub(crate) index: u32,
    pub(crate) count: u32,
    /// When the chunk before it left, or the call arrived.
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) end_ns: i64,
    /// When the upstream got it, where the proxy made it wait.
    pub(crate) dispatched_ns: Option<i64>,
    pub(crate) first_ns: Option<i64>,
    pub(crate) gap_max_ns: Option<i64>,
    pub(crate) said: Said,
    /// How chunks became tokens; `None` where nothing counted.
    pub(crate) counted: Option<Counted>,
    pub(crate) error: Option<&'static str>,
    pub(crate) message: Option<String>,
    /// Whether this call's tokens are told here.
    pub(crate) sampled: bool,
}

/// What the recorder gets: chunks, and at last the end.
#[derive(Debug)]
pub(crate) struct Relayed {
    pub(crate) asked: Arc<Asked>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) end: Option<Box<End>>,
}

/// Chunks told at once, and chunks kept until a total is known.
const MARKS_AT_ONCE: usize = 256;
const MARKS_KEPT: usize = 16_384;

/// Follows one call; dropping it before its end tells that the client went away, unless the engine had refused it.
pub(super) struct Follow {
    asked: Arc<Asked>,
    recorder: Arc<Recorder>,
    clock: Arc<NodeClock>,
    reader: Reader,
    marks: Vec<(Mark, Option<u32>, u32)>,
    /// When the last chunk of each choice left, and the tokens before the next.
    choices: Vec<(i64, u32)>,
    /// Tokens told so far.
    told: u64,
    end: Option<End>,
    /// The total is still to be shared out over the chunks.
    waits_for_total: bool,
    is_refused: bool,
}

impl Follow {
    pub(super) fn new(
        asked: Arc<Asked>,
        recorder: Arc<Recorder>,
        clock: Arc<NodeClock>,
        reader: Reader,
        sampled: bool,
    ) -> Self {
        let end = End {
            end_ns: asked.arrival_ns,
            dispatched_ns: None,
            first_ns: None,
            gap_max_ns: None,
            said: Said::default(),
            counted: None,
            error: Some("cancelled"),
            message: Some("the client went away".to_owned()),
            sampled,
        };
        Self {
            asked,
            recorder,
            clock,
            reader,
            marks: Vec::new(),
            choices: Vec::new(),
            told: 0,
            end: Some(end),
            waits_for_total: false,
            is_refused: false,
        }
    }

    fn end_mut(&mut self) -> Option<&mut End> {
        self.end.as_mut()
    }

    /// The call goes to the upstream now, after having waited for its turn.
    pub(super) fn dispatched(&mut self) {
        let now = self.clock.now_ns();
        if let Some(end) = self.end_mut() {
            end.dispatched_ns = Some(now);
        }
    }

    /// The upstream tells its tokens itself.
    pub(super) fn leave_tokens(&mut self) {
        if let Some(end) = self.end_mut() {
            end.sampled = false;
        }
    }

    /// Reads a frame of a stream, which leaves now.
    pub(super) fn frame(&mut self, data: &[u8]) {
        let chunks = self.reader.frame(data);
        self.left(chunks);
    }

    /// Reads an answer over gRPC, which leaves now.
    pub(super) fn output(&mut self, output: &Output<'_>) {
        let chunk = self.reader.output(output);
        self.left(chunk.into_iter().collect());
    }

    fn left(&mut self, chunks: Vec<Chunk>) {
        if chunks.is_empty() {
            return;
        }
        let now = self.clock.now_ns();
        for chunk in chunks {
            self.chunk(chunk, now);
        }
        if self.marks.len() >= MARKS_AT_ONCE && !(self.waits_for_total && self.marks.len() < MARKS_KEPT) {
            self.tell(None);
        }
    }

    fn chunk(&mut self, chunk: Chunk, now: i64) {
        let arrival = self.asked.arrival_ns;
        let choice = chunk.choice as usize;
        if choice >= self.choices.len().max(CHOICES_MAX) {
            return;
        }
        if choice >= self.choices.len() {
            self.choices.resize(choice + 1, (arrival, 0));
        }
        let (before, _) = self.choices[choice];
        let is_first = self.marks.is_empty() && self.told == 0;
        if let Some(end) = &mut self.end {
            if chunk.bytes > 0 {
                end.first_ns.get_or_insert(now);
            }
            if before != arrival {
                end.gap_max_ns = end.gap_max_ns.max(Some(now - before));
            }
            end.end_ns = now;
        }
        self.choices[choice].0 = now;
        self.waits_for_total |= is_first && chunk.tokens.is_none();
        let mark = Mark { choice: chunk.choice, index: 0, count: 1, start_ns: before, end_ns: now };
        self.marks.push((mark, chunk.tokens, chunk.bytes));
    }

    /// Tells the chunks so far; at the end, with the total that was said, if they do not know themselves.
    fn tell(&mut self, total: Option<u64>) {
        let missing = total.map(|total| total.saturating_sub(self.told));
        let counts: Vec<u64> = match missing {
            Some(missing) if self.reader.by() == Counted::Chunks && !self.marks.is_empty() => {
                let bytes: Vec<u64> = self.marks.iter().map(|(_, _, bytes)| u64::from(*bytes).max(1)).collect();
                share(missing, &bytes)
            }
            _ => self.marks.iter().map(|(_, tokens, _)| u64::from(tokens.unwrap_or(1))).collect(),
        };
        let mut marks: Vec<Mark> = Vec::with_capacity(counts.len() + 1);
        for ((mark, ..), count) in self.marks.drain(..).zip(counts) {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            let index = self.choices.get(mark.choice as usize).map_or(0, |(_, index)| *index);
            if count > 0 {
                marks.push(Mark { index, count, ..mark });
                self.told += u64::from(count);
            }
            if let Some((_, index)) = self.choices.get_mut(mark.choice as usize) {
                *index += count;
            }
        }
        // A last token that has no text, such as the one that ends it.
        let rest = total.and_then(|total| u32::try_from(total.saturating_sub(self.told)).ok()).filter(|rest| *rest > 0);
        if let (Some(count), [(left, index), ..], Some(end)) = (rest, self.choices.as_mut_slice(), &self.end)
            && self.reader.by() != Counted::Chunks
        {
            marks.push(Mark { choice: 0, index: *index, count, start_ns: *left, end_ns: end.end_ns });
            self.told += u64::from(count);
        }
        let sampled = self.end.as_ref().is_some_and(|end| end.sampled);
        if !marks.is_empty() && sampled {
            self.recorder.relayed(Relayed { asked: Arc::clone(&self.asked), marks, end: None });
        }
    }

    /// Reads what has come of a last line, and says whether the stream is whole: neither cut within an event, nor without all that
    /// tells the end of an answer where OpenAI's API promises it.
    pub(super) fn last(&mut self, line: &[u8]) -> bool {
        let begun = line.trim_ascii();
        let is_comment = begun.is_empty() || begun.starts_with(b":");
        let data =
            data(begun).filter(|data| *data == DONE.as_bytes() || serde_json::from_slice::<IgnoredAny>(data).is_ok());
        if let Some(data) = data {
            self.frame(data);
        }
        self.is_done() || (is_comment || data.is_some()) && self.reader.may_end()
    }

    /// The engine refused the call: whatever comes of its answer's body, that is how it ended.
    pub(super) fn refused(&mut self, kind: &'static str) {
        if let Some(end) = self.end_mut() {
            end.error = Some(kind);
            end.message = Some(kind.replace('_', " "));
        }
        self.is_refused = true;
    }

    /// Too many calls wait already.
    pub(super) fn turned_away(mut self) {
        self.finish(Some("rate_limited"), Some("the queue is full".to_owned()));
    }

    /// Reads a whole answer, which leaves now.
    pub(super) fn whole(&mut self, body: &[u8]) {
        self.reader.whole(body);
    }

    /// What headers say of the answer, such as TGI's.
    pub(super) fn headers(&mut self, input: Option<u64>, output: Option<u64>) {
        let said = &mut self.reader.said;
        said.input_tokens = said.input_tokens.or(input);
        said.output_tokens = said.output_tokens.or(output);
    }

    /// Whether the stream said that it is at its end.
    pub(super) fn is_done(&self) -> bool {
        self.reader.done
    }

    /// All of the answer has left, or the call failed for the reason given.
    pub(super) fn finish(&mut self, error: Option<&'static str>, message: Option<String>) {
        let now = self.clock.now_ns();
        if let Some(end) = self.end_mut() {
            end.error = error;
            end.message = message;
            end.end_ns = now;
        }
        self.conclude();
    }

    /// The answer is complete, and was when its last chunk left: nothing marked it as the last.
    pub(super) fn finish_at_last_chunk(&mut self) {
        if let Some(end) = self.end_mut() {
            end.error = None;
            end.message = None;
        }
        self.conclude();
    }

    fn conclude(&mut self) {
        let mut said = std::mem::take(&mut self.reader.said);
        self.tell(said.output_tokens);
        let Some(mut end) = self.end.take() else { return };
        let has_chunks = self.told > 0;
        end.counted = match (said.output_tokens, self.reader.by()) {
            (Some(_), Counted::Chunks) if has_chunks => Some(Counted::Total),
            (Some(_), _) => Some(Counted::Usage),
            (None, by) if has_chunks => Some(by),
            (None, _) => None,
        };
        said.output_tokens = said.output_tokens.or(has_chunks.then_some(self.told));
        if end.error.is_none() && said.error.is_some() {
            end.error = Some("engine_error");
            end.message.clone_from(&said.error);
        }
        if end.error.is_some_and(|kind| CUT_OFF.contains(&kind)) && said.finish_reasons.is_empty() {
            said.finish_reasons.push("error".to_owned());
        }
        end.said = said;
        self.recorder.relayed(Relayed { asked: Arc::clone(&self.asked), marks: Vec::new(), end: Some(Box::new(end)) });
    }
}

/// Failures of the engine. Where it says no reason for the end itself, that is `error`, as OpenTelemetry's conventions have it.
const CUT_OFF: [&str; 3] = ["timeout", "upstream_unreachable", "engine_error"];
/// More choices than a call can have.
const CHOICES_MAX: usize = 128;

impl Drop for Follow {
    fn drop(&mut self) {
        if self.end.is_none() {
            return;
        }
        // The server does not ask for the end of a body whose last byte it has.
        if self.is_done() && !self.is_refused {
            self.finish(None, None);
        } else {
            let now = self.clock.now_ns();
            if let Some(end) = self.end_mut() {
                end.end_ns = now;
            }
            self.conclude();
        }
    }
}
