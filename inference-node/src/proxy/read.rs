//! Reads along in an answer: what each chunk holds, how many tokens it is and how that is known, and what the answer says of itself.

use serde::Deserialize;
use serde::de::IgnoredAny;
use telemetry::openai::{DONE, Usage};

mod loose;

use super::dialect::{Form, Upstream};
use loose::Loose;

/// How the number of a chunk's tokens is known, from firm to weak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Counted {
    /// Each chunk is taken for one token: nothing said more.
    #[default]
    Chunks,
    /// The answer's usage said how many there were in all; chunks have shares of it.
    Total,
    /// The chunk lists its tokens, or is one by the engine's contract.
    Tokens,
    /// Usage came with every chunk.
    Usage,
}

impl Counted {
    /// As `tokenwatt.output_tokens_source` has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chunks => "chunks",
            Self::Total | Self::Usage => "usage",
            Self::Tokens => "tokens",
        }
    }
}

/// A chunk with content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) choice: u32,
    /// Tokens; `None` where nothing in the chunk says.
    pub(crate) tokens: Option<u32>,
    /// Length of its text, by which a total is shared out.
    pub(crate) bytes: u32,
}

/// What an answer over gRPC holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Output<'a> {
    pub(crate) model: Option<&'a str>,
    /// Length of its text.
    pub(crate) text_bytes: Option<usize>,
    pub(crate) tokens: Option<u64>,
    pub(crate) input_tokens: Option<u64>,
}

/// What an answer says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) id: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) input_tokens: Option<u64>,
    pub(crate) cached_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    pub(crate) reasoning_tokens: Option<u64>,
    pub(crate) finish_reasons: Vec<String>,
    /// An error inside an answer that had begun.
    pub(crate) error: Option<String>,
}

/// Longest text that is noted, in bytes, and most ends of choices.
const TEXT_BYTES_MAX: usize = 256;
const ENDS_MAX: usize = 128;

/// Reads one answer.
pub(crate) struct Reader {
    form: Form,
    single_tokens: bool,
    /// Whether usage so far can be of this one choice alone: engines disagree whose it is where there are several.
    has_one_choice: bool,
    /// Output tokens that usage had counted up to the last chunk.
    counted: u64,
    /// How the chunks so far were counted, the weakest of them.
    by: Option<Counted>,
    /// The frame that ends the stream has come.
    pub(crate) done: bool,
    pub(crate) said: Said,
}

/// The fields of a frame or of a whole answer, of all forms.
#[derive(Deserialize)]
struct Frame {
    id: Option<String>,
    #[serde(alias = "model_name")]
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    timings: Option<Timings>,
    token: Option<Token>,
    details: Option<Details>,
    #[serde(default, deserialize_with = "text_or_texts")]
    text_output: Option<String>,
    num_input_tokens: Option<u64>,
    num_output_tokens: Option<u64>,
    finish_reason: Option<String>,
    #[serde(default)]
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u32,
    delta: Option<Delta>,
    text: Option<String>,
    logprobs: Option<LogProbs>,
    token_ids: Option<Vec<IgnoredAny>>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    #[serde(alias = "reasoning")]
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<serde_json::Value>>,
}

/// Of chats a list of entries, of completions a list of tokens.
#[derive(Deserialize)]
struct LogProbs {
    content: Option<Vec<IgnoredAny>>,
    tokens: Option<Vec<IgnoredAny>>,
}

/// llama.cpp's.
#[derive(Deserialize)]
struct Timings {
    cache_n: Option<u64>,
    prompt_n: Option<u64>,
    predicted_n: Option<u64>,
}

/// TGI's.
#[derive(Deserialize)]
struct Token {
    text: String,
    #[serde(default)]
    special: bool,
}

#[derive(Deserialize)]
struct Details {
    finish_reason: Option<String>,
    generated_tokens: Option<u64>,
    input_length: Option<u64>,
    prefill: Option<Vec<IgnoredAny>>,
}

/// Triton writes one output as a text or as a list with it.
fn text_or_texts<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => Some(text),
        serde_json::Value::Array(texts) => Some(texts.iter().filter_map(serde_json::Value::as_str).collect()),
        _ => None,
    })
}

impl Reader {
    pub(crate) fn new(upstream: Upstream, form: Form, choices: u32) -> Self {
        let single_tokens = upstream.sends_single_tokens() || form == Form::Tgi;
        Self {
            form,
            single_tokens,
            has_one_choice: choices == 1,
            counted: 0,
            by: None,
            done: false,
            said: Said::default(),
        }
    }

    /// How all chunks were counted.
    pub(crate) fn by(&self) -> Counted {
        self.by.unwrap_or_default()
    }

    /// Whether a stream may end here. OpenAI's API says why each choice ends, and at last that all do; other forms promise less.
    pub(crate) fn may_end(&self) -> bool {
        let told = self.done || !self.said.finish_reasons.is_empty() || self.said.error.is_some();
        told || !self.form.is_openai()
    }

