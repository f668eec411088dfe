//! What emitters call things. Each file is one family of emitters; the tables are the whole knowledge.
//!
//! An alias maps an attribute to a field of a call and says in which unit it comes. Where several are sent for one field
//! (both generations of a convention, or a framework's copy), the one listed first holds and the rest stay attributes.

mod engines;
mod frameworks;
mod genai;
mod ours;
mod vllm;

use std::collections::HashMap;

use super::request::Seen;

/// A field of an inference call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Field {
    /// Model asked for.
    RequestModel,
    /// Model that answered.
    ResponseModel,
    /// Id of the call.
    RequestId,
    /// Kind of call.
    Operation,
    /// Whether the answer is streamed.
    Stream,
    /// Prompt tokens.
    InputTokens,
    /// Prompt tokens from a cache.
    CachedInputTokens,
    /// Generated tokens.
    OutputTokens,
    /// Reasoning tokens.
    ReasoningTokens,
    /// Input and output together, as the emitter counts them.
    TotalTokens,
    /// Waiting until first scheduled.
    Queue,
    /// First scheduled to first token.
    Prefill,
    /// First to last token.
    Decode,
    /// Arrival to first token.
    Ttft,
    /// Time per output token.
    Tpot,
    /// Longest gap between tokens.
    ItlMax,
    /// Arrival to last token.
    E2e,
    /// Device time of prefill, microseconds.
    DeviceUsPrefill,
    /// Device time of decode, microseconds.
    DeviceUsDecode,
    /// What failed.
    ErrorType,
    /// Why generation ended.
    FinishReason,
    /// For whom the call is served.
    Tenant,
    /// Share of requests whose tokens are sent.
    TokenSampling,
    /// Where the call was measured.
    MeasuredAt,
    /// What the emitter calls its first token.
    TtftDefinition,
    /// Inference engine.
    Engine,
    /// Accelerator model.
    Accelerator,
    /// Weight format.
    Quantization,
    /// Tensor parallel degree.
    TensorParallel,
    /// Not stored in a column: tells emitters apart.
    Mark,
}

impl Field {
    /// The column of `requests` that holds it; empty for what only helps to read the others.
    pub fn column(self) -> &'static str {
        match self {
            Field::RequestModel | Field::ResponseModel => "model",
            Field::RequestId => "request_id",
            Field::Operation => "operation",
            Field::Stream => "stream",
            Field::InputTokens => "input_tokens",
            Field::CachedInputTokens => "cached_input_tokens",
            Field::OutputTokens => "output_tokens",
            Field::ReasoningTokens => "reasoning_tokens",
            Field::Queue => "queue_s",
            Field::Prefill => "prefill_s",
            Field::Decode => "decode_s",
            Field::Ttft => "ttft_s",
            Field::Tpot => "tpot_s",
            Field::ItlMax => "itl_max_s",
            Field::E2e => "e2e_s",
            Field::DeviceUsPrefill => "device_us_prefill",
            Field::DeviceUsDecode => "device_us_decode",
            Field::ErrorType => "error_type",
            Field::FinishReason => "finish_reason",
            Field::Tenant => "tenant",
            Field::TokenSampling => "token_sampling",
            Field::MeasuredAt => "measured_at",
            Field::TtftDefinition => "ttft_definition",
            Field::Engine => "engine",
            Field::Accelerator => "accelerator",
            Field::Quantization => "quantization",
            Field::TensorParallel => "tensor_parallel",
            Field::TotalTokens | Field::Mark => "",
        }
    }
}

/// How many fields a call has.
pub const FIELDS: usize = Field::Mark as usize + 1;

/// In which unit a number comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// As the column has it.
    One,
    /// Multiplied by this.
    Times(f64),
    /// Text that Rust prints for a duration: `1.5ms`, `830µs`, `2s`.
    RustDuration,
}

/// An attribute that means a field.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// The attribute's key.
    pub key: &'static str,
    /// What it means.
    pub field: Field,
    /// Its unit.
    pub scale: Scale,
    /// For a time to first token: what the emitter measures.
    pub definition: &'static str,
}

/// An emitter of calls.
pub struct Dialect {
    /// Name of the dialect.
    pub name: &'static str,
    /// By which sign a span is known, in words.
    pub sign: &'static str,
    /// Whether a span is a call in it.
    pub is_call: fn(&Seen<'_>) -> bool,
    /// The engine, where the dialect is one engine's.
    pub engine: Option<&'static str>,
    /// Where the call is measured when the span does not say.
    pub measured_at: Place,
    /// What its first token is when neither the span nor the alias says.
    pub ttft_definition: &'static str,
}

/// Where a call is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the engine, whatever the span's kind.
    Server,
    /// In a gateway, whatever the span's kind.
    Gateway,
    /// By the span's kind: SERVER at the server, else at the client.
    ByKind,
    /// By the span's kind: SERVER at the server, else in a gateway.
    ServerOrGateway,
}

/// Dialects in the order in which they are asked.
pub const DIALECTS: &[&Dialect] = &[
    &ours::DIALECT,
    &vllm::V0,
    &vllm::V1,
    &engines::SGLANG,
    &engines::DYNAMO,
    &engines::TGI,
    &frameworks::LITELLM,
    &genai::CURRENT,
    &genai::OLD,
    &frameworks::OPENINFERENCE,
    &frameworks::VERCEL,
];

/// Alias tables in the order in which they hold.
const TABLES: &[&[Alias]] = &[ours::ALIASES, genai::ALIASES, vllm::ALIASES, engines::ALIASES, frameworks::ALIASES];

/// Events that mark the first token, and what they mean.
pub const FIRST_TOKEN_EVENTS: &[&str] =
    &["gen_ai.content.chunk", "first_token", "llm.first_token", "First Token Stream Event", "ai.stream.firstChunk"];

/// All aliases by key.
pub struct Aliases {
    by_key: HashMap<&'static str, Ranked>,
}

/// An alias and its place in the order.
pub type Ranked = (u16, &'static Alias);

impl Aliases {
    /// Gathers the tables.
    pub fn new() -> Self {
        let mut by_key = HashMap::new();
        for (rank, alias) in TABLES.iter().flat_map(|table| table.iter()).enumerate() {
            by_key.entry(alias.key).or_insert((u16::try_from(rank).unwrap_or(u16::MAX), alias));
        }
        Self { by_key }
    }

    /// What an attribute means.
    #[inline]
    pub fn get(&self, key: &str) -> Option<Ranked> {
        self.by_key.get(key).copied()
    }
}

impl Default for Aliases {
    fn default() -> Self {
        Self::new()
    }
}

/// Every alias, for `docs/dialects.md`: key, field, unit.
pub fn table() -> impl Iterator<Item = &'static Alias> {
    TABLES.iter().flat_map(|table| table.iter())
}

const fn alias(key: &'static str, field: Field) -> Alias {
    Alias { key, field, scale: Scale::One, definition: "" }
}

const fn millis(key: &'static str, field: Field, definition: &'static str) -> Alias {
    Alias { key, field, scale: Scale::Times(0.001), definition }
}

const fn ttft(key: &'static str, definition: &'static str) -> Alias {
    Alias { key, field: Field::Ttft, scale: Scale::One, definition }
}

const fn rust_duration(key: &'static str, field: Field) -> Alias {
    Alias { key, field, scale: Scale::RustDuration, definition: "" }
}
