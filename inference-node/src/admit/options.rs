//! Which options are served, and in which ranges. What would change the answer and is not served
//! is refused by name; everything unknown was ignored before.

use std::sync::Arc;

use serde_json::Value;
use telemetry::openai::{ChatRequest, CompletionRequest, Message, Options, UNSERVED};

use crate::engine::{ChatMessage, Sampling};
use crate::serve::Fault;

/// Choices per prompt.
const CHOICES_MAX: u32 = 8;
/// Stop texts, as that API has it.
const STOPS_MAX: usize = 4;
/// Alternatives named beside a token, as the chat API has it.
const ALTERNATIVES_MAX: u32 = 20;
/// Tokens that a bias may name, and how large it may be.
const BIASES_MAX: usize = 1_024;
const BIAS_MAX: f64 = 100.0;
/// Largest repetition penalty; one of 2 is already far too strong for any model.
const REPETITION_MAX: f64 = 100.0;
/// Longest stop text in bytes.
const STOP_BYTES_MAX: usize = 1_024;

/// Options of both APIs.
pub(super) fn check(options: &Options, max_tokens: Option<u32>) -> Result<(), Fault> {
    if max_tokens == Some(0) {
        return Err(Fault::invalid("max_tokens", "max_tokens must be at least 1"));
    }
    if !(1..=CHOICES_MAX).contains(&options.n.unwrap_or(1)) {
        return Err(Fault::invalid("n", format!("n must be from 1 to {CHOICES_MAX}")));
    }
    if !options.temperature.is_none_or(|value| (0.0..=2.0).contains(&value)) {
        return Err(Fault::invalid("temperature", "temperature must be from 0 to 2"));
    }
    if !options.top_p.is_none_or(|value| value > 0.0 && value <= 1.0) {
        return Err(Fault::invalid("top_p", "top_p must be above 0 and at most 1"));
    }
    if !options.min_p.is_none_or(|value| (0.0..=1.0).contains(&value)) {
        return Err(Fault::invalid("min_p", "min_p must be from 0 to 1"));
    }
    check_penalties(options)?;
    for field in UNSERVED {
        refuse(field, options.others.get(field))?;
    }
    let stops = options.stop.as_ref().map_or(&[][..], |stop| stop.texts());
    if stops.len() > STOPS_MAX || stops.iter().any(|stop| stop.is_empty() || stop.len() > STOP_BYTES_MAX) {
        let text = format!("stop takes up to {STOPS_MAX} texts of 1 to {STOP_BYTES_MAX} bytes");
        return Err(Fault::invalid("stop", text));
    }
    bias(options).map(drop)
}

/// What is added to the logits of tokens: an object with their ids as names.
pub(super) fn bias(options: &Options) -> Result<Arc<[(u32, f32)]>, Fault> {
    let wrong = || {
        let text = format!("logit_bias takes up to {BIASES_MAX} numbers from -100 to 100, each named by a token id");
        Fault::invalid("logit_bias", text)
    };
    let entries = match &options.logit_bias {
        None | Some(Value::Null) => return Ok(Arc::default()),
        Some(Value::Object(entries)) if entries.len() <= BIASES_MAX => entries,
        Some(_) => return Err(wrong()),
    };
    let entry = |(id, value): (&String, &Value)| {
        let value = value.as_f64().filter(|value| value.abs() <= BIAS_MAX)?;
        Some((id.parse().ok()?, value as f32))
    };
    entries.iter().map(entry).collect::<Option<Arc<[_]>>>().ok_or_else(wrong)
}

fn check_penalties(options: &Options) -> Result<(), Fault> {
    for (field, value) in
        [("presence_penalty", options.presence_penalty), ("frequency_penalty", options.frequency_penalty)]
    {
        if !value.is_none_or(|value| (-2.0..=2.0).contains(&value)) {
            return Err(Fault::invalid(field, format!("{field} must be from -2 to 2")));
        }
    }
    if !options.repetition_penalty.is_none_or(|value| value > 0.0 && value <= REPETITION_MAX) {
        let text = format!("repetition_penalty must be above 0 and at most {REPETITION_MAX}");
        return Err(Fault::invalid("repetition_penalty", text));
    }
    Ok(())
}

