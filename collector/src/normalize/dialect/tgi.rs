//! Hugging Face TGI's router: the root span carries durations as text, no model, no tokens and no first token.
//!
//! Its time per token is the time of inference divided by the tokens, with the prefill inside: no TPOT, but the two together
//! give the number of tokens.

use super::field::{Alias, Field, rust_duration, seconds_of};
use super::{Dialect, Flags, Named, Neighbours, Place, Reading, Sight, call_if};
use crate::decode::wire::Malformed;

pub(super) const DIALECT: Dialect = Dialect {
    engine: Some("tgi"),
    measured_at: Place::Server,
    ttft_definition: "unknown",
    aliases: ALIASES,
    named: NAMED,
    more: tokens,
    gives: "engine operation stream output_tokens queue_s e2e_s",
    ..Dialect::new("tgi", "`total_time` and `validation_time` as text", |sight| {
        call_if(sight.text("total_time").is_some() && sight.text("validation_time").is_some())
    })
};

const ALIASES: &[Alias] = &[rust_duration("queue_time", Field::Queue), rust_duration("total_time", Field::E2e)];

/// The routes; those that follow OpenAI answer in either way.
const NAMED: &[Named] = &[
    Named { part: "chat_completions", operation: Some("chat"), stream: None },
    Named { part: "completions", operation: Some("text_completion"), stream: None },
    Named { part: "generate_stream", operation: Some("text_completion"), stream: Some(true) },
    Named { part: "generate", operation: Some("text_completion"), stream: Some(false) },
];

/// How far the quotient of two printed durations may lie from a whole number: they are exact to the nanosecond.
const ROUNDING: f64 = 0.02;

fn tokens(sight: &Sight<'_, '_>, _: &Neighbours<'_>, reading: &mut Reading<'_>) -> Result<(), Malformed> {
    let seconds = |key| sight.text(key).and_then(seconds_of);
    if let (Some(inference_s), Some(token_s)) = (seconds("inference_time"), seconds("time_per_token"))
        && token_s > 0.0
    {
        let tokens = inference_s / token_s;
        if tokens >= 1.0 - ROUNDING && (tokens - tokens.round()).abs() <= ROUNDING {
            reading.figures.output_tokens = Some(tokens.round() as i64);
            reading.flags.raise(Flags::OUTPUT_DERIVED);
        }
    }
    Ok(())
}
