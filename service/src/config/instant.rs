//! Instants as people write them: `2027-03-01`, midnight UTC, or `2027-03-01T09:00:00Z` with any offset; in quotes or as TOML's own.
//!
//! `#[serde(default, with = "service::config::instant::option")]` on an `Option<Timestamp>` field.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// Reads `text` as an instant; without an offset it is UTC.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse(text: &str) -> Result<Timestamp, String> {
    let fault = || format!("`{text}` is no date; write one such as 2027-03-01 or 2027-03-01T09:00:00Z");
    if let Ok(instant) = text.parse() {
        return Ok(instant);
    }
    let civil: DateTime = text.parse().map_err(|_| fault())?;
    Offset::UTC.to_timestamp(civil).map_err(|_| fault())
}

/// For an instant that may be absent.
pub mod option {
    use jiff::Timestamp;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use toml::value::Datetime;

    /// A date in quotes, or one without.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Date(Datetime),
    }

    /// For serde.
    ///
    /// # Errors
    /// What the serializer says.
    #[allow(clippy::ref_option, reason = "the shape that serde asks for")]
    pub fn serialize<S: Serializer>(instant: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        match instant {
            Some(instant) => serializer.collect_str(instant),
            None => serializer.serialize_none(),
        }
    }

    /// For serde.
    ///
    /// # Errors
    /// When it is no date.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        let text = match Option::<Written>::deserialize(deserializer)? {
            None => return Ok(None),
            Some(Written::Text(text)) => text,
            Some(Written::Date(date)) => date.to_string(),
        };
        super::parse(&text).map(Some).map_err(D::Error::custom)
    }
}
