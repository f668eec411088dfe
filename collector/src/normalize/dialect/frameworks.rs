//! Gateways and client frameworks: LiteLLM, OpenLLMetry, OpenInference, Vercel AI SDK.

use super::{Alias, Dialect, Field, Place, alias, millis};

/// LiteLLM's proxy. Its spans around the call and of the raw provider call describe the same call and are left out.
pub(super) const LITELLM: Dialect = Dialect {
    name: "litellm",
    sign: "span `litellm_request`",
    is_call: |seen| seen.span.name == "litellm_request",
    engine: None,
    measured_at: Place::Gateway,
    ttft_definition: "first_chunk",
};

/// OpenInference's LLM spans.
pub(super) const OPENINFERENCE: Dialect = Dialect {
    name: "openinference",
    sign: "`openinference.span.kind` = `LLM`",
    is_call: |seen| seen.raw_text("openinference.span.kind") == Some("LLM"),
    engine: None,
    measured_at: Place::ByKind,
    ttft_definition: "first_chunk",
};

/// Vercel's provider spans; the spans around them add up several calls.
pub(super) const VERCEL: Dialect = Dialect {
    name: "vercel_ai",
    sign: "span `ai.*.do*` with a model",
    is_call: |seen| {
        seen.span.name.starts_with("ai.") && seen.span.name.contains(".do") && seen.has(Field::RequestModel)
    },
    engine: None,
    measured_at: Place::ByKind,
    ttft_definition: "first_chunk",
};

pub(super) const ALIASES: &[Alias] = &[
    alias("llm.usage.prompt_tokens", Field::InputTokens),
    alias("llm.token_count.prompt", Field::InputTokens),
    alias("ai.usage.promptTokens", Field::InputTokens),
    alias("ai.usage.inputTokens", Field::InputTokens),
    alias("llm.usage.completion_tokens", Field::OutputTokens),
    alias("llm.token_count.completion", Field::OutputTokens),
    alias("ai.usage.completionTokens", Field::OutputTokens),
    alias("ai.usage.outputTokens", Field::OutputTokens),
    alias("llm.usage.total_tokens", Field::TotalTokens),
    alias("llm.token_count.total", Field::TotalTokens),
    alias("ai.usage.totalTokens", Field::TotalTokens),
    alias("ai.usage.cachedInputTokens", Field::CachedInputTokens),
    alias("llm.token_count.prompt_details.cache_read", Field::CachedInputTokens),
    alias("ai.usage.reasoningTokens", Field::ReasoningTokens),
    alias("llm.token_count.completion_details.reasoning", Field::ReasoningTokens),
    millis("ai.response.msToFirstChunk", Field::Ttft, "first_chunk"),
    millis("ai.response.msToFinish", Field::E2e, ""),
    alias("llm.is_streaming", Field::Stream),
    alias("llm.model_name", Field::RequestModel),
    alias("ai.model.id", Field::RequestModel),
    alias("litellm.provider.model", Field::ResponseModel),
    alias("ai.response.model", Field::ResponseModel),
    alias("ai.response.id", Field::RequestId),
    alias("litellm.call_id", Field::RequestId),
    alias("ai.response.finishReason", Field::FinishReason),
    alias("litellm.team.id", Field::Tenant),
    alias("llm.request.type", Field::Operation),
];
