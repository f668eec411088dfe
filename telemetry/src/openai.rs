//! The wire types of OpenAI's chat and text completions, as node and gateway speak them.
//!
//! Requests accept unknown fields, as clients of that API expect; known fields that change the
//! meaning of an answer and that we do not serve are kept as [`Value`]s so that the node can
//! refuse them by name instead of answering something else. Answers carry exactly the fields that
//! the public clients read. All times are Unix seconds.

mod answer;

pub use answer::{
    Answer, AnswerMessage, ApiFault, Choice, ErrorBody, Model, ModelList, OutputDetails, PromptDetails, Usage,
    UsageField,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The last frame of a stream, after every chunk.
pub const DONE: &str = "[DONE]";
/// `object` of a chat answer.
pub const CHAT_COMPLETION: &str = "chat.completion";
/// `object` of a piece of a streamed chat answer.
pub const CHAT_CHUNK: &str = "chat.completion.chunk";
/// `object` of a text answer, whole or streamed.
pub const TEXT_COMPLETION: &str = "text_completion";

/// Body of `POST /v1/chat/completions`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ChatRequest {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Settings shared with text completions.
    #[serde(flatten)]
    pub options: Options,
    /// Newer name of `max_tokens`; wins over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_completion_tokens: Option<u32>,
    /// Tool definitions (not served).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Value>,
    /// Which tool to call (not served, `none` and `auto` aside).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    /// Shape of the answer; only `{"type": "text"}` is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<Value>,
    /// Output modalities; only `["text"]` is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modalities: Option<Value>,
}

/// Body of `POST /v1/completions`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CompletionRequest {
    /// Text to continue.
    pub prompt: Prompt,
    /// Settings shared with chat completions.
    #[serde(flatten)]
    pub options: Options,
    /// Repeat the prompt before the answer (not served when true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<bool>,
    /// Text after the gap to fill (not served).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suffix: Option<Value>,
    /// Generate more and keep the best (not served above `n`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_of: Option<u32>,
}

/// What both kinds of request share.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Options {
    /// Model name.
    #[serde(default)]
    pub model: String,
    /// Most tokens to generate per choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// 0 (greedy) to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus share in (0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Keep the k likeliest tokens; an extension of the field's open engines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<i64>,
    /// Choices to generate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// Seed of the random numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Answer as server-sent events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// What a stream carries besides text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_options: Option<StreamOptions>,
    /// Up to four texts that end the answer and are not part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// Go on past the end-of-sequence token; an extension of the field's open engines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_eos: Option<bool>,
    /// Log probabilities: a flag in a chat, a number of alternatives in a text completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Value>,
    /// Alternatives whose log probabilities a chat names beside each token, 0 to 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<u32>,
    /// Bias per token (not served unless empty).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logit_bias: Option<Value>,
    /// Penalty on tokens that the answer holds, -2 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// Penalty on tokens for each time that the answer holds them, -2 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// Lower is more urgent; an extension of the field's open engines. Below 0 from a caller of the fleet only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Penalty on tokens of prompt and answer, a divisor; an extension of the field's open engines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition_penalty: Option<f64>,
    /// Keep tokens this likely beside the likeliest, 0 to 1; an extension of the field's open engines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_p: Option<f64>,
    /// The client's own name for its user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// All other fields of the request. Those in [`UNSERVED`] must not be ignored.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Fields of this API, of its older versions and of open engines that ask for another answer than one without them, and that are
/// not served: calls of functions, output of a given shape, other ways to pick tokens and to end.
pub const UNSERVED: [&str; 19] = [
    "functions",
    "audio",
    "web_search_options",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "json_schema",
    "regex",
    "ebnf",
    "grammar",
    "stop_token_ids",
    "min_tokens",
    "use_beam_search",
    "prompt_logprobs",
    "truncate_prompt_tokens",
    "continue_final_message",
    "prompt_embeds",
];

/// What a stream carries besides text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct StreamOptions {
    /// One more chunk at the end, with `usage` and no choices.
    #[serde(default)]
    pub include_usage: bool,
    /// `usage` so far on every chunk; an extension of the field's open engines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continuous_usage_stats: bool,
}

/// One stop text or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Stop {
    /// One text.
    One(String),
    /// Several texts.
    Many(Vec<String>),
}

impl Stop {
    /// The texts.
    pub fn texts(&self) -> &[String] {
        match self {
            Stop::One(text) => std::slice::from_ref(text),
            Stop::Many(texts) => texts,
        }
    }
}

/// A prompt of a text completion.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Prompt {
    /// One text.
    Text(String),
    /// Several texts, each with its own choices.
    Texts(Vec<String>),
    /// Token ids (not served).
    Other(Value),
}

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Message {
    /// `system`, `developer`, `user` or `assistant`.
    pub role: String,
    /// What was said; absent on some assistant messages.
    #[serde(default)]
    pub content: Option<Content>,
    /// Tool calls of an assistant message (not served).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Value>,
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Typed parts; only `text` parts are served.
    Parts(Vec<Part>),
}

/// One part of a message.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Part {
    /// `text`, `image_url`, `input_audio`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The text of a `text` part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Content {
    /// The text, or the kind of the first part that has none.
    ///
    /// # Errors
    /// The kind of a part that is not text.
    pub fn text(&self) -> Result<String, String> {
        match self {
            Content::Text(text) => Ok(text.clone()),
            Content::Parts(parts) => {
                let mut text = String::new();
                for part in parts {
                    match (&part.text, part.kind.as_str()) {
                        (Some(piece), "text") => text.push_str(piece),
                        _ => return Err(part.kind.clone()),
                    }
                }
                Ok(text)
            }
        }
    }
}

#[cfg(test)]
mod tests;
