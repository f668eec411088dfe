//! SGLang: a tree of spans per request, of which the root is the call; its name holds the request's id.
//!
//! Its prefill runs from dispatch to the first token, so it includes the queue, which is not sent. Where prefill and decode run
//! apart, each has a root of its own for the same request: the decoding one is the call.

use super::field::{Alias, Field, alias};
use super::{Dialect, Flags, Place, Verdict, call_or_none};

pub(super) const DIALECT: Dialect = Dialect {
    engine: Some("sglang"),
    measured_at: Place::Server,
    ttft_definition: "first_output_in_tokenizer_manager",
    aliases: ALIASES,
    flags: Flags::PREFILL_WITH_QUEUE,
    gives: "request_id engine model input_tokens cached_input_tokens output_tokens prefill_s decode_s ttft_s \
        tpot_s e2e_s finish_reason",
    ..Dialect::new("sglang", "`rid`, and `module` that begins with `sglang::`; not a root of prefill alone", |sight| {
        if !sight.has("rid") || !sight.text("module").is_some_and(|module| module.starts_with("sglang::")) {
            return Verdict::Foreign;
        }
        let is_root = sight.has_prefix("gen_ai.usage.") || sight.has_prefix("gen_ai.latency.");
        call_or_none(is_root && !sight.span.name.to_ascii_lowercase().starts_with("prefill"))
    })
};

const ALIASES: &[Alias] = &[alias("rid", Field::RequestId)];
