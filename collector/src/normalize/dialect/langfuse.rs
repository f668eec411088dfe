//! Langfuse's SDKs, also as LangChain's callback: a type for every observation, usage as a JSON object, and the instant of the
//! first token instead of a duration.
//!
//! The parts of its usage are disjoint: what came from a cache is not in `input`. That shows in the total, if it is sent.

use telemetry::names;

use super::field::{Alias, Field, alias, instant};
use super::{Dialect, Verdict, call_or_none};

pub(super) const DIALECT: Dialect = Dialect {
    ttft_definition: "completion_start",
    aliases: ALIASES,
    usage: USAGE,
    gives: "model input_tokens cached_input_tokens output_tokens reasoning_tokens ttft_s tpot_s e2e_s",
    ..Dialect::new("langfuse", "`langfuse.observation.type` = `generation` or `embedding`", |sight| {
        let Some(kind) = sight.text(KIND) else { return Verdict::Foreign };
        call_or_none(matches!(kind, "generation" | "embedding"))
    })
};

const KIND: &str = "langfuse.observation.type";

const ALIASES: &[Alias] = &[
    alias(names::OPERATION, Field::Operation),
    alias(KIND, Field::Operation),
    alias("langfuse.observation.model.name", Field::RequestModel),
    alias("langfuse.observation.usage_details", Field::Usage),
    instant("langfuse.observation.completion_start_time", Field::Ttft),
];

const USAGE: &[Alias] = &[
    alias("input", Field::InputTokens),
    alias("prompt_tokens", Field::InputTokens),
    alias("output", Field::OutputTokens),
    alias("completion_tokens", Field::OutputTokens),
    alias("total", Field::TotalTokens),
    alias("total_tokens", Field::TotalTokens),
    alias("input_cached_tokens", Field::CachedInputTokens),
    alias("input_cache_read", Field::CachedInputTokens),
    alias("cache_read_input_tokens", Field::CachedInputTokens),
    alias("input_cache_creation", Field::CacheWriteTokens),
    alias("cache_creation_input_tokens", Field::CacheWriteTokens),
    alias("output_reasoning_tokens", Field::ReasoningTokens),
    alias("output_reasoning", Field::ReasoningTokens),
];
