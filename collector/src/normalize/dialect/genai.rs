//! OpenTelemetry's GenAI conventions, both generations: `gen_ai.provider.name` with operation names since v1.37, and
//! `gen_ai.system` before. Client spans by convention, server spans where a gateway or engine follows it too.

use super::{Alias, Dialect, Field, Place, alias, ttft};

/// Operations that are one call of a model. Agents, tools and workflows contain calls and are none.
const CALLS: &[&str] = &["chat", "text_completion", "generate_content", "embeddings", "completion", "responses"];

/// Spans that say which operation they are.
pub(super) const CURRENT: Dialect = Dialect {
    name: "gen_ai",
    sign: "`gen_ai.operation.name` that names one call of a model",
    is_call: |seen| seen.text(Field::Operation).is_some_and(|operation| CALLS.contains(&operation)),
    engine: None,
    measured_at: Place::ByKind,
    ttft_definition: FIRST_CHUNK,
};

/// Spans from before operations had names: a model and a usage, and no sign of an agent or a tool.
pub(super) const OLD: Dialect = Dialect {
    name: "gen_ai_old",
    sign: "`gen_ai.system`, `gen_ai.provider.name` or `llm.request.type`, a model and tokens, no operation",
    is_call: |seen| {
        seen.text(Field::Operation).is_none()
            && (seen.has_key("gen_ai.system")
                || seen.has_key("gen_ai.provider.name")
                || seen.has_key("llm.request.type"))
            && (seen.has(Field::RequestModel) || seen.has(Field::ResponseModel))
            && (seen.has(Field::InputTokens) || seen.has(Field::OutputTokens))
    },
    engine: None,
    measured_at: Place::ByKind,
    ttft_definition: FIRST_CHUNK,
};

/// Arrival to the first chunk, with or without content.
const FIRST_CHUNK: &str = "first_chunk";

pub(super) const ALIASES: &[Alias] = &[
    ttft("gen_ai.response.time_to_first_chunk", FIRST_CHUNK),
    ttft("gen_ai.server.time_to_first_token", "server_first_token"),
    alias("gen_ai.server.time_per_output_token", Field::Tpot),
    alias("gen_ai.usage.total_tokens", Field::TotalTokens),
    alias("gen_ai.usage.cached_tokens", Field::CachedInputTokens),
    alias("gen_ai.usage.cache_read_input_tokens", Field::CachedInputTokens),
    alias("gen_ai.usage.cache_read_tokens", Field::CachedInputTokens),
    alias("gen_ai.usage.reasoning_tokens", Field::ReasoningTokens),
    alias("gen_ai.is_streaming", Field::Stream),
    alias("gen_ai.response.finish_reason", Field::FinishReason),
];
