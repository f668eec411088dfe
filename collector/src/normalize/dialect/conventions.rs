//! Names that several emitters share: what our own nodes send, OpenTelemetry's GenAI conventions of both generations, and the
//! older names of their predecessors.

use telemetry::names;

use super::field::{Alias, Field, alias, ttft};

pub(super) const ALIASES: &[Alias] = &[
    alias(names::REQUEST_MODEL, Field::RequestModel),
    alias(names::RESPONSE_MODEL, Field::ResponseModel),
    alias(names::REQUEST_ID, Field::RequestId),
    alias(names::RESPONSE_ID, Field::RequestId),
    alias(names::OPERATION, Field::Operation),
    alias(names::REQUEST_STREAM, Field::Stream),
    alias(names::INPUT_TOKENS, Field::InputTokens),
    alias(names::OUTPUT_TOKENS, Field::OutputTokens),
    alias(names::CACHED_INPUT_TOKENS, Field::CachedInputTokens),
    alias("gen_ai.usage.cache_creation.input_tokens", Field::CacheWriteTokens),
    alias(names::REASONING_TOKENS, Field::ReasoningTokens),
    alias(names::LATENCY_TTFT, Field::Ttft),
    alias(names::LATENCY_E2E, Field::E2e),
    alias(names::LATENCY_QUEUE, Field::Queue),
    alias(names::LATENCY_PREFILL, Field::Prefill),
    alias(names::LATENCY_DECODE, Field::Decode),
    alias(names::ITL_MAX, Field::ItlMax),
    alias(names::FINISH_REASONS, Field::FinishReason),
    alias(names::TENANT, Field::Tenant),
    alias(names::DEVICE_US_PREFILL, Field::DeviceUsPrefill),
    alias(names::DEVICE_US_DECODE, Field::DeviceUsDecode),
    alias(names::TOKEN_SAMPLING, Field::TokenSampling),
    alias(names::MEASURED_AT, Field::MeasuredAt),
    alias(names::TTFT_DEFINITION, Field::TtftDefinition),
    alias(names::ENGINE, Field::Engine),
    alias(names::ACCELERATOR, Field::Accelerator),
    alias(names::QUANTIZATION, Field::Quantization),
    alias(names::TENSOR_PARALLEL, Field::TensorParallel),
    alias(names::ERROR_TYPE, Field::ErrorType),
    ttft("gen_ai.response.time_to_first_chunk", super::FIRST_CHUNK),
    ttft("gen_ai.server.time_to_first_token", "server_first_token"),
    alias("gen_ai.server.time_per_output_token", Field::Tpot),
    alias("gen_ai.usage.prompt_tokens", Field::InputTokens),
    alias("gen_ai.usage.completion_tokens", Field::OutputTokens),
    alias("gen_ai.usage.total_tokens", Field::TotalTokens),
    alias("gen_ai.usage.cached_tokens", Field::CachedInputTokens),
    alias("gen_ai.usage.cache_read_input_tokens", Field::CachedInputTokens),
    alias("gen_ai.usage.cache_read_tokens", Field::CachedInputTokens),
    alias("gen_ai.usage.cache_write.input_tokens", Field::CacheWriteTokens),
    alias("gen_ai.usage.cache_write_tokens", Field::CacheWriteTokens),
    alias("gen_ai.usage.cache_creation_input_tokens", Field::CacheWriteTokens),
    alias("gen_ai.usage.reasoning_tokens", Field::ReasoningTokens),
    alias("gen_ai.is_streaming", Field::Stream),
    alias("llm.is_streaming", Field::Stream),
    alias("gen_ai.response.finish_reason", Field::FinishReason),
    alias("gen_ai.completion.0.finish_reason", Field::FinishReason),
    alias("llm.usage.prompt_tokens", Field::InputTokens),
    alias("llm.usage.completion_tokens", Field::OutputTokens),
    alias("llm.usage.total_tokens", Field::TotalTokens),
    alias("llm.request.type", Field::Operation),
];

/// What other names of operations are called in the conventions; empty for one that says nothing.
const OPERATIONS: &[(&str, &str)] = &[
    ("completion", "text_completion"),
    ("embedding", "embeddings"),
    ("EMBEDDING", "embeddings"),
    ("LLM", ""),
    ("generation", ""),
];

/// The conventions' name of an operation, if it says anything.
pub(in crate::normalize) fn operation(sent: &str) -> Option<&str> {
    let known = OPERATIONS.iter().find(|(name, _)| *name == sent).map(|(_, known)| *known);
    Some(known.unwrap_or(sent)).filter(|name| !name.is_empty())
}
