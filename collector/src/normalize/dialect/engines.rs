//! SGLang, NVIDIA Dynamo and Hugging Face TGI.

use super::{Alias, Dialect, Field, Place, alias, millis, rust_duration};

/// SGLang's root span of a request; its name holds the request id.
pub(super) const SGLANG: Dialect = Dialect {
    name: "sglang",
    sign: "`rid`, and `module` that begins with `sglang::`",
    is_call: |seen| {
        seen.has_key("rid")
            && seen.raw_text("module").is_some_and(|module| module.starts_with("sglang::"))
            && (seen.has(Field::OutputTokens) || seen.has(Field::Ttft))
    },
    engine: Some("sglang"),
    measured_at: Place::Server,
    ttft_definition: "first_output_in_tokenizer_manager",
};

/// Dynamo's front end.
pub(super) const DYNAMO: Dialect = Dialect {
    name: "dynamo",
    sign: "`ttft_ms` with `decode_worker_id` or `avg_itl_ms`",
    is_call: |seen| seen.has_key("ttft_ms") && (seen.has_key("decode_worker_id") || seen.has_key("avg_itl_ms")),
    engine: Some("dynamo"),
    measured_at: Place::Server,
    ttft_definition: "first_response_in_frontend",
};

/// TGI's root span: durations as text, no tokens and no first token.
pub(super) const TGI: Dialect = Dialect {
    name: "tgi",
    sign: "`total_time` and `validation_time` as text",
    is_call: |seen| seen.raw_text("total_time").is_some() && seen.raw_text("validation_time").is_some(),
    engine: Some("tgi"),
    measured_at: Place::Server,
    ttft_definition: "unknown",
};

pub(super) const ALIASES: &[Alias] = &[
    alias("rid", Field::RequestId),
    alias("module", Field::Mark),
    millis("ttft_ms", Field::Ttft, "first_response_in_frontend"),
    millis("avg_itl_ms", Field::Tpot, ""),
    alias("input_tokens", Field::InputTokens),
    alias("output_tokens", Field::OutputTokens),
    alias("cached_tokens", Field::CachedInputTokens),
    rust_duration("queue_time", Field::Queue),
    rust_duration("total_time", Field::E2e),
];
