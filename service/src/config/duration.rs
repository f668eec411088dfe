//! Durations as people write them: `250ms`, `2s`, `15m`, `1h`, `7d`.
//!
//! `#[serde(with = "service::config::duration")]` on a `Duration` field.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// Units, longest first, with their length in ms.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads `text` as a whole number with a unit.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse(text: &str) -> Result<Duration, String> {
    let fault = || format!("`{text}` is no duration; write a whole number with ms, s, m, h or d, such as 250ms or 2s");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(fault)?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| fault())?;
    let (_, ms) = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(fault)?;
    number.checked_mul(*ms).map(Duration::from_millis).ok_or_else(fault)
}

/// The shortest text that [`parse`] reads as `duration`, to the millisecond.
#[must_use]
pub fn format(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let unit = UNITS.iter().find(|(_, length)| ms != 0 && ms.is_multiple_of(*length));
    match unit {
        Some((name, length)) => format!("{}{name}", ms / length),
        None => "0ms".to_owned(),
    }
}

/// For serde.
///
/// # Errors
/// What the serializer says.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*duration))
}

/// For serde.
///
/// # Errors
/// When the text is no duration.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(D::Error::custom)
}
