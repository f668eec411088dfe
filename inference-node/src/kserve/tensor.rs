//! A request's tensors as a text completion, and text as tensors.
//!
//! Names are those of Triton's vLLM backend: `text_input`, `stream`, `sampling_parameters`, `exclude_input_in_output`, and flags for
//! what else is wanted beside `text_output`. Parameters of the request are read as options too.

use std::collections::HashMap;

use serde_json::{Map, Value};
use telemetry::openai::CompletionRequest;

use super::wire::{InferRequest, InferResponse, Parameter, ParameterValue, Tensor, TensorMetadata};
use crate::serve::Fault;

const PROMPT: &str = "text_input";
const STREAM: &str = "stream";
const SETTINGS: &str = "sampling_parameters";
const WITHOUT_PROMPT: &str = "exclude_input_in_output";
const WANTS_REASON: &str = "return_finish_reason";
const WANTS_INPUT_TOKENS: &str = "return_num_input_tokens";
const WANTS_OUTPUT_TOKENS: &str = "return_num_output_tokens";
/// Inputs of the model: name, type, whether it may be left out.
pub(super) const INPUTS: [(&str, &str, bool); 7] = [
    (PROMPT, "BYTES", false),
    (STREAM, "BOOL", true),
    (SETTINGS, "BYTES", true),
    (WITHOUT_PROMPT, "BOOL", true),
    (WANTS_REASON, "BOOL", true),
    (WANTS_INPUT_TOKENS, "BOOL", true),
    (WANTS_OUTPUT_TOKENS, "BOOL", true),
];
/// Outputs of the model.
pub(super) const OUTPUTS: [(&str, &str); 4] = [
    ("text_output", "BYTES"),
    ("finish_reason", "BYTES"),
    ("num_input_tokens", "UINT32"),
    ("num_output_tokens", "UINT32"),
];
/// Marks the last answer of a request.
const FINAL: &str = "triton_final_response";

/// What a request asks for.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) completion: CompletionRequest,
    /// Answer token by token.
    pub(super) stream: bool,
    /// Put before the answer: the prompt, unless the client does not want it.
    pub(super) prefix: String,
    wants_reason: bool,
    wants_input_tokens: bool,
    wants_output_tokens: bool,
}

/// One answer to a request.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) text: String,
    /// Why the answer is over, if it is.
    pub(super) reason: Option<&'static str>,
    pub(super) input_tokens: u64,
    /// Tokens since the answer before.
    pub(super) output_tokens: u32,
}

impl Ask {
    /// Reads a request.
    ///
    /// # Errors
    /// A fault that names the tensor.
    pub(super) fn read(request: &InferRequest) -> Result<Self, Fault> {
        if !["", VERSION].contains(&request.model_version.as_str()) {
            return Err(Fault::no_such_model(&format!("{} version {}", request.model_name, request.model_version)));
        }
        if let Some(unknown) = request.inputs.iter().find(|tensor| INPUTS.iter().all(|(name, ..)| *name != tensor.name))
        {
            return Err(Fault::invalid(&unknown.name, format!("the model has no input `{}`", unknown.name)));
        }
        let prompt = text(request, PROMPT)?;
        let prompt = prompt.ok_or_else(|| Fault::invalid(PROMPT, format!("the input `{PROMPT}` is missing")))?;
        let stream = flag(request, STREAM)?.unwrap_or(false);
        let without_prompt = flag(request, WITHOUT_PROMPT)?.unwrap_or(stream);
        if stream && !without_prompt {
            let text = format!("`{WITHOUT_PROMPT}` cannot be false when the answer is streamed");
            return Err(Fault::invalid(WITHOUT_PROMPT, text));
        }
        let mut options = options(request)?;
        for (name, value) in [("n", 1), ("best_of", 1), ("logprobs", 0), ("prompt_logprobs", 0)] {
            if options.get(name).is_some_and(|given| !given.is_null() && *given != value) {
                return Err(Fault::unsupported(name, &format!("{name} over this protocol")));
            }
        }
        options.remove("logprobs");
        options.insert("prompt".to_owned(), prompt.as_str().into());
        options.insert("model".to_owned(), request.model_name.as_str().into());
        options.insert("stream".to_owned(), stream.into());
        Ok(Self {
            id: request.id.clone(),
            model: request.model_name.clone(),
            completion: serde_json::from_value(Value::Object(options)).map_err(|error| Fault::body(&error))?,
            stream,
            prefix: if without_prompt { String::new() } else { prompt },
            wants_reason: flag(request, WANTS_REASON)?.unwrap_or(false),
            wants_input_tokens: flag(request, WANTS_INPUT_TOKENS)?.unwrap_or(false),
            wants_output_tokens: flag(request, WANTS_OUTPUT_TOKENS)?.unwrap_or(false),
        })
    }

