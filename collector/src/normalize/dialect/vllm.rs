//! vLLM 0.6 to 0.33: one span `llm_request` per finished request, latencies in seconds.
//!
//! Scope names changed over the versions and tell nothing. V1 never sends a model; V0 sends the model that answered. Queue,
//! prefill and decode come from the engine core's clock, TTFT and e2e from the front end's, so they need not add up.

use telemetry::names;

use super::{Alias, Dialect, Field, Place, alias};

/// V0, to 0.9: tells itself by the number of sequences.
pub(super) const V0: Dialect = Dialect {
    name: "vllm_v0",
    sign: "span `llm_request` with `gen_ai.usage.num_sequences`",
    is_call: |seen| seen.span.name == names::SPAN_REQUEST && seen.has_key("gen_ai.usage.num_sequences"),
    engine: Some("vllm"),
    measured_at: Place::Server,
    ttft_definition: FIRST_OUTPUT,
};

/// V1, from 0.10.
pub(super) const V1: Dialect = Dialect {
    name: "vllm_v1",
    sign: "any other span `llm_request` with `gen_ai.*`",
    is_call: |seen| seen.span.name == names::SPAN_REQUEST && seen.has_prefix("gen_ai."),
    engine: Some("vllm"),
    measured_at: Place::Server,
    ttft_definition: FIRST_OUTPUT,
};

/// Arrival to the first output processed by the front end.
const FIRST_OUTPUT: &str = "first_output_in_frontend";

pub(super) const ALIASES: &[Alias] = &[
    alias("gen_ai.usage.prompt_tokens", Field::InputTokens),
    alias("gen_ai.usage.completion_tokens", Field::OutputTokens),
    alias("gen_ai.usage.num_sequences", Field::Mark),
];
