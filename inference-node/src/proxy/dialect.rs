//! What each engine speaks, and what it is asked for so that tokens can be told from chunks.

use serde::{Deserialize, Serialize};

/// An engine behind the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Upstream {
    /// vLLM's OpenAI server.
    Vllm,
    /// SGLang's OpenAI server.
    Sglang,
    /// Hugging Face TGI: `/generate`, `/generate_stream`, and OpenAI's paths.
    Tgi,
    /// Triton: KServe's generate extension over HTTP, and KServe gRPC.
    Triton,
    /// llama.cpp's server.
    LlamaCpp,
    /// Text Generation WebUI with `--api`.
    TextGenerationWebui,
    /// Another node of ours.
    Tokenwatt,
    /// Anything else that speaks OpenAI's API.
    #[default]
    Openai,
}

/// A member that is added to a request, and the one that the answer has of it, which is taken out again unless the client asked
/// for it too.
pub(super) struct Extra {
    /// Name in the request.
    pub(super) key: &'static str,
    pub(super) asks: Asks,
    /// Name in every chunk.
    pub(super) strip: &'static str,
    /// Whether a chunk may come that holds nothing else.
    pub(super) brings_chunk: bool,
}

/// What the member is set to.
pub(super) enum Asks {
    /// JSON.
    Member(&'static str),
    /// An object in which these are true.
    Options(&'static [&'static str]),
}

const USAGE_WITH_EVERY_CHUNK: Extra = Extra {
    key: "stream_options",
    asks: Asks::Options(&["include_usage", "continuous_usage_stats"]),
    strip: "usage",
    brings_chunk: true,
};
const USAGE_AT_THE_END: Extra =
    Extra { key: "stream_options", asks: Asks::Options(&["include_usage"]), strip: "usage", brings_chunk: true };
const TIMINGS_WITH_EVERY_CHUNK: Extra =
    Extra { key: "timings_per_token", asks: Asks::Member("true"), strip: "timings", brings_chunk: false };

impl Upstream {
    /// As telemetry names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Tgi => "tgi",
            Self::Triton => "triton",
            Self::LlamaCpp => "llama.cpp",
            Self::TextGenerationWebui => "text_generation_webui",
            Self::Tokenwatt => "tokenwatt",
            Self::Openai => "openai",
        }
    }

    /// What a streamed call over OpenAI's paths is asked for beyond what its client asked.
    pub(super) fn extras(self) -> &'static [Extra] {
        match self {
            Self::Vllm | Self::Sglang | Self::Tokenwatt => &[USAGE_WITH_EVERY_CHUNK],
            Self::LlamaCpp => &[USAGE_AT_THE_END, TIMINGS_WITH_EVERY_CHUNK],
            Self::Tgi | Self::TextGenerationWebui => &[USAGE_AT_THE_END],
            Self::Triton | Self::Openai => &[],
        }
    }

    /// Whether each chunk with text is one token, by the engine's own contract.
    pub(super) fn sends_single_tokens(self) -> bool {
        self == Self::Tgi
    }
}

/// The form of a call and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completion,
    /// TGI's `/generate` and `/generate_stream`.
    Tgi,
    /// KServe's `/v2/models/…/generate` and `/generate_stream`.
    Kserve,
    /// Another path that generates: what its answers share is read.
    Other { is_chat: bool },
}

/// Paths of chats beside the first: OpenAI's responses, Anthropic's messages, Ollama's chats.
const OTHER_CHATS: [&str; 3] = ["/v1/responses", "/v1/messages", "/api/chat"];
/// Paths of texts beside the first: of llama.cpp, of vLLM with token ids, of Ollama, of SageMaker, of speech.
const OTHER_TEXTS: [&str; 8] = [
    "/completion",
    "/completions",
    "/infill",
    "/inference/v1/generate",
    "/api/generate",
    "/invocations",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
];

impl Form {
    /// The form of an engine's path, and the model that the path names; `None` where a call makes no tokens.
    pub(super) fn of(upstream: Upstream, path: &str) -> Option<(Self, Option<&str>)> {
        match path {
            "/v1/chat/completions" | "/chat/completions" => Some((Self::Chat, None)),
            "/v1/completions" => Some((Self::Completion, None)),
            "/generate" if upstream == Upstream::Sglang => Some((Self::Other { is_chat: false }, None)),
            "/" | "/generate" | "/generate_stream" => Some((Self::Tgi, None)),
            chat if OTHER_CHATS.contains(&chat) => Some((Self::Other { is_chat: true }, None)),
            text if OTHER_TEXTS.contains(&text) => Some((Self::Other { is_chat: false }, None)),
            _ => {
                let (model, rest) = path.strip_prefix("/v2/models/")?.split_once('/')?;
                match rest.rsplit('/').next()? {
                    "generate" | "generate_stream" => Some((Self::Kserve, Some(model))),
                    "infer" => Some((Self::Other { is_chat: false }, Some(model))),
                    _ => None,
                }
            }
        }
    }

    pub(super) fn operation(self) -> &'static str {
        match self {
            Self::Chat | Self::Other { is_chat: true } => "chat",
            _ => "text_completion",
        }
    }

    pub(super) fn is_openai(self) -> bool {
        matches!(self, Self::Chat | Self::Completion)
    }
}
