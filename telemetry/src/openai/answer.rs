//! Answers: whole ones, pieces of streamed ones, model lists and errors.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Tokens of a call. Cached and reasoning tokens are parts of the sums, never to be added again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Usage {
    /// Prompt tokens, cached ones included.
    pub prompt_tokens: u64,
    /// Output tokens of all choices.
    pub completion_tokens: u64,
    /// Both together.
    pub total_tokens: u64,
    /// Parts of the prompt tokens, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_details: Option<PromptDetails>,
    /// Parts of the output tokens, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens_details: Option<OutputDetails>,
}

impl Usage {
    /// Usage of `prompt` and `output` tokens without known parts.
    pub fn new(prompt: u64, output: u64) -> Self {
        Self { prompt_tokens: prompt, completion_tokens: output, total_tokens: prompt + output, ..Self::default() }
    }
}

/// Parts of the prompt tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PromptDetails {
    /// Read from a prefix cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
}

/// Parts of the output tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct OutputDetails {
    /// Spent on reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

/// A whole answer, or one chunk of a stream.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Answer {
    /// The same in every chunk of an answer.
    pub id: String,
    /// [`super::CHAT_COMPLETION`], [`super::CHAT_CHUNK`] or [`super::TEXT_COMPLETION`].
    pub object: String,
    /// Unix seconds.
    pub created: i64,
    /// Model that answered.
    pub model: String,
    /// The choices, or none in the usage chunk.
    pub choices: Vec<Choice>,
    /// On whole answers and the usage chunk; `null` on other chunks when usage was asked for.
    #[serde(default, skip_serializing_if = "UsageField::is_absent")]
    pub usage: UsageField,
}

/// `usage` of an answer: OpenAI tells an absent field from a `null` one.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum UsageField {
    /// The field is not there.
    #[default]
    Absent,
    /// The field is `null`.
    Null,
    /// The field has a value.
    Known(Usage),
}

impl UsageField {
    /// Whether the field is to be left out.
    pub fn is_absent(&self) -> bool {
        matches!(self, UsageField::Absent)
    }

    /// The usage, if there is one.
    pub fn known(&self) -> Option<&Usage> {
        match self {
            UsageField::Known(usage) => Some(usage),
            UsageField::Absent | UsageField::Null => None,
        }
    }
}

impl Serialize for UsageField {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.known().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for UsageField {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Option::<Usage>::deserialize(deserializer)? {
            Some(usage) => UsageField::Known(usage),
            None => UsageField::Null,
        })
    }
}

/// One choice of an answer or chunk. Exactly one of `message`, `delta` and `text` is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Choice {
    /// From 0.
    pub index: u32,
    /// Whole chat answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<AnswerMessage>,
    /// Piece of a chat answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<AnswerMessage>,
    /// Text answer or piece of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Log probabilities, in the shape of a chat or of a text completion; `null` where none were asked for.
    #[serde(default)]
    pub logprobs: Option<Value>,
    /// `stop`, `length`, …; `null` until the end.
    #[serde(default)]
    pub finish_reason: Option<String>,
}

/// What the assistant says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AnswerMessage {
    /// `assistant`, in the first piece and in whole answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Reasoning text of the models that show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
}

/// Answer of `GET /v1/models`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ModelList {
    /// Always `list`.
    pub object: String,
    /// The models.
    pub data: Vec<Model>,
}

/// One model of `GET /v1/models`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Model {
    /// Name to put into `model`.
    pub id: String,
    /// Always `model`.
    pub object: String,
    /// Unix seconds.
    pub created: i64,
    /// Who serves it.
    pub owned_by: String,
    /// Longest sequence in tokens, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u64>,
    /// What a simulated model is calibrated on, and how well; absent on a real one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<String>,
}

/// Body of every failed call, and of an error inside a stream.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ApiFault,
}

/// An error in OpenAI's shape.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ApiFault {
    /// What went wrong, for people.
    pub message: String,
    /// Class, such as `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The field at fault, if one is.
    #[serde(default)]
    pub param: Option<String>,
    /// Code for programs, such as `model_not_found`.
    #[serde(default)]
    pub code: Option<String>,
}