    /// Reads one frame of a stream.
    pub(crate) fn frame(&mut self, data: &[u8]) -> Vec<Chunk> {
        if data == DONE.as_bytes() {
            self.done = true;
            return Vec::new();
        }
        if matches!(self.form, Form::Other { .. }) {
            return Loose::read(data).and_then(|loose| self.loose(loose)).into_iter().collect();
        }
        let Ok(frame) = serde_json::from_slice::<Frame>(data) else { return Vec::new() };
        let mut chunks = match self.form {
            Form::Chat | Form::Completion => frame.choices.iter().filter_map(|choice| self.of_choice(choice)).collect(),
            Form::Tgi => frame.token.iter().filter_map(Self::of_token).collect(),
            Form::Kserve => Self::of_output(&frame).into_iter().collect::<Vec<_>>(),
            Form::Other { .. } => Vec::new(),
        };
        if let ([only], Some(so_far)) = (chunks.as_mut_slice(), self.so_far(&frame)) {
            // Tokens without text of their own ride on the next chunk that has some.
            only.tokens = u32::try_from(so_far.saturating_sub(self.counted)).ok();
            self.counted = self.counted.max(so_far);
            self.note(Counted::Usage);
        } else {
            for chunk in &chunks {
                self.note(if chunk.tokens.is_some() { Counted::Tokens } else { Counted::Chunks });
            }
        }
        self.tell(frame);
        chunks
    }

    /// Reads one answer of a stream over gRPC.
    pub(crate) fn output(&mut self, output: &Output<'_>) -> Option<Chunk> {
        let said = &mut self.said;
        let model = output.model.filter(|model| model.len() <= TEXT_BYTES_MAX).map(str::to_owned);
        said.model = said.model.take().or(model);
        said.input_tokens = output.input_tokens.or(said.input_tokens);
        said.output_tokens =
            output.tokens.map_or(said.output_tokens, |more| Some(said.output_tokens.unwrap_or(0) + more));
        let tokens = output.tokens.and_then(|tokens| u32::try_from(tokens).ok());
        let bytes = u32::try_from(output.text_bytes?).unwrap_or(u32::MAX);
        if bytes == 0 && tokens.unwrap_or(0) == 0 {
            return None;
        }
        self.note(if tokens.is_some() { Counted::Tokens } else { Counted::Chunks });
        Some(Chunk { choice: 0, tokens, bytes })
    }

    /// Takes what a frame of a path that is known little says.
    fn loose(&mut self, loose: Loose) -> Option<Chunk> {
        let said = &mut self.said;
        let short = |text: &String| text.len() <= TEXT_BYTES_MAX;
        said.id = said.id.take().or(loose.id.filter(short));
        said.model = said.model.take().or(loose.model.filter(short));
        said.input_tokens = loose.input_tokens.or(said.input_tokens);
        said.cached_tokens = loose.cached_tokens.or(said.cached_tokens);
        said.output_tokens = loose.output_tokens.or(said.output_tokens);
        said.error = said.error.take().or(loose.error.as_ref().map(error_text));
        self.done |= loose.is_last;
        let so_far = loose.so_far.filter(|_| self.has_one_choice);
        let fresh = so_far.map(|so_far| so_far.saturating_sub(self.counted));
        self.counted = self.counted.max(so_far.unwrap_or(0));
        if fresh.map_or(loose.text_bytes == 0, |fresh| fresh == 0) {
            return None;
        }
        self.note(if fresh.is_some() { Counted::Usage } else { Counted::Chunks });
        let tokens = fresh.and_then(|fresh| u32::try_from(fresh).ok());
        Some(Chunk { choice: 0, tokens, bytes: u32::try_from(loose.text_bytes).unwrap_or(u32::MAX) })
    }

    /// Reads a whole answer.
    pub(crate) fn whole(&mut self, body: &[u8]) {
        if matches!(self.form, Form::Other { .. }) {
            if let Some(loose) = Loose::read(body) {
                self.loose(loose);
                self.by = self.said.output_tokens.map(|_| Counted::Usage);
            }
            return;
        }
        // TGI answers `/` and a batch with a list.
        let frame = serde_json::from_slice::<Frame>(body)
            .or_else(|_| serde_json::from_slice::<[Frame; 1]>(body).map(|[only]| only));
        if let Ok(frame) = frame {
            self.tell(frame);
            if self.said.output_tokens.is_some() {
                self.by = Some(Counted::Usage);
            }
        }
    }

    fn note(&mut self, by: Counted) {
        self.by = Some(self.by.map_or(by, |before| before.min(by)));
    }

    /// Output tokens so far, where the frame says so.
    fn so_far(&self, frame: &Frame) -> Option<u64> {
        let of_usage = frame.usage.as_ref().map(|usage| usage.completion_tokens);
        let so_far = of_usage.or(frame.timings.as_ref().and_then(|timings| timings.predicted_n));
        so_far.filter(|_| self.has_one_choice)
    }