/// How many alternatives are to be named beside each token of a chat; `None` if no log probabilities are asked for.
pub(super) fn chat_logprobs(options: &Options) -> Result<Option<u32>, Fault> {
    let asked = match &options.logprobs {
        None | Some(Value::Null) => false,
        Some(Value::Bool(asked)) => *asked,
        Some(_) => return Err(Fault::invalid("logprobs", "logprobs of a chat is true or false")),
    };
    let count = options.top_logprobs.unwrap_or(0);
    if count > 0 && !asked {
        return Err(Fault::invalid("top_logprobs", "top_logprobs needs logprobs to be true"));
    }
    if count > ALTERNATIVES_MAX {
        return Err(Fault::invalid("top_logprobs", format!("top_logprobs must be from 0 to {ALTERNATIVES_MAX}")));
    }
    Ok(asked.then_some(count))
}

/// How many alternatives are to be named beside each token of a text completion; `None` if no log probabilities are asked for.
pub(super) fn text_logprobs(options: &Options) -> Result<Option<u32>, Fault> {
    let asked = match &options.logprobs {
        None | Some(Value::Null | Value::Bool(false)) => return Ok(None),
        Some(count) => count.as_u64().and_then(|count| u32::try_from(count).ok()),
    };
    match asked {
        Some(count) if count <= ALTERNATIVES_MAX => Ok(Some(count)),
        _ => Err(Fault::invalid("logprobs", format!("logprobs must be a number from 0 to {ALTERNATIVES_MAX}"))),
    }
}

/// Options of chats alone.
pub(super) fn check_chat(request: &ChatRequest) -> Result<(), Fault> {
    refuse("tools", request.tools.as_ref())?;
    let forced = request.tool_choice.as_ref().filter(|choice| !["none", "auto"].iter().any(|free| *choice == free));
    refuse("tool_choice", forced)?;
    check_shape(request.response_format.as_ref())?;
    let modalities = request.modalities.as_ref().filter(|modalities| **modalities != serde_json::json!(["text"]));
    refuse("modalities", modalities)
}

/// Options of text completions alone.
pub(super) fn check_completion(request: &CompletionRequest) -> Result<(), Fault> {
    if request.echo == Some(true) {
        return Err(Fault::unsupported("echo", "echo"));
    }
    if request.best_of.unwrap_or(1) > request.options.n.unwrap_or(1) {
        return Err(Fault::unsupported("best_of", "best_of above n"));
    }
    check_shape(request.options.others.get("response_format"))?;
    refuse("suffix", request.suffix.as_ref())
}

/// Answers have no shape but that of text.
fn check_shape(format: Option<&Value>) -> Result<(), Fault> {
    refuse("response_format", format.filter(|format| format.get("type") != Some(&Value::from("text"))))
}

/// Refuses a value that asks for something: anything but null, false, 0, and what is empty.
fn refuse(field: &str, value: Option<&Value>) -> Result<(), Fault> {
    let asks = match value {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(items)) => !items.is_empty(),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::Bool(true)) => true,
    };
    if asks { Err(Fault::unsupported(field, field)) } else { Ok(()) }
}

/// The messages as plain text.
pub(super) fn messages(messages: &[Message]) -> Result<Vec<ChatMessage>, Fault> {
    if messages.is_empty() {
        return Err(Fault::invalid("messages", "messages must hold at least one message"));
    }
    let plain = |message: &Message| {
        refuse("messages.tool_calls", message.tool_calls.as_ref())?;
        let content = match &message.content {
            Some(content) => {
                content.text().map_err(|kind| Fault::unsupported("messages", &format!("content of type {kind}")))?
            }
            None => String::new(),
        };
        // The newer name of the system role.
        let role = if message.role == "developer" { "system" } else { message.role.as_str() };
        Ok(ChatMessage { role: role.to_owned(), content })
    };
    messages.iter().map(plain).collect()
}

/// How tokens are picked; `seed` is used if the client gives none.
///
/// # Errors
/// A bias that is none.
pub(super) fn sampling(options: &Options, likelihoods: Option<u32>, seed: u64) -> Result<Sampling, Fault> {
    Ok(Sampling {
        temperature: options.temperature.unwrap_or(1.0) as f32,
        top_p: options.top_p.unwrap_or(1.0) as f32,
        min_p: options.min_p.unwrap_or(0.0) as f32,
        repetition_penalty: options.repetition_penalty.unwrap_or(1.0) as f32,
        presence_penalty: options.presence_penalty.unwrap_or(0.0) as f32,
        frequency_penalty: options.frequency_penalty.unwrap_or(0.0) as f32,
        // -1 and 0 both mean all tokens.
        top_k: options.top_k.and_then(|k| u32::try_from(k).ok()).unwrap_or(0),
        seed: options.seed.map_or(seed, i64::cast_unsigned),
        ignore_eos: options.ignore_eos.unwrap_or(false),
        bias: bias(options)?,
        likelihoods,
    })
}
