//! LiteLLM's proxy: both generations of the conventions in one span, so that everything comes twice.

use telemetry::names;

use super::field::{Alias, Field, alias};
use super::{Dialect, Place, Verdict};

pub(super) const DIALECT: Dialect = Dialect {
    measured_at: Place::Gateway,
    aliases: ALIASES,
    gives: "request_id model tenant operation stream input_tokens cached_input_tokens output_tokens \
        reasoning_tokens e2e_s finish_reason",
    ..Dialect::new("litellm", "span `litellm_request`, none of those around or inside it", |sight| {
        match sight.span.name {
            "litellm_request" => Verdict::Call,
            // The same call again: as the provider's client sees it, and as the proxy's door does.
            "raw_gen_ai_request" | "Received Proxy Server Request" | "Failed Proxy Server Request" => Verdict::NoCall,
            _ => Verdict::Foreign,
        }
    })
};

const ALIASES: &[Alias] = &[
    // The engine's id of the call, by which its own span is found.
    alias(names::RESPONSE_ID, Field::RequestId),
    alias("litellm.call_id", Field::RequestId),
    alias("litellm.provider.model", Field::ResponseModel),
    alias("litellm.team.id", Field::Tenant),
];
