//! OpenLIT: names of server metrics as attributes of client spans; what they tell is measured in the client.

use telemetry::names;

use super::field::{Alias, Field, alias, ttft};
use super::genai::is_call_of_a_model;
use super::{Dialect, FIRST_CHUNK, Verdict, call_or_none};

pub(super) const DIALECT: Dialect = Dialect {
    aliases: ALIASES,
    gives: "request_id model operation stream input_tokens output_tokens ttft_s tpot_s e2e_s finish_reason",
    ..Dialect::new("openlit", "`gen_ai.application_name` or `gen_ai.environment`, and an operation", |sight| {
        if !sight.has_one_of(&["gen_ai.application_name", "gen_ai.environment"]) {
            return Verdict::Foreign;
        }
        call_or_none(sight.text(names::OPERATION).is_some_and(is_call_of_a_model))
    })
};

const ALIASES: &[Alias] =
    &[ttft("gen_ai.server.time_to_first_token", FIRST_CHUNK), alias("gen_ai.request.is_stream", Field::Stream)];
