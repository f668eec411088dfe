//! Calls and the tokens they produced.

use super::{ATTRIBUTES, DIMENSIONS, Role, Table, double, flag, int, text};

/// Inference calls.
pub const REQUESTS: Table = Table {
    name: "requests",
    doc: "one inference call seen at one place",
    groups: &[
        DIMENSIONS,
        &[
            text("measured_at", "where the call was measured: client, gateway or server; never mixed"),
            text("trace_id", "trace id, 32 hex digits"),
            text("span_id", "span id, 16 hex digits"),
            text("parent_span_id", "span that caused the call, 16 hex digits"),
            text("request_id", "the engine's or provider's id of the call"),
            text("engine", "inference engine, such as vllm"),
            text("accelerator", "accelerator model, such as inferentia2"),
            int("chips", "{chip}", "accelerator chips that served the replica"),
            text("model", "model asked for, else the one that answered"),
            text("quantization", "weight format, such as int8"),
            int("tensor_parallel", "1", "tensor parallel degree"),
            text("tenant", "for whom the call was served, from a trusted caller only"),
            text("operation", "chat, text_completion, embeddings, ..."),
            flag("stream", "whether the answer was streamed"),
            int("input_tokens", "{token}", "prompt tokens, cached ones included"),
            int("cached_input_tokens", "{token}", "prompt tokens read from a cache, a subset of input_tokens"),
            int("output_tokens", "{token}", "generated tokens, reasoning ones included"),
            int("reasoning_tokens", "{token}", "reasoning tokens, a subset of output_tokens"),
            double("queue_s", "s", "waiting until first scheduled"),
            double("prefill_s", "s", "first scheduled to first token"),
            double("decode_s", "s", "first token to last token"),
            double("ttft_s", "s", "arrival at the measuring place to the first token with content leaving it"),
            double("tpot_s", "s", "(e2e - TTFT) / (output tokens - 1)"),
            double("itl_max_s", "s", "longest gap between two tokens"),
            double("e2e_s", "s", "arrival to last byte"),
            int("device_us_prefill", "us", "device time given to its prefill"),
            int("device_us_decode", "us", "device time given to its decode"),
            text("status", "ok, error or cancelled"),
            text("error_type", "what failed"),
            text("finish_reason", "why generation ended: stop, length, abort, ..."),
            text("ttft_definition", "what the emitter calls its first token"),
            double(
                "token_sampling",
                "1",
                "share of requests whose tokens are sent; whole requests, never single tokens",
            ),
            text("quality", "flags, comma separated: contradictory, clamped, assumed_model, ..."),
        ],
        ATTRIBUTES,
    ],
    order: &["model", "cluster", "time"],
    retention_days: Some(30),
    role: Role::Live,
};

/// Tokens. Their number is `sum(count)`, never `count(*)`.
pub const TOKENS: Table = Table {
    name: "tokens",
    doc: "one emitted token, or a chunk of `count` tokens; `time` is when it left the engine",
    groups: &[
        DIMENSIONS,
        &[
            text("trace_id", "trace id, 32 hex digits"),
            text("request_span_id", "span id of its request, 16 hex digits"),
            int("choice", "1", "which of the request's choices, from 0"),
            int("index", "1", "position in its choice, from 0"),
            int("count", "{token}", "tokens in this row"),
            int("batch_size", "{request}", "requests in the step that made it"),
            int("device_us", "us", "share of the step's device time; prefill rides on index 0"),
            text("stall", "why the gap before it was long: decode, prefill, preempted, host or network"),
            text("model", "model that made it"),
            text("tenant", "for whom it was made"),
        ],
        ATTRIBUTES,
    ],
    order: &["trace_id", "choice", "index"],
    retention_days: Some(7),
    role: Role::Live,
};
