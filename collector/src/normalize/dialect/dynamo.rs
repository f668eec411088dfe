//! NVIDIA Dynamo's front end: milliseconds, and names without a prefix.
//!
//! It is a router: its first token includes routing and the engine's queue. Where a worker's engine sends spans too, theirs is
//! the nearer one.

use super::field::{Alias, Field, alias, millis};
use super::{Dialect, Place, call_if};

pub(super) const DIALECT: Dialect = Dialect {
    engine: Some("dynamo"),
    measured_at: Place::Gateway,
    ttft_definition: "first_response_in_frontend",
    aliases: ALIASES,
    gives: "engine input_tokens output_tokens ttft_s tpot_s e2e_s",
    ..Dialect::new("dynamo", "`ttft_ms` with `decode_worker_id` or `avg_itl_ms`", |sight| {
        call_if(sight.has("ttft_ms") && sight.has_one_of(&["decode_worker_id", "avg_itl_ms"]))
    })
};

const ALIASES: &[Alias] = &[
    millis("ttft_ms", Field::Ttft),
    millis("avg_itl_ms", Field::Tpot),
    alias("input_tokens", Field::InputTokens),
    alias("output_tokens", Field::OutputTokens),
    alias("cached_tokens", Field::CachedInputTokens),
    alias("error_type", Field::ErrorType),
];
