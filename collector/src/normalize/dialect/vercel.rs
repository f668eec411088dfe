//! Vercel's AI SDK: milliseconds, counts as text. Its outer spans add up the calls inside them, which alone count.

use super::field::{Alias, Field, alias, millis};
use super::{Dialect, Named, Verdict, call_or_none};

pub(super) const DIALECT: Dialect = Dialect {
    aliases: ALIASES,
    named: NAMED,
    gives: "request_id model stream input_tokens cached_input_tokens output_tokens reasoning_tokens ttft_s \
        tpot_s e2e_s finish_reason",
    ..Dialect::new("vercel_ai", "span `ai.*.do*` with `ai.model.id`", |sight| {
        if !sight.span.name.starts_with("ai.") || !sight.has_one_of(&["ai.model.id", "ai.operationId"]) {
            return Verdict::Foreign;
        }
        call_or_none(sight.span.name.contains(".do"))
    })
};

const ALIASES: &[Alias] = &[
    alias("ai.model.id", Field::RequestModel),
    alias("ai.response.model", Field::ResponseModel),
    alias("ai.response.id", Field::RequestId),
    alias("ai.usage.inputTokens", Field::InputTokens),
    alias("ai.usage.promptTokens", Field::InputTokens),
    alias("ai.usage.outputTokens", Field::OutputTokens),
    alias("ai.usage.completionTokens", Field::OutputTokens),
    alias("ai.usage.totalTokens", Field::TotalTokens),
    alias("ai.usage.cachedInputTokens", Field::CachedInputTokens),
    alias("ai.usage.reasoningTokens", Field::ReasoningTokens),
    millis("ai.response.msToFirstChunk", Field::Ttft),
    millis("ai.response.msToFinish", Field::E2e),
    alias("ai.response.finishReason", Field::FinishReason),
];

const NAMED: &[Named] = &[
    Named { part: ".doStream", operation: None, stream: Some(true) },
    Named { part: ".doGenerate", operation: None, stream: Some(false) },
    Named { part: ".doEmbed", operation: Some("embeddings"), stream: None },
];
