//! OpenTelemetry's GenAI conventions, both generations: `gen_ai.provider.name` with operation names since v1.37, and
//! `gen_ai.system` before. Client spans by convention, server spans where a gateway or engine follows it too.

use telemetry::names;

use super::{Dialect, call_if};

/// Operations that are one call of a model. Agents, tools and workflows contain calls and are none.
const CALLS: &[&str] = &["chat", "text_completion", "generate_content", "embeddings", "completion", "responses"];

/// Whether an operation is one call of a model.
pub(super) fn is_call_of_a_model(operation: &str) -> bool {
    CALLS.contains(&operation)
}

/// Spans that say which operation they are.
pub(super) const CURRENT: Dialect = Dialect {
    gives: "request_id model operation stream input_tokens cached_input_tokens output_tokens \
        reasoning_tokens ttft_s tpot_s e2e_s finish_reason",
    ..Dialect::new("gen_ai", "`gen_ai.operation.name` that names one call of a model", |sight| {
        call_if(sight.text(names::OPERATION).is_some_and(is_call_of_a_model))
    })
};

/// Spans from before operations had names: a model and a usage, and no sign of an agent or a tool.
pub(super) const OLD: Dialect = Dialect {
    gives: "request_id model input_tokens output_tokens e2e_s finish_reason",
    ..Dialect::new(
        "gen_ai_old",
        "`gen_ai.system` or `gen_ai.provider.name`, a model and tokens, no operation",
        |sight| {
            call_if(
                !sight.has(names::OPERATION)
                    && sight.has_one_of(&["gen_ai.system", names::PROVIDER])
                    && sight.has_one_of(&[names::REQUEST_MODEL, names::RESPONSE_MODEL])
                    && sight.has_one_of(TOKENS),
            )
        },
    )
};

/// Attributes of which a call that used a model has at least one.
const TOKENS: &[&str] = &[
    names::INPUT_TOKENS,
    names::OUTPUT_TOKENS,
    "gen_ai.usage.prompt_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.usage.prompt_tokens",
    "llm.usage.completion_tokens",
];
