//! Texts that are used and never shown.

use std::fmt;

use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize, Serializer};
use subtle::ConstantTimeEq;

use crate::error::{Error, Result};

/// Bytes that nobody can guess.
///
/// # Errors
/// `Internal` if the system has no random numbers.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::internal("ask the system for random numbers"))?;
    Ok(bytes)
}

/// A text that no log, no settings listing and no debug print shows.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// A secret of this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that has to send it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `offered` is the secret; takes the same time wherever they differ. An empty secret matches nothing.
    #[must_use]
    pub fn matches(&self, offered: &[u8]) -> bool {
        !self.0.is_empty() && bool::from(self.0.as_bytes().ct_eq(offered))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A secret is compared whole and never shown.
    #[test]
    fn a_secret_is_compared_whole_and_never_shown() {
        let secret = Secret::new("s3cret");
        assert!(secret.matches(b"s3cret"));
        assert!(!secret.matches(b"s3cre") && !secret.matches(b"s3cretx") && !secret.matches(b""));
        assert!(!Secret::new("").matches(b""));
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"***\"");
        assert_eq!(serde_json::from_str::<Secret>("\"s3cret\"").unwrap(), secret);
    }
}