    /// One answer as tensors.
    pub(super) fn response(&self, piece: Piece) -> InferResponse {
        let mut values = vec![bytes(&piece.text)];
        let mut kinds = vec![OUTPUTS[0]];
        let mut add = |wanted: bool, kind, value: Vec<u8>| {
            if wanted {
                kinds.push(kind);
                values.push(value);
            }
        };
        let count = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX).to_le_bytes().to_vec();
        // vLLM's backend says `None`, as Python spells it, while an answer goes on.
        add(self.wants_reason, OUTPUTS[1], bytes(piece.reason.unwrap_or("None")));
        add(self.wants_input_tokens, OUTPUTS[2], count(piece.input_tokens));
        add(self.wants_output_tokens, OUTPUTS[3], count(u64::from(piece.output_tokens)));
        let tensor = |(name, datatype): (&str, &str)| Tensor {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape: vec![1],
            contents: None,
        };
        let last = Parameter { value: Some(ParameterValue::Bool(piece.reason.is_some())) };
        InferResponse {
            model_name: self.model.clone(),
            model_version: VERSION.to_owned(),
            id: self.id.clone(),
            parameters: HashMap::from([(FINAL.to_owned(), last)]),
            outputs: kinds.into_iter().map(tensor).collect(),
            raw_output_contents: values,
        }
    }
}

/// The only version of a model.
pub(super) const VERSION: &str = "1";

/// Name, type and shape of every tensor.
pub(super) fn described<'a>(tensors: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<TensorMetadata> {
    let describe = |(name, datatype): (&str, &str)| TensorMetadata {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: vec![1],
    };
    tensors.into_iter().map(describe).collect()
}

/// Options of the request: its parameters, then the settings, which win.
fn options(request: &InferRequest) -> Result<Map<String, Value>, Fault> {
    let mut options = Map::new();
    for (name, parameter) in &request.parameters {
        let value = match &parameter.value {
            Some(ParameterValue::Bool(value)) => Value::from(*value),
            Some(ParameterValue::Int64(value)) => Value::from(*value),
            Some(ParameterValue::Uint64(value)) => Value::from(*value),
            Some(ParameterValue::Double(value)) => Value::from(*value),
            Some(ParameterValue::Text(value)) => plain(name, value.as_str().into()),
            None => Value::Null,
        };
        options.insert(name.clone(), value);
    }
    if let Some(settings) = text(request, SETTINGS)? {
        let settings: Map<String, Value> = serde_json::from_str(&settings)
            .map_err(|error| Fault::invalid(SETTINGS, format!("`{SETTINGS}` is no JSON object: {error}")))?;
        options.extend(settings.into_iter().map(|(name, value)| {
            let value = plain(&name, value);
            (name, value)
        }));
    }
    Ok(options)
}

/// Clients of Triton write numbers and flags as text.
fn plain(name: &str, value: Value) -> Value {
    match &value {
        Value::String(text) if name != "stop" => match serde_json::from_str(&text.to_lowercase()) {
            Ok(plain @ (Value::Number(_) | Value::Bool(_))) => plain,
            _ => value,
        },
        _ => value,
    }
}

/// The one value of a BYTES tensor.
fn text(request: &InferRequest, name: &str) -> Result<Option<String>, Fault> {
    let Some((tensor, raw)) = find(request, name, "BYTES")? else { return Ok(None) };
    let value = match raw {
        Some(raw) => unprefixed(raw).map(<[u8]>::to_vec),
        None => tensor.contents.as_ref().and_then(|contents| contents.bytes.first().cloned()),
    };
    let value = value.ok_or_else(|| Fault::invalid(name, format!("the input `{name}` holds no BYTES value")))?;
    let text =
        String::from_utf8(value).map_err(|_| Fault::invalid(name, format!("the input `{name}` is not UTF-8")))?;
    Ok(Some(text))
}

/// The one value of a BOOL tensor.
fn flag(request: &InferRequest, name: &str) -> Result<Option<bool>, Fault> {
    let Some((tensor, raw)) = find(request, name, "BOOL")? else { return Ok(None) };
    let value = match raw {
        Some([value]) => Some(*value != 0),
        Some(_) => None,
        None => tensor.contents.as_ref().and_then(|contents| contents.bools.first().copied()),
    };
    value.map(Some).ok_or_else(|| Fault::invalid(name, format!("the input `{name}` holds no BOOL value")))
}

type Found<'a> = Option<(&'a Tensor, Option<&'a [u8]>)>;

/// The tensor of this name, and its raw contents where the request has any; it must hold one value.
fn find<'a>(request: &'a InferRequest, name: &str, datatype: &str) -> Result<Found<'a>, Fault> {
    let Some(at) = request.inputs.iter().position(|tensor| tensor.name == name) else { return Ok(None) };
    let tensor = &request.inputs[at];
    if tensor.datatype != datatype || tensor.shape.iter().any(|size| *size != 1) {
        return Err(Fault::invalid(name, format!("the input `{name}` must be one {datatype} value")));
    }
    if request.raw_input_contents.is_empty() {
        return Ok(Some((tensor, None)));
    }
    match request.raw_input_contents.get(at) {
        Some(raw) => Ok(Some((tensor, Some(raw)))),
        None => Err(Fault::invalid(name, format!("the raw contents of `{name}` are missing"))),
    }
}

/// Raw BYTES are each behind their length, four bytes, little endian.
fn unprefixed(raw: &[u8]) -> Option<&[u8]> {
    let (length, value) = raw.split_first_chunk::<4>()?;
    (value.len() == u32::from_le_bytes(*length) as usize).then_some(value)
}

fn bytes(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes()[..], text.as_bytes()].concat()
}

#[cfg(test)]
mod tests;
