//! OpenInference (Arize), also under LangChain and LlamaIndex: a kind for every span, of which two are calls.

use telemetry::names;

use super::field::{Alias, Field, alias};
use super::{Dialect, Verdict, call_or_none};

pub(super) const DIALECT: Dialect = Dialect {
    aliases: ALIASES,
    gives: "model input_tokens cached_input_tokens output_tokens reasoning_tokens ttft_s tpot_s e2e_s",
    ..Dialect::new("openinference", "`openinference.span.kind` = `LLM` or `EMBEDDING`", |sight| {
        let Some(kind) = sight.text(KIND) else { return Verdict::Foreign };
        call_or_none(matches!(kind, "LLM" | "EMBEDDING"))
    })
};

const KIND: &str = "openinference.span.kind";

const ALIASES: &[Alias] = &[
    alias(names::OPERATION, Field::Operation),
    alias(KIND, Field::Operation),
    alias("llm.model_name", Field::RequestModel),
    alias("embedding.model_name", Field::RequestModel),
    alias("llm.token_count.prompt", Field::InputTokens),
    alias("llm.token_count.completion", Field::OutputTokens),
    alias("llm.token_count.total", Field::TotalTokens),
    alias("llm.token_count.prompt_details.cache_read", Field::CachedInputTokens),
    alias("llm.token_count.prompt_details.cache_write", Field::CacheWriteTokens),
    alias("llm.token_count.completion_details.reasoning", Field::ReasoningTokens),
];
