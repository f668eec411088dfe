//! Sizes as people write them: `64MiB`, `1GiB`, `512KiB`, `100B`.
//!
//! `#[serde(with = "service::config::bytes")]` on a `u64` field.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// Units, largest first, with their size in bytes.
const UNITS: [(&str, u64); 5] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads `text` as a whole number with a unit.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse(text: &str) -> Result<u64, String> {
    let fault = || format!("`{text}` is no size; write a whole number with B, KiB, MiB, GiB or TiB, such as 64MiB");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(fault)?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| fault())?;
    let (_, size) = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(fault)?;
    number.checked_mul(*size).ok_or_else(fault)
}

/// The shortest text that [`parse`] reads as `bytes`.
#[must_use]
pub fn format(bytes: u64) -> String {
    match UNITS.iter().find(|(_, size)| bytes != 0 && bytes.is_multiple_of(*size)) {
        Some((name, size)) => format!("{}{name}", bytes / size),
        None => "0B".to_owned(),
    }
}

/// For serde.
///
/// # Errors
/// What the serializer says.
pub fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*bytes))
}

/// For serde.
///
/// # Errors
/// When the text is no size.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(D::Error::custom)
}

/// The same for a size that may be absent: `#[serde(default, with = "service::config::bytes::option")]`.
pub mod option {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    /// For serde.
    ///
    /// # Errors
    /// What the serializer says.
    #[allow(clippy::ref_option, reason = "the shape that serde asks for")]
    pub fn serialize<S: Serializer>(bytes: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => super::serialize(bytes, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// For serde.
    ///
    /// # Errors
    /// When the text is no size.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| super::parse(&text).map_err(D::Error::custom)).transpose()
    }
}
