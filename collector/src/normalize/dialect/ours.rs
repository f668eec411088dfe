//! What Tokenwatt's own nodes and gateways send.

use telemetry::names;

use super::{Alias, Dialect, Field, Place, alias};

/// Spans `llm_request` with at least one attribute of ours.
pub(super) const DIALECT: Dialect = Dialect {
    name: "tokenwatt",
    sign: "span `llm_request` with an attribute `tokenwatt.*`",
    is_call: |seen| seen.span.name == names::SPAN_REQUEST && seen.has_prefix("tokenwatt."),
    engine: None,
    measured_at: Place::ServerOrGateway,
    ttft_definition: "first_content_token",
};

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
];
