//! What Tokenwatt's own nodes and gateways send.

use telemetry::names;

use super::{Dialect, Place, call_if};

/// Spans `llm_request` with at least one attribute of ours.
pub(super) const DIALECT: Dialect = Dialect {
    measured_at: Place::ServerOrGateway,
    ttft_definition: "first_content_token",
    gives: "request_id engine accelerator chips model quantization tensor_parallel tenant operation stream \
        input_tokens cached_input_tokens output_tokens reasoning_tokens queue_s prefill_s decode_s \
        ttft_s tpot_s itl_max_s e2e_s device_us_prefill device_us_decode finish_reason token_sampling",
    ..Dialect::new("tokenwatt", "span `llm_request` with an attribute `tokenwatt.*`", |sight| {
        call_if(sight.span.name == names::SPAN_REQUEST && sight.has_prefix("tokenwatt."))
    })
};
