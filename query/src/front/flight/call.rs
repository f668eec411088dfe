//! How a call is bounded, and how it fails.

use telemetry::contract::ApiError;
use tonic::{
    Code, Status,
    metadata::{Ascii, MetadataMap, MetadataValue},
};

/// The time that the caller gives the call, in milliseconds: digits and a unit, as gRPC has it.
pub(super) fn deadline_ms(metadata: &MetadataMap) -> Option<u64> {
    let value = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok()?;
    let ms = match unit {
        "H" => count.saturating_mul(3_600_000),
        "M" => count.saturating_mul(60_000),
        "S" => count.saturating_mul(1_000),
        "m" => count,
        "u" => count / 1_000,
        "n" => count / 1_000_000,
        _ => return None,
    };
    Some(ms.max(1))
}

/// The shorter of two times, where there are any.
pub(super) fn shorter(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The text as metadata has it: of printable ASCII alone.
pub(super) fn noted(text: &str) -> Option<MetadataValue<Ascii>> {
    let plain = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    text.chars().map(plain).collect::<String>().parse().ok()
}

/// The error as gRPC says it.
pub(super) fn status(error: &ApiError) -> Status {
    let code = match error.kind.as_str() {
        "invalid" => Code::InvalidArgument,
        "denied" => Code::PermissionDenied,
        "not_found" => Code::NotFound,
        "too_large" => Code::ResourceExhausted,
        "overloaded" | "unavailable" => Code::Unavailable,
        "timeout" => Code::DeadlineExceeded,
        "cancelled" => Code::Cancelled,
        _ => Code::Internal,
    };
    let message = match &error.hint {
        Some(hint) => format!("{}; {hint}", error.message),
        None => error.message.clone(),
    };
    Status::new(code, message)
}
