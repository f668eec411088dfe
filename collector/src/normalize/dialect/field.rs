//! The fields of a call, and the attributes that mean them.

use crate::decode::view::Value;

/// A field of an inference call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Field {
    /// Model asked for.
    RequestModel,
    /// Model that answered.
    ResponseModel,
    /// Id of the call.
    RequestId,
    /// Kind of call.
    Operation,
    /// Whether the answer is streamed.
    Stream,
    /// Prompt tokens.
    InputTokens,
    /// Prompt tokens from a cache.
    CachedInputTokens,
    /// Prompt tokens put into a cache; they only help to see what the input includes.
    CacheWriteTokens,
    /// Generated tokens.
    OutputTokens,
    /// Reasoning tokens.
    ReasoningTokens,
    /// Input and output together, as the emitter counts them.
    TotalTokens,
    /// Waiting until first scheduled.
    Queue,
    /// First scheduled to first token.
    Prefill,
    /// First to last token.
    Decode,
    /// Arrival to first token.
    Ttft,
    /// Time per output token.
    Tpot,
    /// Longest gap between tokens.
    ItlMax,
    /// Arrival to last token.
    E2e,
    /// Device time of prefill, microseconds.
    DeviceUsPrefill,
    /// Device time of decode, microseconds.
    DeviceUsDecode,
    /// What failed.
    ErrorType,
    /// Why generation ended.
    FinishReason,
    /// For whom the call is served.
    Tenant,
    /// Share of requests whose tokens are sent.
    TokenSampling,
    /// Where the call was measured.
    MeasuredAt,
    /// What the emitter calls its first token.
    TtftDefinition,
    /// Inference engine.
    Engine,
    /// Accelerator model.
    Accelerator,
    /// Weight format.
    Quantization,
    /// Tensor parallel degree.
    TensorParallel,
    /// Usage as a JSON object, whose names are the dialect's.
    Usage,
}

/// How many fields a call has.
pub const FIELDS: usize = Field::Usage as usize + 1;

impl Field {
    /// The column of `requests` that holds it; empty for what only helps to read the others.
    pub fn column(self) -> &'static str {
        match self {
            Field::RequestModel | Field::ResponseModel => "model",
            Field::RequestId => "request_id",
            Field::Operation => "operation",
            Field::Stream => "stream",
            Field::InputTokens => "input_tokens",
            Field::CachedInputTokens => "cached_input_tokens",
            Field::OutputTokens => "output_tokens",
            Field::ReasoningTokens => "reasoning_tokens",
            Field::Queue => "queue_s",
            Field::Prefill => "prefill_s",
            Field::Decode => "decode_s",
            Field::Ttft => "ttft_s",
            Field::Tpot => "tpot_s",
            Field::ItlMax => "itl_max_s",
            Field::E2e => "e2e_s",
            Field::DeviceUsPrefill => "device_us_prefill",
            Field::DeviceUsDecode => "device_us_decode",
            Field::ErrorType => "error_type",
            Field::FinishReason => "finish_reason",
            Field::Tenant => "tenant",
            Field::TokenSampling => "token_sampling",
            Field::MeasuredAt => "measured_at",
            Field::TtftDefinition => "ttft_definition",
            Field::Engine => "engine",
            Field::Accelerator => "accelerator",
            Field::Quantization => "quantization",
            Field::TensorParallel => "tensor_parallel",
            Field::CacheWriteTokens | Field::TotalTokens | Field::Usage => "",
        }
    }

    /// Whether a value can be that field's; one that cannot stays an attribute. Numbers that are none are found, and flagged,
    /// when they are read.
    pub fn takes(self, value: Value<'_>) -> bool {
        match self {
            Field::MeasuredAt => matches!(value, Value::Text("client" | "gateway" | "server")),
            Field::Operation => value.text().is_some_and(|name| super::operation(name).is_some()),
            Field::Stream => value.boolean().is_some(),
            Field::FinishReason => value.text().is_some() || matches!(value, Value::Compound(_)),
            Field::RequestModel
            | Field::ResponseModel
            | Field::RequestId
            | Field::ErrorType
            | Field::Tenant
            | Field::TtftDefinition
            | Field::Engine
            | Field::Accelerator
            | Field::Quantization
            | Field::Usage => value.text().is_some(),
            _ => !matches!(value, Value::Empty),
        }
    }
}

/// How a value becomes the field's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// As the column has it.
    One,
    /// Multiplied by this.
    Times(f64),
    /// Text that Rust prints for a duration: `1.5ms`, `830µs`, `2s`.
    RustDuration,
    /// An instant in ISO 8601; the time from the span's start until then.
    Instant,
}

/// An attribute that means a field.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// The attribute's key.
    pub key: &'static str,
    /// What it means.
    pub field: Field,
    /// Its unit.
    pub scale: Scale,
    /// For a time to first token: what the emitter measures, where that is not what the dialect says.
    pub definition: &'static str,
}

impl Alias {
    /// The value in the unit of the field's column; `start_ns` is when its span began, nanoseconds.
    pub fn number(&self, value: Value<'_>, start_ns: u64) -> Option<f64> {
        match self.scale {
            Scale::One => value.number(),
            Scale::Times(factor) => value.number().map(|number| number * factor),
            Scale::RustDuration => seconds_of(value.text()?),
            Scale::Instant => {
                let instant: jiff::Timestamp = value.text()?.trim_matches('"').parse().ok()?;
                Some((instant.as_nanosecond() - i128::from(start_ns)) as f64 / 1e9)
            }
        }
    }
}

/// Seconds of what Rust prints for a duration: `1.234567ms`, `2.5s`, `830µs`, `900ns`.
pub(super) fn seconds_of(text: &str) -> Option<f64> {
    let units = [("ms", 1e-3), ("µs", 1e-6), ("μs", 1e-6), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0)];
    units.iter().find_map(|(unit, factor)| {
        let number: f64 = text.trim().strip_suffix(unit)?.parse().ok()?;
        Some(number * factor)
    })
}

/// In the column's own unit.
pub(super) const fn alias(key: &'static str, field: Field) -> Alias {
    Alias { key, field, scale: Scale::One, definition: "" }
}

/// In milliseconds.
pub(super) const fn millis(key: &'static str, field: Field) -> Alias {
    Alias { key, field, scale: Scale::Times(0.001), definition: "" }
}

/// A time to first token of a definition of its own.
pub(super) const fn ttft(key: &'static str, definition: &'static str) -> Alias {
    Alias { key, field: Field::Ttft, scale: Scale::One, definition }
}

/// A duration as Rust prints it.
pub(super) const fn rust_duration(key: &'static str, field: Field) -> Alias {
    Alias { key, field, scale: Scale::RustDuration, definition: "" }
}

/// An instant, for the time from the span's start.
pub(super) const fn instant(key: &'static str, field: Field) -> Alias {
    Alias { key, field, scale: Scale::Instant, definition: "" }
}
