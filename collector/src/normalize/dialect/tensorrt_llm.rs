//! TensorRT-LLM's `trtllm-serve`: vLLM's names, of the latencies only three.

use telemetry::names;

use super::{Dialect, Place, call_if};

pub(super) const DIALECT: Dialect = Dialect {
    engine: Some("tensorrt_llm"),
    measured_at: Place::Server,
    // It compares a steady clock with a wall clock, and says nowhere what it calls the first token.
    ttft_definition: "unknown",
    gives: "request_id engine input_tokens output_tokens queue_s ttft_s tpot_s e2e_s",
    ..Dialect::new(
        "tensorrt_llm",
        "`gen_ai.latency.` `time_to_first_token`, `e2e` and `time_in_queue`, none of `time_in_model_*`",
        |sight| {
            let sent = [names::LATENCY_TTFT, names::LATENCY_E2E, names::LATENCY_QUEUE].iter().all(|key| sight.has(key));
            call_if(sent && !sight.has_prefix("gen_ai.latency.time_in_model_"))
        },
    )
};