    fn of_choice(&self, choice: &Choice) -> Option<Chunk> {
        let delta = choice.delta.as_ref();
        let texts = [
            choice.text.as_deref(),
            delta.and_then(|delta| delta.content.as_deref()),
            delta.and_then(|delta| delta.reasoning_content.as_deref()),
        ];
        let bytes: usize = texts.into_iter().flatten().map(str::len).sum();
        let calls = delta.and_then(|delta| delta.tool_calls.as_deref()).unwrap_or_default();
        let bytes = bytes + calls.iter().map(call_bytes).sum::<usize>();
        let ids = choice.token_ids.as_ref().map(Vec::len);
        let logged = choice.logprobs.as_ref().and_then(|logged| logged.content.as_ref().or(logged.tokens.as_ref()));
        let listed = ids.or(logged.map(Vec::len)).filter(|listed| *listed > 0);
        if bytes == 0 && calls.is_empty() && listed.is_none() {
            return None;
        }
        let tokens = listed.and_then(|listed| u32::try_from(listed).ok()).or(self.single_tokens.then_some(1));
        Some(Chunk { choice: choice.index, tokens, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) })
    }

    fn of_token(token: &Token) -> Option<Chunk> {
        // A special token ends the text; TGI counts it among those generated.
        let bytes = if token.special { 0 } else { token.text.len() };
        Some(Chunk { choice: 0, tokens: Some(1), bytes: u32::try_from(bytes).unwrap_or(u32::MAX) })
    }

    fn of_output(frame: &Frame) -> Option<Chunk> {
        let text = frame.text_output.as_deref()?;
        let tokens = frame.num_output_tokens.and_then(|tokens| u32::try_from(tokens).ok());
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        (bytes > 0 || tokens.is_some_and(|tokens| tokens > 0)).then_some(Chunk { choice: 0, tokens, bytes })
    }

    /// Notes what the frame says of the answer.
    fn tell(&mut self, frame: Frame) {
        let said = &mut self.said;
        let short = |text: &String| text.len() <= TEXT_BYTES_MAX;
        said.id = said.id.take().or(frame.id.filter(short));
        said.model = said.model.take().or(frame.model.filter(short));
        if let Some(usage) = frame.usage {
            said.input_tokens = Some(usage.prompt_tokens);
            said.output_tokens = Some(usage.completion_tokens);
            said.cached_tokens = usage.prompt_tokens_details.and_then(|details| details.cached_tokens);
            said.reasoning_tokens = usage.completion_tokens_details.and_then(|details| details.reasoning_tokens);
        } else if let Some(timings) = frame.timings {
            // llama.cpp counts the prompt's cached tokens apart.
            let input = timings.prompt_n.map(|fresh| fresh + timings.cache_n.unwrap_or(0));
            said.input_tokens = said.input_tokens.or(input);
            said.cached_tokens = said.cached_tokens.or(timings.cache_n);
            said.output_tokens = timings.predicted_n.or(said.output_tokens);
        }
        let mut ends: Vec<String> = frame.choices.into_iter().filter_map(|choice| choice.finish_reason).collect();
        if let Some(details) = frame.details {
            said.output_tokens = details.generated_tokens.or(said.output_tokens);
            let prefill = details.prefill.filter(|tokens| !tokens.is_empty()).map(|tokens| tokens.len() as u64);
            said.input_tokens = details.input_length.or(prefill).or(said.input_tokens);
            ends.extend(details.finish_reason);
        }
        if self.form == Form::Kserve {
            said.input_tokens = frame.num_input_tokens.or(said.input_tokens);
            said.output_tokens = match (said.output_tokens, frame.num_output_tokens) {
                (Some(before), Some(more)) => Some(before + more),
                (before, more) => before.or(more),
            };
            ends.extend(frame.finish_reason.filter(|reason| reason != "None"));
        }
        let room = ENDS_MAX.saturating_sub(said.finish_reasons.len());
        said.finish_reasons.extend(ends.into_iter().filter(short).take(room));
        if let Some(error) = frame.error.filter(|error| !error.is_null()) {
            said.error = Some(error_text(&error));
        }
    }
}

/// What an error says, cut to a bounded length.
fn error_text(error: &serde_json::Value) -> String {
    let text = error.get("message").unwrap_or(error);
    let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
    text.chars().take(TEXT_BYTES_MAX).collect()
}

/// Length of what a part of a call to a tool holds: the tool's name, and a piece of its arguments.
fn call_bytes(call: &serde_json::Value) -> usize {
    let texts = ["/function/name", "/function/arguments"].map(|path| call.pointer(path).and_then(|text| text.as_str()));
    texts.into_iter().flatten().map(str::len).sum()
}

#[cfg(test)]
mod tests;
