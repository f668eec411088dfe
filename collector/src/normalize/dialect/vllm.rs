//! vLLM 0.6 to 0.33: one span `llm_request` per finished request, latencies in seconds.
//!
//! Scope names changed over the versions and tell nothing. V1 never sends a model; V0 sends the model that answered. Queue,
//! prefill and decode come from the engine core's clock, TTFT and e2e from the front end's, so they need not add up. An aborted
//! request has no span, and a temperature of 0 is not sent by V1.

use telemetry::names;

use super::{Dialect, Place, call_if};

/// V0, to 0.9: tells itself by the number of sequences.
pub(super) const V0: Dialect = Dialect {
    engine: Some("vllm"),
    measured_at: Place::Server,
    ttft_definition: FIRST_OUTPUT,
    gives: "request_id engine model input_tokens output_tokens queue_s ttft_s tpot_s e2e_s",
    ..Dialect::new("vllm_v0", "span `llm_request` with `gen_ai.usage.num_sequences`", |sight| {
        call_if(sight.span.name == names::SPAN_REQUEST && sight.has("gen_ai.usage.num_sequences"))
    })
};

/// V1, from 0.10.
pub(super) const V1: Dialect = Dialect {
    engine: Some("vllm"),
    measured_at: Place::Server,
    ttft_definition: FIRST_OUTPUT,
    gives: "request_id engine input_tokens output_tokens queue_s prefill_s decode_s ttft_s tpot_s e2e_s",
    ..Dialect::new("vllm_v1", "any other span `llm_request` with `gen_ai.latency.*`", |sight| {
        call_if(sight.span.name == names::SPAN_REQUEST && sight.has_prefix("gen_ai.latency."))
    })
};

/// Arrival to the first output processed by the front end.
const FIRST_OUTPUT: &str = "first_output_in_frontend";
